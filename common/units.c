/* units.c - checked arithmetic and text for money, time and sizes. */
#include "common/units.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/banned.h"

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)
#define MICRO_PER_CREDIT 1000000
/* The longest number text looked at; longer ones are no sensible input. */
#define NUMBER_TEXT_MAX 64
/* 2^64 as a double, exactly: sizes must lie below it. */
#define TWO_POW_64 18446744073709551616.0

enum status
credits_add(struct credits a, struct credits b, struct credits *sum)
{
    int64_t micro;

    if (__builtin_add_overflow(a.micro, b.micro, &micro))
        return STATUS_TOO_LARGE;
    sum->micro = micro;
    return STATUS_OK;
}

enum status
credits_sub(struct credits a, struct credits b, struct credits *difference)
{
    int64_t micro;

    if (__builtin_sub_overflow(a.micro, b.micro, &micro))
        return STATUS_TOO_LARGE;
    difference->micro = micro;
    return STATUS_OK;
}

static struct span
span_scaled(int64_t value, int64_t scale)
{
    int64_t ns;

    if (__builtin_mul_overflow(value, scale, &ns))
        ns = value < 0 ? INT64_MIN : INT64_MAX;
    return (struct span){ns};
}

struct span
span_ms(int64_t ms)
{
    return span_scaled(ms, NS_PER_MS);
}

struct span
span_s(int64_t s)
{
    return span_scaled(s, NS_PER_S);
}

int64_t
span_as_ms(struct span span)
{
    return span.ns / NS_PER_MS;
}

struct span
span_add(struct span a, struct span b)
{
    int64_t ns;

    if (__builtin_add_overflow(a.ns, b.ns, &ns))
        ns = b.ns < 0 ? INT64_MIN : INT64_MAX;
    return (struct span){ns};
}

struct span
span_sub(struct span a, struct span b)
{
    int64_t ns;

    if (__builtin_sub_overflow(a.ns, b.ns, &ns))
        ns = b.ns < 0 ? INT64_MAX : INT64_MIN;
    return (struct span){ns};
}

static bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

enum status
parse_u64(const char *text, size_t size, uint64_t max, uint64_t *value)
{
    uint64_t sum = 0;

    if (size == 0)
        return STATUS_INVALID;
    for (size_t i = 0; i < size; i++) {
        if (!is_digit(text[i]) || __builtin_mul_overflow(sum, 10, &sum) ||
            __builtin_add_overflow(sum, (uint64_t)(text[i] - '0'), &sum))
            return STATUS_INVALID;
    }
    if (sum > max)
        return STATUS_INVALID;
    *value = sum;
    return STATUS_OK;
}

enum status
parse_i64(const char *text, size_t size, int64_t *value)
{
    bool negative = size > 0 && text[0] == '-';
    uint64_t max = (uint64_t)INT64_MAX + (negative ? 1 : 0);
    uint64_t sum;
    enum status status = parse_u64(text + (negative ? 1 : 0),
                                   size - (negative ? 1 : 0), max, &sum);

    if (status != STATUS_OK)
        return status;
    if (negative)
        *value = sum == max ? INT64_MIN : -(int64_t)sum;
    else
        *value = (int64_t)sum;
    return STATUS_OK;
}

/* Digits from @at on; the index of the first other byte. */
static size_t
skip_digits(const char *text, size_t size, size_t at)
{
    while (at < size && is_digit(text[at]))
        at++;
    return at;
}

/* [-]digits[.digits][e[+-]digits] and nothing else? @dot is where the point
 * is, or @size. */
static bool
is_decimal(const char *text, size_t size, size_t *dot)
{
    size_t start = size > 0 && text[0] == '-' ? 1 : 0;
    size_t at = skip_digits(text, size, start);

    *dot = size;
    if (at == start)
        return false;
    if (at < size && text[at] == '.') {
        *dot = at;
        start = at + 1;
        at = skip_digits(text, size, start);
        if (at == start)
            return false;
    }
    if (at < size && (text[at] == 'e' || text[at] == 'E')) {
        at++;
        if (at < size && (text[at] == '-' || text[at] == '+'))
            at++;
        start = at;
        at = skip_digits(text, size, start);
        if (at == start)
            return false;
    }
    return at == size;
}

/* The process's decimal point, which strtod expects: one byte everywhere that
 * matters, since the check above admits only '.'. */
static char
decimal_point(void)
{
    char sample[8];

    (void)snprintf(sample, sizeof(sample), "%.1f", 0.5);
    return sample[1];
}

