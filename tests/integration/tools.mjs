// tools.mjs - tool calls and reasoning as stock clients see them: a stand-in
// says word for word what a model would, and the clients `openai` and `ai` make
// of it what their users get.

import assert from "node:assert/strict";
import fs from "node:fs";
import https from "node:https";
import path from "node:path";
import { Readable } from "node:stream";

import {
    api,
    ai_modules,
    bin,
    books_balance,
    check,
    finish,
    job_ended,
    models_folder,
    must,
    network,
    new_account,
    open_request,
    openai_module,
    root,
    run,
    sse_events,
    tokenize,
} from "./lib.mjs";
import {
    agent_join,
    agent_start,
    berth,
    coordinator_start,
    end,
    folder,
    network_end,
} from "./own.mjs";
import { row_of, rows_not_met } from "./error_table.mjs";
import { node_in_state } from "./fleet.mjs";
import { StandIn } from "./standin.mjs";

const END_ID = 2047;
const MODEL = "tiny-tools";
const THOUGHT = "The user wants the weather.\nSo I look.";
const CALL = {
    name: "get_weather",
    arguments: '{"city": "Paris", "days": 3}',
};
const call_text = ({ name, arguments: text }) =>
    `<tool_call>\n{"name": "${name}", "arguments": ${text}}\n</tool_call>`;
const ANSWER = `<think>\n${THOUGHT}\n</think>\n\nLet me see.\n${call_text(CALL)}`;
const LAST = "It is 21 degrees in Paris.";
const TOOL = {
    type: "function",
    function: {
        name: "get_weather",
        description: "Weather of a city",
        parameters: {
            type: "object",
            properties: { city: { type: "string" }, days: { type: "integer" } },
            required: ["city"],
        },
    },
};
const question = { role: "user", content: "How is the weather in Paris?" };

let node;
let user;
let client;

// tiny-chat with the chat template @template.
async function model_add(id, template) {
    const from = path.join(models_folder, "tiny-chat");
    const to = path.join(folder, id);
    fs.cpSync(from, to, { recursive: true });
    const file = path.join(to, "tokenizer_config.json");
    const config = JSON.parse(fs.readFileSync(file, "utf8"));
    fs.writeFileSync(file, JSON.stringify({ ...config, chat_template: template }));
    const added = await berth(["models", "add", to, "--id", id]);
    assert.equal(added.code, 0, added.stderr);
    return must(200, "GET", `/api/v1/catalogue/${id}`);
}

// The network's own CA is not among those that fetch() trusts.
const trusting_fetch = (url, { method, headers, body, signal } = {}) =>
    new Promise((resolve, reject) => {
        const options = {
            method,
            headers: Object.fromEntries(new Headers(headers)),
            ca: fs.readFileSync(network.ca_file),
            signal,
        };
        const request = https.request(url, options, (response) =>
            resolve(
                new Response(Readable.toWeb(response), {
                    status: response.statusCode,
                    headers: response.headers,
                }),
            ),
        );
        request.on("error", reject);
        request.end(body);
    });

// The stand-in says @text, a few ids a frame, to the next job it is given.
async function say(text, piece = 3) {
    const given = await node.take_run();
    const ids = [...(await tokenize(text)), END_ID];
    for (let at = 0; at < ids.length; at += piece)
        node.tokens(given, at, ids.slice(at, at + piece));
    node.done(given, ids.length, "stop");
    return { ...given, ids };
}

const chat = (more = {}) => ({
    model: MODEL,
    messages: [question],
    tools: [TOOL],
    ...more,
});

const is_up = await check("a network with a stand-in starts", async () => {
    await coordinator_start();
    const template = path.join(root, "tests/golden/template/qwen.jinja");
    const entry = await model_add(MODEL, fs.readFileSync(template, "utf8"));
    await model_add(
        "tiny-odd",
        "{{ tools }}{% for m in messages %}{{ m.content }}{% endfor %}",
    );
    await must(201, "POST", "/api/v1/accounts", { body: { name: "alice" } });
    await agent_join("first", "alice");
    node = new StandIn(path.join(folder, "first"), {
        digest: entry.digest,
        bytes: entry.weight_bytes,
    });
    await node.connect();
    await node_in_state("first", "lending");
    user = await new_account("user", 400_000_000);
    const OpenAI = openai_module();
    client = new OpenAI({
        apiKey: user.key,
        baseURL: `${network.url}/v1`,
        maxRetries: 0,
        fetch: trusting_fetch,
    });
});
if (!is_up) {
    await network_end();
    finish();
}

