// engine.mjs - a berth-engine of one's own, spoken to as an agent does
// (docs/link-protocol.md): a frame is its length in 4 bytes, then JSON.

import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import fs from "node:fs";
import net from "node:net";

import { bin, poll } from "../integration/lib.mjs";

const HEAD_BYTES = 4;
const INPUT_IDS = 8192;

function frame(message) {
    const body = Buffer.from(JSON.stringify(message));
    const head = Buffer.alloc(HEAD_BYTES);
    head.writeUInt32BE(body.length);
    return Buffer.concat([head, body]);
}

export class Engine {
    // @words: options of `berth-engine serve`; @on_frame is called with each
    // frame of the engine.
    constructor(model, socket, words, on_frame) {
        this.socket = socket;
        this.on_frame = on_frame;
        this.unread = Buffer.alloc(0);
        this.child = spawn(
            `${bin}/berth-engine`,
            ["serve", "--model", model, "--socket", socket, ...words],
            { stdio: ["ignore", "inherit", "inherit"] },
        );
        this.exited = new Promise((resolve) =>
            this.child.on("exit", (code, signal) => resolve(signal ?? code)),
        );
    }

    get pid() {
        return this.child.pid;
    }

    async connect() {
        await poll("the engine's socket", () => fs.existsSync(this.socket));
        this.link = net.connect(this.socket);
        this.link.on("data", (bytes) => this.#take(bytes));
        this.link.on("error", () => {}); // its exit says more
    }

    #take(bytes) {
        this.unread = Buffer.concat([this.unread, bytes]);
        while (this.unread.length >= HEAD_BYTES) {
            const end = HEAD_BYTES + this.unread.readUInt32BE(0);
            if (this.unread.length < end) return;
            const message = JSON.parse(
                this.unread.toString("utf8", HEAD_BYTES, end),
            );
            this.unread = this.unread.subarray(end);
            this.on_frame(message);
        }
    }

    // Start a job and return its id.  @request: prompt (ids), max_tokens, and
    // members of job.run that differ from a greedy one without stop strings.
    run({ prompt, max_tokens, ...more }) {
        const head = { job: randomUUID(), attempt: 1, epoch: 1 };
        for (let at = 0; at < prompt.length; at += INPUT_IDS)
            this.link.write(
                frame({
                    t: "job.input",
                    ...head,
                    done: false,
                    choice: 0,
                    ids: prompt.slice(at, at + INPUT_IDS),
                }),
            );
        this.link.write(
            frame({
                t: "job.run",
                ...head,
                model: "soak",
                digest: "0".repeat(64),
                prompt_count: prompt.length,
                done_count: 0,
                max_tokens,
                kv_tokens: prompt.length + max_tokens,
                seed: 0,
                temperature: 0,
                top_p: 1,
                top_k: 0,
                stop: [],
                ...more,
            }),
        );
        return head.job;
    }

    cancel(job) {
        this.link.write(
            frame({
                t: "job.cancel",
                job,
                attempt: 1,
                epoch: 1,
                reason: "soak",
            }),
        );
    }

    // Hang up and wait for the end of the process; what it ended with.
    async close() {
        this.link.end();
        return this.exited;
    }
}
