// jobs.mjs - /api/v1/jobs: jobs that outlive their connection, their lists,
// events, ends and refusals.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

import {
    api,
    assert_error,
    balance_of,
    bin,
    books_balance,
    chat_body,
    check,
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
    reference,
    run,
    sse_events,
    work_by_hand,
} from "./lib.mjs";
import { all_nodes, nodes, only_nodes } from "./fleet.mjs";

const COUNT = reference().find(({ name }) => name === "count");
const GRANT_UCR = 200_000_000;

const submitter = await new_account(`jobs-${process.pid}`, GRANT_UCR);
const { key } = submitter;

const counting = (more) => ({
    kind: "chat",
    request: chat_body(COUNT.messages, more),
});
const create = (body, headers) =>
    api("POST", "/api/v1/jobs", { key, body, headers });

async function created(body, headers) {
    const answer = await create(body, headers);
    assert.equal(answer.status, 202, answer.text.slice(0, 500));
    return answer.json;
}

// --- a life -----------------------------------------------------------------

await check("a job is accepted with 202 and ends with its result", async () => {
    const job = await created(counting());
    assert.equal(job.object, "job");
    assert.ok(["queued", "running", "done"].includes(job.state));
    assert.equal(job.kind, "chat");
    assert.equal(job.model, "tiny-chat");
    assert.equal(job.account, submitter.id);
    const done = await job_ended(job.id, { key });
    assert.equal(done.state, "done");
    assert.equal(done.error, null);
    assert.equal(done.result.object, "chat.completion");
    assert.equal(done.result.choices[0].message.content, COUNT.bf16.text);
    assert.equal(done.result.choices[0].finish_reason, "stop");
    const want = {
        prompt_tokens: COUNT.prompt_ids.length,
        completion_tokens: COUNT.bf16.continuation_ids.length,
        total_tokens:
            COUNT.prompt_ids.length + COUNT.bf16.continuation_ids.length,
    };
    assert.deepEqual(done.usage, want);
    const { usage } = done.result;
    assert.equal(usage.completion_tokens, want.completion_tokens);
    const times = [done.created, done.started, done.ended].map(Date.parse);
    assert.ok(times[0] <= times[1] && times[1] <= times[2], `${times}`);
    assert.match(done.created, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/);
});

await check(
    "a job of kind completion ends with a text completion",
    async () => {
        const request = {
            model: "tiny-chat",
            prompt: COUNT.rendered,
            max_tokens: 10,
            temperature: 0,
        };
        const { id } = await created({ kind: "completion", request });
        const done = await job_ended(id, { key });
        assert.equal(done.state, "done");
        assert.equal(done.kind, "completion");
        assert.equal(done.result.object, "text_completion");
        assert.equal(done.result.choices[0].text, "1, 2, 3, 4");
        assert.equal(done.result.choices[0].finish_reason, "length");
    },
);

await check("the operator sees where a job ran and why there", async () => {
    const { id } = await created(counting());
    await job_ended(id);
    const job = await job_of(id);
    assert.equal(job.attempts.length, 1);
    const [attempt] = job.attempts;
    assert.equal(attempt.number, 1);
    assert.equal(attempt.target.kind, "node");
    const ids = (await nodes()).map((node) => node.id);
    assert.ok(ids.includes(attempt.target.id));
    assert.deepEqual(attempt.target.members, [attempt.target.id]);
    assert.equal(attempt.ids, COUNT.bf16.continuation_ids.length);
    assert.ok(Date.parse(attempt.started) <= Date.parse(attempt.ended));
    assert.ok(attempt.predicted.ttft_ms > 0 && attempt.predicted.tok_s > 0);
    assert.ok(attempt.observed.ttft_ms > 0 && attempt.observed.tok_s > 0);
    const chosen = attempt.why.filter(({ verdict }) => verdict === "chosen");
    assert.deepEqual(
        chosen.map(({ target }) => target),
        [attempt.target.id],
    );
    assert.equal(attempt.why.length, 3, "a reason for each of three nodes");
    for (const { verdict, reason, finish_ms } of attempt.why) {
        assert.ok(["chosen", "slower", "refused"].includes(verdict));
        assert.ok(reason.length > 0);
        assert.ok(finish_ms === null || finish_ms > 0);
    }
    const best = Math.min(...attempt.why.map(({ finish_ms }) => finish_ms));
    assert.equal(chosen[0].finish_ms, best);
    const node = (await nodes()).find(({ id }) => id === attempt.target.id);
    assert.equal(attempt.target.name, node.name);
    assert.equal(attempt.end_reason, "done");
    assert.equal(attempt.end_text, "the answer was complete");
    const took = Date.parse(attempt.ended) - Date.parse(attempt.started);
    assert.ok(Math.abs(attempt.ran_ms - took) <= 1, `${attempt.ran_ms}`);
});

