/* clock.c - wall and monotonic time. */
#include "common/clock.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "common/banned.h"

#define NS_PER_S INT64_C(1000000000)
#define US_PER_S INT64_C(1000000)
#define S_PER_DAY INT64_C(86400)

static _Atomic int64_t wall_shift_ns;
static _Atomic int64_t monotonic_shift_ns;

static struct span
read_clock(clockid_t clock)
{
    struct timespec now;
    int failed = clock_gettime(clock, &now);

    assert(failed == 0); /* both clocks exist wherever this compiles */
    return (struct span){(int64_t)now.tv_sec * NS_PER_S + now.tv_nsec};
}

struct instant
clock_wall(void)
{
    struct span shift = {atomic_load(&wall_shift_ns)};
    struct span now = span_add(read_clock(CLOCK_REALTIME), shift);

    return (struct instant){now.ns / 1000};
}

struct span
clock_monotonic(void)
{
    struct span shift = {atomic_load(&monotonic_shift_ns)};

    return span_add(read_clock(CLOCK_MONOTONIC), shift);
}

/* Division that rounds down, so that times before 1970 come out right. */
static int64_t
floor_divide(int64_t value, int64_t by)
{
    return value / by - (value % by < 0 ? 1 : 0);
}

struct date {
    int64_t year;
    int month, day;
};

/* The proleptic Gregorian date of a day number since 1970-01-01. Years are
 * counted from 1 March, so that the leap day comes last; 400 years have 146,097
 * days and 719,468 days lie between 0000-03-01 and 1970-01-01. */
static struct date
date_of_day(int64_t day)
{
    int64_t shifted = day + 719468;
    int64_t era = floor_divide(shifted, 146097);
    int64_t in_era = shifted - era * 146097;
    int64_t year =
        (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
    int64_t in_year = in_era - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * in_year + 2) / 153; /* 0 is March */
    struct date date = {
        .year = year + era * 400 + (month >= 10 ? 1 : 0),
        .month = (int)(month < 10 ? month + 3 : month - 9),
        .day = (int)(in_year - (153 * month + 2) / 5 + 1),
    };

    return date;
}

const char *
instant_text(struct instant at, char *text, size_t text_size)
{
    int64_t s = instant_unix_s(at);
    int64_t day = floor_divide(s, S_PER_DAY);
    int in_day = (int)(s - day * S_PER_DAY);
    struct date date = date_of_day(day);

    assert(text_size >= 32);
    (void)snprintf(text, text_size,
                   "%04" PRId64 "-%02d-%02dT%02d:%02d:%02d.%06dZ", date.year,
                   date.month, date.day, in_day / 3600, in_day / 60 % 60,
                   in_day % 60, (int)(at.us - s * US_PER_S));
    return text;
}

int64_t
instant_unix_s(struct instant at)
{
    return floor_divide(at.us, US_PER_S);
}

void
clock_shift_wall(struct span shift)
{
    atomic_fetch_add(&wall_shift_ns, shift.ns);
}

void
clock_shift_monotonic(struct span shift)
{
    atomic_fetch_add(&monotonic_shift_ns, shift.ns);
}
