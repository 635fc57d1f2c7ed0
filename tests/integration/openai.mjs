// openai.mjs - the stock `openai` client, and raw HTTPS where it hides things,
// against a running network.  Expected texts and token counts come from
// tests/models/reference.json, which another implementation computed.

import assert from "node:assert/strict";
import fs from "node:fs";
import https from "node:https";

import {
    api,
    assert_error,
    ask,
    books_balance,
    chat_body,
    check,
    content_of,
    fee_by_hand,
    finish,
    in_parallel,
    job_ended,
    job_of,
    model_ids,
    must,
    network,
    openai_module,
    price_by_hand,
    questions,
    reference,
    sse_events,
} from "./lib.mjs";

const OpenAI = openai_module();
const client = new OpenAI({
    apiKey: network.key,
    baseURL: `${network.url}/v1`,
    maxRetries: 0,
});
const REFERENCE_OF = {
    "tiny-chat": "bf16",
    "tiny-chat-8bit": "mlx-8bit",
    "tiny-chat-4bit": "mlx-4bit",
};
const prompts = reference();
const named = (name) => prompts.find((prompt) => prompt.name === name);
const COUNT = named("count");

// What the other implementation says of this prompt and model.
function expected(prompt, model) {
    const { text, continuation_ids } = prompt[REFERENCE_OF[model]];
    const prompt_tokens = prompt.prompt_ids.length;
    const completion_tokens = continuation_ids.length;
    return {
        text,
        usage: {
            prompt_tokens,
            completion_tokens,
            total_tokens: prompt_tokens + completion_tokens,
        },
    };
}

function three_counts({ prompt_tokens, completion_tokens, total_tokens }) {
    return { prompt_tokens, completion_tokens, total_tokens };
}

function request_of(prompt, model = "tiny-chat", more = {}) {
    return { model, messages: prompt.messages, temperature: 0, ...more };
}

async function gather(stream) {
    const chunks = [];
    for await (const chunk of stream) chunks.push(chunk);
    return chunks;
}

const text_of = (chunks) =>
    chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("");

const finishes_of = (chunks) =>
    chunks
        .flatMap((chunk) => chunk.choices)
        .map((choice) => choice.finish_reason)
        .filter((reason) => reason !== null);

async function raw_stream(body, options) {
    const answer = await api("POST", "/v1/chat/completions", {
        body: { ...body, stream: true },
        ...options,
    });
    assert.equal(answer.status, 200, answer.text.slice(0, 500));
    return answer;
}

// --- models -----------------------------------------------------------------

await check("the client lists the three models and nothing else", async () => {
    const list = await client.models.list();
    const ids = list.data.map((model) => model.id).sort();
    assert.deepEqual(ids, [...model_ids].sort());
    for (const model of list.data) {
        assert.equal(model.object, "model");
        assert.ok(Number.isInteger(model.created) && model.created > 1.7e9);
        assert.equal(typeof model.owned_by, "string");
        assert.ok(Object.values(model).includes(2048), "the context length");
    }
});

await check("the client retrieves each model by its id", async () => {
    for (const id of model_ids) {
        const model = await client.models.retrieve(id);
        assert.equal(model.id, id);
        assert.equal(model.object, "model");
    }
});

await check("a model nobody has is a NotFoundError, slashes or not", async () => {
    for (const id of ["tiny-chat-2bit", "some-org/some-model"])
        await assert.rejects(client.models.retrieve(id), (error) => {
            assert.ok(error instanceof OpenAI.NotFoundError);
            assert.equal(error.code, "model_not_found");
            return true;
        });
    const raw = await api("GET", "/v1/models/some-org/some-model");
    assert_error(raw, 404, "model_not_found");
});

// --- answers ----------------------------------------------------------------

