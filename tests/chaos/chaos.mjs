// chaos.mjs - a campaign: a network under load, faults, and the verdict.
//
//   SEED=n FAULTS=n ONLY=kind,... tests/integration/with_node chaos.mjs
//
// docs/chaos.md says what is injected, what is checked and how to replay.

import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import fs from "node:fs";
import path from "node:path";

import {
    api,
    connections_close,
    must,
    network,
    new_account,
    new_key,
    poll,
    root,
} from "../integration/lib.mjs";
import {
    end,
    folder,
    lending,
    network_end,
    node_command,
    part,
    ports,
} from "../integration/own.mjs";
import { check } from "./check.mjs";
import { do_fault } from "./faults.mjs";
import { leftovers, quiet, resources_of, state_of } from "./final.mjs";
import { Load } from "./load.mjs";
import { table, told } from "./report.mjs";
import { requests_learn } from "./requests.mjs";
import { KINDS, schedule } from "./schedule.mjs";
import { Site, impossible } from "./site.mjs";

const AGENTS = ["node-1", "node-2", "node-3", "node-4"];
const WORKERS = Number(process.env.WORKERS || 10);
const GRANT_UCR = 400_000_000_000;
const ASK_MS = 300; // for an answer of a coordinator that may be stopped
const SETTLE_MS = 500; // load before the first fault

const pause = (ms) => new Promise((resume) => setTimeout(resume, ms));

// --- the log ----------------------------------------------------------------

const events = [];
const born = process.hrtime.bigint();
const now_ms = () => Number((process.hrtime.bigint() - born) / 1_000_000n);
const write = (event) => {
    events.push({ t: now_ms(), ...event });
};

function keep_logs(seed, state, violations) {
    const place = path.join(root, "build/chaos", `${seed}`);
    fs.rmSync(place, { recursive: true, force: true });
    fs.mkdirSync(place, { recursive: true });
    const lines = events.map((event) => JSON.stringify(event));
    fs.writeFileSync(path.join(place, "events.jsonl"), lines.join("\n"));
    for (const [name, value] of Object.entries({ state, violations }))
        fs.writeFileSync(
            path.join(place, `${name}.json`),
            JSON.stringify(value, null, 1) ?? "",
        );
    for (const file of fs.readdirSync(folder))
        if (file.endsWith(".log"))
            fs.copyFileSync(path.join(folder, file), path.join(place, file));
    return place;
}

// --- faults -----------------------------------------------------------------

// Names of nodes that run a job now; [] when nobody says.
async function busy_nodes() {
    const answer = await Promise.race([
        api("GET", "/api/v1/nodes").catch(() => undefined),
        pause(ASK_MS),
    ]);
    return (answer?.json?.data ?? [])
        .filter(({ state }) => state === "busy")
        .map(({ name }) => name);
}

class Campaign {
    constructor(site, plan) {
        Object.assign(this, { site, plan });
        this.harmed = new Set(); // parts under a fault
        this.healing = new Set();
        this.missed = 0;
    }

    // A part that is whole; a node that runs a job when there is one.
    async target_of({ kind, draw }) {
        if (KINDS[kind].part === "coordinator")
            return this.harmed.has("coordinator") ? undefined : "coordinator";
        const whole = AGENTS.filter((name) => !this.harmed.has(name));
        const busy = (await busy_nodes()).filter((name) =>
            whole.includes(name),
        );
        const from = busy.length > 0 ? busy : whole;
        return from[draw % from.length];
    }

    async run() {
        for (const fault of this.plan) {
            await pause(fault.gap_ms);
            let target;
            while ((target = await this.target_of(fault)) === undefined)
                await Promise.race([...this.healing, pause(5000)]);
            await this.inject(fault, target);
        }
        await Promise.all(this.healing);
    }

    async inject({ number, kind, hold_ms, draw }, target) {
        this.harmed.add(target);
        write({ ev: "fault", number, kind, target });
        const { heal, missed } = await do_fault(this.site, kind, target, draw);
        if (missed) {
            write({ ev: "missed", number });
            this.missed++;
        }
        const what = `${kind} ${target}${missed ? " (missed)" : ""}`;
        console.log(`${(now_ms() / 1000).toFixed(1)} s: ${number} ${what}`);
        const healing = this.heal(number, heal, target, hold_ms)
            .catch((error) => write({ ev: "bug", why: `${error.stack}` }))
            .finally(() => this.healing.delete(healing));
        this.healing.add(healing);
    }

    async heal(number, heal, target, hold_ms) {
        if (heal) {
            await pause(hold_ms);
            await heal();
        }
        write({ ev: "healed", number });
        this.harmed.delete(target);
    }
}

// --- a campaign -------------------------------------------------------------

async function users_make(count) {
    const users = [];
    const workers = [];
    for (const name of ["ursula", "victor"])
        users.push({
            ...(await new_account(name, GRANT_UCR)),
            granted_ucr: GRANT_UCR,
        });
    for (let w = 0; w < count; w++) {
        const user = users[w % users.length];
        workers.push(await new_key(user.id, ["submitter"]));
    }
    return { users, workers };
}

