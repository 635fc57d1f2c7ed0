// dense.mjs - tiny models whose layers are all alike: llama, mistral, qwen2,
// qwen3.

import { gguf_value as v } from "./gguf.mjs";
import {
    CONTEXT,
    EPS,
    VOCAB,
    attention,
    gated,
    gguf_keys,
    gguf_name,
    gguf_tensors,
    interleaved,
    layer_norms,
    layers,
    outer,
    sizes,
} from "./shapes.mjs";

const tensors_of = (c, head_dim, options) => ({
    ...outer(c.hidden_size, c.tie_word_embeddings),
    ...layers(c.num_hidden_layers, (at) => ({
        ...layer_norms(at, c.hidden_size),
        ...attention(`${at}.self_attn`, { ...c, head_dim }, options),
        ...gated(`${at}.mlp`, c.hidden_size, c.intermediate_size),
    })),
});

// Queries and keys of the architectures that GGUF turns another way.
const turned = (c) => (name, tensor) => {
    const heads = {
        q: c.num_attention_heads,
        k: c.num_key_value_heads,
    }[name.match(/\.([qk])_proj\./)?.[1]];
    return heads && [[gguf_name(name), interleaved(tensor, heads)]];
};

// Llama 3's scaling, as the divisors of the frequencies that GGUF keeps.
function llama3_divisors(c) {
    const { factor, low_freq_factor, high_freq_factor } = c.rope_scaling;
    const original = c.rope_scaling.original_max_position_embeddings;
    return Float32Array.from({ length: c.head_dim / 2 }, (_, i) => {
        const frequency = c.rope_theta ** ((-2 * i) / c.head_dim);
        const turns = (original * frequency) / (2 * Math.PI);
        if (turns > high_freq_factor) return 1;
        if (turns < low_freq_factor) return factor;
        const kept =
            (turns - low_freq_factor) / (high_freq_factor - low_freq_factor);
        return 1 / ((1 - kept) / factor + kept);
    });
}

function llama() {
    const config = sizes({
        architectures: ["LlamaForCausalLM"],
        model_type: "llama",
        head_dim: 32,
        rope_theta: 500000,
        rope_scaling: {
            rope_type: "llama3",
            factor: 8,
            low_freq_factor: 1,
            high_freq_factor: 4,
            original_max_position_embeddings: 256,
        },
    });
    return {
        config,
        tensors: tensors_of(config, 32),
        gguf: (tensors) => ({
            keys: gguf_keys("llama", config),
            tensors: {
                ...gguf_tensors(tensors, turned(config)),
                "rope_freqs.weight": {
                    shape: [16],
                    values: llama3_divisors(config),
                },
            },
        }),
    };
}

// Llama 2's form: a head size that is not written, one head of keys for each
// of queries, linear scaling, biases everywhere.
function llama_biases() {
    const config = sizes({
        architectures: ["LlamaForCausalLM"],
        model_type: "llama",
        num_key_value_heads: 4,
        attention_bias: true,
        tie_word_embeddings: true,
        rope_scaling: { type: "linear", factor: 4 },
    });
    return {
        config,
        tensors: tensors_of(config, 16, { biases: ["q", "k", "v", "o"] }),
        gguf: (tensors) => ({
            keys: gguf_keys("llama", config, {
                "rope.dimension_count": v.u32(16),
                "rope.scaling.type": v.text("linear"),
                "rope.scaling.factor": v.f32(4),
            }),
            tensors: gguf_tensors(tensors, turned(config)),
        }),
    };
}

// llama.cpp's llama looks at all positions whatever the window; its mimo2
// without experts, sinks and factors is the same arithmetic with one.
function mistral() {
    const config = sizes({
        architectures: ["MistralForCausalLM"],
        model_type: "mistral",
        head_dim: 16,
        sliding_window: 48,
    });
    const windows = Array.from({ length: config.num_hidden_layers }, () => 1);
    return {
        config,
        tensors: tensors_of(config, 16),
        gguf: (tensors) => ({
            keys: gguf_keys("mimo2", config, {
                expert_feed_forward_length: v.u32(1),
                "attention.sliding_window": v.u32(48),
                "attention.sliding_window_pattern": v.list("bool", windows),
                "rope.freq_base_swa": v.f32(config.rope_theta),
            }),
            tensors: gguf_tensors(tensors),
        }),
    };
}

function qwen2() {
    const config = sizes({
        architectures: ["Qwen2ForCausalLM"],
        model_type: "qwen2",
        num_key_value_heads: 1,
        rope_theta: 1000000,
        use_sliding_window: false,
        sliding_window: 32,
        max_window_layers: 2,
    });
    return {
        config,
        tensors: tensors_of(config, 16, { biases: ["q", "k", "v"] }),
        gguf: (tensors) => ({
            keys: gguf_keys("qwen2", config),
            tensors: gguf_tensors(tensors),
        }),
    };
}

export function qwen3(more = {}) {
    const config = sizes({
        architectures: ["Qwen3ForCausalLM"],
        model_type: "qwen3",
        head_dim: 32,
        rope_theta: 1000000,
        tie_word_embeddings: true,
        use_sliding_window: false,
        ...more,
    });
    return {
        config,
        tensors: tensors_of(config, 32, { norms: true }),
        gguf: (tensors) => ({
            keys: gguf_keys("qwen3", config),
            tensors: gguf_tensors(tensors),
        }),
    };
}

export const dense = { llama, llama_biases, mistral, qwen2, qwen3 };