// --- the client `openai` ----------------------------------------------------

await check("a whole answer has reasoning, content and call", async () => {
    const [answer] = await Promise.all([
        client.chat.completions.create(chat()),
        say(ANSWER),
    ]);
    const [{ message, finish_reason }] = answer.choices;
    assert.equal(finish_reason, "tool_calls");
    assert.equal(message.content, "Let me see.");
    assert.equal(message.reasoning_content, THOUGHT);
    assert.equal(message.tool_calls.length, 1);
    const [{ id, type, function: called }] = message.tool_calls;
    assert.match(id, /^call_[a-zA-Z0-9]{24}$/);
    assert.equal(type, "function");
    assert.deepEqual(called, CALL);
    const { completion_tokens, completion_tokens_details } = answer.usage;
    const { reasoning_tokens } = completion_tokens_details;
    assert.ok(reasoning_tokens > 5 && reasoning_tokens < completion_tokens);
});

await check("a call alone has no content", async () => {
    const [answer] = await Promise.all([
        client.chat.completions.create(chat()),
        say(call_text(CALL)),
    ]);
    const [{ message }] = answer.choices;
    assert.equal(message.content, null);
    assert.equal("reasoning_content" in message, false);
    assert.deepEqual(message.tool_calls[0].function, CALL);
});

await check("a stream brings the call first, then its pieces", async () => {
    const [chunks] = await Promise.all([
        client.chat.completions
            .create(chat({ stream: true }))
            .then(async (stream) => {
                const all = [];
                for await (const chunk of stream) all.push(chunk);
                return all;
            }),
        say(`${ANSWER}\n${call_text({ ...CALL, name: "again" })}`, 1),
    ]);
    const deltas = chunks.map((chunk) => chunk.choices[0].delta);
    const joined = (name) => deltas.map((delta) => delta[name] ?? "").join("");
    assert.equal(deltas[0].role, "assistant");
    assert.equal(joined("content"), "Let me see.");
    assert.equal(joined("reasoning_content"), THOUGHT);
    const calls = deltas.flatMap((delta) => delta.tool_calls ?? []);
    for (const [index, name] of ["get_weather", "again"].entries()) {
        const [first, ...rest] = calls.filter((call) => call.index === index);
        assert.equal(first.type, "function");
        assert.deepEqual(first.function, { name, arguments: "" });
        assert.ok(rest.length > 3, "the arguments come in pieces");
        assert.ok(rest.every((piece) => piece.id === undefined));
        assert.equal(
            rest.map((piece) => piece.function.arguments).join(""),
            CALL.arguments,
        );
    }
    assert.equal(chunks.at(-1).choices[0].finish_reason, "tool_calls");
});

await check("the client's own assembly of a stream agrees", async () => {
    const stream = client.chat.completions.stream(chat());
    const [answer] = await Promise.all([
        stream.finalChatCompletion(),
        say(ANSWER, 1),
    ]);
    const [{ message, finish_reason }] = answer.choices;
    assert.equal(finish_reason, "tool_calls");
    assert.equal(message.tool_calls[0].function.arguments, CALL.arguments);
});

await check("a conversation with a tool goes to its end", async () => {
    const seen = [];
    const runner = client.chat.completions.runTools({
        model: MODEL,
        messages: [question],
        tools: [
            {
                ...TOOL,
                function: {
                    ...TOOL.function,
                    parse: JSON.parse,
                    function: (given) => {
                        seen.push(given);
                        return "21 degrees";
                    },
                },
            },
        ],
    });
    const [text, second] = await Promise.all([
        runner.finalContent(),
        say(ANSWER).then(() => say(LAST)),
    ]);
    assert.deepEqual(seen, [{ city: "Paris", days: 3 }]);
    assert.equal(text, LAST);
    const prompt = await run(path.join(bin, "berth-engine"), [
        "detokenize",
        "--model",
        path.join(models_folder, "tiny-chat"),
        second.prompt.join(","),
    ]);
    assert.equal(prompt.code, 0, prompt.stderr);
    assert.ok(prompt.stdout.includes(call_text(CALL)), prompt.stdout);
    assert.ok(prompt.stdout.includes("21 degrees"), prompt.stdout);
});

await check("tool_choice none offers no tool and reads no call", async () => {
    const [answer] = await Promise.all([
        client.chat.completions.create(chat({ tool_choice: "none" })),
        say(call_text(CALL)),
    ]);
    const [{ message, finish_reason }] = answer.choices;
    assert.equal(finish_reason, "stop");
    assert.equal(message.content, call_text(CALL));
    assert.equal(message.tool_calls, undefined);
});