await check("a price shows the work and who got it", async () => {
    const { id } = await created(counting());
    const { price, price_ucr, usage, attempts } = await job_ended(id);
    const entry = await must(200, "GET", "/api/v1/catalogue/tiny-chat");
    const { moved, flop } = work_by_hand(
        entry,
        usage.prompt_tokens,
        usage.completion_tokens,
    );
    assert.equal(price.bytes_moved, Number(moved));
    assert.equal(price.flop, Number(flop));
    assert.equal(price.ucr_per_tflop, 250_000);
    assert.equal(price.ucr_per_gb, 10_000);
    assert.equal(price.class_per_mille, 1000);
    assert.equal(price.minimum_ucr, 1000);
    assert.equal(price.fee_per_mille, 50);
    assert.equal(price.cached_tokens, 0);
    assert.equal(price.reprefill_ucr, 0);
    const [{ prefill_ucr, decode_ucr, reprefill_ucr, done }] = attempts;
    assert.equal(prefill_ucr + decode_ucr, price_ucr - price.fee_ucr);
    assert.equal(reprefill_ucr, 0);
    assert.equal(done, 0);
});

await check(
    "a submitter sees its target's chip and size, no names or ids",
    async () => {
        const { id } = await created(counting());
        await job_ended(id, { key });
        const job = await job_of(id, { key });
        const [{ target, why }] = job.attempts;
        assert.equal(target.kind, "node");
        assert.equal(target.id, undefined);
        assert.ok(target.memory_bytes > 0);
        assert.ok(target.chip === null || target.chip.length > 0);
        assert.ok(why.length > 0);
        const text = JSON.stringify(job);
        for (const node of await nodes()) {
            assert.ok(!text.includes(node.id), text);
            assert.ok(!text.includes(node.name), text);
        }
    },
);

await check("nobody sees the job of another account", async () => {
    const { id } = await created(counting({ max_tokens: 2 }));
    const other = await new_account(`other-${process.pid}`, 1_000_000);
    for (const [method, route] of [
        ["GET", `/api/v1/jobs/${id}`],
        ["DELETE", `/api/v1/jobs/${id}`],
        ["GET", `/api/v1/jobs/${id}/events`],
    ])
        assert_error(await api(method, route, { key: other.key }), 404);
    const list = await must(200, "GET", "/api/v1/jobs", { key: other.key });
    assert.deepEqual(list.data, []);
    await job_ended(id, { key });
});

await check("what is no job's id is a 404", async () => {
    for (const id of [randomUUID(), "nonsense", "0", "%00", "a".repeat(300)])
        for (const [method, tail] of [
            ["GET", ""],
            ["DELETE", ""],
            ["GET", "/events"],
        ]) {
            const answer = await api(method, `/api/v1/jobs/${id}${tail}`, {
                key,
            });
            assert.ok([400, 404].includes(answer.status), answer.text);
            assert_error(answer, answer.status);
        }
});

// --- once -------------------------------------------------------------------

await check("an idempotency key names one job", async () => {
    const headers = { "idempotency-key": `once-${randomUUID()}` };
    const before = await balance_of(key);
    const answers = await Promise.all(
        Array.from({ length: 5 }, () => create(counting(), headers)),
    );
    for (const answer of answers)
        assert.equal(answer.status, 202, answer.text.slice(0, 300));
    const ids = new Set(answers.map(({ json }) => json.id));
    assert.equal(ids.size, 1);
    const [id] = ids;
    const done = await job_ended(id, { key });
    const again = await created(counting(), headers);
    assert.equal(again.id, id);
    const other = await create(counting({ max_tokens: 3 }), headers);
    assert_error(other, 409);
    const after = await poll("the hold to end", async () => {
        const now = await balance_of(key);
        return now.held_ucr === 0 && now;
    });
    assert.equal(before.available_ucr - after.available_ucr, done.price_ucr);
});

await check("another account's idempotency key is another key", async () => {
    const headers = { "idempotency-key": `shared-${randomUUID()}` };
    const other = await new_account(`shared-${process.pid}`, 10_000_000);
    const mine = await created(counting(), headers);
    const theirs = await must(202, "POST", "/api/v1/jobs", {
        key: other.key,
        body: counting({ max_tokens: 4 }),
        headers,
    });
    assert.notEqual(mine.id, theirs.id);
    await job_ended(mine.id, { key });
    await job_ended(theirs.id, { key: other.key });
});

