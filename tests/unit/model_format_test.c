/* model_format_test.c - the table of families: found by their templates, read
 * back what templates render, and listed in the documents. */
#include "model/format.h"

#include <stdio.h>

#include "model/template.h"
#include "tests/unit/model_answer.h"

#include "common/banned.h"

static int
set_up(void **state)
{
    (void)state;
    return tiny_tokenizer_read();
}

static int
tear_down(void **state)
{
    (void)state;
    tokenizer_free(tokenizer);
    return 0;
}

/* What follows the begin of a call that every family with calls would get. */
static void
a_call_begun_in_the_prompt_is_read_on(void **state)
{
    (void)state;
    for (size_t i = 0; format_at(i) != NULL; i++) {
        const struct format *format = format_at(i);
        struct output_rules rules = rules_of(format->name);
        const char *rest = format->syntax == FORMAT_TAGS ? "" : "{}";
        struct answer answer;
        struct buf begin;

        if (format->syntax == FORMAT_NONE)
            continue;
        buf_init(&begin, OUT_MAX_BYTES);
        rules.thinks = format->markers[FORMAT_THINK_OPEN] != NULL;
        format_call_begin(format, rules.thinks, "list_files", 3, &begin);
        rules.prefix = begin.data;
        read_text(&rules, rest, strlen(rest), NULL, false, &answer);
        print_message("%s\n", format->name);
        assert_int_equal(answer.calls, 1);
        assert_string_equal(answer.names[0].data, "list_files");
        assert_string_equal(answer.arguments[0].data, "{}");
        assert_string_equal(answer.content.data, "");
        assert_int_equal(answer.finish, OUTPUT_CALLS);
        if (format->id == FORMAT_ID_OWN)
            assert_string_equal(answer.ids[0].data, "functions.list_files:3");
        answer_clear(&answer);
        buf_clear(&begin);
    }
}

/* Our own rendering of a message with a call, between two messages of the
 * user, read back: the text behind @begin up to @end. */
