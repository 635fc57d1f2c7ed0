// tiny_model.mjs - a model of tests/data/architectures as a directory, for the
// tests that run programs (tests/unit/tiny_model.h does the same in C).

import fs from "node:fs";
import path from "node:path";

import { values_make, words_make } from "./numbers.mjs";

const data = path.join(import.meta.dirname, "../data/architectures");

export const tiny_model_read = (name) =>
    JSON.parse(fs.readFileSync(path.join(data, `${name}.json`), "utf8"));

const bits_of = (value) => new Uint32Array(Float32Array.of(value).buffer)[0];

// Exact for values of few bits: of a subnormal too.
function half_of(value) {
    const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
    const size = Math.abs(value);
    if (size < 2 ** -14) return sign | (size * 2 ** 24);
    const exponent = Math.floor(Math.log2(size));
    return sign | ((exponent + 15) << 10) | ((size / 2 ** exponent - 1) * 1024);
}

const stores = {
    F32: (values) => values,
    BF16: (values) => Uint16Array.from(values, (one) => bits_of(one) >>> 16),
    F16: (values) => Uint16Array.from(values, half_of),
    U8: (values) => Uint8Array.from(values),
};

function tensor_bytes(name, spec) {
    const stored =
        spec.dtype === "U32"
            ? words_make(name, spec)
            : stores[spec.dtype](values_make(name, spec));
    return Buffer.from(stored.buffer);
}

function weights_bytes(tensors) {
    const header = {};
    const data_bytes = [];
    let at = 0;
    for (const [name, spec] of tensors) {
        const bytes = tensor_bytes(name, spec);
        header[name] = {
            dtype: spec.dtype,
            shape: spec.shape,
            data_offsets: [at, at + bytes.length],
        };
        data_bytes.push(bytes);
        at += bytes.length;
    }
    const text = Buffer.from(JSON.stringify(header));
    const size = Buffer.alloc(8);
    size.writeBigUInt64LE(BigInt(text.length));
    return Buffer.concat([size, text, ...data_bytes]);
}

// GPT-2's names of the bytes: those that print, then the rest from 256 on.
function byte_tokens() {
    const prints = (b) => (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b !== 0xad);
    let rest = 256;
    return Array.from({ length: 256 }, (_, b) =>
        String.fromCodePoint(prints(b) ? b : rest++),
    );
}

const tokenizer = () => ({
    model: {
        type: "BPE",
        merges: [],
        vocab: Object.fromEntries(byte_tokens().map((text, id) => [text, id])),
    },
    pre_tokenizer: {
        type: "ByteLevel",
        add_prefix_space: false,
        use_regex: true,
    },
    decoder: { type: "ByteLevel" },
});

const shard_name = (file, files) => {
    const number = (n) => String(n).padStart(5, "0");
    return files === 1
        ? "model.safetensors"
        : `model-${number(file)}-of-${number(files)}.safetensors`;
};

export function tiny_model_write(name, folder) {
    const { config, tensors } = tiny_model_read(name);
    const all = Object.entries(tensors);
    const files = Math.max(...all.map(([, { file = 1 }]) => file));
    const write = (file, bytes) =>
        fs.writeFileSync(path.join(folder, file), bytes);
    fs.mkdirSync(folder, { recursive: true });
    write("config.json", JSON.stringify(config));
    write("tokenizer.json", JSON.stringify(tokenizer()));
    for (let i = 1; i <= files; i++)
        write(
            shard_name(i, files),
            weights_bytes(all.filter(([, { file = 1 }]) => file === i)),
        );
    if (files === 1) return;
    const weight_map = Object.fromEntries(
        all.map(([tensor, { file }]) => [tensor, shard_name(file, files)]),
    );
    write("model.safetensors.index.json", JSON.stringify({ weight_map }));
}
