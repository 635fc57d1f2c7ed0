/* node_agent_engines_test.c - the engine's table and the memory decision. */
#include "node-agent/engines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void
every_state_is_reached_and_leads_back_to_off(void **state)
{
    bool seen[ENGINE_STATE_COUNT] = {[ENGINE_OFF] = true};
    bool home[ENGINE_STATE_COUNT] = {[ENGINE_OFF] = true};
    enum engine_state to;

    (void)state;
    for (int round = 0; round < ENGINE_STATE_COUNT; round++)
        for (int from = 0; from < ENGINE_STATE_COUNT; from++)
            for (int event = 0; event < ENGINE_EVENT_COUNT; event++)
                if (engine_edge((enum engine_state)from,
                                (enum engine_event)event, &to)) {
                    seen[to] = seen[to] || seen[from];
                    home[from] = home[from] || home[to];
                }
    for (int each = 0; each < ENGINE_STATE_COUNT; each++) {
        assert_true(seen[each]);
        assert_true(home[each]);
    }
}

static void
a_stop_ends_every_state_but_off(void **state)
{
    enum engine_state to;

    (void)state;
    for (int each = ENGINE_OFF + 1; each < ENGINE_STATE_COUNT; each++) {
        assert_true(engine_edge((enum engine_state)each, ENGINE_STOP, &to));
        assert_true(to == ENGINE_OFF || to == ENGINE_ENDING);
    }
}

/* 1000 MiB of limit, 100 held, 300 of weights, 64 of margin: 536 are left. */
static struct memory_question
example(void)
{
    return (struct memory_question){.limit_bytes = 1000 * MIB,
                                    .held_bytes = 100 * MIB,
                                    .weight_bytes = 300 * MIB,
                                    .kv_bytes_per_token = MIB,
                                    .kv_tokens = 100,
                                    .kv_tokens_most = 400};
}

static void
the_budget_is_what_slots_can_use_or_what_is_left(void **state)
{
    struct memory_question question = example();
    uint64_t kv = 0;

    (void)state;
    assert_int_equal(memory_answer(&question, &kv, NULL), STATUS_OK);
    assert_int_equal(kv, 400 * MIB);
    question.kv_tokens_most = 10000;
    assert_int_equal(memory_answer(&question, &kv, NULL), STATUS_OK);
    assert_int_equal(kv, 536 * MIB);
    question.kv_tokens = 536;
    assert_int_equal(memory_answer(&question, &kv, NULL), STATUS_OK);
}

static void
the_first_of_several_models_leaves_half_of_the_rest(void **state)
{
    struct memory_question question = example();
    uint64_t kv = 0;

    (void)state;
    question.is_shared = true;
    question.kv_tokens_most = 10000;
    assert_int_equal(memory_answer(&question, &kv, NULL), STATUS_OK);
    assert_int_equal(kv, 268 * MIB);
    question.kv_tokens_most = 200; /* it does not want so much */
    assert_int_equal(memory_answer(&question, &kv, NULL), STATUS_OK);
    assert_int_equal(kv, 200 * MIB);
    question.kv_tokens = 536; /* what a job needs, it gets */
    question.kv_tokens_most = 10000;
    assert_int_equal(memory_answer(&question, &kv, NULL), STATUS_OK);
    assert_int_equal(kv, 536 * MIB);
}

static void
one_token_too_many_is_refused(void **state)
{
    struct memory_question question = example();
    struct error err = {0};
    uint64_t kv = 7;

    (void)state;
    question.kv_tokens = 537;
    assert_int_equal(memory_answer(&question, &kv, &err), STATUS_NO_CAPACITY);
    assert_int_equal(kv, 7); /* written on success only */
    assert_non_null(strstr(err.text, "537 tokens"));
}

static void
a_fresh_reading_binds_whatever_the_limit_says(void **state)
{
    struct memory_question question = example();
    uint64_t kv;

    (void)state;
    question.has_free_bytes = true;
    question.free_bytes = 464 * MIB; /* weights, margin, 100 tokens */
    assert_int_equal(memory_answer(&question, &kv, NULL), STATUS_OK);
    assert_int_equal(kv, 100 * MIB);
    question.free_bytes--;
    assert_int_equal(memory_answer(&question, &kv, NULL), STATUS_NO_CAPACITY);
}

static void
absurd_sizes_do_not_wrap_around(void **state)
{
    struct memory_question question = example();
    uint64_t kv;

    (void)state;
    question.kv_tokens = UINT64_MAX;
    question.kv_bytes_per_token = UINT64_MAX;
    assert_int_equal(memory_answer(&question, &kv, NULL), STATUS_NO_CAPACITY);
    question = example();
    question.held_bytes = UINT64_MAX;
    assert_int_equal(memory_answer(&question, &kv, NULL), STATUS_NO_CAPACITY);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_state_is_reached_and_leads_back_to_off),
        cmocka_unit_test(a_stop_ends_every_state_but_off),
        cmocka_unit_test(the_budget_is_what_slots_can_use_or_what_is_left),
        cmocka_unit_test(the_first_of_several_models_leaves_half_of_the_rest),
        cmocka_unit_test(one_token_too_many_is_refused),
        cmocka_unit_test(a_fresh_reading_binds_whatever_the_limit_says),
        cmocka_unit_test(absurd_sizes_do_not_wrap_around),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
