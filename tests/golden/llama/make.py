#!/usr/bin/env python3
"""make.py - a tiny random llama and its logits, by plain arithmetic.

Written apart from inference/: no code is shared, everything is a Python float
(double precision), one position after the other, nothing cached but keys and
values.  Running it writes the model beside it (config.json and
model.safetensors) and logits.json, which
tests/unit/inference_transformer_test.c compares with.  The logits are made
for three ways to scale positions, from the same weights.  The same seed gives
the same files.
"""
import json
import math
import os
import struct

HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_DIM = 32, 2, 4, 2, 16
INTERMEDIATE, VOCAB, CONTEXT, EPS, THETA = 48, 64, 512, 1e-5, 500000.0
SCALING = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
PROMPTS = [[1], [5, 9, 2, 33, 60], [(7 * i * i + 3 * i) % VOCAB
                                    for i in range(200)]]


class Random:
    """A 64-bit linear congruential generator (Knuth's MMIX constants)."""

    def __init__(self, seed):
        self.state = seed

    def uniform(self):
        self.state = (self.state * 6364136223846793005
                      + 1442695040888963407) % 2**64
        return (self.state >> 11) / 2**53


def bf16(value):
    """The nearest bfloat16, as its 16 bits."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def from_bf16(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


def tensors():
    kinds = {"model.embed_tokens.weight": (VOCAB, HIDDEN),
             "model.norm.weight": (HIDDEN,),
             "lm_head.weight": (VOCAB, HIDDEN)}
    for n in range(LAYERS):
        layer = f"model.layers.{n}."
        kinds[layer + "input_layernorm.weight"] = (HIDDEN,)
        kinds[layer + "post_attention_layernorm.weight"] = (HIDDEN,)
        attention = layer + "self_attn."
        for name, rows, cols in [
                ("q_proj", HEADS * HEAD_DIM, HIDDEN),
                ("k_proj", KV_HEADS * HEAD_DIM, HIDDEN),
                ("v_proj", KV_HEADS * HEAD_DIM, HIDDEN),
                ("o_proj", HIDDEN, HEADS * HEAD_DIM)]:
            kinds[attention + name + ".weight"] = (rows, cols)
            kinds[attention + name + ".bias"] = (rows,)
        for name, rows, cols in [("gate_proj", INTERMEDIATE, HIDDEN),
                                 ("up_proj", INTERMEDIATE, HIDDEN),
                                 ("down_proj", HIDDEN, INTERMEDIATE)]:
            kinds[layer + "mlp." + name + ".weight"] = (rows, cols)
            kinds[layer + "mlp." + name + ".bias"] = (rows,)
    random = Random(20261130)
    made = {}
    for name in sorted(kinds):
        size = math.prod(kinds[name])
        centre = 1.0 if "norm" in name else 0.0
        spread = 0.3 if len(kinds[name]) == 1 else 0.5
        made[name] = (kinds[name],
                      [bf16(centre + spread * (2 * random.uniform() - 1))
                       for _ in range(size)])
    return made


def write_model(folder, made):
    header, blob = {}, b""
    for name, (shape, bits) in made.items():
        data = struct.pack(f"<{len(bits)}H", *bits)
        header[name] = {"dtype": "BF16", "shape": list(shape),
                        "data_offsets": [len(blob), len(blob) + len(data)]}
        blob += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + blob)
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM, "intermediate_size": INTERMEDIATE,
        "vocab_size": VOCAB, "max_position_embeddings": CONTEXT,
        "rms_norm_eps": EPS, "rope_theta": THETA, "rope_scaling": SCALING,
        "attention_bias": True, "mlp_bias": True, "hidden_act": "silu",
        "tie_word_embeddings": False, "bos_token_id": 0, "eos_token_id": 63,
        "torch_dtype": "bfloat16"}
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file, indent=1)
        file.write("\n")


def frequencies(scaling):
    """Rotary frequencies: plain, linear (all positions divided), or Llama
    3.1's, which stretches the slow ones only."""
    found = []
    for i in range(0, HEAD_DIM, 2):
        plain = 1.0 / THETA ** (i / HEAD_DIM)
        if scaling == "plain":
            found.append(plain)
            continue
        if scaling == "linear":
            found.append(plain / SCALING["factor"])
            continue
        turns = SCALING["original_max_position_embeddings"] * plain / math.tau
        low, high = SCALING["low_freq_factor"], SCALING["high_freq_factor"]
        if turns < low:
            kept = 0.0
        elif turns > high:
            kept = 1.0
        else:
            kept = (turns - low) / (high - low)
        found.append(kept * plain + (1 - kept) * plain / SCALING["factor"])
    return found


