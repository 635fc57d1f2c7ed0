// load.mjs - clients in closed loops: each sends, reads, checks nothing and
// writes down everything; check.mjs judges it later.

import https from "node:https";
import fs from "node:fs";

import { network, open_request } from "../integration/lib.mjs";
import { prng } from "./prng.mjs";
import { ROUTES, text_of } from "./requests.mjs";

const HANG_MS = 150_000; // longer than any patience: an answer that hangs
const BACK_OFF_MS = 150; // of a client that was told to come later
const TRIES_MAX = 600;

const MODES = { stream: 40, whole: 15, follow: 30, poll: 15 };
const QUIRKS = { none: 70, leaves: 10, slow: 7, impatient: 7, cancels: 6 };

const pause = (ms) => new Promise((resume) => setTimeout(resume, ms));

export class Load {
    // @write(event) appends to the log; @keys: one a worker.
    constructor({ seed, requests, keys, write }) {
        Object.assign(this, { seed, requests, keys, write });
        this.stopping = false;
        this.submissions = 0;
        this.readers = 0;
        this.open = new Set(); // for a watchdog and for the end
        this.agent = new https.Agent({
            ca: fs.readFileSync(network.ca_file),
            keepAlive: true,
            maxSockets: 256,
        });
    }

    start() {
        this.running = this.keys.map((key, index) => this.worker(key, index));
    }

    async stop() {
        this.stopping = true;
        await Promise.all(this.running);
    }

    cut_off() {
        this.stopping = true;
        this.agent.destroy();
    }

    async worker(key, index) {
        const random = prng(this.seed, `worker ${index}`);
        while (!this.stopping) {
            const work = {
                s: ++this.submissions,
                worker: index,
                key,
                request: random.one_of(this.requests),
                mode: random.weighted(MODES),
                quirk: random.weighted(QUIRKS),
                random,
            };
            this.write({
                ev: "submit",
                s: work.s,
                w: index,
                mode: work.mode,
                quirk: work.quirk,
                request: work.request.name,
            });
            try {
                const settled = await this[work.mode](work);
                this.write({ ev: "settled", s: work.s, ...settled });
            } catch (error) {
                this.write({ ev: "bug", s: work.s, why: `${error.stack}` });
            }
            if (work.failed) await pause(BACK_OFF_MS);
        }
    }

    headers_of(work) {
        return work.quirk === "impatient" ? { "x-berth-patience-ms": "200" } : {};
    }

    // One request; on_data(response, text) sees each piece.  Resolves with
    // {status, headers, text, broken?}: a broken connection is an outcome.
    exchange(method, route, { key, body, headers, on_data, on_head }) {
        return new Promise((resolve) => {
            const request = open_request(method, route, {
                key,
                body,
                headers,
                agent: this.agent,
            });
            const seen = { status: null, headers: {}, text: "" };
            let response;
            const timer = setTimeout(() => {
                seen.hung = true;
                request.destroy(new Error("hung"));
            }, HANG_MS);
            const end = (broken) => {
                clearTimeout(timer);
                this.open.delete(request);
                if (broken) seen.broken = broken;
                resolve(seen);
            };
            this.open.add(request);
            request.on("error", (error) => end(error.code ?? error.message));
            request.on("response", (head) => {
                response = head;
                seen.status = head.statusCode;
                seen.headers = head.headers;
                head.setEncoding("utf8");
                on_head?.(seen);
                head.on("data", (data) => {
                    seen.text += data;
                    on_data?.(response, data, seen, request);
                });
                head.on("error", (error) => end(error.code ?? error.message));
                head.on("close", () =>
                    end(head.complete ? undefined : "closed"),
                );
                head.on("end", () => end());
            });
        });
    }

    // Reads on, slowly or not to the end, as the quirk says.
    reader_of(work, r) {
        const leave_after = work.random.whole(1, 20);
        let pieces = 0;
        return (response, data, seen, request) => {
            this.write({
                ev: "bytes",
                s: work.s,
                r,
                n: Buffer.byteLength(data),
            });
            pieces++;
            if (work.quirk === "leaves" && pieces === leave_after) {
                work.left = true;
                this.write({ ev: "left", s: work.s, r });
                request.destroy();
            }
            if (work.quirk === "slow" && pieces % 10 === 0) {
                response.pause();
                setTimeout(() => response.resume(), 700);
            }
        };
    }

