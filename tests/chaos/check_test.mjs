// check_test.mjs - a judge that cannot condemn is worth nothing: a sound log
// passes, and each kind of wrong, put into it by hand, is found by its name.

import assert from "node:assert/strict";

import { check as ok_check, finish } from "../integration/lib.mjs";
import { check, is_poison } from "./check.mjs";
import { schedule } from "./schedule.mjs";

// 1000 prompt ids at 10^9 flop each are 1 TFLOP, 250,000 ucr; 10 ids at 10^9
// bytes are 10 GB, 100,000 ucr: a job of both costs 350,000.
const ENTRY = {
    bytes_per_token: 1_000_000_000,
    kv_bytes_per_token: 0,
    flop_per_token: 1_000_000_000,
    attention_flop: 0,
};
const USAGE = { prompt_tokens: 1000, completion_tokens: 10 };
const PRICE_UCR = 350_000;
const TEXT = "one, two, three";
const AT = "2026-11-30T12:00:";

const job = (id, more) => ({
    id,
    account: 7,
    api_key: "key-0",
    state: "done",
    outlives: false,
    idempotency_key: null,
    ended: `${AT}05Z`,
    error_code: null,
    error_text: null,
    ...USAGE,
    price_ucr: PRICE_UCR,
    ...more,
});
const attempt = (id, number, more) => ({
    job: id,
    number,
    epoch: 1,
    node: `node-${number}`,
    started: `${AT}00Z`,
    ended: `${AT}0${number}Z`,
    end_reason: "done",
    ids: 10,
    ...more,
});
const text = (r, s, more) => ({
    ev: "text",
    r,
    s,
    text: TEXT,
    end: "finish",
    finish: "stop",
    usage: USAGE,
    ...more,
});

// Three jobs: a stream, one of its own followed over a broken connection, and
// a stream whose coordinator was killed.
function sound() {
    const events = [
        { ev: "submit", s: 1, w: 0, mode: "stream", request: "q" },
        { ev: "open", s: 1, r: 1, job: "A" },
        text(1, 1),
        { ev: "settled", s: 1, how: "finish" },
        { ev: "submit", s: 2, w: 0, mode: "follow", request: "q" },
        { ev: "broken", s: 2, where: "submit", why: "ECONNRESET" },
        { ev: "accepted", s: 2, job: "B" },
        { ev: "accepted", s: 2, job: "B" },
        { ev: "open", s: 2, r: 2, job: "B" },
        text(2, 2, {
            text: "one, ",
            end: "cut",
            finish: null,
            usage: null,
            ids: ["0", "1"],
        }),
        { ev: "open", s: 2, r: 3, job: "B", after: "1" },
        text(3, 2, { text: "two, three", ids: ["2", "3"] }),
        { ev: "settled", s: 2, how: "finish" },
        { ev: "submit", s: 3, w: 0, mode: "stream", request: "q" },
        { ev: "open", s: 3, r: 4, job: "C" },
        { ev: "fault", number: 1, kind: "kill-coordinator", t: 100 },
        { ev: "exit", part: "coordinator", signal: "SIGKILL", asked: true },
        { ev: "healed", number: 1, t: 200 },
        text(4, 3, { text: "one", end: "cut", finish: null, usage: null }),
        { ev: "broken", s: 3, where: "stream", why: "ECONNRESET", job: "C" },
        { ev: "settled", s: 3, how: "broken" },
    ];
    const fault = { error_code: "network_fault", price_ucr: 0 };
    const state = {
        requests: { q: { expected: { text: TEXT, finish: "stop", usage: USAGE } } },
        entry: ENTRY,
        keys: { 0: "key-0" },
        accounts: [
            {
                id: 7,
                granted_ucr: 1_000_000,
                available_ucr: 300_000,
                held_ucr: 0,
            },
        ],
        jobs: [
            job("A"),
            job("B", { outlives: true, idempotency_key: "k" }),
            job("C", { state: "cancelled", completion_tokens: 0, ...fault }),
        ],
        attempts: [
            attempt("A", 1),
            attempt("B", 1, { end_reason: "node_lost", ids: 4 }),
            attempt("B", 2, { ids: 6 }),
            attempt("C", 1, { end_reason: "coordinator_lost", ids: 0 }),
        ],
        holds: ["A", "B", "C"].map((id) => ({ id, amount: 400_000 })),
        hold_ends: [
            { hold: "A", kind: 1, charged: PRICE_UCR },
            { hold: "B", kind: 1, charged: PRICE_UCR },
            { hold: "C", kind: 2, charged: 0 },
        ],
        settled: [
            { job: "A", record: { attempts: [{ number: 1, ids: 10 }] } },
            {
                job: "B",
                record: {
                    attempts: [
                        { number: 1, ids: 4 },
                        { number: 2, ids: 6 },
                    ],
                },
            },
        ],
        results: { B: TEXT },
        ledger: { violations: 0 },
        leftovers: [],
        resources: {
            coordinator: {
                before: { descriptors: 30, rss_kb: 20_000 },
                after: { descriptors: 40, rss_kb: 40_000 },
            },
        },
    };
    return { events, state };
}

