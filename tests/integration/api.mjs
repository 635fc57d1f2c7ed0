// api.mjs - Berth's own routes but those of jobs: who may do what, keys,
// accounts, grants, join tokens, nodes, pods, earnings, balances, errors.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

import {
    api,
    ask,
    assert_error,
    balance_of,
    bin,
    books_balance,
    chat_body,
    check,
    content_of,
    fee_by_hand,
    finish,
    job_ended,
    model_ids,
    models_folder,
    must,
    network,
    new_account,
    poll,
    run,
} from "./lib.mjs";
import { all_nodes, node_in_state, node_named, nodes, only_nodes } from "./fleet.mjs";

const NODE = path.join(bin, "berth-node");
const unique = process.pid;
const work = fs.mkdtempSync(path.join(os.tmpdir(), "berth-api."));
process.on("exit", () => fs.rmSync(work, { recursive: true, force: true }));

const chat = { body: chat_body("What is 17 plus 25?") };
const uuid = "01234567-89ab-4cde-8f01-23456789abcd";
const API_KEY = /^sk-berth-[0-9a-f]{64}$/;

// Every route of design.md 4.1 that this version has, and the open ones.
const ROUTES = [
    ["POST", "/v1/chat/completions"],
    ["POST", "/v1/completions"],
    ["GET", "/v1/models"],
    ["GET", "/v1/models/tiny-chat"],
    ["POST", "/api/v1/jobs"],
    ["GET", "/api/v1/jobs"],
    ["GET", `/api/v1/jobs/${uuid}`],
    ["DELETE", `/api/v1/jobs/${uuid}`],
    ["GET", `/api/v1/jobs/${uuid}/events`],
    ["GET", "/api/v1/nodes"],
    ["GET", `/api/v1/nodes/${uuid}`],
    ["POST", `/api/v1/nodes/${uuid}/drain`],
    ["POST", `/api/v1/nodes/${uuid}/resume`],
    ["DELETE", `/api/v1/nodes/${uuid}`],
    ["GET", "/api/v1/pods"],
    ["GET", `/api/v1/pods/${uuid}`],
    ["GET", "/api/v1/links"],
    ["GET", "/api/v1/catalogue"],
    ["GET", "/api/v1/catalogue/tiny-chat"],
    ["POST", "/api/v1/catalogue"],
    ["DELETE", "/api/v1/catalogue/some/model"],
    ["GET", "/api/v1/accounts"],
    ["POST", "/api/v1/accounts"],
    ["GET", "/api/v1/keys"],
    ["POST", "/api/v1/keys"],
    ["DELETE", `/api/v1/keys/${uuid}`],
    ["POST", "/api/v1/grants"],
    ["POST", "/api/v1/join-tokens"],
    ["GET", "/api/v1/earnings"],
    ["GET", "/api/v1/balance"],
    ["GET", "/api/v1/ledger/check"],
];
const OPEN = ["/healthz", "/readyz"];

const admin_account = (await balance_of(network.key)).account;
const accounts = async () =>
    (await must(200, "GET", "/api/v1/accounts")).data;
const account_named = async (name) =>
    (await accounts()).find((account) => account.name === name);
const alice = await account_named("alice");

const new_key = (account, scopes, more = {}) =>
    must(201, "POST", "/api/v1/keys", {
        body: { name: `key ${scopes}`, scopes, account, ...more },
    });

// --- closed by default ------------------------------------------------------

await check("health and readiness are open, and say so", async () => {
    const health = await must(200, "GET", "/healthz", { key: null });
    assert.equal(health.status, "ok");
    const ready = await must(200, "GET", "/readyz", { key: null });
    assert.equal(ready.status, "ready");
});

await check("the CA's certificate is for anybody", async () => {
    const answer = await api("GET", "/ca.pem", { key: null });
    assert.equal(answer.status, 200);
    const ours = fs.readFileSync(network.ca_file, "utf8");
    assert.equal(answer.text.trim(), ours.trim());
});

