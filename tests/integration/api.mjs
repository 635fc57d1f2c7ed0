// api.mjs - who may do what: every route is closed by default, keys open what
// their scopes name, and whatever is refused is refused in one shape.

import assert from "node:assert/strict";
import fs from "node:fs";

import {
    account_named,
    api,
    assert_error,
    balance_of,
    chat_body,
    check,
    finish,
    must,
    network,
    new_account,
    new_key,
    poll,
} from "./lib.mjs";

const unique = process.pid;
const uuid = "01234567-89ab-4cde-8f01-23456789abcd";
const chat = { body: chat_body("What is 17 plus 25?") };
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
const alice = await account_named("alice");

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
    for (const route of [
        "/v1/chat/completions",
        "/api/v1/jobs",
        "/api/v1/keys",
    ])
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
            else assert_error(answer, 403, "scope_missing");
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
            assert_error(
                await api("POST", route, { key: keys[scope], body }),
                403,
            );
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
    assert_error(
        await api("POST", "/v1/chat/completions", { ...chat, key }),
        401,
    );
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

finish();
