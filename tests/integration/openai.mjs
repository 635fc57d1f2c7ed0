// openai.mjs - answers to the stock `openai` client, whole and streamed, and
// the bytes of the stream itself.

import assert from "node:assert/strict";

import {
    api,
    ask,
    assert_error,
    books_balance,
    chat_body,
    check,
    content_of,
    fee_by_hand,
    finish,
    in_parallel,
    job_ended,
    model_ids,
    must,
    price_by_hand,
    questions,
    sse_events,
} from "./lib.mjs";
import {
    COUNT,
    OpenAI,
    client,
    expected,
    finishes_of,
    gather,
    named,
    prompts,
    raw_stream,
    request_of,
    text_of,
    three_counts,
} from "./chats.mjs";

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

await check(
    "a model nobody has is a NotFoundError, slashes or not",
    async () => {
        for (const id of ["tiny-chat-2bit", "some-org/some-model"])
            await assert.rejects(client.models.retrieve(id), (error) => {
                assert.ok(error instanceof OpenAI.NotFoundError);
                assert.equal(error.code, "model_not_found");
                return true;
            });
        const raw = await api("GET", "/v1/models/some-org/some-model");
        assert_error(raw, 404, "model_not_found");
    },
);

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
        128 * 256 +
        2 * 128 * 128 +
        256 * 128 +
        3 * 128 * 512 +
        2 * 128 +
        2 * 32;
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

await check(
    "a completion of a rendered chat is the chat's answer",
    async () => {
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
    },
);

// --- how an answer ends -----------------------------------------------------

// Every character of the counting answer is one token, so lengths can be
// counted by eye: "1, 2, 3".
const counting = expected(COUNT, "tiny-chat").text;

await check(
    "max_tokens ends an answer with length, counted exactly",
    async () => {
        for (const limit of [
            { max_tokens: 10 },
            { max_completion_tokens: 10 },
        ]) {
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
    },
);

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

await check(
    "temperature 0 gives one answer, whatever the company",
    async () => {
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
    },
);

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
    for (let seed = 1; seed <= 8; seed++)
        others.add(await sampled(seed, false));
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
    assert.ok(
        text.endsWith("data: [DONE]\n\n"),
        JSON.stringify(text.slice(-60)),
    );
    for (const event of text.slice(0, -2).split("\n\n"))
        assert.match(event, /^data: \S[^\n]*$/, "one data line an event");
    const events = sse_events(text);
    assert.equal(events.at(-1).data, "[DONE]");
    for (const event of events.slice(0, -1)) JSON.parse(event.data);
});

await check(
    "chunks share id and created, and begin with the role",
    async () => {
        const body = request_of(named("rhyme"));
        for (const include_usage of [true, false]) {
            const more = include_usage
                ? { stream_options: { include_usage } }
                : {};
            const answer = await raw_stream({ ...body, ...more });
            const events = sse_events(answer.text);
            const chunks = events
                .slice(0, -1)
                .map((event) => JSON.parse(event.data));
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
    },
);

await check("no character is ever cut, whole or streamed", async () => {
    const wanted = questions().filter(({ answer }) =>
        /[^\x00-\x7f]/.test(answer),
    );
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

await check(
    "a limit inside a character leaves U+FFFD, no half bytes",
    async () => {
        // The rocket is two tokens and an end; for the first of them a decoder
        // of the whole would write one replacement character.
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
    },
);

await check("after all that the books balance", books_balance);

finish();
