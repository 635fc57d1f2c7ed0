// error_table.mjs - the rows of docs/errors.md, and which of them were met.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";

import { root } from "./lib.mjs";

const PLACES = {
    "<n>": "-?\\d[\\d.,e+-]*",
    "<name>": "[^\\s\"]+",
    "<id>": "[0-9a-f-]{36}",
    "<text>": "[^]+?",
};
const literal = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

function pattern_of(message) {
    const parts = message.split(/(<n>|<name>|<id>|<text>)/);
    const source = parts.map((part) => PLACES[part] ?? literal(part)).join("");
    return new RegExp(`^${source}$`);
}

function rows_read() {
    const rows = [];
    let where;
    for (const line of fs
        .readFileSync(path.join(root, "docs/errors.md"), "utf8")
        .split("\n")) {
        where = /^<!-- errors: (\S+) -->$/.exec(line)?.[1] ?? where;
        if (line === "<!-- end of errors -->") where = undefined;
        const cells = /^\| (\w+) \| (\w+) \|(?: (\w+))? \| (.*) \|$/.exec(line);
        if (where === undefined || cells === null || cells[1] === "id")
            continue;
        const [, id, status, code, message] = cells;
        rows.push({
            where,
            id,
            status: Number(status),
            code: code ?? null,
            pattern: pattern_of(message),
            length: message.replace(/<\w+>/g, "").length,
        });
    }
    assert.ok(rows.length > 100, `${rows.length} rows`);
    assert.equal(new Set(rows.map(({ id }) => id)).size, rows.length);
    return rows;
}

const rows = rows_read();
const met = new Set();

// The row of an error; of several that fit, the one that says most.
export function row_of(where, status, code, message) {
    const [row] = rows
        .filter(
            (row) =>
                where.includes(row.where) &&
                row.status === status &&
                row.code === code &&
                row.pattern.test(message),
        )
        .sort((a, b) => b.length - a.length);
    assert.ok(row, `no row for ${status} ${code} "${message}"`);
    met.add(row.id);
    return row;
}

// The rows of the places that @is_ours says, and that were not met.
export const rows_not_met = (is_ours) =>
    rows
        .filter(({ where, id }) => is_ours(where) && !met.has(id))
        .map(({ id }) => id);
