// lib.mjs - what the integration tests share: checks, requests, waiting.
//
// A test is a sentence and a function that throws when the sentence is false.
// Nothing sleeps for a fixed time: poll() repeats a question until it is
// answered or its time is up, and the time only bounds a failure.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import fs from "node:fs";
import https from "node:https";
import { createRequire } from "node:module";
import path from "node:path";
import tls from "node:tls";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("../..", import.meta.url));
// Another build of the programs, or another script that starts a network.
export const bin = process.env.BERTH_BIN ?? path.join(root, "build/bin");
export const deploy_run =
    process.env.BERTH_TEST_RUN ?? path.join(root, "deploy/run");
export const models_folder = path.join(root, "tests/models");
export const model_ids = ["tiny-chat", "tiny-chat-8bit", "tiny-chat-4bit"];
export const WAIT_S = Number(process.env.BERTH_TEST_WAIT_S ?? 60);

// The packages lie in tests/js, beside these files' folder.
const require = createRequire(path.join(root, "tests/js/package.json"));
export const openai_module = () => require("openai");
export const ai_modules = () => ({
    ai: require("ai"),
    compatible: require("@ai-sdk/openai-compatible"),
});

// --- checks -----------------------------------------------------------------

let failures = 0;

// Time for one check, so that one that hangs has a name.
const CHECK_S = Number(process.env.BERTH_TEST_CHECK_S ?? 120);

export async function check(name, body) {
    let timer;
    const late = new Promise((_, reject) => {
        timer = setTimeout(
            () => reject(new Error(`no end within ${CHECK_S} s`)),
            CHECK_S * 1000,
        );
    });
    try {
        await Promise.race([body(), late]);
        console.log(`ok ${name}`);
        return true;
    } catch (error) {
        failures++;
        process.exitCode = 1;
        console.log(`not ok ${name}`);
        console.log(String(error?.stack ?? error).replace(/^/gm, "    "));
        return false;
    } finally {
        clearTimeout(timer);
    }
}

export function skip(name, why) {
    console.log(`skip ${name}: ${why}`);
}

// At the end of a file: connections kept alive must not keep the program.
export function finish() {
    process.exit(failures === 0 ? 0 : 1);
}

// Ask until the answer is true (or anything that counts as true) and return
// it; fails naming @what.  An error thrown meanwhile is the answer "not yet".
export async function poll(what, ask, seconds = WAIT_S) {
    const end = process.hrtime.bigint() + BigInt(seconds) * 1_000_000_000n;
    let last;
    for (;;) {
        try {
            last = undefined;
            const answer = await ask();
            if (answer) return answer;
        } catch (error) {
            last = error;
        }
        if (process.hrtime.bigint() > end)
            throw new Error(`gave up waiting for ${what}`, { cause: last });
        await new Promise((resume) => setTimeout(resume, 25));
    }
}

// --- the network under test -------------------------------------------------

// The network that deploy/run left in the environment, or one made here.
export const network = {
    url: process.env.BERTH_URL,
    ca_file: process.env.BERTH_CA_FILE,
    key: process.env.BERTH_API_KEY,
    folder: process.env.BERTH_RUN_DIR,
};

// The lines NAME='VALUE' that coordinator and deploy/run write for shells.
export function env_read(file) {
    const values = {};
    for (const [, name, value] of fs
        .readFileSync(file, "utf8")
        .matchAll(/^(\w+)='(.*)'$/gm))
        values[name] = value.replaceAll("'\\''", "'");
    return values;
}

const agents = new Map();

function agent_for(ca_file) {
    if (!agents.has(ca_file))
        agents.set(
            ca_file,
            new https.Agent({
                ca: fs.readFileSync(ca_file),
                keepAlive: true,
                maxSockets: 64,
            }),
        );
    return agents.get(ca_file);
}

// Forget idle connections, for counting descriptors.
export function connections_close() {
    for (const agent of agents.values()) agent.destroy();
    agents.clear();
}

