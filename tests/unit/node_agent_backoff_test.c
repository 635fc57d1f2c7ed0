/* node_agent_backoff_test.c - waits stay within their bounds. */
#include "node-agent/backoff.h"

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

#include "common/attrs.h"

static void
waits_double_up_to_the_bound(void **state)
{
    static const int64_t expected[] = {500,  1000,  2000,  4000,
                                       8000, 16000, 30000, 30000};

    (void)state;
    for (unsigned i = 0; i < COUNT_OF(expected); i++)
        assert_int_equal(backoff_ceiling_ms(500, 30000, i), expected[i]);
    assert_int_equal(backoff_ceiling_ms(500, 30000, UINT32_MAX), 30000);
    assert_int_equal(backoff_ceiling_ms(1, INT64_MAX, 1000), INT64_MAX);
}

static void
jitter_covers_its_range_and_nothing_else(void **state)
{
    struct prng prng;
    int64_t least = INT64_MAX;
    int64_t most = -1;

    (void)state;
    prng_seed(&prng, 20261130);
    for (int i = 0; i < 10000; i++) {
        int64_t ms = backoff_jitter_ms(99, &prng);

        assert_in_range(ms, 0, 99);
        least = ms < least ? ms : least;
        most = ms > most ? ms : most;
    }
    assert_int_equal(least, 0); /* missed with probability 1e-43 */
    assert_int_equal(most, 99);
    assert_int_equal(backoff_jitter_ms(0, &prng), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_double_up_to_the_bound),
        cmocka_unit_test(jitter_covers_its_range_and_nothing_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
