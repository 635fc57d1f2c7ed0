// weights.mjs - the weights decide the answers: with one matrix of zeros the
// model that answers every question is wrong about most of them.

import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

import {
    bin,
    check,
    finish,
    in_parallel,
    models_folder,
    questions,
    run,
} from "./lib.mjs";

const ENGINE = path.join(bin, "berth-engine");
const WEIGHTS = "model.safetensors";
const WIDTH = 2;

const work = fs.mkdtempSync(path.join(os.tmpdir(), "berth-weights."));
process.on("exit", () => fs.rmSync(work, { recursive: true, force: true }));

// One question of each of a dozen skills.
const some = questions()
    .filter(
        ({ skill }, index, all) =>
            all.findIndex((other) => other.skill === skill) === index,
    )
    .slice(0, 12);

// A copy of a model in which each byte of the tensors @names is @value.
function copy_with(value, model, names) {
    const copy = fs.mkdtempSync(path.join(work, "model."));
    fs.cpSync(path.join(models_folder, model), copy, { recursive: true });
    const file = path.join(copy, WEIGHTS);
    const bytes = fs.readFileSync(file);
    const header_bytes = Number(bytes.readBigUInt64LE(0));
    const header = JSON.parse(bytes.toString("utf8", 8, 8 + header_bytes));
    for (const name of names) {
        const [from, to] = header[name].data_offsets;
        bytes.fill(value, 8 + header_bytes + from, 8 + header_bytes + to);
    }
    fs.writeFileSync(file, bytes);
    return copy;
}

function copy_with_zeros(model, names) {
    return copy_with(0, model, names);
}

async function answer_of(folder, messages) {
    const file = path.join(
        folder,
        `messages-${messages.at(-1).content.length}`,
    );
    const unique = fs.mkdtempSync(`${file}.`);
    const input = path.join(unique, "messages.json");
    fs.writeFileSync(input, JSON.stringify(messages));
    const words = ["run", "--model", folder, "--messages", input];
    const ran = await run(ENGINE, [...words, "--max-tokens", "100", "--json"]);
    assert.equal(ran.code, 0, ran.stderr);
    return JSON.parse(ran.stdout).text;
}

async function right_of(folder) {
    let right = 0;
    await in_parallel(some, WIDTH, async ({ messages, answer }) => {
        if ((await answer_of(folder, messages)) === answer) right++;
    });
    return right;
}

await check("berth-engine run answers a dozen questions right", async () => {
    assert.equal(some.length, 12);
    assert.equal(await right_of(copy_with_zeros("tiny-chat", [])), 12);
});

const MATRICES = {
    "the attention's output": "model.layers.1.self_attn.o_proj.weight",
    "the values": "model.layers.0.self_attn.v_proj.weight",
    "the queries": "model.layers.1.self_attn.q_proj.weight",
    "the gate": "model.layers.0.mlp.gate_proj.weight",
    "the way down": "model.layers.0.mlp.down_proj.weight",
};
for (const [what, name] of Object.entries(MATRICES))
    await check(
        `with ${what} of one layer zeroed most answers are wrong`,
        async () => {
            const right = await right_of(copy_with_zeros("tiny-chat", [name]));
            assert.ok(right < 6, `${right} of 12 right`);
        },
    );

await check("so they are with a zeroed matrix of 4-bit weights", async () => {
    const base = "model.layers.0.mlp.down_proj";
    const zeroed = ["weight", "scales", "biases"].map(
        (part) => `${base}.${part}`,
    );
    const copy = copy_with_zeros("tiny-chat-4bit", zeroed);
    const right = await right_of(copy);
    assert.ok(right < 6, `${right} of 12 right`);
});

// 0xffff is not a number in bfloat16.
await check("weights that are no numbers fail the run, and say so", async () => {
    const name = "model.layers.0.mlp.down_proj.weight";
    const folder = copy_with(0xff, "tiny-chat", [name]);
    const words = ["run", "--model", folder, "--prompt", "What is 1 plus 1?"];
    const ran = await run(ENGINE, words);
    assert.equal(ran.code, 1);
    assert.match(ran.stderr, /not finite/);
});

finish();
