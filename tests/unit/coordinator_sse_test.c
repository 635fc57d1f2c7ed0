/* coordinator_sse_test.c - a record as chunks and as an event list. */
#include "coordinator/sse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/coordinator_model.h"

#include "common/banned.h"

static const struct span now = {.ns = 1};
static struct request request;
static struct model *model;
static struct record *record;
static struct sse *sse;
static struct buf out;

static int
start(void **state)
{
    struct output_rules rules = {
        .max_tokens = 100,
        .end_ids = {2047},
        .end_id_count = 1,
    };

    (void)state;
    model = tiny_chat_new();
    if (model == NULL)
        return -1;
    record = record_new(model, &rules, SUM_PROMPT_IDS);
    record_attempt(record, 1, 0);
    buf_init(&out, 65536);
    sse = NULL;
    return 0;
}

static int
stop(void **state)
{
    (void)state;
    sse_free(sse);
    record_drop(record);
    model_drop(model);
    buf_clear(&out);
    return 0;
}

static void
stream_open(bool events, size_t first, bool usage)
{
    struct sse_options options = {.events = events, .first = first};

    answer_init(&options.answer, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f", true,
                "tiny-chat");
    options.answer.usage = usage;
    sse = sse_new(&request, record, &options);
}

static void
answer_whole(void)
{
    const struct record_end end = {
        .finish = "stop",
        .prompt_tokens = SUM_PROMPT_IDS,
        .completion_tokens = SUM_ANSWER_IDS,
    };

    (void)record_push(record, 1, 0, sum_answer, SUM_ANSWER_IDS, now);
    record_finish(record, &end);
}

static size_t
count_of(const char *text, const char *piece)
{
    size_t count = 0;

    for (const char *at = text; (at = strstr(at, piece)) != NULL; at++)
        count++;
    return count;
}

static void
nothing_is_said_before_the_first_event(void **state)
{
    (void)state;
    stream_open(false, 0, false);
    assert_false(sse_next(sse, &out));
    assert_int_equal(out.size, 0);
}

static void
a_chat_stream_is_role_text_finish_done(void **state)
{
    static const char done[] = "data: [DONE]\n\n";

    (void)state;
    stream_open(false, 0, false);
    answer_whole();
    assert_true(sse_next(sse, &out));
    assert_non_null(strstr(out.data, "\"role\":\"assistant\""));
    assert_true(strstr(out.data, "\"role\"") <
                strstr(out.data, "{\"content\":\"1\"}"));
    assert_int_equal(count_of(out.data, "\"finish_reason\":\"stop\""), 1);
    assert_int_equal(count_of(out.data, "\"usage\""), 0);
    assert_string_equal(out.data + out.size - strlen(done), done);
    /* Then it is over, with nothing more. */
    buf_reset(&out);
    assert_true(sse_next(sse, &out));
    assert_int_equal(out.size, 0);
}

static void
usage_comes_before_done_when_asked_for(void **state)
{
    static const char last[] =
        "\"choices\":[],\"usage\":{\"prompt_tokens\":18,\"completion_tokens\":"
        "12,\"total_tokens\":30}}\n\ndata: [DONE]\n\n";

    (void)state;
    stream_open(false, 0, true);
    answer_whole();
    assert_true(sse_next(sse, &out));
    assert_string_equal(out.data + out.size - strlen(last), last);
    /* Every other chunk says null. */
    assert_int_equal(count_of(out.data, "\"usage\":null"),
                     count_of(out.data, "data: {") - 1);
}

static void
a_failure_is_one_error_line_and_no_done(void **state)
{
    struct record_end end = {.failed = true};

    (void)state;
    (void)error_set(&end.error, STATUS_RETRY, "the target was lost");
    (void)error_tag(&end.error, "target_lost", NULL);
    stream_open(false, 0, false);
    (void)record_push(record, 1, 0, sum_answer, 3, now);
    record_finish(record, &end);
    assert_true(sse_next(sse, &out));
    assert_non_null(
        strstr(out.data,
               "data: {\"error\":{\"message\":\"the target was lost\",\"type\":"
               "\"server_error\",\"param\":null,\"code\":\"target_lost\"}}"
               "\n\n"));
    assert_null(strstr(out.data, "[DONE]"));
    assert_int_equal(count_of(out.data, "\"finish_reason\":\""), 0);
}

