/* coordinator_prepare_tools_test.c - tools and the messages about them: what
 * reaches the template, and each mistake by its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coordinator/models.h"
#include "coordinator/prepare.h"
#include "tests/unit/coordinator_app.h"

#include "common/banned.h"

enum { TEXT_MAX_BYTES = 1 << 20 };

#define TOOLS                                                                  \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\"" \
    ",\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{\"type\":" \
    "\"string\"},\"days\":{\"type\":\"integer\"}}}}},{\"type\":\"function\","  \
    "\"function\":{\"name\":\"bye\"}}]"
#define ASK "{\"role\":\"user\",\"content\":\"Well?\"}"
#define CALL(id)                                                               \
    "{\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":"         \
    "\"get_weather\",\"arguments\":\"{\\\"city\\\":\\\"Paris\\\"}\"}}"
#define CALLED(calls)                                                          \
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[" calls "]}"
#define TOOL(id)                                                               \
    "{\"role\":\"tool\",\"tool_call_id\":\"" id "\",\"content\":\"21\"}"

static struct app app;
static struct model *model; /* borrowed from the catalogue */
static struct prepared prepared;
static struct error err;

static int
template_use(const char *path)
{
    struct buf text;
    struct template *template = NULL;
    enum status status;

    buf_init(&text, TEXT_MAX_BYTES);
    status = buf_read_file(&text, path, NULL);
    template_free(model->template);
    model->template = NULL;
    if (status == STATUS_OK)
        status = template_parse(text.data, text.size, &template, NULL);
    buf_clear(&text);
    if (status != STATUS_OK)
        return -1;
    model_template_set(model, template);
    return 0;
}

static int
start(void **state)
{
    (void)state;
    model = tiny_app_init(&app);
    return model == NULL ? -1
                         : template_use("tests/golden/template/qwen.jinja");
}

static int
stop(void **state)
{
    (void)state;
    snapshots_free(app.snapshots);
    return 0;
}

static enum status
prepare(const char *messages, const char *more)
{
    static const char job[] = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f";
    struct json_doc doc = {0};
    struct prepare from = {.app = &app, .key = job, .job = job, .chat = true};
    struct buf body;
    enum status status;

    buf_init(&body, TEXT_MAX_BYTES);
    buf_printf(&body, "{\"model\":\"tiny-chat\",\"messages\":[%s]%s%s}",
               messages, more[0] == '\0' ? "" : ",", more);
    memset(&err, 0, sizeof(err));
    memset(&prepared, 0, sizeof(prepared));
    assert_int_equal(json_doc_parse(body.data, body.size, &doc, &err),
                     STATUS_OK);
    from.body = doc.root;
    status = prepare_job(&from, &prepared, &err);
    json_doc_clear(&doc);
    buf_clear(&body);
    return status;
}

/* The prompt's text of a request that must become a job. */
static void
prompt_of(const char *messages, const char *more, struct buf *text)
{
    if (prepare(messages, more) != STATUS_OK)
        fail_msg("%s", err.text);
    buf_init(text, TEXT_MAX_BYTES);
    for (size_t i = 0; i < prepared.job->prompt_count; i++)
        (void)tokenizer_append(model->tokenizer, prepared.job->prompt[i], true,
                               text);
}

static void
holds(const char *messages, const char *more, const char *wanted)
{
    struct buf text;

    prompt_of(messages, more, &text);
    if (strstr(text.data, wanted) == NULL)
        fail_msg("%s\nis not in\n%s", wanted, text.data);
    job_free(prepared.job);
    buf_clear(&text);
}

