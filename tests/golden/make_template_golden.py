#!/usr/bin/env python3
"""Fill in what the chat templates of tests/golden/template/cases.json render
to, by Jinja2 itself in the environment that transformers gives it.

Needs Jinja2 3.1.  Run it after make_model_golden.mjs."""
import json
import pathlib

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = pathlib.Path(__file__).parent / "template"


class Generation(Extension):
    """{% generation %} marks what the assistant wrote; here it only groups."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


def tojson(value, ensure_ascii=False, indent=None, separators=None,
           sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent,
                      separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


env = ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True,
    extensions=[Generation, "jinja2.ext.loopcontrols"])
env.filters["tojson"] = tojson
env.globals["raise_exception"] = raise_exception

path = HERE / "cases.json"
more = json.loads((HERE / "expressions.json").read_text())
cases = json.loads(path.read_text())
known = {case["name"] for case in cases}
cases += [{"name": text, "template": text, "variables": more["variables"]}
          for text in more["templates"] if text not in known]
for case in cases:
    source = case.get("template")
    if source is None:
        source = (HERE / case["file"]).read_text()
    case["expected"] = case["error"] = None
    try:
        case["expected"] = env.from_string(source).render(**case["variables"])
    except (jinja2.exceptions.TemplateError, TypeError,
            ZeroDivisionError) as problem:
        case["error"] = str(problem)
path.write_text(json.dumps(cases, indent=1) + "\n")