await check("every other route is closed without a key", async () => {
    for (const [method, route] of ROUTES)
        for (const key of [null, "nonsense", `sk-berth-${"a".repeat(64)}`])
            assert_error(await api(method, route, { key }), 401);
    for (const header of ["Basic eDp5", "Bearer", "bearer", network.key, ""]) {
        const headers = { authorization: header };
        const answer = await api("GET", "/v1/models", { key: null, headers });
        assert_error(answer, 401);
    }
});

await check("an unknown route is a 404, a wrong method a 405", async () => {
    for (const route of ["/v2/models", "/api/v1/nothing", "/v1", "/v1/models/"])
        assert_error(await api("GET", route), 404);
    for (const [method, route] of [
        ["GET", "/v1/chat/completions"],
        ["DELETE", "/v1/models"],
        ["PUT", "/api/v1/keys"],
        ["POST", "/api/v1/balance"],
        ["PATCH", `/api/v1/jobs/${uuid}`],
    ]) {
        const answer = await api(method, route);
        assert_error(answer, 405);
        assert.ok(answer.headers.allow?.length > 0, "Allow");
        assert.ok(!answer.headers.allow.split(/, */).includes(method));
    }
    for (const route of OPEN) assert_error(await api("POST", route), 405);
});

const POSTS = ROUTES.filter(
    ([method, route]) => method === "POST" && !route.includes(uuid),
);

await check("a body that is no JSON object is a 400 everywhere", async () => {
    for (const [method, route] of POSTS)
        for (const body of ["{", "[1]", '"text"', "\xff\xfe", '{"a":1,"a":2'])
            assert_error(await api(method, route, { body }), 400);
});

await check("a body that is too large is a 413", async () => {
    const body = `{"name":"${"a".repeat(9 << 20)}"}`;
    for (const route of ["/v1/chat/completions", "/api/v1/jobs", "/api/v1/keys"])
        assert_error(await api("POST", route, { body }), 413);
    // One that says so beforehand is told before it sends anything.
    const huge = await api("POST", "/v1/chat/completions", {
        headers: { "content-length": 1 << 30, expect: "100-continue" },
    });
    assert_error(huge, 413);
    await must(200, "GET", "/v1/models");
});

await check("Berth's own objects refuse members they do not know", async () => {
    for (const [route, body] of [
        ["/api/v1/accounts", { name: "x", colour: "red" }],
        ["/api/v1/keys", { name: "x", scopes: ["submitter"], colour: "red" }],
        ["/api/v1/grants", { account: "alice", amount_ucr: 1, colour: "red" }],
        ["/api/v1/join-tokens", { owner: "alice", colour: "red" }],
        ["/api/v1/jobs", { kind: "chat", request: chat.body, colour: "red" }],
    ]) {
        const answer = await api("POST", route, { body });
        assert_error(answer, 400);
        assert.match(answer.json.error.message, /colour/);
    }
});

// --- keys -------------------------------------------------------------------

await check("a key is shown once, with its prefix and scopes", async () => {
    const key = await new_key(admin_account, ["submitter", "owner"]);
    assert.match(key.key, API_KEY);
    assert.ok(key.key.startsWith(key.prefix) && key.prefix.length < 24);
    assert.deepEqual(key.scopes.sort(), ["owner", "submitter"]);
    assert.equal(key.account, admin_account);
    assert.equal(key.revoked, null);
    const listed = (await must(200, "GET", "/api/v1/keys")).data;
    const found = listed.find(({ id }) => id === key.id);
    assert.equal(found.prefix, key.prefix);
    assert.equal(found.key, undefined);
    assert.ok(!JSON.stringify(listed).includes(key.key));
});