for (const model of model_ids) {
    await check(`${model} answers as the reference, whole`, async () => {
        for (const prompt of prompts) {
            const want = expected(prompt, model);
            const { data, response, request_id } = await client.chat.completions
                .create(request_of(prompt, model))
                .withResponse();
            assert.equal(data.object, "chat.completion");
            assert.equal(data.model, model);
            assert.equal(data.choices.length, 1);
            assert.equal(data.choices[0].index, 0);
            assert.equal(data.choices[0].message.role, "assistant");
            assert.equal(data.choices[0].message.content, want.text);
            assert.equal(data.choices[0].finish_reason, "stop");
            assert.deepEqual(three_counts(data.usage), want.usage);
            assert.ok(request_id, "x-request-id");
            assert.ok(response.headers.get("x-berth-job"), "x-berth-job");
        }
    });

    await check(`${model} answers as the reference, streamed`, async () => {
        for (const prompt of prompts) {
            const want = expected(prompt, model);
            const stream = await client.chat.completions.create(
                request_of(prompt, model, {
                    stream: true,
                    stream_options: { include_usage: true },
                }),
            );
            const chunks = await gather(stream);
            assert.equal(text_of(chunks), want.text);
            assert.deepEqual(finishes_of(chunks), ["stop"]);
            assert.deepEqual(three_counts(chunks.at(-1).usage), want.usage);
        }
    });
}

await check("usage, streamed or not, equals the job's own counts", async () => {
    for (const stream of [false, true]) {
        for (const prompt of prompts) {
            const body = request_of(prompt, "tiny-chat-4bit", { stream });
            const answer = await api("POST", "/v1/chat/completions", { body });
            assert.equal(answer.status, 200, answer.text.slice(0, 300));
            const job = await job_ended(answer.headers["x-berth-job"]);
            const want = expected(prompt, "tiny-chat-4bit");
            assert.equal(job.state, "done");
            assert.equal(job.kind, "chat");
            assert.equal(job.model, "tiny-chat-4bit");
            assert.deepEqual(three_counts(job.usage), want.usage);
            if (!stream)
                assert.deepEqual(three_counts(answer.json.usage), want.usage);
        }
    }
});

await check("the price is the formula's, calculated by hand", async () => {
    for (const model of model_ids) {
        const entry = await must(200, "GET", `/api/v1/catalogue/${model}`);
        for (const name of ["count", "sum"]) {
            const answer = await ask(named(name).messages, { model });
            const job = await job_ended(answer.headers["x-berth-job"]);
            const { prompt_tokens, completion_tokens } = job.usage;
            const want = price_by_hand(entry, prompt_tokens, completion_tokens);
            assert.equal(job.price_ucr, want, `${model} ${name}`);
            const { prefill_ucr, decode_ucr, fee_ucr, revision } = job.price;
            assert.equal(prefill_ucr + decode_ucr, want);
            assert.equal(fee_ucr, fee_by_hand(want));
            assert.equal(revision, 1);
        }
    }
});

await check("the catalogue has the numbers of config.json", async () => {
    // Counted by hand from the widths: 4 layers, 128 wide, 512 in the middle,
    // 8 heads of 32 with 4 for keys and values, 2,048 tokens.
    const entry = await must(200, "GET", "/api/v1/catalogue/tiny-chat");
    const layer =
        128 * 256 + 2 * 128 * 128 + 256 * 128 + 3 * 128 * 512 + 2 * 128 + 2 * 32;
    const parameters = 2048 * 128 + 4 * layer + 128;
    assert.equal(entry.parameters, parameters);
    assert.equal(entry.weight_bytes, 2 * parameters);
    assert.equal(entry.kv_bytes_per_token, 2 * 4 * 4 * 32 * 2);
    assert.equal(entry.attention_flop, 2 * 8 * 32 * 4);
    assert.equal(entry.context, 2048);
    assert.equal(entry.layers, 4);
    assert.equal(entry.quantisation, "bf16");
    assert.equal(entry.nodes, 3);
});

// --- completions ------------------------------------------------------------

await check("a completion is the same streamed and whole", async () => {
    const body = {
        model: "tiny-chat",
        prompt: named("rhyme").rendered,
        max_tokens: 24,
        temperature: 0,
    };
    const whole = await client.completions.create(body);
    assert.equal(whole.object, "text_completion");
    assert.equal(whole.choices.length, 1);
    assert.equal(whole.choices[0].index, 0);
    assert.ok(["stop", "length"].includes(whole.choices[0].finish_reason));
    assert.equal(
        whole.usage.total_tokens,
        whole.usage.prompt_tokens + whole.usage.completion_tokens,
    );
    const chunks = await gather(
        await client.completions.create({
            ...body,
            stream: true,
            stream_options: { include_usage: true },
        }),
    );
    const text = chunks.map((chunk) => chunk.choices[0]?.text ?? "").join("");
    assert.equal(text, whole.choices[0].text);
    assert.ok(text.length > 0);
    assert.equal(chunks.at(-1).choices.length, 0);
    assert.deepEqual(
        three_counts(chunks.at(-1).usage),
        three_counts(whole.usage),
    );
    const reasons = chunks
        .flatMap((chunk) => chunk.choices)
        .map((choice) => choice.finish_reason)
        .filter((reason) => reason !== null);
    assert.deepEqual(reasons, [whole.choices[0].finish_reason]);
});

