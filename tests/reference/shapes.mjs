// shapes.mjs - what the descriptions of the tiny models have in common:
// tensors by what they are for, and GGUF's names and keys.

import { gguf_value as v } from "./gguf.mjs";

export const VOCAB = 256;
export const CONTEXT = 1024;
export const EPS = 0.0009765625; /* large, so that one forgotten is seen */

// What config.json says of a small model, unless @more differs.
export const sizes = (more) => ({
    vocab_size: VOCAB,
    hidden_size: 64,
    intermediate_size: 96,
    num_hidden_layers: 3,
    num_attention_heads: 4,
    num_key_value_heads: 2,
    max_position_embeddings: CONTEXT,
    rms_norm_eps: EPS,
    rope_theta: 10000,
    hidden_act: "silu",
    tie_word_embeddings: false,
    torch_dtype: "float32",
    ...more,
});

const power_of_two = (value) => 2 ** Math.round(Math.log2(value));

// A matrix that keeps the size of what goes through it, times @gain.
export const matrix = (rows, cols, gain = 1) => ({
    dtype: "F32",
    shape: [rows, cols],
    center: 0,
    step: power_of_two((gain * 1.7) / Math.sqrt(cols) / 127),
    levels: 127,
});

// One matrix for each expert.
export const matrices = (count, rows, cols, gain) => ({
    ...matrix(rows, cols, gain),
    shape: [count, rows, cols],
});

const around = (shape, center, step, levels) => ({
    dtype: "F32",
    shape,
    center,
    step,
    levels,
});

export const norm = (size) => around([size], 1, 2 ** -6, 32);
export const bias = (size) => around([size], 0, 2 ** -7, 63);
export const vector = around;

// The embedding is small beside what the layers add, lest the model say its
// last id again; where it is the head too, the last norm makes up for it.
export const outer = (hidden, tied) =>
    tied
        ? {
              "model.embed_tokens.weight": around(
                  [VOCAB, hidden],
                  0,
                  2 ** -10,
                  127,
              ),
              "model.norm.weight": around([hidden], 5, 2 ** -5, 64),
          }
        : {
              "model.embed_tokens.weight": around(
                  [VOCAB, hidden],
                  0,
                  2 ** -8,
                  127,
              ),
              "model.norm.weight": norm(hidden),
              "lm_head.weight": matrix(VOCAB, hidden, 4),
          };

// Scores a few units wide, so that attention picks.
export function attention(at, c, { biases = [], norms = false } = {}) {
    const width = c.num_attention_heads * c.head_dim;
    const kv_width = c.num_key_value_heads * c.head_dim;
    const tensors = {
        [`${at}.q_proj.weight`]: matrix(width, c.hidden_size, 2),
        [`${at}.k_proj.weight`]: matrix(kv_width, c.hidden_size),
        [`${at}.v_proj.weight`]: matrix(kv_width, c.hidden_size),
        [`${at}.o_proj.weight`]: matrix(c.hidden_size, width),
    };
    const rows = { q: width, k: kv_width, v: kv_width, o: c.hidden_size };
    for (const which of biases)
        tensors[`${at}.${which}_proj.bias`] = bias(rows[which]);
    if (norms) {
        tensors[`${at}.q_norm.weight`] = norm(c.head_dim);
        tensors[`${at}.k_norm.weight`] = norm(c.head_dim);
    }
    return tensors;
}

export const gated = (at, hidden, inner) => ({
    [`${at}.gate_proj.weight`]: matrix(inner, hidden),
    [`${at}.up_proj.weight`]: matrix(inner, hidden),
    [`${at}.down_proj.weight`]: matrix(hidden, inner),
});

export const gated_experts = (at, count, hidden, inner) => ({
    [`${at}.gate_proj.weight`]: matrices(count, inner, hidden),
    [`${at}.up_proj.weight`]: matrices(count, inner, hidden),
    [`${at}.down_proj.weight`]: matrices(count, hidden, inner),
});

export const layer_norms = (at, hidden) => ({
    [`${at}.input_layernorm.weight`]: norm(hidden),
    [`${at}.post_attention_layernorm.weight`]: norm(hidden),
});

// {name: spec} of all layers, each by @describe(prefix, index).
export const layers = (count, describe) =>
    Object.assign(
        {},
        ...Array.from({ length: count }, (_, i) =>
            describe(`model.layers.${i}`, i),
        ),
    );

