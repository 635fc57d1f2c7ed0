/* coordinator_prepare_test.c - requests that become jobs, and exactly why the
 * others do not. */
#include "coordinator/prepare.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/coordinator_app.h"

#include "common/banned.h"

#define SUM                                                                    \
    "\"messages\":[{\"role\":\"user\",\"content\":\"What is 17 plus 25?\"}]"
#define WITH(fields) "{\"model\":\"tiny-chat\"," SUM "," fields "}"
#define BERTH(fields) WITH("\"berth\":{" fields "}")

static struct app app;
static struct prepared prepared;
static struct error err;
static struct prepare_headers headers;

static int
start(void **state)
{
    (void)state;
    return tiny_app_init(&app) == NULL ? -1 : 0;
}

static int
stop(void **state)
{
    (void)state;
    snapshots_free(app.snapshots);
    return 0;
}

static int
fresh(void **state)
{
    (void)state;
    memset(&headers, 0, sizeof(headers));
    return 0;
}

static enum status
prepare(bool chat, const char *body)
{
    struct json_doc doc = {0};
    struct prepare from = {
        .app = &app,
        .account = 1,
        .wallet = 2,
        .key = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
        .chat = chat,
        .headers = headers,
    };
    enum status status;

    memset(&err, 0, sizeof(err));
    memset(&prepared, 0, sizeof(prepared));
    assert_int_equal(json_doc_parse(body, strlen(body), &doc, &err), STATUS_OK);
    from.body = doc.root;
    from.berth = json_get(doc.root, "berth");
    status = prepare_job(&from, &prepared, &err);
    json_doc_clear(&doc);
    return status;
}

/* A request that must become a job; freed by drop(). */
static struct job *
made(bool chat, const char *body)
{
    if (prepare(chat, body) != STATUS_OK)
        fail_msg("%s: %s", body, err.text);
    return prepared.job;
}

static void
drop(void)
{
    job_free(prepared.job);
    prepared.job = NULL;
}

static void
a_chat_becomes_the_ids_of_the_reference(void **state)
{
    const struct job *job = made(true, WITH("\"temperature\":0"));

    (void)state;
    assert_int_equal(job->prompt_count, SUM_PROMPT_IDS);
    assert_memory_equal(job->prompt, sum_prompt, sizeof(sum_prompt));
    assert_int_equal(job->rules.max_tokens, TINY_CONTEXT - SUM_PROMPT_IDS);
    assert_int_equal(job->rules.end_ids[0], 2047);
    assert_true(job->sampling.temperature == 0);
    assert_string_equal(job->pool, "public");
    assert_int_equal(span_as_ms(job->patience), 60000);
    drop();
}

static void
text_parts_are_one_text(void **state)
{
    const struct job *job =
        made(true, "{\"model\":\"tiny-chat\",\"messages\":[{\"role\":\"user\","
                   "\"content\":[{\"type\":\"text\",\"text\":\"What is 17 \"},"
                   "{\"type\":\"text\",\"text\":\"plus 25?\"}]}]}");

    (void)state;
    assert_int_equal(job->prompt_count, SUM_PROMPT_IDS);
    assert_memory_equal(job->prompt, sum_prompt, sizeof(sum_prompt));
    drop();
}

static void
a_prompt_may_be_text_or_ids(void **state)
{
    static const char *const forms[] = {
        "{\"model\":\"tiny-chat\",\"prompt\":[16,22,297]}",
        "{\"model\":\"tiny-chat\",\"prompt\":[[16,22,297]]}",
        "{\"model\":\"tiny-chat\",\"prompt\":\"17 plus\"}",
        "{\"model\":\"tiny-chat\",\"prompt\":[\"17 plus\"]}",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(forms); i++) {
        const struct job *job = made(false, forms[i]);

        assert_int_equal(job->prompt_count, 3);
        assert_memory_equal(job->prompt, sum_answer, 3 * sizeof(uint32_t));
        drop();
    }
}

/* By hand from price.h and revision 1 (250,000 ucr a TFLOP, 10,000 a GB, at
 * least 1,000), class 1000:
 *   F = 18*10^7 + 1000*18^2 = 180,324,000 FLOP          ->      45.08 ucr
 *   D = 2030*10^7 + 1000*(2030*18 + 2030*2031/2)
 *     = 22,398,005,000 bytes                            -> 223,980.05 ucr */
static void
the_hold_is_the_price_of_the_longest_answer(void **state)
{
    (void)state;
    assert_int_equal(made(true, WITH("\"max_tokens\":1"))->hold.micro, 1000);
    drop();
    assert_int_equal(made(true, WITH("\"stream\":false"))->hold.micro, 224026);
    drop();
}

