// pressure.mjs - what a network lacks: readers that read, descriptors, room on
// the disk, a database that answers.  Nothing is lost and nobody else waits.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import https from "node:https";
import path from "node:path";

import {
    api,
    ask,
    assert_error,
    balance_of,
    books_balance,
    chat_body,
    check,
    content_of,
    finish,
    is_alive,
    job_ended,
    job_of,
    must,
    network,
    new_account,
    open_request,
    poll,
    price_by_hand,
    prices_of,
    run,
    skip,
    sse_events,
} from "./lib.mjs";
import {
    agent_start,
    cluster_folder,
    coordinator_start,
    end,
    folder,
    lending,
    network_end,
    network_start,
    pid_of_part,
} from "./own.mjs";

const GRANT_UCR = 400_000_000;
const QUESTION = "What is 17 plus 25?";
const ANSWER = "17 plus 25 is 42.";
const NOBODY = 8; // descriptors beside those in use

let user;
let entry;

const config = path.join(folder, "coordinator.conf");
fs.writeFileSync(config, "http_timeout_s = 2\nhttp_connections_max = 64\n");

async function serves() {
    const answer = await ask(QUESTION, {}, { key: user.key });
    assert.equal(content_of(answer), ANSWER);
}

async function no_money_is_lost() {
    const { available_ucr } = await poll("no credit to be held", async () => {
        const balance = await balance_of(user.key);
        return balance.held_ucr === 0 && balance;
    });
    assert.equal(available_ucr, GRANT_UCR - (await prices_of(user.key)));
    await books_balance();
}

// A stream of about two thousand ids: at this temperature the model does not
// find an end.  The response, not yet read from.
async function long_stream(seed) {
    const request = open_request("POST", "/v1/chat/completions", {
        key: user.key,
        body: chat_body(QUESTION, { stream: true, temperature: 2, seed }),
        agent: new https.Agent({ ca: fs.readFileSync(network.ca_file) }),
    });
    const response = await new Promise((resolve, reject) => {
        request.on("response", resolve);
        request.on("error", reject);
    });
    assert.equal(response.statusCode, 200);
    return { response, job: response.headers["x-berth-job"] };
}

async function read_whole(response) {
    let text = "";
    for await (const part of response) text += part;
    return sse_events(text);
}

// What one SQL statement says.
async function sql(statement) {
    const answer = await run("psql", [
        "-h",
        cluster_folder(),
        ...["-U", "berth", "-At", "-c", statement, "postgres"],
    ]);
    assert.equal(answer.code, 0, answer.stderr);
    return answer.stdout.trim();
}

const writer_backend = async () =>
    Number(
        await sql(
            "SELECT max(pid) FROM pg_stat_activity" +
                " WHERE application_name LIKE 'berth-writer-%'",
        ),
    );

const ready_is = (status) =>
    poll(
        `/readyz to say ${status}`,
        async () =>
            (await api("GET", "/readyz", { key: null })).status === status,
    );

await network_start(["node-1"], ["--config", config]);
user = await new_account("pressed", GRANT_UCR);
entry = (await must(200, "GET", "/api/v1/models")).data.find(
    ({ id }) => id === "tiny-chat",
);

await check(
    "a client that reads nothing is closed; what was delivered is charged",
    async () => {
        const { response, job } = await long_stream(1);
        const closed = new Promise((resolve) => {
            response.once("error", resolve);
            response.once("close", resolve);
        });
        response.pause();
        response.socket.pause();
        await serves(); // others do not wait for it
        const ended = await job_ended(job);
        assert.ok(["done", "cancelled"].includes(ended.state), ended.state);
        assert.ok(ended.completion_tokens > 0);
        assert.equal(
            ended.price_ucr,
            price_by_hand(entry, ended.prompt_tokens, ended.completion_tokens),
        );
        // It has not been read, so it sees the end only when it reads again.
        await poll("its connection to be closed", () => no_socket_of(response));
        response.socket.resume();
        response.resume();
        await closed;
        assert.equal(response.complete, false, "the stream is cut short");
        await no_money_is_lost();
    },
);

// Does the coordinator still hold the other end of this connection?
function no_socket_of(response) {
    const port = response.socket.localPort;
    const hex = port.toString(16).toUpperCase().padStart(4, "0");
    return !fs
        .readFileSync("/proc/net/tcp", "utf8")
        .split("\n")
        .some((line) => {
            const [, , remote, state] = line.trim().split(/\s+/);
            return remote?.endsWith(`:${hex}`) && state === "01";
        });
}

const descriptors = (pid) => fs.readdirSync(`/proc/${pid}/fd`).length;

function limit_descriptors(pid, count) {
    const done = spawnSync("prlimit", ["--pid", `${pid}`, `--nofile=${count}:`]);
    assert.equal(done.status, 0, `${done.stderr}`);
}

