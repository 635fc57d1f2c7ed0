// experts.mjs - tiny models with experts: qwen3_moe, gpt_oss, glm4_moe,
// deepseek_v3 and kimi_k2.

import { gguf_value as v } from "./gguf.mjs";
import {
    CONTEXT,
    EPS,
    VOCAB,
    attention,
    bias,
    gated,
    gated_experts,
    gguf_keys,
    gguf_name,
    gguf_tensors,
    layer_norms,
    layers,
    matrices,
    matrix,
    norm,
    outer,
    vector,
    sizes,
} from "./shapes.mjs";

const INNER = 32; /* of an expert */
const router = (at, c, count) => ({
    [`${at}.weight`]: matrix(count, c.hidden_size, 2),
});

function qwen3_moe() {
    const config = sizes({
        architectures: ["Qwen3MoeForCausalLM"],
        model_type: "qwen3_moe",
        head_dim: 16,
        num_experts: 8,
        num_experts_per_tok: 3,
        moe_intermediate_size: INNER,
        norm_topk_prob: true,
        decoder_sparse_step: 1,
        mlp_only_layers: [],
        use_sliding_window: false,
    });
    return {
        config,
        tensors: {
            ...outer(64, false),
            ...layers(3, (at) => ({
                ...layer_norms(at, 64),
                ...attention(`${at}.self_attn`, config, { norms: true }),
                ...router(`${at}.mlp.gate`, config, 8),
                ...gated_experts(`${at}.mlp.switch_mlp`, 8, 64, INNER),
            })),
        },
        gguf: (tensors) => ({
            keys: gguf_keys("qwen3moe", config, {
                expert_count: v.u32(8),
                expert_used_count: v.u32(3),
                expert_feed_forward_length: v.u32(INNER),
            }),
            tensors: gguf_tensors(tensors),
        }),
    };
}

const yarn_keys = ({ factor, original_max_position_embeddings: original }) => ({
    "rope.scaling.type": v.text("yarn"),
    "rope.scaling.factor": v.f32(factor),
    "rope.scaling.original_context_length": v.u32(original),
});

// The gates are wide, so that the bound of 7 is met.
function gpt_oss() {
    const config = sizes({
        architectures: ["GptOssForCausalLM"],
        model_type: "gpt_oss",
        num_hidden_layers: 4,
        intermediate_size: INNER,
        head_dim: 16,
        attention_bias: true,
        num_local_experts: 8,
        num_experts_per_tok: 3,
        sliding_window: 32,
        swiglu_limit: 7,
        layer_types: Array.from({ length: 4 }, (_, i) =>
            i % 2 === 0 ? "sliding_attention" : "full_attention",
        ),
        rope_theta: 150000,
        rope_scaling: {
            rope_type: "yarn",
            factor: 8,
            beta_fast: 32,
            beta_slow: 1,
            original_max_position_embeddings: 128,
            truncate: true,
        },
    });
    return {
        config,
        tensors: {
            ...outer(64, false),
            ...layers(4, (at) => ({
                ...layer_norms(at, 64),
                ...attention(`${at}.self_attn`, config, {
                    biases: ["q", "k", "v", "o"],
                }),
                [`${at}.self_attn.sinks`]: vector([4], 0.5, 2 ** -4, 16),
                ...router(`${at}.mlp.router`, config, 8),
                [`${at}.mlp.router.bias`]: bias(8),
                [`${at}.mlp.experts.gate_proj.weight`]: matrices(
                    8,
                    INNER,
                    64,
                    4,
                ),
                [`${at}.mlp.experts.gate_proj.bias`]: vector(
                    [8, INNER],
                    0,
                    2 ** -5,
                    63,
                ),
                [`${at}.mlp.experts.up_proj.weight`]: matrices(8, INNER, 64, 4),
                [`${at}.mlp.experts.up_proj.bias`]: vector(
                    [8, INNER],
                    0,
                    2 ** -5,
                    63,
                ),
                [`${at}.mlp.experts.down_proj.weight`]: matrices(
                    8,
                    64,
                    INNER,
                    0.25,
                ),
                [`${at}.mlp.experts.down_proj.bias`]: vector(
                    [8, 64],
                    0,
                    2 ** -5,
                    63,
                ),
            })),
        },
        gguf: (tensors) => ({
            keys: gguf_keys("gpt-oss", config, {
                ...yarn_keys(config.rope_scaling),
                "rope.scaling.yarn_beta_fast": v.f32(32),
                "rope.scaling.yarn_beta_slow": v.f32(1),
                "attention.sliding_window": v.u32(32),
                expert_count: v.u32(8),
                expert_used_count: v.u32(3),
                expert_feed_forward_length: v.u32(INNER),
            }),
            tensors: gguf_tensors(tensors, (name, tensor) => {
                const other = gguf_name(name)
                    .replace("ffn_norm", "post_attention_norm")
                    .replace("self_attn.sinks", "attn_sinks.weight");
                return [[other, tensor]];
            }),
        }),
    };
}

