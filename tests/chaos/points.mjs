// points.mjs - a part of a network dies at every named point between two steps
// (common/fault.h), one after the other, and nothing is lost.
//
//   tests/integration/with_node tests/chaos/points.mjs [POINT...]
//
// Needs programs with fault points: build/debug/bin, or BERTH_BIN.  For each
// point a network under a small load loses the part that passes it, at its first
// passage, and starts it again; a point that is not passed in service is tried
// after a crash of the coordinator.  A FAULT_POINT is also made to fail instead.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";

process.env.BERTH_BIN ??= new URL("../../build/debug/bin", import.meta.url)
    .pathname;
const lib = await import("../integration/lib.mjs");
const own = await import("../integration/own.mjs");
const fleet = await import("../integration/fleet.mjs");
const { api, check, finish, must, poll, root } = lib;

const AGENTS = ["node-1", "node-2"];
const COUNT = "Count from 1 to 200.";
const NUMBERS = Array.from({ length: 200 }, (_, i) => i + 1).join(", ");
const FILES = ["coordinator", "node-agent", "inference", "ledger", "common"];

if (!fs.existsSync(path.join(process.env.BERTH_BIN, "berth-coordinator"))) {
    lib.skip("points", "no programs with fault points: make MODE=debug");
    process.exit(0);
}

// The points in the sources: [{name, can_fail, part}].
function points_read() {
    const text = execFileSync(
        "grep",
        ["-rhoE", 'FAULT_(POINT|STEP)\\("[^"]+"\\)', "--include=*.c", ...FILES],
        { cwd: root, encoding: "utf8" },
    );
    const part_of = (name) =>
        /^(agent|engine)\./.test(name) ? "node-1" : "coordinator";
    return [...text.matchAll(/FAULT_(POINT|STEP)\("([^"]+)"\)/g)].map(
        ([, kind, name]) => ({
            name,
            can_fail: kind === "POINT",
            part: part_of(name),
        }),
    );
}

let user;
let entry;

const start = {
    coordinator: (env) => own.coordinator_begin(env),
    "node-1": (env) => own.agent_start("node-1", { reconnect_max_s: 1 }, env),
};

async function ready() {
    await poll(
        "the coordinator to be ready",
        async () =>
            (await api("GET", "/readyz", { key: null })).status === 200,
    );
    // Who was drained while the others worked takes jobs again.
    await poll("the nodes to take jobs", async () => {
        for (const { id } of await fleet.nodes())
            await must(200, "POST", `/api/v1/nodes/${id}/resume`);
        return true;
    });
    await own.lending(...AGENTS);
}

async function submit() {
    const { id } = await poll("a job to be taken", async () => {
        const answer = await api("POST", "/api/v1/jobs", {
            key: user.key,
            headers: { "idempotency-key": submit.key },
            body: { kind: "chat", request: lib.chat_body(COUNT) },
        });
        return answer.status === 202 && answer.json;
    });
    return id;
}

// The text of a job's events, read on over any number of broken connections.
async function follow(id) {
    let text = "";
    let last;
    await poll(`the last event of ${id}`, async () => {
        const headers = last === undefined ? {} : { "last-event-id": last };
        const whole = await read(`/api/v1/jobs/${id}/events`, headers);
        for (const event of lib.sse_events(whole)) {
            const index = Number(event.id);
            if (index !== (last === undefined ? 0 : Number(last) + 1))
                text += `<event ${index} after ${last}>`;
            last = event.id;
            if (event.event !== "content") return true;
            text += JSON.parse(event.data).text;
        }
        return false;
    });
    return text;
}

// What can be read before the end of the response or of its connection.
function read(route, headers) {
    return new Promise((resolve, reject) => {
        const request = lib.open_request("GET", route, {
            key: user.key,
            headers,
        });
        let text = "";
        request.on("error", reject);
        request.on("response", (response) => {
            response.setEncoding("utf8");
            response.on("data", (data) => (text += data));
            response.on("error", () => resolve(text));
            response.on("end", () => resolve(text));
        });
    });
}

// A whole chat: its answer, or what came instead; null when that was nothing.
async function chat() {
    try {
        const answer = await api("POST", "/v1/chat/completions", {
            key: user.key,
            body: lib.chat_body(COUNT),
        });
        return answer.status === 200 ? lib.content_of(answer) : answer.text;
    } catch {
        return null; // the connection broke
    }
}

async function load(name) {
    submit.key = `${name} ${load.count++}`;
    const first = await submit();
    const again = await submit();
    assert.equal(again, first, "one key, one job");
    submit.key = `${name} ${load.count++}`;
    const other = await submit();
    const texts = await Promise.all([follow(first), follow(other)]);
    for (const text of texts) assert.equal(text, NUMBERS);
    return [first, other];
}
load.count = 0;