await check("a completion of a rendered chat is the chat's answer", async () => {
    for (const name of ["sum", "capital", "utf8", "memory"]) {
        const prompt = named(name);
        const want = expected(prompt, "tiny-chat");
        const answer = await client.completions.create({
            model: "tiny-chat",
            prompt: prompt.rendered,
            max_tokens: 100,
            temperature: 0,
        });
        assert.equal(answer.choices[0].text, want.text);
        assert.deepEqual(three_counts(answer.usage), want.usage);
    }
});

// --- how an answer ends -----------------------------------------------------

// Every character of the counting answer is one token, so lengths can be
// counted by eye: "1, 2, 3".
const counting = expected(COUNT, "tiny-chat").text;

await check("max_tokens ends an answer with length, counted exactly", async () => {
    for (const limit of [{ max_tokens: 10 }, { max_completion_tokens: 10 }]) {
        const body = request_of(COUNT, "tiny-chat", limit);
        const whole = await client.chat.completions.create(body);
        assert.equal(whole.choices[0].finish_reason, "length");
        assert.equal(whole.choices[0].message.content, "1, 2, 3, 4");
        assert.equal(whole.usage.completion_tokens, 10);
        const chunks = await gather(
            await client.chat.completions.create({ ...body, stream: true }),
        );
        assert.equal(text_of(chunks), "1, 2, 3, 4");
        assert.deepEqual(finishes_of(chunks), ["length"]);
    }
});

await check("a stop string over token borders ends both kinds", async () => {
    const want = counting.slice(0, counting.indexOf("50,"));
    for (const stop of ["50,", ["77,", "50,", "zebra", "99"]]) {
        const body = request_of(COUNT, "tiny-chat", { stop });
        const whole = await client.chat.completions.create(body);
        assert.equal(whole.choices[0].message.content, want);
        assert.equal(whole.choices[0].finish_reason, "stop");
        // Tokens after the stop string are not delivered; those in it are.
        assert.equal(whole.usage.completion_tokens, want.length + 3);
        const chunks = await gather(
            await client.chat.completions.create({
                ...body,
                stream: true,
                stream_options: { include_usage: true },
            }),
        );
        assert.equal(text_of(chunks), want);
        assert.deepEqual(finishes_of(chunks), ["stop"]);
        assert.equal(
            chunks.at(-1).usage.completion_tokens,
            whole.usage.completion_tokens,
        );
    }
});

await check("what only began like a stop string is delivered", async () => {
    const chunks = await gather(
        await client.chat.completions.create(
            request_of(COUNT, "tiny-chat", {
                stop: ["50,  ", "100 and"],
                stream: true,
            }),
        ),
    );
    assert.equal(text_of(chunks), counting);
    assert.deepEqual(finishes_of(chunks), ["stop"]);
});

await check("temperature 0 gives one answer, whatever the company", async () => {
    const answers = new Set();
    await in_parallel([...Array(12).keys()], 12, async (index) => {
        const body = request_of(COUNT);
        if (index % 2 === 0) {
            const whole = await client.chat.completions.create(body);
            answers.add(whole.choices[0].message.content);
        } else {
            const stream = await client.chat.completions.create({
                ...body,
                stream: true,
            });
            answers.add(text_of(await gather(stream)));
        }
    });
    assert.deepEqual([...answers], [counting]);
});