// Start a request; calls back with the response's head.  For those who leave.
export function open_request(method, route, options = {}) {
    const key = options.key === undefined ? network.key : options.key;
    const headers = { ...options.headers };
    let body = options.body;
    if (key) headers.authorization = `Bearer ${key}`;
    if (
        body !== undefined &&
        typeof body !== "string" &&
        !Buffer.isBuffer(body)
    )
        body = JSON.stringify(body);
    if (body !== undefined) {
        headers["content-type"] ??= "application/json";
        headers["content-length"] ??= Buffer.byteLength(body);
    }
    const request = https.request(network.url + route, {
        method,
        headers,
        agent: options.agent ?? agent_for(network.ca_file),
    });
    request.end(body);
    return request;
}

// A whole request: {status, headers, text, json}.
export function api(method, route, options = {}) {
    return new Promise((resolve, reject) => {
        const request = open_request(method, route, options);
        // A server that refuses a long body early closes under the writer.
        let is_answered = false;
        request.on("error", (error) => is_answered || reject(error));
        request.on("response", (response) => {
            is_answered = true;
            const parts = [];
            response.on("data", (part) => parts.push(part));
            response.on("error", reject);
            response.on("end", () => {
                const bytes = Buffer.concat(parts);
                const text = bytes.toString("utf8");
                let json;
                try {
                    json = JSON.parse(text);
                } catch {
                    json = undefined;
                }
                resolve({
                    status: response.statusCode,
                    headers: response.headers,
                    bytes,
                    text,
                    json,
                });
            });
        });
    });
}

// A request that must succeed; its JSON.
export async function must(status, method, route, options) {
    const answer = await api(method, route, options);
    assert.equal(
        answer.status,
        status,
        `${method} ${route}: ${answer.status} ${answer.text.slice(0, 500)}`,
    );
    return answer.json;
}

// design.md 4.1: every error has these four members, in this shape.
export function assert_error(answer, status, code) {
    const seen = `${answer.status} ${answer.text.slice(0, 500)}`;
    assert.equal(answer.status, status, seen);
    assert.deepEqual(Object.keys(answer.json), ["error"], seen);
    assert.deepEqual(
        Object.keys(answer.json.error).sort(),
        ["code", "message", "param", "type"],
        seen,
    );
    const { message, type, param } = answer.json.error;
    assert.equal(typeof message, "string", seen);
    assert.ok(message.length > 0, seen);
    assert.equal(typeof type, "string", seen);
    assert.ok(param === null || typeof param === "string", seen);
    const actual = answer.json.error.code;
    assert.ok(actual === null || typeof actual === "string", seen);
    if (code !== undefined) assert.equal(actual, code, seen);
    assert.ok(answer.headers["x-request-id"], "an x-request-id");
}

// --- chats ------------------------------------------------------------------

// A chat body with temperature 0.
export function chat_body(prompt, more = {}) {
    const messages =
        typeof prompt === "string"
            ? [{ role: "user", content: prompt }]
            : prompt;
    return { model: "tiny-chat", messages, temperature: 0, ...more };
}

export async function ask(prompt, more, options) {
    const answer = await api("POST", "/v1/chat/completions", {
        body: chat_body(prompt, more),
        ...options,
    });
    assert.equal(answer.status, 200, answer.text.slice(0, 500));
    return answer;
}

export const content_of = (answer) => answer.json.choices[0].message.content;

export const job_of = (id, options) =>
    must(200, "GET", `/api/v1/jobs/${id}`, options);

const FINAL = ["done", "failed", "cancelled", "quarantined"];

// The job once it has ended; its end is in the database a moment after the
// answer is with the reader.
export function job_ended(id, options) {
    return poll(`the end of job ${id}`, async () => {
        const job = await job_of(id, options);
        return FINAL.includes(job.state) && job;
    });
}

