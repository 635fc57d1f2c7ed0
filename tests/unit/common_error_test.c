/* common_error_test.c - statuses and error text. */
#include "common/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/banned.h"

static void
set_records_status_and_text(void **state)
{
    struct error err = {.code = "old", .param = "old"};

    (void)state;
    assert_int_equal(error_set(&err, STATUS_DENIED, "%s: %d", "a", 7),
                     STATUS_DENIED);
    assert_int_equal(err.status, STATUS_DENIED);
    assert_string_equal(err.text, "a: 7");
    assert_string_equal(err.code, "");
    assert_string_equal(err.param, "");
}

static void
text_is_one_line_and_whole_utf8(void **state)
{
    struct error err;
    char longer[600];

    (void)state;
    (void)error_set(&err, STATUS_INVALID, "a\nb\tc");
    assert_string_equal(err.text, "a b c");
    /* 510 letters and a two-byte sequence, which just does not fit. */
    memset(longer, 'x', 510);
    memcpy(longer + 510, "\xc3\xa9", 3);
    (void)error_set(&err, STATUS_INVALID, "%s", longer);
    assert_int_equal(strlen(err.text), 510);
}

static void
a_last_character_that_fits_stays(void **state)
{
    char text[ERROR_TEXT_BYTES + 8];
    struct error err;

    (void)state;
    memset(text, 'x', sizeof(text));
    memcpy(text + ERROR_TEXT_BYTES - 3, "\xc3\xa9", 2);
    text[ERROR_TEXT_BYTES + 7] = '\0';
    error_set(&err, STATUS_INVALID, "%s", text);
    assert_int_equal(strlen(err.text), ERROR_TEXT_BYTES - 1);
    memmove(text + 1, text, sizeof(text) - 2);
    error_set(&err, STATUS_INVALID, "%s", text);
    assert_int_equal(strlen(err.text), ERROR_TEXT_BYTES - 2);
}

static void
tag_adds_code_and_param(void **state)
{
    struct error err;

    (void)state;
    (void)error_set(&err, STATUS_NOT_FOUND, "x");
    assert_int_equal(error_tag(&err, "model_not_found", "model"),
                     STATUS_NOT_FOUND);
    assert_string_equal(err.code, "model_not_found");
    assert_string_equal(err.param, "model");
    assert_int_equal(error_tag(&err, NULL, NULL), STATUS_NOT_FOUND);
    assert_string_equal(err.code, "model_not_found");
}

static void
null_errors_are_allowed(void **state)
{
    (void)state;
    assert_int_equal(error_set(NULL, STATUS_RETRY, "x"), STATUS_RETRY);
    assert_int_equal(error_tag(NULL, "a", "b"), STATUS_INTERNAL);
}

/* The table in the house's rules. */
static void
statuses_have_their_http_numbers(void **state)
{
    static const int numbers[] = {200, 400, 401, 402, 403, 404,
                                  409, 413, 429, 503, 500};

    (void)state;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        assert_int_equal(status_http((enum status)i), numbers[i]);
    assert_string_equal(status_name(STATUS_NO_FUNDS), "no_funds");
    assert_string_equal(status_name(STATUS_OK), "ok");
}

static void
errno_has_words(void **state)
{
    char text[64];

    (void)state;
    assert_string_equal(error_errno(2, text, sizeof(text)),
                        "No such file or directory");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_records_status_and_text),
        cmocka_unit_test(text_is_one_line_and_whole_utf8),
        cmocka_unit_test(a_last_character_that_fits_stays),
        cmocka_unit_test(tag_adds_code_and_param),
        cmocka_unit_test(null_errors_are_allowed),
        cmocka_unit_test(statuses_have_their_http_numbers),
        cmocka_unit_test(errno_has_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