const PARTS = [
    ["model.embed_tokens.", "token_embd."],
    ["model.norm.", "output_norm."],
    ["lm_head.", "output."],
    [/^model\.layers\.(\d+)\./, "blk.$1."],
    ["input_layernorm", "attn_norm"],
    ["post_attention_layernorm", "ffn_norm"],
    ["self_attn.q_proj", "attn_q"],
    ["self_attn.k_proj", "attn_k"],
    ["self_attn.v_proj", "attn_v"],
    ["self_attn.o_proj", "attn_output"],
    ["self_attn.q_norm", "attn_q_norm"],
    ["self_attn.k_norm", "attn_k_norm"],
    ["mlp.gate.e_score_correction_bias", "exp_probs_b.bias"],
    [/mlp\.(?:switch_mlp|experts)\.(\w+)_proj/, "ffn_$1_exps"],
    [/mlp\.shared_experts?\.(\w+)_proj/, "ffn_$1_shexp"],
    [/mlp\.(?:gate|router)\./, "ffn_gate_inp."],
    [/mlp\.(gate|up|down)_proj/, "ffn_$1"],
];

export const gguf_name = (name) =>
    PARTS.reduce((text, [from, to]) => text.replace(from, to), name);

// Every tensor under its name in GGUF; @change(name, tensor) may answer with
// another name, other values or, as a list, several.
export function gguf_tensors(tensors, change = () => undefined) {
    const out = {};
    for (const [name, tensor] of Object.entries(tensors)) {
        const changed = change(name, tensor) ?? [[gguf_name(name), tensor]];
        for (const [other, some] of changed) out[other] = some;
    }
    return out;
}

// The keys that every architecture has.
export function gguf_keys(arch, c, more = {}) {
    const keys = {
        "general.architecture": v.text(arch),
        [`${arch}.vocab_size`]: v.u32(c.vocab_size),
        [`${arch}.block_count`]: v.u32(c.num_hidden_layers),
        [`${arch}.context_length`]: v.u32(c.max_position_embeddings),
        [`${arch}.embedding_length`]: v.u32(c.hidden_size),
        [`${arch}.feed_forward_length`]: v.u32(c.intermediate_size ?? 0),
        [`${arch}.attention.head_count`]: v.u32(c.num_attention_heads),
        [`${arch}.attention.head_count_kv`]: v.u32(c.num_key_value_heads),
        [`${arch}.attention.layer_norm_rms_epsilon`]: v.f32(c.rms_norm_eps),
        [`${arch}.rope.freq_base`]: v.f32(c.rope_theta),
        "tokenizer.ggml.model": v.text("gpt2"),
        "tokenizer.ggml.pre": v.text("default"),
        "tokenizer.ggml.tokens": v.list(
            "text",
            Array.from({ length: c.vocab_size }, (_, i) => `<${i}>`),
        ),
        "tokenizer.ggml.token_type": v.list(
            "i32",
            Array.from({ length: c.vocab_size }, () => 1),
        ),
        "tokenizer.ggml.merges": v.list("text", ["< 1"]),
    };
    if (c.head_dim !== undefined) {
        keys[`${arch}.attention.key_length`] = v.u32(c.head_dim);
        keys[`${arch}.attention.value_length`] = v.u32(c.head_dim);
        keys[`${arch}.rope.dimension_count`] = v.u32(c.head_dim);
    }
    for (const [key, value] of Object.entries(more))
        keys[`${arch}.${key}`] = value;
    return keys;
}

// Rows [heads, halves, pairs] as [heads, pairs, halves]: Hugging Face rotates
// an element with the one half a head away, GGUF's llama with its neighbour.
export function interleaved(tensor, heads) {
    const [rows, cols = 1] = tensor.shape;
    const half = rows / heads / 2;
    const values = new Float32Array(tensor.values.length);
    for (let h = 0; h < heads; h++)
        for (let p = 0; p < half; p++)
            for (let side = 0; side < 2; side++) {
                const from = (h * 2 + side) * half + p;
                const to = (h * half + p) * 2 + side;
                values.set(
                    tensor.values.subarray(from * cols, (from + 1) * cols),
                    to * cols,
                );
            }
    return { shape: tensor.shape, values };
}
