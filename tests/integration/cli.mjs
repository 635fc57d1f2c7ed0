// cli.mjs - the `berth` program against a running network, as a person types
// it and as a program reads it.

import assert from "node:assert/strict";
import path from "node:path";

import {
    bin,
    check,
    finish,
    model_ids,
    network,
    new_account,
    poll,
    run,
} from "./lib.mjs";

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