static void
tools_reach_the_template_and_the_output(void **state)
{
    static const char noted[] = "get_weather\0city\0\0bye\0";
    struct buf text;

    (void)state;
    prompt_of(ASK, TOOLS, &text);
    assert_non_null(strstr(text.data, "{\"type\": \"function\", \"function\": "
                                      "{\"name\": \"get_weather\""));
    assert_true(prepared.job->rules.calls);
    assert_false(prepared.job->rules.one_call);
    assert_string_equal(prepared.job->rules.format->name, "hermes");
    assert_int_equal(prepared.job->rules.tools_size, sizeof(noted));
    assert_memory_equal(prepared.job->tools, noted, sizeof(noted));
    job_free(prepared.job);
    buf_clear(&text);
    prompt_of(ASK, TOOLS ",\"tool_choice\":\"none\"", &text);
    assert_null(strstr(text.data, "get_weather"));
    assert_false(prepared.job->rules.calls);
    job_free(prepared.job);
    buf_clear(&text);
    prompt_of(ASK, TOOLS ",\"parallel_tool_calls\":false", &text);
    assert_true(prepared.job->rules.one_call);
    job_free(prepared.job);
    buf_clear(&text);
}

static void
ends_with(const char *messages, const char *more, const char *wanted)
{
    struct buf text;

    prompt_of(messages, more, &text);
    assert_true(text.size > strlen(wanted));
    assert_string_equal(text.data + text.size - strlen(wanted), wanted);
    assert_string_equal(prepared.job->rules.prefix,
                        strstr(wanted, "<tool_call>"));
    job_free(prepared.job);
    buf_clear(&text);
}

static void
a_forced_call_is_begun_in_the_prompt(void **state)
{
    (void)state;
    ends_with(ASK, TOOLS ",\"tool_choice\":\"required\"",
              "<|im_start|>assistant\n<tool_call>\n{\"name\": \"");
    ends_with(ASK,
              TOOLS ",\"tool_choice\":{\"type\":\"function\",\"function\":{"
                    "\"name\":\"bye\"}}",
              "<|im_start|>assistant\n<tool_call>\n{\"name\": \"bye\", "
              "\"arguments\":");
    assert_int_equal(prepare(ASK, TOOLS ",\"tool_choice\":{\"type\":"
                                        "\"function\",\"function\":{"
                                        "\"name\":\"bye\"}}"),
                     STATUS_OK);
    assert_true(prepared.job->rules.one_call);
    job_free(prepared.job);
}

static void
calls_and_their_results_are_rendered(void **state)
{
    (void)state;
    holds(ASK "," CALLED(CALL("c1")) "," TOOL("c1"), TOOLS,
          "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": "
          "{\"city\": \"Paris\"}}\n</tool_call><|im_end|>");
    holds(ASK "," CALLED(CALL("c1") "," CALL("c2")) "," TOOL("c2") "," TOOL(
              "c1") "," ASK,
          "", "<tool_response>\n21\n</tool_response>");
    holds(ASK ",{\"role\":\"assistant\",\"content\":\"Hi\",\"tool_calls\":[],"
              "\"reasoning_content\":\"Hm.\"}",
          "", "<think>\nHm.\n</think>\n\nHi");
}

static void
template_variables_may_be_set_but_for_our_own(void **state)
{
    struct buf text;

    (void)state;
    holds(ASK, "\"chat_template_kwargs\":{\"enable_thinking\":false}",
          "<think>\n\n</think>\n\n");
    assert_int_equal(prepare(ASK, "\"chat_template_kwargs\":{\"messages\":[]}"),
                     STATUS_INVALID);
    assert_string_equal(err.param, "chat_template_kwargs");
    assert_int_equal(prepare(ASK, "\"chat_template_kwargs\":[1]"),
                     STATUS_INVALID);
    assert_int_equal(prepare(ASK, "\"reasoning_effort\":3"), STATUS_INVALID);
    assert_string_equal(err.param, "reasoning_effort");
    prompt_of(ASK, "", &text);
    assert_false(prepared.job->rules.thinks);
    job_free(prepared.job);
    buf_clear(&text);
}