// Sums of a group are all above 0, so that a group put aside by 0 or by minus
// infinity is the same.
const score_bias = (count) => vector([count], 0.5, 2 ** -6, 16);

const scored = (at, c) => ({
    ...router(`${at}.mlp.gate`, c, c.n_routed_experts),
    [`${at}.mlp.gate.e_score_correction_bias`]: score_bias(c.n_routed_experts),
    ...gated_experts(
        `${at}.mlp.switch_mlp`,
        c.n_routed_experts,
        c.hidden_size,
        c.moe_intermediate_size,
    ),
    ...gated(
        `${at}.mlp.shared_experts`,
        c.hidden_size,
        c.moe_intermediate_size * c.n_shared_experts,
    ),
});

const feed_forward = (at, c, layer) =>
    layer < c.first_k_dense_replace
        ? gated(`${at}.mlp`, c.hidden_size, c.intermediate_size)
        : scored(at, c);

const scored_keys = (c) => ({
    leading_dense_block_count: v.u32(c.first_k_dense_replace),
    expert_count: v.u32(c.n_routed_experts),
    expert_used_count: v.u32(c.num_experts_per_tok),
    expert_group_count: v.u32(c.n_group),
    expert_group_used_count: v.u32(c.topk_group),
    expert_shared_count: v.u32(c.n_shared_experts),
    expert_feed_forward_length: v.u32(c.moe_intermediate_size),
    expert_gating_func: v.u32(2),
    expert_weights_scale: v.f32(c.routed_scaling_factor),
    expert_weights_norm: v.bool(c.norm_topk_prob),
});

function glm4_moe() {
    const config = sizes({
        architectures: ["Glm4MoeForCausalLM"],
        model_type: "glm4_moe",
        head_dim: 32,
        partial_rotary_factor: 0.5,
        attention_bias: true,
        use_qk_norm: true,
        n_routed_experts: 8,
        n_shared_experts: 1,
        num_experts_per_tok: 3,
        moe_intermediate_size: INNER,
        first_k_dense_replace: 1,
        n_group: 1,
        topk_group: 1,
        norm_topk_prob: true,
        routed_scaling_factor: 1.5,
        num_nextn_predict_layers: 0,
    });
    return {
        config,
        tensors: {
            ...outer(64, false),
            ...layers(3, (at, layer) => ({
                ...layer_norms(at, 64),
                ...attention(`${at}.self_attn`, config, {
                    biases: ["q", "k", "v"],
                    norms: true,
                }),
                ...feed_forward(at, config, layer),
            })),
        },
        gguf: (tensors) => ({
            keys: gguf_keys("glm4moe", config, {
                ...scored_keys(config),
                "rope.dimension_count": v.u32(16),
            }),
            tensors: gguf_tensors(tensors, (name, tensor) => [
                [
                    gguf_name(name).replace("ffn_norm", "post_attention_norm"),
                    tensor,
                ],
            ]),
        }),
    };
}

