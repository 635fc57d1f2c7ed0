// wire.mjs - strange bytes on both ports: the HTTPS server and the agents'
// listener answer what can be answered, close the rest, and go on serving.

import assert from "node:assert/strict";
import net from "node:net";
import path from "node:path";
import tls from "node:tls";

import {
    api,
    ask,
    assert_error,
    books_balance,
    chat_body,
    check,
    content_of,
    descriptors_of,
    finish,
    log_lines,
    must,
    network,
    poll,
    tls_open,
} from "./lib.mjs";
import { nodes, pid_of } from "./fleet.mjs";

const { port } = new URL(network.url);
const [serving] = log_lines(
    path.join(network.folder, "coordinator.log"),
    "coordinator.serving",
).slice(-1);
const link_port = Number(serving.link_port);
const body = JSON.stringify(chat_body("What is 17 plus 25?"));
const ANSWER = "17 plus 25 is 42.";

async function still_serves() {
    const answer = await ask("What is 17 plus 25?");
    assert.equal(content_of(answer), ANSWER);
    for (const { name, state } of await nodes())
        if (/^node-\d$/.test(name)) assert.notEqual(state, "offline");
}

// Send @pieces over TLS and read until the other side closes.
async function exchange(pieces, { until = /$^/ } = {}) {
    const socket = await tls_open();
    let text = "";
    const whole = new Promise((resolve) => {
        socket.on("data", (data) => {
            text += data;
            if (until.test(text)) resolve();
        });
        socket.on("end", resolve);
        socket.on("close", resolve);
        socket.on("error", resolve);
    });
    for (const piece of pieces) socket.write(piece);
    await whole;
    socket.destroy();
    return text;
}

const head = (method, route, ...more) =>
    [
        `${method} ${route} HTTP/1.1`,
        `Host: 127.0.0.1:${port}`,
        `Authorization: Bearer ${network.key}`,
        ...more,
        "",
        "",
    ].join("\r\n");

await check("a body in chunks is a body", async () => {
    const chunks = [body.slice(0, 7), body.slice(7)].map(
        (part) => `${Buffer.byteLength(part).toString(16)}\r\n${part}\r\n`,
    );
    const text = await exchange([
        head(
            "POST",
            "/v1/chat/completions",
            "Transfer-Encoding: chunked",
            "Connection: close",
        ),
        ...chunks,
        "0\r\n\r\n",
    ]);
    assert.match(text, /^HTTP\/1\.1 200 /);
    assert.ok(text.includes(ANSWER), text);
});

await check("a request in single bytes is a request", async () => {
    const request = head("GET", "/v1/models", "Connection: close");
    const text = await exchange([...request]);
    assert.match(text, /^HTTP\/1\.1 200 /);
});

await check("two requests sent at once are answered in turn", async () => {
    const text = await exchange([
        head("GET", "/healthz") + head("GET", "/readyz", "Connection: close"),
    ]);
    assert.match(text, /"ok"[^]*"ready"/);
});

await check("HEAD is GET without a body", async () => {
    const text = await exchange([
        head("HEAD", "/v1/models", "Connection: close"),
    ]);
    assert.match(text, /^HTTP\/1\.1 200 /);
    assert.ok(text.endsWith("\r\n\r\n"), text);
});

await check("Expect: 100-continue is told to go on", async () => {
    const text = await exchange(
        [
            head(
                "POST",
                "/v1/chat/completions",
                `Content-Length: ${body.length}`,
                "Expect: 100-continue",
                "Connection: close",
            ),
            body,
        ],
        { until: /\}\s*$/ },
    );
    assert.match(text, /^HTTP\/1\.1 100 /);
    assert.ok(text.includes(ANSWER), text);
});

