/* coordinator_core_test.c - the job's transition table: complete, reachable,
 * and printed as docs/architecture.md shows it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "common/buf.h"
#include "coordinator/core.h"

#include "common/banned.h"

static void
every_state_can_be_reached_from_a_first_one(void **state)
{
    /* submitted, and adopted from an earlier reign */
    bool reached[JOB_STATE_COUNT] = {
        [JOB_ADMITTING] = true, [JOB_ADRIFT] = true};

    (void)state;
    for (int pass = 0; pass < JOB_STATE_COUNT; pass++)
        for (size_t i = 0; i < job_transition_count; i++)
            if (reached[job_transitions[i].from])
                reached[job_transitions[i].to] = true;
    for (int i = 0; i < JOB_STATE_COUNT; i++)
        assert_true(reached[i]);
}

static void
every_state_but_the_last_can_reach_the_last(void **state)
{
    bool ends[JOB_STATE_COUNT] = {[JOB_ENDED] = true};

    (void)state;
    for (int pass = 0; pass < JOB_STATE_COUNT; pass++)
        for (size_t i = 0; i < job_transition_count; i++)
            if (ends[job_transitions[i].to])
                ends[job_transitions[i].from] = true;
    for (int i = 0; i < JOB_STATE_COUNT; i++)
        assert_true(ends[i]);
}

static void
no_state_takes_an_event_in_two_ways(void **state)
{
    (void)state;
    for (size_t i = 0; i < job_transition_count; i++)
        for (size_t j = i + 1; j < job_transition_count; j++)
            assert_false(job_transitions[i].from == job_transitions[j].from &&
                         job_transitions[i].event == job_transitions[j].event);
}

static void
a_live_job_can_be_cancelled_in_every_state(void **state)
{
    (void)state;
    for (int from = 0; from < JOB_ENDED; from++) {
        bool takes = false;

        for (size_t i = 0; i < job_transition_count; i++)
            takes = takes || ((int)job_transitions[i].from == from &&
                              job_transitions[i].event == JOB_CANCEL);
        assert_true(takes);
    }
}

static void
the_architecture_page_shows_this_very_table(void **state)
{
    static const char begin[] = "<!-- job transitions -->\n";
    static const char end[] = "<!-- end of job transitions -->";
    struct buf page, table;
    const char *from, *to;

    (void)state;
    buf_init(&page, 1024 * 1024);
    buf_init(&table, 64 * 1024);
    assert_int_equal(buf_read_file(&page, "docs/architecture.md", NULL),
                     STATUS_OK);
    from = strstr(page.data, begin);
    assert_non_null(from);
    from += strlen(begin);
    to = strstr(from, end);
    assert_non_null(to);
    job_transitions_print(&table);
    assert_int_equal(to - from, table.size);
    assert_memory_equal(from, table.data, table.size);
    buf_clear(&page);
    buf_clear(&table);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_state_can_be_reached_from_a_first_one),
        cmocka_unit_test(every_state_but_the_last_can_reach_the_last),
        cmocka_unit_test(no_state_takes_an_event_in_two_ways),
        cmocka_unit_test(a_live_job_can_be_cancelled_in_every_state),
        cmocka_unit_test(the_architecture_page_shows_this_very_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
