// make_model_golden.mjs - what a second implementation says about tokenisation,
// and the inputs of the chat template tests, for the unit tests of model/.
//
// Needs the npm package @huggingface/tokenizers:
//   NODE_MODULES=/path/to/node_modules node tests/golden/make_model_golden.mjs
//   python3 tests/golden/make_template_golden.py
// Writes tests/golden/template/cases.json and tests/golden/tokenizer/*.json.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const modules = process.env.NODE_MODULES ?? join(here, "node_modules");
const require = createRequire(pathToFileURL(join(modules, "x.js")));
const { Tokenizer } = require("@huggingface/tokenizers");

// --- templates ---------------------------------------------------------------

const tools = [
  {
    type: "function",
    function: {
      name: "get_weather",
      description: "Weather of a city \u00fc \"now\"",
      parameters: {
        type: "object",
        properties: {
          city: { type: "string" },
          days: { type: "integer", default: 3 },
          units: { type: "string", enum: ["C", "F"] },
          tags: { type: "array", items: { type: "string" } },
        },
        required: ["city"],
      },
    },
  },
];
const plain = [
  { role: "user", content: "  Hello there.\n" },
  { role: "assistant", content: "Hi! <tag> & \"quotes\"" },
  { role: "user", content: "\u00bfQu\u00e9 tal? \u4f60\u597d \ud83d\ude80" },
];
const withSystem = [{ role: "system", content: " Be brief. " }, ...plain];
const thought = [
  { role: "user", content: "2+2?" },
  { role: "assistant", content: "<think>\nadd\n</think>\n\n4" },
  { role: "user", content: "and 3+3?" },
  { role: "assistant", content: "<think>\nagain\n</think>\n\n6" },
];
const called = [
  { role: "user", content: "Weather in Paris?" },
  {
    role: "assistant",
    content: "",
    tool_calls: [
      { type: "function", function: { name: "get_weather", arguments: { city: "Paris", days: 2 } } },
    ],
  },
  { role: "tool", content: "sunny" },
  { role: "tool", content: "22 C" },
];
const base = { bos_token: "<s>", eos_token: "</s>" };
const conversations = {
  plain: { messages: plain, add_generation_prompt: true },
  system: { messages: withSystem, add_generation_prompt: true },
  answer: { messages: withSystem.slice(0, 3), add_generation_prompt: false },
  thought: { messages: thought, add_generation_prompt: false },
  quiet: { messages: thought.slice(0, 3), add_generation_prompt: true, enable_thinking: false },
  tools: { messages: plain, tools, add_generation_prompt: true },
  called: { messages: called, tools, add_generation_prompt: true },
};
const families = ["llama", "qwen", "mistral", "harmony", "deepseek", "glm"];