// --- lists ------------------------------------------------------------------

async function pages(query, limit) {
    const seen = [];
    let cursor = "";
    do {
        const tail =
            cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`;
        const page = await must(
            200,
            "GET",
            `/api/v1/jobs?limit=${limit}${query}${tail}`,
            { key },
        );
        assert.equal(page.object, "list");
        assert.ok(page.data.length <= limit);
        if (page.next !== null) assert.equal(page.data.length, limit);
        seen.push(...page.data);
        cursor = page.next ?? "";
    } while (cursor !== "");
    return seen;
}

await check(
    "pages of a list together are the whole, newest first",
    async () => {
        const made = [];
        for (let i = 0; i < 7; i++)
            made.push((await created(counting({ max_tokens: 1 + i }))).id);
        for (const id of made) await job_ended(id, { key });
        const whole = await pages("", 100);
        const ids = whole.map(({ id }) => id);
        assert.equal(new Set(ids).size, ids.length);
        assert.deepEqual(ids.slice(0, 7), made.toReversed());
        for (const limit of [1, 2, 3])
            assert.deepEqual(
                (await pages("", limit)).map(({ id }) => id),
                ids,
            );
        const times = whole.map(({ created }) => created);
        assert.deepEqual(times, times.toSorted().reverse());
    },
);

await check("lists are of one state or model when asked", async () => {
    const { id } = await created({
        kind: "chat",
        request: chat_body("What is 17 plus 25?", { model: "tiny-chat-8bit" }),
    });
    await job_ended(id, { key });
    const eight = await pages("&model=tiny-chat-8bit", 100);
    assert.deepEqual(
        eight.map((job) => job.id),
        [id],
    );
    for (const job of await pages("&state=done", 100))
        assert.equal(job.state, "done");
    assert.deepEqual(await pages("&state=failed", 100), []);
    assert.deepEqual(await pages("&model=nothing", 100), []);
});

await check(
    "a list without a valid limit, state or cursor is refused",
    async () => {
        for (const query of [
            "limit=0",
            "limit=101",
            "limit=x",
            "limit=-1",
            "state=lost",
            "cursor=%27%20or%201",
        ])
            assert_error(
                await api("GET", `/api/v1/jobs?${query}`, { key }),
                400,
            );
    },
);

await check(
    "the operator's list is its own, or of all when asked",
    async () => {
        const own = await must(200, "GET", "/api/v1/jobs?limit=100");
        const admin = (await balance_of(network.key)).account;
        for (const { account } of own.data) assert.equal(account, admin);
        const all = await must(200, "GET", "/api/v1/jobs?limit=100&all=1");
        assert.ok(all.data.some(({ account }) => account === submitter.id));
    },
);

// --- events -----------------------------------------------------------------

// The stream without its comments, which only slow answers have.
const events_of = async (id, headers) => {
    const answer = await api("GET", `/api/v1/jobs/${id}/events`, {
        key,
        headers,
    });
    assert.equal(answer.status, 200, answer.text.slice(0, 300));
    assert.match(answer.headers["content-type"], /^text\/event-stream/);
    return answer.text.replaceAll(": waiting\n\n", "");
};

const content_in = (events) =>
    events
        .filter(({ event }) => event === "content")
        .map(({ data }) => JSON.parse(data).text)
        .join("");

await check(
    "a job's events are its answer, followed live or read later",
    async () => {
        const { id } = await created(counting());
        const live = await events_of(id);
        const events = sse_events(live);
        assert.equal(content_in(events), COUNT.bf16.text);
        const last = events.at(-1);
        assert.equal(last.event, "finish");
        const { finish_reason, usage } = JSON.parse(last.data);
        assert.equal(finish_reason, "stop");
        assert.equal(
            usage.completion_tokens,
            COUNT.bf16.continuation_ids.length,
        );
        const indexes = events.map((event) => Number(event.id));
        assert.deepEqual(
            indexes,
            indexes.toSorted((a, b) => a - b),
        );
        assert.equal(new Set(indexes).size, indexes.length);
        await job_ended(id, { key });
        const later = await events_of(id);
        assert.equal(content_in(sse_events(later)), COUNT.bf16.text);
    },
);

await check("Last-Event-ID goes on behind it, byte for byte", async () => {
    const { id } = await created(counting());
    const whole = await events_of(id);
    const events = sse_events(whole);
    assert.ok(events.length >= 3, `${events.length} events`);
    for (const at of [0, events.length >> 1, events.length - 2]) {
        const event = events[at].id;
        const rest = await events_of(id, { "last-event-id": event });
        const cut = whole.indexOf("\n\n", whole.indexOf(`id: ${event}\n`)) + 2;
        assert.equal(rest, whole.slice(cut), `after event ${event}`);
    }
});

await check(
    "a follower that breaks off and resumes misses nothing",
    async () => {
        const { id } = await created({
            kind: "chat",
            request: chat_body("Count from 1 to 200."),
        });
        const got = [];
        let last;
        for (let round = 0; round < 50; round++) {
            const headers = last === undefined ? {} : { "last-event-id": last };
            const request = open_request("GET", `/api/v1/jobs/${id}/events`, {
                key,
                headers,
            });
            const text = await new Promise((resolve, reject) => {
                let text = "";
                request.on("error", reject);
                request.on("response", (response) => {
                    response.on("data", (data) => {
                        text += data;
                        // Break off after a whole event, not for ever.
                        if (round < 5 && text.includes("\n\n")) {
                            resolve(text);
                            request.on("error", () => {});
                            response.on("error", () => {});
                            response.destroy();
                        }
                    });
                    response.on("end", () => resolve(text));
                });
            });
            const events = sse_events(text);
            got.push(...events);
            last = got.at(-1)?.id;
            if (got.at(-1)?.event === "finish") break;
        }
        const numbers = Array.from({ length: 200 }, (_, i) => i + 1).join(", ");
        assert.equal(content_in(got), numbers);
        assert.equal((await job_ended(id, { key })).state, "done");
    },
);

// --- cancelling -------------------------------------------------------------

await check("DELETE cancels a waiting job, once, free of charge", async () => {
    await only_nodes();
    const before = await balance_of(key);
    const { id } = await created(counting());
    assert.equal((await job_of(id, { key })).state, "queued");
    assert.ok((await balance_of(key)).held_ucr > 0);
    const answer = await api("DELETE", `/api/v1/jobs/${id}`, { key });
    assert.equal(answer.status, 200, answer.text);
    const job = await job_ended(id, { key });
    assert.equal(job.state, "cancelled");
    assert.equal(job.price_ucr ?? 0, 0);
    assert.deepEqual(await balance_of(key), before);
    assert_error(await api("DELETE", `/api/v1/jobs/${id}`, { key }), 409);
    await all_nodes();
});

await check(
    "DELETE cancels a running job, charged for what was delivered",
    async () => {
        const entry = await must(200, "GET", "/api/v1/catalogue/tiny-chat");
        const before = await balance_of(key);
        const { id } = await created({
            kind: "chat",
            request: chat_body("Count from 1 to 200."),
        });
        await poll("the job to run", async () => {
            const { state } = await job_of(id, { key });
            return state !== "queued";
        });
        const { status } = await api("DELETE", `/api/v1/jobs/${id}`, { key });
        const job = await job_ended(id, { key });
        // It may have been quicker than we are.
        assert.equal(status, job.state === "done" ? 409 : 200);
        const { prompt_tokens, completion_tokens } = job.usage;
        const want =
            completion_tokens === 0
                ? 0
                : price_by_hand(entry, prompt_tokens, completion_tokens);
        assert.equal(job.price_ucr ?? 0, want);
        const after = await poll("the hold to end", async () => {
            const now = await balance_of(key);
            return now.held_ucr === 0 && now;
        });
        assert.equal(before.available_ucr - after.available_ucr, want);
    },
);

// --- what cannot be ---------------------------------------------------------

await check("what a job must not hold is refused at once", async () => {
    const request = chat_body(COUNT.messages);
    for (const body of [
        {},
        { kind: "chat" },
        { request },
        { kind: "poem", request },
        { kind: "chat", request: [] },
        { kind: "chat", request: { ...request, n: 2 } },
        { kind: "chat", request: { ...request, messages: [] } },
        { kind: "chat", request, berth: { pool: 5 } },
        { kind: "chat", request, berth: { pol: "public" } },
        { kind: "chat", request, callback_url: "https://example.com/done" },
    ])
        assert_error(await create(body), 400);
    const unknown = { ...request, model: "gpt-4o" };
    const answer = await create({ kind: "chat", request: unknown });
    assert_error(answer, 404, "model_not_found");
    const balance = await balance_of(key);
    assert.equal(balance.held_ucr, 0);
});

await check("a pool nobody is in is refused with an explanation", async () => {
    for (const stream of [false, true]) {
        const answer = await api("POST", "/v1/chat/completions", {
            key,
            body: chat_body("What is 17 plus 25?", { stream }),
            headers: {
                "x-berth-pool": "nobody-lends-here",
                "x-berth-patience-ms": "0",
            },
        });
        assert.ok([400, 403, 404, 429].includes(answer.status), answer.text);
        assert_error(answer, answer.status);
        assert.match(answer.json.error.message, /pool|nobody-lends-here/);
        if (answer.status === 429) {
            const seconds = Number(answer.headers["retry-after"]);
            assert.ok(seconds > 0 && seconds <= 120);
        }
    }
    await poll(
        "no credit to be held",
        async () => (await balance_of(key)).held_ucr === 0,
    );
});

await check(
    "a model that no node has is not offered and not placed",
    async () => {
        const work = fs.mkdtempSync(path.join(os.tmpdir(), "berth-jobs."));
        const id = `absent-${process.pid}`;
        try {
            const folder = path.join(work, id);
            fs.cpSync(path.join(models_folder, "tiny-chat"), folder, {
                recursive: true,
            });
            // Other bytes, another digest: one weight differs.
            const weights = path.join(folder, "model.safetensors");
            const bytes = fs.readFileSync(weights);
            bytes[bytes.length - 1] ^= 1;
            fs.writeFileSync(weights, bytes);
            const env = {
                BERTH_URL: network.url,
                BERTH_CA_FILE: network.ca_file,
                BERTH_API_KEY: network.key,
            };
            const berth = path.join(bin, "berth");
            const added = await run(berth, ["models", "add", folder], env);
            assert.equal(added.code, 0, added.stderr);
            const entry = await must(200, "GET", `/api/v1/catalogue/${id}`);
            assert.equal(entry.nodes, 0);
            const served = await must(200, "GET", "/v1/models");
            assert.ok(!served.data.some((model) => model.id === id));
            const answer = await api("POST", "/v1/chat/completions", {
                key,
                body: chat_body("What is 17 plus 25?", { model: id }),
                headers: { "x-berth-patience-ms": "0" },
            });
            assert.ok([400, 429].includes(answer.status), answer.text);
            assert_error(
                answer,
                answer.status,
                answer.status === 400 ? "model_unplaceable" : "no_capacity",
            );
            assert.match(answer.json.error.message, /without the model/);
            const twice = await run(berth, ["models", "add", folder], env);
            assert.equal(twice.code, 0, twice.stderr);
            bytes[bytes.length - 1] ^= 2;
            fs.writeFileSync(weights, bytes);
            const other = await run(berth, ["models", "add", folder], env);
            assert.equal(other.code, 1, "another digest under the same id");
            await must(200, "DELETE", `/api/v1/catalogue/${id}`);
            assert_error(await api("GET", `/api/v1/catalogue/${id}`), 404);
        } finally {
            fs.rmSync(work, { recursive: true, force: true });
        }
    },
);

await check("a job may not hold more than the wallet has", async () => {
    // Five jobs' worth of credit, twenty jobs at once: some are refused with
    // 402, none makes the balance negative.
    await only_nodes();
    const entry = await must(200, "GET", "/api/v1/catalogue/tiny-chat");
    const { prompt_ids } = COUNT;
    const each = price_by_hand(entry, prompt_ids.length, 400);
    const poor = await new_account(`five-${process.pid}`, 5 * each);
    const answers = await Promise.all(
        Array.from({ length: 20 }, () =>
            api("POST", "/api/v1/jobs", {
                key: poor.key,
                body: counting({ max_tokens: 400 }),
            }),
        ),
    );
    const by_status = (status) =>
        answers.filter((answer) => answer.status === status);
    assert.equal(by_status(202).length, 5);
    assert.equal(by_status(402).length, 15);
    for (const refused of by_status(402))
        assert_error(refused, 402, "insufficient_quota");
    const full = await balance_of(poor.key);
    assert.equal(full.available_ucr, 0);
    assert.equal(full.held_ucr, 5 * each);
    await all_nodes();
    let sum = 0;
    for (const { json } of by_status(202)) {
        const job = await job_ended(json.id, { key: poor.key });
        assert.equal(job.state, "done");
        sum += job.price_ucr;
    }
    const rest = await poll("the holds to end", async () => {
        const now = await balance_of(poor.key);
        return now.held_ucr === 0 && now;
    });
    assert.equal(rest.available_ucr, 5 * each - sum);
});

await check("after all that the books balance", books_balance);

finish();
