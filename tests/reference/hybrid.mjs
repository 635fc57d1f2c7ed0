// hybrid.mjs - tiny models of gated delta-net layers with full attention in
// every fourth: qwen3_5 and qwen3_5_moe.

import { gguf_value as v } from "./gguf.mjs";
import {
    CONTEXT,
    VOCAB,
    gated,
    gated_experts,
    gguf_keys,
    gguf_name,
    gguf_tensors,
    layer_norms,
    layers,
    matrix,
    norm,
    outer,
    vector,
} from "./shapes.mjs";

const HIDDEN = 64;
const INTERVAL = 4;
const LAYERS = 5;

const text_config = (more) => ({
    vocab_size: VOCAB,
    hidden_size: HIDDEN,
    intermediate_size: 96,
    num_hidden_layers: LAYERS,
    num_attention_heads: 4,
    num_key_value_heads: 2,
    head_dim: 32,
    max_position_embeddings: CONTEXT,
    rms_norm_eps: 1e-6,
    hidden_act: "silu",
    attention_bias: false,
    attn_output_gate: true,
    tie_word_embeddings: false,
    full_attention_interval: INTERVAL,
    layer_types: Array.from({ length: LAYERS }, (_, i) =>
        (i + 1) % INTERVAL === 0 ? "full_attention" : "linear_attention",
    ),
    linear_num_key_heads: 2,
    linear_num_value_heads: 4,
    linear_key_head_dim: 16,
    linear_value_head_dim: 16,
    linear_conv_kernel_dim: 4,
    rope_parameters: {
        rope_type: "default",
        rope_theta: 10000,
        partial_rotary_factor: 0.25,
        mrope_section: [2, 1, 1],
        mrope_interleaved: true,
    },
    ...more,
});

// Each head's rows: its query, then its gate.
function full_attention(at, c) {
    const width = c.num_attention_heads * c.head_dim;
    const kv_width = c.num_key_value_heads * c.head_dim;
    return {
        [`${at}.q_proj.weight`]: matrix(2 * width, HIDDEN, 2),
        [`${at}.k_proj.weight`]: matrix(kv_width, HIDDEN),
        [`${at}.v_proj.weight`]: matrix(kv_width, HIDDEN),
        [`${at}.o_proj.weight`]: matrix(HIDDEN, width, 2),
        [`${at}.q_norm.weight`]: norm(c.head_dim),
        [`${at}.k_norm.weight`]: norm(c.head_dim),
    };
}

// The decay is slow enough for hundreds of positions to matter.
function delta_net(at, c) {
    const heads = c.linear_num_value_heads;
    const values = heads * c.linear_value_head_dim;
    const channels =
        2 * c.linear_num_key_heads * c.linear_key_head_dim + values;
    return {
        [`${at}.in_proj_qkv.weight`]: matrix(channels, HIDDEN),
        [`${at}.in_proj_z.weight`]: matrix(values, HIDDEN),
        [`${at}.in_proj_b.weight`]: matrix(heads, HIDDEN),
        [`${at}.in_proj_a.weight`]: matrix(heads, HIDDEN),
        [`${at}.conv1d.weight`]: vector(
            [channels, c.linear_conv_kernel_dim, 1],
            0,
            2 ** -7,
            127,
        ),
        [`${at}.dt_bias`]: vector([heads], -4, 2 ** -4, 16),
        [`${at}.A_log`]: vector([heads], 0.5, 2 ** -4, 8),
        [`${at}.norm.weight`]: norm(c.linear_value_head_dim),
        [`${at}.out_proj.weight`]: matrix(HIDDEN, values, 2),
    };
}

const mixer = (at, c, layer) =>
    c.layer_types[layer] === "full_attention"
        ? full_attention(`${at}.self_attn`, c)
        : delta_net(`${at}.linear_attn`, c);

// Rows of the value heads in the order of llama.cpp, which goes through the
// key heads first: from [key heads, values of each] to its transpose.
function heads_turned({ shape, values }, c, from, head_rows) {
    const keys = c.linear_num_key_heads;
    const each = c.linear_num_value_heads / keys;
    const cols = shape.slice(1).reduce((a, b) => a * b, 1);
    const size = head_rows * cols;
    const out = Float32Array.from(values);
    for (let k = 0; k < keys; k++)
        for (let i = 0; i < each; i++) {
            const source = from * cols + (k * each + i) * size;
            out.set(
                values.subarray(source, source + size),
                from * cols + (i * keys + k) * size,
            );
        }
    return { shape, values: out };
}

function transposed({ shape: [rows, cols], values }) {
    const out = new Float32Array(values.length);
    for (let r = 0; r < rows; r++)
        for (let c = 0; c < cols; c++) out[c * rows + r] = values[r * cols + c];
    return { shape: [cols, rows], values: out };
}

const delta_tensors = (c) => {
    const dim = c.linear_value_head_dim;
    const keys = 2 * c.linear_num_key_heads * c.linear_key_head_dim;
    return {
        "in_proj_qkv.weight": [
            "attn_qkv.weight",
            (t) => heads_turned(t, c, keys, dim),
        ],
        "in_proj_z.weight": [
            "attn_gate.weight",
            (t) => heads_turned(t, c, 0, dim),
        ],
        "in_proj_b.weight": [
            "ssm_beta.weight",
            (t) => heads_turned(t, c, 0, 1),
        ],
        "in_proj_a.weight": [
            "ssm_alpha.weight",
            (t) => heads_turned(t, c, 0, 1),
        ],
        "conv1d.weight": [
            "ssm_conv1d.weight",
            ({ shape, values }) =>
                heads_turned(
                    { shape: [shape[0], c.linear_conv_kernel_dim], values },
                    c,
                    keys,
                    dim,
                ),
        ],
        dt_bias: ["ssm_dt.bias", (t) => heads_turned(t, c, 0, 1)],
        A_log: [
            "ssm_a",
            ({ shape, values }) =>
                heads_turned(
                    { shape, values: values.map((one) => -Math.exp(one)) },
                    c,
                    0,
                    1,
                ),
        ],
        "norm.weight": ["ssm_norm.weight", (t) => t],
        "out_proj.weight": [
            "ssm_out.weight",
            (t) => transposed(heads_turned(transposed(t), c, 0, dim)),
        ],
    };
};

