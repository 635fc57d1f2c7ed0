// llama_cpp.mjs - what llama.cpp says of a GGUF file, in float32 throughout.
//
// The npm package node-llama-cpp is not among the test's own; its folder is
// named by NODE_LLAMA_CPP.

import path from "node:path";
import { pathToFileURL } from "node:url";

const folder = process.env.NODE_LLAMA_CPP;
if (!folder)
    throw new Error("NODE_LLAMA_CPP: name the folder of node-llama-cpp");

const { getLlama } = await import(
    pathToFileURL(path.join(folder, "dist/index.js")).href
);
const llama = await getLlama({
    gpu: false,
    build: "never",
    logLevel: "error",
    skipDownload: true,
});

const CONTEXT = 1024;
const BATCH = 256;

export async function llama_cpp_open(file) {
    const model = await llama.loadModel({
        modelPath: file,
        gpuLayers: 0,
        defaultContextFlashAttention: false,
    });
    const context = await model.createContext({
        contextSize: CONTEXT,
        batchSize: BATCH,
        sequences: 1,
        threads: 1,
        flashAttention: false,
        swaFullCache: true,
        experimentalKvCacheKeyType: "F32",
        experimentalKvCacheValueType: "F32",
    });
    const sequence = context.getSequence();
    return {
        // The logits, by id, at each of @wanted, places in @ids.
        async logits(ids, wanted) {
            const input = ids.map((id, i) =>
                wanted.includes(i)
                    ? [id, { generateNext: { logits: true } }]
                    : id,
            );
            const output = await sequence.controlledEvaluate(input);
            return wanted.map((i) => {
                const logits = new Float64Array(output[i].next.logits.size);
                for (const [id, value] of output[i].next.logits)
                    logits[id] = value;
                return logits;
            });
        },
        clear: () => sequence.clearHistory(),
        async close() {
            await context.dispose();
            await model.dispose();
        },
    };
}