await check("a key opens what its scopes name and nothing else", async () => {
    const { id } = await new_account(`scopes-${unique}`, 10_000_000);
    const keys = {};
    for (const scope of ["submitter", "owner", "operator"])
        keys[scope] = (await new_key(id, [scope])).key;
    const may = {
        "GET /v1/models": "submitter owner operator",
        "POST /v1/chat/completions": "submitter",
        "GET /api/v1/jobs": "submitter operator",
        "GET /api/v1/nodes": "submitter owner operator",
        "GET /api/v1/pods": "submitter owner operator",
        "GET /api/v1/links": "submitter owner operator",
        "GET /api/v1/catalogue": "submitter owner operator",
        "GET /api/v1/balance": "submitter owner operator",
        "GET /api/v1/earnings": "owner operator",
        "GET /api/v1/accounts": "operator",
        "GET /api/v1/ledger/check": "operator",
    };
    for (const [request, scopes] of Object.entries(may)) {
        const [method, route] = request.split(" ");
        const body = method === "POST" ? chat.body : undefined;
        for (const scope of Object.keys(keys)) {
            const answer = await api(method, route, { key: keys[scope], body });
            if (scopes.split(" ").includes(scope))
                assert.equal(answer.status, 200, `${request} ${scope}`);
            else assert_error(answer, 403);
        }
    }
    for (const scope of ["submitter", "owner"])
        for (const [route, body] of [
            ["/api/v1/accounts", { name: `by-${scope}` }],
            ["/api/v1/grants", { account: id, amount_ucr: 1000 }],
            ["/api/v1/keys", { name: "x", scopes: ["operator"] }],
            ["/api/v1/keys", { name: "x", scopes: [scope], account: alice.id }],
            ["/api/v1/catalogue", { entry: {}, files: {} }],
        ])
            assert_error(await api("POST", route, { key: keys[scope], body }), 403);
    const own = await must(201, "POST", "/api/v1/keys", {
        key: keys.submitter,
        body: { name: "mine", scopes: ["submitter"] },
    });
    assert.equal(own.account, id);
    const seen = await must(200, "GET", "/api/v1/keys", { key: keys.owner });
    for (const { account } of seen.data) assert.equal(account, id);
    const other = await api("GET", "/api/v1/balance?account=" + alice.id, {
        key: keys.submitter,
    });
    assert.ok([403, 404].includes(other.status), other.text);
});

await check("a revoked key is refused by the next request", async () => {
    const { key, id } = await new_key(admin_account, ["submitter"]);
    assert.equal((await api("GET", "/v1/models", { key })).status, 200);
    const revoked = await must(200, "DELETE", `/api/v1/keys/${id}`);
    assert.equal(typeof revoked.revoked, "string");
    assert_error(await api("GET", "/v1/models", { key }), 401);
    assert_error(await api("POST", "/v1/chat/completions", { ...chat, key }), 401);
    assert_error(await api("DELETE", `/api/v1/keys/${uuid}`), 404);
});

await check("a key that expires is refused from then on", async () => {
    const { key, expires } = await new_key(admin_account, ["submitter"], {
        expires_s: 1,
    });
    assert.ok(Date.parse(expires) > 0);
    await poll("the key to expire", async () => {
        const { status } = await api("GET", "/v1/models", { key });
        return status === 401;
    });
});

await check("scopes that do not exist and empty ones are refused", async () => {
    for (const scopes of [["god"], [], "submitter", [5], undefined])
        assert_error(
            await api("POST", "/api/v1/keys", { body: { name: "x", scopes } }),
            400,
        );
});

// --- accounts, grants, money ------------------------------------------------

await check("an account's name is its own", async () => {
    const body = { name: `twice-${unique}` };
    const made = await must(201, "POST", "/api/v1/accounts", { body });
    assert.equal(made.name, body.name);
    assert.ok(Number.isInteger(made.id));
    assert_error(await api("POST", "/api/v1/accounts", { body }), 409);
    const [listed] = (await accounts()).filter(({ name }) => name === body.name);
    assert.deepEqual(listed.balance, {
        available_ucr: 0,
        held_ucr: 0,
        maturing_ucr: 0,
    });
    for (const name of ["", "a".repeat(5000), 5, null])
        assert_error(await api("POST", "/api/v1/accounts", { body: { name } }), 400);
});

