// restart.mjs - every part of a network ends, well or badly, and comes back:
// coordinator, agent, engine, database.  Keys, money and answers survive.

import assert from "node:assert/strict";
import fs from "node:fs";
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
    finish,
    is_alive,
    job_ended,
    job_of,
    must,
    network,
    new_account,
    open_request,
    poll,
    price_by_hand,
    prices_of,
    root,
    run,
    sse_events,
} from "./lib.mjs";
import {
    agent_join,
    agent_start,
    cluster_folder,
    coordinator_start,
    end,
    folder,
    lending,
    network_end,
    network_start,
    node_command,
    pid_of_part,
} from "./own.mjs";
import {
    all_nodes,
    engine_for,
    engines_of,
    node_in_state,
    node_named,
    nodes,
    only_nodes,
} from "./fleet.mjs";

const AGENTS = ["node-1", "node-2"];
const GRANT_UCR = 400_000_000;
const QUESTION = "What is 17 plus 25?";
const ANSWER = "17 plus 25 is 42.";
const COUNT = "Count from 1 to 200.";
const NUMBERS = Array.from({ length: 200 }, (_, i) => i + 1).join(", ");

let user;
let entry;

async function serves() {
    const answer = await ask(QUESTION, {}, { key: user.key });
    assert.equal(content_of(answer), ANSWER);
    return answer.headers["x-berth-job"];
}

const held_nothing = () =>
    poll("no credit to be held", async () => {
        const balance = await balance_of(user.key);
        return balance.held_ucr === 0 && balance;
    });

async function no_money_is_lost() {
    const { available_ucr } = await held_nothing();
    assert.equal(available_ucr, GRANT_UCR - (await prices_of(user.key)));
    await books_balance();
}

async function submit(prompt, more) {
    const body = { kind: "chat", request: chat_body(prompt, more) };
    const { id } = await must(202, "POST", "/api/v1/jobs", {
        key: user.key,
        body,
    });
    return id;
}

// A stream; calls back with each piece of text.
function follow(prompt, on_text) {
    return new Promise((resolve, reject) => {
        const request = open_request("POST", "/v1/chat/completions", {
            key: user.key,
            body: chat_body(prompt, { stream: true }),
        });
        let text = "";
        request.on("error", reject);
        request.on("response", (response) => {
            const id = response.headers["x-berth-job"];
            response.setEncoding("utf8");
            response.on("error", reject);
            response.on("data", (data) => {
                text += data;
                on_text(id, text);
            });
            response.on("end", () => resolve({ id, text }));
        });
    });
}

function content_in(text) {
    const events = sse_events(text);
    assert.equal(events.at(-1).data, "[DONE]", text.slice(-300));
    return events
        .slice(0, -1)
        .map((event) => JSON.parse(event.data).choices[0]?.delta.content ?? "")
        .join("");
}

// A long stream under which @harm happens once it has begun.
async function survives(harm) {
    let harmed;
    const { id, text } = await follow(COUNT, (job, so_far) => {
        if (harmed === undefined && so_far.includes('"content":"1'))
            harmed = harm(job);
    });
    assert.ok(harmed !== undefined, "the answer came in one piece");
    await harmed;
    assert.equal(content_in(text), NUMBERS);
    const job = await job_ended(id);
    assert.equal(job.state, "done");
    const { prompt_tokens, completion_tokens } = job.usage;
    assert.equal(
        job.price_ucr,
        price_by_hand(entry, prompt_tokens, completion_tokens),
        "the price of one undisturbed run",
    );
    return job;
}

// --- start ------------------------------------------------------------------

const is_up = await check(
    "a network starts in a folder with a long name and blanks",
    () => network_start(AGENTS),
);
if (!is_up) {
    await network_end();
    finish();
}
user = await new_account("user", GRANT_UCR);
entry = await must(200, "GET", "/api/v1/catalogue/tiny-chat");
const first_job = await serves();
const first = await job_ended(first_job);

await check("the key file is for its owner alone", () => {
    const file = path.join(path.dirname(network.ca_file), "env");
    assert.equal(fs.statSync(file).mode & 0o777, 0o600);
});

// --- coordinator ------------------------------------------------------------