await check("one call alone ends the answer, and the engine", async () => {
    const asked = client.chat.completions.create(
        chat({ parallel_tool_calls: false }),
    );
    const given = await node.take_run();
    const ids = await tokenize(`${call_text(CALL)}\n${call_text(CALL)} and on`);
    node.tokens(given, 0, ids);
    const cancel = await node.next("job.cancel");
    assert.equal(cancel.job, given.job);
    node.fail(given, "cancelled");
    const [{ message, finish_reason }] = (await asked).choices;
    assert.equal(message.tool_calls.length, 1);
    assert.equal(finish_reason, "tool_calls");
});

await check("a forced call is begun for the model", async () => {
    const tool_choice = {
        type: "function",
        function: { name: TOOL.function.name },
    };
    const [answer, given] = await Promise.all([
        client.chat.completions.create(chat({ tool_choice })),
        say(` ${CALL.arguments}}\n</tool_call>`),
    ]);
    const [{ message, finish_reason }] = answer.choices;
    assert.equal(finish_reason, "tool_calls");
    assert.deepEqual(message.tool_calls[0].function, CALL);
    assert.equal(message.content, null);
    const begin = await tokenize('get_weather", "arguments":');
    assert.deepEqual(given.prompt.slice(-4), begin.slice(-4));
});

// --- the client `ai` --------------------------------------------------------

await check("the client ai calls the tool and reads reasoning", async () => {
    const { ai, compatible } = ai_modules();
    const provider = compatible.createOpenAICompatible({
        name: "berth",
        baseURL: `${network.url}/v1`,
        apiKey: user.key,
        fetch: trusting_fetch,
        includeUsage: true,
    });
    const seen = [];
    const result = ai.streamText({
        model: provider(MODEL),
        prompt: question.content,
        maxRetries: 0,
        stopWhen: ai.stepCountIs(3),
        tools: {
            get_weather: ai.tool({
                description: "Weather of a city",
                inputSchema: ai.jsonSchema(TOOL.function.parameters),
                execute: async (given) => {
                    seen.push(given);
                    return "21 degrees";
                },
            }),
        },
    });
    const said = say(ANSWER, 1).then(() => say(LAST, 1));
    const [text, steps] = await Promise.all([result.text, result.steps, said]);
    assert.equal(text, LAST);
    assert.deepEqual(seen, [{ city: "Paris", days: 3 }]);
    assert.equal(steps[0].reasoningText, THOUGHT);
    assert.equal(steps[0].finishReason, "tool-calls");
    assert.equal(steps[0].toolCalls[0].toolName, "get_weather");
});

// --- jobs -------------------------------------------------------------------

const submit = () =>
    must(202, "POST", "/api/v1/jobs", {
        key: user.key,
        body: { kind: "chat", request: chat() },
    }).then(({ id }) => id);

const events_of = async (job) =>
    sse_events(
        (await api("GET", `/api/v1/jobs/${job}/events`, { key: user.key })).text,
    );

// The id of the first call, read while the job lives.
function first_call_id(job) {
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
                const call = sse_events(text).find(
                    ({ event }) => event === "tool_call",
                );
                if (call === undefined) return;
                request.destroy();
                resolve(JSON.parse(call.data).id);
            });
        });
    });
}

// What the events say, whatever the borders between them.
function told(events) {
    const parts = {};
    for (const { event, data } of events) {
        const { index, id, name, text, finish_reason } = JSON.parse(data);
        const key = index === undefined ? event : `${event} ${index}`;
        parts[key] = (parts[key] ?? "") + (text ?? name ?? finish_reason);
        if (id !== undefined) parts[`id ${index}`] = id;
    }
    return parts;
}

await check("a job's result and events have calls and reasoning", async () => {
    const job = await submit();
    await say(ANSWER);
    const ended = await job_ended(job, { key: user.key });
    assert.equal(ended.state, "done");
    const [{ message, finish_reason }] = ended.result.choices;
    assert.equal(finish_reason, "tool_calls");
    assert.equal(message.reasoning_content, THOUGHT);
    assert.deepEqual(message.tool_calls[0].function, CALL);
    assert.ok(
        ended.result.usage.completion_tokens_details.reasoning_tokens > 5,
    );
    assert.deepEqual(told(await events_of(job)), {
        reasoning: THOUGHT,
        content: "Let me see.",
        "tool_call 0": CALL.name,
        "id 0": message.tool_calls[0].id,
        "tool_arguments 0": CALL.arguments,
        finish: "tool_calls",
    });
});