// All parts up, whole, and lending.
async function recovered() {
    await poll("the coordinator", async () => {
        const { status } = await api("GET", "/readyz", { key: null });
        return status === 200;
    });
    for (const name of AGENTS) await node_command(name, "resume");
    await lending(...AGENTS);
}

async function orderly_end(site) {
    site.is_ending = true;
    for (const name of [...AGENTS, "coordinator"]) {
        site.asked.add(part(name));
        const { code, signal } = await end(name, "SIGTERM");
        if (code !== 0)
            write({ ev: "exit", part: name, code, signal, asked: false });
    }
}

// Run it; {state, violations, faults}.
async function campaign(seed, plan, kinds) {
    const site = new Site({ agents: AGENTS, kinds, write });
    await site.start();
    const { users, workers } = await users_make(WORKERS);
    const requests = await requests_learn(users[0].key);
    const keys = workers.map(({ key }) => key);
    const load = new Load({ seed, requests, keys, write });
    const before = resources_of(["coordinator", ...AGENTS]);
    load.start();
    await pause(SETTLE_MS);
    const faults = new Campaign(site, plan);
    await faults.run();
    const recovery = await recovered().catch((error) => error);
    await load.stop();
    await quiet();
    load.agent.destroy();
    connections_close();
    const state = await state_of({ requests, users, workers });
    const after = resources_of(["coordinator", ...AGENTS]);
    state.resources = Object.fromEntries(
        Object.keys(before).map((name) => [
            name,
            { before: before[name], after: after[name] },
        ]),
    );
    await orderly_end(site);
    state.leftovers = leftovers(ports);
    if (recovery) state.leftovers.push(`not recovered: ${recovery}`);
    return { state, violations: check(events, state), faults };
}

function kinds_wanted() {
    const not = impossible();
    const only = process.env.ONLY?.split(",").filter(Boolean) ?? [];
    if (only.length === 0) only.push(...Object.keys(KINDS));
    for (const kind of only)
        assert.ok(KINDS[kind], `ONLY: no kind ${kind}: ${Object.keys(KINDS)}`);
    const skipped = new Map();
    const kinds = only.filter((kind) => {
        const prefix = Object.keys(not).find((start) => kind.startsWith(start));
        if (prefix) skipped.set(kind, not[prefix]);
        return !prefix;
    });
    return { kinds, skipped };
}

function evidence_print(violations, state) {
    for (const violation of violations.slice(0, 10)) {
        console.log(JSON.stringify(violation));
        const { s, job } = violation;
        for (const event of events)
            if (
                event.ev !== "bytes" &&
                ((s && event.s === s) || (job && event.job === job))
            )
                console.log(`    ${JSON.stringify(event).slice(0, 600)}`);
        for (const list of [state.jobs, state.attempts])
            for (const row of list)
                if (job && (row.id === job || row.job === job))
                    console.log(`    ${JSON.stringify(row)}`);
    }
}

function verdict_print(seed, { state, violations, faults }) {
    const count = (...words) =>
        violations.filter(({ what }) => words.includes(what)).length;
    const ends = {};
    for (const { state: word, error_code } of state.jobs) {
        const name = word === "done" ? word : `${word} ${error_code}`;
        ends[name] = (ends[name] ?? 0) + 1;
    }
    console.log(table(events));
    console.log("clients were told:");
    for (const line of told(events)) console.log(`    ${line}`);
    console.log(`jobs ended: ${JSON.stringify(ends)}`);
    for (const [name, { before, after }] of Object.entries(state.resources))
        console.log(
            `${name}: descriptors ${before.descriptors} -> ` +
                `${after.descriptors}, kB ${before.rss_kb} -> ${after.rss_kb}`,
        );
    if (faults.missed) console.log(`${faults.missed} faults found no target`);
    console.log(
        `chaos: ${faults.plan.length} faults, ${state.jobs.length} jobs: ` +
            `${count("lost", "hung")} lost, ` +
            `${count("charge", "two ends", "balance")} charged twice, ` +
            `${count("bytes", "events")} wrong bytes, ` +
            `${count("hold")} orphaned holds, ` +
            `${violations.length} violations (SEED=${seed})`,
    );
}

// make passes what was not given as an empty text.
const seed = Number(process.env.SEED || randomInt(2 ** 31));
const count = Number(process.env.FAULTS || 1000);
if (process.platform !== "linux") {
    console.log("skip chaos: it harms processes through /proc");
    process.exit(0);
}
const { kinds, skipped } = kinds_wanted();
for (const [kind, why] of skipped) console.log(`skip ${kind}: ${why}`);
console.log(`chaos: SEED=${seed} FAULTS=${count} ONLY=${kinds}`);
let code = 1;
let outcome;
try {
    outcome = await campaign(seed, schedule(seed, count, kinds), kinds);
    verdict_print(seed, outcome);
    evidence_print(outcome.violations, outcome.state);
    code = outcome.violations.length === 0 ? 0 : 1;
} catch (error) {
    console.log(`chaos: ${error.stack}`);
}
if (process.env.CHAOS_SHORT)
    console.log(
        `${code === 0 ? "ok" : "not ok"} ${count} faults leave no violation`,
    );
if (code !== 0)
    console.log(
        `logs: ${keep_logs(seed, outcome?.state, outcome?.violations)}`,
    );
await network_end();
process.exit(code);
