// network.mjs - start a network with deploy/run, run the tests of a network
// that stands against it, end it, and look for what it left behind.
//
//   network.mjs [FILE.mjs...]
//
// Without FILEs: all of them.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

import {
    check,
    children_of,
    command_of,
    deploy_run,
    env_read,
    is_alive,
    log_lines,
    poll,
    skip,
} from "./lib.mjs";

const START_S = 240;
const FILES = [
    "openai.mjs",
    "refused.mjs",
    "errors.mjs",
    "questions.mjs",
    "api.mjs",
    "money.mjs",
    "machines.mjs",
    "wire.mjs",
    "jobs.mjs",
    "cli.mjs",
    "leaving.mjs",
];

const here = path.dirname(fileURLToPath(import.meta.url));
const work = fs.mkdtempSync(path.join(os.tmpdir(), "berth-network."));
const run_folder = path.join(work, "run");
const env_file = path.join(run_folder, "env");
const environment = { ...process.env, BERTH_RUN_DIR: run_folder };

let script;
let test;

function ended(child) {
    return child.exitCode !== null || child.signalCode !== null;
}

function whole_end(child) {
    return new Promise((resolve) => {
        if (ended(child)) resolve();
        else child.once("exit", resolve);
    });
}

async function network_end() {
    if (script !== undefined && !ended(script)) {
        script.kill("SIGTERM");
        await whole_end(script);
    }
}

async function folders_remove() {
    const clean = spawn("sh", [deploy_run, "clean"], {
        env: environment,
        stdio: "ignore",
    });
    await whole_end(clean);
    fs.rmSync(work, { recursive: true, force: true });
}

// Being told to end (tests/run's time is up) must leave nothing either.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"])
    process.once(signal, async () => {
        test?.kill("SIGKILL");
        await network_end();
        await folders_remove();
        process.exit(1);
    });

async function network_start() {
    const log = fs.openSync(path.join(work, "run.log"), "a");
    script = spawn("sh", [deploy_run], {
        env: environment,
        stdio: ["ignore", log, log],
    });
    fs.closeSync(log);
    await poll(
        "the network",
        () => {
            if (ended(script)) return true;
            return fs.existsSync(env_file);
        },
        START_S,
    );
    assert.ok(
        !ended(script),
        fs.readFileSync(path.join(work, "run.log"), "utf8").slice(-4000),
    );
    Object.assign(environment, env_read(env_file));
    environment.NODE_EXTRA_CA_CERTS = environment.BERTH_CA_FILE;
}

async function file_run(file) {
    test = spawn(process.execPath, [path.join(here, file)], {
        env: environment,
        stdio: ["ignore", "inherit", "inherit"],
    });
    await whole_end(test);
    if (test.exitCode !== 0 && test.exitCode !== 1)
        await check(`${file} runs to its end`, () =>
            assert.fail(`status ${test.exitCode} signal ${test.signalCode}`),
        );
    if (test.exitCode !== 0) process.exitCode = 1;
    test = undefined;
}

// --- what is there, to be looked for later ----------------------------------

function family_of(pid) {
    return [pid, ...children_of(pid).flatMap(family_of)];
}

// Paths of the unix sockets that @pids listen on.
function unix_sockets_of(pids) {
    const inodes = new Set();
    for (const pid of pids) {
        if (!is_alive(pid)) continue;
        for (const fd of fs.readdirSync(`/proc/${pid}/fd`)) {
            try {
                const target = fs.readlinkSync(`/proc/${pid}/fd/${fd}`);
                const match = /^socket:\[(\d+)\]$/.exec(target);
                if (match) inodes.add(match[1]);
            } catch {
                // It was closed meanwhile.
            }
        }
    }
    return fs
        .readFileSync("/proc/net/unix", "utf8")
        .split("\n")
        .map((line) => line.trim().split(/\s+/))
        .filter((words) => inodes.has(words[6]) && words[7]?.startsWith("/"))
        .map((words) => words[7]);
}

function listens(port) {
    return new Promise((resolve) => {
        const socket = net.connect({ host: "127.0.0.1", port });
        socket.once("connect", () => {
            socket.destroy();
            resolve(true);
        });
        socket.once("error", () => resolve(false));
    });
}

function ports_of_network() {
    const [serving] = log_lines(
        path.join(run_folder, "coordinator.log"),
        "coordinator.serving",
    );
    return [
        Number(new URL(environment.BERTH_URL).port),
        Number(serving.link_port),
    ];
}

// Programs, whoever's child they are now, that name this run's folder.
function processes_of_network() {
    return fs
        .readdirSync("/proc")
        .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
        .filter((pid) => command_of(pid).some((word) => word.includes(work)))
        .map((pid) => `${pid} ${command_of(pid).join(" ")}`);
}

async function leaves_nothing() {
    const before = {
        pids: family_of(script.pid),
        ports: ports_of_network(),
    };
    before.sockets = unix_sockets_of(before.pids);
    await check("three agents, engines and a database are running", () => {
        assert.ok(before.pids.length >= 6, `${before.pids.length} processes`);
        assert.ok(before.sockets.length >= 2, `${before.sockets}`);
    });
    await check(
        "being told to end is no failure, and the env file goes",
        async () => {
            await network_end();
            assert.equal(script.exitCode, 0);
            assert.ok(!fs.existsSync(env_file));
        },
    );
    await check("no process of the network is left", async () => {
        assert.deepEqual(before.pids.filter(is_alive), []);
        assert.deepEqual(processes_of_network(), []);
    });
    await check("no port of the network is open", async () => {
        for (const port of before.ports)
            assert.equal(await listens(port), false, `port ${port}`);
    });
    await check("no socket of the network is left", async () => {
        assert.deepEqual(before.sockets.filter(fs.existsSync), []);
    });
}

const keep = process.env.BERTH_TEST_KEEP === "1";
try {
    await check("deploy/run brings a network up", network_start);
    if (process.exitCode !== 1) {
        const files = process.argv.slice(2);
        for (const file of files.length > 0 ? files : FILES)
            await file_run(file);
        if (fs.existsSync("/proc/self/fd")) await leaves_nothing();
        else skip("nothing of the network is left", "no /proc here");
    }
} finally {
    await network_end();
    if (keep) console.log(`kept: ${work}`);
    else await folders_remove();
}