static void
an_event_list_numbers_from_the_record(void **state)
{
    (void)state;
    stream_open(true, 0, false);
    answer_whole();
    assert_true(sse_next(sse, &out));
    assert_int_equal(
        strncmp(
            out.data,
            "id: 0\nevent: content\ndata: {\"text\":\"1\",\"choice\":0}\n\n",
            strlen("id: 0\nevent: content\n")),
        0);
    assert_non_null(
        strstr(out.data, "event: finish\ndata: {\"finish_reason\":\"stop\","
                         "\"usage\":{\"prompt_tokens\":18,"
                         "\"completion_tokens\":12,\"total_tokens\":30}}\n\n"));
    assert_null(strstr(out.data, "[DONE]"));
}

/* What comes after event @first is the tail of the whole stream. */
static void
a_resumed_list_is_the_tail_of_the_whole(void **state)
{
    struct buf whole;

    (void)state;
    buf_init(&whole, 65536);
    answer_whole();
    stream_open(true, 0, false);
    assert_true(sse_next(sse, &whole));
    for (size_t first = 1; first < record_event_count(record); first++) {
        sse_free(sse);
        buf_reset(&out);
        stream_open(true, first, false);
        assert_true(sse_next(sse, &out));
        assert_true(out.size < whole.size);
        assert_string_equal(out.data, whole.data + whole.size - out.size);
    }
    buf_clear(&whole);
}

static void
a_list_asked_for_past_the_end_tells_the_end(void **state)
{
    static const char end[] = "id: 1000\nevent: finish\ndata: {";

    (void)state;
    answer_whole();
    stream_open(true, 1000, false);
    assert_true(sse_next(sse, &out));
    assert_int_equal(strncmp(out.data, end, strlen(end)), 0);
    assert_int_equal(count_of(out.data, "event: "), 1);
    buf_reset(&out);
    assert_true(sse_next(sse, &out));
    assert_int_equal(out.size, 0);
}

static void
small_reads_add_up_to_the_whole(void **state)
{
    struct buf whole, pieces;
    char piece[7];
    ssize_t size;

    (void)state;
    buf_init(&whole, 65536);
    buf_init(&pieces, 65536);
    answer_whole();
    stream_open(false, 0, true);
    assert_true(sse_next(sse, &whole));
    sse_free(sse);
    stream_open(false, 0, true);
    while ((size = sse_read(sse, piece, sizeof(piece))) > 0)
        buf_append(&pieces, piece, (size_t)size);
    assert_int_equal(size, SSE_OVER);
    assert_string_equal(pieces.data, whole.data);
    buf_clear(&whole);
    buf_clear(&pieces);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_is_said_before_the_first_event,
                                        start, stop),
        cmocka_unit_test_setup_teardown(a_chat_stream_is_role_text_finish_done,
                                        start, stop),
        cmocka_unit_test_setup_teardown(usage_comes_before_done_when_asked_for,
                                        start, stop),
        cmocka_unit_test_setup_teardown(a_failure_is_one_error_line_and_no_done,
                                        start, stop),
        cmocka_unit_test_setup_teardown(an_event_list_numbers_from_the_record,
                                        start, stop),
        cmocka_unit_test_setup_teardown(a_resumed_list_is_the_tail_of_the_whole,
                                        start, stop),
        cmocka_unit_test_setup_teardown(
            a_list_asked_for_past_the_end_tells_the_end, start, stop),
        cmocka_unit_test_setup_teardown(small_reads_add_up_to_the_whole, start,
                                        stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