// Small expressions, each a template of its own.
const data = {
  words: ["pear", "Apple", "fig", "apple"],
  numbers: [3, 1, 2],
  people: [
    { name: "Ada", age: 36, tags: ["x"] },
    { name: "Bob", age: 5 },
    { name: "Cy", age: 36 },
  ],
  text: "  some Text, here\n",
  object: { b: 1, a: [1, 2.5, null, true], c: { d: "\u00e9\"\\\n" } },
  empty: "",
  nothing: null,
  yes: true,
};
const expressions = [
  "{{ 1 + 2 * 3 }} {{ (1 + 2) * 3 }} {{ 7 % 3 }} {{ 2 - 5 }} {{ -3 + 1 }}",
  "{{ 'a' ~ 1 ~ 'b' }} {{ 'a' + 'b' }}",
  "{{ 1 < 2 }} {{ 2 <= 1 }} {{ 'a' == 'a' }} {{ 1 != 1 }}",
  "{{ 'fig' in words }} {{ 'x' not in words }} {{ 'Text' in text }} {{ 'b' in object }}",
  "{{ yes and not empty }} {{ empty or 'x' }} {{ nothing is none }}",
  "{{ 'a' if yes else 'b' }}{{ 'a' if empty else 'b' }}",
  "[{{ text | trim }}] [{{ text | upper }}] [{{ text | lower }}] [{{ text.strip() }}]",
  "{{ text | length }} {{ words | length }} {{ object | length }}",
  "{{ words | first }} {{ words | last }} {{ words | join('-') }}",
  "{{ missing is defined }} {{ missing | default('d') }} {{ yes is defined }}",
  "{{ words[0] }} {{ words[-1] }} {{ words[1:] | join(',') }} {{ words[:2] | join(',') }}",
  "{{ words[::-1] | join(',') }} {{ 'abcdef'[1:4] }} {{ 'abcdef'[-2:] }}",
  "{{ object | tojson }}",
  "{{ object | tojson(indent=2) }}",
  "{{ object.c.d }} {{ object['b'] }} {{ object.get('zz', 'none') }}",
  "{% for k, v in object.items() %}{{ k }};{% endfor %}",
  "{% for p in people %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ p.name }} {% endfor %}",
  "{% for p in people if p.age > 10 %}{{ p.name }}{{ loop.index }}{% endfor %}",
  "{% for p in [] %}x{% else %}none{% endfor %}",
  "{{ people | selectattr('age', 'equalto', 36) | map(attribute='name') | join(' ') }}",
  "{{ people | rejectattr('tags') | map(attribute='name') | join(' ') }}",
  "{% set ns = namespace(n=0) %}{% for i in range(4) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
  "{% for i in range(1, 10, 3) %}{{ i }} {% endfor %}",
  "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}",
  "{% macro m(a, b=2) %}<{{ a }},{{ b }}>{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(a=5) }}",
  "{% set x %}in{{ 1 }}{% endset %}[{{ x }}]",
  "  {% if yes %}\n  a\n  {% endif %}\nb\n",
  "x\n  {%- if yes -%}  y  {%- endif %}\n z",
  "{# comment #}\nafter\n",
  "{{ 'it''s' }} {{ \"tab\\tnew\\nline\" }}",
  "{{ 'a,b,c'.split(',') | join('|') }} {{ 'a b'.replace(' ', '_') }}",
  "{{ 'Hello'.startswith('He') }} {{ 'Hello'.endswith('lo') }} {{ 'hello world' | title }} {{ 'hello' | capitalize }}",
  "{{ 3 is odd }} {{ 4 is even }} {{ 1 is number }} {{ 'a' is string }} {{ object is mapping }} {{ words is iterable }}",
  "{{ true }} {{ false }} {{ none is none }}",
  "{{ 'a\\nb\\n\\nc' | indent(2) }}",
  "{{ words | sort | join(' ') }} {{ numbers | sort | join(' ') }} {{ numbers | reverse | join(' ') }}",
  "{{ ' x ' ~ ('a' if false) ~ '.' }}",
  "{{ 5 // 2 }}{{ 2 ** 3 }}",
  "{{ '%s' }} {{ '{{' }} {{ {'a': {'b': 1}}.a.b }}",
  "{% generation %}kept{% endgeneration %}",
  "{% for a in [1, 2] %}{% for b in [3, 4] %}{{ a }}{{ b }}{{ loop.last }} {% endfor %}{% endfor %}",
  "{% set a = 1 %}{% if true %}{% set a = 2 %}{% endif %}{{ a }}",
  "{% set a = 1 %}{% for i in [1] %}{% set a = 2 %}{% endfor %}{{ a }}",
  "{{ numbers | map('string') | join('+') }} {{ '12' | int + 1 }} {{ '1.5' | float }}",
];

const cases = [];
for (const family of families) {
  for (const [name, variables] of Object.entries(conversations)) {
    cases.push({ name: family + " " + name, file: family + ".jinja", variables: { ...base, ...variables } });
  }
}
for (const source of expressions) {
  cases.push({ name: source, template: source, variables: data });
}
// What they render to is filled in by make_template_golden.py.
writeFileSync(join(here, "template", "cases.json"), JSON.stringify(cases, null, 1) + "\n");

