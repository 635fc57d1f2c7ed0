// speed.mjs - the engine beside llama.cpp and beside reading memory, all in
// one run: `make bench-speed`.
//
//   LLAMA_BENCH=FILE       llama.cpp's own benchmark, or
//   NODE_LLAMA_CPP=FOLDER  the npm package of its bindings; without either
//                          the engine is held against memory alone
//   ROUNDS=n               how often each is measured (default 7)
//
// Neighbours on the machine disturb every figure, so the programs take turns
// in short rounds.  A ratio is the median of the ratios of the rounds.
// Decoding is compared by weight bytes read in a second, since 4 bits in
// groups of 64 and Q4_0 differ a little in size.

import { execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

import { bin, models_folder } from "../integration/lib.mjs";
import { speed_directory_write, speed_gguf_write } from "./speed_model.mjs";

const PROMPT = 512;
const MADE = 24;
const SHORT = 16; // the prompt where decoding is what counts
const rounds = Number(process.env.ROUNDS || 7);
const here = import.meta.dirname;
const read_bench = path.join(bin, "../release/tests/bench/read_bench");
const { LLAMA_BENCH, NODE_LLAMA_CPP } = process.env;

const work = fs.mkdtempSync(path.join(os.tmpdir(), "berth-speed."));
process.on("exit", () => fs.rmSync(work, { recursive: true, force: true }));
const directory = path.join(work, "model");
const gguf = path.join(work, "model.gguf");
const tiny = path.join(models_folder, "tiny-chat-4bit");

const output = (program, words) =>
    execFileSync(program, words.map(String), { encoding: "utf8" });

const engine = (model, threads, prompt, made, batch = 1) =>
    JSON.parse(
        output(`${bin}/berth-engine`, [
            "bench", "--model", model, "--threads", threads, "-p", prompt,
            "-n", made, "--batch", batch, "--json",
        ]),
    );

function llama_bench(threads, prompt, made) {
    const runs = JSON.parse(
        output(LLAMA_BENCH, [
            "-m", gguf, "-t", threads, "-p", prompt, "-n", made, "-r", 1,
            "-ngl", 0, "-o", "json",
        ]),
    );
    const rate = (of) => runs.find(of).avg_ts;
    return {
        prefill_tok_s: rate(({ n_prompt }) => n_prompt > 0),
        decode_tok_s: rate(({ n_gen }) => n_gen > 0),
    };
}

const llama_bindings = (threads, prompt, made) =>
    JSON.parse(
        output(process.execPath, [
            path.join(here, "llama_rates.mjs"), gguf, threads, prompt, made,
        ]),
    );

const llama = LLAMA_BENCH
    ? llama_bench
    : NODE_LLAMA_CPP
      ? llama_bindings
      : () => undefined;

const memory_gb_s = (threads) =>
    Number(/([\d.]+) GB\/s/.exec(output(read_bench, [threads]))[1]);

function round(threads, gguf_bytes) {
    const short = engine(directory, threads, SHORT, MADE);
    const memory = memory_gb_s(threads);
    const other = llama(threads, PROMPT, MADE);
    const long = engine(directory, threads, PROMPT, 2);
    const eight = engine(directory, threads, SHORT, MADE, 8);
    const row = {
        "decode GB/s": short.read_gb_s,
        "decode / memory": short.read_gb_s / memory,
        "prefill tok/s": long.prefill_tok_s,
        "batch 8 / batch 1": eight.decode_tok_s / short.decode_tok_s,
        "tiny-chat-4bit tok/s": engine(tiny, threads, SHORT, 512).decode_tok_s,
        "memory GB/s": memory,
    };
    if (other === undefined) return row;
    const read = (other.decode_tok_s * gguf_bytes) / 1e9;
    return {
        ...row,
        "llama.cpp decode GB/s": read,
        "llama.cpp prefill tok/s": other.prefill_tok_s,
        "decode / llama.cpp": short.read_gb_s / read,
        "prefill / llama.cpp": long.prefill_tok_s / other.prefill_tok_s,
    };
}

function sorted(values) {
    return [...values].sort((a, b) => a - b);
}

speed_directory_write(directory, tiny);
const gguf_bytes = speed_gguf_write(gguf);
for (const threads of [1, 2]) {
    const rows = Array.from({ length: rounds }, () =>
        round(threads, gguf_bytes),
    );
    console.log(`threads ${threads}, rounds ${rounds}: median (least, most)`);
    for (const name of Object.keys(rows[0])) {
        const values = sorted(rows.map((row) => row[name]));
        const at = (i) => values[i].toPrecision(4);
        console.log(
            `  ${name.padEnd(24)} ${at(rounds >> 1).padStart(8)}` +
                ` (${at(0)}, ${at(rounds - 1)})`,
        );
    }
}
