// held.mjs - reconciliation after a lost link and after a dead coordinator, both
// directions, word for word: stand-ins speak the link protocol.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";

import {
    api,
    assert_error,
    balance_of,
    bin,
    books_balance,
    chat_body,
    check,
    children_of,
    finish,
    job_ended,
    job_of,
    models_folder,
    must,
    network,
    new_account,
    open_request,
    poll,
    price_by_hand,
    run,
    sse_events,
    tokenize,
} from "./lib.mjs";
import {
    agent_join,
    berth,
    cluster_folder,
    coordinator_config,
    coordinator_start,
    dev,
    end,
    folder,
    network_end,
} from "./own.mjs";
import { row_of, rows_not_met } from "./error_table.mjs";
import { node_in_state } from "./fleet.mjs";
import { StandIn } from "./standin.mjs";

const TEXT = "One, two, three, four, five, six, seven, eight, nine, ten.";
const NAMES = ["first", "second", "third"];
const nodes = {};
let user;
let entry;
let ids;

// A job whose whole answer is @ids: it ends at max_tokens.
async function submit(more = {}) {
    const body = {
        kind: "chat",
        request: chat_body("Count.", { max_tokens: ids.length, ...more }),
    };
    const { id } = await must(202, "POST", "/api/v1/jobs", {
        key: user.key,
        body,
    });
    return id;
}

// Which of the stand-ins was given the job.
async function given(job) {
    const node = await poll(`a run of ${job}`, () =>
        Object.values(nodes).find(
            (node) =>
                node.is_open && node.has("job.run", (run) => run.job === job),
        ),
    );
    return { node, run: await node.take_run() };
}

const held_of = (run, more) => ({
    job: run.job,
    attempt: run.attempt,
    ended: false,
    done: run.done.length,
    ids: 0,
    ...more,
});

const delivered = (job, count) =>
    poll(`${count} ids of ${job} to be read`, async () => {
        const text = await events_text(job, count);
        return text.length >= 1;
    });

// The text of the events up to the id at @count, read while the job lives.
function events_text(job, count) {
    return new Promise((resolve, reject) => {
        const request = open_request("GET", `/api/v1/jobs/${job}/events`, {
            key: user.key,
        });
        let text = "";
        request.on("error", reject);
        request.on("response", (response) => {
            response.setEncoding("utf8");
            response.on("error", () => {});
            response.on("data", (data) => {
                text += data;
                if (sse_events(text).length >= count) {
                    request.destroy();
                    resolve(text);
                }
            });
            response.on("end", () => resolve(text));
        });
    });
}

async function ended_well(job, attempts) {
    const seen = await job_ended(job, { key: user.key });
    assert.equal(seen.state, "done", JSON.stringify(seen).slice(0, 800));
    assert.equal(seen.result.choices[0].message.content, TEXT);
    assert.equal(seen.usage.completion_tokens, ids.length);
    assert.equal(
        seen.price_ucr,
        price_by_hand(entry, seen.usage.prompt_tokens, ids.length),
    );
    assert.deepEqual(
        seen.attempts.map(({ ids: count }) => count),
        attempts,
    );
    return seen;
}

const STATUS = {
    cancelled: 409,
    job_quarantined: 400,
    network_fault: 503,
    no_capacity: 429,
    target_lost: 503,
};

// The error of a job that ended so, against docs/errors.md.
function is_told(job) {
    const { code, message } = job.error;
    return row_of(["faults"], STATUS[code], code, message).id;
}

function is_answered(answer, id) {
    assert_error(answer, answer.status);
    const { code, message } = answer.json.error;
    assert.equal(row_of(["faults"], answer.status, code, message).id, id);
}

async function connect(...names) {
    for (const name of names) await nodes[name].connect();
    for (const name of names) await node_in_state(name, "lending");
}

async function drop(...names) {
    for (const name of names)
        if (nodes[name].is_open) await nodes[name].drop();
    for (const name of names) await node_in_state(name, "offline");
}

const alone = async (name) => {
    await drop(...NAMES.filter((other) => other !== name));
    if (!nodes[name].is_open) await connect(name);
};