await check("without credit 402 insufficient_quota, with a grant an answer", async () => {
    const { id, key } = await new_account(`poor-${unique}`, 0);
    for (const stream of [false, true]) {
        const body = { ...chat.body, stream };
        const refused = await api("POST", "/v1/chat/completions", { key, body });
        assert_error(refused, 402, "insufficient_quota");
    }
    // The smallest charge is 1,000 ucr: a hold for an answer is not smaller.
    await must(201, "POST", "/api/v1/grants", {
        body: { account: id, amount_ucr: 999 },
    });
    const still = await api("POST", "/v1/chat/completions", { key, ...chat });
    assert_error(still, 402, "insufficient_quota");
    const grant = await must(201, "POST", "/api/v1/grants", {
        body: { account: `poor-${unique}`, amount_ucr: 5_000_001, note: "a gift" },
    });
    assert.equal(grant.account, id);
    assert.equal(grant.amount_ucr, 5_000_001);
    assert.equal((await balance_of(key)).available_ucr, 5_001_000);
    const answer = await ask("What is 17 plus 25?", {}, { key });
    assert.equal(content_of(answer), "17 plus 25 is 42.");
});

await check("a grant with an idempotency key happens once", async () => {
    const { id, key } = await new_account(`granted-${unique}`, 0);
    const request = {
        body: { account: id, amount_ucr: 7_000 },
        headers: { "idempotency-key": `grant-${unique}` },
    };
    const first = await must(201, "POST", "/api/v1/grants", request);
    const second = await api("POST", "/api/v1/grants", request);
    assert.ok([200, 201].includes(second.status), second.text);
    assert.equal(second.json.id, first.id);
    assert.equal((await balance_of(key)).available_ucr, 7_000);
    request.body.amount_ucr = 8_000;
    assert_error(await api("POST", "/api/v1/grants", request), 409);
    assert.equal((await balance_of(key)).available_ucr, 7_000);
});

await check("no grant takes, is nothing, or goes to nobody", async () => {
    for (const amount_ucr of [0, -1, 1.5, "5", null, 1e30, 9223372036854775807n]) {
        const body = JSON.stringify({ account: alice.id, amount_ucr: "N" });
        const text = body.replace(
            '"N"',
            typeof amount_ucr === "string" ? '"5"' : String(amount_ucr),
        );
        const answer = await api("POST", "/api/v1/grants", { body: text });
        assert.ok([400, 413].includes(answer.status), `${amount_ucr}: ${answer.text}`);
    }
    for (const account of [99999999, "nobody-at-all"]) {
        const body = { account, amount_ucr: 5 };
        assert_error(await api("POST", "/api/v1/grants", { body }), 404);
    }
});

await check("a balance moves by the prices, to the last ucr", async () => {
    const { key } = await new_account(`exact-${unique}`, 50_000_000);
    let sum = 0;
    for (const prompt of ["What is 17 plus 25?", "Count from 1 to 100."]) {
        const answer = await ask(prompt, {}, { key });
        const job = await job_ended(answer.headers["x-berth-job"], { key });
        assert.ok(job.price_ucr >= 1000);
        sum += job.price_ucr;
    }
    const balance = await poll("the hold to end", async () => {
        const now = await balance_of(key);
        return now.held_ucr === 0 && now;
    });
    assert.equal(balance.available_ucr, 50_000_000 - sum);
    assert.equal(balance.maturing_ucr, 0);
});

// --- earnings ---------------------------------------------------------------

const rows = async (by, options) =>
    (await must(200, "GET", `/api/v1/earnings?by=${by}`, options)).data;

