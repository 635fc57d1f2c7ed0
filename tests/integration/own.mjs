// own.mjs - a network whose parts a test may end and start again.
//
// Everything lies in one temporary folder; whatever happens, finish() of the
// test ends the processes, by their ids, and removes it.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";

import {
    api,
    bin,
    connections_close,
    env_read,
    model_ids,
    models_folder,
    must,
    network,
    poll,
    run,
} from "./lib.mjs";
import { nodes } from "./fleet.mjs";

const START_S = 120;

// A port that is free now: the coordinator comes back on the one it had.
function free_port() {
    return new Promise((resolve) => {
        const server = net.createServer().listen(0, "127.0.0.1", () => {
            const { port } = server.address();
            server.close(() => resolve(port));
        });
    });
}

const parts = new Map(); // name -> child process

export const folder = fs.mkdtempSync(path.join(os.tmpdir(), "berth-restart."));
// As long as a path to a socket must not be, with blanks in it.
export const dev = path.join(
    folder,
    `a place ${"with a long name ".repeat(8)}`.trim(),
);
export const ports = {};
let programs_end = false;
const at_ends = []; // {before, after} the programs end

network.folder = folder;

export const part = (name) => parts.get(name);
export const pid_of_part = (name) => parts.get(name).pid;
export const cluster_folder = () =>
    fs.readFileSync(path.join(dev, "cluster"), "utf8").split("\n")[0];

export function begin(name, program, words, env = {}) {
    const log = fs.openSync(path.join(folder, `${name}.log`), "a");
    const child = spawn(path.join(bin, program), words, {
        stdio: ["ignore", log, log],
        env: { ...process.env, ...env },
    });
    fs.closeSync(log);
    fs.writeFileSync(path.join(folder, `${name}.pid`), `${child.pid}`);
    parts.set(name, child);
    return child;
}

export const has_ended = (child) =>
    child.exitCode !== null || child.signalCode !== null;

// Send @signal and wait for the end; {code, signal}.
export async function end(name, signal) {
    const child = parts.get(name);
    if (!has_ended(child)) {
        const gone = new Promise((resolve) => child.once("exit", resolve));
        child.kill(signal);
        const late = setTimeout(() => child.kill("SIGKILL"), 30_000);
        await gone;
        clearTimeout(late);
    }
    return { code: child.exitCode, signal: child.signalCode };
}

// Numbers for the coordinator's configuration file, when a test wants others.
export const coordinator_config = {};

export async function coordinator_begin(env) {
    ports.https ??= await free_port();
    ports.link ??= await free_port();
    const words = [
        "--dev",
        dev,
        "--https-port",
        `${ports.https}`,
        "--link-port",
        `${ports.link}`,
    ];
    const numbers = Object.entries(coordinator_config);
    if (numbers.length > 0) {
        const config = path.join(folder, "coordinator.conf");
        const lines = numbers.map((pair) => pair.join(" = "));
        fs.writeFileSync(config, `${lines.join("\n")}\n`);
        words.push("--config", config);
    }
    return begin("coordinator", "berth-coordinator", words, env);
}

export async function coordinator_start(variables) {
    const child = await coordinator_begin(variables);
    const env = path.join(dev, "env");
    await poll(
        "the coordinator",
        async () => {
            if (has_ended(child)) return true;
            if (!fs.existsSync(env)) return false;
            const values = env_read(env);
            network.url = values.BERTH_URL;
            network.ca_file = values.BERTH_CA_FILE;
            network.key = values.BERTH_API_KEY;
            connections_close();
            return (await api("GET", "/readyz", { key: null })).status === 200;
        },
        START_S,
    );
    assert.ok(!has_ended(child), log_tail("coordinator"));
}

export const log_tail = (name) =>
    fs.readFileSync(path.join(folder, `${name}.log`), "utf8").slice(-2000);

export const berth = (words) =>
    run(path.join(bin, "berth"), words, {
        BERTH_URL: network.url,
        BERTH_CA_FILE: network.ca_file,
        BERTH_API_KEY: network.key,
    });

export const node_command = (name, ...words) =>
    run(path.join(bin, "berth-node"), [
        "--home",
        path.join(folder, name),
        ...words,
    ]);

export async function agent_join(name, owner, ...words) {
    const { token } = await must(201, "POST", "/api/v1/join-tokens", {
        body: { owner },
    });
    const file = path.join(folder, `${name}.token`);
    fs.writeFileSync(file, token, { mode: 0o600 });
    const joined = await node_command(
        name,
        "join",
        network.url,
        "--token-file",
        file,
        "--name",
        name,
        ...words,
    );
    assert.equal(joined.code, 0, joined.stderr);
}

export function agent_start(name, more = {}, env = {}) {
    const config = path.join(folder, `${name}.conf`);
    const values = {
        models: models_folder,
        memory_cap: 1_000_000_000,
        threads: 1,
        ...more,
    };
    const lines = Object.entries(values).map((pair) => pair.join(" = "));
    fs.writeFileSync(config, `${lines.join("\n")}\n`);
    const home = path.join(folder, name);
    const words = ["--home", home, "run", "--config", config];
    return begin(name, "berth-node", words, env);
}

export const lending = (...names) =>
    poll(
        `${names.join(", ")} to lend`,
        async () => {
            const list = await nodes();
            return names.every((name) =>
                list.some(
                    (node) =>
                        node.name === name &&
                        ["lending", "busy"].includes(node.state) &&
                        node.models.length === 3,
                ),
            );
        },
        START_S,
    );

export async function network_start(agents) {
    await coordinator_start();
    for (const id of model_ids) {
        const added = await berth([
            "models",
            "add",
            path.join(models_folder, id),
        ]);
        assert.equal(added.code, 0, added.stderr);
    }
    await must(201, "POST", "/api/v1/accounts", { body: { name: "alice" } });
    for (const name of agents) {
        await agent_join(name, "alice");
        agent_start(name);
    }
    await lending(...agents);
}

// What must happen at the end, however it comes: before() the programs end,
// after() that, while the folders are still there.
export const at_end = (hooks) => at_ends.push(hooks);

// End all of it, agents first, and forget the folders.
export async function network_end() {
    if (programs_end) return;
    programs_end = true;
    for (const { before } of at_ends) await before?.();
    const names = [...parts.keys()].sort().reverse();
    for (const name of names) await end(name, "SIGTERM");
    for (const { after } of at_ends) await after?.();
    const file = path.join(dev, "cluster");
    if (fs.existsSync(file)) {
        const cluster = cluster_folder();
        if (path.basename(path.dirname(cluster)).startsWith("berth-dev"))
            spawnSync("rm", ["-rf", "--", cluster, `${cluster}.lock`]);
    }
    fs.rmSync(folder, { recursive: true, force: true });
}

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"])
    process.once(signal, async () => {
        console.log(`ended by ${signal}`);
        await network_end();
        process.exit(1);
    });
