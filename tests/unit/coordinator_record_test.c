/* coordinator_record_test.c - events, the fence of attempts, wake-ups. */
#include "coordinator/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coordinator/message.h"
#include "tests/unit/coordinator_model.h"

#include "common/banned.h"

enum { EVENTS_MAX = 64 };

static const struct span now = {.ns = 1};
static struct model *model;
static struct record *record;
static int wakes;

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
    wakes = 0;
    return 0;
}

static int
stop(void **state)
{
    (void)state;
    record_drop(record);
    model_drop(model);
    return 0;
}

static void
on_wake(void *arg)
{
    (void)arg;
    wakes++;
}

static void
assert_text(const char *wanted)
{
    struct message message;

    message_init(&message);
    message_read(&message, record);
    assert_string_equal(message.content.data, wanted);
    assert_int_equal(message.calls.size, 0);
    message_clear(&message);
}

static void
the_ids_of_an_answer_become_its_text(void **state)
{
    struct record_state seen;

    (void)state;
    record_attempt(record, 1, 0);
    assert_int_equal(record_push(record, 1, 0, sum_answer, SUM_ANSWER_IDS, now),
                     RECORD_FULL);
    assert_text(sum_text);
    record_state(record, &seen);
    assert_int_equal(seen.ids, SUM_ANSWER_IDS);
    assert_int_equal(seen.finish, OUTPUT_STOP);
}

/* Index and size of every event, however the ids came. */
static size_t
events_of_cut(size_t piece, size_t sizes[EVENTS_MAX])
{
    struct record_event events[EVENTS_MAX];
    struct output_rules rules = {
        .max_tokens = 100,
        .end_ids = {2047},
        .end_id_count = 1,
    };
    struct record *other = record_new(model, &rules, 1);
    struct buf text;
    size_t count;

    record_attempt(other, 1, 0);
    for (size_t at = 0; at < SUM_ANSWER_IDS; at += piece) {
        size_t size = SUM_ANSWER_IDS - at < piece ? SUM_ANSWER_IDS - at : piece;

        (void)record_push(other, 1, at, sum_answer + at, size, now);
    }
    buf_init(&text, 4096);
    count = record_read(other, 0, EVENTS_MAX, events, &text);
    for (size_t i = 0; i < count; i++)
        sizes[i] = events[i].text_size;
    assert_string_equal(text.data, sum_text);
    buf_clear(&text);
    record_drop(other);
    return count;
}

static void
events_do_not_depend_on_how_ids_were_cut(void **state)
{
    size_t whole[EVENTS_MAX], cut[EVENTS_MAX];
    size_t count = events_of_cut(SUM_ANSWER_IDS, whole);

    (void)state;
    for (size_t piece = 1; piece < SUM_ANSWER_IDS; piece++) {
        assert_int_equal(events_of_cut(piece, cut), count);
        assert_memory_equal(cut, whole, count * sizeof(*cut));
    }
}

static void
an_older_attempt_is_ignored(void **state)
{
    (void)state;
    record_attempt(record, 1, 0);
    assert_int_equal(record_push(record, 1, 0, sum_answer, 2, now),
                     RECORD_TAKEN);
    record_attempt(record, 2, 0);
    assert_int_equal(record_push(record, 1, 2, sum_answer + 2, 1, now),
                     RECORD_IGNORED);
    assert_int_equal(record_push(record, 2, 2, sum_answer + 2, 1, now),
                     RECORD_TAKEN);
    assert_text("17 plus");
}

static void
a_repeated_id_is_skipped_and_a_changed_one_breaks(void **state)
{
    const uint32_t other = 99;

    (void)state;
    record_attempt(record, 1, 0);
    assert_int_equal(record_push(record, 1, 0, sum_answer, 3, now),
                     RECORD_TAKEN);
    assert_int_equal(record_push(record, 1, 1, sum_answer + 1, 3, now),
                     RECORD_TAKEN);
    assert_text("17 plus ");
    assert_int_equal(record_push(record, 1, 0, &other, 1, now), RECORD_BROKEN);
}

static void
a_gap_or_an_impossible_id_breaks(void **state)
{
    const uint32_t impossible = 2048;

    (void)state;
    record_attempt(record, 1, 0);
    assert_int_equal(record_push(record, 1, 1, sum_answer, 1, now),
                     RECORD_BROKEN);
    assert_int_equal(record_push(record, 1, 0, &impossible, 1, now),
                     RECORD_BROKEN);
}

static void
nothing_is_taken_after_the_end(void **state)
{
    const struct record_end end = {.finish = "stop"};
    struct record_end seen;

    (void)state;
    record_attempt(record, 1, 0);
    record_finish(record, &end);
    assert_int_equal(record_push(record, 1, 0, sum_answer, 1, now),
                     RECORD_IGNORED);
    record_read_end(record, &seen);
    assert_true(seen.ended);
}

static void
a_waiter_is_woken_once(void **state)
{
    (void)state;
    record_attempt(record, 1, 0);
    assert_true(record_wait(record, 0, on_wake, NULL));
    (void)record_push(record, 1, 0, sum_answer, 1, now);
    (void)record_push(record, 1, 1, sum_answer + 1, 1, now);
    assert_int_equal(wakes, 1);
    assert_false(record_unwait(record, on_wake, NULL));
    /* There is something at 0: nobody is kept. */
    assert_false(record_wait(record, 0, on_wake, NULL));
}

