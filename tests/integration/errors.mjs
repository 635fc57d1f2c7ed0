// errors.mjs - every error that a person can meet, against docs/errors.md:
// provoked, and read whole.

import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

import {
    api,
    ask,
    assert_error,
    bin,
    books_balance,
    chat_body,
    check,
    connections_close,
    content_of,
    descriptors_of,
    finish,
    must,
    network,
    new_account,
    new_key,
    poll,
    run,
} from "./lib.mjs";
import {
    bad_command_run,
    bad_commands,
    command_files_make,
    command_files_remove,
} from "./bad_command.mjs";
import {
    bad_model_make,
    bad_model_open,
    bad_model_remove,
    bad_models,
} from "./bad_model.mjs";
import { bad_request_send, bad_requests } from "./bad_request.mjs";
import { row_of, rows_not_met } from "./error_table.mjs";
import { pid_of } from "./fleet.mjs";

const CHAT = "/v1/chat/completions";
const open_descriptors = () => descriptors_of(pid_of("coordinator"));

async function nothing_is_held() {
    const { held_ucr } = await must(200, "GET", "/api/v1/balance");
    return held_ucr === 0;
}

async function still_serves() {
    const answer = await ask("What is 17 plus 25?");
    assert.equal(content_of(answer), "17 plus 25 is 42.");
}

// --- requests ---------------------------------------------------------------

await still_serves();
await poll("no credit to be held", nothing_is_held);
connections_close();
const before = open_descriptors();

for (const wrong of bad_requests())
    await check(`bad request: ${wrong.name}`, async () => {
        const answer = await bad_request_send(wrong);
        assert.equal(answer.status, wrong.status, answer.text);
        if (wrong.message === undefined) return;
        const { message, code, param } = answer.json.error;
        assert.deepEqual(
            { code, param, message },
            { code: wrong.code, param: wrong.param, message: wrong.message },
        );
        if (wrong.raw === undefined) assert_error(answer, wrong.status);
        row_of(["http"], wrong.status, code, message);
    });

await check("after them it serves, and nothing is held or open", async () => {
    await still_serves();
    await poll("no credit to be held", nothing_is_held);
    connections_close();
    await poll(
        "their descriptors to be closed",
        () => open_descriptors() <= before + 2,
    );
});

// --- what a state refuses ---------------------------------------------------

// Ask what must be refused with the row @id.
async function refused(id, method, route, options) {
    const answer = await api(method, route, options);
    assert_error(answer, answer.status);
    const { code, message } = answer.json.error;
    assert.equal(row_of(["http"], answer.status, code, message).id, id);
    return message;
}

const name = `errors-${process.pid}`;
const person = await new_account(name, 10_000_000, ["submitter", "owner"]);
const mine = { key: person.key };
const job = (more) => ({ kind: "chat", request: chat_body("x", more) });

await check("keys that no longer open anything", async () => {
    const key = await new_key(person.id, ["submitter"]);
    await must(200, "DELETE", `/api/v1/keys/${key.id}`);
    await refused("revoked_key", "GET", "/v1/models", { key: key.key });
    const brief = await new_key(person.id, ["submitter"], { expires_s: 1 });
    await poll(
        "the key to expire",
        async () =>
            (await api("GET", "/v1/models", { key: brief.key })).status === 401,
    );
    await refused("expired_key", "GET", "/v1/models", { key: brief.key });
});

await check("what only an operator may", async () => {
    await refused("scope", "GET", "/api/v1/accounts", mine);
    await refused("list_all", "GET", "/api/v1/jobs?all=1", mine);
    await refused("balance_other", "GET", "/api/v1/balance?account=1", mine);
    await refused("account_other", "POST", "/api/v1/keys", {
        ...mine,
        body: { name: "x", scopes: ["submitter"], account: "alice" },
    });
    await refused("scopes_more", "POST", "/api/v1/keys", {
        ...mine,
        body: { name: "x", scopes: ["operator"] },
    });
    const weak = await new_key(person.id, ["submitter"]);
    await refused("key_stronger", "DELETE", `/api/v1/keys/${person.key_id}`, {
        key: weak.key,
    });
});