const postmaster = () =>
    Number(
        fs
            .readFileSync(
                path.join(cluster_folder(), "data/postmaster.pid"),
                "utf8",
            )
            .split("\n")[0],
    );

await check(
    "a coordinator that is told to end ends well, database and all",
    async () => {
        const database = postmaster();
        assert.ok(is_alive(database));
        const { code } = await end("coordinator", "SIGTERM");
        assert.equal(code, 0);
        assert.ok(!is_alive(database), "its database has ended");
    },
);

await check("started again it knows keys, jobs, money and nodes", async () => {
    const before = { ...network };
    await coordinator_start();
    assert.deepEqual({ ...network }, before);
    await lending(...AGENTS);
    const job = await job_of(first_job, { key: user.key });
    assert.deepEqual(job, { ...first, attempts: job.attempts });
    await serves();
    await no_money_is_lost();
});

await check("killed under twenty jobs it ends each once, whole", async () => {
    const ids = [];
    for (let i = 0; i < 20; i++) ids.push(await submit(COUNT));
    await poll("a job to run", async () => {
        const jobs = await Promise.all(
            ids.map((id) => job_of(id, { key: user.key })),
        );
        return jobs.some(({ state }) => state !== "queued");
    });
    await end("coordinator", "SIGKILL");
    await coordinator_start();
    for (const id of ids) {
        const job = await job_ended(id, { key: user.key });
        assert.equal(job.state, "done", JSON.stringify(job).slice(0, 600));
        assert.equal(job.result.choices[0].message.content, NUMBERS);
        const { prompt_tokens, completion_tokens } = job.usage;
        assert.equal(
            job.price_ucr,
            price_by_hand(entry, prompt_tokens, completion_tokens),
        );
    }
    await no_money_is_lost();
});

await check(
    "jobs of connections that were lost with it cost nothing unsaid",
    async () => {
        await lending(...AGENTS);
        const lost = Array.from({ length: 6 }, () =>
            follow(COUNT, () => {}).then(
                () => "ended",
                () => "broken",
            ),
        );
        await poll("a job to run", async () => {
            const { data } = await must(
                200,
                "GET",
                "/api/v1/jobs?state=running",
                { key: user.key },
            );
            return data.length > 0;
        });
        await end("coordinator", "SIGKILL");
        await Promise.all(lost);
        await coordinator_start();
        await lending(...AGENTS);
        await no_money_is_lost();
        const { data } = await must(200, "GET", "/api/v1/jobs?limit=6", {
            key: user.key,
        });
        for (const { state } of data)
            assert.ok(["cancelled", "done"].includes(state), state);
        await serves();
    },
);

await check(
    "a second coordinator does not take a folder that is in use",
    async () => {
        const dev = path.dirname(network.ca_file);
        const second = await run(path.join(bin, "berth-coordinator"), [
            "--dev",
            dev,
            "--https-port",
            "0",
            "--link-port",
            "0",
        ]);
        assert.equal(second.code, 1, second.stderr);
        assert.match(
            second.stderr,
            /^berth-coordinator: .*(use|another|runs)/m,
        );
        await serves();
    },
);

// --- database ---------------------------------------------------------------

await check(
    "a database that is killed comes back, and no money is lost",
    async () => {
        const database = postmaster();
        process.kill(database, "SIGKILL");
        await poll("another database", () => {
            const now = postmaster();
            return now !== database && is_alive(now);
        });
        await poll(
            "the coordinator to be ready",
            async () =>
                (await api("GET", "/readyz", { key: null })).status === 200,
        );
        await poll("an answer", serves);
        await no_money_is_lost();
    },
);

await check(
    "killed under load it costs nobody an answer or a credit",
    async () => {
        const ids = [];
        for (let i = 0; i < 12; i++) ids.push(await submit(COUNT));
        const database = postmaster();
        process.kill(database, "SIGKILL");
        await poll("the coordinator to be ready", async () => {
            const now = postmaster();
            if (now === database || !is_alive(now)) return false;
            return (await api("GET", "/readyz", { key: null })).status === 200;
        });
        for (const id of ids) {
            const job = await job_ended(id, { key: user.key });
            assert.equal(job.state, "done", JSON.stringify(job).slice(0, 600));
            assert.equal(job.result.choices[0].message.content, NUMBERS);
        }
        await no_money_is_lost();
    },
);