const total = (list, name) => list.reduce((sum, row) => sum + row[name], 0);

await check("earnings grow by the prices less the fees, however grouped", async () => {
    const { key } = await new_account(`payer-${unique}`, 50_000_000);
    const groups = ["node", "owner", "model", "day"];
    const sums = async () =>
        Object.fromEntries(
            await Promise.all(
                groups.map(async (by) => {
                    const list = await rows(by);
                    return [
                        by,
                        [
                            "credits_ucr",
                            "jobs",
                            "prompt_tokens",
                            "completion_tokens",
                        ].map((name) => total(list, name)),
                    ];
                }),
            ),
        );
    const maturing = async () =>
        total(
            (await accounts()).map(({ balance }) => balance),
            "maturing_ucr",
        );
    const before = [await sums(), await maturing()];
    const jobs = [];
    for (const model of model_ids) {
        const answer = await ask("Count from 1 to 100.", { model }, { key });
        jobs.push(await job_ended(answer.headers["x-berth-job"], { key }));
    }
    const net = total(
        jobs.map(({ price_ucr }) => ({
            net: price_ucr - fee_by_hand(price_ucr),
        })),
        "net",
    );
    const want = [
        net,
        jobs.length,
        total(jobs.map(({ usage }) => usage), "prompt_tokens"),
        total(jobs.map(({ usage }) => usage), "completion_tokens"),
    ];
    const after = [await sums(), await maturing()];
    for (const by of groups)
        assert.deepEqual(
            after[0][by].map((sum, i) => sum - before[0][by][i]),
            want,
            by,
        );
    assert.equal(after[1] - before[1], net);
});

await check("an earnings row names what it is grouped by", async () => {
    const by_node = await rows("node");
    const known = (await nodes()).map(({ id }) => id);
    for (const row of by_node) assert.ok(known.includes(row.node), row.node);
    const by_model = await rows("model");
    for (const { model } of by_model) assert.ok(model_ids.includes(model), model);
    const today = new Date().toISOString().slice(0, 10);
    assert.ok((await rows("day")).some(({ day }) => day.startsWith(today)));
    assert.deepEqual(await rows("pod"), []);
    const later = await must(200, "GET", "/api/v1/earnings?from=2100-01-01");
    assert.deepEqual(later.data, []);
    assert_error(await api("GET", "/api/v1/earnings?by=moon"), 400);
    assert_error(await api("GET", "/api/v1/earnings?from=yesterday"), 400);
});

await check("an owner sees the earnings of its own nodes alone", async () => {
    const { key } = await new_key(alice.id, ["owner"]);
    const own = (await nodes()).filter(({ owner }) => owner === alice.id);
    const ids = own.map(({ id }) => id);
    const all = (await rows("node")).filter(({ node }) => ids.includes(node));
    const seen = await rows("node", { key });
    const sorted = (list) => list.map(({ node, credits_ucr }) => `${node} ${credits_ucr}`).sort();
    assert.ok(seen.length > 0);
    assert.deepEqual(sorted(seen), sorted(all));
});

// --- nodes, pods ------------------------------------------------------------

await check("the operator sees three nodes whole", async () => {
    const list = (await nodes()).filter(({ name }) => /^node-\d$/.test(name));
    assert.equal(list.length, 3);
    for (const node of list) {
        assert.ok(["lending", "busy"].includes(node.state), node.state);
        assert.equal(node.simulated, false);
        assert.equal(node.verified, false);
        assert.equal(node.seat, null, "no seat before it is verified");
        assert.ok(node.memory_bytes > 0);
        assert.ok(node.limit_bytes > 0 && node.limit_bytes < node.memory_bytes);
        assert.ok(node.bandwidth_gb_s > 0);
        assert.deepEqual(node.pools, ["public"]);
        assert.deepEqual([...node.models].sort(), [...model_ids].sort());
        assert.ok(Date.parse(node.last_seen) > 0);
        assert.ok(Array.isArray(node.residencies) && Array.isArray(node.reasons));
        const one = await must(200, "GET", `/api/v1/nodes/${node.id}`);
        assert.equal(one.name, node.name);
    }
    assert.deepEqual(list.map(({ name }) => name).sort(), ["node-1", "node-2", "node-3"]);
});