await check("what is no HTTP gets no answer of ours but an error", async () => {
    for (const pieces of [
        ["\x01\x02 garbage\r\n\r\n"],
        ["GET\r\n\r\n"],
        ["GET /healthz HTTP/9.9\r\n\r\n"],
        [`GET /${"a".repeat(100_000)} HTTP/1.1\r\nHost: x\r\n\r\n`],
        [`GET / HTTP/1.1\r\nHost: x\r\nX: ${"a".repeat(100_000)}\r\n\r\n`],
        [head("POST", "/v1/chat/completions", "Content-Length: -1"), body],
        [
            head("POST", "/v1/chat/completions", "Content-Length: 9".repeat(2)),
            body,
        ],
        [
            head("POST", "/v1/chat/completions", "Transfer-Encoding: chunked"),
            "zz\r\n",
        ],
        [head("GET", "/v1/models%00"), ""],
        [head("GET", "/v1/models/../../etc/passwd", "Connection: close")],
        [head("GET", "/api/v1/jobs?limit=%FF%FE", "Connection: close")],
    ]) {
        const text = await exchange(pieces, { until: /^HTTP[^]*\r\n\r\n/ });
        if (text !== "") assert.match(text, /^HTTP\/1\.[01] [45]\d\d /, text);
    }
    await still_serves();
});

await check("plain HTTP on the port of HTTPS is closed", async () => {
    const socket = net.connect(Number(port), "127.0.0.1");
    socket.on("error", () => {});
    const closed = new Promise((resolve) => socket.once("close", resolve));
    socket.write("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    socket.resume();
    await closed;
    await still_serves();
});

await check("keys in other places than the header open nothing", async () => {
    const base64 = Buffer.from(`x:${network.key}`).toString("base64");
    const query = `/v1/models?api_key=${network.key}&key=${network.key}`;
    assert_error(await api("GET", query, { key: null }), 401);
    for (const headers of [
        { "x-api-key": network.key },
        { cookie: `key=${network.key}` },
        { authorization: `Basic ${base64}` },
    ]) {
        const answer = await api("GET", "/v1/models", { key: null, headers });
        assert_error(answer, 401);
    }
});

await check("NUL and control characters in a prompt are text", async () => {
    const prompt = "a\u0000b\u0001\u001b[31m \u2028 \ufeff";
    const answer = await api("POST", "/v1/chat/completions", {
        body: chat_body(prompt, { max_tokens: 4 }),
    });
    assert.ok([200, 400].includes(answer.status), answer.text);
    await still_serves();
});

// --- the agents' listener ---------------------------------------------------

const closes = (socket) =>
    new Promise((resolve) => {
        socket.on("error", () => {});
        socket.on("close", resolve);
        socket.resume();
    });

await check(
    "the link closes on who speaks no TLS 1.3 with a certificate",
    async () => {
        const plain = net.connect(link_port, "127.0.0.1");
        plain.write("GET / HTTP/1.1\r\n\r\n");
        await closes(plain);
        for (const options of [
            { maxVersion: "TLSv1.2" },
            {},
            { minVersion: "TLSv1.3" },
        ]) {
            const socket = tls.connect({
                host: "127.0.0.1",
                port: link_port,
                rejectUnauthorized: false,
                ...options,
            });
            let data = "";
            socket.on("data", (part) => (data += part));
            socket.on("secureConnect", () => socket.write("\0\0\0\x02{}"));
            await closes(socket);
            assert.equal(data, "");
        }
        await still_serves();
    },
);

await check("a hundred strangers on both ports keep nobody out", async () => {
    const pid = pid_of("coordinator");
    const before = descriptors_of(pid);
    const sockets = [];
    for (let i = 0; i < 50; i++)
        for (const target of [Number(port), link_port]) {
            const socket = net.connect(target, "127.0.0.1");
            socket.on("error", () => {});
            socket.write(i % 2 === 0 ? "\x16\x03\x01" : "");
            sockets.push(socket);
        }
    await still_serves();
    for (const socket of sockets) socket.destroy();
    await poll(
        "their descriptors to be closed",
        () => descriptors_of(pid) <= before + 2,
    );
});

await check("after all that the books balance", books_balance);
await must(200, "GET", "/healthz", { key: null });
finish();