// --- engine -----------------------------------------------------------------

await check("after an engine was killed the next job works", async () => {
    await only_nodes("node-1");
    const { pid } = await engine_for("node-1", "tiny-chat");
    process.kill(pid, "SIGKILL");
    await poll("the engine to be gone", () => !is_alive(pid));
    await serves();
    const again = await engine_for("node-1", "tiny-chat");
    assert.notEqual(again.pid, pid);
    assert.ok(is_alive(pid_of_part("node-1")), "its agent stays");
    await all_nodes();
});

await check("a stream survives the death of its engine", async () => {
    const job = await survives(async (id) => {
        const [{ target }] = (await job_of(id)).attempts;
        const { name } = (await nodes()).find((node) => node.id === target.id);
        for (const { pid, model } of engines_of(pid_of_part(name)))
            if (model === "tiny-chat") process.kill(pid, "SIGKILL");
    });
    assert.ok(job.attempts.length >= 2, "it went on in another attempt");
    await no_money_is_lost();
});

// --- agent ------------------------------------------------------------------

await check("the engines of a killed agent end by themselves", async () => {
    await lending(...AGENTS);
    await only_nodes("node-2");
    await engine_for("node-2", "tiny-chat");
    const engines = engines_of(pid_of_part("node-2"));
    assert.ok(engines.length >= 1);
    await all_nodes();
    await end("node-2", "SIGKILL");
    await poll("the engines to end", () =>
        engines.every(({ pid }) => !is_alive(pid)),
    );
    await node_in_state("node-2", "offline");
    await serves();
    agent_start("node-2");
    await lending(...AGENTS);
});

await check("a stream survives the death of its agent", async () => {
    let killed;
    const job = await survives(async (id) => {
        const [{ target }] = (await job_of(id)).attempts;
        killed = (await nodes()).find((node) => node.id === target.id).name;
        await end(killed, "SIGKILL");
    });
    assert.equal(job.attempts.length, 2);
    const [before, after] = job.attempts;
    assert.notEqual(before.target.id, after.target.id);
    assert.equal(before.ids + after.ids, job.usage.completion_tokens);
    await no_money_is_lost();
    agent_start(killed);
    await lending(...AGENTS);
});

await check("an agent that is told to end hands its job on", async () => {
    let ended;
    let name;
    const job = await survives(async (id) => {
        const [{ target }] = (await job_of(id)).attempts;
        ({ name } = (await nodes()).find((node) => node.id === target.id));
        ended = end(name, "SIGTERM");
        await ended;
    });
    assert.equal((await ended).code, 0);
    assert.ok(job.attempts.length >= 1);
    await no_money_is_lost();
    agent_start(name);
    await lending(...AGENTS);
});

// --- the owner's commands ---------------------------------------------------

async function node_does(name, ...words) {
    const ran = await node_command(name, ...words);
    assert.equal(ran.code, 0, `${words.join(" ")}: ${ran.stderr}`);
    return ran.stdout;
}

await check(
    "berth-node pause ends its engines and keeps jobs away",
    async () => {
        await only_nodes("node-1");
        await engine_for("node-1", "tiny-chat");
        await all_nodes();
        const engines = engines_of(pid_of_part("node-1"));
        await node_does("node-1", "pause");
        await node_in_state("node-1", "paused");
        await poll("the memory to be free", () =>
            engines.every(({ pid }) => !is_alive(pid)),
        );
        const paused = await node_named("node-1");
        for (let i = 0; i < 4; i++) {
            const job = await job_ended(await serves());
            assert.notEqual(job.attempts[0].target.id, paused.id);
        }
        const status = JSON.parse(
            await node_does("node-1", "status", "--json"),
        );
        assert.equal(status.state, "paused");
    },
);

await check("a pause outlives the agent, until berth-node resume", async () => {
    await end("node-1", "SIGTERM");
    agent_start("node-1");
    await node_in_state("node-1", "paused");
    await node_does("node-1", "resume");
    await lending("node-1");
});

await check("berth-node drain takes no more jobs", async () => {
    await node_does("node-2", "drain");
    await node_in_state("node-2", "draining");
    const drained = await node_named("node-2");
    const job = await job_ended(await serves());
    assert.notEqual(job.attempts[0].target.id, drained.id);
    await node_does("node-2", "resume");
    await lending("node-2");
});

