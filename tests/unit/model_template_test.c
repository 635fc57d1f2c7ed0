/* model_template_test.c - chat templates, against Jinja2 itself
 * (tests/golden/make_template_golden.py) and its documentation. */
#include "model/template.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/json.h"

#include "common/banned.h"

#define GOLDEN "tests/golden/template/"

enum { OUT_MAX_BYTES = 1024 * 1024, FILE_MAX_BYTES = 8 * 1024 * 1024 };

static void
read_file(const char *path, struct buf *out)
{
    struct error err = {0};

    buf_init(out, FILE_MAX_BYTES);
    if (buf_read_file(out, path, &err) != STATUS_OK)
        fail_msg("%s", err.text);
}

static void
read_json(const char *path, struct json_doc *doc)
{
    struct error err = {0};
    struct buf text;

    read_file(path, &text);
    if (json_doc_parse(text.data, text.size, doc, &err) != STATUS_OK)
        fail_msg("%s: %s", path, err.text);
    buf_clear(&text);
}

static enum status
render(const char *source, size_t size, const struct json *variables,
       struct buf *out, struct error *err)
{
    struct template *template = NULL;
    enum status status = template_parse(source, size, &template, err);

    if (status == STATUS_OK)
        status = template_render(template, variables, out, err);
    template_free(template);
    return status;
}

/* Rendering of @source with no variables but those of the JSON text. */
static enum status
render_text(const char *source, const char *variables, struct buf *out,
            struct error *err)
{
    struct json_doc doc = {0};
    enum status status = STATUS_OK;

    assert_int_equal(json_doc_parse(variables, strlen(variables), &doc, NULL),
                     STATUS_OK);
    status = render(source, strlen(source), doc.root, out, err);
    json_doc_clear(&doc);
    return status;
}

static void
expect(const char *source, const char *variables, const char *expected)
{
    struct error err = {0};
    struct buf out;

    buf_init(&out, OUT_MAX_BYTES);
    if (render_text(source, variables, &out, &err) != STATUS_OK)
        fail_msg("%s: %s", source, err.text);
    if (strcmp(out.data, expected) != 0)
        fail_msg("%s\ngives    [%s]\nexpected [%s]", source, out.data,
                 expected);
    buf_clear(&out);
}

static void
expect_refused(const char *source, const char *variables, const char *part)
{
    struct error err = {0};
    struct buf out;

    buf_init(&out, OUT_MAX_BYTES);
    assert_int_equal(render_text(source, variables, &out, &err),
                     STATUS_INVALID);
    if (strstr(err.text, part) == NULL)
        fail_msg("%s\nsays \"%s\", not \"%s\"", source, err.text, part);
    assert_int_equal(out.size, 0);
    buf_clear(&out);
}

/* --- golden ---------------------------------------------------------------*/

static bool
matches(const struct json *row)
{
    size_t size = 0;
    size_t expected_size = 0;
    const char *name = json_as_text(json_get(row, "name"), &size);
    const char *file = json_as_text(json_get(row, "file"), &size);
    const char *expected =
        json_as_text(json_get(row, "expected"), &expected_size);
    const char *source = NULL;
    char path[128];
    struct error err = {0};
    struct buf text;
    struct buf out;
    enum status status = STATUS_OK;
    bool same = false;

    buf_init(&text, FILE_MAX_BYTES);
    buf_init(&out, OUT_MAX_BYTES);
    if (file != NULL) {
        snprintf(path, sizeof(path), GOLDEN "%s", file);
        read_file(path, &text);
        source = text.data;
        size = text.size;
    } else {
        source = json_as_text(json_get(row, "template"), &size);
    }
    status = render(source, size, json_get(row, "variables"), &out, &err);
    same = expected == NULL
               ? status != STATUS_OK
               : status == STATUS_OK && out.size == expected_size &&
                     memcmp(out.data, expected, out.size) == 0;
    if (!same)
        printf("%s:\n got [%s] %s\nwant [%s]\n", name, out.data, err.text,
               expected == NULL ? "an error" : expected);
    buf_clear(&text);
    buf_clear(&out);
    return same;
}

static void
templates_of_six_families_render_as_jinja2_does(void **state)
{
    struct json_doc doc = {0};
    int wrong = 0;

    (void)state;
    read_json(GOLDEN "cases.json", &doc);
    assert_true(json_count(doc.root) > 150);
    for (size_t i = 0; i < json_count(doc.root); i++)
        wrong += !matches(json_at(doc.root, i));
    json_doc_clear(&doc);
    assert_int_equal(wrong, 0);
}

