/* common_units_test.c - money, spans and number text. */
#include "common/units.h"

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
credit_sums_report_overflow(void **state)
{
    struct credits sum = {5};

    (void)state;
    assert_int_equal(
        credits_add((struct credits){1}, (struct credits){2}, &sum), STATUS_OK);
    assert_int_equal(sum.micro, 3);
    assert_int_equal(
        credits_add((struct credits){INT64_MAX}, (struct credits){1}, &sum),
        STATUS_TOO_LARGE);
    assert_int_equal(
        credits_sub((struct credits){INT64_MIN}, (struct credits){1}, &sum),
        STATUS_TOO_LARGE);
    assert_int_equal(sum.micro, 3);
    assert_int_equal(
        credits_sub((struct credits){1}, (struct credits){2}, &sum), STATUS_OK);
    assert_int_equal(sum.micro, -1);
}

static void
spans_saturate(void **state)
{
    struct span max = {INT64_MAX}, min = {INT64_MIN};

    (void)state;
    assert_int_equal(span_ms(3).ns, 3000000);
    assert_int_equal(span_s(-2).ns, -2000000000);
    assert_true(span_s(INT64_MAX).ns == INT64_MAX);
    assert_true(span_ms(INT64_MIN).ns == INT64_MIN);
    assert_true(span_add(max, span_ms(1)).ns == INT64_MAX);
    assert_true(span_add(min, span_ms(-1)).ns == INT64_MIN);
    assert_true(span_sub(min, span_ms(1)).ns == INT64_MIN);
    assert_true(span_sub(max, span_ms(-1)).ns == INT64_MAX);
    assert_int_equal(span_as_ms(span_s(5)), 5000);
}

static enum status
u64(const char *text, uint64_t max, uint64_t *value)
{
    return parse_u64(text, strlen(text), max, value);
}

static void
integers_are_digits_within_range(void **state)
{
    static const char *const bad[] = {
        "", "-1", "+1", " 1", "1 ", "0x1", "18446744073709551616", "1.0",
    };
    uint64_t value = 9;
    int64_t number = 9;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_int_equal(u64(bad[i], UINT64_MAX, &value), STATUS_INVALID);
    assert_int_equal(value, 9);
    assert_int_equal(u64("18446744073709551615", UINT64_MAX, &value),
                     STATUS_OK);
    assert_true(value == UINT64_MAX);
    assert_int_equal(u64("0007", 7, &value), STATUS_OK);
    assert_int_equal(value, 7);
    assert_int_equal(u64("8", 7, &value), STATUS_INVALID);
    assert_int_equal(parse_i64("-9223372036854775808", 20, &number), STATUS_OK);
    assert_true(number == INT64_MIN);
    assert_int_equal(parse_i64("-9223372036854775809", 20, &number),
                     STATUS_INVALID);
    assert_int_equal(parse_i64("9223372036854775808", 19, &number),
                     STATUS_INVALID);
    assert_int_equal(parse_i64("-", 1, &number), STATUS_INVALID);
    assert_int_equal(parse_i64("", 0, &number), STATUS_INVALID);
}

static void
doubles_are_decimal_and_finite(void **state)
{
    static const char *const bad[] = {
        "",   "-",   ".5",    "1.", "nan", "inf", "0x1p3",
        "1e", "1e+", "1e999", " 1", "1 ",  "1,5", "--1",
    };
    double value = 0;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_int_equal(parse_double(bad[i], strlen(bad[i]), &value),
                         STATUS_INVALID);
    assert_int_equal(parse_double("-12.5e-1", 8, &value), STATUS_OK);
    assert_true(value == -1.25);
    assert_int_equal(parse_double("0.7xyz", 3, &value), STATUS_OK);
    assert_true(value == 0.7);
}

static void
sizes_know_their_units(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"4096", 4096},
        {"512MiB", 536870912},
        {"96GB", 96000000000},
        {"1.5GiB", 1610612736},
        {"2 TB", 2000000000000},
        {"0.5kB", 500},
        {"18446744073709551615", UINT64_MAX},
    };
    static const char *const bad[] = {
        "",
        "GB",
        "1gb",
        "1.5",
        "-1GB",
        "1  GB",
        "1GB ",
        "17179869184GiB",
        "99999999999.5TiB",
        "1.GB",
    };
    uint64_t value;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        assert_int_equal(
            parse_bytes(good[i].text, strlen(good[i].text), &value), STATUS_OK);
        assert_true(value == good[i].bytes);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_int_equal(parse_bytes(bad[i], strlen(bad[i]), &value),
                         STATUS_INVALID);
}

static void
credits_have_six_places(void **state)
{
    static const char *const bad[] = {
        "",    ".5",    "1.",  "-1", "+1", "1.0000000", "1000000000.000001",
        "1,5", "1.2.3", "1e3",
    };
    struct credits value = {0};
    char text[32];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_int_equal(parse_credits(bad[i], strlen(bad[i]), &value),
                         STATUS_INVALID);
    assert_int_equal(parse_credits("1.25", 4, &value), STATUS_OK);
    assert_int_equal(value.micro, 1250000);
    assert_string_equal(credits_text(value, text, sizeof(text)), "1.250000");
    assert_int_equal(parse_credits("1000000000", 10, &value), STATUS_OK);
    assert_true(value.micro == CREDITS_MAX_MICRO);
    assert_int_equal(parse_credits("0.000001", 8, &value), STATUS_OK);
    assert_int_equal(value.micro, 1);
    value.micro = -1;
    assert_string_equal(credits_text(value, text, sizeof(text)), "-0.000001");
    value.micro = INT64_MIN;
    assert_string_equal(credits_text(value, text, sizeof(text)),
                        "-9223372036854.775808");
}

static void
sizes_read_well(void **state)
{
    char text[32];

    (void)state;
    assert_string_equal(bytes_text(999, text, sizeof(text)), "999 B");
    assert_string_equal(bytes_text(12345678901, text, sizeof(text)), "12.3 GB");
    assert_string_equal(bytes_text(999960, text, sizeof(text)), "1.0 MB");
    assert_string_equal(bytes_text(1000, text, sizeof(text)), "1.0 kB");
    assert_string_equal(bytes_text(UINT64_MAX, text, sizeof(text)),
                        "18446.7 PB");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(credit_sums_report_overflow),
        cmocka_unit_test(spans_saturate),
        cmocka_unit_test(integers_are_digits_within_range),
        cmocka_unit_test(doubles_are_decimal_and_finite),
        cmocka_unit_test(sizes_know_their_units),
        cmocka_unit_test(credits_have_six_places),
        cmocka_unit_test(sizes_read_well),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
