// join.mjs - a join token's digest decides whom a joining machine trusts: a
// server in the middle, which may show anything at all, never gets the secret.
import { spawn, execFileSync } from "node:child_process";
import crypto from "node:crypto";
import fs from "node:fs";
import https from "node:https";
import os from "node:os";
import path from "node:path";

const root = path.resolve(path.dirname(new URL(import.meta.url).pathname), "../..");
const agent = path.join(process.env.BERTH_BIN ?? path.join(root, "build/bin"), "berth-node");
const work = fs.mkdtempSync(path.join(os.tmpdir(), "berth-join-"));
const file = (name) => path.join(work, name);
const read = (name) => fs.readFileSync(file(name), "utf8");
const openssl = (...args) => execFileSync("openssl", args, { cwd: work, stdio: ["ignore", "pipe", "ignore"] });
const ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];

function authority(name) {
  openssl("req", "-x509", ...ec, "-keyout", `${name}.key`, "-out", `${name}.crt`, "-days", "2", "-subj", `/CN=${name}`);
}

// A server certificate for 127.0.0.1 by the authority NAME.
function server(name) {
  fs.writeFileSync(file("s.ext"), "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth\n");
  openssl("req", ...ec, "-keyout", `${name}-server.key`, "-out", "s.csr", "-subj", "/CN=server");
  openssl("x509", "-req", "-in", "s.csr", "-CA", `${name}.crt`, "-CAkey", `${name}.key`, "-CAcreateserial",
    "-days", "2", "-extfile", "s.ext", "-out", `${name}-server.crt`);
}

// Serve CAPEM at /ca.pem with the certificate of NAME, let the agent join, and
// answer what the server was sent and how the agent ended.
async function attempt(name, caPem, token) {
  let sent = "";
  const web = https.createServer({ key: read(`${name}-server.key`), cert: read(`${name}-server.crt`) }, (request, answer) => {
    request.on("data", (bytes) => { sent += bytes; });
    request.on("end", () => {
      answer.statusCode = request.url === "/ca.pem" ? 200 : 400;
      answer.end(request.url === "/ca.pem" ? caPem : '{"error":{"message":"seen","type":"","param":null,"code":null}}');
    });
  });
  await new Promise((done) => web.listen(0, "127.0.0.1", done));
  const child = spawn(agent, ["--home", file("home"), "join", `https://127.0.0.1:${web.address().port}`, "-"],
    { stdio: ["pipe", "ignore", "pipe"] });
  let said = "";
  child.stderr.on("data", (bytes) => { said += bytes; });
  child.stdin.end(token);
  const code = await new Promise((done) => child.on("close", done));
  web.closeAllConnections();
  web.close();
  return { sent, said, code };
}

let failed = false;
function check(name, good, seen) {
  console.log(`${good ? "ok" : "not ok"} ${name}`);
  if (!good) console.log(JSON.stringify(seen));
  failed ||= !good;
}

try {
  execFileSync("openssl", ["version"]);
} catch {
  console.log("skip a server in the middle never gets the secret: no openssl");
  process.exit(0);
}
authority("real");
authority("false");
server("real");
server("false");
const key = new crypto.X509Certificate(read("real.crt")).publicKey.export({ type: "spki", format: "der" });
const digest = crypto.createHash("sha256").update(key).digest("hex");
const token = `01990000-0000-7000-8000-000000000001.topsecret.${digest}`;
const cases = [
  ["another CA alone", read("false.crt")],
  ["the right CA and its own", read("real.crt") + read("false.crt")],
  ["its own CA and the right one", read("false.crt") + read("real.crt")],
  ["the right CA, which is not its own", read("real.crt")],
];
for (const [what, pem] of cases) {
  const seen = await attempt("false", pem, token);
  check(`a server that shows ${what} never gets the secret`, seen.code === 1 && seen.sent === "" && seen.said !== "", seen);
}
const seen = await attempt("real", read("real.crt") + read("false.crt"), token);
check("the right server gets it, and its refusal is told", seen.code === 1 && seen.sent.includes("topsecret") && seen.said.includes("seen"), seen);
fs.rmSync(work, { recursive: true, force: true });
process.exit(failed ? 1 : 0);
