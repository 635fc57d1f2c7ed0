/* common_log_test.c - lines on standard error. */
#include "common/log.h"

#include <unistd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/banned.h"

/* Log one line through a pipe in place of standard error. */
static void
capture(enum log_level level, const char *value, char *text, size_t size)
{
    int ends[2], saved = dup(STDERR_FILENO);
    ssize_t got;

    assert_int_equal(pipe(ends), 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    log_event(level, "job.placed", "job=%s", value);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    close(ends[1]);
    close(saved);
    got = read(ends[0], text, size - 1);
    text[got > 0 ? got : 0] = '\0';
    close(ends[0]);
}

static void
an_event_is_one_line_that_starts_with_its_name(void **state)
{
    char text[4000], longer[3000];

    (void)state;
    log_set_program("berth-test");
    capture(LOG_INFO, "a\nb", text, sizeof(text));
    assert_memory_equal(text, "job.placed ", 11);
    assert_non_null(strstr(text, " level=info program=berth-test job=a b\n"));
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    capture(LOG_ERROR, longer, text, sizeof(text));
    assert_int_equal(strlen(text), 2048);
    assert_int_equal(text[2047], '\n');
}

static void
debug_is_off_until_asked(void **state)
{
    char text[100];

    (void)state;
    capture(LOG_DEBUG, "a", text, sizeof(text));
    assert_string_equal(text, "");
    log_set_level(LOG_DEBUG);
    capture(LOG_DEBUG, "a", text, sizeof(text));
    assert_non_null(strstr(text, "level=debug"));
    log_set_level(LOG_WARN);
    capture(LOG_INFO, "a", text, sizeof(text));
    assert_string_equal(text, "");
}

static void
quoting_escapes_and_fits(void **state)
{
    char text[64], small[6];

    (void)state;
    assert_string_equal(log_quote("a \"b\"\\\n\x01", text, sizeof(text)),
                        "\"a \\\"b\\\"\\\\\\n\\x01\"");
    assert_string_equal(log_quote("abcdef", small, sizeof(small)), "\"abc\"");
    assert_string_equal(log_quote("ab\"f", small, sizeof(small)), "\"ab\"");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_is_one_line_that_starts_with_its_name),
        cmocka_unit_test(debug_is_off_until_asked),
        cmocka_unit_test(quoting_escapes_and_fits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
