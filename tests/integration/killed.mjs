// killed.mjs - kill -9 in the middle of answers: of the agent or the engine
// that serves a stream, of the coordinator under jobs.  Each answer is the
// undisturbed one, byte for byte, and is paid once.
//
// SEED=n chooses what is killed, and when.

import assert from "node:assert/strict";

import {
    api,
    balance_of,
    books_balance,
    chat_body,
    check,
    finish,
    in_parallel,
    is_alive,
    job_ended,
    job_of,
    must,
    model_ids,
    new_account,
    open_request,
    poll,
    price_by_hand,
    prices_of,
    sse_events,
} from "./lib.mjs";
import {
    agent_start,
    coordinator_start,
    end,
    lending,
    network_end,
    network_start,
    pid_of_part,
} from "./own.mjs";
import { engine_for, engines_of, nodes, only_nodes, all_nodes } from "./fleet.mjs";
import { random_from, requests, text_of_choice } from "./options.mjs";

const AGENTS = ["node-1", "node-2", "node-3"];
const GRANT_UCR = 4_000_000_000;
const STREAMS = 50;
const JOBS = 50;
const WIDTH = 6;
const TRIES = 8; // a stream may be quicker than its killer

const seed = Number(process.env.SEED ?? 20261201);
const random = random_from(seed);
console.log(`# seed ${seed}`);

let user;
const entries = {};
const undisturbed = []; // of each request: {text, finish, usage}

const held_nothing = () =>
    poll("no credit to be held", async () => {
        const balance = await balance_of(user.key);
        return balance.held_ucr === 0 && balance;
    });

async function no_money_is_lost() {
    const { available_ucr } = await held_nothing();
    assert.equal(available_ucr, GRANT_UCR - (await prices_of(user.key)));
    await books_balance();
}

const price_of = (job) =>
    price_by_hand(
        entries[job.model],
        job.usage.prompt_tokens,
        job.usage.completion_tokens,
    );

// What one bill of the undisturbed answer is.
function is_paid_once(job, want) {
    const { prompt_tokens, completion_tokens } = job.usage;
    assert.equal(prompt_tokens, want.usage.prompt_tokens);
    assert.equal(completion_tokens, want.usage.completion_tokens);
    assert.equal(job.price_ucr, price_of(job));
    const by_attempts = job.attempts.reduce((sum, { ids }) => sum + ids, 0);
    assert.equal(by_attempts, completion_tokens, JSON.stringify(job.attempts));
}

// --- start ------------------------------------------------------------------

const is_up = await check("three nodes start and answer undisturbed", async () => {
    await network_start(AGENTS);
    user = await new_account("user", GRANT_UCR);
    for (const id of model_ids)
        entries[id] = await must(200, "GET", `/api/v1/catalogue/${id}`);
    for (const { route, body } of requests) {
        const { choices, usage } = await must(200, "POST", route, {
            key: user.key,
            body,
        });
        const text = text_of_choice(choices[0]);
        assert.ok(usage.completion_tokens > 300, "long enough to be cut");
        undisturbed.push({ text, finish: choices[0].finish_reason, usage });
    }
});
if (!is_up) {
    await network_end();
    finish();
}

// --- streams ----------------------------------------------------------------

// A stream; calls back once with the job's id when its text has begun.
function follow({ route, body }, on_begin) {
    return new Promise((resolve, reject) => {
        const request = open_request("POST", route, {
            key: user.key,
            body: { ...body, stream: true },
        });
        let text = "";
        let begun;
        request.on("error", reject);
        request.on("response", (response) => {
            const id = response.headers["x-berth-job"];
            response.setEncoding("utf8");
            response.on("error", reject);
            response.on("data", (data) => {
                text += data;
                if (begun === undefined && text.split("\n\n").length > 4)
                    begun = on_begin(id);
            });
            response.on("end", () =>
                Promise.resolve(begun).then(
                    () => resolve({ id, text }),
                    reject,
                ),
            );
        });
    });
}

function answer_in(text) {
    const events = sse_events(text);
    assert.equal(events.at(-1).data, "[DONE]", text.slice(-600));
    const choices = events
        .slice(0, -1)
        .flatMap((event) => JSON.parse(event.data).choices);
    return {
        text: choices
            .map(({ delta, text }) => delta?.content ?? text ?? "")
            .join(""),
        finish: choices.map((choice) => choice.finish_reason).find(Boolean),
    };
}

// One kill at a time, so that there are always others to go on.
let last_kill = Promise.resolve();
const kills = { agent: 0, engine: 0 };

const killing = (work) => (last_kill = last_kill.then(work, work));

async function server_of(id) {
    const job = await job_of(id);
    // Cut already, by another's kill, or over: a second one would be poison.
    if (job.attempts.length !== 1 || job.state !== "running") return undefined;
    const [{ target }] = job.attempts;
    const { name } = (await nodes()).find((node) => node.id === target.id);
    return { name, model: job.model };
}