// What all jobs of a key's account cost together.
export async function prices_of(key) {
    let sum = 0;
    let cursor = "";
    do {
        const tail = cursor && `&cursor=${encodeURIComponent(cursor)}`;
        const route = `/api/v1/jobs?limit=100${tail}`;
        const page = await must(200, "GET", route, { key });
        for (const job of page.data) sum += job.price_ucr ?? 0;
        cursor = page.next ?? "";
    } while (cursor !== "");
    return sum;
}

// The lines of questions.tsv, "\n" in them for a line break.
export function questions() {
    const text = fs.readFileSync(
        path.join(models_folder, "questions.tsv"),
        "utf8",
    );
    const plain = (field) => field.replaceAll("\\n", "\n");
    return text
        .split("\n")
        .slice(1)
        .filter((line) => line !== "")
        .map((line) => {
            const [skill, system, question, answer] = line.split("\t");
            const messages = [{ role: "user", content: plain(question) }];
            if (system !== "")
                messages.unshift({ role: "system", content: plain(system) });
            return { skill, messages, answer: plain(answer) };
        });
}

// The lines of conversations.jsonl: {skill, messages, answer}.
export const conversations = () =>
    fs
        .readFileSync(path.join(models_folder, "conversations.jsonl"), "utf8")
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line));

export const reference = () =>
    JSON.parse(
        fs.readFileSync(path.join(models_folder, "reference.json"), "utf8"),
    ).prompts;

// Do @work for every item, @width at a time.
export async function in_parallel(items, width, work) {
    let next = 0;
    const worker = async () => {
        while (next < items.length) {
            const index = next++;
            await work(items[index], index);
        }
    };
    await Promise.all(Array.from({ length: width }, worker));
}

// --- server-sent events -----------------------------------------------------

// The events of a whole stream: [{id, event, data}], by the rules of the
// WHATWG specification; a last event without its blank line is no event.
export function sse_events(text) {
    const events = [];
    let event = {};
    for (const line of text.split(/\r\n|\n|\r/)) {
        if (line === "") {
            if (event.data !== undefined) events.push(event);
            event = {};
            continue;
        }
        if (line.startsWith(":")) continue;
        const colon = line.indexOf(":");
        const name = colon < 0 ? line : line.slice(0, colon);
        const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
        if (name === "data" && event.data !== undefined)
            event.data += `\n${value}`;
        else event[name] = value;
    }
    return events;
}

// --- money ------------------------------------------------------------------

// docs/ledger.md, "Price", by hand in big integers.  @entry is a catalogue
// entry.
export function work_by_hand(entry, n_in, n_out) {
    const big = (value) => BigInt(value);
    const [i, o] = [big(n_in), big(n_out)];
    const moved =
        o * big(entry.bytes_per_token) +
        big(entry.kv_bytes_per_token) * (o * i + (o * (o + 1n)) / 2n);
    const flop =
        i * big(entry.flop_per_token) + i * i * big(entry.attention_flop);
    return { moved, flop };
}

// In ucr.
export function price_by_hand(entry, n_in, n_out) {
    const { moved, flop } = work_by_hand(entry, n_in, n_out);
    const per_mille = 1000n; // up to 12 GB resident
    const number = per_mille * (250_000n * flop + 1000n * 10_000n * moved);
    const unit = 1000n * 10n ** 12n;
    const exact = (number + unit - 1n) / unit;
    return Number(exact > 1000n ? exact : 1000n);
}

// What reading @ids ids again is worth, before the fee limits it.
export const reprefill_by_hand = (entry, ids) =>
    Number((work_by_hand(entry, ids, 0).flop * 250_000n) / 10n ** 12n);

export const fee_by_hand = (price_ucr) => Math.floor((price_ucr * 50) / 1000);

export async function books_balance() {
    const books = await must(200, "GET", "/api/v1/ledger/check");
    assert.equal(books.violations, 0, JSON.stringify(books));
}

