/* units.h - money, points in time and durations as types of their own.
 *
 * The compiler refuses a mix-up; arithmetic goes only through here and reports
 * overflow.  Pure, safe from any thread. */
#ifndef BERTH_COMMON_UNITS_H
#define BERTH_COMMON_UNITS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/error.h"

/* Microcredits (ucr); 1 credit = 1,000,000 ucr. */
struct credits {
    int64_t micro;
};

/* Wall time: microseconds since 1970-01-01 UTC. */
struct instant {
    int64_t us;
};

/* A duration on the monotonic clock: nanoseconds. */
struct span {
    int64_t ns;
};

#define CREDITS_MAX_MICRO INT64_C(1000000000000000) /* 1e15 ucr, ledger.ucr */

/* Sum or difference; STATUS_TOO_LARGE and @sum untouched on overflow. */
MUST_CHECK enum status credits_add(struct credits a, struct credits b,
                                   struct credits *sum);
MUST_CHECK enum status credits_sub(struct credits a, struct credits b,
                                   struct credits *difference);

struct span span_ms(int64_t ms); /* saturates */
struct span span_s(int64_t s);   /* saturates */
int64_t span_as_ms(struct span span);
struct span span_add(struct span a, struct span b); /* saturates */
struct span span_sub(struct span a, struct span b); /* saturates */

/* An unsigned decimal number that fills @text up to @size bytes entirely: no
 * sign, no blank, no leading '+', at most @max.  STATUS_INVALID otherwise. */
MUST_CHECK enum status parse_u64(const char *text, size_t size, uint64_t max,
                                 uint64_t *value);
/* The same with an optional leading '-'. */
MUST_CHECK enum status parse_i64(const char *text, size_t size, int64_t *value);
/* A finite decimal fraction, C locale whatever the process's is. */
MUST_CHECK enum status parse_double(const char *text, size_t size,
                                    double *value);
/* A size with an optional unit: "4096", "512MiB", "96GB", "1.5GiB". */
MUST_CHECK enum status parse_bytes(const char *text, size_t size,
                                   uint64_t *value);
/* Credits as decimal text with up to six places, "1.25" -> 1250000 ucr;
 * refuses more places, signs and more than CREDITS_MAX_MICRO. */
MUST_CHECK enum status parse_credits(const char *text, size_t size,
                                     struct credits *value);

/* "1.250000": always six places. @text needs 32 bytes. Returns @text. */
const char *credits_text(struct credits value, char *text, size_t text_size);
/* "12.3 GB" decimal units. Returns @text. */
const char *bytes_text(uint64_t value, char *text, size_t text_size);

#endif
