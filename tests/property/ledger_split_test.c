/* ledger_split_test.c - laws of every division. */
#include "ledger/split.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/prng.h"

#include "common/banned.h"

enum { CASES = 300000 };

#define SEED UINT64_C(20261130)

static uint64_t
skewed(struct prng *prng, unsigned bits_max)
{
    unsigned bits = (unsigned)prng_below(prng, bits_max + 1);

    return bits == 0 ? 0 : prng_next(prng) >> (64 - bits);
}

static void
shuffle(struct prng *prng, struct split_part *parts, size_t count)
{
    for (size_t i = count; i > 1; i--) {
        size_t other = (size_t)prng_below(prng, i);
        struct split_part swap = parts[i - 1];

        parts[i - 1] = parts[other];
        parts[other] = swap;
    }
}

static int64_t
share_of(const struct split_part *parts, size_t count, uint64_t tie)
{
    for (size_t i = 0; i < count; i++)
        if (parts[i].tie == tie)
            return parts[i].share.micro;
    return -1;
}

static void
check_case(struct prng *prng, int number)
{
    struct split_part parts[8];
    struct split_part other[8];
    size_t count = 1 + (size_t)prng_below(prng, COUNT_OF(parts));
    int64_t amount =
        (int64_t)(skewed(prng, 60) % (uint64_t)(CREDITS_MAX_MICRO + 1));
    uint64_t job = prng_next(prng);
    long double sum = 0;
    int64_t total = 0;

    for (size_t i = 0; i < count; i++) {
        parts[i] = (struct split_part){
            .weight = skewed(prng, 63),
            .tie = prng_next(prng) << 3 | i, /* all different */
        };
        sum += (long double)parts[i].weight;
    }
    if (sum == 0)
        parts[0].weight = 1;
    memcpy(other, parts, sizeof(other));
    shuffle(prng, other, count);
    assert_int_equal(
        split_compute((struct credits){amount}, job, parts, count, NULL),
        STATUS_OK);
    assert_int_equal(
        split_compute((struct credits){amount}, job, other, count, NULL),
        STATUS_OK);
    for (size_t i = 0; i < count; i++) {
        int64_t share = parts[i].share.micro;

        total += share;
        if (share < 0 || (parts[i].weight == 0 && share != 0) ||
            share != share_of(other, count, parts[i].tie))
            fail_msg("seed %llu, case %d, part %zu", (unsigned long long)SEED,
                     number, i);
        for (size_t j = 0; j < count; j++) /* more weight, not less money */
            assert_true(parts[i].weight <= parts[j].weight ||
                        share >= parts[j].share.micro);
    }
    assert_true(total == amount);
}

static void
shares_are_exact_and_do_not_depend_on_order(void **state)
{
    struct prng prng;

    (void)state;
    prng_seed(&prng, SEED);
    for (int i = 0; i < CASES; i++)
        check_case(&prng, i);
}

/* Each share is the floor of its exact part or one more: q <= share <= q + 1,
 * checked with products below 2^63. */
static void
a_share_is_within_one_of_its_exact_part(void **state)
{
    struct prng prng;

    (void)state;
    prng_seed(&prng, SEED);
    for (int i = 0; i < CASES; i++) {
        struct split_part parts[4];
        uint64_t amount = skewed(&prng, 40);
        uint64_t sum = 0;

        for (size_t j = 0; j < COUNT_OF(parts); j++) {
            parts[j] =
                (struct split_part){.weight = 1 + skewed(&prng, 20), .tie = j};
            sum += parts[j].weight;
        }
        assert_int_equal(split_compute((struct credits){(int64_t)amount},
                                       prng_next(&prng), parts, 4, NULL),
                         STATUS_OK);
        for (size_t j = 0; j < COUNT_OF(parts); j++) {
            uint64_t floor = amount * parts[j].weight / sum;
            uint64_t share = (uint64_t)parts[j].share.micro;

            assert_true(share == floor || share == floor + 1);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_exact_and_do_not_depend_on_order),
        cmocka_unit_test(a_share_is_within_one_of_its_exact_part),
    };

    return cmocka_run_group_tests_name("ledger_split_laws", tests, NULL, NULL);
}
