/* migrate.h - brings a database to this program's schema.
 *
 * Numbered files of ledger/migrations, embedded by the build, forward only;
 * each in a transaction of its own under an advisory lock, recorded with
 * number, name and SHA-256.  A recorded file that differs from the embedded
 * one, or a database newer than the program, is refused. */
#ifndef BERTH_LEDGER_MIGRATE_H
#define BERTH_LEDGER_MIGRATE_H

#include <stddef.h>

#include "common/attrs.h"
#include "common/error.h"
#include "ledger/db.h"

struct migration {
    int number;
    const char *name; /* "0001_ledger.sql" */
    const char *sql;
};

extern const struct migration migrations[]; /* ascending, from 1 */
extern const size_t migration_count;

/* @applied counts those that were run now; may be NULL. */
MUST_CHECK enum status migrate(struct db *db, size_t *applied,
                               struct error *err);

#endif
