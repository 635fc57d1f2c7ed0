/* clock.h - wall and monotonic time; both can be shifted by tests.
 *
 * Deadlines are spans on the monotonic clock; instants are for people and the
 * database.  Safe from any thread. */
#ifndef BERTH_COMMON_CLOCK_H
#define BERTH_COMMON_CLOCK_H

#include "common/units.h"

struct instant clock_wall(void);
/* Since an arbitrary point, never going back. */
struct span clock_monotonic(void);

/* "2026-11-30T21:44:00.123456Z"; @text needs 32 bytes. Returns @text. */
const char *instant_text(struct instant at, char *text, size_t text_size);
/* Seconds since 1970, rounded down: what OpenAI calls "created". */
int64_t instant_unix_s(struct instant at);

/* Tests: add @shift to every later reading. */
void clock_shift_wall(struct span shift);
void clock_shift_monotonic(struct span shift);

#endif
