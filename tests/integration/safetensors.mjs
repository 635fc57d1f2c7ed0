// safetensors.mjs - model files as the tests write them: tensors in memory,
// quantised and back by arithmetic of their own.

import fs from "node:fs";
import path from "node:path";

const DTYPES = { BF16: 2, F16: 2, F32: 4, U32: 4, U8: 1 };

// {name: {dtype, shape, bytes}}
export function read_tensors(file) {
    const bytes = fs.readFileSync(file);
    const size = Number(bytes.readBigUInt64LE(0));
    const header = JSON.parse(bytes.toString("utf8", 8, 8 + size));
    delete header.__metadata__;
    return Object.fromEntries(
        Object.entries(header).map(([name, { dtype, shape, data_offsets }]) => [
            name,
            {
                dtype,
                shape,
                bytes: bytes.subarray(
                    8 + size + data_offsets[0],
                    8 + size + data_offsets[1],
                ),
            },
        ]),
    );
}

export function write_tensors(file, tensors) {
    const header = {};
    let at = 0;
    for (const [name, { dtype, shape, bytes }] of Object.entries(tensors)) {
        const count = shape.reduce((product, size) => product * size, 1);
        if (bytes.length !== count * DTYPES[dtype])
            throw new Error(`${name}: ${bytes.length} bytes for ${shape}`);
        header[name] = { dtype, shape, data_offsets: [at, at + bytes.length] };
        at += bytes.length;
    }
    const text = Buffer.from(JSON.stringify(header));
    const size = Buffer.alloc(8);
    size.writeBigUInt64LE(BigInt(text.length));
    fs.writeFileSync(
        file,
        Buffer.concat([
            size,
            text,
            ...Object.values(tensors).map(({ bytes }) => bytes),
        ]),
    );
}

// The values of a BF16 or F32 tensor.
export function values_of({ dtype, bytes }) {
    const copy = new Uint8Array(bytes).buffer;
    if (dtype === "F32") return new Float32Array(copy);
    const words = new Uint32Array(copy.byteLength / 2);
    new Uint16Array(copy).forEach((half, i) => (words[i] = half << 16));
    return new Float32Array(words.buffer);
}

export const f32_tensor = (shape, values) => ({
    dtype: "F32",
    shape,
    bytes: Buffer.from(Float32Array.from(values).buffer),
});

// Integers of @bits bits, from the low bits up, row by row without gaps.
function pack(integers, bits) {
    const bytes = Buffer.alloc((integers.length * bits) / 8);
    integers.forEach((value, i) => {
        for (let b = 0; b < bits; b++)
            if ((value >> b) & 1)
                bytes[(i * bits + b) >> 3] |= 1 << (i * bits + b) % 8;
    });
    return bytes;
}

// MLX's affine format: {weight, scales, biases}, and the values it stands for.
export function affine(values, [rows, cols], bits, group) {
    const integers = new Array(rows * cols);
    const scales = new Float32Array((rows * cols) / group);
    const biases = new Float32Array(scales.length);
    const back = new Float32Array(values.length);
    const top = 2 ** bits - 1;
    for (let g = 0; g < scales.length; g++) {
        const some = values.subarray(g * group, (g + 1) * group);
        const least = Math.min(...some);
        scales[g] = (Math.max(...some) - least) / top || 1;
        biases[g] = least;
        some.forEach((value, i) => {
            const q = Math.round((value - biases[g]) / scales[g]);
            const at = g * group + i;
            integers[at] = Math.min(top, Math.max(0, q));
            back[at] = integers[at] * scales[g] + biases[g];
        });
    }
    const shape = [rows, cols / group];
    return {
        parts: {
            weight: {
                dtype: "U32",
                shape: [rows, (cols * bits) / 32],
                bytes: pack(integers, bits),
            },
            scales: f32_tensor(shape, scales),
            biases: f32_tensor(shape, biases),
        },
        back,
    };
}

const E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6];

// OCP's mxfp4: the same without biases.
export function mxfp4(values, [rows, cols]) {
    const integers = new Array(rows * cols);
    const scales = Buffer.alloc((rows * cols) / 32);
    const back = new Float32Array(values.length);
    for (let g = 0; g < scales.length; g++) {
        const some = values.subarray(g * 32, (g + 1) * 32);
        const most = Math.max(...some.map(Math.abs)) || 1;
        const power = Math.floor(Math.log2(most)) - 2;
        scales[g] = power + 127;
        some.forEach((value, i) => {
            const size = Math.abs(value) / 2 ** power;
            let code = 0;
            E2M1.forEach((other, k) => {
                if (Math.abs(other - size) < Math.abs(E2M1[code] - size))
                    code = k;
            });
            const sign = value < 0 ? 8 : 0;
            integers[g * 32 + i] = code + sign;
            back[g * 32 + i] = (sign ? -1 : 1) * E2M1[code] * 2 ** power;
        });
    }
    return {
        parts: {
            weight: {
                dtype: "U32",
                shape: [rows, cols / 8],
                bytes: pack(integers, 4),
            },
            scales: { dtype: "U8", shape: [rows, cols / 32], bytes: scales },
        },
        back,
    };
}

// A copy of the model folder @from with other tensors and config members.
export function write_model(from, to, tensors, config) {
    fs.cpSync(from, to, { recursive: true });
    const file = path.join(to, "config.json");
    const was = JSON.parse(fs.readFileSync(file, "utf8"));
    fs.writeFileSync(file, JSON.stringify({ ...was, ...config }));
    write_tensors(path.join(to, "model.safetensors"), tensors);
    return to;
}