// An account of its own with money and a key, so that sums are exact.
export async function new_account(name, amount_ucr, scopes = ["submitter"]) {
    const account = await must(201, "POST", "/api/v1/accounts", {
        body: { name },
    });
    if (amount_ucr > 0)
        await must(201, "POST", "/api/v1/grants", {
            body: { account: account.id, amount_ucr },
        });
    const key = await must(201, "POST", "/api/v1/keys", {
        body: { name: `${name}'s key`, scopes, account: account.id },
    });
    return { id: account.id, name, key: key.key, key_id: key.id };
}

// The account with this name, of all that the operator sees.
export const accounts = async () =>
    (await must(200, "GET", "/api/v1/accounts")).data;
export const account_named = async (name) =>
    (await accounts()).find((account) => account.name === name);

// One more key for an account: {key, id, ...}.
export const new_key = (account, scopes, more = {}) =>
    must(201, "POST", "/api/v1/keys", {
        body: { name: `key ${scopes}`, scopes, account, ...more },
    });

export const balance_of = (key) => must(200, "GET", "/api/v1/balance", { key });

// --- processes --------------------------------------------------------------

export function run(program, words, env = {}) {
    return new Promise((resolve) => {
        execFile(
            program,
            words,
            { env: { ...process.env, ...env }, maxBuffer: 1 << 26 },
            (error, stdout, stderr) =>
                resolve({
                    code: error === null ? 0 : (error.code ?? error.signal),
                    stdout,
                    stderr,
                }),
        );
    });
}

// The ids of @text in tiny-chat.
export async function tokenize(text) {
    const ran = await run(path.join(bin, "berth-engine"), [
        "tokenize",
        "--model",
        path.join(models_folder, "tiny-chat"),
        "--json",
        text,
    ]);
    assert.equal(ran.code, 0, ran.stderr);
    return JSON.parse(ran.stdout).ids;
}

// What a process has started, in any of its threads, and that lives.
export function children_of(pid) {
    const read = (file) => {
        try {
            return fs.readFileSync(file, "utf8").trim().split(/\s+/);
        } catch {
            return []; // It has ended.
        }
    };
    let threads = [];
    try {
        threads = fs.readdirSync(`/proc/${pid}/task`);
    } catch {
        // So has this one.
    }
    return threads
        .flatMap((thread) => read(`/proc/${pid}/task/${thread}/children`))
        .filter(Boolean)
        .map(Number);
}

export function descriptors_of(pid) {
    return fs.readdirSync(`/proc/${pid}/fd`).length;
}

export function is_alive(pid) {
    try {
        const stat = fs.readFileSync(`/proc/${pid}/stat`, "utf8");
        return !/^\d+ \(.*\) [ZX]/s.test(stat);
    } catch {
        return false;
    }
}

export function command_of(pid) {
    try {
        return fs
            .readFileSync(`/proc/${pid}/cmdline`, "utf8")
            .split("\0")
            .slice(0, -1);
    } catch {
        return [];
    }
}

// The lines "EVENT TIME name=value ..." of a log, as objects.
export function log_lines(file, event) {
    if (!fs.existsSync(file)) return [];
    const pairs = /(\w+)=(?:"((?:[^"\\]|\\.)*)"|(\S*))/g;
    return fs
        .readFileSync(file, "utf8")
        .split("\n")
        .filter((line) => line.startsWith(`${event} `))
        .map((line) => {
            const fields = {};
            for (const [, name, quoted, bare] of line.matchAll(pairs))
                fields[name] = quoted ?? bare;
            return fields;
        });
}

// A TLS connection by hand, for what an HTTP client would not do.
export function tls_open(port) {
    const url = new URL(network.url);
    return new Promise((resolve, reject) => {
        const socket = tls.connect({
            host: url.hostname,
            port: port ?? url.port,
            servername: /^[\d.:[\]]+$/.test(url.hostname) ? "" : url.hostname,
            ca: fs.readFileSync(network.ca_file),
            allowHalfOpen: true,
        });
        socket.once("secureConnect", () => resolve(socket));
        socket.once("error", reject);
    });
}
