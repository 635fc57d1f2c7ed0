// schedule.mjs - which faults come in which order: a pure function of the
// seed, the number of faults and the kinds that are possible here.

import { prng } from "./prng.mjs";

// weight: the share of a kind.  part: what it takes away while it lasts; two
// faults of one part do not overlap.  hold_ms: from the fault to its healing.
export const KINDS = {
    "kill-agent": { weight: 12, part: "node", hold_ms: [100, 1500] },
    "kill-engine": { weight: 12, part: "node", hold_ms: [0, 0] },
    "kill-coordinator": { weight: 5, part: "coordinator", hold_ms: [0, 800] },
    "kill-postgres": { weight: 3, part: "coordinator", hold_ms: [0, 0] },
    "kill-backend": { weight: 3, part: "coordinator", hold_ms: [0, 0] },
    "stop-agent": { weight: 6, part: "node", hold_ms: [200, 6000] },
    "stop-engine": { weight: 6, part: "node", hold_ms: [200, 4000] },
    "stop-coordinator": {
        weight: 3,
        part: "coordinator",
        hold_ms: [200, 2500],
    },
    "stop-backend": { weight: 3, part: "coordinator", hold_ms: [200, 2500] },
    "term-agent": { weight: 6, part: "node", hold_ms: [100, 1000] },
    "term-coordinator": { weight: 2, part: "coordinator", hold_ms: [0, 500] },
    pause: { weight: 8, part: "node", hold_ms: [300, 3000] },
    drain: { weight: 6, part: "node", hold_ms: [300, 3000] },
    "cut-up": { weight: 6, part: "node", hold_ms: [200, 4000] },
    "cut-down": { weight: 6, part: "node", hold_ms: [200, 4000] },
    "cut-both": { weight: 6, part: "node", hold_ms: [200, 4000] },
    reset: { weight: 8, part: "node", hold_ms: [0, 0] },
    delay: { weight: 3, part: "node", hold_ms: [500, 3000] },
    "half-open": { weight: 4, part: "node", hold_ms: [1000, 5000] },
    silence: { weight: 4, part: "node", hold_ms: [3500, 7000] },
    "clock-agent": { weight: 3, part: "node", hold_ms: [1500, 3000] },
    "clock-coordinator": {
        weight: 3,
        part: "coordinator",
        hold_ms: [1500, 3000],
    },
    "full-agent": { weight: 3, part: "node", hold_ms: [500, 3000] },
    "full-database": { weight: 2, part: "coordinator", hold_ms: [500, 3000] },
    "files-agent": { weight: 3, part: "node", hold_ms: [500, 3000] },
    "files-coordinator": {
        weight: 3,
        part: "coordinator",
        hold_ms: [500, 2000],
    },
};

const PAIR = 0.15; // share of faults that come together with the one before
const GAP_MS = [100, 1100];

// [{number, kind, gap_ms, hold_ms, draw}]: gap_ms after the one before, draw
// chooses among the targets that are there then.
export function schedule(seed, count, kinds) {
    const random = prng(seed, "faults");
    const weights = Object.fromEntries(
        kinds.map((kind) => [kind, KINDS[kind].weight]),
    );
    return Array.from({ length: count }, (_, index) => {
        const kind = random.weighted(weights);
        return {
            number: index + 1,
            kind,
            gap_ms: random.chance(PAIR) ? 0 : random.whole(...GAP_MS),
            hold_ms: random.whole(...KINDS[kind].hold_ms),
            draw: random.next(),
        };
    });
}
