// machines.mjs - nodes as their owners see them, and how machines join, drain
// and are removed.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

import {
    account_named,
    api,
    ask,
    assert_error,
    balance_of,
    bin,
    books_balance,
    check,
    finish,
    job_ended,
    model_ids,
    models_folder,
    must,
    network,
    new_account,
    new_key,
    poll,
    run,
} from "./lib.mjs";
import {
    all_nodes,
    node_in_state,
    node_named,
    nodes,
    only_nodes,
} from "./fleet.mjs";

const NODE = path.join(bin, "berth-node");
const unique = process.pid;
const uuid = "01234567-89ab-4cde-8f01-23456789abcd";
const work = fs.mkdtempSync(path.join(os.tmpdir(), "berth-machines."));
process.on("exit", () => fs.rmSync(work, { recursive: true, force: true }));

const admin_account = (await balance_of(network.key)).account;
const alice = await account_named("alice");

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
        assert.ok(
            Array.isArray(node.residencies) && Array.isArray(node.reasons),
        );
        const one = await must(200, "GET", `/api/v1/nodes/${node.id}`);
        assert.equal(one.name, node.name);
    }
    assert.deepEqual(list.map(({ name }) => name).sort(), [
        "node-1",
        "node-2",
        "node-3",
    ]);
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

await check(
    "a wrong secret or another CA joins nothing, and spends nothing",
    async () => {
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
    },
);

await check("an expired token joins nothing", async () => {
    const { token, expires } = await join_token({
        owner: "alice",
        expires_s: 1,
    });
    await poll(
        "the token to expire",
        () => Date.now() > Date.parse(expires) + 50,
    );
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
    assert_error(other, 403, "scope_missing");
    const { key: submitter } = await new_key(alice.id, ["submitter"]);
    const refused = await api("POST", "/api/v1/join-tokens", {
        key: submitter,
        body: {},
    });
    assert_error(refused, 403, "scope_missing");
});

await check(
    "a deleted node is cut off while it runs, and stays out",
    async () => {
        const name = `deleted-${unique}`;
        const { token } = await join_token({ owner: "alice" });
        const { home, code, stderr } = await join(token, name);
        assert.equal(code, 0, stderr);
        fs.appendFileSync(
            path.join(home, "test.conf"),
            `models = ${models_folder}\nmemory_cap = 1000000000\n`,
        );
        const words = [
            "--home",
            home,
            "run",
            "--config",
            path.join(home, "test.conf"),
        ];
        const agent = spawn(NODE, words, { stdio: "ignore" });
        const gone = new Promise((resolve) => agent.once("exit", resolve));
        try {
            const node = await node_in_state(name, "lending");
            await must(200, "DELETE", `/api/v1/nodes/${node.id}`);
            assert.ok(!(await nodes()).some(({ id }) => id === node.id));
            await poll("the agent to know", async () => {
                if (agent.exitCode !== null) return true;
                const ran = await run(NODE, [
                    "--home",
                    home,
                    "status",
                    "--json",
                ]);
                const { link } = JSON.parse(ran.stdout);
                return link.state !== "up" && link.last_error !== null;
            });
            assert.ok(!(await nodes()).some(({ id }) => id === node.id));
        } finally {
            agent.kill("SIGTERM");
            await gone;
        }
    },
);

await check("after all that the books balance", books_balance);

finish();
