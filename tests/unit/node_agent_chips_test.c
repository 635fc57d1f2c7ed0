/* node_agent_chips_test.c - the chip table against published figures. */
#include "node-agent/chips.h"

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

struct row {
    const char *chip;
    uint64_t memory_gib;
    uint64_t gb_s;  /* 0: not to be told */
    uint64_t cores; /* 0: likewise */
};

static void
figures_are_the_published_ones(void **state)
{
    /* Apple's technical specifications, per chip and memory size. */
    static const struct row rows[] = {
        {"Apple M1", 16, 68, 0},          {"Apple M1 Ultra", 128, 800, 0},
        {"Apple M2 Pro", 32, 200, 0},     {"Apple M2 Ultra", 192, 800, 0},
        {"Apple M3 Max", 96, 300, 30},    {"Apple M3 Max", 128, 400, 40},
        {"Apple M3 Ultra", 512, 819, 80}, {"Apple M3 Ultra", 256, 819, 0},
        {"Apple M4", 24, 120, 0},         {"Apple M4 Pro", 64, 273, 0},
        {"Apple M4 Max", 36, 410, 32},    {"Apple M4 Max", 128, 546, 40},
        {"Apple M5 Pro", 48, 307, 0},     {"Apple M5 Max", 36, 460, 32},
        {"Apple M5 Max", 128, 614, 40},   {"Apple M5 Ultra", 512, 1200, 80},
        {"Apple M6", 16, 153, 12},        {"Apple M6", 32, 170, 12},
    };
    struct chip_facts facts;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_true(chip_find(rows[i].chip, rows[i].memory_gib * GIB, &facts));
        assert_int_equal(facts.has_bandwidth_gb_s, rows[i].gb_s != 0);
        assert_int_equal(facts.bandwidth_gb_s, rows[i].gb_s);
        assert_int_equal(facts.has_gpu_cores, rows[i].cores != 0);
        if (rows[i].cores != 0)
            assert_int_equal(facts.gpu_cores, rows[i].cores);
    }
}

static void
a_brand_string_alone_is_not_enough_where_widths_differ(void **state)
{
    struct chip_facts facts;

    (void)state;
    assert_true(chip_find("Apple M4 Max", 0, &facts));
    assert_false(facts.has_bandwidth_gb_s);
    assert_true(chip_find("Apple M6", 0, &facts));
    assert_false(facts.has_bandwidth_gb_s);
    assert_int_equal(facts.gpu_cores, 12); /* every M6 has them */
    assert_true(chip_find("Apple M4", 0, &facts));
    assert_int_equal(facts.bandwidth_gb_s, 120);
}

static void
a_chip_that_is_not_there_is_unknown(void **state)
{
    struct chip_facts facts;

    (void)state;
    assert_false(chip_find("Apple M9 Ultra", 64 * GIB, &facts));
    assert_false(chip_find("", 64 * GIB, &facts));
    assert_false(chip_find("M4", 16 * GIB, &facts));
}

static void
working_sets_follow_the_older_rule(void **state)
{
    (void)state;
    /* 2/3 up to 32 GiB: 10.67 of 16; 3/4 above: 27 of 36, 384 of 512. */
    assert_int_equal(chip_working_set_bytes(24 * GIB), 16 * GIB);
    assert_int_equal(chip_working_set_bytes(16 * GIB) * 100 / GIB, 1066);
    assert_int_equal(chip_working_set_bytes(36 * GIB), 27 * GIB);
    assert_int_equal(chip_working_set_bytes(512 * GIB), 384 * GIB);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_the_published_ones),
        cmocka_unit_test(
            a_brand_string_alone_is_not_enough_where_widths_differ),
        cmocka_unit_test(a_chip_that_is_not_there_is_unknown),
        cmocka_unit_test(working_sets_follow_the_older_rule),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
