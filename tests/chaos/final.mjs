// final.mjs - the state that a campaign leaves: from the database by psql, from
// the API, from the machine.

import fs from "node:fs";
import path from "node:path";

import {
    api,
    balance_of,
    command_of,
    descriptors_of,
    in_parallel,
    is_alive,
    must,
    poll,
    run,
} from "../integration/lib.mjs";
import { cluster_folder, dev, folder, part } from "../integration/own.mjs";
import { text_of } from "./requests.mjs";
import { has_sanitizer } from "./site.mjs";

const QUIET_S = 150;

async function query(sql) {
    const socket = fs
        .readFileSync(path.join(dev, "cluster"), "utf8")
        .split("\n")[1];
    const words = ["-XAtq", "-h", socket, "-U", "berth", "-d", "postgres"];
    const { code, stdout, stderr } = await run("psql", [
        ...words,
        "-c",
        `SELECT coalesce(json_agg(q), '[]') FROM (${sql}) q`,
    ]);
    if (code !== 0) throw new Error(`psql: ${stderr}`);
    return JSON.parse(stdout);
}

// Wait until nothing runs, is queued or held, as long as that takes.
export async function quiet() {
    await poll(
        "all jobs to end",
        async () => {
            const live = await query(
                "SELECT id FROM berth.job WHERE ended IS NULL",
            );
            return live.length === 0;
        },
        QUIET_S,
    ).catch(() => {}); // the checker names them
}

// What each job of its own answers, and the same from its events.
async function results_of(jobs, keys) {
    const results = {};
    const mine = jobs.filter(({ outlives }) => outlives);
    await in_parallel(mine, 4, async ({ id, api_key }) => {
        const { json } = await api("GET", `/api/v1/jobs/${id}`, {
            key: keys.get(api_key),
        });
        const [choice] = json?.result?.choices ?? [];
        results[id] = choice === undefined ? null : text_of(choice);
    });
    return results;
}

const memory_of = (pid) =>
    Number(
        fs
            .readFileSync(`/proc/${pid}/status`, "utf8")
            .match(/^VmRSS:\s+(\d+)/m)[1],
    );

export const resources_of = (names) =>
    Object.fromEntries(
        names.map((name) => {
            const { pid } = part(name);
            return [
                name,
                {
                    descriptors: descriptors_of(pid),
                    rss_kb: has_sanitizer() ? 0 : memory_of(pid),
                },
            ];
        }),
    );

// @users: [{id, key, granted_ucr}]; @workers: their keys, [{id, key}].
export async function state_of({ requests, users, workers }) {
    const jobs = await query(
        "SELECT id, account, api_key, state, outlives, idempotency_key, " +
            "created, ended, finish, error_code, error_text, prompt_tokens, " +
            "completion_tokens, price_ucr FROM berth.job WHERE account IN " +
            `(${users.map(({ id }) => id)}) ORDER BY id`,
    );
    const secrets = new Map(workers.map(({ id, key }) => [id, key]));
    const accounts = [];
    for (const { id, key, granted_ucr } of users)
        accounts.push({ ...(await balance_of(key)), id, granted_ucr });
    return {
        requests: Object.fromEntries(
            requests.map(({ name, expected }) => [name, { expected }]),
        ),
        entry: await must(200, "GET", "/api/v1/catalogue/tiny-chat"),
        keys: Object.fromEntries(workers.map(({ id }, w) => [w, id])),
        accounts,
        jobs,
        attempts: await query(
            "SELECT job, number, epoch, node, started, ended, end_reason, ids " +
                "FROM berth.attempt ORDER BY job, number",
        ),
        holds: await query("SELECT id, amount FROM ledger.hold"),
        hold_ends: await query(
            "SELECT hold, kind, charged FROM ledger.hold_end",
        ),
        settled: await query(
            "SELECT job, convert_from(record, 'UTF8')::json AS record " +
                "FROM ledger.settlement",
        ),
        results: await results_of(jobs, secrets),
        ledger: await must(200, "GET", "/api/v1/ledger/check"),
    };
}

// --- after the end ----------------------------------------------------------

function processes_of(...marks) {
    return fs
        .readdirSync("/proc")
        .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
        .map((pid) => ({ pid, words: command_of(pid).join(" ") }))
        .filter(
            ({ pid, words }) =>
                is_alive(pid) && marks.some((mark) => words.includes(mark)),
        )
        .map(({ pid, words }) => `process ${pid}: ${words.slice(0, 200)}`);
}

function sockets_of(...marks) {
    return fs
        .readFileSync("/proc/net/unix", "utf8")
        .split("\n")
        .filter((line) => marks.some((mark) => line.includes(mark)))
        .map((line) => `socket ${line.split(" ").at(-1)}`);
}

function ports_of(...numbers) {
    const wanted = numbers.map((number) =>
        number.toString(16).toUpperCase().padStart(4, "0"),
    );
    return fs
        .readFileSync("/proc/net/tcp", "utf8")
        .split("\n")
        .slice(1)
        .map((line) => line.trim().split(/\s+/))
        .filter(
            ([, local, , state]) =>
                state === "0A" && wanted.includes(local?.split(":")[1]),
        )
        .map(([, local]) => `port ${local}`);
}

// Files that only a running program has.
function files_of(place) {
    return fs
        .readdirSync(place, { recursive: true, withFileTypes: true })
        .filter(
            (entry) =>
                entry.isSocket() ||
                /\.(new|tmp|sock|part)$|\.tmp\./.test(entry.name),
        )
        .map((entry) => `file ${path.join(entry.parentPath, entry.name)}`);
}

export function leftovers({ https, link }) {
    const cluster = cluster_folder();
    return [
        ...processes_of(folder, cluster),
        ...sockets_of(folder, cluster),
        ...ports_of(https, link),
        ...files_of(folder),
    ];
}
