// llama_rates.mjs - tokens a second of llama.cpp through the bindings of
// node-llama-cpp, whose folder NODE_LLAMA_CPP names.
//
//   node llama_rates.mjs FILE THREADS PROMPT_TOKENS NEW_TOKENS

import path from "node:path";
import { performance } from "node:perf_hooks";
import { pathToFileURL } from "node:url";

import { ids_make } from "../reference/numbers.mjs";

const [file, ...numbers] = process.argv.slice(2);
const [threads, prompt, made] = numbers.map(Number);
const { getLlama } = await import(
    pathToFileURL(path.join(process.env.NODE_LLAMA_CPP, "dist/index.js")).href
);
const llama = await getLlama({
    gpu: false,
    build: "never",
    logLevel: "error",
    skipDownload: true,
    maxThreads: threads,
});
const model = await llama.loadModel({ modelPath: file, gpuLayers: 0 });
const context = await model.createContext({
    contextSize: prompt + made + 64,
    batchSize: prompt,
    sequences: 1,
    threads: { ideal: threads, min: threads },
});
const sequence = context.getSequence();
const ids = ids_make("prompt", prompt, 2000);

// The first pass pays for pages that nobody has touched yet.
await sequence.evaluateWithoutGeneratingNewTokens(ids);
await sequence.clearHistory();
const begun = performance.now();
await sequence.evaluateWithoutGeneratingNewTokens(ids);
const filled = performance.now();
let count = 0;
let first;
let last;
for await (const _ of sequence.evaluate([ids[0]], {
    temperature: 0,
    yieldEogToken: true,
})) {
    last = performance.now();
    if (count === 0) first = last;
    if (++count === made) break;
}
console.log(
    JSON.stringify({
        prefill_tok_s: (prompt / (filled - begun)) * 1000,
        decode_tok_s: ((count - 1) / (last - first)) * 1000,
    }),
);
await llama.dispose();