const kill_server = (id) =>
    killing(async () => {
        const server = await server_of(id);
        if (server === undefined) return;
        const { name, model } = server;
        if (random.below(2) === 0) {
            kills.agent++;
            await end(name, "SIGKILL");
            agent_start(name);
        } else {
            const engine = engines_of(pid_of_part(name)).find(
                (engine) => engine.model === model,
            );
            if (engine === undefined) return;
            kills.engine++;
            process.kill(engine.pid, "SIGKILL");
        }
        await lending(name);
    });

async function stream_once(index) {
    const want = undisturbed[index];
    const { id, text } = await follow(requests[index], kill_server);
    const got = answer_in(text);
    assert.equal(got.text, want.text, `job ${id}`);
    assert.equal(got.finish, want.finish);
    const job = await job_ended(id, { key: user.key });
    assert.equal(job.state, "done");
    is_paid_once(job, want);
    return job.attempts.length > 1;
}

await check(
    `${STREAMS} streams outlive the kill of their agent or engine unchanged`,
    async () => {
        const list = Array.from({ length: STREAMS }, (_, i) => i);
        await in_parallel(list, WIDTH, async (i) => {
            let is_cut = false;
            for (let tries = 0; !is_cut && tries < TRIES; tries++)
                is_cut = await stream_once(i % requests.length);
            assert.ok(is_cut, `stream ${i} was cut`);
        });
        assert.ok(kills.agent > 0 && kills.engine > 0, JSON.stringify(kills));
        await no_money_is_lost();
    },
);
console.log(`# killed: ${kills.agent} agents, ${kills.engine} engines`);

// --- jobs and the coordinator -----------------------------------------------

// One connection's worth of a job's events, added to @got.
function events_once(id, got, on_event) {
    const last = got.at(-1)?.id;
    return new Promise((resolve, reject) => {
        const request = open_request("GET", `/api/v1/jobs/${id}/events`, {
            key: user.key,
            headers: last === undefined ? {} : { "last-event-id": last },
        });
        request.on("error", reject);
        request.on("response", (response) => {
            let text = "";
            response.setEncoding("utf8");
            response.on("error", reject);
            response.on("end", () =>
                response.statusCode === 200
                    ? resolve()
                    : reject(new Error(`${response.statusCode} ${text}`)),
            );
            response.on("data", (data) => {
                text += data;
                if (response.statusCode !== 200) return;
                const whole = text.lastIndexOf("\n\n") + 2;
                const events = sse_events(text.slice(0, whole));
                text = text.slice(whole);
                got.push(...events);
                for (const event of events) on_event(event);
            });
        });
    });
}

const IS_LAST = { finish: true, error: true };

// All events of a job, by as many connections as it takes.
async function events_of(id, on_event = () => {}) {
    const got = [];
    await poll(
        `the last event of ${id}`,
        async () => {
            await events_once(id, got, on_event);
            return got.at(-1)?.event in IS_LAST;
        },
        90,
    );
    return got;
}

const content_in = (events) =>
    events
        .filter(({ event }) => event === "content")
        .map(({ data }) => JSON.parse(data).text)
        .join("");

const submit = async ({ kind, body }) =>
    (
        await must(202, "POST", "/api/v1/jobs", {
            key: user.key,
            body: { kind, request: body },
        })
    ).id;

let restart;
let restarts = 0;

// Kill the coordinator and start it again, once for all who ask meanwhile.
function coordinator_kill() {
    restart ??= (async () => {
        restarts++;
        await end("coordinator", "SIGKILL");
        await coordinator_start();
        restart = undefined;
    })();
    return restart;
}

// When a group of jobs sees its coordinator killed: before the first id, in
// the middle, when all ids are there but not the end, twice.
const MOMENTS = ["first", "middle", "last", "middle, middle"];

async function group(indexes, moment) {
    const left = moment.split(", ");
    const ids = [];
    for (const index of indexes) ids.push(await submit(requests[index]));
    const victim = random.below(ids.length);
    if (left[0] === "first") {
        left.shift();
        await coordinator_kill();
    }
    const work = ids.map(async (id, i) => {
        const want = undisturbed[indexes[i]];
        let size = 0;
        const at = () =>
            left[0] === "last"
                ? want.text.length
                : (want.text.length * (1 + random.below(6))) / 10;
        let kill_at = i === victim && left.length > 0 ? at() : Infinity;
        const events = await events_of(id, ({ event, data }) => {
            if (event === "content") size += JSON.parse(data).text.length;
            if (size < kill_at) return;
            left.shift();
            kill_at = left.length > 0 ? size + 40 : Infinity;
            coordinator_kill();
        });
        assert.equal(content_in(events), want.text, `job ${id}`);
        assert.deepEqual(
            events.map((event) => Number(event.id)),
            events.map((_, at) => Number(events[0].id) + at),
        );
        const last = events.at(-1);
        assert.equal(last.event, "finish", last.data);
        assert.equal(JSON.parse(last.data).finish_reason, want.finish);
        const job = await poll(`job ${id}`, () =>
            job_ended(id, { key: user.key }),
        );
        assert.equal(job.state, "done");
        is_paid_once(job, want);
        assert.equal(text_of_choice(job.result.choices[0]), want.text);
    });
    await Promise.all(work);
    await restart;
}