static void
sampling_is_taken_as_asked(void **state)
{
    const struct job *job = made(
        true, WITH("\"temperature\":0.5,\"top_p\":0.25,\"top_k\":7,\"seed\":-1,"
                   "\"stop\":[\"a\",\"b\"],\"max_completion_tokens\":5"));

    (void)state;
    assert_true(job->sampling.temperature == 0.5 &&
                job->sampling.top_p == 0.25);
    assert_int_equal(job->sampling.top_k, 7);
    assert_true(job->sampling.seed == INT64_MAX);
    assert_int_equal(job->rules.stop_count, 2);
    assert_string_equal(job->rules.stop[1], "b");
    assert_int_equal(job->rules.max_tokens, 5);
    drop();
}

static void
a_drawn_seed_has_63_bits_and_is_the_jobs(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        const struct job *job = made(true, WITH("\"seed\":null"));

        assert_true(job->sampling.seed <= INT64_MAX);
        assert_true(job->sampling.seed == job_drawn_seed(job->id));
        drop();
    }
}

static void
stream_and_usage_are_told(void **state)
{
    (void)state;
    made(true, WITH("\"stream\":true,\"stream_options\":{\"include_usage\":"
                    "true,\"include_obfuscation\":false}"));
    assert_true(prepared.stream && prepared.include_usage);
    drop();
}

static void
what_changes_nothing_is_ignored(void **state)
{
    static const char *const fields[] = {
        "\"user\":\"u\",\"metadata\":{\"a\":\"b\"},\"store\":true,"
        "\"service_tier\":\"auto\",\"parallel_tool_calls\":true,"
        "\"reasoning_effort\":\"low\",\"stream_options\":null",
        "\"n\":1,\"logprobs\":false,\"top_logprobs\":0,\"presence_penalty\":0,"
        "\"frequency_penalty\":0.0,\"repetition_penalty\":1.0,\"logit_bias\":"
        "{},\"min_p\":0,\"tools\":[],\"tool_choice\":\"none\",\"functions\":"
        "null,\"response_format\":{\"type\":\"text\"},\"modalities\":"
        "[\"text\"],\"audio\":null,\"stop\":null,\"max_tokens\":null",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        char body[1024];

        snprintf(body, sizeof(body), "{\"model\":\"tiny-chat\"," SUM ",%s}",
                 fields[i]);
        (void)made(true, body);
        drop();
    }
}

