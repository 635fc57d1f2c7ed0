// refused.mjs - what OpenAI's clients are refused and how, Berth's options on
// their requests, and connections that serve many.

import assert from "node:assert/strict";
import fs from "node:fs";
import https from "node:https";

import {
    api,
    ask,
    assert_error,
    books_balance,
    check,
    content_of,
    finish,
    job_of,
    model_ids,
    network,
    questions,
} from "./lib.mjs";
import { OpenAI, client, named, raw_stream, request_of } from "./chats.mjs";

// --- what is refused --------------------------------------------------------

await check("a wrong key and no key are AuthenticationErrors", async () => {
    for (const apiKey of [
        "wrong",
        `sk-berth-${"0".repeat(64)}`,
        `${network.key}0`,
        network.key.slice(0, -1),
    ]) {
        const stranger = new OpenAI({
            apiKey,
            baseURL: `${network.url}/v1`,
            maxRetries: 0,
        });
        for (const call of [
            () => stranger.models.list(),
            () => stranger.chat.completions.create(request_of(named("sum"))),
        ])
            await assert.rejects(call(), (error) => {
                assert.ok(error instanceof OpenAI.AuthenticationError);
                assert.equal(error.status, 401);
                assert.ok(error.requestID, "x-request-id on an error");
                return true;
            });
    }
    const raw = await api("POST", "/v1/chat/completions", {
        key: null,
        body: request_of(named("sum")),
    });
    assert_error(raw, 401);
});

await check(
    "an unknown model is a NotFoundError, model_not_found",
    async () => {
        for (const stream of [false, true])
            await assert.rejects(
                client.chat.completions.create(
                    request_of(named("sum"), "gpt-4o", { stream }),
                ),
                (error) => {
                    assert.ok(error instanceof OpenAI.NotFoundError);
                    assert.equal(error.code, "model_not_found");
                    assert.ok(error.requestID);
                    return true;
                },
            );
    },
);

const TOOL = {
    type: "function",
    function: { name: "f", parameters: { type: "object", properties: {} } },
};
for (const [field, more] of Object.entries({
    n: { n: 2 },
    logprobs: { logprobs: true },
    top_logprobs: { top_logprobs: 3, logprobs: true },
    presence_penalty: { presence_penalty: 0.5 },
    frequency_penalty: { frequency_penalty: -0.5 },
    logit_bias: { logit_bias: { 17: 5 } },
    min_p: { min_p: 0.1 },
    repetition_penalty: { repetition_penalty: 1.2 },
    tools: { tools: [TOOL] },
    response_format: { response_format: { type: "json_object" } },
}))
    await check(`${field} is refused with a 400 that names it`, async () => {
        for (const stream of [false, true])
            await assert.rejects(
                client.chat.completions.create(
                    request_of(named("sum"), "tiny-chat", { ...more, stream }),
                ),
                (error) => {
                    assert.ok(
                        error instanceof OpenAI.BadRequestError,
                        `${error}`,
                    );
                    const names = Object.keys(more);
                    assert.ok(
                        names.includes(error.param),
                        `param ${error.param}`,
                    );
                    assert.ok(
                        names.some((name) => error.message.includes(name)),
                        error.message,
                    );
                    return true;
                },
            );
    });

await check("fields that change nothing are ignored", async () => {
    const answer = await ask(named("sum").messages, {
        user: "someone",
        metadata: { a: "b" },
        store: false,
        service_tier: "auto",
        parallel_tool_calls: true,
        reasoning_effort: "low",
        n: 1,
        logprobs: false,
        presence_penalty: 0,
        frequency_penalty: 0,
        stop: null,
        seed: null,
        max_tokens: null,
        something_new: { deeply: ["nested"] },
        stream: false,
    });
    assert.equal(content_of(answer), "17 plus 25 is 42.");
    const streamed = await raw_stream(
        request_of(named("sum"), "tiny-chat", {
            stream_options: { include_usage: false, include_obfuscation: true },
        }),
    );
    assert.ok(streamed.text.endsWith("data: [DONE]\n\n"));
});

await check("empty messages are a BadRequestError", async () => {
    await assert.rejects(
        client.chat.completions.create({ model: "tiny-chat", messages: [] }),
        (error) => {
            assert.ok(error instanceof OpenAI.BadRequestError);
            assert.equal(error.param, "messages");
            return true;
        },
    );
});

await check("too long a prompt is context_length_exceeded", async () => {
    const messages = [{ role: "user", content: "1 ".repeat(3000) }];
    for (const stream of [false, true])
        await assert.rejects(
            client.chat.completions.create({
                model: "tiny-chat",
                messages,
                stream,
            }),
            (error) => {
                assert.ok(error instanceof OpenAI.BadRequestError);
                assert.equal(error.code, "context_length_exceeded");
                assert.match(error.message, /2,?048/);
                return true;
            },
        );
});

await check("content in parts of text is read as text", async () => {
    const answer = await ask([
        {
            role: "user",
            content: [{ type: "text", text: "What is 17 plus 25?" }],
        },
    ]);
    assert.equal(content_of(answer), "17 plus 25 is 42.");
});

// --- Berth's options --------------------------------------------------------

await check(
    "Berth's options are taken as headers and in the body",
    async () => {
        const headers = {
            "x-berth-pool": "public",
            "x-berth-class": "interactive",
            "x-berth-patience-ms": "5000",
        };
        const answer = await ask(named("sum").messages, {}, { headers });
        assert.equal(content_of(answer), "17 plus 25 is 42.");
        const berth = { pool: "public", class: "batch", patience_ms: 5000 };
        const other = await ask(named("sum").messages, { berth });
        assert.equal(content_of(other), "17 plus 25 is 42.");
    },
);

// --- connections ------------------------------------------------------------

await check(
    "twelve different questions at once all get their own answer",
    async () => {
        const twelve = questions()
            .filter((_, index) => index % 16 === 0)
            .slice(0, 12);
        assert.equal(twelve.length, 12);
        const jobs = new Set();
        await Promise.all(
            twelve.map(async ({ messages, answer }, index) => {
                const model = model_ids[index % 3];
                const got = await ask(messages, { model });
                assert.equal(content_of(got), answer);
                jobs.add(got.headers["x-berth-job"]);
            }),
        );
        assert.equal(jobs.size, 12);
        for (const id of jobs) assert.equal((await job_of(id)).object, "job");
    },
);

await check(
    "one connection serves answers, streams and errors in turn",
    async () => {
        const agent = new https.Agent({
            ca: fs.readFileSync(network.ca_file),
            keepAlive: true,
            maxSockets: 1,
        });
        let sockets = 0;
        const connect = agent.createConnection;
        agent.createConnection = function (...words) {
            sockets++;
            return connect.apply(this, words);
        };
        const sum = request_of(named("sum"));
        for (let i = 0; i < 3; i++) {
            await ask(sum.messages, {}, { agent });
            await raw_stream(sum, { agent });
            assert.equal((await api("GET", "/healthz", { agent })).status, 200);
            const refused = await api("POST", "/v1/chat/completions", {
                body: { ...sum, n: 2 },
                agent,
            });
            assert_error(refused, 400);
        }
        agent.destroy();
        assert.equal(sockets, 1);
    },
);

await check("request ids are new for every request", async () => {
    const ids = new Set();
    for (let i = 0; i < 5; i++)
        ids.add((await api("GET", "/v1/models")).headers["x-request-id"]);
    assert.equal(ids.size, 5);
});

await check("after all that the books balance", books_balance);

finish();
