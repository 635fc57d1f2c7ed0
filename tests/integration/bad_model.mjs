// bad_model.mjs - model directories of which one thing is wrong.
//
// A line of tests/data/bad_models.jsonl is {name, do, message}: what is done to
// a copy of tests/models/tiny-chat, or to the tiny model called @model of
// tests/data/architectures, and the one line with which the engine refuses it;
// {DIR} stands for the copy.  A step is one of
//
//   remove FILE, write FILE TEXT, hex FILE BYTES, truncate FILE SIZE,
//   link FILE TARGET, folder FILE, fifo FILE, repeat FILE HEAD TEXT N TAIL,
//   set FILE PATH VALUE     a member of a JSON file, "a.0.b"; no VALUE: none
//   header PATH VALUE       the same in the header of model.safetensors
//   header_of FILE PATH VALUE   in that of another file of weights
//   length N                the number before the header of model.safetensors

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

import { tiny_model_write } from "../reference/tiny_model.mjs";
import { bin, models_folder, root } from "./lib.mjs";

const END_S = 60;
const MEMORY_KIB = 1 << 20;
const WEIGHTS = "model.safetensors";

export const bad_models = () =>
    fs
        .readFileSync(path.join(root, "tests/data/bad_models.jsonl"), "utf8")
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line));

function member_set(whole, place, value) {
    const names = place.split("/");
    const last = names.pop();
    const object = names.reduce((inner, name) => inner[name], whole);
    if (value === undefined) delete object[last];
    else object[last] = value;
}

function weights_read(file) {
    const bytes = fs.readFileSync(file);
    const size = Number(bytes.readBigUInt64LE(0));
    return {
        header: JSON.parse(bytes.subarray(8, 8 + size)),
        data: bytes.subarray(8 + size),
    };
}

function weights_write(file, { header, data }) {
    const text = Buffer.from(JSON.stringify(header));
    const size = Buffer.alloc(8);
    size.writeBigUInt64LE(BigInt(text.length));
    fs.writeFileSync(file, Buffer.concat([size, text, data]));
}

const steps = {
    remove: (file) => fs.rmSync(file),
    write: (file, text) => fs.writeFileSync(file, text),
    hex: (file, text) => fs.writeFileSync(file, Buffer.from(text, "hex")),
    truncate: (file, size) => fs.truncateSync(file, size),
    repeat: (file, head, text, count, tail) =>
        fs.writeFileSync(file, head + text.repeat(count) + tail),
    link(file, target) {
        fs.rmSync(file, { force: true });
        fs.symlinkSync(target, file);
    },
    folder(file) {
        fs.rmSync(file, { force: true });
        fs.mkdirSync(file);
    },
    fifo(file) {
        fs.rmSync(file, { force: true });
        execFileSync("mkfifo", [file]);
    },
    set(file, place, value) {
        const whole = JSON.parse(fs.readFileSync(file, "utf8"));
        member_set(whole, place, value);
        fs.writeFileSync(file, JSON.stringify(whole));
    },
    header_of(file, place, value) {
        const whole = weights_read(file);
        member_set(whole.header, place, value);
        weights_write(file, whole);
    },
};

export function bad_model_make({ model, do: todo }) {
    const work = fs.mkdtempSync(path.join(os.tmpdir(), "berth-model."));
    const folder = path.join(work, "m");
    const weights = path.join(folder, WEIGHTS);
    if (model) tiny_model_write(model, folder);
    else
        fs.cpSync(path.join(models_folder, "tiny-chat"), folder, {
            recursive: true,
        });
    for (const [step, ...words] of todo)
        if (step === "header") steps.header_of(weights, ...words);
        else if (step === "length") {
            const bytes = fs.readFileSync(weights);
            bytes.writeBigUInt64LE(BigInt(words[0]));
            fs.writeFileSync(weights, bytes);
        } else {
            const [name, ...rest] = words;
            assert.ok(steps[step], step);
            steps[step](path.join(folder, name), ...rest);
        }
    return folder;
}

export function bad_model_remove(folder) {
    fs.rmSync(path.dirname(folder), { recursive: true });
}

// {code, message} of a program that opens @folder, within bounds of time and,
// where the build allows, memory.
export function bad_model_open(program, words, folder) {
    const limit = process.env.BERTH_BIN ? "" : `ulimit -v ${MEMORY_KIB};`;
    return new Promise((resolve) => {
        const child = spawn(
            "sh",
            ["-c", `${limit} exec "$@"`, "sh", path.join(bin, program)].concat(
                words,
            ),
            { stdio: ["ignore", "ignore", "pipe"] },
        );
        const timer = setTimeout(() => child.kill("SIGKILL"), END_S * 1000);
        let text = "";
        child.stderr.on("data", (data) => (text += data));
        child.on("close", (code, signal) => {
            clearTimeout(timer);
            const message = text.trimEnd().replace(`${program}: `, "");
            resolve({
                code: code ?? signal,
                message: message.replaceAll(folder, "{DIR}"),
            });
        });
    });
}
