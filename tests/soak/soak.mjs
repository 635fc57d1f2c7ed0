// soak.mjs - one engine under mixed requests for a long time, with more of
// them than it has slots: `make soak MINUTES=30`.
//
// Every answer is known beforehand: each request was asked once alone.  Some
// requests are cancelled in the middle.  The memory of the process is read
// every few seconds.  Ends with 1 when an answer differs, a cancelled request
// makes an id after its end, or memory grows after the warm-up.

import { execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

import { prng } from "../chaos/prng.mjs";
import { bin, conversations, models_folder, poll } from "../integration/lib.mjs";
import { Engine } from "./engine.mjs";

const minutes = Number(process.env.MINUTES || 30);
const seed = process.env.SEED || "1";
const model = path.join(
    models_folder,
    process.env.MODEL || "tiny-chat-4bit",
);
const SLOTS = 8;
const IN_FLIGHT = 2 * SLOTS;
const REQUESTS = 120;
const MEMORY_EVERY_MS = 5000;
// What memory may differ by after the warm-up: pages of the allocator.
const FLAT_KB = 4096;
const WARM_UP = 0.2;

const random = prng(seed, "soak");
const work = fs.mkdtempSync(path.join(os.tmpdir(), "berth-soak."));
process.on("exit", () => fs.rmSync(work, { recursive: true, force: true }));

const tool = (command, ...words) =>
    JSON.parse(
        execFileSync(
            `${bin}/berth-engine`,
            [command, "--model", model, ...words, "--json"],
            { encoding: "utf8" },
        ),
    );

function prompt_of({ messages }, index) {
    const file = path.join(work, `messages-${index}.json`);
    fs.writeFileSync(file, JSON.stringify(messages));
    return tool("template", "--messages", file, "--tokens").ids;
}

// Conversations that share beginnings, and noise of other lengths.
function requests_make() {
    const config = JSON.parse(
        fs.readFileSync(path.join(model, "config.json"), "utf8"),
    );
    const asked = conversations().slice(0, REQUESTS / 2).map(prompt_of);
    return Array.from({ length: REQUESTS }, (_, index) => {
        const prompt =
            asked[index] ??
            Array.from({ length: random.whole(1, 600) }, () =>
                random.whole(0, config.vocab_size - 1),
            );
        const request = { prompt, max_tokens: random.whole(1, 160) };
        if (random.chance(0.5))
            Object.assign(request, {
                temperature: random.whole(3, 12) / 10,
                top_p: random.one_of([1, 0.9, 0.5]),
                top_k: random.one_of([0, 40]),
                seed: random.whole(0, 2 ** 31),
            });
        if (random.chance(0.2)) request.stop = [random.one_of([".", " a", "e"])];
        return request;
    });
}

const running = new Map(); // by job: what is known of it
const ended = new Set();
const wrong = [];
let ready = false;
let finished = 0;
let cancelled = 0;
let made = 0;
const cancel_ms = [];

function on_tokens({ job, first, ids }) {
    const state = running.get(job);
    if (state === undefined) {
        wrong.push(`ids of ${job}, which has ended`);
        return;
    }
    if (first !== state.ids.length)
        wrong.push(`${job}: ids from ${first} after ${state.ids.length}`);
    state.ids.push(...ids);
    made += ids.length;
    if (state.cancel_at !== undefined && state.ids.length >= state.cancel_at) {
        state.cancel_at = undefined;
        state.cancelled = performance.now();
        engine.cancel(job);
    }
}

function on_end(message) {
    const state = running.get(message.job);
    if (state === undefined || ended.has(message.job)) {
        wrong.push(`${message.job} ended twice`);
        return;
    }
    running.delete(message.job);
    ended.add(message.job);
    if (message.t === "job.fail" && state.cancelled === undefined)
        wrong.push(`${message.job} failed: ${message.code}: ${message.text}`);
    if (state.cancelled !== undefined) {
        cancelled++;
        cancel_ms.push(performance.now() - state.cancelled);
    }
    state.on_end(state.ids, message);
}

function on_frame(message) {
    if (message.t === "engine.ready") ready = true;
    else if (message.t === "job.tokens") on_tokens(message);
    else if (message.t === "job.done" || message.t === "job.fail")
        on_end(message);
}

const engine = new Engine(
    model,
    path.join(work, "socket"),
    ["--slots", String(SLOTS), "--kv-bytes", "24MiB"],
    on_frame,
);
process.on("exit", () => engine.child.kill("SIGKILL"));
const gone = engine.exited.then((how) => {
    throw new Error(`the engine ended with ${how}`);
});
gone.catch(() => {});

// The ids of an answer and the frame that ended it.
const ask = (request, cancel_at) =>
    new Promise((resolve) => {
        running.set(engine.run(request), {
            ids: [],
            cancel_at,
            on_end: (ids, end) => resolve([ids, end]),
        });
    });

const memory_kb = () =>
    Number(
        /VmRSS:\s+(\d+)/.exec(
            fs.readFileSync(`/proc/${engine.pid}/status`, "utf8"),
        )[1],
    );

const same = (ids, expected) =>
    ids.length <= expected.length && ids.every((id, at) => id === expected[at]);

// One of the clients: asks until @until, compares.
async function client(requests, until) {
    while (performance.now() < until) {
        const { request, answer } = random.one_of(requests);
        const cancel_at =
            random.chance(0.15) && answer.length > 2
                ? random.whole(1, answer.length - 1)
                : undefined;
        const [ids, end] = await ask(request, cancel_at);
        finished++;
        const whole = end.t === "job.done";
        if (!same(ids, answer) || (whole && ids.length !== answer.length))
            wrong.push(
                `${JSON.stringify(request)}: ${ids}, alone it was ${answer}`,
            );
    }
}

const memory = [];
function memory_watch() {
    memory.push(memory_kb());
    return setInterval(() => memory.push(memory_kb()), MEMORY_EVERY_MS);
}

const at_part = (sorted, part) =>
    sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))];

function report() {
    const warm = memory.slice(Math.floor(memory.length * WARM_UP));
    const grown = warm.at(-1) - warm[0];
    const sorted = cancel_ms.sort((a, b) => a - b);
    if (grown > FLAT_KB)
        wrong.push(`memory grew by ${grown} kB after the warm-up`);
    console.log(
        `memory: ${memory[0]} kB at the start, ${warm[0]} kB warm, ` +
            `${Math.max(...warm)} kB at most, ${warm.at(-1)} kB at the end`,
    );
    if (sorted.length > 0)
        console.log(
            `cancelled: ${cancelled}; from the wish to the end p50 ` +
                `${at_part(sorted, 0.5).toFixed(1)} ms, p99 ` +
                `${at_part(sorted, 0.99).toFixed(1)} ms, at most ` +
                `${sorted.at(-1).toFixed(1)} ms`,
        );
    for (const text of wrong.slice(0, 10)) console.log(`wrong: ${text}`);
    console.log(
        `soak: ${minutes} minutes, ${finished} requests, ${made} ids, ` +
            `${wrong.length} wrong (SEED=${seed})`,
    );
}

async function main() {
    await engine.connect();
    await poll("engine.ready", () => ready);
    const requests = [];
    for (const request of requests_make())
        requests.push({ request, answer: (await ask(request))[0] });
    const until = performance.now() + minutes * 60_000;
    const watch = memory_watch();
    await Promise.all(
        Array.from({ length: IN_FLIGHT }, () => client(requests, until)),
    );
    clearInterval(watch);
    memory.push(memory_kb());
    report();
    engine.close();
}

await Promise.race([main(), gone]);
process.exit(wrong.length === 0 ? 0 : 1);