await check("without descriptors what runs goes on", async () => {
    const pid = pid_of_part("coordinator");
    const before = fs
        .readFileSync(`/proc/${pid}/limits`, "utf8")
        .match(/Max open files\s+(\d+)/)[1];
    const { response } = await long_stream(2);
    limit_descriptors(pid, descriptors(pid) + NOBODY);
    const callers = Array.from({ length: 3 * NOBODY }, () => {
        const agent = new https.Agent({
            ca: fs.readFileSync(network.ca_file),
            keepAlive: true,
        });
        return api("GET", "/healthz", { key: null, agent, timeout: 1000 });
    });
    const events = await read_whole(response);
    assert.equal(events.at(-1).data, "[DONE]");
    assert.ok(is_alive(pid));
    limit_descriptors(pid, before);
    for (const { status } of await Promise.all(callers))
        assert.ok([200, 503].includes(status), `${status}`);
    await serves();
    await no_money_is_lost();
});

await check("a database that hangs refuses jobs and loses none", async () => {
    const backend = await writer_backend();
    process.kill(backend, "SIGSTOP");
    // This one waits for its hold: it is served or told to come again.
    const first = api("POST", "/v1/chat/completions", {
        key: user.key,
        body: chat_body(QUESTION),
    });
    try {
        await ready_is(503);
        const refused = await api("POST", "/v1/chat/completions", {
            key: user.key,
            body: chat_body(QUESTION),
        });
        assert_error(refused, 503);
        assert.match(refused.json.error.message, /database/);
        assert.ok(Number(refused.headers["retry-after"]) > 0);
    } finally {
        process.kill(backend, "SIGCONT");
    }
    assert.ok([200, 503].includes((await first).status));
    await ready_is(200);
    await serves();
    await no_money_is_lost();
});

await check("killed backends make no request fail for good", async () => {
    const { response } = await long_stream(3);
    const stream = read_whole(response);
    for (let i = 0; i < 20; i++) {
        await sql(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity" +
                " WHERE pid <> pg_backend_pid() AND usename = 'berth'",
        );
        const answers = await Promise.all([
            api("GET", "/api/v1/jobs", { key: user.key }),
            api("GET", "/api/v1/balance", { key: user.key }),
            api("POST", "/v1/chat/completions", {
                key: user.key,
                body: chat_body(QUESTION),
            }),
        ]);
        for (const { status, text, headers } of answers) {
            assert.ok([200, 503].includes(status), `${status} ${text}`);
            if (status === 503) assert.ok(Number(headers["retry-after"]) > 0);
        }
    }
    assert.equal((await stream).at(-1).data, "[DONE]");
    await ready_is(200);
    await serves();
    await no_money_is_lost();
});

// --- a full disk ------------------------------------------------------------

const FULL = "with a full disk jobs are refused first and none is lost";
const words = (line) => {
    const [program, ...rest] = line;
    const done = spawnSync(program, rest);
    return done.status === 0;
};

// The cluster moves to a file system of its own, with little room.
async function move_to_small_disk() {
    const data = path.join(cluster_folder(), "data");
    await end("coordinator", "SIGTERM");
    fs.renameSync(data, `${data}.large`);
    fs.mkdirSync(data, { mode: 0o700 });
    if (!words(["mount", "-t", "tmpfs", "-o", "size=160m", "tmpfs", data])) {
        fs.rmdirSync(data);
        fs.renameSync(`${data}.large`, data);
        return undefined;
    }
    assert.ok(words(["cp", "-a", `${data}.large/.`, data]));
    return data;
}

async function leave_small_disk(data) {
    await end("coordinator", "SIGTERM");
    assert.ok(words(["cp", "-a", `${data}/.`, `${data}.large`]));
    assert.ok(words(["umount", data]));
    fs.rmdirSync(data);
    fs.renameSync(`${data}.large`, data);
}

const small = process.getuid() === 0 ? await move_to_small_disk() : undefined;
if (small === undefined) skip(FULL, "may not mount a file system here");
else
    try {
        await check(FULL, async () => {
            await coordinator_start({ words: ["--config", config] });
            await lending("node-1");
            await serves();
            const filler = path.join(small, "filler");
            spawnSync("dd", ["if=/dev/zero", `of=${filler}`, "bs=64k"]);
            const { response } = await long_stream(4).catch(() => ({}));
            const stream = response && read_whole(response);
            const write = (i) =>
                api("POST", "/api/v1/jobs", {
                    key: user.key,
                    body: {
                        kind: "chat",
                        request: chat_body("x".repeat(500) + i),
                    },
                });
            const refused = await poll("a job to be refused", async () => {
                // More than one write at a time: not all of them are answered.
                const late = Symbol("late");
                const answer = await Promise.race([
                    write(Math.random()),
                    ready_is(503).then(() => late),
                ]);
                return answer === late || answer.status === 503;
            });
            assert.ok(refused);
            const told = await api("POST", "/v1/chat/completions", {
                key: user.key,
                body: chat_body(QUESTION),
            });
            assert_error(told, 503);
            assert.match(told.json.error.message, /database/);
            fs.unlinkSync(filler);
            await ready_is(200);
            if (stream) assert.equal((await stream).at(-1).data, "[DONE]");
            await serves();
            await no_money_is_lost();
        });
    } finally {
        await leave_small_disk(small);
    }

await coordinator_start({ words: ["--config", config] });
await lending("node-1");
await check("after all that the books balance", no_money_is_lost);
await network_end();
finish();
