/* pg.h - a throwaway PostgreSQL for one test program.
 *
 * A private cluster under /tmp, reached by a Unix socket only.  As root it runs
 * as user postgres, since PostgreSQL refuses root.  A guard process ends the
 * server and removes the folder when the test program ends in any way. One
 * thread at a time. */
#ifndef BERTH_TESTS_PG_H
#define BERTH_TESTS_PG_H

#include <stdbool.h>
#include <stddef.h>

#include "common/attrs.h"

enum { PG_CONNINFO_BYTES = 256 };

struct pg;

/* @durable: with fsync, as in production; else without, which is faster.
 * NULL, with the reason on standard error, when there is no PostgreSQL. */
MUST_CHECK struct pg *pg_start(bool durable);
/* Of database "postgres", superuser "berth"; borrowed. */
const char *pg_conninfo(const struct pg *pg);
/* A new, empty database; its connection string is written to @conninfo. */
MUST_CHECK bool pg_database(struct pg *pg, const char *name,
                            char conninfo[static PG_CONNINFO_BYTES]);
/* kill -9 of the server process; its children notice and end. */
void pg_kill(struct pg *pg);
/* Start it again, after pg_kill; waits until it accepts connections. */
MUST_CHECK bool pg_resume(struct pg *pg);
/* End the server and remove everything. NULL is allowed. */
void pg_stop(struct pg *pg);

#endif
