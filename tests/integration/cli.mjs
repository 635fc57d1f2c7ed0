// cli.mjs - the `berth` program against a running network, as a person types
// it and as a program reads it.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import path from "node:path";

import {
    bin,
    check,
    fee_by_hand,
    finish,
    job_ended,
    model_ids,
    must,
    network,
    new_account,
    poll,
    price_by_hand,
    reprefill_by_hand,
    run,
} from "./lib.mjs";
import { all_nodes, engine_for, nodes, only_nodes } from "./fleet.mjs";

const BERTH = path.join(bin, "berth");
const env = {
    BERTH_URL: network.url,
    BERTH_CA_FILE: network.ca_file,
    BERTH_API_KEY: network.key,
};
const berth = (words, more) => run(BERTH, words, { ...env, ...more });

async function prints(words, more) {
    const ran = await berth(words, more);
    assert.equal(ran.code, 0, `${words.join(" ")}: ${ran.stderr}`);
    return ran.stdout;
}

const json = async (words, more) =>
    JSON.parse(await prints([...words, "--json"], more));

function fails(ran, code) {
    assert.equal(ran.code, code, `${ran.stdout}${ran.stderr}`);
    assert.equal(ran.stderr.trim().split("\n").length, 1, ran.stderr);
    assert.match(ran.stderr, /^berth: /);
}

const question = "What is 17 plus 25?";
const answer = "17 plus 25 is 42.";

await check("berth chat answers, streamed, whole and as JSON", async () => {
    const chat = ["chat", "--model", "tiny-chat", "--temp", "0", question];
    assert.equal((await prints(chat)).trim(), answer);
    assert.equal(
        (await prints(["chat", "--no-stream", ...chat.slice(1)])).trim(),
        answer,
    );
    for (const model of model_ids) {
        const words = ["chat", "--model", model, "--temp", "0", question];
        assert.equal((await prints(words)).trim(), answer);
    }
});

await check("berth run submits a job and follows it to its end", async () => {
    const words = ["run", "--model", "tiny-chat", "--temp", "0", question];
    assert.ok((await prints(words)).includes(answer));
});

await check("berth run --detach, job and jobs tell of the job", async () => {
    const words = ["run", "--detach", "--model", "tiny-chat", "--temp", "0"];
    const printed = await prints([...words, question]);
    const [id] = /[0-9a-f]{8}-[0-9a-f-]{27}/.exec(printed);
    await poll("the job's end", async () => {
        const { state } = await json(["job", id]);
        return state === "done";
    });
    assert.ok((await prints(["job", id])).includes("done"));
    assert.ok((await prints(["jobs"])).includes(id.slice(0, 8)));
    const list = await json(["jobs", "--limit", "5"]);
    assert.ok(list.data.some((job) => job.id === id));
    fails(await berth(["cancel", id]), 1);
});

// Start a long job on node-3, take its engine away when the first text is
// there and let the other nodes in.  The job after its end.
async function job_whose_engine_is_killed(as) {
    await only_nodes("node-3");
    const engine = await engine_for("node-3", "tiny-chat");
    const printed = await prints(
        ["run", "--detach", "--model", "tiny-chat", "--temp", "0"].concat([
            "Count from 1 to 200.",
        ]),
        as,
    );
    const [id] = /[0-9a-f]{8}-[0-9a-f-]{27}/.exec(printed);
    const reader = spawn(BERTH, ["job", id, "--follow"], {
        env: { ...env, ...as },
        stdio: ["ignore", "pipe", "ignore"],
    });
    await new Promise((resolve) => reader.stdout.once("data", resolve));
    process.kill(engine.pid, "SIGSTOP");
    await all_nodes();
    process.kill(engine.pid, "SIGKILL");
    reader.stdout.resume();
    const [code] = await new Promise((resolve) =>
        reader.once("close", (...how) => resolve(how)),
    );
    assert.equal(code, 0);
    return job_ended(id);
}

