// requests.mjs - what the campaign asks, and what the undisturbed network
// answers.

import assert from "node:assert/strict";

import {
    api,
    chat_body,
    conversations,
    in_parallel,
    questions,
    reference,
} from "../integration/lib.mjs";

const numbers = (count) =>
    Array.from({ length: count }, (_, i) => i + 1).join(", ");
const COUNT = "Count from 1 to 200.";
const reference_named = (wanted) =>
    reference().find(({ name }) => name === wanted);

const chat = (name, prompt, more, known) => ({
    name,
    kind: "chat",
    body: chat_body(prompt, more),
    known,
});

// Answers whose text is known from elsewhere: arithmetic, the model's own
// questions, another implementation's continuation.
function greedy() {
    const list = [
        chat("count-200", COUNT, {}, numbers(200)),
        chat("count-100", "Count from 1 to 100.", {}, numbers(100)),
        chat(
            "count-200-stop",
            COUNT,
            { stop: [", 151", "9, 200"] },
            numbers(150),
        ),
        {
            name: "completion-100",
            kind: "completion",
            body: {
                model: "tiny-chat",
                prompt: reference_named("count").rendered,
                max_tokens: 500,
                temperature: 0,
            },
            known: numbers(100),
        },
    ];
    for (const skill of ["emoji", "languages", "alphabet", "as_json"]) {
        const found = questions().find((line) => line.skill === skill);
        list.push(chat(skill, found.messages, {}, found.answer));
    }
    const [talk] = conversations();
    list.push(chat("conversation", talk.messages, {}, talk.answer));
    return list;
}

// Sampled ones: what they say only an undisturbed run can tell.
function sampled() {
    const prompts = [COUNT, "Say something about cats.", "Tell me a story."];
    return prompts.flatMap((prompt, i) => [
        chat(`sampled-hot-${i}`, prompt, {
            seed: 11 + i,
            temperature: 1.2,
            top_p: 0.95,
            max_tokens: 700,
        }),
        chat(`sampled-limit-${i}`, prompt, {
            seed: 23 + i,
            temperature: 0.8,
            top_k: 40,
            max_tokens: 300,
            stop: ["zebra", "123, 124"],
        }),
    ]);
}

export const ROUTES = {
    chat: "/v1/chat/completions",
    completion: "/v1/completions",
};

// The text of an answer in either form.
export const text_of = (choice) => choice.message?.content ?? choice.text;

// Every request with {text, finish, usage} of the network at rest.
export async function requests_learn(key) {
    const list = [...greedy(), ...sampled()];
    await in_parallel(list, 2, async (request) => {
        const answer = await api("POST", ROUTES[request.kind], {
            key,
            body: request.body,
        });
        assert.equal(answer.status, 200, answer.text.slice(0, 500));
        const [choice] = answer.json.choices;
        request.expected = {
            text: text_of(choice),
            finish: choice.finish_reason,
            usage: answer.json.usage,
        };
        if (request.known !== undefined)
            assert.equal(request.expected.text, request.known, request.name);
    });
    return list;
}