// --- tokenizers --------------------------------------------------------------

const model = join(here, "..", "models", "tiny-chat");
const original = JSON.parse(readFileSync(join(model, "tokenizer.json"), "utf8"));
// Merges are written as "a b" or, in newer files, as ["a", "b"].
const parts = original.model.merges.map((m) => (Array.isArray(m) ? m : m.split(" ")));
original.model.merges = parts.map((m) => m.join(" "));
const config = JSON.parse(readFileSync(join(model, "tokenizer_config.json"), "utf8"));

const texts = [
  "", " ", "Hello world", "  two  spaces  ", "don't I'LL we've", "tabs\tand\nlines\r\n\r\nend\n",
  "What is 17 plus 25? 1234567", "caf\u00e9 na\u00efve \u00fcber \u00df", "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0\u3002 \u4f60\u597d\uff0c\u4e16\u754c",
  "emoji \ud83d\ude80\ud83d\udc68\u200d\ud83d\udc69\u200d\ud83d\udc67 flag \ud83c\uddeb\ud83c\uddf7", "a\u0301e\u0323\u0301 combining", "\u0915\u093f \u0e01\u0e33 \u0b95\u0bcb",
  "code: for (i = 0; i < n; ++i) { x[i] *= 2.5e-3; } // done",
  "<|im_start|>user\nHi<|im_end|>\n", "<|im_start|><|im_start|> <|im_end|>x<|endoftext|", "\u0000\u0001\u007f\u0080",
  "\u00a0non\u2003breaking\u3000spaces\u2028line", "https://example.org/a?b=c&d=%20#e", "ALLCAPS MixedCase snake_case kebab-case",
  "\u0430\u0431\u0432 \u0413\u0414\u0415 \u0396\u03b5\u03c5\u03c2 \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627", "\u00b2\u00bd\u2163 \u0663\u0664 \ud835\udfd8",
  "x".repeat(300), "ab ".repeat(100), " ".repeat(50) + "x", "\n".repeat(20), "!?!?!?...---===",
  "\u1e9b\u0323 \ufb01 \u2126 \u212b",
];

const pairs = { ...original, model: { ...original.model, merges: parts } };
const split = (regex) => ({
  type: "Sequence",
  pretokenizers: [
    { type: "Split", pattern: { Regex: regex }, behavior: "Isolated", invert: false },
    { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false },
  ],
});
const llama3 = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const extra = (content, id, flags) => ({ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: false, ...flags });

const variants = {
  plain: original,
  pairs,
  llama3: { ...original, pre_tokenizer: split(llama3), model: { ...original.model, ignore_merges: true } },
  gpt2: { ...original, pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true } },
  nfc: { ...original, normalizer: { type: "NFC" } },
  added: {
    ...original,
    added_tokens: [
      ...original.added_tokens,
      extra("Hello", 2048, {}),
      extra("Hello world", 2049, {}),
      extra("flag", 2050, { lstrip: true }),
      extra("\u4e16\u754c", 2051, { normalized: true }),
    ],
  },
};
for (const [name, json] of Object.entries(variants)) {
  const tokenizer = new Tokenizer(json, config);
  const rows = texts.map((text) => ({ text, ids: tokenizer.encode(text, { add_special_tokens: false }).ids }));
  // What differs from tiny-chat's file; the rest is taken from there.
  const changes = {};
  for (const key of ["normalizer", "pre_tokenizer", "added_tokens"]) {
    if (json[key] !== original[key]) changes[key] = json[key];
  }
  const out = { changes, ignore_merges: json.model.ignore_merges ?? false, merges_as_pairs: Array.isArray(json.model.merges[0]), rows };
  writeFileSync(join(here, "tokenizer", name + ".json"), JSON.stringify(out, null, 1) + "\n");
}
