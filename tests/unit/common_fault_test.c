/* common_fault_test.c - numbered failure points. */
#include "common/fault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/banned.h"

#ifdef BERTH_FAULTS
static void
exactly_the_named_passage_fails(void **state)
{
    int failures = 0, at = 0;

    (void)state;
    (void)setenv("FAULT", "4", 1);
    (void)setenv("FAULT_NAME", "b", 1);
    for (int i = 1; i <= 10; i++) {
        assert_false(FAULT_POINT("a"));
        if (FAULT_POINT("b")) {
            failures++;
            at = i;
        }
    }
    assert_int_equal(failures, 1);
    assert_int_equal(at, 4);
    (void)unsetenv("FAULT");
    assert_false(FAULT_POINT("b"));
}
#else
static void
exactly_the_named_passage_fails(void **state)
{
    (void)state;
    (void)setenv("FAULT", "1", 1);
    assert_false(FAULT_POINT("a"));
}
#endif

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exactly_the_named_passage_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