const is_up = await check("a network of stand-ins starts", async () => {
    coordinator_config.adrift_s = 3;
    await coordinator_start();
    const added = await berth([
        "models",
        "add",
        path.join(models_folder, "tiny-chat"),
    ]);
    assert.equal(added.code, 0, added.stderr);
    await must(201, "POST", "/api/v1/accounts", { body: { name: "alice" } });
    entry = await must(200, "GET", "/api/v1/catalogue/tiny-chat");
    for (const name of NAMES) {
        await agent_join(name, "alice");
        nodes[name] = new StandIn(path.join(folder, name), {
            digest: entry.digest,
            bytes: entry.weight_bytes,
        });
    }
    user = await new_account("user", 400_000_000);
    ids = await tokenize(TEXT);
    assert.ok(ids.length > 8);
});
if (!is_up) {
    await network_end();
    finish();
}

// --- the link is lost -------------------------------------------------------

await check("a node that comes back goes on where it was", async () => {
    await alone("first");
    const job = await submit();
    const { node, run } = await given(job);
    node.tokens(run, 0, ids.slice(0, 4));
    await delivered(job, 1);
    await drop("first");
    await node.connect([held_of(run, { ids: 6 })]);
    const resume = await node.next("job.resume");
    assert.deepEqual(resume, {
        t: "job.resume",
        job,
        attempt: 1,
        epoch: node.epoch,
        from: 4,
    });
    node.tokens(run, 4, ids.slice(4));
    node.done(run, ids.length);
    await ended_well(job, [ids.length]);
    const ack = await node.next("job.ack");
    assert.deepEqual([ack.job, ack.attempt], [job, 1]);
});

await check("one that comes without its job gets it anew", async () => {
    await alone("first");
    const job = await submit();
    const { node, run } = await given(job);
    node.tokens(run, 0, ids.slice(0, 5));
    await delivered(job, 1);
    await drop("first");
    await node.connect();
    const again = await node.take_run();
    assert.equal(again.attempt, 2);
    assert.deepEqual(again.done, ids.slice(0, 5));
    node.tokens(again, 5, ids.slice(5));
    node.done(again, ids.length - 5);
    await ended_well(job, [5, ids.length - 5]);
});

await check("one that comes too late is fenced", async () => {
    await alone("first");
    const job = await submit();
    const { node, run } = await given(job);
    node.tokens(run, 0, ids.slice(0, 3));
    await delivered(job, 1);
    await connect("second");
    await drop("first");
    const other = await given(job);
    assert.equal(other.node, nodes.second);
    assert.equal(other.run.attempt, 2);
    assert.deepEqual(other.run.done, ids.slice(0, 3));
    await node.connect([
        held_of(run, { ids: 7 }),
        held_of(run, { job: run.job.replace(/^./, "f"), ended: true }),
    ]);
    const cancel = await node.next("job.cancel");
    assert.deepEqual([cancel.job, cancel.attempt], [job, 1]);
    assert.equal(cancel.epoch, node.epoch);
    const stranger = await node.next("job.ack");
    assert.notEqual(stranger.job, job);
    // What it says all the same changes nothing.
    node.tokens(run, 3, ids.slice(0, 4));
    node.fail(run, "cancelled");
    await node.next("job.ack", (ack) => ack.job === job);
    other.node.tokens(other.run, 3, ids.slice(3));
    other.node.done(other.run, ids.length - 3);
    await ended_well(job, [3, ids.length - 3]);
});

await check("ids that come twice count once, a gap ends the try", async () => {
    await alone("first");
    const job = await submit();
    const { node, run } = await given(job);
    node.tokens(run, 0, ids.slice(0, 4));
    node.tokens(run, 2, ids.slice(2, 6));
    node.tokens(run, 0, ids.slice(0, 6));
    node.tokens(run, 7, ids.slice(7, 8));
    await node.next("job.cancel");
    node.fail(run, "cancelled");
    const again = await node.take_run();
    assert.deepEqual(again.done, ids.slice(0, 6));
    node.tokens(again, 6, ids.slice(6));
    node.done(again, ids.length - 6);
    const of_it = (ack) => ack.job === job && ack.attempt === 2;
    await node.next("job.ack", of_it);
    node.done(again, ids.length - 6);
    await node.next("job.ack", of_it);
    await ended_well(job, [6, ids.length - 6]);
});

