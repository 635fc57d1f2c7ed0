// bad_request.mjs - send a line of tests/data/bad_requests.jsonl as it stands.
//
// A line is {name, method, path, headers, body or base64, key} for what an HTTP
// client can send, {name, raw, cut} for bytes that it would not: after the
// last of them we close, when "cut".  Text is in pieces; [TEXT, N] is TEXT N
// times.  What must come back: status, and code, param and message of an error
// of ours.

import fs from "node:fs";
import path from "node:path";

import { api, network, root, tls_open } from "./lib.mjs";

export const bad_requests = () =>
    fs
        .readFileSync(path.join(root, "tests/data/bad_requests.jsonl"), "utf8")
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line));

const whole = (pieces) =>
    [pieces]
        .flat()
        .map((piece) => (Array.isArray(piece) ? piece : [piece, 1]))
        .map(([text, count]) => text.repeat(count))
        .join("");

function raw_send({ raw, cut }) {
    const bytes = whole(raw).replaceAll("{KEY}", network.key);
    return new Promise((resolve, reject) => {
        let text = "";
        tls_open().then((socket) => {
            const over = () => {
                socket.destroy();
                const [, status] = /^HTTP\/1\.[01] (\d+)/.exec(text) ?? [];
                const [, json] = /\r\n\r\n(\{"error"[^]*)$/.exec(text) ?? [];
                resolve({
                    status: Number(status ?? 0),
                    json: json === undefined ? undefined : JSON.parse(json),
                    text,
                });
            };
            socket.on("data", (data) => {
                text += data;
                if (/^HTTP[^]*\r\n\r\n[^]*[}>]\s*$/.test(text)) over();
            });
            socket.on("end", over);
            socket.on("close", over);
            socket.on("error", over);
            socket.write(bytes, "latin1", () => cut && socket.end());
        }, reject);
    });
}

export function bad_request_send(wrong) {
    if (wrong.raw !== undefined) return raw_send(wrong);
    return api(wrong.method, wrong.path, {
        headers: wrong.headers,
        key: wrong.key,
        body:
            wrong.base64 === undefined
                ? wrong.body && whole(wrong.body)
                : Buffer.from(wrong.base64, "base64"),
    });
}