await check("equal seeds give equal answers on every machine", async () => {
    const sampled = async (seed, stream) => {
        const body = {
            model: "tiny-chat",
            messages: [{ role: "user", content: "Name three animals." }],
            temperature: 2,
            max_tokens: 40,
            seed,
        };
        if (!stream)
            return content_of({
                json: await client.chat.completions.create(body),
            });
        return text_of(
            await gather(
                await client.chat.completions.create({ ...body, stream: true }),
            ),
        );
    };
    const answers = await Promise.all(
        Array.from({ length: 12 }, (_, i) => sampled(20261130, i % 2 === 1)),
    );
    assert.equal(new Set(answers).size, 1);
    const others = new Set();
    for (let seed = 1; seed <= 8; seed++) others.add(await sampled(seed, false));
    assert.ok(others.size > 1, "different seeds, different answers");
});

await check("seeds of 64 bits, negative too, are taken", async () => {
    for (const seed of ["9223372036854775807", "-9223372036854775808", "-1"]) {
        const body = JSON.stringify(
            request_of(named("sum"), "tiny-chat", { seed: "SEED" }),
        ).replace('"SEED"', seed);
        const answer = await api("POST", "/v1/chat/completions", { body });
        assert.equal(answer.status, 200, answer.text.slice(0, 300));
        assert.equal(content_of(answer), "17 plus 25 is 42.");
    }
});

// --- the stream's bytes -----------------------------------------------------

await check("the stream is framed as clients expect", async () => {
    const answer = await raw_stream(request_of(named("sum")));
    const { headers, text } = answer;
    assert.match(headers["content-type"], /^text\/event-stream/);
    assert.match(headers["cache-control"], /no-cache/);
    assert.equal(headers["x-accel-buffering"], "no");
    assert.ok(headers["x-request-id"]);
    assert.ok(headers["x-berth-job"]);
    assert.ok(text.endsWith("data: [DONE]\n\n"), JSON.stringify(text.slice(-60)));
    for (const event of text.slice(0, -2).split("\n\n"))
        assert.match(event, /^data: \S[^\n]*$/, "one data line an event");
    const events = sse_events(text);
    assert.equal(events.at(-1).data, "[DONE]");
    for (const event of events.slice(0, -1)) JSON.parse(event.data);
});

await check("chunks share id and created, and begin with the role", async () => {
    const body = request_of(named("rhyme"));
    for (const include_usage of [true, false]) {
        const more = include_usage ? { stream_options: { include_usage } } : {};
        const answer = await raw_stream({ ...body, ...more });
        const events = sse_events(answer.text);
        const chunks = events.slice(0, -1).map((event) => JSON.parse(event.data));
        assert.equal(new Set(chunks.map((chunk) => chunk.id)).size, 1);
        assert.equal(new Set(chunks.map((chunk) => chunk.created)).size, 1);
        for (const chunk of chunks) {
            assert.equal(chunk.object, "chat.completion.chunk");
            assert.equal(chunk.model, "tiny-chat");
        }
        if (include_usage) {
            const last = chunks.pop();
            assert.deepEqual(last.choices, []);
            assert.deepEqual(
                three_counts(last.usage),
                expected(named("rhyme"), "tiny-chat").usage,
            );
            for (const chunk of chunks) assert.equal(chunk.usage, null);
        } else {
            for (const chunk of chunks)
                assert.ok(chunk.usage === undefined, "no usage unasked");
        }
        assert.equal(chunks[0].choices[0].delta.role, "assistant");
        chunks.forEach((chunk, index) => {
            assert.equal(chunk.choices.length, 1);
            const [choice] = chunk.choices;
            assert.equal(choice.index, 0);
            if (index > 0) assert.equal(choice.delta.role, undefined);
            if (index < chunks.length - 1)
                assert.equal(choice.finish_reason, null);
            else assert.equal(choice.finish_reason, "stop");
        });
    }
});

await check("no character is ever cut, whole or streamed", async () => {
    const wanted = questions().filter(({ answer }) => /[^\x00-\x7f]/.test(answer));
    assert.ok(wanted.length >= 10);
    const strict = new TextDecoder("utf-8", { fatal: true });
    await in_parallel(wanted, 4, async ({ messages, answer }) => {
        const raw = await raw_stream(chat_body(messages));
        const text = strict.decode(raw.bytes);
        const pieces = sse_events(text)
            .slice(0, -1)
            .map((event) => JSON.parse(event.data))
            .map((chunk) => chunk.choices[0].delta.content ?? "");
        assert.equal(pieces.join(""), answer);
        for (const piece of pieces) {
            assert.ok(piece.isWellFormed());
            assert.ok(!piece.includes("\ufffd"), JSON.stringify(pieces));
        }
    });
});