    // An answer that broke off tells nothing, whatever its status.
    refused(work, seen, where) {
        if (seen.broken) return this.broken(work, seen, where);
        work.failed = true;
        let error;
        try {
            ({ error } = JSON.parse(seen.text));
        } catch {
            error = undefined;
        }
        this.write({
            ev: "refused",
            s: work.s,
            where,
            job: seen.headers["x-berth-job"],
            status: seen.status,
            code: error?.code ?? null,
            message: error?.message ?? seen.text.slice(0, 200),
        });
        return { how: "refused" };
    }

    broken(work, seen, where) {
        work.failed = true;
        this.write({
            ev: "broken",
            s: work.s,
            where,
            job: seen.headers["x-berth-job"],
            why: seen.hung ? "hung" : seen.broken,
            hung: seen.hung,
        });
        return { how: work.left ? "left" : seen.hung ? "hung" : "broken" };
    }

    async stream(work) {
        const r = ++this.readers;
        let chunks;
        const body = {
            ...work.request.body,
            stream: true,
            stream_options: { include_usage: true },
        };
        const read = this.reader_of(work, r);
        const seen = await this.exchange("POST", ROUTES[work.request.kind], {
            key: work.key,
            body,
            headers: this.headers_of(work),
            on_head: (head) => {
                if (head.status === 200)
                    this.write({
                        ev: "open",
                        r,
                        s: work.s,
                        job: head.headers["x-berth-job"],
                    });
            },
            on_data: read,
        });
        if (seen.status === null) return this.broken(work, seen, "connect");
        if (seen.status !== 200) return this.refused(work, seen, "head");
        chunks = stream_parse(seen.text);
        this.write({ ev: "text", r, s: work.s, ...chunks });
        if (chunks.end === "error") work.failed = true;
        if (chunks.end === "cut") return this.broken(work, seen, "stream");
        return { how: chunks.end };
    }

    async whole(work) {
        const seen = await this.exchange("POST", ROUTES[work.request.kind], {
            key: work.key,
            body: work.request.body,
            headers: this.headers_of(work),
        });
        if (seen.broken || seen.status === null)
            return this.broken(work, seen, "whole");
        if (seen.status !== 200) return this.refused(work, seen, "head");
        const answer = JSON.parse(seen.text);
        const [choice] = answer.choices;
        const r = ++this.readers;
        const job = seen.headers["x-berth-job"];
        this.write({ ev: "open", r, s: work.s, job });
        this.write({ ev: "bytes", s: work.s, r, n: seen.text.length });
        this.write({
            ev: "text",
            r,
            s: work.s,
            text: text_of(choice),
            end: "finish",
            finish: choice.finish_reason,
            usage: answer.usage,
        });
        return { how: "finish" };
    }

    // Send it until somebody says yes or no; the same key names the same job.
    async accept(work) {
        const headers = {
            "idempotency-key": `${this.seed}-${work.s}`,
            ...this.headers_of(work),
        };
        const body = { kind: work.request.kind, request: work.request.body };
        let again = work.random.chance(0.2) ? 1 : 0; // repeated though answered
        for (let tries = 0; tries < TRIES_MAX; tries++) {
            const seen = await this.exchange("POST", "/api/v1/jobs", {
                key: work.key,
                body,
                headers,
            });
            if (seen.broken || seen.status === null) {
                this.broken(work, seen, "submit");
                await pause(BACK_OFF_MS);
                continue;
            }
            if (seen.status === 503) {
                this.refused(work, seen, "submit");
                await pause(BACK_OFF_MS);
                continue;
            }
            if (seen.status !== 202 && seen.status !== 200)
                return this.refused(work, seen, "submit") && undefined;
            const { id } = JSON.parse(seen.text);
            this.write({ ev: "accepted", s: work.s, job: id });
            if (again-- > 0) continue;
            work.failed = false;
            return id;
        }
        return undefined;
    }

