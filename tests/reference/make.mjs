// make.mjs - the tiny models and what another engine says of them.
//
//   NODE_LLAMA_CPP=.../node_modules/node-llama-cpp node make.mjs [NAME]...
//
// writes tests/data/architectures/NAME.json: config.json, the tensors' shapes
// (from which the numbers follow: numbers.mjs) and, for two prompts, the log
// probabilities at five places and the greedy ids that come after.

import fs from "node:fs";
import os from "node:os";
import path from "node:path";

import { dense } from "./dense.mjs";
import { experts } from "./experts.mjs";
import { gguf_write } from "./gguf.mjs";
import { hybrids } from "./hybrid.mjs";
import { llama_cpp_open } from "./llama_cpp.mjs";
import { ids_make, model_values } from "./numbers.mjs";
import { stored } from "./stored.mjs";

const models = { ...dense, ...experts, ...hybrids, ...stored };
const folder = path.join(import.meta.dirname, "../data/architectures");

const TOP = 20;
const GREEDY = 64;
const TRIES = 200;
// Two engines may round differently; an id that leads by less proves nothing.
const LEAD = 0.02;
// A model that goes round in a small circle proves little.
const DISTINCT = 12;
const prompts = [
    { count: 5, wanted: [0, 1, 2, 3, 4] },
    { count: 700, wanted: [99, 255, 256, 511, 699] },
];

function log_probabilities(logits) {
    const most = Math.max(...logits);
    const sum = logits.reduce((all, one) => all + Math.exp(one - most), 0);
    return Array.from(logits, (one) => one - most - Math.log(sum));
}

// Ids by falling value.
const ranking = (values) =>
    Array.from(values.keys()).sort((a, b) => values[b] - values[a]);

function top_of(logits) {
    const values = log_probabilities(logits);
    return ranking(values)
        .slice(0, TOP)
        .map((id) => [id, Number(values[id].toFixed(6))]);
}

// The greedy ids after @ids, or none where two ids were too close.
async function case_make(engine, ids, wanted) {
    engine.clear();
    const at = await engine.logits(ids, wanted);
    const greedy = [];
    let logits = at.at(-1);
    let lead = Infinity;
    while (greedy.length < GREEDY) {
        const [best, next] = ranking(logits);
        lead = Math.min(lead, logits[best] - logits[next]);
        if (lead < LEAD) return undefined;
        greedy.push(best);
        [logits] = await engine.logits([best], [0]);
    }
    if (new Set(greedy).size < DISTINCT) return undefined;
    return {
        case: {
            ids,
            top: at.map((one, i) => ({
                after: wanted[i] + 1,
                top: top_of(one),
            })),
            greedy,
        },
        lead,
    };
}

async function cases_make(name, engine, vocab) {
    const cases = [];
    for (const { count, wanted } of prompts) {
        let made;
        for (let i = 0; !made && i < TRIES; i++)
            made = await case_make(
                engine,
                ids_make(`${name}.${count}.${i}`, count, vocab),
                wanted,
            );
        if (!made) throw new Error(`${name}: no prompt with a clear lead`);
        const distinct = new Set(made.case.greedy).size;
        console.log(
            `${name}: ${count} ids, least lead ${made.lead.toFixed(3)}, ` +
                `${distinct} different ids`,
        );
        cases.push(made.case);
    }
    return cases;
}

// JSON with a line for each item of @list.
const lines = (list) => list.join(",\n");

const case_text = ({ ids, top, greedy }) =>
    `{"ids":${JSON.stringify(ids)},\n"top":[\n` +
    `${lines(top.map((one) => JSON.stringify(one)))}],\n` +
    `"greedy":${JSON.stringify(greedy)}}`;

const model_text = (config, tensors, cases) =>
    `{"config":${JSON.stringify(config)},\n"tensors":{\n` +
    lines(
        Object.entries(tensors).map(
            ([name, spec]) => `${JSON.stringify(name)}:${JSON.stringify(spec)}`,
        ),
    ) +
    `},\n"cases":[\n${lines(cases.map(case_text))}]}\n`;

async function model_make(name) {
    const { config, tensors, formats, gguf } = models[name]();
    const work = fs.mkdtempSync(path.join(os.tmpdir(), "berth-reference."));
    const file = path.join(work, "model.gguf");
    const made = gguf(model_values(tensors, formats));
    gguf_write(file, made.keys, made.tensors);
    const engine = await llama_cpp_open(file);
    const cases = await cases_make(
        name,
        engine,
        (config.text_config ?? config).vocab_size,
    );
    await engine.close();
    fs.rmSync(work, { recursive: true });
    fs.mkdirSync(folder, { recursive: true });
    fs.writeFileSync(
        path.join(folder, `${name}.json`),
        model_text(config, tensors, cases),
    );
}

const wanted = process.argv.slice(2);
for (const name of wanted.length > 0 ? wanted : Object.keys(models))
    await model_make(name);
process.exit(0);