static void
the_demo_model_s_prompts_are_those_of_its_reference(void **state)
{
    struct template *template = NULL;
    struct json_doc doc = {0};
    struct error err = {0};

    (void)state;
    assert_int_equal(template_read("tests/models/tiny-chat", &template, &err),
                     STATUS_OK);
    read_json("tests/models/reference.json", &doc);
    for (size_t i = 0; i < json_count(json_get(doc.root, "prompts")); i++) {
        const struct json *row = json_at(json_get(doc.root, "prompts"), i);
        struct json_doc variables = {0};
        size_t size = 0;
        const char *rendered = json_as_text(json_get(row, "rendered"), &size);
        struct buf text;
        struct buf out;

        buf_init(&text, FILE_MAX_BYTES);
        buf_init(&out, OUT_MAX_BYTES);
        buf_append_text(&text, "{\"add_generation_prompt\":true,\"messages\":");
        json_dump(json_get(row, "messages"), &text);
        buf_append_text(&text, "}");
        assert_int_equal(json_doc_parse(text.data, text.size, &variables, &err),
                         STATUS_OK);
        assert_int_equal(template_render(template, variables.root, &out, &err),
                         STATUS_OK);
        assert_string_equal(out.data, rendered);
        json_doc_clear(&variables);
        buf_clear(&text);
        buf_clear(&out);
    }
    json_doc_clear(&doc);
    template_free(template);
}

/* --- semantics, from Jinja2's and Python's documentation -------------------*/

static void
blanks_around_tags_go_as_trim_blocks_and_lstrip_blocks_say(void **state)
{
    (void)state;
    expect("a\n  {% if true %}\n  b\n  {% endif %}\nc", "{}", "a\n  b\nc");
    expect("a\n  {%+ if true %}b{% endif +%}\nc", "{}", "a\n  b\nc");
    expect("a \n {{- 'b' -}} \n c", "{}", "abc");
    expect("a {# x #} b\n{# y #}\nc", "{}", "a  b\nc");
    expect("{% raw %}{{ x }}{% endraw %}", "{}", "{{ x }}");
    expect("a\r\nb\n", "{}", "a\nb");
    expect("x {%- if true -%} \n y {%- endif -%} \n z", "{}", "xyz");
}

static void
values_are_written_as_python_writes_them(void **state)
{
    (void)state;
    expect("{{ true }} {{ none }} {{ 1.0 }} {{ 0.1 }} {{ 1.5 if x }}",
           "{\"x\":false}", "True None 1.0 0.1 ");
    expect("{{ [1, 'a', none, {'k': \"it's\"}] }}", "{}",
           "[1, 'a', None, {'k': \"it's\"}]");
    expect("{{ x }} {{ y }} {{ z }}",
           "{\"x\":1e16,\"y\":123456789.125,\"z\":1e-5}",
           "1e+16 123456789.125 1e-05");
    expect("{{ 7 / 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2 ** 10 }}", "{}",
           "3.5 -4 2 1024");
}

static void
sequences_are_of_characters_and_indexed_as_in_python(void **state)
{
    (void)state;
    expect("{{ s | length }} {{ s[1] }} {{ s[-1] }} {{ s[::-1] }} {{ s[1:] }}",
           "{\"s\":\"\\u00e9\\u4f60x\"}",
           "3 \xe4\xbd\xa0 x x\xe4\xbd\xa0\xc3\xa9 \xe4\xbd\xa0x");
    expect("{{ [1,2,3,4][1:3] }}{{ [1,2,3,4][-3:-1] }}{{ [1,2][5:] }}"
           "{{ [1,2,3][::-2] }}",
           "{}", "[2, 3][2, 3][][3, 1]");
    expect("[{{ [1][7] }}{{ {'a': 1}.b }}]", "{}", "[]");
    expect("{{ 'a  b c'.split() }}{{ 'a,b,c'.split(',', 1) }}"
           "{{ 'a,b,c'.rsplit(',', 1) }}{{ ' a b '.split(none, 1) }}",
           "{}", "['a', 'b', 'c']['a', 'b,c']['a,b', 'c']['a', 'b ']");
}