// @form: "heads" has a matrix of a head each for keys and values, as MLX
// writes now, "joined" the one of Hugging Face.
function latent_attention(at, c, form) {
    const heads = c.num_attention_heads;
    const query = c.qk_nope_head_dim + c.qk_rope_head_dim;
    const [rank, nope, value] = [
        c.kv_lora_rank,
        c.qk_nope_head_dim,
        c.v_head_dim,
    ];
    const kv =
        form === "heads"
            ? {
                  [`${at}.embed_q.weight`]: matrices(heads, rank, nope),
                  [`${at}.unembed_out.weight`]: matrices(heads, value, rank),
              }
            : {
                  [`${at}.kv_b_proj.weight`]: matrix(
                      heads * (nope + value),
                      rank,
                  ),
              };
    const queries = c.q_lora_rank
        ? {
              [`${at}.q_a_proj.weight`]: matrix(c.q_lora_rank, c.hidden_size),
              [`${at}.q_a_layernorm.weight`]: norm(c.q_lora_rank),
              [`${at}.q_b_proj.weight`]: matrix(
                  heads * query,
                  c.q_lora_rank,
                  2,
              ),
          }
        : { [`${at}.q_proj.weight`]: matrix(heads * query, c.hidden_size, 2) };
    return {
        ...queries,
        [`${at}.kv_a_proj_with_mqa.weight`]: matrix(
            rank + c.qk_rope_head_dim,
            c.hidden_size,
        ),
        [`${at}.kv_a_layernorm.weight`]: norm(rank),
        ...kv,
        [`${at}.o_proj.weight`]: matrix(c.hidden_size, heads * value),
    };
}

// [heads, nope + value, rank] as GGUF has it: keys [heads, rank, nope] and
// values [heads, value, rank].
function joined_split({ values }, c) {
    const [heads, rank] = [c.num_attention_heads, c.kv_lora_rank];
    const [nope, value] = [c.qk_nope_head_dim, c.v_head_dim];
    const keys = new Float32Array(heads * rank * nope);
    const rest = new Float32Array(heads * value * rank);
    for (let h = 0; h < heads; h++)
        for (let row = 0; row < nope + value; row++)
            for (let r = 0; r < rank; r++) {
                const one = values[(h * (nope + value) + row) * rank + r];
                if (row < nope) keys[(h * rank + r) * nope + row] = one;
                else rest[(h * value + row - nope) * rank + r] = one;
            }
    return [
        { shape: [heads, rank, nope], values: keys },
        { shape: [heads, value, rank], values: rest },
    ];
}

const latent_names = [
    ["self_attn.q_a_proj", "attn_q_a"],
    ["self_attn.q_a_layernorm", "attn_q_a_norm"],
    ["self_attn.q_b_proj", "attn_q_b"],
    ["self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"],
    ["self_attn.kv_a_layernorm", "attn_kv_a_norm"],
    ["self_attn.embed_q", "attn_k_b"],
    ["self_attn.unembed_out", "attn_v_b"],
];

const latent_tensors = (c) => (name, tensor) => {
    const other = latent_names.reduce(
        (text, [from, to]) => text.replace(from, to),
        gguf_name(name),
    );
    if (!other.includes("self_attn.kv_b_proj")) return [[other, tensor]];
    const [keys, values] = joined_split(tensor, c);
    return [
        [other.replace("self_attn.kv_b_proj", "attn_k_b"), keys],
        [other.replace("self_attn.kv_b_proj", "attn_v_b"), values],
    ];
};

// Experts each on their own, as Hugging Face has them, stacked.
function stacked(tensors) {
    const out = {};
    for (const [name, tensor] of Object.entries(tensors)) {
        const match = name.match(/^(.*mlp\.)experts\.(\d+)\.(.*)$/);
        if (!match) {
            out[name] = tensor;
            continue;
        }
        const [, at, , part] = match;
        const whole = (out[`${at}switch_mlp.${part}`] ??= {
            shape: [0, ...tensor.shape],
            values: new Float32Array(0),
        });
        whole.shape[0]++;
        whole.values = Float32Array.from([...whole.values, ...tensor.values]);
    }
    return out;
}

