// faults.mjs - how each kind of fault is done and undone.
//
// do_fault(site, kind, target, draw) harms and returns how to heal, or nothing
// when there is nothing to heal.  A target is an agent's name or "coordinator".

import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";

import { children_of } from "../integration/lib.mjs";
import {
    cluster_folder,
    folder,
    node_command,
    part,
} from "../integration/own.mjs";
import { engines_of } from "../integration/fleet.mjs";
import { Missing } from "./site.mjs";

const HOUR_S = 3600;
const DELAY_MS = 120;
const SPARE_DESCRIPTORS = 1;
const UP_DESCRIPTORS = 10;
const TRIES = 20;
const AGAIN_MS = 100;

function choose(list, draw) {
    if (list.length === 0) throw new Missing("nobody to harm");
    return list[draw % list.length];
}

// --- processes --------------------------------------------------------------

function kill_part(site, name) {
    const child = site.down_with(name, "SIGKILL");
    return () => site.up(name, child);
}

function term_part(site, name) {
    const child = site.down_with(name, "SIGTERM");
    return () => site.up(name, child);
}

function stop(site, pid) {
    site.signal(pid, "SIGSTOP");
    return () => site.signal(pid, "SIGCONT");
}

const engine_of = (name, draw) =>
    choose(
        engines_of(part(name).pid).map(({ pid }) => pid),
        draw,
    );

// --- cables -----------------------------------------------------------------

function harm(site, name, state) {
    const cable = site.cables.get(name);
    cable.harm(state);
    return () => cable.heal();
}

function swallow(site, name) {
    const cable = site.cables.get(name);
    cable.swallow();
    return () => cable.heal();
}

// --- the owner --------------------------------------------------------------

async function owner_says(name, word) {
    await node_command(name, word);
    return async () => {
        await node_command(name, "resume");
    };
}

// --- clocks, disks, descriptors ---------------------------------------------

function clock(site, name, draw) {
    site.clock_set(name, draw % 2 === 0 ? HOUR_S : -HOUR_S);
    return () => site.clock_set(name, 0);
}

// Write until nothing more fits.
function fill(place) {
    const file = path.join(place, "filler");
    const handle = fs.openSync(file, "w");
    for (let size = 1 << 20; size >= 1 << 12; size >>= 1) {
        const block = Buffer.alloc(size);
        try {
            while (fs.writeSync(handle, block) === size);
        } catch (error) {
            if (error.code !== "ENOSPC") throw error;
        }
    }
    fs.closeSync(handle);
    return () => fs.rmSync(file, { force: true });
}

function limit_descriptors(pid) {
    const [, soft, hard] = fs
        .readFileSync(`/proc/${pid}/limits`, "utf8")
        .match(/^Max open files\s+(\S+)\s+(\S+)/m);
    const open = fs.readdirSync(`/proc/${pid}/fd`).length;
    // A program that is still being loaded ends in its libraries.
    if (open < UP_DESCRIPTORS) throw new Missing("not up yet");
    const set = (process_id, limit) =>
        spawnSync("prlimit", [
            `--pid=${process_id}`,
            `--nofile=${limit}:${hard}`,
        ]);
    set(pid, open + SPARE_DESCRIPTORS);
    // What it started meanwhile has inherited the limit.  Those that have
    // ended cannot be set, which is as good.
    return () => {
        for (const child of [pid, ...children_of(pid)]) set(child, soft);
    };
}

// --- all of them ------------------------------------------------------------

const FAULTS = {
    "kill-agent": kill_part,
    "kill-engine": (site, name, draw) =>
        site.signal(engine_of(name, draw), "SIGKILL"),
    "kill-coordinator": kill_part,
    "kill-postgres": (site) => site.signal(site.postmaster(), "SIGKILL"),
    "kill-backend": (site, name, draw) =>
        site.signal(choose(site.backends(), draw), "SIGKILL"),
    "stop-agent": (site, name) => stop(site, part(name).pid),
    "stop-engine": (site, name, draw) => stop(site, engine_of(name, draw)),
    "stop-coordinator": (site, name) => stop(site, part(name).pid),
    "stop-backend": (site, name, draw) =>
        stop(site, choose(site.backends(), draw)),
    "term-agent": term_part,
    "term-coordinator": term_part,
    pause: (site, name) => owner_says(name, "pause"),
    drain: (site, name) => owner_says(name, "drain"),
    "cut-up": (site, name) => harm(site, name, { up: true }),
    "cut-down": (site, name) => harm(site, name, { down: true }),
    "cut-both": (site, name) => harm(site, name, { up: true, down: true }),
    reset: (site, name) => site.cables.get(name).reset(),
    delay: (site, name) => harm(site, name, { delay_ms: DELAY_MS }),
    "half-open": swallow,
    silence: (site, name) => harm(site, name, { up: true, down: true }),
    "clock-agent": clock,
    "clock-coordinator": clock,
    "full-agent": (site, name) => fill(path.join(folder, name)),
    "full-database": () => fill(cluster_folder()),
    "files-agent": (site, name) => limit_descriptors(part(name).pid),
    "files-coordinator": (site, name) => limit_descriptors(part(name).pid),
};

// A process that a fault needs may be gone just then: {missed}.
export async function do_fault(site, kind, target, draw) {
    for (let tries = 0; tries < TRIES; tries++) {
        try {
            return { heal: await FAULTS[kind](site, target, draw) };
        } catch (error) {
            if (!["ENOENT", "ESRCH"].includes(error.code)) throw error;
            await new Promise((resume) => setTimeout(resume, AGAIN_MS));
        }
    }
    return { missed: true };
}