static void
filters_do_what_jinja2_documents(void **state)
{
    (void)state;
    expect("{{ p | selectattr('a', 'equalto', 1) | map(attribute='b') | "
           "join(' ') }}",
           "{\"p\":[{\"a\":1,\"b\":\"x\"},{\"a\":2,\"b\":\"y\"},"
           "{\"a\":1,\"b\":\"z\"}]}",
           "x z");
    expect("{{ [3,1,2] | sort }}{{ ['b','A','c'] | sort }}"
           "{{ [1,2] | sort(reverse=true) }}{{ {'b':1,'a':2} | dictsort }}",
           "{}", "[1, 2, 3]['A', 'b', 'c'][2, 1][('a', 2), ('b', 1)]");
    expect("{{ ['a','b','a'] | unique | list }}{{ [1,5,3] | max }}"
           "{{ [1,5,3] | sum }}{{ '4' | int + 1 }}{{ 'x' | int(9) }}",
           "{}", "['a', 'b']5959");
    expect("{{ [1,2,3,4] | select('even') | list }}{{ [0,1] | reject | list }}"
           "{{ ['a','b'] | map('upper') | join }}",
           "{}", "[2, 4][0]AB");
    expect("{{ {'b': [1, {}], 'a': '<\\n>'} | tojson }}"
           "{{ {'b': 1, 'a': [2]} | tojson(indent=1, sort_keys=true) }}",
           "{}",
           "{\"b\": [1, {}], \"a\": \"<\\n>\"}"
           "{\n \"a\": [\n  2\n ],\n \"b\": 1\n}");
}

static void
sets_in_loops_end_with_the_round_and_namespaces_outlive_it(void **state)
{
    (void)state;
    expect("{% set a = 1 %}{% for i in [1,2] %}{{ a }}{% set a = 5 %}"
           "{{ a }}{% endfor %}{{ a }}",
           "{}", "15151");
    expect("{% set n = namespace(x=0) %}{% for i in [1,2] %}"
           "{% set n.x = n.x + i %}{% endfor %}{{ n.x }}",
           "{}", "3");
    expect("{% set a, b = [1, 2] %}{{ b }}{{ a }}", "{}", "21");
}

static void
macros_take_defaults_names_and_callers(void **state)
{
    (void)state;
    expect("{% macro f(a, b='y') %}{{ a }}{{ b }}{% endmacro %}"
           "{{ f(1) }}{{ f(1, b=2) }}{{ f(b=3, a=4) }}",
           "{}", "1y1243");
    expect("{% macro box() %}[{{ caller() }}]{% endmacro %}"
           "{% call box() %}in{% endcall %}",
           "{}", "[in]");
    expect("{% macro r(n) %}{{ n }}{% if n > 0 %}{{ r(n - 1) }}{% endif %}"
           "{% endmacro %}{{ r(3) }}",
           "{}", "3210");
    expect("{% filter upper %}a{{ 'b' }}{% endfilter %}", "{}", "AB");
}

/* --- refusals -------------------------------------------------------------*/

static void
errors_name_the_line(void **state)
{
    (void)state;
    expect_refused("a\n{{ x.y }}", "{}", "line 2");
    expect_refused("a\n\n{% if %}", "{}", "line 3");
    expect_refused("{{ 1 | nosuch }}", "{}", "filter nosuch");
    expect_refused("{% include 'x' %}", "{}", "known statement");
    expect_refused("{{ 'a' + 1 }}", "{}", "a string and an integer");
    expect_refused("{{ x + 'a' }}", "{}", "x is undefined");
    expect_refused("{% if true %}", "{}", "expected elif");
    expect_refused("{{ raise_exception('Only users') }}", "{}", "Only users");
}

static void
endless_templates_end(void **state)
{
    (void)state;
    expect_refused("{% for i in range(100000) %}{% for j in range(100000) %}"
                   "{% endfor %}{% endfor %}",
                   "{}", "takes more than");
    expect_refused("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "{}",
                   "deep");
    expect_refused("{% set n = namespace(s='xxxxxxxxxxxxxxxx') %}"
                   "{% for i in range(60) %}{% set n.s = n.s ~ n.s %}"
                   "{% endfor %}",
                   "{}", "larger");
    expect_refused("{% for i in range(1000000) %}xxxxxxxxxx{% endfor %}", "{}",
                   "writes more");
    expect_refused("{% set n = namespace(l=[]) %}{% for i in range(90000) %}"
                   "{% set n.l = [n.l, n.l] %}{% endfor %}{{ n.l }}",
                   "{}", "writes more");
}

