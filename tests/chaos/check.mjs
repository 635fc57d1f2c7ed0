// check.mjs - the judge of a campaign: what clients saw, the faults and the
// final state in, violations out.  It starts nothing and asks nobody, so that a
// log can be judged again.
//
// docs/chaos.md has the rules; each function here is one, and check_test.mjs
// shows for each a log that breaks it.

import { price_by_hand } from "../integration/lib.mjs";

const FINAL = ["done", "failed", "cancelled", "quarantined"];
const FAILURES_MAX = 8;
const WISHES = [
    "owner_returned",
    "paused",
    "draining",
    "agent_stopped",
    "node_removed",
];
const POISON_MS = 30_000;
const WRITTEN_MS = 5000;
const SCARCE = /^(files-|full-|kill-postgres|kill-backend)/;
const SCARCE_MS = 5000; // after the end of a scarcity its effects may show
const EMPTY_MOST = 20; // connections one after another that say nothing
const DESCRIPTORS_MORE = 10;
const RSS_MORE_KB = 32_768;
const CRASHES = ["SIGABRT", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE"];

// What a client may be told, docs/api.md: {status: codes}.
const DOCUMENTED = {
    409: ["cancelled", "job_ended", null],
    429: ["no_capacity"],
    503: [
        "target_lost",
        "network_fault",
        "stopping",
        "standby",
        "database_unreachable",
        "no_descriptors",
    ],
};
const IN_STREAM = [
    "target_lost",
    "network_fault",
    "cancelled",
    "no_capacity",
    "stopping",
];
const QUARANTINED = "job_quarantined";

const group = (list, key) => {
    const groups = new Map();
    for (const item of list) {
        const name = key(item);
        if (!groups.has(name)) groups.set(name, []);
        groups.get(name).push(item);
    }
    return groups;
};

// The log and the state by what they are about.
function arrange(events, state) {
    const by = group(events, ({ ev }) => ev);
    const of = (ev) => by.get(ev) ?? [];
    const submissions = new Map(
        of("submit").map((event) => [
            event.s,
            { ...event, jobs: new Set(), readers: [], errors: [] },
        ]),
    );
    for (const { s, job } of [...of("accepted"), ...of("open")])
        if (job) submissions.get(s).jobs.add(job);
    for (const event of [...of("refused"), ...of("broken")])
        submissions.get(event.s).errors.push(event);
    for (const event of of("settled"))
        submissions.get(event.s).settled = event;
    for (const { s } of of("cancel")) submissions.get(s).deleted = true;
    for (const { s } of of("left")) submissions.get(s).left = true;
    const texts = new Map(of("text").map((event) => [event.r, event]));
    for (const event of of("open"))
        submissions
            .get(event.s)
            .readers.push({ ...event, seen: texts.get(event.r) });
    const jobs = new Map(state.jobs.map((job) => [job.id, job]));
    return {
        of,
        state,
        submissions: [...submissions.values()],
        jobs,
        attempts: group(state.attempts, ({ job }) => job),
        ends: group(state.hold_ends, ({ hold }) => hold),
        settled: new Map(state.settled.map(({ job, record }) => [job, record])),
        holds: new Map(state.holds.map((hold) => [hold.id, hold])),
    };
}

// --- rules: (view, fail) => void --------------------------------------------

function nothing_hangs({ submissions, of }, fail) {
    for (const { s, settled, errors } of submissions) {
        if (settled === undefined) fail("hung", { s }, "no outcome");
        for (const { hung, where } of errors)
            if (hung) fail("hung", { s }, `${where} without an end`);
    }
    for (const { s, why } of of("bug")) fail("driver", { s }, why);
}

function accepted_jobs_exist({ submissions, jobs }, fail) {
    for (const { s, jobs: ids } of submissions)
        for (const id of ids)
            if (!jobs.has(id)) fail("lost", { s, job: id }, "no such row");
}

function jobs_end_once({ state }, fail) {
    const seen = new Set();
    for (const { id, state: word, ended } of state.jobs) {
        if (seen.has(id)) fail("two ends", { job: id }, "two rows");
        seen.add(id);
        if (!FINAL.includes(word) || !ended)
            fail("lost", { job: id }, `still ${word}`);
    }
}

function one_attempt_is_done({ attempts }, fail) {
    for (const [job, list] of attempts) {
        const done = list.filter(({ end_reason }) => end_reason === "done");
        if (done.length > 1) fail("two ends", { job }, "two attempts done");
        for (const { number, ended } of list)
            if (!ended) fail("lost", { job }, `attempt ${number} has no end`);
    }
}

// A prefix while the connection broke, the whole when it said so.
function bytes_are_right({ submissions, state, jobs }, fail) {
    for (const { s, mode, request, readers } of submissions) {
        const { expected } = state.requests[request];
        let text = "";
        for (const { job, seen } of readers) {
            if (seen === undefined) continue;
            text = mode === "follow" ? text + seen.text : seen.text;
            const what = { s, job };
            if (!expected.text.startsWith(text))
                fail("bytes", what, differ(text, expected.text));
            if (seen.end !== "finish") continue;
            if (text !== expected.text)
                fail("bytes", what, differ(text, expected.text));
            if (seen.finish !== expected.finish)
                fail("bytes", what, `finish ${seen.finish}`);
            if (!same_usage(seen.usage, expected.usage))
                fail("usage", what, JSON.stringify(seen.usage));
            if (jobs.get(job) && jobs.get(job).state !== "done")
                fail("two ends", what, `finished, yet ${jobs.get(job).state}`);
        }
    }
}

const same_usage = (a, b) =>
    a?.prompt_tokens === b.prompt_tokens &&
    a?.completion_tokens === b.completion_tokens;

function differ(text, expected) {
    let at = 0;
    while (at < text.length && text[at] === expected[at]) at++;
    const part = (whole) => JSON.stringify(whole.slice(at - 20, at + 40));
    return `differs at ${at}: ${part(text)}, expected ${part(expected)}`;
}

// Over all connections of a follower each event comes once, in order.
function events_come_once({ submissions }, fail) {
    for (const { s, readers } of submissions) {
        let last = -1;
        for (const { job, seen } of readers)
            for (const id of seen?.ids ?? []) {
                if (Number(id) !== last + 1)
                    fail("events", { s, job }, `event ${id} after ${last}`);
                last = Number(id);
            }
    }
}

// A reader that comes back is told something: the rest or the end.
function readers_get_on({ submissions }, fail) {
    for (const { s, readers } of submissions) {
        let empty = 0;
        for (const { job, seen } of readers) {
            const got = seen === undefined || seen.end !== "cut" || seen.text;
            empty = got ? 0 : empty + 1;
            if (empty === EMPTY_MOST)
                fail("stuck", { s, job }, `${empty} connections without a word`);
        }
    }
}

function results_are_whole({ state, jobs, submissions }, fail) {
    for (const { s, jobs: ids, request } of submissions)
        for (const id of ids) {
            const result = state.results[id];
            const { expected } = state.requests[request];
            if (jobs.get(id)?.state !== "done") continue;
            if (!same_usage(jobs.get(id), expected.usage))
                fail("usage", { s, job: id }, "not that of a quiet run");
            if (jobs.get(id).outlives && result !== expected.text)
                fail("bytes", { s, job: id }, differ(result ?? "", expected.text));
        }
}

function idempotent({ submissions, state }, fail) {
    for (const { s, jobs: ids } of submissions)
        if (ids.size > 1)
            fail("idempotency", { s, job: [...ids][0] }, `${[...ids]}`);
    const keyed = state.jobs.filter((job) => job.idempotency_key);
    for (const [key, list] of group(keyed, (job) => job.idempotency_key))
        if (list.length > 1)
            fail("idempotency", { job: list[0].id }, `${key} twice`);
}

// No more jobs than a worker asked for.
function no_job_from_nowhere({ submissions, state }, fail) {
    const asked = group(submissions, ({ w }) => w);
    for (const [worker, key] of Object.entries(state.keys)) {
        const list = asked.get(Number(worker)) ?? [];
        const known = new Set(list.flatMap(({ jobs }) => [...jobs]));
        const unclear = list.filter(({ jobs }) => jobs.size === 0).length;
        const unknown = state.jobs.filter(
            (job) => job.api_key === key && !known.has(job.id),
        );
        if (unknown.length > unclear)
            fail(
                "two ends",
                { job: unknown[0].id },
                `${unknown.length} jobs for ${unclear} submissions`,
            );
    }
}

function holds_end_once({ state, jobs, ends, holds }, fail) {
    for (const { id } of state.jobs)
        if (!holds.has(id)) fail("hold", { job: id }, "job without a hold");
    for (const { id } of state.holds) {
        const count = ends.get(id)?.length ?? 0;
        if (count !== 1) fail("hold", { job: id }, `${count} ends`);
        if (!jobs.has(id)) fail("hold", { job: id }, "hold without a job");
    }
    for (const { id, held_ucr } of state.accounts)
        if (held_ucr !== 0) fail("hold", { account: id }, `${held_ucr} held`);
}

// The price of one undisturbed run of what was delivered, once.
function charges_are_prices({ state, ends }, fail) {
    for (const job of state.jobs) {
        const { prompt_tokens, completion_tokens } = job;
        const charged = (ends.get(job.id) ?? []).reduce(
            (sum, end) => sum + end.charged,
            0,
        );
        const price =
            completion_tokens === 0
                ? 0
                : price_by_hand(state.entry, prompt_tokens, completion_tokens);
        if (charged !== price)
            fail("charge", { job: job.id }, `${charged}, by hand ${price}`);
        if (job.error_code === "network_fault" && charged !== 0)
            fail("charge", { job: job.id }, "the network's fault was charged");
        if ((job.price_ucr ?? 0) !== price)
            fail("charge", { job: job.id }, `shown ${job.price_ucr}`);
    }
}

function balances_add_up({ state, ends, jobs }, fail) {
    for (const { id, granted_ucr, available_ucr } of state.accounts) {
        let charged = 0;
        for (const [hold, list] of ends)
            if (jobs.get(hold)?.account === id)
                for (const end of list) charged += end.charged;
        if (granted_ucr - charged !== available_ucr)
            fail(
                "balance",
                { account: id },
                `${available_ucr}, but ${granted_ucr} - ${charged}`,
            );
    }
    if (state.ledger.violations !== 0)
        fail("ledger", {}, JSON.stringify(state.ledger));
}

// The ids of the attempts that the settlement names make the usage.  Attempts
// from before a restart may have delivered ids that came again.
function attempts_make_the_usage({ state, attempts, settled }, fail) {
    for (const { id, completion_tokens } of state.jobs) {
        const record = settled.get(id);
        const list = record?.attempts ?? [];
        const sum = list.reduce((total, { ids }) => total + ids, 0);
        if (sum !== completion_tokens)
            fail("usage", { job: id }, `attempts ${sum}, ${completion_tokens}`);
        for (const { number, ids } of list) {
            const row = attempts.get(id)?.find((a) => a.number === number);
            if (row?.ids !== ids)
                fail("usage", { job: id }, `attempt ${number}: ${row?.ids}`);
        }
    }
}

// What a reader has was delivered: it is paid for, unless the coordinator that
// knew of it was gone before the job ended.
function what_was_read_is_counted({ submissions, jobs, of }, fail) {
    const exits = of("exit").filter(({ part }) => part === "coordinator");
    for (const { s, readers } of submissions)
        for (const { job, seen, t } of readers) {
            const row = jobs.get(job);
            const restarted =
                row?.error_code === "network_fault" ||
                (row?.outlives && exits.some((exit) => exit.t > t));
            if (seen?.text && row?.completion_tokens === 0 && !restarted)
                fail("usage", { s, job }, "read, but not counted");
        }
}

const is_crash = ({ end_reason }) => end_reason === "engine_lost";
const between_ms = (a, b) => Date.parse(b.ended) - Date.parse(a.ended);

// Engines of two nodes died under it, one after the other within @limit_ms.
function crashes_twice(list, limit_ms) {
    return list
        .filter(is_crash)
        .findIndex(
            (b, i, all) =>
                i > 0 &&
                all[i - 1].node !== b.node &&
                between_ms(all[i - 1], b) <= limit_ms,
        );
}

// Ends are written a little after they happen.
export const is_poison = (list) =>
    crashes_twice(list, POISON_MS + WRITTEN_MS) >= 0;

// Never a third: within one reign, which alone remembers.
function poison_is_not_tried_again({ attempts }, fail) {
    for (const [job, list] of attempts)
        for (const reign of group(list, ({ epoch }) => epoch).values()) {
            const crash = crashes_twice(reign, POISON_MS - WRITTEN_MS);
            if (crash < 0) continue;
            const last = reign.filter(is_crash)[crash];
            if (list.at(-1).number > last.number)
                fail("poison", { job }, `an attempt after ${last.number}`);
        }
}

// Why a job may have ended in another way than done.
function ends_have_reasons({ state, attempts, submissions, of }, fail) {
    const owner = new Map();
    for (const submission of submissions)
        for (const id of submission.jobs) owner.set(id, submission);
    const restarts = of("exit").some(({ part }) => part === "coordinator");
    for (const job of state.jobs) {
        const list = attempts.get(job.id) ?? [];
        const who = owner.get(job.id);
        const why = reason_missing(job, list, who, restarts);
        if (why) fail("end", { s: who?.s, job: job.id }, why);
    }
}

function reason_missing(job, list, who, restarts) {
    const said = `${job.state}: ${job.error_code} ${job.error_text}`;
    switch (job.state) {
        case "quarantined":
            return is_poison(list) ? "" : `${said}, without cause`;
        case "failed":
            if (job.error_code === "no_capacity") return "";
            return job.error_code === "target_lost" &&
                list.filter(is_failure).length >= FAILURES_MAX
                ? ""
                : said;
        case "cancelled":
            if (job.error_code === "network_fault")
                return restarts && !job.outlives ? "" : said;
            if (job.outlives) return who?.deleted ? "" : said;
            // Left, broken, or told by a coordinator that was stopping.
            return who === undefined || who.left || !saw_finish(who)
                ? ""
                : said;
        default:
            return "";
    }
}

const is_failure = ({ end_reason }) => !WISHES.includes(end_reason);

const saw_finish = ({ readers }) =>
    readers.some(({ seen }) => seen?.end === "finish");

// An intact connection is told the end in words that docs/api.md has.
function errors_are_documented({ submissions, of }, fail) {
    for (const { s, errors } of submissions)
        for (const { status, code, message } of errors)
            if (status !== undefined && !is_documented(status, code))
                fail("error", { s }, `${status} ${code}: ${message}`);
    for (const { s, end, code, message } of of("text"))
        if (end === "error" && ![...IN_STREAM, QUARANTINED].includes(code))
            fail("error", { s }, `in the stream ${code}: ${message}`);
}

const is_documented = (status, code) =>
    code === QUARANTINED || (DOCUMENTED[status]?.includes(code) ?? false);

// A program may end by itself when it cannot begin for want of what a fault
// took away: descriptors, room on the disk, its database.
function programs_end_when_told({ of }, fail) {
    const healed = new Map(of("healed").map(({ number, t }) => [number, t]));
    const scarce = of("fault")
        .filter(({ kind }) => SCARCE.test(kind))
        .map((fault) => ({ ...fault, end: healed.get(fault.number) }));
    const is_excused = (exit) =>
        exit.code === 1 &&
        scarce.some(
            ({ target, t, end }) =>
                target === exit.part &&
                t <= exit.t &&
                exit.t <= end + SCARCE_MS,
        );
    for (const exit of of("exit")) {
        const { part, code, signal, asked } = exit;
        if (CRASHES.includes(signal))
            fail("crash", { part }, `${part} ended by ${signal}`);
        else if (!asked && !is_excused(exit))
            fail("crash", { part }, `${part} ended: ${code ?? signal}`);
    }
}

function nothing_is_left({ state }, fail) {
    for (const what of state.leftovers) fail("left", {}, what);
}

// A process that was started again meanwhile has the same to begin with.
function nothing_grows({ state }, fail) {
    for (const [part, { before, after }] of Object.entries(state.resources)) {
        const more = after.descriptors - before.descriptors;
        if (more > DESCRIPTORS_MORE)
            fail("grows", { part }, `${more} descriptors more`);
        if (after.rss_kb > 2 * before.rss_kb + RSS_MORE_KB)
            fail("grows", { part }, `${before.rss_kb} to ${after.rss_kb} kB`);
    }
}

const RULES = [
    nothing_hangs,
    accepted_jobs_exist,
    jobs_end_once,
    one_attempt_is_done,
    bytes_are_right,
    events_come_once,
    readers_get_on,
    results_are_whole,
    idempotent,
    no_job_from_nowhere,
    holds_end_once,
    charges_are_prices,
    balances_add_up,
    attempts_make_the_usage,
    what_was_read_is_counted,
    poison_is_not_tried_again,
    ends_have_reasons,
    errors_are_documented,
    programs_end_when_told,
    nothing_is_left,
    nothing_grows,
];

// [{what, s?, job?, detail}]
export function check(events, state) {
    const view = arrange(events, state);
    const violations = [];
    for (const rule of RULES)
        rule(view, (what, where, detail) =>
            violations.push({ what, ...where, detail }),
        );
    return violations;
}
