// bad_command.mjs - run a line of tests/data/bad_commands.jsonl.
//
// A line is {program, words, env} and what must come back: {code, message}, the
// one line on standard error without the program's name.  {TMP} stands for a
// folder with the files made here, {MODELS} for tests/models, {URL} for the
// coordinator's address, {RUN} for the folder of the network.

import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

import { bin, models_folder, network, root } from "./lib.mjs";

const END_MS = 30_000;
const temporary = fs.mkdtempSync(path.join(os.tmpdir(), "berth-errors."));
const places = {
    "{TMP}": temporary,
    "{MODELS}": models_folder,
    "{RUN}": network.folder,
    "{URL}": network.url,
};

const zeros = "0".repeat(64);
const config = ".config/berth/config";
const files = {
    text: "nothing of use\n",
    empty: "",
    "object.json": '{"a":1}',
    token: `01234567-89ab-4cde-8f01-23456789abcd.${zeros}.${zeros}\n`,
    "crowded/file": "",
    "odd.conf": "colour = red\n",
    [`loose/${config}`]: "api_key = x\n",
    [`odd/${config}`]: "colour = red\n",
};

export const bad_commands = () =>
    fs
        .readFileSync(path.join(root, "tests/data/bad_commands.jsonl"), "utf8")
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line));

export function command_files_make() {
    for (const [name, text] of Object.entries(files)) {
        const file = path.join(temporary, name);
        fs.mkdirSync(path.dirname(file), { recursive: true });
        fs.writeFileSync(file, text, { mode: 0o600 });
    }
    fs.chmodSync(path.join(temporary, `loose/${config}`), 0o644);
    fs.chmodSync(path.join(temporary, "crowded"), 0o755);
    fs.mkdirSync(path.join(temporary, "open"));
    fs.chmodSync(path.join(temporary, "open"), 0o777);
}

export function command_files_remove() {
    fs.rmSync(temporary, { recursive: true, force: true });
}

function put_in(text) {
    for (const [name, place] of Object.entries(places))
        text = text.replaceAll(name, place);
    return text;
}

function take_out(text) {
    for (const [name, place] of Object.entries(places))
        text = text.replaceAll(place, name);
    return text;
}

// {code, message}; standard error with more than one line is all message.
export function bad_command_run({ program, words, env = {} }) {
    const all = {
        ...process.env,
        BERTH_URL: network.url,
        BERTH_CA_FILE: network.ca_file,
        BERTH_API_KEY: network.key,
    };
    for (const [name, value] of Object.entries(env)) all[name] = put_in(value);
    return new Promise((resolve) => {
        const child = spawn(path.join(bin, program), words.map(put_in), {
            env: all,
            stdio: ["ignore", "ignore", "pipe"],
        });
        const timer = setTimeout(() => child.kill("SIGKILL"), END_MS);
        let text = "";
        child.stderr.on("data", (data) => (text += data));
        child.on("close", (code, signal) => {
            clearTimeout(timer);
            resolve({
                code: code ?? signal,
                message: take_out(text)
                    .trimEnd()
                    .replace(`${program}: `, ""),
            });
        });
    });
}