await check("a pause moves a running job elsewhere, unseen", async () => {
    let name;
    const job = await survives(async (id) => {
        const [{ target }] = (await job_of(id)).attempts;
        ({ name } = (await nodes()).find((node) => node.id === target.id));
        await node_does(name, "pause");
    });
    assert.equal(job.attempts.length, 2);
    await node_does(name, "resume");
    await lending(...AGENTS);
    await no_money_is_lost();
});

await check("while everybody pauses a job is told to come later", async () => {
    for (const name of AGENTS) {
        await node_does(name, "pause");
        await node_in_state(name, "paused");
    }
    const answer = await api("POST", "/v1/chat/completions", {
        key: user.key,
        body: chat_body(QUESTION),
        headers: { "x-berth-patience-ms": "0" },
    });
    assert_error(answer, 429, "no_capacity");
    const seconds = Number(answer.headers["retry-after"]);
    assert.ok(seconds > 0 && seconds <= 120);
    for (const name of AGENTS) await node_does(name, "resume");
    await lending(...AGENTS);
    await serves();
});

// --- a stand-in for a Mac ---------------------------------------------------

await check(
    "a node with a Mac's profile is simulated and looks like it",
    async () => {
        const profile = path.join(folder, "profile");
        fs.mkdirSync(profile);
        for (const file of [
            "sp_hardware_macstudio_m3ultra.json",
            "sysctl_m3ultra_512.txt",
        ])
            fs.copyFileSync(
                path.join(root, "tests/data/macos", file),
                path.join(profile, file),
            );
        await agent_join("studio", "alice", "--profile", profile);
        agent_start("studio");
        await lending("studio");
        const node = await node_named("studio");
        assert.equal(node.simulated, true);
        assert.equal(node.chip, "Apple M3 Ultra");
        assert.equal(node.model_identifier, "Mac15,14");
        assert.equal(node.bandwidth_gb_s, 819);
        assert.equal(node.bandwidth_source, "table");
        assert.equal(node.memory_bytes, 512 * 2 ** 30);
        assert.ok(node.limit_bytes < node.memory_bytes);
        assert.equal(node.verified, false);
        assert.equal(node.seat, null);
        assert.equal(node.macos_build, null);
        for (const name of AGENTS)
            assert.equal((await node_named(name)).simulated, false);
        await only_nodes("studio");
        const job = await job_ended(await serves(), { key: user.key });
        assert.equal(job.attempts[0].target.chip, "Apple M3 Ultra");
        await all_nodes();
    },
);

await check("a node too small is told so, and by how much", async () => {
    await agent_join("tiny", "alice");
    agent_start("tiny", { memory_cap: 3_000_000 });
    await lending("tiny");
    await only_nodes("tiny");
    const node = await node_named("tiny");
    assert.equal(node.limit_bytes, 3_000_000);
    // Others could, once they lend again: later.
    const later = await api("POST", "/v1/chat/completions", {
        key: user.key,
        body: chat_body(QUESTION),
        headers: { "x-berth-patience-ms": "0" },
    });
    assert_error(later, 429, "no_capacity");
    for (const { id, name } of await nodes())
        if (name !== "tiny") await must(200, "DELETE", `/api/v1/nodes/${id}`);
    const never = await api("POST", "/v1/chat/completions", {
        key: user.key,
        body: chat_body(QUESTION),
    });
    assert_error(never, 400, "model_unplaceable");
    assert.match(never.json.error.message, /\d+(\.\d+)? [KMG]B/);
    const balance = await held_nothing();
    assert.equal(balance.held_ucr, 0);
});

await check("after all that the books balance", no_money_is_lost);

await check("everything that was started ends when told to", async () => {
    const started = [...AGENTS, "studio", "tiny", "coordinator"];
    const pids = started.flatMap((name) => [
        pid_of_part(name),
        ...engines_of(pid_of_part(name)).map(({ pid }) => pid),
    ]);
    pids.push(postmaster());
    for (const name of started) await end(name, "SIGTERM");
    assert.equal((await end("coordinator", "SIGTERM")).code, 0);
    await poll("all processes to be gone", () => !pids.some(is_alive), 10);
});

await network_end();
finish();
