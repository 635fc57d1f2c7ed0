// standin.mjs - an agent whose every word the test says: a real node's
// certificate, the frames of docs/link-protocol.md, and no engine behind them.

import fs from "node:fs";
import path from "node:path";
import tls from "node:tls";

import { poll } from "./lib.mjs";

const HELLO = {
    version: 1,
    agent: "stand-in",
    epoch: 0,
    simulated: false,
    state: "lending",
    facts: {
        os: "linux",
        chip: "stand-in",
        model_identifier: null,
        macos_version: null,
        macos_build: null,
        cores: 2,
        gpu_cores: null,
        memory_bytes: 8_000_000_000,
        limit_bytes: 4_000_000_000,
        limit_source: "memory",
        bandwidth_gb_s: 20,
        bandwidth_measured: true,
        prefill_tflop_s: 0.1,
        read_gb_s: 1,
    },
    engine: {
        backend: "cpu",
        version: "0",
        slots: 4,
        capabilities: ["ids", "resume", "seed"],
    },
    reasons: [],
};

export class StandIn {
    // @home holds what berth-node join left there; @model is {digest, bytes}.
    constructor(home, model) {
        const read = (file) => fs.readFileSync(path.join(home, file));
        this.node = read("node.id").toString().trim();
        [this.host, this.port] = read("link").toString().trim().split(":");
        this.identity = {
            ca: read("ca.crt"),
            cert: read("node.crt"),
            key: read("node.key"),
        };
        this.model = model;
        this.epoch = 0;
    }

    // Connect and say hello; resolves when welcomed, with @held (a list of
    // {job, attempt, ended, done, ids}) reported.
    async connect(held = []) {
        this.frames = [];
        this.buffer = Buffer.alloc(0);
        this.is_open = true;
        this.socket = tls.connect({
            host: this.host,
            port: Number(this.port),
            servername: "localhost",
            minVersion: "TLSv1.3",
            ...this.identity,
        });
        this.socket.on("error", () => {});
        this.socket.on("close", () => (this.is_open = false));
        this.socket.on("data", (data) => this.#take(data));
        this.send("hello", {
            ...HELLO,
            node: this.node,
            epoch: this.epoch,
            models: [{ ...this.model, loaded: true, kv_bytes: 100_000_000 }],
        });
        const { epoch } = await this.next("welcome");
        this.epoch = epoch;
        this.report(held);
    }

    report(held) {
        this.send("job.held", { more: false, attempts: held });
    }

    #take(data) {
        this.buffer = Buffer.concat([this.buffer, data]);
        while (this.buffer.length >= 4) {
            const size = this.buffer.readUInt32BE(0);
            if (this.buffer.length < 4 + size) break;
            const text = this.buffer.subarray(4, 4 + size).toString("utf8");
            this.buffer = this.buffer.subarray(4 + size);
            this.frames.push(JSON.parse(text));
        }
    }

    send(t, body) {
        const text = Buffer.from(JSON.stringify({ t, ...body }));
        const head = Buffer.alloc(4);
        head.writeUInt32BE(text.length);
        this.socket.write(Buffer.concat([head, text]));
    }

    // Take the first frame of type @t that @fits; waits for it.
    next(t, fits = () => true) {
        return poll(`a ${t} at the stand-in`, () => {
            const at = this.frames.findIndex(
                (frame) => frame.t === t && fits(frame),
            );
            return at >= 0 && this.frames.splice(at, 1)[0];
        });
    }

    has(t, fits = () => true) {
        return this.frames.some((frame) => frame.t === t && fits(frame));
    }

    // The next job.run with the ids that came before it.
    async take_run() {
        const run = await this.next("job.run");
        const of_run = (frame) =>
            frame.t === "job.input" &&
            frame.job === run.job &&
            frame.attempt === run.attempt;
        const inputs = this.frames.filter(of_run);
        this.frames = this.frames.filter((frame) => !of_run(frame));
        const ids = (done) =>
            inputs
                .filter((input) => input.done === done)
                .flatMap((input) => input.ids);
        this.send("job.started", { job: run.job, attempt: run.attempt });
        return { ...run, prompt: ids(false), done: ids(true) };
    }

    tokens({ job, attempt }, first, ids) {
        this.send("job.tokens", { job, attempt, choice: 0, first, ids });
    }

    done({ job, attempt }, ids, reason = "length") {
        const numbers = { prefill_us: 1, decode_us: 1, passes: ids };
        this.send("job.done", { job, attempt, reason, ids, ...numbers });
    }

    fail({ job, attempt }, code, text = "as the test wants it") {
        const numbers = { ids: 0, passes: 0, passes_after_cancel: 0 };
        this.send("job.fail", { job, attempt, code, text, ...numbers });
    }

    async drop() {
        this.socket.destroy();
        await poll("the stand-in's link to close", () => !this.is_open);
    }
}
