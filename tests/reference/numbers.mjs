// numbers.mjs - the numbers of the tiny models, each from the name of its
// tensor and its place there, so that nothing but names and shapes is kept.
//
// tests/unit/tiny_model.h has the same arithmetic in C.

// FNV-1a, 32 bits.
export function name_hash(name) {
    let hash = 0x811c9dc5;
    for (const byte of Buffer.from(name))
        hash = Math.imul(hash ^ byte, 0x01000193);
    return hash >>> 0;
}

// The finaliser of MurmurHash3 over a Weyl sequence.
export function word_at(hash, index) {
    let x = (hash + Math.imul(index, 0x9e3779b9)) | 0;
    x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
    x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
    return (x ^ (x >>> 16)) >>> 0;
}

export const count_of = (shape) => shape.reduce((a, b) => a * b, 1);

// center + k * step with a whole k in -levels..levels: with powers of two as
// steps every value is the same in float32 and bfloat16.
export function values_make(name, { shape, center, step, levels }) {
    const hash = name_hash(name);
    return Float32Array.from(
        { length: count_of(shape) },
        (_, i) =>
            center + ((word_at(hash, i) % (2 * levels + 1)) - levels) * step,
    );
}

// The words of a packed matrix: all bits are fair.
export function words_make(name, { shape }) {
    const hash = name_hash(name);
    return Uint32Array.from({ length: count_of(shape) }, (_, i) =>
        word_at(hash, i),
    );
}

export function ids_make(name, count, vocab) {
    const hash = name_hash(name);
    return Array.from({ length: count }, (_, i) => word_at(hash, i) % vocab);
}

// The integers of @bits bits in @words, from the low bits up without gaps.
function integers_of(words, count, bits) {
    return Array.from({ length: count }, (_, i) => {
        let value = 0;
        for (let b = 0; b < bits; b++) {
            const at = i * bits + b;
            value |= ((words[at >>> 5] >>> (at & 31)) & 1) << b;
        }
        return value;
    });
}

// MLX's affine format: scale * q + bias for every group of a row.
export function affine_values(words, scales, biases, count, bits, group) {
    const integers = integers_of(words, count, bits);
    return Float32Array.from(integers, (q, i) => {
        const g = Math.floor(i / group);
        return scales[g] * q + biases[g];
    });
}

const E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6];

// OCP's mxfp4: sign and E2M1, times 2 to the (byte - 127) per 32.
export function mxfp4_values(words, exponents, count) {
    const integers = integers_of(words, count, 4);
    return Float32Array.from(integers, (q, i) => {
        const value = E2M1[q & 7] * 2 ** (exponents[i >>> 5] - 127);
        return q & 8 ? -value : value;
    });
}

// What the stored tensors stand for: {name: {shape, values}} without scales
// and biases.  @formats is {name: {bits, group, mode}} of the packed ones.
export function model_values(tensors, formats = {}) {
    const out = {};
    for (const [name, spec] of Object.entries(tensors)) {
        const format = formats[name];
        const part = (which) => name.replace(/weight$/, which);
        if (/\.(scales|biases)$/.test(name)) continue;
        if (!format) {
            out[name] = { shape: spec.shape, values: values_make(name, spec) };
            continue;
        }
        const { bits, group, mode } = format;
        const shape = [...spec.shape];
        shape.push((shape.pop() * 32) / bits);
        const numbers = (which) =>
            values_make(part(which), tensors[part(which)]);
        const words = words_make(name, spec);
        const values =
            mode === "mxfp4"
                ? mxfp4_values(words, numbers("scales"), count_of(shape))
                : affine_values(
                      words,
                      numbers("scales"),
                      numbers("biases"),
                      count_of(shape),
                      bits,
                      group,
                  );
        out[name] = { shape, values };
    }
    return out;
}