enum status
parse_double(const char *text, size_t size, double *value)
{
    char copy[NUMBER_TEXT_MAX + 1];
    double number;
    size_t dot;

    if (size > NUMBER_TEXT_MAX || !is_decimal(text, size, &dot))
        return STATUS_INVALID;
    memcpy(copy, text, size);
    copy[size] = '\0';
    if (dot < size)
        copy[dot] = decimal_point();
    number = strtod(copy, NULL);
    if (!isfinite(number))
        return STATUS_INVALID;
    *value = number;
    return STATUS_OK;
}

static const struct {
    const char *name;
    uint64_t bytes;
} byte_units[] = {
    {"", 1},           {"B", 1},
    {"kB", 1000},      {"KB", 1000},
    {"KiB", KIB},      {"MB", 1000000},
    {"MiB", MIB},      {"GB", 1000000000},
    {"GiB", GIB},      {"TB", 1000000000000},
    {"TiB", GIB *KIB},
};

/* The factor of a unit's name; 0 for an unknown one. */
static uint64_t
byte_unit(const char *name, size_t size)
{
    for (size_t i = 0; i < COUNT_OF(byte_units); i++) {
        if (strlen(byte_units[i].name) == size &&
            memcmp(byte_units[i].name, name, size) == 0)
            return byte_units[i].bytes;
    }
    return 0;
}

enum status
parse_bytes(const char *text, size_t size, uint64_t *value)
{
    size_t whole = skip_digits(text, size, 0);
    size_t end = whole;
    uint64_t unit, number;
    double fraction;

    if (end < size && text[end] == '.')
        end = skip_digits(text, size, end + 1);
    /* One blank between number and unit, as people write it. */
    unit = end + 1 < size && text[end] == ' '
               ? byte_unit(text + end + 1, size - end - 1)
               : byte_unit(text + end, size - end);
    if (unit == 0)
        return STATUS_INVALID;
    if (end == whole) {
        if (parse_u64(text, end, UINT64_MAX / unit, &number) != STATUS_OK)
            return STATUS_INVALID;
        *value = number * unit;
        return STATUS_OK;
    }
    if (unit == 1 || parse_double(text, end, &fraction) != STATUS_OK ||
        fraction * (double)unit >= TWO_POW_64)
        return STATUS_INVALID;
    *value = (uint64_t)(fraction * (double)unit);
    return STATUS_OK;
}

enum status
parse_credits(const char *text, size_t size, struct credits *value)
{
    size_t whole = skip_digits(text, size, 0);
    uint64_t credits, micro = 0;
    uint64_t scale = MICRO_PER_CREDIT;

    if (parse_u64(text, whole, CREDITS_MAX_MICRO / MICRO_PER_CREDIT,
                  &credits) != STATUS_OK)
        return STATUS_INVALID;
    if (whole < size) {
        size_t places = size - whole - 1;

        if (text[whole] != '.' || places > 6 ||
            parse_u64(text + whole + 1, places, UINT64_MAX, &micro) !=
                STATUS_OK)
            return STATUS_INVALID;
        for (; places > 0; places--)
            scale /= 10;
        micro *= scale;
    }
    micro += credits * MICRO_PER_CREDIT;
    if (micro > CREDITS_MAX_MICRO)
        return STATUS_INVALID;
    value->micro = (int64_t)micro;
    return STATUS_OK;
}

const char *
credits_text(struct credits value, char *text, size_t text_size)
{
    uint64_t micro =
        value.micro < 0 ? 0 - (uint64_t)value.micro : (uint64_t)value.micro;

    assert(text_size >= 32);
    (void)snprintf(text, text_size, "%s%" PRIu64 ".%06" PRIu64,
                   value.micro < 0 ? "-" : "", micro / MICRO_PER_CREDIT,
                   micro % MICRO_PER_CREDIT);
    return text;
}

const char *
bytes_text(uint64_t value, char *text, size_t text_size)
{
    static const char *const names[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    uint64_t unit = 1;
    size_t name = 0;

    /* One step earlier at 999.95, which would print as 1000.0. */
    while (name + 1 < COUNT_OF(names) && value / unit >= 1000) {
        unit *= 1000;
        name++;
    }
    if (name > 0 && name + 1 < COUNT_OF(names) && value >= unit / 100 * 99995) {
        unit *= 1000;
        name++;
    }
    if (name == 0)
        (void)snprintf(text, text_size, "%" PRIu64 " B", value);
    else
        (void)snprintf(text, text_size, "%.1f %s", (double)value / (double)unit,
                       names[name]);
    return text;
}