/* A reader that saw more, before the coordinator was started again. */
static void
the_end_wakes_who_waits_for_more_than_comes(void **state)
{
    const struct record_end end = {.finish = "stop"};

    (void)state;
    assert_true(record_wait(record, 100, on_wake, NULL));
    record_finish(record, &end);
    assert_int_equal(wakes, 1);
    assert_false(record_wait(record, 100, on_wake, NULL));
}

static void
who_gave_up_waiting_is_not_woken(void **state)
{
    const struct record_end end = {.finish = "stop"};

    (void)state;
    assert_true(record_wait(record, 0, on_wake, NULL));
    assert_true(record_unwait(record, on_wake, NULL));
    record_finish(record, &end);
    assert_int_equal(wakes, 0);
}

/* What is kept of ended jobs is bounded by this sum: it counts the text, and
 * four bytes for each id. */
static void
memory_grows_with_what_was_delivered(void **state)
{
    size_t empty = record_bytes(record);
    uint32_t ids[90];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(ids); i++)
        ids[i] = 100;
    record_attempt(record, 1, 0);
    assert_int_equal(record_push(record, 1, 0, ids, COUNT_OF(ids), now),
                     RECORD_TAKEN);
    assert_true(record_bytes(record) >=
                empty + COUNT_OF(ids) * sizeof(ids[0]) +
                    record_event_count(record) * sizeof(struct record_event));
}

/* Reasoning and a call, in two attempts cut at @cut. */
static size_t
calls_of_cut(const struct token_ids *ids, size_t cut,
             struct record_event events[EVENTS_MAX], struct message *message)
{
    static const char tools[] = "get_weather\0city\0";
    struct output_rules rules = {
        .max_tokens = 1000,
        .end_ids = {2047},
        .end_id_count = 1,
        .format = format_named("hermes"),
        .calls = true,
        .call_seed = 5,
        .tools = tools,
        .tools_size = sizeof(tools),
    };
    struct record *other = record_new(model, &rules, 1);
    const struct record_end end = {.finish = "tool_calls"};
    const uint32_t last = 2047;
    struct buf text;
    size_t count;

    record_attempt(other, 1, 0);
    (void)record_push(other, 1, 0, ids->ids, cut, now);
    record_attempt(other, 2, cut);
    (void)record_push(other, 2, cut, ids->ids + cut, ids->count - cut, now);
    assert_int_equal(record_push(other, 2, ids->count, &last, 1, now),
                     RECORD_FULL);
    record_finish(other, &end);
    buf_init(&text, 4096);
    count = record_read(other, 0, EVENTS_MAX, events, &text);
    message_init(message);
    message_read(message, other);
    buf_clear(&text);
    record_drop(other);
    return count;
}

static void
a_call_is_the_same_wherever_attempts_meet(void **state)
{
    static const char answer[] =
        "<think>\nHm.\n</think>\n\nOh.<tool_call>\n{\"name\": \"get_weather\", "
        "\"arguments\": {\"city\": \"Paris\"}}\n</tool_call>";
    struct record_event whole[EVENTS_MAX], cut[EVENTS_MAX];
    struct token_ids ids = {0};
    struct message first, second;
    size_t count;

    (void)state;
    assert_int_equal(tokenizer_encode(model->tokenizer, answer, strlen(answer),
                                      true, &ids, NULL),
                     STATUS_OK);
    count = calls_of_cut(&ids, ids.count, whole, &first);
    assert_string_equal(first.reasoning.data, "Hm.");
    assert_string_equal(first.content.data, "Oh.");
    assert_true(first.reasoning_tokens > 0);
    assert_non_null(strstr(first.calls.data,
                           "\",\"type\":\"function\",\"function\":{\"name\":"
                           "\"get_weather\",\"arguments\":"
                           "\"{\\\"city\\\": \\\"Paris\\\"}\"}}]"));
    for (size_t at = 0; at < ids.count; at++) {
        assert_int_equal(calls_of_cut(&ids, at, cut, &second), count);
        assert_memory_equal(cut, whole, count * sizeof(*cut));
        assert_string_equal(second.calls.data, first.calls.data);
        message_clear(&second);
    }
    message_clear(&first);
    free(ids.ids);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_ids_of_an_answer_become_its_text,
                                        start, stop),
        cmocka_unit_test_setup_teardown(
            events_do_not_depend_on_how_ids_were_cut, start, stop),
        cmocka_unit_test_setup_teardown(an_older_attempt_is_ignored, start,
                                        stop),
        cmocka_unit_test_setup_teardown(
            a_repeated_id_is_skipped_and_a_changed_one_breaks, start, stop),
        cmocka_unit_test_setup_teardown(a_gap_or_an_impossible_id_breaks, start,
                                        stop),
        cmocka_unit_test_setup_teardown(nothing_is_taken_after_the_end, start,
                                        stop),
        cmocka_unit_test_setup_teardown(
            a_call_is_the_same_wherever_attempts_meet, start, stop),
        cmocka_unit_test_setup_teardown(a_waiter_is_woken_once, start, stop),
        cmocka_unit_test_setup_teardown(
            the_end_wakes_who_waits_for_more_than_comes, start, stop),
        cmocka_unit_test_setup_teardown(who_gave_up_waiting_is_not_woken, start,
                                        stop),
        cmocka_unit_test_setup_teardown(memory_grows_with_what_was_delivered,
                                        start, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
