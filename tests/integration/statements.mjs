// statements.mjs - every statement of the coordinator is one that PostgreSQL
// takes on the migrated schema, with as many parameters as the program gives.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";

import { check, finish, run } from "./lib.mjs";
import {
    cluster_folder,
    coordinator_start,
    network_end,
} from "./own.mjs";

const root = path.resolve(import.meta.dirname, "../..");
const LITERAL = /"(?:[^"\\]|\\.)*"/g;
const STATEMENT =
    /const struct statement \w+ = \{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\}/g;

const words_of = (command, ...words) => {
    const ran = spawnSync(command, words, { encoding: "utf8", cwd: root });
    assert.equal(ran.status, 0, ran.stderr || `${ran.error}`);
    return ran.stdout.trim().split(/\s+/);
};

const sources = ["ledger", "coordinator"].flatMap((folder) =>
    fs
        .readdirSync(path.join(root, folder))
        .filter((name) => name.endsWith(".c"))
        .map((name) => path.join(folder, name))
        .filter((file) => /struct statement \w+ = \{/.test(text_of(file))),
);

function text_of(file) {
    return fs.readFileSync(path.join(root, file), "utf8");
}

// C's adjacent literals, joined.
const joined = (text) =>
    text
        .match(LITERAL)
        .map((literal) => JSON.parse(literal))
        .join("");

// {name, sql, count} of each statement, macros expanded.
function statements_of(file, flags) {
    const compiler = process.env.CC ?? "cc";
    const ran = spawnSync(compiler, ["-E", "-P", "-I.", ...flags, file], {
        encoding: "utf8",
        cwd: root,
        maxBuffer: 64 << 20,
    });
    assert.equal(ran.status, 0, ran.stderr);
    return [...ran.stdout.matchAll(STATEMENT)].map(([, body]) => {
        const value = (name, of) =>
            body.match(new RegExp(`\\.${name} =\\s*(${of})`, "s"))?.[1];
        const text = '(?:\\s*"(?:[^"\\\\]|\\\\.)*")+';
        return {
            name: joined(value("name", text)),
            sql: joined(value("sql", text)),
            count: Number(value("param_count", "\\d+") ?? 0),
        };
    });
}

const libraries = ["libpq", "jansson", "openssl", "libevent", "libmicrohttpd"];
const flags = words_of("pkg-config", "--cflags", ...libraries).filter(Boolean);
const statements = sources.flatMap((file) => statements_of(file, flags));

await check("every statement of the sources is found", () => {
    const written = sources
        .map((file) => text_of(file).match(/struct statement \w+ = \{/g).length)
        .reduce((sum, count) => sum + count, 0);
    assert.equal(statements.length, written);
    const names = new Set(statements.map(({ name }) => name));
    assert.equal(names.size, written, "names are unique");
});

await coordinator_start();
await check("PostgreSQL takes each, with its parameters", async () => {
    const script = statements
        .map(({ name, sql }) => `PREPARE ${name} AS ${sql};`)
        .concat(
            "SELECT name, coalesce(cardinality(parameter_types), 0)" +
                " FROM pg_prepared_statements ORDER BY name;",
        );
    const ran = await run("psql", [
        ...["-h", cluster_folder(), "-U", "berth", "-qAt"],
        ...["-v", "ON_ERROR_STOP=1", "-c", script.join("\n"), "postgres"],
    ]);
    assert.equal(ran.code, 0, ran.stderr);
    assert.deepEqual(
        ran.stdout.trim().split("\n").sort(),
        statements.map(({ name, count }) => `${name}|${count}`).sort(),
    );
});
await network_end();
finish();