static void
each_mistake_names_its_place(void **state)
{
    static const struct {
        const char *messages, *more, *param;
    } cases[] = {
        {ASK, "\"tools\":{}", "tools"},
        {ASK, "\"tools\":[1]", "tools[0]"},
        {ASK, "\"tools\":[{\"type\":\"web_search\"}]", "tools[0]"},
        {ASK,
         "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a b\"}}]",
         "tools[0]"},
        {ASK,
         "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a\"}},"
         "{\"type\":\"function\",\"function\":{\"name\":\"a\"}}]",
         "tools[1]"},
        {ASK,
         "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a\","
         "\"parameters\":[]}}]",
         "tools[0]"},
        {ASK, TOOLS ",\"tool_choice\":\"sometimes\"", "tool_choice"},
        {ASK, TOOLS ",\"parallel_tool_calls\":1", "parallel_tool_calls"},
        {ASK, "\"tool_choice\":\"required\"", "tool_choice"},
        {ASK, TOOLS ",\"tool_choice\":{\"type\":\"function\"}", "tool_choice"},
        {ASK,
         TOOLS ",\"tool_choice\":{\"type\":\"function\",\"function\":{"
               "\"name\":\"x\"}}",
         "tool_choice"},
        {ASK "," TOOL("c1"), "", "messages[1].tool_call_id"},
        {ASK "," CALLED(CALL("c1")) "," TOOL("c2"), "",
         "messages[2].tool_call_id"},
        {ASK "," CALLED(CALL("c1")) "," TOOL("c1") "," TOOL("c1"), "",
         "messages[3].tool_call_id"},
        {ASK "," CALLED(CALL("c1")) "," ASK, "", "messages"},
        {ASK "," CALLED(CALL("c1")), "", "messages"},
        {ASK "," CALLED(CALL("c1") "," CALL("c1")), "",
         "messages[1].tool_calls[1]"},
        {ASK "," CALLED("1"), "", "messages[1].tool_calls[0]"},
        {ASK "," CALLED("{\"id\":\"x\",\"type\":\"function\",\"function\":{"
                        "\"name\":\"f\",\"arguments\":\"[1]\"}}"),
         "", "messages[1].tool_calls[0]"},
        {ASK "," CALLED("{\"id\":\"x\",\"type\":\"function\",\"function\":{"
                        "\"name\":\"f\",\"arguments\":{}}}"),
         "", "messages[1].tool_calls[0]"},
        {ASK ",{\"role\":\"assistant\",\"content\":\"x\",\"tool_calls\":{}}",
         "", "messages[1].tool_calls"},
        {ASK ",{\"role\":\"assistant\",\"content\":\"x\",\"reasoning_content\":"
             "5}",
         "", "messages[1].reasoning_content"},
        {ASK ",{\"role\":\"function\",\"content\":\"x\"}", "", "messages[1]"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        print_message("%zu\n", i);
        assert_int_equal(prepare(cases[i].messages, cases[i].more),
                         STATUS_INVALID);
        assert_string_equal(err.param, cases[i].param);
    }
}

static void
a_template_without_tools_refuses_them(void **state)
{
    (void)state;
    assert_int_equal(template_use("tests/golden/template/deepseek.jinja"), 0);
    assert_int_equal(prepare(ASK, TOOLS), STATUS_INVALID);
    assert_string_equal(err.param, "tools");
    assert_string_equal(err.code, "unsupported_parameter");
    assert_non_null(strstr(err.text, "chat template of tiny-chat"));
    assert_int_equal(prepare(ASK "," TOOL("c1"), ""), STATUS_INVALID);
    assert_string_equal(err.code, "unsupported_parameter");
    /* Known to the template, but the form of the calls is not known. */
    model->knows_tools = true;
    model->format = NULL;
    assert_int_equal(prepare(ASK, TOOLS), STATUS_INVALID);
    assert_string_equal(err.param, "tools");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tools_reach_the_template_and_the_output),
        cmocka_unit_test(a_forced_call_is_begun_in_the_prompt),
        cmocka_unit_test(calls_and_their_results_are_rendered),
        cmocka_unit_test(template_variables_may_be_set_but_for_our_own),
        cmocka_unit_test(each_mistake_names_its_place),
        cmocka_unit_test(a_template_without_tools_refuses_them),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