// What to find, and how to spoil a sound log.
const WRONGS = [
    ["lost", "an accepted job without a row", ({ state }) => drop(state.jobs, "B")],
    ["lost", "a job that never ended", ({ state }) => {
        Object.assign(state.jobs[1], { state: "running", ended: null });
    }],
    ["lost", "an attempt that never ended", ({ state }) => {
        state.attempts[1].ended = null;
    }],
    ["two ends", "a job with two rows", ({ state }) => state.jobs.push(job("A"))],
    ["two ends", "two attempts that are done", ({ state }) => {
        state.attempts[1].end_reason = "done";
    }],
    ["two ends", "an answer whose job is cancelled", ({ state }) => {
        state.jobs[0].state = "cancelled";
    }],
    ["two ends", "a job that nobody asked for", ({ state }) => {
        state.jobs.push(job("D"));
    }],
    ["bytes", "a missing byte", ({ events }) => {
        events[2].text = "one, to, three";
    }],
    ["bytes", "a repeated byte", ({ events }) => {
        events[2].text = "one, one, two, three";
    }],
    ["bytes", "an answer that stops early and says it is whole", ({ events }) => {
        events[2].text = "one, two";
    }],
    ["bytes", "a wrong byte before the connection broke", ({ events }) => {
        events[18].text = "onz";
    }],
    ["bytes", "a byte lost between two connections", ({ events }) => {
        events[11].text = "wo, three";
    }],
    ["bytes", "bytes read twice over two connections", ({ events }) => {
        events[11].text = TEXT;
    }],
    ["bytes", "another finish", ({ events }) => {
        events[2].finish = "length";
    }],
    ["bytes", "a stored result that is not the answer", ({ state }) => {
        state.results.B = "one";
    }],
    ["bytes", "a stored result that is missing", ({ state }) => {
        state.results.B = null;
    }],
    ["events", "an event that comes twice", ({ events }) => {
        events[11].ids = ["1", "2"];
    }],
    ["events", "an event that is missing", ({ events }) => {
        events[11].ids = ["3", "4"];
    }],
    ["stuck", "a reader that comes back and is told nothing", ({ events }) => {
        const nothing = { text: "", end: "cut", finish: null, ids: [] };
        for (let r = 100; r < 120; r++)
            events.push(
                { ev: "open", s: 2, r, job: "B", after: "3" },
                text(r, 2, { ...nothing, usage: null }),
            );
    }],
    ["usage", "usage that the reader was told wrongly", ({ events }) => {
        events[2].usage = { ...USAGE, completion_tokens: 11 };
    }],
    ["usage", "ids of attempts that are not the usage", ({ state }) => {
        state.attempts[2].ids = 7;
    }],
    ["usage", "a settlement that leaves out an attempt", ({ state }) => {
        state.settled[1].record.attempts.pop();
    }],
    ["usage", "an id that was read and not counted", ({ state }) => {
        state.jobs[2].error_code = "cancelled";
    }],
    ["idempotency", "a repeat that made another job", ({ events, state }) => {
        events[7].job = "D";
        state.jobs.push(job("D"));
    }],
    ["idempotency", "a key on two jobs", ({ state }) => {
        state.jobs[0].idempotency_key = "k";
    }],
    ["hold", "a hold that never ended", ({ state }) => {
        state.hold_ends.pop();
    }],
    ["hold", "a hold that ended twice", ({ state }) => {
        state.hold_ends.push({ hold: "C", kind: 2, charged: 0 });
    }],
    ["hold", "a hold without a job", ({ state }) => {
        state.holds.push({ id: "D", amount: 1 });
        state.hold_ends.push({ hold: "D", kind: 2, charged: 0 });
    }],
    ["hold", "a job without a hold", ({ state }) => drop(state.holds, "A")],
    ["hold", "money still held", ({ state }) => {
        state.accounts[0].held_ucr = 1;
    }],
    ["charge", "a charge that is not the price", ({ state }) => {
        state.hold_ends[0].charged++;
    }],
    ["charge", "a job charged twice", ({ state }) => {
        state.hold_ends.push({ hold: "A", kind: 1, charged: PRICE_UCR });
    }],
    ["charge", "a price shown that was not charged", ({ state }) => {
        state.jobs[0].price_ucr = 1;
    }],
    ["charge", "a lost connection that paid", ({ state }) => {
        state.hold_ends[2].charged = 1000;
    }],
    ["charge", "the network's fault, charged in full", ({ state }) => {
        state.hold_ends[2].charged = PRICE_UCR;
        state.jobs[2] = job("C", { error_code: "network_fault" });
    }],
    ["balance", "a balance that lacks a credit", ({ state }) => {
        state.accounts[0].available_ucr--;
    }],
    ["ledger", "books that do not balance", ({ state }) => {
        state.ledger.violations = 1;
    }],
    ["end", "a quarantined job that killed nobody", ({ state }) => {
        state.jobs[1].state = "quarantined";
    }],
    ["end", "a job that failed without eight attempts", ({ state }) => {
        Object.assign(state.jobs[1], {
            state: "failed",
            error_code: "target_lost",
        });
    }],
    ["end", "a job of its own that nobody cancelled", ({ state }) => {
        state.jobs[1].state = "cancelled";
    }],
    ["end", "a lost connection though the coordinator lived", ({ events }) => {
        events.splice(16, 1);
    }],
    ["poison", "a third attempt after two crashes", ({ state }) => {
        state.attempts[0].end_reason = "engine_lost";
        state.attempts.push(attempt("A", 2, { end_reason: "engine_lost" }));
        state.attempts.push(attempt("A", 3));
    }],
    ["hung", "a submission without an outcome", ({ events }) => {
        events.splice(3, 1);
    }],
    ["hung", "an answer that never came", ({ events }) => {
        events.push({ ev: "broken", s: 1, where: "whole", hung: true });
    }],
    ["error", "an error that no page describes", ({ events }) => {
        events.push({ ev: "refused", s: 1, status: 500, code: "internal" });
    }],
    ["error", "an error in a stream that no page describes", ({ events }) => {
        events.push(text(9, 3, { end: "error", code: "internal" }));
    }],
    ["crash", "a program that aborted", ({ events }) => {
        events[16].signal = "SIGABRT";
    }],
    ["crash", "a program that ended unasked", ({ events }) => {
        events.push({ ev: "exit", part: "node-1", code: 0, asked: false });
    }],
    ["left", "a process that is left", ({ state }) => {
        state.leftovers.push("process 1");
    }],
    ["grows", "a descriptor for every fault", ({ state }) => {
        state.resources.coordinator.after.descriptors = 41;
    }],
    ["grows", "memory for every job", ({ state }) => {
        state.resources.coordinator.after.rss_kb = 72_769;
    }],
    ["driver", "a mistake of the campaign itself", ({ events }) => {
        events.push({ ev: "bug", s: 1, why: "x is not a function" });
    }],
];

