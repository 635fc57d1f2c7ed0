/* common_prng_test.c - SplitMix64. */
#include "common/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/banned.h"

/* The first outputs for seed 1234567 that Vigna's splitmix64.c prints. */
static void
sequence_is_splitmix64(void **state)
{
    static const uint64_t expected[] = {
        UINT64_C(6457827717110365317),  UINT64_C(3203168211198807973),
        UINT64_C(9817491932198370423),  UINT64_C(4593380528125082431),
        UINT64_C(16408922859458223821),
    };
    struct prng prng;

    (void)state;
    prng_seed(&prng, 1234567);
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
        assert_true(prng_next(&prng) == expected[i]);
}

static void
draws_stay_in_range_and_reach_all(void **state)
{
    unsigned counts[7] = {0};
    struct prng prng;

    (void)state;
    prng_seed(&prng, 1);
    for (int i = 0; i < 70000; i++) {
        double unit = prng_unit(&prng);

        assert_true(unit >= 0 && unit < 1);
        counts[prng_below(&prng, 7)]++;
    }
    /* 10000 each, five standard deviations of 92.6 around. */
    for (int i = 0; i < 7; i++)
        assert_in_range(counts[i], 9537, 10463);
    assert_int_equal(prng_below(&prng, 1), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequence_is_splitmix64),
        cmocka_unit_test(draws_stay_in_range_and_reach_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
