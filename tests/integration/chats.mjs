// chats.mjs - the stock `openai` client, and what answers must be: texts and
// counts of tests/models/reference.json, which another implementation computed.

import assert from "node:assert/strict";

import { api, network, openai_module, reference } from "./lib.mjs";

export const OpenAI = openai_module();
export const client = new OpenAI({
    apiKey: network.key,
    baseURL: `${network.url}/v1`,
    maxRetries: 0,
});
const REFERENCE_OF = {
    "tiny-chat": "bf16",
    "tiny-chat-8bit": "mlx-8bit",
    "tiny-chat-4bit": "mlx-4bit",
};
export const prompts = reference();
export const named = (name) => prompts.find((prompt) => prompt.name === name);
export const COUNT = named("count");

// What the other implementation says of this prompt and model.
export function expected(prompt, model) {
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

export function three_counts({
    prompt_tokens,
    completion_tokens,
    total_tokens,
}) {
    return { prompt_tokens, completion_tokens, total_tokens };
}

export function request_of(prompt, model = "tiny-chat", more = {}) {
    return { model, messages: prompt.messages, temperature: 0, ...more };
}

export async function gather(stream) {
    const chunks = [];
    for await (const chunk of stream) chunks.push(chunk);
    return chunks;
}

export const text_of = (chunks) =>
    chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("");

export const finishes_of = (chunks) =>
    chunks
        .flatMap((chunk) => chunk.choices)
        .map((choice) => choice.finish_reason)
        .filter((reason) => reason !== null);

export async function raw_stream(body, options) {
    const answer = await api("POST", "/v1/chat/completions", {
        body: { ...body, stream: true },
        ...options,
    });
    assert.equal(answer.status, 200, answer.text.slice(0, 500));
    return answer;
}
