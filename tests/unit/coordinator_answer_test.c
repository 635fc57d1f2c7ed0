/* coordinator_answer_test.c - the exact texts that OpenAI's clients read. */
#include "coordinator/answer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/banned.h"

/* The UUIDv7 of RFC 9562, appendix A.6: 2022-02-22T19:22:22Z. */
static const char rfc_uuid[] = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f";
static struct answer answer;
static struct buf out;

static int
start(void **state)
{
    (void)state;
    buf_init(&out, 4096);
    answer_init(&answer, rfc_uuid, true, "m");
    return 0;
}

static int
stop(void **state)
{
    (void)state;
    buf_clear(&out);
    return 0;
}

static void
content_put(const char *text)
{
    const struct record_event event = {.kind = RECORD_CONTENT,
                                       .text_size = strlen(text)};

    answer_event(&answer, &event, text, &out);
}

static void
body_put(const char *content, const char *reasoning, const char *calls,
         const struct record_end *end)
{
    struct message message;

    message_init(&message);
    buf_append_text(&message.content, content);
    buf_append_text(&message.reasoning, reasoning);
    buf_append_text(&message.calls, calls);
    answer_body(&answer, &message, end, &out);
    message_clear(&message);
}

static void
id_and_time_follow_from_the_job(void **state)
{
    (void)state;
    assert_string_equal(answer.id, "chatcmpl-017f22e279b07cc398c4dc0c0c07398f");
    assert_int_equal(answer.created, 1645557742);
    answer_init(&answer, rfc_uuid, false, "m");
    assert_string_equal(answer.id, "cmpl-017f22e279b07cc398c4dc0c0c07398f");
}

#define HEAD(object)                                                           \
    "{\"id\":\"chatcmpl-017f22e279b07cc398c4dc0c0c07398f\",\"object\":"        \
    "\"" object "\",\"created\":1645557742,\"model\":\"m\",\"choices\":["

static void
chat_chunks_are_role_content_finish(void **state)
{
    (void)state;
    answer_first(&answer, &out);
    assert_string_equal(
        out.data,
        HEAD("chat.completion.chunk") "{\"index\":0,\"delta\":{\"role\":"
                                      "\"assistant\",\"content\":\"\"},"
                                      "\"logprobs\":null,\"finish_reason\":"
                                      "null}]}");
    buf_reset(&out);
    content_put("a\"b");
    assert_string_equal(
        out.data, HEAD("chat.completion.chunk") "{\"index\":0,\"delta\":{"
                                                "\"content\":\"a\\\"b\"},"
                                                "\"logprobs\":null,\"finish_"
                                                "reason\":null}]}");
    buf_reset(&out);
    answer_finish(&answer, "length", &out);
    assert_string_equal(
        out.data,
        HEAD("chat.completion.chunk") "{\"index\":0,\"delta\":{},\"logprobs\":"
                                      "null,"
                                      "\"finish_reason\":\"length\"}]}");
}

static void
asked_for_usage_is_null_until_the_last_chunk(void **state)
{
    const struct record_end end = {.prompt_tokens = 7, .completion_tokens = 5};

    (void)state;
    answer.usage = true;
    content_put("x");
    assert_non_null(strstr(out.data, "],\"usage\":null}"));
    buf_reset(&out);
    answer_usage(&answer, &end, &out);
    assert_string_equal(
        out.data,
        HEAD("chat.completion.chunk") "],\"usage\":{\"prompt_tokens\":7,"
                                      "\"completion_tokens\":5,\"total_"
                                      "tokens\":12}}");
}

static void
a_whole_chat_answer_has_message_and_usage(void **state)
{
    const struct record_end end = {
        .finish = "stop",
        .prompt_tokens = 1,
        .completion_tokens = 2,
    };

    (void)state;
    body_put("hi", "", "", &end);
    assert_string_equal(
        out.data, HEAD("chat.completion") "{\"index\":0,\"message\":{\"role\":"
                                          "\"assistant\",\"content\":\"hi\","
                                          "\"refusal\":null},\"logprobs\":null,"
                                          "\"finish_reason\":\"stop\"}],"
                                          "\"usage\":{\"prompt_tokens\":1,"
                                          "\"completion_tokens\":2,"
                                          "\"total_tokens\":3}}");
}

static void
calls_and_reasoning_are_deltas_of_their_own(void **state)
{
    static const struct {
        struct record_event event;
        const char *text, *delta;
    } deltas[] = {
        {{.kind = RECORD_REASONING, .text_size = 2},
         "so",
         "{\"reasoning_content\":\"so\"}"},
        {{.kind = RECORD_CALL, .call = 1, .id_size = 6, .text_size = 7},
         "call_af",
         "{\"tool_calls\":[{\"index\":1,\"id\":\"call_a\",\"type\":"
         "\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]}"},
        {{.kind = RECORD_ARGUMENTS, .call = 1, .text_size = 2},
         "{\"",
         "{\"tool_calls\":[{\"index\":1,\"function\":{\"arguments\":"
         "\"{\\\"\"}}]}"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(deltas); i++) {
        struct buf wanted;

        buf_init(&wanted, 4096);
        buf_printf(&wanted, "{\"index\":0,\"delta\":%s,", deltas[i].delta);
        buf_reset(&out);
        answer_event(&answer, &deltas[i].event, deltas[i].text, &out);
        assert_non_null(strstr(out.data, wanted.data));
        buf_clear(&wanted);
    }
}

static void
a_message_of_calls_alone_has_no_content(void **state)
{
    const struct record_end end = {
        .finish = "tool_calls",
        .completion_tokens = 9,
        .reasoning_tokens = 4,
    };

    (void)state;
    body_put("", "so", "[{\"id\":\"a\"}]", &end);
    assert_non_null(
        strstr(out.data,
               "\"content\":null,\"reasoning_content\":\"so\",\"tool_calls\":"
               "[{\"id\":\"a\"}],\"refusal\":null},\"logprobs\":null,"
               "\"finish_reason\":\"tool_calls\"}"));
    assert_non_null(strstr(out.data, "\"completion_tokens_details\":{"
                                     "\"reasoning_tokens\":4}"));
}

static void
a_text_completion_has_text_in_both_forms(void **state)
{
    const struct record_end end = {.finish = "length"};

    (void)state;
    answer_init(&answer, rfc_uuid, false, "m");
    body_put("hi", "", "", &end);
    assert_non_null(strstr(out.data, "\"object\":\"text_completion\""));
    assert_non_null(strstr(out.data, "{\"index\":0,\"text\":\"hi\",\"logprobs\""
                                     ":null,\"finish_reason\":\"length\"}"));
    buf_reset(&out);
    answer_finish(&answer, "stop", &out);
    assert_non_null(strstr(out.data, "{\"index\":0,\"text\":\"\",\"logprobs\":"
                                     "null,\"finish_reason\":\"stop\"}"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(id_and_time_follow_from_the_job, start,
                                        stop),
        cmocka_unit_test_setup_teardown(chat_chunks_are_role_content_finish,
                                        start, stop),
        cmocka_unit_test_setup_teardown(
            asked_for_usage_is_null_until_the_last_chunk, start, stop),
        cmocka_unit_test_setup_teardown(
            a_whole_chat_answer_has_message_and_usage, start, stop),
        cmocka_unit_test_setup_teardown(
            calls_and_reasoning_are_deltas_of_their_own, start, stop),
        cmocka_unit_test_setup_teardown(a_message_of_calls_alone_has_no_content,
                                        start, stop),
        cmocka_unit_test_setup_teardown(
            a_text_completion_has_text_in_both_forms, start, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