await check("a flickering link is no failure of the job", async () => {
    await alone("first");
    const job = await submit();
    const { node, run } = await given(job);
    for (let i = 0; i < 10; i++) {
        node.tokens(run, i, ids.slice(i, i + 1));
        await delivered(job, i + 1);
        await drop("first");
        await node.connect([held_of(run, { ids: i + 1 })]);
        const resume = await node.next("job.resume");
        assert.equal(resume.from, i + 1);
    }
    node.tokens(run, 10, ids.slice(10));
    node.done(run, ids.length);
    await ended_well(job, [ids.length]);
});

// --- the coordinator dies ---------------------------------------------------

async function reborn() {
    await end("coordinator", "SIGKILL");
    await coordinator_start();
}

await check("a node says once what it holds", async () => {
    await alone("first");
    nodes.first.report([]);
    await poll("the link to be closed", () => !nodes.first.is_open);
});

await check("a running job is taken up from its first id", async () => {
    await alone("first");
    const job = await submit();
    const { node, run } = await given(job);
    node.tokens(run, 0, ids.slice(0, 4));
    await delivered(job, 1);
    await reborn();
    await node.connect([held_of(run, { ids: 6 })]);
    const resume = await node.next("job.resume");
    assert.equal(resume.from, 0);
    assert.ok(resume.epoch > run.epoch, "of the new reign");
    node.tokens(run, 0, ids.slice(0, 6));
    node.tokens(run, 6, ids.slice(6));
    node.done(run, ids.length);
    await ended_well(job, [ids.length]);
});

await check("an ended one needs nothing but its word", async () => {
    await alone("first");
    const job = await submit();
    const { node, run } = await given(job);
    node.tokens(run, 0, ids.slice(0, 2));
    await delivered(job, 1);
    await reborn();
    const held = held_of(run, { ended: true, ids: ids.length });
    await node.connect([held]);
    await node.next("job.resume");
    assert.ok(!node.has("job.ack"), "no word before it is written");
    node.tokens(run, 0, ids);
    node.done(run, ids.length);
    await node.next("job.ack");
    const seen = await ended_well(job, [ids.length]);
    // An agent whose journal outlived the word says it again.
    await drop("first");
    await node.connect([held]);
    await node.next("job.ack");
    assert.deepEqual(await job_of(job, { key: user.key }), seen);
});

await check("earlier attempts keep what they delivered", async () => {
    await alone("first");
    const job = await submit();
    const { node, run } = await given(job);
    node.tokens(run, 0, ids.slice(0, 3));
    await delivered(job, 1);
    node.fail(run, "owner_returned");
    const again = await node.take_run();
    assert.deepEqual(again.done, ids.slice(0, 3));
    node.tokens(again, 3, ids.slice(3, 6));
    await delivered(job, 2);
    await reborn();
    await node.connect([held_of(again, { ids: 6 })]);
    await node.next("job.resume");
    node.tokens(again, 0, ids);
    node.done(again, ids.length - 3);
    await ended_well(job, [3, ids.length - 3]);
});

await check("a node that calls late is not paid for another", async () => {
    await alone("first");
    const job = await submit();
    const { node, run } = await given(job);
    node.tokens(run, 0, ids.slice(0, 3));
    await delivered(job, 1);
    node.fail(run, "owner_returned");
    const again = await node.take_run();
    await reborn();
    await poll("the job to be queued again", async () => {
        const { attempts } = await job_of(job, { key: user.key });
        return attempts[1].end_reason === "coordinator_lost";
    });
    await node.connect([held_of(again, { ids: 6 })]);
    await node.next("job.resume");
    node.tokens(again, 0, ids);
    node.done(again, ids.length - 3);
    await ended_well(job, [3, ids.length - 3]);
});