const PREFIX = "language_model.";

const prefixed = (tensors) =>
    Object.fromEntries(
        Object.entries(tensors).map(([name, spec]) => [PREFIX + name, spec]),
    );

// Hugging Face's names and layouts for MLX's: norms that are added to 1, and
// the kernel's width last.
function published(tensors) {
    const out = {};
    for (const [name, spec] of Object.entries(tensors)) {
        const other = name.replace(/^language_model\.(model\.)?/, (_, model) =>
            model ? "model.language_model." : "",
        );
        out[other] = { ...spec };
        if (other.endsWith("conv1d.weight"))
            out[other].shape = [spec.shape[0], 1, spec.shape[1]];
        if (other.endsWith("norm.weight") && !other.includes("linear_attn"))
            out[other].center -= 1;
    }
    return out;
}

function change(c, is_published) {
    const delta = delta_tensors(c);
    return (whole, tensor) => {
        const name = whole
            .replace("model.language_model.", "model.")
            .replace(PREFIX, "");
        const part = name.match(/linear_attn\.(.*)$/)?.[1];
        if (part !== undefined) {
            const [other, turn] = delta[part];
            const at = gguf_name(name).split(".").slice(0, 2).join(".");
            return [[`${at}.${other}`, turn(tensor)]];
        }
        const other = gguf_name(name)
            .replace("ffn_norm", "post_attention_norm")
            .replace("mlp.shared_expert_gate", "ffn_gate_inp_shexp");
        if (other.includes("ffn_gate_inp_shexp"))
            return [[other, { ...tensor, shape: [HIDDEN] }]];
        if (is_published && other.endsWith("norm.weight"))
            return [
                [
                    other,
                    { ...tensor, values: tensor.values.map((one) => one + 1) },
                ],
            ];
        return [[other, tensor]];
    };
}

const keys_of = (arch, c, more) =>
    gguf_keys(
        arch,
        { ...c, rope_theta: c.rope_parameters.rope_theta },
        {
            "rope.dimension_count": v.u32(8),
            "rope.dimension_sections": v.list("i32", [2, 1, 1, 0]),
            "ssm.conv_kernel": v.u32(c.linear_conv_kernel_dim),
            "ssm.state_size": v.u32(c.linear_key_head_dim),
            "ssm.group_count": v.u32(c.linear_num_key_heads),
            "ssm.time_step_rank": v.u32(c.linear_num_value_heads),
            "ssm.inner_size": v.u32(
                c.linear_num_value_heads * c.linear_value_head_dim,
            ),
            full_attention_interval: v.u32(INTERVAL),
            ...more,
        },
    );

function hybrid(config, inner, arch, more, is_published) {
    const c = config.text_config;
    const tensors = prefixed({
        ...outer(HIDDEN, c.tie_word_embeddings),
        ...layers(LAYERS, (at, layer) => ({
            ...layer_norms(at, HIDDEN),
            ...mixer(at, c, layer),
            ...inner(`${at}.mlp`),
        })),
    });
    return {
        config,
        tensors: is_published ? published(tensors) : tensors,
        gguf: (values) => ({
            keys: keys_of(arch, c, more),
            tensors: gguf_tensors(values, change(c, is_published)),
        }),
    };
}

const dense_config = () => ({
    architectures: ["Qwen3_5ForConditionalGeneration"],
    model_type: "qwen3_5",
    tie_word_embeddings: false,
    text_config: text_config({ model_type: "qwen3_5_text" }),
});

const dense = (is_published) =>
    hybrid(
        dense_config(),
        (at) => gated(at, HIDDEN, 96),
        "qwen35",
        {},
        is_published,
    );

function qwen3_5_moe() {
    const config = {
        architectures: ["Qwen3_5MoeForConditionalGeneration"],
        model_type: "qwen3_5_moe",
        tie_word_embeddings: false,
        text_config: text_config({
            model_type: "qwen3_5_moe_text",
            num_experts: 8,
            num_experts_per_tok: 3,
            moe_intermediate_size: 32,
            shared_expert_intermediate_size: 48,
            norm_topk_prob: true,
        }),
    };
    const inner = (at) => ({
        [`${at}.gate.weight`]: matrix(8, HIDDEN, 2),
        ...gated_experts(`${at}.switch_mlp`, 8, HIDDEN, 32),
        ...gated(`${at}.shared_expert`, HIDDEN, 48),
        [`${at}.shared_expert_gate.weight`]: matrix(1, HIDDEN),
    });
    return hybrid(config, inner, "qwen35moe", {
        expert_count: v.u32(8),
        expert_used_count: v.u32(3),
        expert_feed_forward_length: v.u32(32),
        expert_shared_feed_forward_length: v.u32(48),
    });
}

export const hybrids = {
    qwen3_5: () => dense(false),
    qwen3_5_published: () => dense(true),
    qwen3_5_moe,
};