class Llama:
    def __init__(self, made, scaling):
        self.weights = {}
        for name, (shape, bits) in made.items():
            values = [from_bf16(b) for b in bits]
            if len(shape) == 2:
                values = [values[r * shape[1]:(r + 1) * shape[1]]
                          for r in range(shape[0])]
            self.weights[name] = values
        self.frequencies = frequencies(scaling)

    def norm(self, x, name):
        mean = sum(v * v for v in x) / len(x)
        return [v / math.sqrt(mean + EPS) * w
                for v, w in zip(x, self.weights[name + ".weight"])]

    def linear(self, x, name):
        rows = self.weights[name + ".weight"]
        offset = self.weights.get(name + ".bias", [0.0] * len(rows))
        return [math.fsum(a * b for a, b in zip(row, x)) + o
                for row, o in zip(rows, offset)]

    def rotated(self, x, position):
        """Pair element i of each head with i + half, as complex numbers."""
        out = list(x)
        half = HEAD_DIM // 2
        for start in range(0, len(x), HEAD_DIM):
            for i, frequency in enumerate(self.frequencies):
                turn = complex(math.cos(position * frequency),
                               math.sin(position * frequency))
                z = complex(x[start + i], x[start + i + half]) * turn
                out[start + i], out[start + i + half] = z.real, z.imag
        return out

    def attention(self, x, name, position, past):
        query = self.rotated(self.linear(x, name + "q_proj"), position)
        past.append((self.rotated(self.linear(x, name + "k_proj"), position),
                     self.linear(x, name + "v_proj")))
        mixed = []
        for head in range(HEADS):
            q = query[head * HEAD_DIM:(head + 1) * HEAD_DIM]
            at = head * KV_HEADS // HEADS * HEAD_DIM
            scores = [sum(a * b for a, b in zip(q, k[at:at + HEAD_DIM]))
                      / math.sqrt(HEAD_DIM) for k, _ in past]
            top = max(scores)
            weights = [math.exp(s - top) for s in scores]
            whole = math.fsum(weights)
            mixed += [math.fsum(w * v[at + d]
                                for w, (_, v) in zip(weights, past)) / whole
                      for d in range(HEAD_DIM)]
        return self.linear(mixed, name + "o_proj")

    def mlp(self, x, name):
        gate = self.linear(x, name + "gate_proj")
        up = self.linear(x, name + "up_proj")
        both = [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)]
        return self.linear(both, name + "down_proj")

    def logits(self, ids):
        pasts = [[] for _ in range(LAYERS)]
        for position, token in enumerate(ids):
            x = self.weights["model.embed_tokens.weight"][token]
            for n in range(LAYERS):
                layer = f"model.layers.{n}."
                step = self.attention(
                    self.norm(x, layer + "input_layernorm"),
                    layer + "self_attn.", position, pasts[n])
                x = [a + b for a, b in zip(x, step)]
                step = self.mlp(
                    self.norm(x, layer + "post_attention_layernorm"),
                    layer + "mlp.")
                x = [a + b for a, b in zip(x, step)]
        return self.linear(self.norm(x, "model.norm"), "lm_head")


def main():
    folder = os.path.dirname(os.path.abspath(__file__))
    made = tensors()
    write_model(folder, made)
    cases = []
    for scaling in ("llama3", "linear", "plain"):
        llama = Llama(made, scaling)
        cases += [{"scaling": scaling, "ids": ids, "logits": llama.logits(ids)}
                  for ids in PROMPTS]
    with open(os.path.join(folder, "logits.json"), "w") as file:
        json.dump({"cases": cases}, file)
        file.write("\n")


if __name__ == "__main__":
    main()
