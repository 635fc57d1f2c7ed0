// pressure.mjs - what a network lacks: readers that read, descriptors, room on
// the disk, a database that answers.  Nothing is lost and nobody else waits.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import https from "node:https";
import path from "node:path";
import tls from "node:tls";

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
    cluster_folder,
    coordinator_config,
    coordinator_start,
    end,
    folder,
    lending,
    log_tail,
    network_end,
    network_start,
    pid_of_part,
} from "./own.mjs";
import { engine_for } from "./fleet.mjs";

const GRANT_UCR = 400_000_000;
const QUESTION = "What is 17 plus 25?";
const COUNT = "Count from 1 to 200.";
const ANSWER = "17 plus 25 is 42.";
const SPARE = 8; // descriptors beside those in use
const LOOKS = 20;
const OPEN = "01"; // of a socket in /proc/net/tcp

let user;
let entry;

Object.assign(coordinator_config, {
    http_timeout_s: 4,
    http_connections_max: 64,
});

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

// The response to a stream of hundreds of ids, not yet read from.
async function long_stream() {
    const request = open_request("POST", "/v1/chat/completions", {
        key: user.key,
        body: chat_body(COUNT, { stream: true }),
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

await network_start(["node-1"]);
user = await new_account("pressed", GRANT_UCR);
entry = await must(200, "GET", "/api/v1/catalogue/tiny-chat");

// The server's end of the connection from local @port: {state, unsent}, where
// unsent counts bytes that the client has no room for.
function server_end(port) {
    const hex = port.toString(16).toUpperCase().padStart(4, "0");
    for (const line of fs.readFileSync("/proc/net/tcp", "utf8").split("\n")) {
        const [, , remote, state, queues] = line.trim().split(/\s+/);
        if (remote?.endsWith(`:${hex}`))
            return { state, unsent: parseInt(queues.split(":")[0], 16) };
    }
    return undefined;
}

const request_text = (method, route, body = "") =>
    [
        `${method} ${route} HTTP/1.1`,
        "host: berth",
        `authorization: Bearer ${user.key}`,
        "content-type: application/json",
        `content-length: ${Buffer.byteLength(body)}`,
        "",
        body,
    ].join("\r\n");

// A connection whose client asks and asks and never reads, until it has no room
// for what it asked.
async function full_connection() {
    const { hostname, port } = new URL(network.url);
    const socket = tls.connect({
        host: hostname,
        port,
        ca: fs.readFileSync(network.ca_file),
    });
    const lost = new Promise((resolve) => socket.once("close", resolve));
    socket.on("error", () => {});
    await new Promise((resolve) => socket.once("secureConnect", resolve));
    socket.pause();
    let looks = 0; // in a row at which it had no room
    await poll("the client to be full", () => {
        looks = server_end(socket.localPort).unsent > 0 ? looks + 1 : 0;
        if (looks === 0)
            for (let i = 0; i < 4; i++)
                socket.write(request_text("GET", "/api/v1/catalogue"));
        return looks === LOOKS;
    });
    return { socket, lost };
}

await check(
    "a client that reads nothing is closed and keeps nobody waiting",
    async () => {
        const { socket, lost } = await full_connection();
        const port = socket.localPort;
        await serves();
        await poll(
            "its connection to be closed",
            () => server_end(port)?.state !== OPEN,
        );
        socket.resume();
        await lost;
        await no_money_is_lost();
    },
);

// All of what was written is with the kernel: only it can see that this client
// makes no progress, since the server waits for the job.
await check(
    "a client that reads nothing and its job do not wait for each other",
    async () => {
        const engine = await engine_for("node-1", "tiny-chat");
        const { socket, lost } = await full_connection();
        process.kill(engine.pid, "SIGSTOP");
        try {
            const body = JSON.stringify(chat_body(COUNT, { stream: true }));
            socket.write(request_text("POST", "/v1/chat/completions", body));
            const job = await poll("its job", async () => {
                const { data } = await must(200, "GET", "/api/v1/jobs", {
                    key: user.key,
                });
                return data.find(({ state }) => state === "running");
            });
            assert.equal((await job_ended(job.id)).state, "cancelled");
        } finally {
            process.kill(engine.pid, "SIGCONT");
        }
        socket.resume();
        await lost;
        await no_money_is_lost();
    },
);

await check(
    "a job is done and charged though its client does not read",
    async () => {
        const { response, job } = await long_stream();
        response.pause();
        response.socket.pause();
        const ended = await job_ended(job);
        assert.equal(ended.state, "done");
        const { prompt_tokens, completion_tokens } = ended.usage;
        assert.equal(
            ended.price_ucr,
            price_by_hand(entry, prompt_tokens, completion_tokens),
        );
        response.socket.destroy();
        await no_money_is_lost();
    },
);

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
    const { response } = await long_stream();
    limit_descriptors(pid, descriptors(pid) + SPARE);
    const callers = Array.from({ length: 3 * SPARE }, () => {
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
    const chat = () =>
        api("POST", "/v1/chat/completions", {
            key: user.key,
            body: chat_body(QUESTION),
        });
    // Whoever has a key may ask again which job it made.
    const keyed = () =>
        api("POST", "/api/v1/jobs", {
            key: user.key,
            headers: { "idempotency-key": "while it hangs" },
            body: { kind: "chat", request: chat_body(QUESTION) },
        });
    const is_refused = (answer) => {
        assert_error(answer, 503);
        assert.match(answer.json.error.message, /database did not answer/);
        assert.ok(Number(answer.headers["retry-after"]) > 0);
    };
    const backend = await writer_backend();
    process.kill(backend, "SIGSTOP");
    const waiting = [chat(), keyed()]; // for their holds
    try {
        await ready_is(503);
        const refused = await chat();
        assert_error(refused, 503);
        assert.match(refused.json.error.message, /database does not answer/);
        assert.ok(Number(refused.headers["retry-after"]) > 0);
        for (const answer of waiting) is_refused(await answer);
    } finally {
        process.kill(backend, "SIGCONT");
    }
    await ready_is(200);
    const again = await poll("the repeat to be taken", async () => {
        const answer = await keyed();
        return answer.status === 202 && answer;
    });
    const { state, result } = await job_ended(again.json.id, { key: user.key });
    assert.equal(state, "done");
    assert.equal(result.choices[0].message.content, ANSWER);
    assert.equal((await keyed()).json.id, again.json.id);
    await serves();
    await no_money_is_lost();
});

await check("a request that is late for the stop is refused", async () => {
    const readers = (
        await sql(
            "SELECT pid FROM pg_stat_activity WHERE usename = 'berth' AND" +
                " application_name NOT LIKE 'berth-writer-%'" +
                " AND pid <> pg_backend_pid()",
        )
    ).split("\n");
    assert.ok(Number(readers[0]) > 0, `readers: ${readers}`);
    for (const pid of readers) process.kill(Number(pid), "SIGSTOP");
    // It looks for an earlier job first, and waits for that.
    const late = api("POST", "/api/v1/jobs", {
        key: user.key,
        headers: { "idempotency-key": "late" },
        body: { kind: "chat", request: chat_body(QUESTION) },
    }).then(
        ({ status }) => status,
        () => 503, // the connection was closed
    );
    const stopped = end("coordinator", "SIGTERM");
    await poll("the coordinator to be stopping", () =>
        log_tail("coordinator").includes("coordinator.stopping"),
    );
    for (const pid of readers) process.kill(Number(pid), "SIGCONT");
    assert.equal(await late, 503);
    assert.deepEqual(await stopped, { code: 0, signal: null });
    await coordinator_start();
    await serves();
    await no_money_is_lost();
});

await check("killed backends make no request fail for good", async () => {
    const { response } = await long_stream();
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
            await coordinator_start();
            await lending("node-1");
            await serves();
            const filler = path.join(small, "filler");
            spawnSync("dd", ["if=/dev/zero", `of=${filler}`, "bs=64k"]);
            const { response } = await long_stream().catch(() => ({}));
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

await coordinator_start();
await lending("node-1");
await check("after all that the books balance", no_money_is_lost);
await network_end();
finish();