await check(
    `${JOBS} jobs outlive kills of the coordinator, each reader sees it once`,
    async () => {
        await lending(...AGENTS);
        for (let at = 0; at < JOBS; at += 10) {
            const indexes = Array.from({ length: 10 }, (_, i) =>
                (at + i) % requests.length,
            );
            await group(indexes, MOMENTS[(at / 10) % MOMENTS.length]);
        }
        await no_money_is_lost();
    },
);
console.log(`# killed: ${restarts} coordinators`);

await check(
    "streams of a killed coordinator end, released or paid once",
    async () => {
        await lending(...AGENTS);
        const ids = new Set();
        const broken = Array.from({ length: 8 }, (_, i) =>
            follow(requests[i], (id) => ids.add(id)).catch(() => {}),
        );
        await poll("the streams to run", () => ids.size === 8);
        await coordinator_kill();
        await Promise.all(broken);
        for (const id of ids) {
            const job = await job_ended(id, { key: user.key });
            const seen = JSON.stringify(job).slice(0, 800);
            if (job.state === "done") {
                assert.equal(job.price_ucr, price_of(job), seen);
            } else {
                assert.equal(job.state, "cancelled", seen);
                assert.match(seen, /network_fault/);
                assert.equal(job.price_ucr ?? 0, 0, seen);
            }
        }
        await no_money_is_lost();
    },
);

// --- poison -----------------------------------------------------------------

const engine_on = (name, model) =>
    engines_of(pid_of_part(name)).find((engine) => engine.model === model);

// Stop an engine where it is: what is sent to it waits.
async function stopped_engine(name) {
    await only_nodes(name);
    const engine = await engine_for(name, "tiny-chat");
    process.kill(engine.pid, "SIGSTOP");
    return engine;
}

await check(
    "a job that crashes engines of two nodes is not tried a third time",
    async () => {
        await lending(...AGENTS);
        await stopped_engine("node-2");
        await stopped_engine("node-3");
        await only_nodes("node-1");
        await engine_for("node-1", "tiny-chat");
        const id = await submit(requests[0]);
        const has_text = new Promise((resolve) => {
            events_of(id, ({ event }) => event === "content" && resolve());
        });
        await has_text;
        // It stands still until there is another node to go to.
        const first = engine_on("node-1", "tiny-chat").pid;
        process.kill(first, "SIGSTOP");
        await all_nodes();
        process.kill(first, "SIGKILL");
        const second = await poll("the second attempt", async () => {
            const { attempts, state } = await job_of(id);
            return state === "running" && attempts[1];
        });
        const { name } = (await nodes()).find(
            (node) => node.id === second.target.id,
        );
        assert.notEqual(name, "node-1", JSON.stringify(await job_of(id)));
        process.kill(engine_on(name, "tiny-chat").pid, "SIGKILL");
        const job = await job_ended(id);
        assert.equal(job.state, "quarantined", JSON.stringify(job));
        assert.equal(job.attempts.length, 2);
        assert.equal(job.error.code, "job_quarantined");
        assert.match(job.error.message, /2 nodes.*30 s.*not tried again/s);
        assert.match(job.error.message, /change the request/);
        assert.ok(job.usage.completion_tokens > 0);
        assert.equal(job.attempts[0].ids, job.usage.completion_tokens);
        assert.equal(job.attempts[1].ids, 0);
        assert.equal(job.price_ucr, price_of(job));
        const last = (await events_of(id)).at(-1);
        assert.equal(last.event, "error");
        assert.match(last.data, /job_quarantined/);
        for (const agent of AGENTS)
            for (const { pid } of engines_of(pid_of_part(agent)))
                if (is_alive(pid)) process.kill(pid, "SIGCONT");
        await no_money_is_lost();
    },
);

await check("afterwards the network answers as before", async () => {
    await lending(...AGENTS);
    const answer = await api("POST", "/v1/chat/completions", {
        key: user.key,
        body: chat_body("What is 17 plus 25?"),
    });
    assert.equal(answer.status, 200, answer.text);
    assert.equal(
        answer.json.choices[0].message.content,
        "17 plus 25 is 42.",
    );
    await no_money_is_lost();
});

await network_end();
finish();
