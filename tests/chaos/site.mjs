// site.mjs - the network of a campaign: parts that are started again whatever
// ends them, cables between agents and coordinator, clocks and small disks.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";

import {
    bin,
    children_of,
    command_of,
    model_ids,
    models_folder,
    must,
} from "../integration/lib.mjs";
import {
    agent_join,
    agent_start,
    at_end,
    berth,
    cluster_folder,
    coordinator_begin,
    coordinator_config,
    coordinator_start,
    dev,
    folder,
    has_ended,
    lending,
    part,
    ports,
} from "../integration/own.mjs";
import { Cable } from "./cable.mjs";

const AGENT_MOUNT_BYTES = 2 << 20;
const DATABASE_MOUNT_BYTES = 400 << 20;
const POSTGRES_FOLDERS = "/var/lib/berth-dev";
// Losses are noticed sooner than in a real network, so that more fit in.
const NUMBERS = { beat_s: 1, stall_s: 8, adrift_s: 5 };
const AGENT_NUMBERS = { reconnect_max_s: 1, engine_silence_s: 3 };
const RESTART_MS = 200; // a supervisor's pause after an end nobody asked for

const FAKETIME = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
].find((file) => fs.existsSync(file));

const command = (name, ...words) =>
    spawnSync(name, words, { encoding: "utf8" });

const may_mount = () =>
    process.getuid() === 0 &&
    command("unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt")
        .status === 0;

// Sanitizers take no library before their own, and keep what was freed.
export const has_sanitizer = () =>
    /__[at]san_init/.test(
        fs.readFileSync(path.join(bin, "berth-coordinator"), "latin1"),
    );

function no_clocks() {
    if (FAKETIME === undefined) return "libfaketime is missing";
    return has_sanitizer() ? "sanitizers go with no libfaketime" : null;
}

// Kinds of faults that this machine does not allow: {prefix: why}.
export function impossible() {
    const not = {};
    if (!may_mount()) not["full-"] = "only root may mount a small disk";
    if (command("prlimit", "--version").status !== 0)
        not["files-"] = "prlimit is missing";
    const why = no_clocks();
    if (why !== null) not["clock-"] = why;
    return not;
}

// What a fault needs is not there just now.
export class Missing extends Error {
    code = "ESRCH";
}

export class Site {
    // @write: the campaign's log.
    constructor({ agents, kinds, write }) {
        this.agents = agents;
        this.write = write;
        this.with_clocks = kinds.some((kind) => kind.startsWith("clock-"));
        this.with_disks = kinds.some((kind) => kind.startsWith("full-"));
        this.cables = new Map();
        this.mounts = [];
        this.asked = new Set(); // children whose end is a fault of ours
        this.down = new Set(); // names of parts that a fault keeps down
        this.stopped = new Set(); // processes under SIGSTOP
        this.pids = new Set(); // every process that a part ever was
        this.is_ending = false;
        at_end({
            before: () => this.let_go(),
            after: () => this.unmount(),
        });
    }

    // --- clocks and disks ---------------------------------------------------

    clock_file(name) {
        return path.join(folder, `${name}.clock`);
    }

    clock_set(name, seconds) {
        fs.writeFileSync(
            this.clock_file(name),
            `${seconds < 0 ? "-" : "+"}${Math.abs(seconds)}\n`,
        );
    }

    env_of(name) {
        if (!this.with_clocks) return {};
        return {
            LD_PRELOAD: FAKETIME,
            FAKETIME_TIMESTAMP_FILE: this.clock_file(name),
            FAKETIME_CACHE_DURATION: "1",
            FAKETIME_DISABLE_SHM: "1",
            DONT_FAKE_MONOTONIC: "1",
        };
    }

    mount(place, bytes, ...options) {
        fs.mkdirSync(place, { recursive: true, mode: 0o700 });
        const words = [`size=${bytes}`, "mode=0700", ...options].join(",");
        const made = command("mount", "-t", "tmpfs", "-o", words, "none", place);
        assert.equal(made.status, 0, made.stderr);
        this.mounts.push(place);
    }

    unmount() {
        for (const cable of this.cables.values()) cable.close();
        for (const place of this.mounts.splice(0).reverse())
            if (command("umount", place).status !== 0)
                command("umount", "-l", place);
        if (this.with_clocks) this.clocks_forget();
    }