await check("an owner sees its own nodes, a submitter counts", async () => {
    const { key } = await new_key(alice.id, ["owner"]);
    const own = await nodes({ key });
    assert.deepEqual(own.map(({ name }) => name).sort(), ["node-1", "node-2"]);
    const foreign = await node_named("node-3");
    for (const [method, route] of [
        ["GET", `/api/v1/nodes/${foreign.id}`],
        ["POST", `/api/v1/nodes/${foreign.id}/drain`],
        ["DELETE", `/api/v1/nodes/${foreign.id}`],
    ]) {
        const { status } = await api(method, route, { key });
        assert.ok([403, 404].includes(status), `${method} ${status}`);
    }
    const { key: submitter } = await new_key(alice.id, ["submitter"]);
    const counts = await must(200, "GET", "/api/v1/nodes", { key: submitter });
    assert.equal(counts.object, "counts");
    assert.equal(
        Object.values(counts.nodes).reduce((sum, count) => sum + count, 0),
        (await nodes()).length,
    );
    assert.ok(!JSON.stringify(counts).includes(foreign.id));
});

await check("a drained node takes no jobs until it is resumed", async () => {
    const { key } = await new_account(`drainer-${unique}`, 10_000_000);
    const { id } = await node_named("node-1");
    const drained = await must(200, "POST", `/api/v1/nodes/${id}/drain`);
    assert.equal(drained.id, id);
    await node_in_state("node-1", "draining");
    for (let i = 0; i < 6; i++) {
        const answer = await ask("What is 17 plus 25?", {}, { key });
        const job = await job_ended(answer.headers["x-berth-job"]);
        assert.ok(!job.attempts[0].target.members.includes(id));
    }
    await must(200, "POST", `/api/v1/nodes/${id}/resume`);
    await node_in_state("node-1", "lending", "busy");
    await only_nodes("node-1");
    const answer = await ask("What is 17 plus 25?", {}, { key });
    const job = await job_ended(answer.headers["x-berth-job"]);
    assert.deepEqual(job.attempts[0].target.members, [id]);
    await all_nodes();
    assert_error(await api("POST", `/api/v1/nodes/${uuid}/drain`), 404);
});

await check("there are no pods and no links, and it is no error", async () => {
    const pods = await must(200, "GET", "/api/v1/pods");
    assert.equal(pods.object, "list");
    assert.deepEqual(pods.data, []);
    assert_error(await api("GET", `/api/v1/pods/${uuid}`), 404);
    const links = await must(200, "GET", "/api/v1/links");
    assert.deepEqual(links.data, []);
});

// --- joining ----------------------------------------------------------------

const join_token = (body, options) =>
    must(201, "POST", "/api/v1/join-tokens", { body, ...options });

let homes = 0;

async function join(token, name) {
    const home = path.join(work, `home-${++homes}`);
    const file = path.join(work, `token-${homes}`);
    fs.writeFileSync(file, `${token}\n`, { mode: 0o600 });
    const words = ["--home", home, "join", network.url, "--token-file", file];
    const ran = await run(NODE, [...words, "--name", name]);
    return { ...ran, home };
}

function one_line(text) {
    assert.equal(text.trim().split("\n").length, 1, text);
    assert.ok(text.trim().length > 10, text);
}