await check("a job whose node does not come is placed again", async () => {
    await alone("first");
    const job = await submit();
    const { node, run } = await given(job);
    node.tokens(run, 0, ids.slice(0, 4));
    await delivered(job, 1);
    await reborn();
    await nodes.second.connect();
    const other = await given(job); // after adrift_s
    assert.equal(other.node, nodes.second);
    assert.equal(other.run.attempt, 2);
    assert.deepEqual(other.run.done, [], "the record was lost");
    await node.connect([held_of(run, { ids: 8 })]);
    await node.next("job.cancel");
    node.fail(run, "cancelled");
    other.node.tokens(other.run, 0, ids);
    other.node.done(other.run, ids.length);
    await ended_well(job, [0, ids.length]);
});

await check("a job that was cancelled meanwhile is let go", async () => {
    await alone("first");
    const job = await submit();
    const { node, run } = await given(job);
    await reborn();
    await must(200, "DELETE", `/api/v1/jobs/${job}`, { key: user.key });
    const seen = await job_ended(job, { key: user.key });
    assert.equal(seen.state, "cancelled");
    assert.equal(seen.price_ucr, 0);
    assert.equal(is_told(seen), "fault_cancelled");
    await node.connect([held_of(run, { ids: 3 })]);
    await node.next("job.cancel");
    node.fail(run, "cancelled");
    await node.next("job.ack");
});

await check("a /v1 job ends with the connection that had it", async () => {
    await alone("first");
    const broken = api("POST", "/v1/chat/completions", {
        key: user.key,
        body: chat_body("Count.", { max_tokens: ids.length }),
    }).then(
        () => "answered",
        () => "broken",
    );
    const run = await nodes.first.take_run();
    await reborn();
    assert.equal(await broken, "broken");
    await nodes.first.connect([held_of(run, { ids: 3 })]);
    await nodes.first.next("job.cancel");
    nodes.first.fail(run, "cancelled");
    const seen = await job_of(run.job, { key: user.key });
    assert.equal(seen.state, "cancelled");
    assert.equal(is_told(seen), "fault_network");
    assert.equal(seen.price_ucr, 0);
});

// --- poison -----------------------------------------------------------------

await check("engines of two nodes crash: never a third", async () => {
    await drop(...NAMES);
    await connect(...NAMES);
    const job = await submit();
    const one = await given(job);
    one.node.tokens(one.run, 0, ids.slice(0, 3));
    one.node.fail(one.run, "engine_lost", "the engine failed: signal 11");
    const two = await given(job);
    assert.notEqual(two.node, one.node);
    two.node.fail(two.run, "engine_lost", "the engine failed: signal 11");
    const seen = await job_ended(job, { key: user.key });
    assert.equal(seen.state, "quarantined");
    assert.equal(is_told(seen), "fault_quarantined");
    assert.equal(seen.attempts.length, 2);
    assert.equal(seen.usage.completion_tokens, 3);
    assert.equal(
        seen.price_ucr,
        price_by_hand(entry, seen.usage.prompt_tokens, 3),
    );
    for (const name of NAMES) assert.ok(!nodes[name].has("job.run"));
});

await check("a suspect runs alone", async () => {
    await drop(...NAMES);
    await connect("first", "second");
    const suspect = await submit();
    const one = await given(suspect);
    one.node.fail(one.run, "engine_lost");
    const two = await given(suspect);
    assert.notEqual(two.node, one.node);
    // Both nodes would do; the one with the suspect is out of question.
    const other = await given(await submit());
    assert.equal(other.node, one.node);
    for (const { node, run } of [two, other]) {
        node.tokens(run, 0, ids);
        node.done(run, ids.length);
        await job_ended(run.job, { key: user.key });
    }
});

