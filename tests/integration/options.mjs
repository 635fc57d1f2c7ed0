// options.mjs - requests over every option that steers an answer: greedy and
// drawn, short and cut off by a stop string, with characters of many bytes; and
// numbers at random that a seed repeats.

import { chat_body } from "./lib.mjs";

const COUNT = "Count from 1 to 200.";

// SplitMix64, as common/prng.c: below(n) is uniform enough for tests.
export function random_from(seed) {
    const MASK = (1n << 64n) - 1n;
    let state = BigInt(seed);
    const next = () => {
        state = (state + 0x9e3779b97f4a7c15n) & MASK;
        let z = state;
        z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
        z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & MASK;
        return z ^ (z >> 31n);
    };
    return { below: (bound) => Number(next() % BigInt(bound)) };
}

const chat = (more) => ({
    route: "/v1/chat/completions",
    kind: "chat",
    body: chat_body(COUNT, more),
});

// Text that the model goes on with, of characters that take several ids each.
const completion = (prompt, more) => ({
    route: "/v1/completions",
    kind: "completion",
    body: { model: "tiny-chat", prompt, max_tokens: 700, ...more },
});

export const requests = [
    chat({}),
    chat({ model: "tiny-chat-8bit" }),
    chat({ model: "tiny-chat-4bit", max_tokens: 650 }),
    chat({ stop: [", 181", "nothing like it"] }),
    chat({ model: "tiny-chat-8bit", stop: ["179, 18"], max_tokens: 800 }),
    chat({ temperature: 0.8, seed: 11 }),
    chat({ model: "tiny-chat-4bit", temperature: 1, top_k: 40, seed: 12 }),
    chat({ temperature: 1.2, top_p: 0.9, seed: -1 }),
    completion("\u{1f686} \u{1f686} \u{1f686} \u{1f686} \u{1f686}", {
        temperature: 1.9,
        seed: 15,
    }),
    completion("\u{1f686} \u{1f686} \u{1f686} \u{1f686} \u{1f686}", {
        model: "tiny-chat-8bit",
        temperature: 1.9,
        top_p: 0.999,
        top_k: 2000,
        seed: 3,
    }),
];

export const text_of_choice = ({ message, text }) => message?.content ?? text;
