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
    answer_content(&answer, "a\"b", 3, &out);
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
    answer_content(&answer, "x", 1, &out);
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
    answer_body(&answer, "hi", 2, &end, &out);
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
a_text_completion_has_text_in_both_forms(void **state)
{
    const struct record_end end = {.finish = "length"};

    (void)state;
    answer_init(&answer, rfc_uuid, false, "m");
    answer_body(&answer, "hi", 2, &end, &out);
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
            a_text_completion_has_text_in_both_forms, start, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