/* A short template may handle large texts and lists: what that takes counts. */
static void
work_on_large_values_counts(void **state)
{
    static const char *const setup =
        "{% set big = 'x' * 1048576 * 31 %}{% set list = range(524288) | list "
        "%}{% set same = range(524288) | list %}";
    static const char *const expressions[] = {
        "big | length == 1",
        "big is eq(big)",
        "big.find('y')",
        "('1' * 1048576).isdigit()",
        "(' ' * 1048576).strip()",
        "list == same",
        "list | max",
        "{big: 1}[big]",
        "[big, big] | sort(case_sensitive=true)",
    };
    struct buf source;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(expressions); i++) {
        buf_init(&source, FILE_MAX_BYTES);
        buf_printf(&source,
                   "%s{%% for i in range(1000) %%}{%% for j in range(1000) %%}"
                   "{%% set x = %s %%}{%% endfor %%}{%% endfor %%}",
                   setup, expressions[i]);
        expect_refused(source.data, "{}", "takes more than");
        buf_clear(&source);
    }
    /* One search alone, which nearly matches everywhere. */
    expect_refused("{% set a = 'a' * 1048576 * 8 %}{% set b = 'a' * 1048576 * 4"
                   " ~ 'b' %}{{ b in a }}",
                   "{}", "takes more than");
    expect_refused("{% set a = 'a' * 1048576 * 8 %}{% set b = 'a' * 1048576 * 4"
                   " ~ 'b' %}{{ a.replace(b, '') }}",
                   "{}", "takes more than");
}

static void
ranges_without_an_absolute_value_are_refused(void **state)
{
    static const char *const least = "{\"x\": -9223372036854775808}";

    (void)state;
    expect_refused("{{ range(x, 0) | length }}", least, "range of more");
    expect_refused("{{ range(0, x) | length }}", least, "range of more");
    expect_refused("{{ range(5, 0, x) | length }}", least, "range of more");
    expect_refused("{{ range(-1048576, 1048576) | length }}", "{}",
                   "range of more");
    expect("{{ range(-1048576, 0) | length }}", "{}", "1048576");
    expect("{{ range(3, -3, -2) | list }}", "{}", "[3, 1, -1]");
}

static void
deep_nesting_is_refused(void **state)
{
    struct buf source;

    (void)state;
    buf_init(&source, FILE_MAX_BYTES);
    buf_append_text(&source, "{{ ");
    for (int i = 0; i < 100000; i++)
        buf_append_char(&source, '(');
    expect_refused(source.data, "{}", "deep");
    buf_reset(&source);
    for (int i = 0; i < 10000; i++)
        buf_append_text(&source, "{% if true %}");
    expect_refused(source.data, "{}", "deep");
    buf_reset(&source);
    buf_append_text(&source, "{{ 1");
    for (int i = 0; i < 100000; i++)
        buf_append_text(&source, "+1");
    buf_append_text(&source, " }}");
    expect_refused(source.data, "{}", "deep");
    buf_clear(&source);
}

static void
the_named_default_and_the_file_are_found(void **state)
{
    static const char config[] =
        "{\"chat_template\":[{\"name\":\"tool\",\"template\":\"t\"},"
        "{\"name\":\"default\",\"template\":\"{{ bos_token }}d\"}],"
        "\"bos_token\":{\"content\":\"<b>\"}}";
    struct template *template = NULL;
    struct json_doc doc = {0};
    struct error err = {0};
    struct buf out;

    (void)state;
    buf_init(&out, OUT_MAX_BYTES);
    assert_int_equal(json_doc_parse(config, strlen(config), &doc, &err),
                     STATUS_OK);
    assert_int_equal(template_from_files(doc.root, "j", 1, &template, &err),
                     STATUS_OK);
    assert_int_equal(template_render(template, NULL, &out, &err), STATUS_OK);
    assert_string_equal(out.data, "<b>d");
    template_free(template);
    buf_reset(&out);
    assert_int_equal(template_from_files(NULL, "j", 1, &template, &err),
                     STATUS_OK);
    assert_int_equal(template_render(template, NULL, &out, &err), STATUS_OK);
    assert_string_equal(out.data, "j");
    template_free(template);
    assert_int_equal(template_from_files(NULL, NULL, 0, &template, &err),
                     STATUS_NOT_FOUND);
    json_doc_clear(&doc);
    buf_clear(&out);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_of_six_families_render_as_jinja2_does),
        cmocka_unit_test(the_demo_model_s_prompts_are_those_of_its_reference),
        cmocka_unit_test(
            blanks_around_tags_go_as_trim_blocks_and_lstrip_blocks_say),
        cmocka_unit_test(values_are_written_as_python_writes_them),
        cmocka_unit_test(sequences_are_of_characters_and_indexed_as_in_python),
        cmocka_unit_test(filters_do_what_jinja2_documents),
        cmocka_unit_test(
            sets_in_loops_end_with_the_round_and_namespaces_outlive_it),
        cmocka_unit_test(macros_take_defaults_names_and_callers),
        cmocka_unit_test(errors_name_the_line),
        cmocka_unit_test(endless_templates_end),
        cmocka_unit_test(work_on_large_values_counts),
        cmocka_unit_test(ranges_without_an_absolute_value_are_refused),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(the_named_default_and_the_file_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