function drop(list, id) {
    list.splice(
        list.findIndex((row) => row.id === id),
        1,
    );
}

await ok_check("a sound log is found sound", () => {
    const { events, state } = sound();
    assert.deepEqual(check(events, state), []);
});

for (const [what, name, spoil] of WRONGS)
    await ok_check(`found: ${name}`, () => {
        const log = sound();
        spoil(log);
        const found = check(log.events, log.state);
        assert.ok(
            found.some((violation) => violation.what === what),
            `no ${what} in ${JSON.stringify(found)}`,
        );
    });

await ok_check("poison is engines of two nodes within 30 s", () => {
    const lost = (node, second) => ({
        node,
        end_reason: "engine_lost",
        ended: `${AT}${second}Z`,
    });
    // Five seconds more, since the end is written after it happened.
    assert.equal(is_poison([lost("a", "00"), lost("b", "35")]), true);
    assert.equal(is_poison([lost("a", "00"), lost("b", "36")]), false);
    assert.equal(is_poison([lost("a", "00"), lost("a", "01")]), false);
    const other = { ...lost("b", "01"), end_reason: "node_lost" };
    assert.equal(is_poison([lost("a", "00"), other]), false);
});

await ok_check("a schedule is a function of its seed", () => {
    const kinds = ["kill-agent", "reset", "pause"];
    const one = schedule(5, 200, kinds);
    assert.deepEqual(one, schedule(5, 200, kinds));
    assert.notDeepEqual(one, schedule(6, 200, kinds));
    for (const kind of kinds) assert.ok(one.some((fault) => fault.kind === kind));
    assert.ok(
        one.some(({ gap_ms }) => gap_ms === 0),
        "pairs",
    );
});

finish();
