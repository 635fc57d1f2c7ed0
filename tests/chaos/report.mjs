// report.mjs - what a campaign measured: times to recovery and what clients
// were told.

const LATE_MS = 1000; // a fault's effect may begin that much after its end

function quantile(sorted, part) {
    if (sorted.length === 0) return null;
    return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))];
}

// The pauses between two pieces for each client, reconnecting included.
function pauses_of(events) {
    const last = new Map();
    const pauses = [];
    for (const { ev, s, t } of events) {
        if (ev === "open" && !last.has(s)) last.set(s, t);
        if (ev !== "bytes") continue;
        pauses.push({ from: last.get(s) ?? t, to: t });
        last.set(s, t);
    }
    return pauses;
}

// Of each fault: until the next answer that was asked for after it, and the
// longest pause of a stream that began in its time.
export function recoveries(events) {
    const faults = events.filter(({ ev }) => ev === "fault");
    const healed = new Map(
        events.filter(({ ev }) => ev === "healed").map((e) => [e.number, e.t]),
    );
    const asked = new Map();
    const answers = [];
    for (const { ev, s, t, how } of events) {
        if (ev === "submit") asked.set(s, t);
        if (ev === "settled" && ["finish", "done"].includes(how))
            answers.push({ from: asked.get(s), to: t });
    }
    const pauses = pauses_of(events).filter(({ from, to }) => to - from > 20);
    return faults.map(({ number, kind, t }) => {
        const end = (healed.get(number) ?? t) + LATE_MS;
        const next = answers.find(({ from }) => from >= t);
        let pause_ms = 0;
        for (const { from, to } of pauses)
            if (from <= end && to >= t) pause_ms = Math.max(pause_ms, to - from);
        return { number, kind, next_ms: next ? next.to - t : null, pause_ms };
    });
}

export function table(events) {
    const kinds = new Map();
    for (const row of recoveries(events))
        for (const name of [row.kind, "all"]) {
            if (!kinds.has(name)) kinds.set(name, []);
            kinds.get(name).push(row);
        }
    const cells = (list) => {
        const sorted = list
            .filter((value) => value !== null)
            .sort((a, b) => a - b);
        return [0.5, 0.9, 0.99, 1].map((part) => quantile(sorted, part) ?? "-");
    };
    const line = (words) =>
        words
            .map((word, i) => `${word}`[i === 0 ? "padEnd" : "padStart"](i ? 7 : 18))
            .join("");
    const head = ["p50", "p90", "p99", "max"];
    const lines = [
        "ms until the next answer, and the longest pause of a stream:",
        line(["kind", "count", ...head, ...head]),
    ];
    for (const [name, rows] of [...kinds].sort())
        lines.push(
            line([
                name,
                rows.length,
                ...cells(rows.map(({ next_ms }) => next_ms)),
                ...cells(rows.map(({ pause_ms }) => pause_ms)),
            ]),
        );
    return lines.join("\n");
}

// What clients were told, with counts.
export function told(events) {
    const counts = new Map();
    const add = (what) => counts.set(what, (counts.get(what) ?? 0) + 1);
    for (const { ev, where, status, code, why, end } of events) {
        if (ev === "refused") add(`${where}: ${status} ${code}`);
        if (ev === "broken") add(`${where}: ${why}`);
        if (ev === "text" && end === "error") add(`in the stream: ${code}`);
    }
    return [...counts]
        .sort((a, b) => b[1] - a[1])
        .map(([what, count]) => `${count} x ${what}`);
}
