// speed_model.mjs - one Llama of some 250 million parameters in two forms: a
// directory of 4-bit weights in groups of 64, and a GGUF file in Q4_0.
//
// The numbers are noise: only shapes and bytes matter to speed.

import fs from "node:fs";
import path from "node:path";

import { gguf_write } from "../reference/gguf.mjs";
import { count_of, words_make } from "../reference/numbers.mjs";
import { gguf_keys, gguf_name } from "../reference/shapes.mjs";

const config = {
    architectures: ["LlamaForCausalLM"],
    model_type: "llama",
    hidden_size: 1024,
    intermediate_size: 4096,
    num_hidden_layers: 16,
    num_attention_heads: 16,
    num_key_value_heads: 4,
    head_dim: 64,
    max_position_embeddings: 2048,
    rms_norm_eps: 1e-5,
    rope_theta: 500000,
    tie_word_embeddings: true,
    vocab_size: 2048,
    quantization: { group_size: 64, bits: 4 },
};

const NOISE_BYTES = 1 << 20;
const Q4_0 = { type: 2, elements: 32, bytes: 18 };
const GROUP = 64;
// A scale that keeps the sums of a row of noise near 1.
const SCALE_BF16 = 0x3b80; // 2^-8
const BIAS_BF16 = 0xbcf0; // -7.5 * 2^-8
const SCALE_F16 = 0x1c00; // 2^-8

const noise = Buffer.from(
    words_make("noise", { shape: [NOISE_BYTES / 4] }).buffer,
);

function noise_of(size) {
    const bytes = Buffer.alloc(size);
    for (let at = 0; at < size; at += NOISE_BYTES) noise.copy(bytes, at);
    return bytes;
}

const repeated = (count, value) =>
    Buffer.from(new Uint16Array(count).fill(value).buffer);

function matrices() {
    const { hidden_size: wide, intermediate_size: deep } = config;
    const kv = config.num_key_value_heads * config.head_dim;
    const out = { "model.embed_tokens.weight": [config.vocab_size, wide] };
    for (let i = 0; i < config.num_hidden_layers; i++) {
        const add = (part, rows, cols) =>
            (out[`model.layers.${i}.${part}_proj.weight`] = [rows, cols]);
        add("self_attn.q", wide, wide);
        add("self_attn.k", kv, wide);
        add("self_attn.v", kv, wide);
        add("self_attn.o", wide, wide);
        add("mlp.gate", deep, wide);
        add("mlp.up", deep, wide);
        add("mlp.down", wide, deep);
    }
    return out;
}

function norms() {
    const names = ["model.norm.weight"];
    for (let i = 0; i < config.num_hidden_layers; i++)
        names.push(
            `model.layers.${i}.input_layernorm.weight`,
            `model.layers.${i}.post_attention_layernorm.weight`,
        );
    return names;
}

function directory_tensors() {
    const out = {};
    for (const [name, [rows, cols]] of Object.entries(matrices())) {
        const groups = { dtype: "BF16", shape: [rows, cols / GROUP] };
        const count = count_of(groups.shape);
        const base = name.replace(/weight$/, "");
        out[name] = {
            dtype: "U32",
            shape: [rows, cols / 8],
            bytes: noise_of((rows * cols) / 2),
        };
        const group = (part, value) =>
            (out[base + part] = { ...groups, bytes: repeated(count, value) });
        group("scales", SCALE_BF16);
        group("biases", BIAS_BF16);
    }
    for (const name of norms())
        out[name] = {
            dtype: "BF16",
            shape: [config.hidden_size],
            bytes: repeated(config.hidden_size, 0x3f80),
        };
    return out;
}

function safetensors_write(file, tensors) {
    const header = {};
    let at = 0;
    for (const [name, { dtype, shape, bytes }] of Object.entries(tensors)) {
        header[name] = { dtype, shape, data_offsets: [at, at + bytes.length] };
        at += bytes.length;
    }
    let text = JSON.stringify(header);
    text = text.padEnd(Math.ceil(text.length / 8) * 8);
    const size = Buffer.alloc(8);
    size.writeBigUInt64LE(BigInt(text.length));
    const parts = Object.values(tensors).map(({ bytes }) => bytes);
    fs.writeFileSync(file, Buffer.concat([size, Buffer.from(text), ...parts]));
}

// A directory that `berth-engine bench` opens; the tokenizer is @tokenizer's.
export function speed_directory_write(folder, tokenizer) {
    fs.mkdirSync(folder, { recursive: true });
    for (const file of ["tokenizer.json", "tokenizer_config.json"])
        fs.copyFileSync(path.join(tokenizer, file), path.join(folder, file));
    fs.writeFileSync(path.join(folder, "config.json"), JSON.stringify(config));
    safetensors_write(
        path.join(folder, "model.safetensors"),
        directory_tensors(),
    );
}

function q4_0_bytes(count) {
    const bytes = noise_of((count / Q4_0.elements) * Q4_0.bytes);
    for (let at = 0; at < bytes.length; at += Q4_0.bytes)
        bytes.writeUInt16LE(SCALE_F16, at);
    return bytes;
}

// The same shapes in Q4_0; answers the bytes that a pass reads of it, of the
// matrices alone as `berth-engine bench` counts them.
export function speed_gguf_write(file) {
    const tensors = {};
    let read = 0;
    for (const [name, shape] of Object.entries(matrices())) {
        const bytes = q4_0_bytes(count_of(shape));
        tensors[gguf_name(name)] = { shape, type: Q4_0.type, bytes };
        read += bytes.length;
    }
    for (const name of norms())
        tensors[gguf_name(name)] = {
            shape: [config.hidden_size],
            values: new Float32Array(config.hidden_size).fill(1),
        };
    gguf_write(file, gguf_keys("llama", config), tensors);
    return read;
}
