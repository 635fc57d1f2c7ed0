// gguf.mjs - writes GGUF files of version 3.

import fs from "node:fs";

import { count_of } from "./numbers.mjs";

const ALIGNMENT = 32;
const TYPES = { u32: 4, i32: 5, f32: 6, bool: 7, text: 8, list: 9 };

const u32 = (value) => ({ type: "u32", value });
const i32 = (value) => ({ type: "i32", value });
const f32 = (value) => ({ type: "f32", value });
const bool = (value) => ({ type: "bool", value });
const text = (value) => ({ type: "text", value });
const list = (of, value) => ({ type: "list", of, value });

export const gguf_value = { u32, i32, f32, bool, text, list };

function number_bytes(size, write) {
    const bytes = Buffer.alloc(size);
    write(bytes);
    return bytes;
}

const bytes_u32 = (n) => number_bytes(4, (b) => b.writeUInt32LE(n));
const bytes_u64 = (n) => number_bytes(8, (b) => b.writeBigUInt64LE(BigInt(n)));

function bytes_text(value) {
    const bytes = Buffer.from(value);
    return Buffer.concat([bytes_u64(bytes.length), bytes]);
}

const scalar_bytes = {
    u32: bytes_u32,
    i32: (n) => number_bytes(4, (b) => b.writeInt32LE(n)),
    f32: (n) => number_bytes(4, (b) => b.writeFloatLE(n)),
    bool: (value) => Buffer.from([value ? 1 : 0]),
    text: bytes_text,
};

function value_bytes({ type, of, value }) {
    if (type !== "list")
        return Buffer.concat([
            bytes_u32(TYPES[type]),
            scalar_bytes[type](value),
        ]);
    return Buffer.concat([
        bytes_u32(TYPES.list),
        bytes_u32(TYPES[of]),
        bytes_u64(value.length),
        ...value.map(scalar_bytes[of]),
    ]);
}

const padding = (size) =>
    Buffer.alloc((ALIGNMENT - (size % ALIGNMENT)) % ALIGNMENT);

// A tensor's type and bytes: float32 of its values, or what is given.
function tensor_bytes(name, { shape, values, type, bytes }) {
    if (bytes) return { type, bytes };
    if (values.length !== count_of(shape))
        throw new Error(`${name}: ${values.length} values for ${shape}`);
    return { type: 0, bytes: Buffer.from(Float32Array.from(values).buffer) };
}

// @keys is {key: gguf_value...}, @tensors {name: {shape, values}} or, packed,
// {name: {shape, type, bytes}}; the last size of a shape is the one whose
// elements lie side by side.
export function gguf_write(file, keys, tensors) {
    const names = Object.keys(tensors);
    const head = [
        Buffer.from("GGUF"),
        bytes_u32(3),
        bytes_u64(names.length),
        bytes_u64(Object.keys(keys).length),
    ];
    const data = [];
    let at = 0;
    for (const [key, value] of Object.entries(keys))
        head.push(bytes_text(key), value_bytes(value));
    for (const name of names) {
        const { shape } = tensors[name];
        const { type, bytes } = tensor_bytes(name, tensors[name]);
        head.push(bytes_text(name), bytes_u32(shape.length));
        for (const size of [...shape].reverse()) head.push(bytes_u64(size));
        head.push(bytes_u32(type), bytes_u64(at));
        data.push(bytes, padding(bytes.length));
        at += bytes.length + padding(bytes.length).length;
    }
    const front = Buffer.concat(head);
    fs.writeFileSync(
        file,
        Buffer.concat([front, padding(front.length), ...data]),
    );
}
