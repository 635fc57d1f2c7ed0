// questions.mjs - all questions of tests/models/questions.tsv and all
// conversations beside them, over HTTPS at temperature 0, from the weights of
// all three models.

import assert from "node:assert/strict";

import {
    ask,
    check,
    content_of,
    conversations,
    finish,
    in_parallel,
    model_ids,
    questions,
} from "./lib.mjs";

const WIDTH = 8;

const all = questions();
const talks = conversations();

async function all_right(asked, more) {
    const wrong = [];
    await in_parallel(asked, WIDTH, async ({ messages, answer }) => {
        const got = content_of(await ask(messages, more));
        if (got !== answer)
            wrong.push({ ask: messages.at(-1).content, answer, got });
    });
    assert.deepEqual(wrong, []);
}

await check("there are 200 questions and 40 conversations", async () => {
    assert.equal(all.length, 200);
    assert.equal(talks.length, 40);
});

for (const model of model_ids) {
    await check(`${model} answers all 200 questions right`, () =>
        all_right(all, { model }),
    );
    await check(`${model} remembers what was said in 40 conversations`, () =>
        all_right(talks, { model }),
    );
}

finish();