await check("a call cut by a lost node goes on and repeats nothing", async () => {
    const ids = [...(await tokenize(ANSWER)), END_ID];
    for (const cut of [2, ids.length - 30, ids.length - 12]) {
        const job = await submit();
        const given = await node.take_run();
        node.tokens(given, 0, ids.slice(0, cut));
        node.fail(given, "engine_lost");
        const again = await node.take_run();
        assert.equal(again.attempt, 2);
        assert.deepEqual(again.done, ids.slice(0, cut));
        node.tokens(again, cut, ids.slice(cut));
        node.done(again, ids.length - cut, "stop");
        const ended = await job_ended(job, { key: user.key });
        const [{ message }] = ended.result.choices;
        assert.deepEqual(message.tool_calls[0].function, CALL);
        assert.equal(message.reasoning_content, THOUGHT);
        assert.equal(message.content, "Let me see.");
        assert.equal(told(await events_of(job))["id 0"], message.tool_calls[0].id);
    }
});

await check("a new coordinator gives the call its old id", async () => {
    const ids = [...(await tokenize(ANSWER)), END_ID];
    const ended = await submit();
    await say(ANSWER);
    await job_ended(ended, { key: user.key });
    const before = await events_of(ended);
    const job = await submit();
    const given = await node.take_run();
    node.tokens(given, 0, ids.slice(0, -4));
    const id = await first_call_id(job);
    await end("coordinator", "SIGKILL");
    await coordinator_start();
    assert.deepEqual(await events_of(ended), before, "made again from its ids");
    const { job: name, attempt } = given;
    const held = { job: name, attempt, ended: false, done: 0, ids: ids.length };
    await node.connect([held]);
    await node.next("job.resume");
    node.tokens(given, 0, ids);
    node.done(given, ids.length, "stop");
    const { result } = await job_ended(job, { key: user.key });
    const [{ message }] = result.choices;
    assert.equal(message.tool_calls[0].id, id);
    assert.deepEqual(message.tool_calls[0].function, CALL);
});

// --- a real engine ----------------------------------------------------------

await check("a real engine goes on in the call that was begun", async () => {
    await node.drop();
    await agent_join("second", "alice");
    agent_start("second", { models: folder });
    await node_in_state("second", "lending");
    const body = chat({
        tool_choice: "required",
        parallel_tool_calls: false,
        temperature: 0,
        max_tokens: 24,
    });
    const whole = await client.chat.completions.create(body);
    const [{ message, finish_reason }] = whole.choices;
    assert.equal(message.tool_calls.length, 1);
    assert.equal(message.tool_calls[0].function.name, TOOL.function.name);
    assert.ok(message.tool_calls[0].function.arguments.length > 0);
    assert.match(finish_reason, /^(length|tool_calls)$/);
    const shown = await berth([
        "chat",
        "--model",
        MODEL,
        "--temp",
        "0",
        "--max-tokens",
        "4",
        "Hi",
    ]);
    assert.equal(shown.code, 0, shown.stderr);
});

// --- what is refused --------------------------------------------------------

const called = (calls) => ({
    role: "assistant",
    content: null,
    tool_calls: calls,
});
const one = { id: "c1", type: "function", function: CALL };
const result = { role: "tool", tool_call_id: "c1", content: "21" };
for (const [name, more] of Object.entries({
    tools_form: { model: "tiny-odd" },
    calls: { messages: [question, called({})] },
    call: { messages: [question, called([{ ...one, id: "" }])] },
    call_twice: { messages: [question, called([one, one])] },
    call_arguments: {
        messages: [
            question,
            called([{ ...one, function: { name: "f", arguments: "[]" } }]),
        ],
    },
    call_unanswered: { messages: [question, called([one]), question] },
    call_unknown: { messages: [question, called([one]), result, result] },
}))
    await check(`${name} is refused`, async () => {
        const answer = await api("POST", "/v1/chat/completions", {
            key: user.key,
            body: chat(more),
        });
        const { code, message } = answer.json.error;
        assert.equal(row_of(["tools"], answer.status, code, message).id, name);
    });

await check("every row of docs/errors.md was met", () => {
    assert.deepEqual(rows_not_met((where) => where === "tools"), []);
});

await check("after all that the books balance", books_balance);

if (node.is_open) await node.drop();
await network_end();
finish();