static void
what_no_engine_can_do_yet_is_refused_by_name(void **state)
{
    static const char *const cases[][2] = {
        {"n", "2"},
        {"logprobs", "true"},
        {"top_logprobs", "3"},
        {"presence_penalty", "0.5"},
        {"frequency_penalty", "-1"},
        {"repetition_penalty", "1.1"},
        {"logit_bias", "{\"5\":1}"},
        {"min_p", "0.1"},
        {"tools", "[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]"},
        {"functions", "[{}]"},
        {"response_format", "{\"type\":\"json_object\"}"},
        {"modalities", "[\"audio\"]"},
        {"audio", "{}"},
        {"prediction", "{}"},
        {"web_search_options", "{}"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char body[512];

        snprintf(body, sizeof(body),
                 "{\"model\":\"tiny-chat\"," SUM ",\"%s\":%s}", cases[i][0],
                 cases[i][1]);
        assert_int_equal(prepare(true, body), STATUS_INVALID);
        assert_string_equal(err.param, cases[i][0]);
        assert_string_equal(err.code, "unsupported_parameter");
        assert_non_null(strstr(err.text, cases[i][0]));
    }
}

static void
each_mistake_names_its_field(void **state)
{
    static const struct {
        bool chat;
        const char *body, *param, *code;
    } cases[] = {
        {true, "{}", "model", ""},
        {true, "{\"model\":\"tiny-chat\"}", "messages", ""},
        {true, "{\"model\":\"tiny-chat\",\"messages\":[]}", "messages", ""},
        {true, "{\"model\":\"tiny-chat\",\"messages\":[1]}", "messages[0]", ""},
        {true,
         "{\"model\":\"tiny-chat\",\"messages\":[{\"role\":\"user\",\"content\""
         ":\"x\"},{\"role\":\"tool\",\"content\":\"x\"}]}",
         "messages[1]", "unsupported_parameter"},
        {true,
         "{\"model\":\"tiny-chat\",\"messages\":[{\"role\":\"judge\","
         "\"content\":\"x\"}]}",
         "messages[0]", ""},
        {true,
         "{\"model\":\"tiny-chat\",\"messages\":[{\"role\":\"user\","
         "\"content\":null}]}",
         "messages[0].content", ""},
        {true, WITH("\"temperature\":2.1"), "temperature", ""},
        {true, WITH("\"temperature\":\"hot\""), "temperature", ""},
        {true, WITH("\"top_p\":0"), "top_p", ""},
        {true, WITH("\"top_k\":-1"), "top_k", ""},
        {true, WITH("\"seed\":1.5"), "seed", ""},
        {true, WITH("\"stop\":\"\""), "stop", ""},
        {true, WITH("\"stop\":[\"1\",\"2\",\"3\",\"4\",\"5\"]"), "stop", ""},
        {true, WITH("\"stream\":1"), "stream", ""},
        {true, WITH("\"max_tokens\":0"), "max_tokens", ""},
        {true, WITH("\"max_tokens\":3,\"max_completion_tokens\":4"),
         "max_tokens", ""},
        {true, WITH("\"max_tokens\":2031"), "messages",
         "context_length_exceeded"},
        {true, BERTH("\"pol\":\"x\""), "berth", ""},
        {true, BERTH("\"class\":\"slow\""), "class", ""},
        {true, BERTH("\"private\":true"), "private", ""},
        {true, BERTH("\"patience_ms\":600001"), "patience_ms", ""},
        {false, "{\"model\":\"tiny-chat\"}", "prompt", ""},
        {false, "{\"model\":\"tiny-chat\",\"prompt\":\"\"}", "prompt", ""},
        {false, "{\"model\":\"tiny-chat\",\"prompt\":[2048]}", "prompt", ""},
        {false, "{\"model\":\"tiny-chat\",\"prompt\":[1,\"x\"]}", "prompt", ""},
        {false, "{\"model\":\"tiny-chat\",\"prompt\":[\"a\",\"b\"]}", "prompt",
         "unsupported_parameter"},
        {false, "{\"model\":\"tiny-chat\",\"prompt\":\"a\",\"echo\":true}",
         "echo", "unsupported_parameter"},
        {false, "{\"model\":\"tiny-chat\",\"prompt\":\"a\",\"best_of\":2}",
         "best_of", "unsupported_parameter"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        if (prepare(cases[i].chat, cases[i].body) != STATUS_INVALID)
            fail_msg("taken: %s", cases[i].body);
        assert_string_equal(err.param, cases[i].param);
        assert_string_equal(err.code, cases[i].code);
        assert_null(prepared.job);
    }
}

static void
an_unknown_model_is_not_found(void **state)
{
    (void)state;
    assert_int_equal(prepare(true, "{\"model\":\"gpt-4\"," SUM "}"),
                     STATUS_NOT_FOUND);
    assert_string_equal(err.code, "model_not_found");
    assert_non_null(strstr(err.text, "/v1/models"));
}

static void
exactly_the_context_fits(void **state)
{
    (void)state;
    assert_int_equal(made(true, WITH("\"max_tokens\":2030"))->rules.max_tokens,
                     2030);
    drop();
}

static void
a_header_wins_over_the_body(void **state)
{
    const struct job *job;

    (void)state;
    headers.pool = "mine";
    headers.patience_ms = "5";
    headers.private = "true";
    job = made(true, BERTH("\"pool\":\"theirs\",\"patience_ms\":9000,"
                           "\"class\":\"batch\",\"private\":false"));
    assert_string_equal(job->pool, "mine");
    assert_int_equal(span_as_ms(job->patience), 5);
    drop();
    headers.patience_ms = "soon";
    assert_int_equal(prepare(true, WITH("\"n\":1")), STATUS_INVALID);
    assert_string_equal(err.param, "X-Berth-Patience-Ms");
}

static void
a_deadline_caps_the_patience(void **state)
{
    (void)state;
    assert_int_equal(
        span_as_ms(made(true, BERTH("\"deadline_ms\":70"))->patience), 70);
    drop();
    assert_int_equal(
        span_as_ms(made(true, BERTH("\"class\":\"batch\""))->patience), 600000);
    drop();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chat_becomes_the_ids_of_the_reference),
        cmocka_unit_test(text_parts_are_one_text),
        cmocka_unit_test(a_prompt_may_be_text_or_ids),
        cmocka_unit_test(the_hold_is_the_price_of_the_longest_answer),
        cmocka_unit_test(sampling_is_taken_as_asked),
        cmocka_unit_test(a_drawn_seed_has_63_bits_and_is_the_jobs),
        cmocka_unit_test(stream_and_usage_are_told),
        cmocka_unit_test(what_changes_nothing_is_ignored),
        cmocka_unit_test(what_no_engine_can_do_yet_is_refused_by_name),
        cmocka_unit_test(each_mistake_names_its_field),
        cmocka_unit_test(an_unknown_model_is_not_found),
        cmocka_unit_test(exactly_the_context_fits),
        cmocka_unit_test_setup(a_header_wins_over_the_body, fresh),
        cmocka_unit_test_setup(a_deadline_caps_the_patience, fresh),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