await check("a join token makes one node, once", async () => {
    const token = await join_token({ owner: "alice" });
    assert.ok(Date.parse(token.expires) > Date.now());
    assert.equal(token.owner, alice.id);
    assert.match(token.token, /^[^.]+\.[^.]+\.[0-9a-f]{64}$/);
    assert.equal(token.token.split(".")[0], token.id);
    const first = await join(token.token, `once-${unique}`);
    assert.equal(first.code, 0, first.stderr);
    const node = await node_named(`once-${unique}`);
    assert.equal(node.owner, alice.id);
    assert.equal(node.state, "offline");
    const second = await join(token.token, `twice-${unique}`);
    assert.equal(second.code, 1, second.stdout);
    one_line(second.stderr);
    await must(200, "DELETE", `/api/v1/nodes/${node.id}`);
    assert.ok(!(await nodes()).some(({ id }) => id === node.id));
    assert_error(await api("GET", `/api/v1/nodes/${node.id}`), 404);
});

await check("a wrong secret or another CA joins nothing, and spends nothing", async () => {
    const { token } = await join_token({ owner: "alice" });
    const [id, secret, pin] = token.split(".");
    const flip = (text) => (text[0] === "0" ? "1" : "0") + text.slice(1);
    const count = (await nodes()).length;
    for (const wrong of [
        `${id}.${flip(secret)}.${pin}`,
        `${id}.${secret}.${flip(pin)}`,
        `${uuid}.${secret}.${pin}`,
        `${id}.${secret}`,
        "nonsense",
        "",
    ]) {
        const ran = await join(wrong, `wrong-${unique}`);
        assert.notEqual(ran.code, 0, wrong);
        one_line(ran.stderr);
    }
    assert.equal((await nodes()).length, count);
    const right = await join(token, `right-${unique}`);
    assert.equal(right.code, 0, right.stderr);
    const node = await node_named(`right-${unique}`);
    await must(200, "DELETE", `/api/v1/nodes/${node.id}`);
});

await check("an expired token joins nothing", async () => {
    const { token, expires } = await join_token({ owner: "alice", expires_s: 1 });
    await poll("the token to expire", () => Date.now() > Date.parse(expires) + 50);
    const ran = await join(token, `late-${unique}`);
    assert.equal(ran.code, 1);
    one_line(ran.stderr);
});

await check("an owner makes tokens for itself, not for others", async () => {
    const { key } = await new_key(alice.id, ["owner"]);
    assert.equal((await join_token({}, { key })).owner, alice.id);
    const other = await api("POST", "/api/v1/join-tokens", {
        key,
        body: { owner: admin_account },
    });
    assert_error(other, 403);
    const { key: submitter } = await new_key(alice.id, ["submitter"]);
    const refused = await api("POST", "/api/v1/join-tokens", {
        key: submitter,
        body: {},
    });
    assert_error(refused, 403);
});

await check("a deleted node is cut off while it runs, and stays out", async () => {
    const name = `deleted-${unique}`;
    const { token } = await join_token({ owner: "alice" });
    const { home, code, stderr } = await join(token, name);
    assert.equal(code, 0, stderr);
    fs.appendFileSync(
        path.join(home, "test.conf"),
        `models = ${models_folder}\nmemory_cap = 1000000000\n`,
    );
    const words = ["--home", home, "run", "--config", path.join(home, "test.conf")];
    const agent = spawn(NODE, words, { stdio: "ignore" });
    const gone = new Promise((resolve) => agent.once("exit", resolve));
    try {
        const node = await node_in_state(name, "lending");
        await must(200, "DELETE", `/api/v1/nodes/${node.id}`);
        assert.ok(!(await nodes()).some(({ id }) => id === node.id));
        await poll("the agent to know", async () => {
            if (agent.exitCode !== null) return true;
            const ran = await run(NODE, ["--home", home, "status", "--json"]);
            const { link } = JSON.parse(ran.stdout);
            return link.state !== "up" && link.last_error !== null;
        });
        assert.ok(!(await nodes()).some(({ id }) => id === node.id));
    } finally {
        agent.kill("SIGTERM");
        await gone;
    }
});

await check("after all that the books balance", books_balance);

finish();