await check("a limit inside a character leaves U+FFFD, no half bytes", async () => {
    // The rocket is two tokens and an end; what a decoder of the whole would
    // write for the first of them is one replacement character.
    const body = request_of(named("emoji"), "tiny-chat", { max_tokens: 1 });
    const whole = await client.chat.completions.create(body);
    assert.equal(whole.choices[0].message.content, "\ufffd");
    assert.equal(whole.choices[0].finish_reason, "length");
    assert.equal(whole.usage.completion_tokens, 1);
    const chunks = await gather(
        await client.chat.completions.create({ ...body, stream: true }),
    );
    assert.equal(text_of(chunks), "\ufffd");
    assert.deepEqual(finishes_of(chunks), ["length"]);
});

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

await check("an unknown model is a NotFoundError, model_not_found", async () => {
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
});

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
                    assert.ok(error instanceof OpenAI.BadRequestError, `${error}`);
                    const names = Object.keys(more);
                    assert.ok(names.includes(error.param), `param ${error.param}`);
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

await check("wrong values are a 400 in the error shape", async () => {
    const sum = request_of(named("sum"));
    const wrong = {
        "temperature -1": { ...sum, temperature: -1 },
        "temperature 2.5": { ...sum, temperature: 2.5 },
        "temperature hot": { ...sum, temperature: "hot" },
        "top_p 2": { ...sum, top_p: 2 },
        "top_p -0.1": { ...sum, top_p: -0.1 },
        "max_tokens 0": { ...sum, max_tokens: 0 },
        "max_tokens -5": { ...sum, max_tokens: -5 },
        "max_tokens 1.5": { ...sum, max_tokens: 1.5 },
        "max_tokens many": { ...sum, max_tokens: "many" },
        "five stop strings": { ...sum, stop: ["a", "b", "c", "d", "e"] },
        "a stop number": { ...sum, stop: 5 },
        "a seed of text": { ...sum, seed: "five" },
        "stream yes": { ...sum, stream: "yes" },
        "no model": { messages: sum.messages },
        "model 5": { ...sum, model: 5 },
        "no messages": { model: "tiny-chat" },
        "messages text": { ...sum, messages: "hello" },
        "a message of text": { ...sum, messages: ["hello"] },
        "a message without a role": { ...sum, messages: [{ content: "x" }] },
        "an unknown role": {
            ...sum,
            messages: [{ role: "wizard", content: "x" }],
        },
        "content 5": { ...sum, messages: [{ role: "user", content: 5 }] },
    };
    for (const [what, body] of Object.entries(wrong)) {
        const answer = await api("POST", "/v1/chat/completions", { body });
        assert.equal(answer.status, 400, `${what}: ${answer.text.slice(0, 200)}`);
        assert_error(answer, 400);
    }
    for (const body of ["", "{", "[]", "5", "null", '{"model":"tiny-chat"', "\0"]) {
        const answer = await api("POST", "/v1/chat/completions", { body });
        assert_error(answer, 400);
    }
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

await check("Berth's options are taken as headers and in the body", async () => {
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
});

await check("Berth's own objects are strict", async () => {
    for (const [headers, berth] of [
        [{ "x-berth-class": "soon" }, undefined],
        [{ "x-berth-patience-ms": "a while" }, undefined],
        [{ "x-berth-patience-ms": "-1" }, undefined],
        [{}, { poool: "public" }],
        [{}, { class: "soon" }],
        [{}, { patience_ms: "5" }],
        [{}, "public"],
    ]) {
        const body = { ...request_of(named("sum")), berth };
        const answer = await api("POST", "/v1/chat/completions", {
            body,
            headers,
        });
        assert_error(answer, 400);
    }
});

// --- connections ------------------------------------------------------------

await check("twelve different questions at once all get their own answer", async () => {
    const twelve = questions().filter((_, index) => index % 16 === 0).slice(0, 12);
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
});

await check("one connection serves answers, streams and errors in turn", async () => {
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
});

await check("request ids are new for every request", async () => {
    const ids = new Set();
    for (let i = 0; i < 5; i++)
        ids.add((await api("GET", "/v1/models")).headers["x-request-id"]);
    assert.equal(ids.size, 5);
});

await check("after all that the books balance", books_balance);

finish();
