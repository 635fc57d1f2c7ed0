#!/usr/bin/env python3
"""rope.py - the rotary frequencies of published models, by the formulas of the
papers: YaRN (Peng and others, 2023, sections 3.2 and 3.4) and Llama 3.1's.

Writes tests/data/rope.json, with which tests/unit/inference_rope_test.c
compares; the configs are those of the models' own files.
"""
import json
import math
import os

MODELS = {
    "Llama 3.1": {
        "architectures": ["LlamaForCausalLM"], "head_dim": 128,
        "rope_theta": 500000.0,
        "rope_scaling": {
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192}},
    "gpt-oss": {
        "architectures": ["GptOssForCausalLM"], "head_dim": 64,
        "rope_theta": 150000, "num_local_experts": 32,
        "num_experts_per_tok": 4, "sliding_window": 128,
        "rope_scaling": {
            "rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0,
            "beta_slow": 1.0, "truncate": False,
            "original_max_position_embeddings": 4096}},
    "Qwen3 with 131072 positions": {
        "architectures": ["Qwen3ForCausalLM"], "head_dim": 128,
        "rope_theta": 1000000.0, "max_position_embeddings": 131072,
        "rope_scaling": {
            "rope_type": "yarn", "factor": 4.0,
            "original_max_position_embeddings": 32768}},
    "GLM-4.5": {
        "architectures": ["Glm4MoeForCausalLM"], "head_dim": 128,
        "rope_theta": 1000000, "partial_rotary_factor": 0.5,
        "n_routed_experts": 128, "num_experts_per_tok": 8,
        "moe_intermediate_size": 32},
}
SIZES = {"hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 2,
         "num_hidden_layers": 2, "intermediate_size": 64, "vocab_size": 256}


def llama3(frequency, scaling):
    original = scaling["original_max_position_embeddings"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    turns = original * frequency / (2 * math.pi)
    kept = min(max((turns - low) / (high - low), 0), 1)
    return kept * frequency + (1 - kept) * frequency / scaling["factor"]


def yarn(pair, frequency, scaling, size, theta):
    original = scaling["original_max_position_embeddings"]

    def bound(turns):
        return (size * math.log(original / (2 * math.pi * turns))
                / (2 * math.log(theta)))

    low = bound(scaling.get("beta_fast", 32))
    high = bound(scaling.get("beta_slow", 1))
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, size - 1)
    stretched = min(max((pair - low) / (high - low), 0), 1)
    return ((1 - stretched) * frequency
            + stretched * frequency / scaling["factor"])


def frequencies(config):
    theta, scaling = config["rope_theta"], config.get("rope_scaling", {})
    size = int(config["head_dim"] * config.get("partial_rotary_factor", 1))
    made = []
    for pair in range(size // 2):
        frequency = theta ** (-2 * pair / size)
        if scaling.get("rope_type") == "llama3":
            frequency = llama3(frequency, scaling)
        if scaling.get("rope_type") == "yarn":
            frequency = yarn(pair, frequency, scaling, size, theta)
        made.append(frequency)
    return made


def amplitude(config):
    scaling = config.get("rope_scaling", {})
    if scaling.get("rope_type") != "yarn":
        return 1
    return 0.1 * math.log(scaling["factor"]) + 1


def main():
    models = [{"name": name, "config": {**SIZES, **config},
               "amplitude": amplitude(config),
               "frequencies": frequencies(config)}
              for name, config in MODELS.items()]
    path = os.path.join(os.path.dirname(__file__), "../data/rope.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(map(json.dumps, models)) + "\n]\n")


main()