    // libfaketime's shared memory, which a killed process leaves behind.
    clocks_forget() {
        for (const pid of this.pids)
            for (const name of [`faketime_shm_${pid}`, `sem.faketime_sem_${pid}`])
                fs.rmSync(`/dev/shm/${name}`, { force: true });
    }

    // The coordinator takes the folder that dev/cluster names.
    database_on_small_disk() {
        fs.mkdirSync(POSTGRES_FOLDERS, { recursive: true, mode: 0o711 });
        const place = fs.mkdtempSync(path.join(POSTGRES_FOLDERS, "chaos-"));
        this.mount(place, DATABASE_MOUNT_BYTES, "uid=postgres,gid=postgres");
        fs.mkdirSync(dev, { mode: 0o700 });
        fs.writeFileSync(path.join(dev, "cluster"), `${place}\n${place}\n`);
    }

    // --- parts --------------------------------------------------------------

    async start() {
        for (const name of ["coordinator", ...this.agents])
            this.clock_set(name, 0);
        if (this.with_disks) this.database_on_small_disk();
        Object.assign(coordinator_config, NUMBERS);
        await coordinator_start(this.env_of("coordinator"));
        this.watch("coordinator");
        for (const id of model_ids) {
            const model = path.join(models_folder, id);
            const added = await berth(["models", "add", model]);
            assert.equal(added.code, 0, added.stderr);
        }
        await must(201, "POST", "/api/v1/accounts", { body: { name: "alice" } });
        for (const name of this.agents) {
            this.cables.set(name, await Cable.open(name, ports.link));
            if (this.with_disks)
                this.mount(path.join(folder, name), AGENT_MOUNT_BYTES);
            await agent_join(name, "alice");
            await this.begin(name);
        }
        await lending(...this.agents);
    }

    async begin(name) {
        const env = this.env_of(name);
        if (name === "coordinator") {
            await coordinator_begin(env);
        } else {
            const link = `127.0.0.1:${this.cables.get(name).port}`;
            agent_start(name, { link, ...AGENT_NUMBERS }, env);
        }
        this.watch(name);
    }

    watch(name) {
        const child = part(name);
        this.pids.add(child.pid);
        child.once("exit", (code, signal) => {
            const asked = this.asked.has(child);
            this.write({ ev: "exit", part: name, code, signal, asked });
            setTimeout(() => this.begin_again(name), RESTART_MS);
        });
    }

    // What ends is started again, as init would, unless a fault keeps it down.
    async begin_again(name) {
        if (this.is_ending || this.down.has(name)) return;
        if (!has_ended(part(name))) return;
        await this.begin(name);
    }

    // End a part, which then stays down until up().
    down_with(name, signal) {
        const child = part(name);
        this.down.add(name);
        this.asked.add(child);
        child.kill(signal);
        return child;
    }

    async up(name, child) {
        if (!has_ended(child))
            await new Promise((resolve) => child.once("exit", resolve));
        this.down.delete(name);
        await this.begin_again(name);
    }

    // One that has gone meanwhile needs no SIGCONT.
    signal(pid, signal) {
        try {
            process.kill(pid, signal);
            if (signal === "SIGSTOP") this.stopped.add(pid);
        } catch (error) {
            if (signal !== "SIGCONT" || error.code !== "ESRCH") throw error;
        }
        if (signal === "SIGCONT") this.stopped.delete(pid);
    }

    // The file may name one that has ended, whose number is another's now.
    postmaster() {
        const data = path.join(cluster_folder(), "data");
        const file = path.join(data, "postmaster.pid");
        const pid = Number(fs.readFileSync(file, "utf8").split("\n")[0]);
        if (!command_of(pid).includes(data)) throw new Missing(file);
        return pid;
    }

    // The server's processes that serve the coordinator.
    backends() {
        return children_of(this.postmaster()).filter((pid) =>
            /^postgres: berth /.test(command_of(pid).join(" ")),
        );
    }

    // Before the end: nothing stopped, nothing started again.
    let_go() {
        this.is_ending = true;
        for (const pid of [...this.stopped]) this.signal(pid, "SIGCONT");
        for (const cable of this.cables.values()) cable.heal();
    }
}