await check("berth job tells of a job that moved, and who got what", async () => {
    const { key } = await new_account(`mover-${process.pid}`, 200_000_000);
    const as = { BERTH_API_KEY: key };
    const job = await job_whose_engine_is_killed(as);
    const entry = await must(200, "GET", "/api/v1/catalogue/tiny-chat");
    const [before, after] = job.attempts;
    const { prompt_tokens, completion_tokens } = job.usage;
    const price_ucr = price_by_hand(entry, prompt_tokens, completion_tokens);
    const fee_ucr = fee_by_hand(price_ucr);
    assert.equal(job.attempts.length, 2);
    assert.equal(job.price_ucr, price_ucr);
    assert.equal(job.price.fee_ucr, fee_ucr);
    assert.equal(before.end_reason, "engine_lost");
    assert.equal(after.end_reason, "done");
    assert.ok(before.ids > 0 && after.ids > 0);
    assert.equal(before.ids + after.ids, completion_tokens);
    assert.equal(before.done, 0);
    assert.equal(after.done, before.ids);
    assert.equal(
        after.reprefill_ucr,
        Math.min(
            fee_ucr,
            reprefill_by_hand(entry, prompt_tokens + after.done),
        ),
    );
    assert.equal(job.price.reprefill_ucr, after.reprefill_ucr);
    assert.equal(after.prefill_ucr, 0);
    assert.equal(
        before.prefill_ucr + before.decode_ucr + after.decode_ucr,
        price_ucr - fee_ucr,
    );
    assert.equal((await json(["ledger", "check"])).violations, 0);

    const text = await prints(["job", job.id]);
    assert.match(text, /^attempt 1 on node node-3 \([0-9a-f-]{36}\)$/m);
    assert.match(text, /^ {4}end {11}its engine crashed or was killed \(engine_/m);
    assert.ok(text.includes(`    delivered     ${before.ids} tokens\n`), text);
    assert.match(text, /^ {12}attempt 2: [0-9.]+ decode \+ [0-9.]+ re-prefill$/m);
    const seen = await prints(["job", job.id], as);
    assert.match(seen, /^attempt 2 on node with /m);
    for (const { id, name } of await nodes())
        assert.ok(!seen.includes(id) && !seen.includes(name), seen);
});

await check("berth models lists what is served", async () => {
    const text = await prints(["models"]);
    for (const id of model_ids) assert.ok(text.includes(id), id);
    const served = await json(["models"]);
    assert.deepEqual(
        served.data.map(({ id }) => id).sort(),
        [...model_ids].sort(),
    );
});

await check(
    "berth nodes, pods, earnings and balance print tables",
    async () => {
        const nodes = await prints(["nodes"]);
        for (const name of ["node-1", "node-2", "node-3"])
            assert.ok(nodes.includes(name), nodes);
        assert.match(await prints(["pods"]), /no pod|none/i);
        assert.deepEqual((await json(["pods"])).data, []);
        assert.ok((await prints(["earnings"])).includes("node-"));
        for (const by of ["node", "owner", "model", "day"])
            assert.equal((await json(["earnings", "--by", by])).object, "list");
        await prints(["balance"]);
        const balance = await json(["balance"]);
        assert.ok(balance.available_ucr > 0);
    },
);

await check("berth ledger check says that the books balance", async () => {
    assert.match(await prints(["ledger", "check"]), /^books balance: yes$/m);
    assert.equal((await json(["ledger", "check"])).violations, 0);
});

await check("berth accounts, grant and keys do as they say", async () => {
    const name = `cli-${process.pid}`;
    const account = await json(["accounts", "add", name]);
    assert.equal(account.name, name);
    assert.ok((await prints(["accounts"])).includes(name));
    await prints(["grant", name, "1.25"]);
    const balance = await json(["balance", "--account", String(account.id)]);
    assert.equal(balance.available_ucr, 1_250_000);
    fails(await berth(["grant", name, "0.0000001"]), 2);
    const mine = await new_account(`${name}-keys`, 0, ["submitter", "owner"]);
    const key = await json(["keys", "add", "laptop"], {
        BERTH_API_KEY: mine.key,
    });
    assert.match(key.key, /^sk-berth-[0-9a-f]{64}$/);
    const as_laptop = { BERTH_API_KEY: key.key };
    await prints(["models"], as_laptop);
    assert.ok((await prints(["keys"])).includes("laptop"));
    await prints(["keys", "revoke", key.id]);
    fails(await berth(["models"], as_laptop), 1);
});

await check("berth join-token prints a token", async () => {
    const token = await json(["join-token", "--owner", "alice"]);
    assert.match(token.token, /^[^.]+\.[^.]+\.[0-9a-f]{64}$/);
    assert.ok((await prints(["join-token", "--owner", "alice"])).includes("."));
});

await check("what is wrong ends with status 1 and one line", async () => {
    const words = ["chat", "--model", "nothing", question];
    fails(await berth(words), 1);
    fails(await berth(["job", "01234567-89ab-4cde-8f01-23456789abcd"]), 1);
    fails(await berth(["models"], { BERTH_API_KEY: "nonsense" }), 1);
    fails(await berth(["models"], { BERTH_URL: "https://127.0.0.1:1" }), 1);
});

await check("without the network's CA nothing is said", async () => {
    const ran = await berth(["models"], { BERTH_CA_FILE: "/dev/null" });
    assert.ok([1, 2].includes(ran.code));
    assert.equal(ran.stdout, "");
});

await check("wrong usage ends with status 2 and one line", async () => {
    for (const words of [
        ["sing"],
        ["models", "--colour"],
        ["chat", "--temp", "hot", question],
        ["grant"],
        ["ledger"],
        [],
    ]) {
        const ran = await berth(words);
        assert.equal(ran.code, 2, `${words.join(" ")}: ${ran.stderr}`);
        assert.equal(ran.stdout, "");
    }
});

await check("every program says its version and its usage", async () => {
    for (const program of [
        "berth",
        "berth-node",
        "berth-engine",
        "berth-coordinator",
    ]) {
        const file = path.join(bin, program);
        for (const word of ["--help", "--version"]) {
            const ran = await run(file, [word]);
            assert.equal(ran.code, 0, `${program} ${word}`);
            assert.ok(ran.stdout.length > 5);
        }
        assert.equal((await run(file, ["--no-such-option"])).code, 2, program);
    }
});

finish();
