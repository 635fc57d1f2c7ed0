// prng.mjs - random numbers that are a function of a seed and a name, so that
// a campaign can be repeated and its parts do not disturb each other.

import { createHash } from "node:crypto";

// The stream @name of @seed; whole numbers by sfc32.
export function prng(seed, name) {
    const digest = createHash("sha256").update(`${seed}/${name}`).digest();
    let [a, b, c, d] = [0, 4, 8, 12].map((at) => digest.readUInt32LE(at));
    const next = () => {
        const t = (a + b + d) | 0;
        d = (d + 1) | 0;
        a = b ^ (b >>> 9);
        b = (c + (c << 3)) | 0;
        c = ((c << 21) | (c >>> 11)) + t;
        return t >>> 0;
    };
    const real = () => next() / 2 ** 32;
    return {
        next,
        // From @low to @high, both included.
        whole: (low, high) => low + Math.floor(real() * (high - low + 1)),
        chance: (part) => real() < part,
        one_of: (list) => list[Math.floor(real() * list.length)],
        // A key of {key: weight}.
        weighted(weights) {
            const entries = Object.entries(weights);
            let left =
                real() * entries.reduce((sum, [, weight]) => sum + weight, 0);
            for (const [key, weight] of entries) {
                left -= weight;
                if (left < 0) return key;
            }
            return entries.at(-1)[0];
        },
    };
}