await check("what is there already", async () => {
    await refused("account_exists", "POST", "/api/v1/accounts", {
        body: { name },
    });
    const headers = { "idempotency-key": name };
    const made = await api("POST", "/api/v1/jobs", {
        ...mine,
        headers,
        body: job({ max_tokens: 1 }),
    });
    assert.equal(made.status, 202, made.text);
    await refused("idempotency_reused", "POST", "/api/v1/jobs", {
        ...mine,
        headers,
        body: job({ max_tokens: 2 }),
    });
    const route = `/api/v1/jobs/${made.json.id}`;
    await poll(
        "the job's end",
        async () => (await must(200, "GET", route, mine)).state === "done",
    );
    await refused("job_ended", "DELETE", route, mine);
    await refused("event_id", "GET", `${route}/events`, {
        ...mine,
        headers: { "last-event-id": "none" },
    });
});

await check("a wallet that is too small", async () => {
    const poor = await new_account(`${name}-poor`, 1);
    await refused("funds", "POST", CHAT, {
        key: poor.key,
        body: chat_body("x"),
    });
});

// --- commands ---------------------------------------------------------------

command_files_make();
for (const wrong of bad_commands()) {
    const { program, words, env, code, message } = wrong;
    const set = Object.entries(env ?? {}).map(([key, value]) =>
        `${key}=${value} `.slice(0, 40),
    );
    const line = [program, ...words].join(" ").slice(0, 100);
    await check(`bad command: ${set.join("")}${line}`, async () => {
        const ended = await bad_command_run(wrong);
        // A process has another number each time, and a try its own time.
        const shown = ended.message
            .replace(/process \d+/, "process 1")
            .replace(/after \d+ ms/, "after 0 ms");
        assert.deepEqual(
            { code: ended.code, message: shown },
            { code, message },
        );
        const refusal = wrong.http;
        if (refusal !== undefined) {
            const told = / \((\w+)\)$/.exec(shown);
            const text = told ? shown.slice(0, told.index) : shown;
            row_of(["http"], refusal, told?.[1] ?? null, text);
        } else {
            row_of([program, "programs", "models"], code, null, shown);
        }
    });
}
command_files_remove();

await check("a join token with another secret", async () => {
    const { token } = await must(201, "POST", "/api/v1/join-tokens", {
        body: { owner: "alice" },
    });
    const [id, , digest] = token.split(".");
    const home = fs.mkdtempSync(path.join(os.tmpdir(), "berth-errors."));
    const file = path.join(home, "token");
    fs.writeFileSync(file, `${id}.${"0".repeat(64)}.${digest}\n`);
    const words = ["join", network.url, "--token-file", file];
    const ran = await run(path.join(bin, "berth-node"), [
        ...words,
        "--home",
        path.join(home, "agent"),
    ]);
    fs.rmSync(home, { recursive: true });
    const [, text, inner] = /^berth-node: (.*?: (.*))\n$/.exec(ran.stderr);
    assert.equal(row_of(["berth-node"], ran.code, null, text).id, "node_refused");
    row_of(["http"], 403, "join_token_invalid", inner);
});

// --- model directories -------------------------------------------------------

for (const wrong of bad_models())
    await check(`bad model: ${wrong.name}`, async () => {
        const folder = bad_model_make(wrong);
        const engine = ["run", "--model", folder, "--prompt", "x"];
        const refusal = { code: 1, message: wrong.message };
        try {
            assert.deepEqual(
                await bad_model_open("berth-engine", engine, folder),
                refusal,
            );
            row_of(["models"], 1, null, wrong.message);
            if (wrong.add !== true) return;
            const add = ["models", "add", folder];
            const { code, message } = await bad_model_open("berth", add, folder);
            const told = message.replace(/ \(\w+\)$/, ""); // with its code
            assert.deepEqual({ code, message: told }, refusal);
        } finally {
            bad_model_remove(folder);
        }
    });

// --- the table --------------------------------------------------------------

await check("every row of docs/errors.md was met", () => {
    assert.deepEqual(rows_not_met((where) => !["faults", "tools"].includes(where)), []);
});

await check("after all that the books balance", books_balance);

finish();
