// questions.mjs - all questions of tests/models/questions.tsv, over HTTPS at
// temperature 0, from the weights of all three models.

import assert from "node:assert/strict";

import {
    ask,
    check,
    content_of,
    finish,
    in_parallel,
    model_ids,
    questions,
} from "./lib.mjs";

const WIDTH = 8;

const all = questions();

await check("there are 200 questions", async () => {
    assert.equal(all.length, 200);
});

for (const model of model_ids)
    await check(`${model} answers all 200 questions right`, async () => {
        const wrong = [];
        await in_parallel(all, WIDTH, async ({ messages, answer }) => {
            const got = content_of(await ask(messages, { model }));
            if (got !== answer)
                wrong.push({ ask: messages.at(-1).content, answer, got });
        });
        assert.deepEqual(wrong, []);
    });

finish();
