// fleet.mjs - the nodes of the network under test, as its operator and as the
// machine they run on.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";

import {
    ask,
    children_of,
    command_of,
    models_folder,
    must,
    network,
    poll,
} from "./lib.mjs";

export const nodes = async (options) =>
    (await must(200, "GET", "/api/v1/nodes", options)).data;

export async function node_named(name) {
    const found = (await nodes()).find((node) => node.name === name);
    assert.ok(found, `a node ${name}`);
    return found;
}

export function node_in_state(name, ...states) {
    return poll(`${name} to be ${states.join(" or ")}`, async () => {
        const node = await node_named(name);
        return states.includes(node.state) && node;
    });
}

// Only the nodes of @names take jobs afterwards.
export async function only_nodes(...names) {
    for (const { id, name, state } of await nodes()) {
        if (state === "offline") continue;
        const verb = names.includes(name) ? "resume" : "drain";
        await must(200, "POST", `/api/v1/nodes/${id}/${verb}`);
    }
    await poll(`only ${names.join(", ") || "nobody"} to lend`, async () =>
        (await nodes()).every(
            ({ name, state }) =>
                ["lending", "busy"].includes(state) === names.includes(name),
        ),
    );
}

export const all_nodes = async () =>
    only_nodes(
        ...(await nodes())
            .filter(({ state }) => state !== "offline")
            .map(({ name }) => name),
    );

export const log_of = (name) => path.join(network.folder, `${name}.log`);

export const pid_of = (name) =>
    Number(fs.readFileSync(path.join(network.folder, `${name}.pid`), "utf8"));

// Engines that an agent runs: [{pid, model}].
export function engines_of(agent_pid) {
    return children_of(agent_pid)
        .map((pid) => ({ pid, words: command_of(pid) }))
        .filter(({ words }) => words.includes("serve"))
        .map(({ pid, words }) => ({
            pid,
            model: words
                .filter((word) => word.startsWith(`${models_folder}/`))
                .map((word) => path.basename(word))[0],
        }));
}

// The engine of a model on an agent, loaded by a job when it is not there.
export async function engine_for(name, model) {
    const find = () =>
        engines_of(pid_of(name)).find((engine) => engine.model === model);
    if (find() === undefined) await ask("What is 17 plus 25?", { model });
    return poll(`an engine for ${model} on ${name}`, find);
}
