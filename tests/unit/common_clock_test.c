/* common_clock_test.c - readings and dates. */
#include "common/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/banned.h"

static const char *
text_of_s(int64_t s, char *text)
{
    return instant_text((struct instant){s * 1000000}, text, 32);
}

/* The dates are `date -u -d @S`'s. */
static void
dates_are_gregorian(void **state)
{
    char text[32];

    (void)state;
    assert_string_equal(text_of_s(0, text), "1970-01-01T00:00:00.000000Z");
    assert_string_equal(text_of_s(951782400, text),
                        "2000-02-29T00:00:00.000000Z");
    assert_string_equal(text_of_s(951868800, text),
                        "2000-03-01T00:00:00.000000Z");
    assert_string_equal(text_of_s(1798761599, text),
                        "2026-12-31T23:59:59.000000Z");
    assert_string_equal(text_of_s(4107542400, text),
                        "2100-03-01T00:00:00.000000Z");
    assert_string_equal(instant_text((struct instant){-1}, text, 32),
                        "1969-12-31T23:59:59.999999Z");
    assert_int_equal(instant_unix_s((struct instant){-1}), -1);
    assert_int_equal(instant_unix_s((struct instant){1999999}), 1);
}

static void
shifts_move_their_clock_only(void **state)
{
    struct span before = clock_monotonic();
    struct instant wall = clock_wall();

    (void)state;
    clock_shift_monotonic(span_s(1000));
    assert_true(span_sub(clock_monotonic(), before).ns >= span_s(1000).ns);
    assert_true(clock_wall().us - wall.us < 900 * INT64_C(1000000));
    clock_shift_wall(span_s(-5000));
    assert_true(clock_wall().us < wall.us);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dates_are_gregorian),
        cmocka_unit_test(shifts_move_their_clock_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