function unstacked(tensors) {
    const out = {};
    for (const [name, spec] of Object.entries(tensors)) {
        if (!name.includes(".switch_mlp.")) {
            out[name] = spec;
            continue;
        }
        for (let e = 0; e < spec.shape[0]; e++)
            out[name.replace("switch_mlp", `experts.${e}`)] = {
                ...spec,
                shape: spec.shape.slice(1),
            };
    }
    return out;
}

function latent(config, form) {
    const width = config.kv_lora_rank + config.qk_rope_head_dim;
    const scaling = config.rope_scaling;
    return {
        config,
        tensors: {
            ...outer(64, false),
            ...layers(config.num_hidden_layers, (at, layer) => ({
                ...layer_norms(at, 64),
                ...latent_attention(`${at}.self_attn`, config, form),
                ...feed_forward(at, config, layer),
            })),
        },
        gguf: (tensors) => ({
            keys: gguf_keys(
                "deepseek2",
                { ...config, num_key_value_heads: 1 },
                {
                    ...scored_keys(config),
                    ...yarn_keys(scaling),
                    "rope.scaling.yarn_beta_fast": v.f32(scaling.beta_fast),
                    "rope.scaling.yarn_beta_slow": v.f32(scaling.beta_slow),
                    "rope.scaling.yarn_log_multiplier": v.f32(
                        0.1 * scaling.mscale_all_dim,
                    ),
                    "attention.q_lora_rank": v.u32(config.q_lora_rank ?? 0),
                    "attention.kv_lora_rank": v.u32(config.kv_lora_rank),
                    "attention.key_length": v.u32(width),
                    "attention.value_length": v.u32(config.kv_lora_rank),
                    "attention.key_length_mla": v.u32(
                        config.qk_nope_head_dim + config.qk_rope_head_dim,
                    ),
                    "attention.value_length_mla": v.u32(config.v_head_dim),
                    "rope.dimension_count": v.u32(config.qk_rope_head_dim),
                },
            ),
            tensors: gguf_tensors(stacked(tensors), latent_tensors(config)),
        }),
    };
}

// The inner norms have 1e-6 whatever the config says; here they all do.
const latent_sizes = (more) =>
    sizes({
        architectures: ["DeepseekV3ForCausalLM"],
        model_type: "deepseek_v3",
        num_key_value_heads: 4,
        rms_norm_eps: 1e-6,
        q_lora_rank: 32,
        kv_lora_rank: 32,
        qk_nope_head_dim: 16,
        qk_rope_head_dim: 8,
        v_head_dim: 16,
        n_routed_experts: 8,
        n_shared_experts: 1,
        num_experts_per_tok: 3,
        moe_intermediate_size: INNER,
        moe_layer_freq: 1,
        first_k_dense_replace: 1,
        n_group: 4,
        topk_group: 2,
        norm_topk_prob: true,
        routed_scaling_factor: 2.5,
        scoring_func: "sigmoid",
        topk_method: "noaux_tc",
        attention_bias: false,
        rope_scaling: {
            type: "yarn",
            factor: 8,
            beta_fast: 32,
            beta_slow: 1,
            mscale: 1,
            mscale_all_dim: 1,
            original_max_position_embeddings: 128,
        },
        ...more,
    });

const deepseek_v3 = (more = {}) => latent(latent_sizes(more), "heads");

// The files as they were published.
function deepseek_v3_published() {
    const made = latent(latent_sizes({}), "joined");
    return { ...made, tensors: unstacked(made.tensors) };
}

const kimi_k2 = () =>
    latent(
        latent_sizes({
            model_type: "kimi_k2",
            n_group: 1,
            topk_group: 1,
            n_routed_experts: 12,
            num_experts_per_tok: 4,
            routed_scaling_factor: 2.827,
            rope_theta: 50000,
            rope_scaling: {
                type: "yarn",
                factor: 32,
                beta_fast: 1,
                beta_slow: 1,
                mscale: 1,
                mscale_all_dim: 1,
                original_max_position_embeddings: 32,
            },
        }),
        "joined",
    );

export const experts = {
    qwen3_moe,
    gpt_oss,
    glm4_moe,
    deepseek_v3,
    deepseek_v3_published,
    kimi_k2,
};
