// money.mjs - accounts, grants, balances and earnings, to the last ucr.

import assert from "node:assert/strict";

import {
    account_named,
    accounts,
    api,
    ask,
    assert_error,
    balance_of,
    books_balance,
    chat_body,
    check,
    content_of,
    fee_by_hand,
    finish,
    job_ended,
    model_ids,
    must,
    new_account,
    new_key,
    poll,
} from "./lib.mjs";
import { all_nodes, nodes, only_nodes } from "./fleet.mjs";

const unique = process.pid;
const chat = { body: chat_body("What is 17 plus 25?") };
const alice = await account_named("alice");

// --- accounts, grants, money ------------------------------------------------

await check("an account's name is its own", async () => {
    const body = { name: `twice-${unique}` };
    const made = await must(201, "POST", "/api/v1/accounts", { body });
    assert.equal(made.name, body.name);
    assert.ok(Number.isInteger(made.id));
    assert_error(await api("POST", "/api/v1/accounts", { body }), 409);
    const [listed] = (await accounts()).filter(
        ({ name }) => name === body.name,
    );
    assert.deepEqual(listed.balance, {
        available_ucr: 0,
        held_ucr: 0,
        maturing_ucr: 0,
    });
    for (const name of ["", " ", "5", "a\nb", "a".repeat(5000), 5, null])
        assert_error(
            await api("POST", "/api/v1/accounts", { body: { name } }),
            400,
        );
});

await check(
    "without credit 402 insufficient_quota, with a grant an answer",
    async () => {
        const { id, key } = await new_account(`poor-${unique}`, 0);
        for (const stream of [false, true]) {
            const body = { ...chat.body, stream };
            const refused = await api("POST", "/v1/chat/completions", {
                key,
                body,
            });
            assert_error(refused, 402, "insufficient_quota");
        }
        // The smallest charge is 1,000 ucr: so is the smallest hold.
        await must(201, "POST", "/api/v1/grants", {
            body: { account: id, amount_ucr: 999 },
        });
        const still = await api("POST", "/v1/chat/completions", {
            key,
            ...chat,
        });
        assert_error(still, 402, "insufficient_quota");
        const grant = await must(201, "POST", "/api/v1/grants", {
            body: {
                account: `poor-${unique}`,
                amount_ucr: 5_000_001,
                note: "a gift",
            },
        });
        assert.equal(grant.account, id);
        assert.equal(grant.amount_ucr, 5_000_001);
        assert.equal((await balance_of(key)).available_ucr, 5_001_000);
        const answer = await ask("What is 17 plus 25?", {}, { key });
        assert.equal(content_of(answer), "17 plus 25 is 42.");
    },
);

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
    for (const amount_ucr of [
        0,
        -1,
        1.5,
        "5",
        null,
        1e30,
        9223372036854775807n,
    ]) {
        const body = JSON.stringify({ account: alice.id, amount_ucr: "N" });
        const text = body.replace(
            '"N"',
            typeof amount_ucr === "string" ? '"5"' : String(amount_ucr),
        );
        const answer = await api("POST", "/api/v1/grants", { body: text });
        assert.ok(
            [400, 413].includes(answer.status),
            `${amount_ucr}: ${answer.text}`,
        );
    }
    const nobody = { account: null, amount_ucr: 5 };
    assert_error(await api("POST", "/api/v1/grants", { body: nobody }), 400);
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

await check(
    "earnings grow by the prices less the fees, however grouped",
    async () => {
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
            const answer = await ask(
                "Count from 1 to 100.",
                { model },
                { key },
            );
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
            total(
                jobs.map(({ usage }) => usage),
                "prompt_tokens",
            ),
            total(
                jobs.map(({ usage }) => usage),
                "completion_tokens",
            ),
        ];
        const after = [await sums(), await maturing()];
        for (const by of groups)
            assert.deepEqual(
                after[0][by].map((sum, i) => sum - before[0][by][i]),
                want,
                by,
            );
        assert.equal(after[1] - before[1], net);
    },
);

await check("an earnings row names what it is grouped by", async () => {
    const by_node = await rows("node");
    const known = (await nodes()).map(({ id }) => id);
    for (const row of by_node) assert.ok(known.includes(row.node), row.node);
    const by_model = await rows("model");
    for (const { model } of by_model)
        assert.ok(model_ids.includes(model), model);
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
    await only_nodes("node-1");
    const answer = await ask("What is 17 plus 25?");
    await job_ended(answer.headers["x-berth-job"]);
    await all_nodes();
    const own = (await nodes()).filter(({ owner }) => owner === alice.id);
    const ids = own.map(({ id }) => id);
    const all = (await rows("node")).filter(({ node }) => ids.includes(node));
    const seen = await rows("node", { key });
    const sorted = (list) =>
        list.map(({ node, credits_ucr }) => `${node} ${credits_ucr}`).sort();
    assert.ok(seen.length > 0);
    assert.deepEqual(sorted(seen), sorted(all));
});

await check("after all that the books balance", books_balance);

finish();