await check("owners that return are nobody's failure", async () => {
    await alone("first");
    const job = await submit();
    for (let i = 0; i < 12; i++) {
        const run = await nodes.first.take_run();
        assert.equal(run.job, job);
        assert.equal(run.attempt, i + 1);
        assert.equal(run.done.length, i);
        nodes.first.tokens(run, i, ids.slice(i, i + 1));
        nodes.first.fail(run, "owner_returned");
    }
    const run = await nodes.first.take_run();
    nodes.first.tokens(run, 12, ids.slice(12));
    nodes.first.done(run, ids.length - 12);
    await ended_well(job, [...Array(12).fill(1), ids.length - 12]);
});

await check("eight failures are enough", async () => {
    await drop(...NAMES);
    await connect(...NAMES);
    const job = await submit();
    for (let i = 0; i < 8; i++) {
        const { node, run } = await given(job);
        assert.equal(run.attempt, i + 1);
        node.fail(run, "no_memory");
    }
    const seen = await job_ended(job, { key: user.key });
    assert.equal(seen.state, "failed");
    assert.equal(is_told(seen), "fault_target_lost");
    assert.equal(seen.price_ucr, 0);
});

// --- what cannot be answered now --------------------------------------------

const chat_now = (headers = {}) =>
    api("POST", "/v1/chat/completions", {
        key: user.key,
        headers,
        body: chat_body("Count.", { max_tokens: ids.length }),
    });

await check("without a target there is a reason", async () => {
    await drop(...NAMES);
    const answer = await chat_now({ "x-berth-patience-ms": "0" });
    is_answered(answer, "fault_no_capacity");
    const seconds = Number(answer.headers["retry-after"]);
    assert.ok(seconds >= 1 && seconds <= 120);
});

await check("a database that hangs hangs nobody", async () => {
    await alone("first");
    const postmaster = Number(
        fs
            .readFileSync(path.join(cluster_folder(), "data/postmaster.pid"))
            .toString()
            .split("\n")[0],
    );
    const pids = [postmaster, ...children_of(postmaster)];
    for (const pid of pids) process.kill(pid, "SIGSTOP");
    try {
        const first = chat_now();
        const other = poll("to be refused at once", async () => {
            const answer = await chat_now();
            return (
                /does not answer/.test(answer.json.error.message) && answer
            );
        });
        is_answered(await first, "fault_database_slow");
        is_answered(await other, "fault_database_away");
    } finally {
        for (const pid of pids) process.kill(pid, "SIGCONT");
    }
    await poll(
        "no credit to be held",
        async () => (await balance_of(user.key)).held_ucr === 0,
    );
    assert.ok(!nodes.first.has("job.run"), "nobody waits for it any more");
    await poll(
        "the coordinator to be ready",
        async () =>
            (await api("GET", "/readyz", { key: null })).status === 200,
    );
});

await check("a coordinator that stops says so", async () => {
    await alone("first");
    const whole = chat_now();
    const run = await nodes.first.take_run();
    const stopped = end("coordinator", "SIGTERM");
    is_answered(await whole, "fault_stopping");
    await stopped;
    await coordinator_start();
    await nodes.first.connect([held_of(run)]);
    await nodes.first.next("job.cancel");
});

await check("without the day's key nothing is taken that must be kept", async () => {
    const keys = path.join(dev, "content-keys");
    await end("coordinator", "SIGTERM"); // it remembers the keys it has read
    await coordinator_start();
    await alone("first");
    fs.renameSync(keys, `${keys}.away`);
    try {
        const answer = await api("POST", "/api/v1/jobs", {
            key: user.key,
            body: { kind: "chat", request: chat_body("Count.") },
        });
        is_answered(answer, "fault_storage");
    } finally {
        fs.renameSync(`${keys}.away`, keys);
    }
    const job = await submit();
    const { node, run } = await given(job);
    node.tokens(run, 0, ids);
    node.done(run, ids.length);
    await ended_well(job, [ids.length]);
});

await check("every row of docs/errors.md about faults was met", () => {
    assert.deepEqual(rows_not_met((where) => where === "faults"), []);
});

await check("after all that nothing is held and the books balance", async () => {
    const balance = await balance_of(user.key);
    assert.equal(balance.held_ucr, 0);
    await books_balance();
});

for (const node of Object.values(nodes)) if (node.is_open) await node.drop();
await network_end();
finish();
