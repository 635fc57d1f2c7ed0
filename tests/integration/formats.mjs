// formats.mjs - a model in each quantised format computes what the same values
// in plain floats compute.  Quantised and dequantised by safetensors.mjs.

import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

import { bin, check, finish, models_folder, run } from "./lib.mjs";
import {
    affine,
    f32_tensor,
    mxfp4,
    read_tensors,
    values_of,
    write_model,
} from "./safetensors.mjs";

const ENGINE = path.join(bin, "berth-engine");
const BASE = path.join(models_folder, "tiny-chat");
const IDS = "5,17,900,23,411,2046,77,77,1300,8";
// Sums in another order, of a few hundred products around 1.
const CLOSE = 2e-4;

const work = fs.mkdtempSync(path.join(os.tmpdir(), "berth-formats."));
process.on("exit", () => fs.rmSync(work, { recursive: true, force: true }));

const base = read_tensors(path.join(BASE, "model.safetensors"));

async function logits(folder) {
    const ran = await run(ENGINE, [
        ...["logits", "--model", folder, "--tokens", IDS, "--json"],
    ]);
    assert.equal(ran.code, 0, ran.stderr);
    return JSON.parse(ran.stdout).logits;
}

// The model twice: matrices quantised as @how(module) says ([bits, group],
// "mxfp4" or null), and the same values as floats.
function twice(name, how, quantization) {
    const quantised = {};
    const plain = {};
    for (const [tensor, info] of Object.entries(base)) {
        const module = tensor.replace(/\.weight$/, "");
        const values = values_of(info);
        const format = info.shape.length === 2 ? how(module) : null;
        if (format === null) {
            quantised[tensor] = plain[tensor] = f32_tensor(info.shape, values);
            continue;
        }
        const { parts, back } =
            format === "mxfp4"
                ? mxfp4(values, info.shape)
                : affine(values, info.shape, ...format);
        for (const [part, it] of Object.entries(parts))
            quantised[`${module}.${part}`] = it;
        plain[tensor] = f32_tensor(info.shape, back);
    }
    return {
        quantised: write_model(BASE, path.join(work, name), quantised, {
            quantization,
        }),
        plain: write_model(BASE, path.join(work, `${name}.plain`), plain, {}),
    };
}

async function is_the_same({ quantised, plain }) {
    const [got, want] = [await logits(quantised), await logits(plain)];
    assert.equal(got.length, want.length);
    const apart = got.map((value, i) => Math.abs(value - want[i]));
    assert.ok(Math.max(...apart) < CLOSE, `${Math.max(...apart)} apart`);
    const spread = Math.max(...want) - Math.min(...want);
    assert.ok(spread > 1, "logits differ among each other");
}

for (const bits of [2, 3, 4, 5, 6, 8])
    for (const group of [32, 64, 128])
        await check(`affine, ${bits} bits, groups of ${group}`, () =>
            is_the_same(
                twice(`affine-${bits}-${group}`, () => [bits, group], {
                    bits,
                    group_size: group,
                    mode: "affine",
                }),
            ),
        );

await check("mxfp4", () =>
    is_the_same(
        twice("mxfp4", () => "mxfp4", {
            bits: 4,
            group_size: 32,
            mode: "mxfp4",
        }),
    ),
);

// As mlx-lm's mixed recipes and its conversions of mxfp4 models write them.
const OWN = {
    "model.embed_tokens": { bits: 8, group_size: 64 },
    "model.layers.1.self_attn.v_proj": { bits: 6, group_size: 128 },
    "model.layers.2.mlp.down_proj": { bits: 3, group_size: 32, mode: "affine" },
    "model.layers.3.mlp.up_proj": false,
};
for (const mode of ["affine", "mxfp4"])
    await check(`layers of their own in a model of ${mode}`, () =>
        is_the_same(
            twice(
                `own-${mode}`,
                (module) => {
                    if (OWN[module] === false) return null;
                    if (OWN[module])
                        return [OWN[module].bits, OWN[module].group_size];
                    return mode === "mxfp4" ? "mxfp4" : [4, 32];
                },
                { bits: 4, group_size: 32, mode, ...OWN },
            ),
        ),
    );

await check("a layer that is not what config.json says is refused", async () => {
    const { quantised } = twice("lie", () => [5, 64], {
        bits: 5,
        group_size: 64,
        "model.layers.0.mlp.up_proj": { bits: 6, group_size: 64 },
    });
    const ran = await run(ENGINE, [
        ...["logits", "--model", quantised, "--tokens", "1"],
    ]);
    assert.equal(ran.code, 1);
    assert.match(
        ran.stderr,
        /model\.layers\.0\.mlp\.up_proj\.weight has shape \[512, 20\], expected \[512, 24\]/,
    );
});

finish();
