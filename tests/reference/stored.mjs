// stored.mjs - the same architectures in the other ways that weights are
// stored: quantised as MLX does, in halves, in several files.

import { dense, qwen3 } from "./dense.mjs";
import { experts } from "./experts.mjs";
import { hybrids } from "./hybrid.mjs";
import { count_of } from "./numbers.mjs";

const BITS = [2, 3, 4, 5, 6, 8];
const GROUPS = [32, 64, 128];

const power_of_two = (value) => 2 ** Math.round(Math.log2(value));
const spread = ({ step, levels }) => (step * levels) / Math.sqrt(3);
const module_of = (name) => name.replace(/\.weight$/, "");

const narrowed = (spec, dtype) =>
    spec.dtype === "F32" ? { ...spec, dtype } : spec;

// The parts of a matrix whose words are all equally likely, with scales that
// give it the spread of @spec.
function affine_parts(name, spec, { bits, group, dtype }) {
    const [cols, ...rest] = [...spec.shape].reverse();
    const rows = rest.reverse();
    const scale = power_of_two((spread(spec) * Math.sqrt(12)) / 2 ** bits);
    const middle = scale * 2 ** (bits - 1);
    const groups = { dtype, shape: [...rows, cols / group] };
    return {
        [name]: { dtype: "U32", shape: [...rows, (cols * bits) / 32] },
        [`${module_of(name)}.scales`]: {
            ...groups,
            center: scale,
            step: scale / 16,
            levels: 2,
        },
        [`${module_of(name)}.biases`]: {
            ...groups,
            center: bits > 4 ? -middle : scale / 2 - middle,
            step: middle / 64,
            levels: 4,
        },
    };
}

function mxfp4_parts(name, spec) {
    const [cols, ...rest] = [...spec.shape].reverse();
    const rows = rest.reverse();
    const power = Math.round(Math.log2(spread(spec) / 2.93));
    return {
        [name]: { dtype: "U32", shape: [...rows, cols / 8] },
        [`${module_of(name)}.scales`]: {
            dtype: "U8",
            shape: [...rows, cols / 32],
            center: 127 + power,
            step: 1,
            levels: 1,
        },
    };
}

const is_matrix = (name, { shape }) =>
    /\.weight$/.test(name) &&
    shape.length >= 2 &&
    !/conv1d|mlp\.gate\.weight$|shared_expert_gate/.test(name);

// @choose(name, index) is {bits, group, mode}, or undefined for a matrix that
// stays as it is; @whole is what config.json says of the rest.
function quantised(made, whole, choose, dtype = "BF16") {
    const tensors = {};
    const formats = {};
    const own = {};
    let index = 0;
    for (const [name, spec] of Object.entries(made.tensors)) {
        const format = is_matrix(name, spec)
            ? choose(name, index++)
            : undefined;
        if (!format) {
            Object.assign(tensors, { [name]: narrowed(spec, dtype) });
            if (is_matrix(name, spec)) own[module_of(name)] = false;
            continue;
        }
        const { bits, group, mode } = format;
        formats[name] = format;
        Object.assign(
            tensors,
            mode === "mxfp4"
                ? mxfp4_parts(name, spec)
                : affine_parts(name, spec, { bits, group, dtype }),
        );
        if (
            bits !== whole.bits ||
            group !== whole.group_size ||
            mode !== whole.mode
        )
            own[module_of(name)] = {
                group_size: group,
                bits,
                ...(mode ? { mode } : {}),
            };
    }
    return {
        config: { ...made.config, quantization: { ...whole, ...own } },
        tensors,
        formats,
        gguf: made.gguf,
    };
}

const wide = (tied) =>
    qwen3({
        hidden_size: 128,
        intermediate_size: 128,
        num_hidden_layers: 2,
        tie_word_embeddings: tied,
    });

const affine = (bits, group, dtype, tied) => () =>
    quantised(
        wide(tied),
        { group_size: group, bits },
        () => ({ bits, group }),
        dtype,
    );

// Every pair of bits and group, one after the other, and some not quantised.
function mixed() {
    const pairs = BITS.flatMap((bits) =>
        GROUPS.map((group) => ({ bits, group })),
    );
    const made = qwen3({
        hidden_size: 128,
        intermediate_size: 128,
        tie_word_embeddings: false,
    });
    return quantised(made, { group_size: 64, bits: 4 }, (_, index) =>
        index % 7 === 6 ? undefined : pairs[(index * 5) % pairs.length],
    );
}

const MX = { bits: 4, group: 32, mode: "mxfp4" };
const MX_WHOLE = { group_size: 32, bits: 4, mode: "mxfp4" };

const mxfp4 = () =>
    quantised(wide(false), MX_WHOLE, (name) =>
        name.includes("embed_tokens")
            ? { bits: 8, group: 64, mode: "affine" }
            : MX,
    );

// As gpt-oss is handed out: experts in mxfp4, the rest in 8 bits.
const gpt_oss_mxfp4 = () =>
    quantised(experts.gpt_oss(), MX_WHOLE, (name) =>
        name.includes(".experts.")
            ? MX
            : { bits: 8, group: 64, mode: "affine" },
    );

const four_bits = (made, kept = /$^/) =>
    quantised(made, { group_size: 32, bits: 4 }, (name) =>
        kept.test(name) ? undefined : { bits: 4, group: 32 },
    );

const qwen3_moe_4bit = () => four_bits(experts.qwen3_moe());

const deepseek_v3_4bit = () =>
    four_bits(experts.deepseek_v3({ qk_nope_head_dim: 32 }));

const kimi_k2_4bit = () => four_bits(experts.kimi_k2());

const qwen3_5_4bit = () => four_bits(hybrids.qwen3_5(), /in_proj_[ab]/);

const halves = (made, dtype) => ({
    ...made,
    tensors: Object.fromEntries(
        Object.entries(made.tensors).map(([name, spec]) => [
            name,
            narrowed(spec, dtype),
        ]),
    ),
});

// Three files, cut in the middle of a layer.
function sharded() {
    const made = halves(dense.llama(), "BF16");
    const total = Object.values(made.tensors).reduce(
        (sum, { shape }) => sum + count_of(shape),
        0,
    );
    let at = 0;
    for (const spec of Object.values(made.tensors)) {
        spec.file = 1 + Math.floor((3 * at) / total);
        at += count_of(spec.shape);
    }
    return made;
}

export const stored = {
    llama_bf16: () => halves(dense.llama(), "BF16"),
    qwen3_f16: () => halves(dense.qwen3(), "F16"),
    llama_sharded: sharded,
    affine_2bit: affine(2, 32, "F16", true),
    affine_3bit: affine(3, 64, "BF16", false),
    affine_4bit: affine(4, 128, "BF16", true),
    affine_5bit: affine(5, 32, "F32", false),
    affine_6bit: affine(6, 64, "F16", true),
    affine_8bit: affine(8, 128, "BF16", false),
    affine_mixed: mixed,
    mxfp4,
    gpt_oss_mxfp4,
    qwen3_moe_4bit,
    deepseek_v3_4bit,
    kimi_k2_4bit,
    qwen3_5_4bit,
};