static void
what_a_template_renders_is_read_back(void **state)
{
    static const struct {
        const char *file, *begin, *end;
    } templates[] = {
        {"qwen", "<|im_start|>assistant\n", "<|im_end|>"},
        {"glm", "<|assistant|>", "<|observation|>"},
        {"llama", "<|start_header_id|>assistant<|end_header_id|>\n\n",
         "<|eot_id|>"},
    };
    static const char chat[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":"
        "\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"a\",\"type\":"
        "\"function\",\"function\":{\"name\":\"get_weather\",\"arguments\":"
        "{\"city\":\"\\\"P\\\"\\n\",\"days\":[3,null]}}}]},{\"role\":\"tool\","
        "\"content\":\"21\",\"tool_call_id\":\"a\"}]}";
    struct json_doc doc = {0};
    const struct json *wanted;

    (void)state;
    assert_int_equal(json_doc_parse(chat, strlen(chat), &doc, NULL), STATUS_OK);
    wanted = json_get(
        json_get(json_at(json_get(json_at(json_get(doc.root, "messages"), 1),
                                  "tool_calls"),
                         0),
                 "function"),
        "arguments");
    for (size_t i = 0; i < COUNT_OF(templates); i++) {
        struct template *template = NULL;
        struct output_rules rules = rules_of("hermes");
        struct answer answer;
        struct buf text, rendered;
        char path[128];
        const char *begin, *end;

        snprintf(path, sizeof(path), "tests/golden/template/%s.jinja",
                 templates[i].file);
        buf_init(&text, OUT_MAX_BYTES);
        buf_init(&rendered, OUT_MAX_BYTES);
        assert_int_equal(buf_read_file(&text, path, NULL), STATUS_OK);
        assert_int_equal(template_parse(text.data, text.size, &template, NULL),
                         STATUS_OK);
        assert_int_equal(template_render(template, doc.root, &rendered, NULL),
                         STATUS_OK);
        begin = strstr(rendered.data, templates[i].begin);
        assert_non_null(begin);
        begin += strlen(templates[i].begin);
        end = strstr(begin, templates[i].end);
        assert_non_null(end);
        rules.format = format_find(text.data, text.size);
        read_text(&rules, begin, (size_t)(end - begin), NULL, false, &answer);
        assert_int_equal(answer.calls, 1);
        assert_string_equal(answer.names[0].data, "get_weather");
        assert_string_equal(answer.content.data, "");
        assert_arguments(&answer, 0, wanted);
        answer_clear(&answer);
        template_free(template);
        buf_clear(&text);
        buf_clear(&rendered);
    }
    json_doc_clear(&doc);
}

/* docs/api.md lists every family with the markers of its calls. */
static void
the_families_are_in_the_documents(void **state)
{
    struct buf page, row;

    (void)state;
    buf_init(&page, OUT_MAX_BYTES);
    buf_init(&row, OUT_MAX_BYTES);
    assert_int_equal(buf_read_file(&page, "docs/api.md", NULL), STATUS_OK);
    for (size_t i = 0; format_at(i) != NULL; i++) {
        const struct format *format = format_at(i);
        const char *const signs[] = {format->markers[FORMAT_THINK_OPEN],
                                     format->front};

        buf_reset(&row);
        buf_printf(&row, "\n| `%s` |", format->name);
        for (size_t j = 0; j < COUNT_OF(signs); j++) {
            buf_append_text(&row, signs[j] == NULL ? " |" : " `");
            for (const char *c = signs[j]; c != NULL && *c != '\0'; c++)
                if (*c == '\n')
                    buf_append_text(&row, "\\n");
                else
                    buf_append_char(&row, *c);
            buf_append_text(&row, signs[j] == NULL ? "" : "` |");
        }
        if (strstr(page.data, row.data) == NULL)
            fail_msg("docs/api.md has no%s", row.data);
    }
    buf_clear(&page);
    buf_clear(&row);
}

static void
a_family_is_found_by_its_template(void **state)
{
    static const struct {
        const char *file, *name;
    } templates[] = {
        {"qwen", "hermes"},     {"glm", "glm"},        {"llama", "llama"},
        {"harmony", "harmony"}, {"deepseek", "think"}, {"mistral", NULL},
    };
    static const char *const sources[][2] = {
        {"'[TOOL_CALLS]' + name + '[ARGS]'", "mistral"},
        {"[TOOL_CALLS] [", "mistral-list"},
        {"<tool_call>\n<function=", "qwen-tags"},
        {"<|tool_calls_section_begin|>", "kimi"},
        {"<\xef\xbd\x9ctool\xe2\x96\x81"
         "calls\xe2\x96\x81"
         "begin\xef\xbd\x9c>```json",
         "deepseek"},
        {"<\xef\xbd\x9ctool\xe2\x96\x81"
         "calls\xe2\x96\x81"
         "begin\xef\xbd\x9c>",
         "deepseek-3.1"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(templates); i++) {
        const struct format *format;
        struct buf text;
        char path[128];

        snprintf(path, sizeof(path), "tests/golden/template/%s.jinja",
                 templates[i].file);
        buf_init(&text, OUT_MAX_BYTES);
        assert_int_equal(buf_read_file(&text, path, NULL), STATUS_OK);
        format = format_find(text.data, text.size);
        assert_int_equal(format == NULL, templates[i].name == NULL);
        if (format != NULL)
            assert_string_equal(format->name, templates[i].name);
        buf_clear(&text);
    }
    for (size_t i = 0; i < COUNT_OF(sources); i++) {
        const struct format *format =
            format_find(sources[i][0], strlen(sources[i][0]));

        assert_non_null(format);
        assert_string_equal(format->name, sources[i][1]);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_family_is_found_by_its_template),
        cmocka_unit_test(a_call_begun_in_the_prompt_is_read_on),
        cmocka_unit_test(what_a_template_renders_is_read_back),
        cmocka_unit_test(the_families_are_in_the_documents),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