    // A job of its own, perhaps cancelled in between.
    async accept_and_cancel(work) {
        const job = await this.accept(work);
        if (job !== undefined && work.quirk === "cancels")
            work.cancelling = pause(work.random.whole(0, 800)).then(async () => {
                const seen = await this.exchange(
                    "DELETE",
                    `/api/v1/jobs/${job}`,
                    { key: work.key },
                );
                this.write({
                    ev: "cancel",
                    s: work.s,
                    job,
                    status: seen.status,
                });
            });
        return job;
    }

    async follow(work) {
        const job = await this.accept_and_cancel(work);
        if (job === undefined) return { how: "refused" };
        let after;
        let how = "broken";
        for (let tries = 0; tries < TRIES_MAX; tries++) {
            const r = ++this.readers;
            const read = this.reader_of({ ...work, left: undefined }, r);
            const seen = await this.exchange("GET", `/api/v1/jobs/${job}/events`, {
                key: work.key,
                headers: after === undefined ? {} : { "last-event-id": after },
                on_head: (head) => {
                    if (head.status === 200)
                        this.write({ ev: "open", r, s: work.s, job, after });
                },
                on_data: read,
            });
            if (seen.status !== 200) {
                if (seen.status === null) this.broken(work, seen, "events");
                else this.refused(work, seen, "events");
                if (seen.status !== null && ![429, 503].includes(seen.status))
                    break;
                await pause(BACK_OFF_MS);
                continue;
            }
            const events = events_parse(seen.text);
            this.write({ ev: "text", r, s: work.s, ...events });
            after = events.ids.at(-1) ?? after;
            how = events.end;
            if (["finish", "error"].includes(how)) break;
            if (seen.hung) this.broken(work, seen, "events");
            await pause(BACK_OFF_MS / 10);
        }
        work.failed = how !== "finish";
        await work.cancelling;
        return { how };
    }

    async poll(work) {
        const job = await this.accept_and_cancel(work);
        if (job === undefined) return { how: "refused" };
        const until = Date.now() + HANG_MS;
        while (Date.now() < until) {
            const seen = await this.exchange("GET", `/api/v1/jobs/${job}`, {
                key: work.key,
            });
            if (seen.status === 200 && !seen.broken) {
                const { state } = JSON.parse(seen.text);
                if (!["queued", "running"].includes(state)) {
                    await work.cancelling;
                    work.failed = state !== "done";
                    return { how: state };
                }
            } else if (seen.status !== null && seen.status !== 503) {
                this.refused(work, seen, "poll");
            }
            await pause(BACK_OFF_MS);
        }
        this.write({ ev: "broken", s: work.s, job, where: "poll", hung: true });
        return { how: "hung" };
    }
}

// The whole events in a text, an unfinished last one left out.
function blocks(text) {
    return text
        .split("\n\n")
        .slice(0, -1)
        .map((block) => {
            const fields = {};
            for (const line of block.split("\n")) {
                const colon = line.indexOf(": ");
                if (colon > 0)
                    fields[line.slice(0, colon)] = line.slice(colon + 2);
            }
            return fields;
        })
        .filter(({ data }) => data !== undefined);
}

// A stream of /v1: {text, end, finish, usage, code}.
export function stream_parse(whole) {
    const seen = { text: "", end: "cut", finish: null, usage: null };
    for (const { data } of blocks(whole)) {
        if (data === "[DONE]") {
            seen.end = "finish";
            continue;
        }
        const chunk = JSON.parse(data);
        if (chunk.error) {
            seen.end = "error";
            seen.code = chunk.error.code;
            seen.message = chunk.error.message;
            continue;
        }
        const [choice] = chunk.choices;
        seen.text += choice?.delta?.content ?? choice?.text ?? "";
        seen.finish = choice?.finish_reason ?? seen.finish;
        seen.usage = chunk.usage ?? seen.usage;
    }
    return seen;
}

// A job's events: the same and their ids.
export function events_parse(whole) {
    const seen = { text: "", end: "cut", finish: null, usage: null, ids: [] };
    for (const { id, event, data } of blocks(whole)) {
        const body = JSON.parse(data);
        seen.ids.push(id);
        if (event === "content") seen.text += body.text;
        if (event === "finish") {
            seen.end = "finish";
            seen.finish = body.finish_reason;
            seen.usage = body.usage;
        }
        if (event === "error") {
            seen.end = "error";
            const error = body.error ?? body;
            seen.code = error.code;
            seen.message = error.message;
        }
    }
    return seen;
}
