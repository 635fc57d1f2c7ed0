/* ledger_split_test.c - divisions worked out by hand. */
#include "ledger/split.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/banned.h"

static void
split(int64_t amount, uint64_t job_tie, struct split_part *parts, size_t count)
{
    struct error err = {0};

    if (split_compute((struct credits){amount}, job_tie, parts, count, &err) !=
        STATUS_OK)
        fail_msg("%s", err.text);
}

/* 10 by 1:2:4 of 7: 1.43, 2.86, 5.71; floors 1, 2, 5 leave two ucr for the
 * remainders .86 and .71. */
static void
left_over_goes_to_the_largest_remainders(void **state)
{
    struct split_part parts[] = {
        {.weight = 1, .tie = 1},
        {.weight = 2, .tie = 2},
        {.weight = 4},
    };

    (void)state;
    split(10, 0, parts, 3);
    assert_int_equal(parts[0].share.micro, 1);
    assert_int_equal(parts[1].share.micro, 3);
    assert_int_equal(parts[2].share.micro, 6);
}

/* 1 ucr between equals: the smaller of tie XOR job has it. */
static void
the_job_decides_ties(void **state)
{
    struct split_part parts[] = {
        {.weight = 1, .tie = 0},
        {.weight = 1, .tie = 1},
    };

    (void)state;
    split(1, 0, parts, 2);
    assert_int_equal(parts[0].share.micro, 1);
    assert_int_equal(parts[1].share.micro, 0);
    split(1, 1, parts, 2);
    assert_int_equal(parts[0].share.micro, 0);
    assert_int_equal(parts[1].share.micro, 1);
}

static void
a_weight_of_zero_gets_nothing(void **state)
{
    struct split_part parts[] = {
        {.weight = 0, .tie = 0},
        {.weight = 3, .tie = 5},
        {.weight = 3},
    };

    (void)state;
    split(7, 0, parts, 3);
    assert_int_equal(parts[0].share.micro, 0);
    assert_int_equal(parts[1].share.micro, 3);
    assert_int_equal(parts[2].share.micro, 4);
}

static void
the_largest_weights_and_amounts_do_not_overflow(void **state)
{
    struct split_part parts[SPLIT_PARTS_MAX];

    (void)state;
    for (size_t i = 0; i < SPLIT_PARTS_MAX; i++)
        parts[i] = (struct split_part){.weight = UINT64_C(1) << 63, .tie = i};
    split(CREDITS_MAX_MICRO, 0, parts, SPLIT_PARTS_MAX);
    for (size_t i = 0; i < SPLIT_PARTS_MAX; i++)
        assert_int_equal(parts[i].share.micro, CREDITS_MAX_MICRO / 64);
}

static void
what_cannot_be_divided_is_refused(void **state)
{
    struct split_part parts[] = {{.weight = 0}, {.weight = 0}};
    struct error err;

    (void)state;
    assert_int_equal(split_compute((struct credits){1}, 0, parts, 0, &err),
                     STATUS_INVALID);
    assert_int_equal(split_compute((struct credits){1}, 0, parts, 2, &err),
                     STATUS_INVALID);
    parts[0].weight = (UINT64_C(1) << 63) + 1;
    assert_int_equal(split_compute((struct credits){1}, 0, parts, 2, &err),
                     STATUS_INVALID);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(left_over_goes_to_the_largest_remainders),
        cmocka_unit_test(the_job_decides_ties),
        cmocka_unit_test(a_weight_of_zero_gets_nothing),
        cmocka_unit_test(the_largest_weights_and_amounts_do_not_overflow),
        cmocka_unit_test(what_cannot_be_divided_is_refused),
    };

    return cmocka_run_group_tests_name("ledger_split", tests, NULL, NULL);
}