async function all_is_right(ids) {
    for (const id of ids) {
        const job = await lib.job_ended(id, { key: user.key });
        assert.equal(job.state, "done", JSON.stringify(job).slice(0, 600));
        assert.equal(job.result.choices[0].message.content, NUMBERS);
        assert.equal(
            job.price_ucr,
            lib.price_by_hand(
                entry,
                job.usage.prompt_tokens,
                job.usage.completion_tokens,
            ),
        );
        const sum = job.attempts.reduce((all, { ids: some }) => all + some, 0);
        assert.equal(sum, job.usage.completion_tokens);
    }
    await poll(
        "no credit to be held",
        async () => (await lib.balance_of(user.key)).held_ucr === 0,
    );
    const balance = await lib.balance_of(user.key);
    assert.equal(
        balance.available_ucr,
        user.granted - (await lib.prices_of(user.key)),
    );
    await lib.books_balance();
}

const list_file = path.join(own.folder, "points");

const was_passed = (name) =>
    fs.existsSync(list_file) &&
    fs.readFileSync(list_file, "utf8").split("\n").includes(name);

const env_of = (name, how) => ({
    FAULT: "1",
    FAULT_NAME: name,
    FAULT_DO: how,
    FAULT_LIST: list_file,
});

// What kills itself is started again, as init would.  A journal that is not
// there is written anew, and put in its place whole.
function start_to_die(part, name, how) {
    if (name.startsWith("agent.journal.renam"))
        fs.rmSync(path.join(own.folder, part, "journal"), { force: true });
    const again = (_, signal) => signal === "SIGKILL" && start[part]({});
    return Promise.resolve(start[part](env_of(name, how))).then(() =>
        own.part(part).once("exit", again),
    );
}

// An agent gets all the work; an engine that dies leaves its job to another
// node, for the next one in its place dies likewise.
async function alone(part, name) {
    await ready();
    if (name.startsWith("agent.")) await fleet.only_nodes(part);
}

// The part has passed the point by the time that its jobs have ended.
async function in_service(part, name, how) {
    await own.end(part, "SIGTERM");
    await start_to_die(part, name, how);
    if (part !== "coordinator") await alone(part, name);
    return load(`${name} ${how}`);
}

const is_running = async () =>
    (await must(200, "GET", "/api/v1/jobs?state=running", { key: user.key }))
        .data.length > 0;

// The coordinator dies in the middle, so that nodes end their jobs unheard and
// come back with them.
async function after_a_crash(part, name, how) {
    for (const each of new Set(["coordinator", part])) {
        await own.end(each, "SIGTERM");
        if (each === "coordinator") await start.coordinator({});
        else await start_to_die(part, name, how);
    }
    await alone(part, name);
    const work = load(`${name} ${how}, crash`);
    await poll("a job to run", is_running);
    await own.end("coordinator", "SIGKILL");
    if (part === "coordinator") await start_to_die(part, name, how);
    else {
        const journal = path.join(own.folder, part, "journal");
        await poll(
            "an end that nobody heard",
            () =>
                was_passed(name) ||
                (fs.existsSync(journal) && fs.statSync(journal).size > 0),
        );
        await start.coordinator({});
    }
    return work;
}

// The day's key is made once: so that it is made now.
function day_key_remove() {
    const keys = path.join(own.dev, "content-keys");
    for (const file of fs.readdirSync(keys))
        fs.rmSync(path.join(keys, file));
}

// An engine dies under a job.
async function after_a_loss(part, name, how) {
    await own.end(part, "SIGTERM");
    await start_to_die(part, name, how);
    await ready();
    const work = load(`${name} ${how}, loss`);
    await poll("a job to run", is_running);
    for (const each of AGENTS)
        for (const { pid } of fleet.engines_of(own.pid_of_part(each)))
            process.kill(pid, "SIGKILL");
    return work;
}

// A job may end a moment before the crash that was to be in its middle.
function ways_of(name) {
    const crashes = [after_a_crash, after_a_crash, after_a_crash];
    const calm = [in_service, after_a_loss];
    return /held|resumed|adopts|journal/.test(name)
        ? [...crashes, ...calm]
        : [...calm, ...crashes];
}

async function passes(part, name, how) {
    for (const way of ways_of(name)) {
        fs.rmSync(list_file, { force: true });
        if (name === "content.key") day_key_remove();
        const whole = way === in_service ? chat() : null;
        const ids = await way(part, name, how);
        const answer = await whole;
        if (part !== "coordinator" && whole !== null)
            assert.equal(answer, NUMBERS);
        if (own.has_ended(own.part(part))) await start[part]({});
        await ready();
        await all_is_right(ids);
        if (was_passed(name)) return;
    }
    throw new Error("nothing here passes it");
}

const chosen = process.argv.slice(2);
const points = points_read().filter(
    ({ name }) => chosen.length === 0 || chosen.includes(name),
);

const is_up = await check("a network with fault points starts", async () => {
    await own.network_start(AGENTS);
    user = await lib.new_account("user", 900_000_000);
    user.granted = 900_000_000;
    entry = await must(200, "GET", "/api/v1/catalogue/tiny-chat");
    await own.end("node-1", "SIGTERM");
    start["node-1"]({});
    await ready();
});
if (is_up)
    for (const { name, part, can_fail } of points)
        for (const how of can_fail ? ["kill", "fail"] : ["kill"])
            await check(`${how} at ${name}: nothing is lost`, () =>
                passes(part, name, how),
            );
await own.network_end();
finish();
