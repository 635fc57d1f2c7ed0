// https_bench.mjs - what a job costs over HTTPS, beside a request that does
// nothing.  Against a network that runs (make run, then . build/run/env):
//
//   tests/integration/with_node tests/bench/https_bench.mjs
//
// Prints one line of JSON: milliseconds, jobs a second, and the ratio of a
// job's first token to GET /healthz in the same run.
import fs from "node:fs";
import https from "node:https";

const JOBS = 200;
const WARM_UP = 10;
const IDS = 16;
const CLIENTS = [8, 32];

const url = new URL(process.env.BERTH_URL);
const agent = new https.Agent({
    keepAlive: true,
    ca: fs.readFileSync(process.env.BERTH_CA_FILE),
    maxSockets: Math.max(...CLIENTS),
});
const body = JSON.stringify({
    model: "tiny-chat",
    temperature: 0,
    max_tokens: IDS,
    stream: true,
    messages: [{ role: "user", content: "Count from 1 to 100." }],
});

// Milliseconds to the first byte of the body and to its end.
function timed(method, path, sent) {
    return new Promise((resolve, reject) => {
        const begun = performance.now();
        let first = 0;
        const request = https.request(
            {
                agent,
                host: url.hostname,
                port: url.port,
                method,
                path,
                headers: {
                    authorization: `Bearer ${process.env.BERTH_API_KEY}`,
                    "content-type": "application/json",
                },
            },
            (answer) => {
                answer.on("data", () => {
                    first ||= performance.now() - begun;
                });
                answer.on("end", () => {
                    const whole = performance.now() - begun;
                    if (answer.statusCode === 200) resolve({ first, whole });
                    else reject(new Error(`status ${answer.statusCode}`));
                });
            },
        );
        request.on("error", reject);
        request.end(sent);
    });
}

const job = () => timed("POST", "/v1/chat/completions", body);
const nothing = () => timed("GET", "/healthz");

function quantile(values, part) {
    const sorted = values.toSorted((a, b) => a - b);
    const at = Math.min(sorted.length - 1, Math.floor(sorted.length * part));
    return Number(sorted[at].toFixed(2));
}

for (let i = 0; i < WARM_UP; i++) await job();
const first = [];
const whole = [];
const idle = [];
for (let i = 0; i < JOBS; i++) {
    const seen = await job();
    first.push(seen.first);
    whole.push(seen.whole);
    idle.push((await nothing()).whole);
}
const result = {
    healthz_ms: quantile(idle, 0.5),
    first_token_ms: quantile(first, 0.5),
    first_token_p99_ms: quantile(first, 0.99),
    whole_ms: quantile(whole, 0.5),
};
result.first_token_to_healthz = Number(
    (result.first_token_ms / result.healthz_ms).toFixed(1),
);
for (const clients of CLIENTS) {
    const begun = performance.now();
    let taken = 0;
    const client = async () => {
        while (taken++ < 2 * JOBS) await job();
    };
    await Promise.all(Array.from({ length: clients }, client));
    const seconds = (performance.now() - begun) / 1000;
    result[`jobs_per_s_${clients}_clients`] = Math.round((2 * JOBS) / seconds);
}
console.log(JSON.stringify(result));
agent.destroy();
