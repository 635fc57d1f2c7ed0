/* write.h - what a write is made of. Private to ledger; writer.h is for users.
 *
 * A write belongs to the thread that made it until it is submitted, then to the
 * writer's thread. */
#ifndef BERTH_LEDGER_WRITE_H
#define BERTH_LEDGER_WRITE_H

#include "ledger/writer.h"

struct item {
    const struct statement *statement;
    struct db_param params[DB_PARAMS_MAX]; /* text and bytes are ours */
};

struct write {
    write_done *on_done;
    void *arg;
    struct item *items[WRITE_STATEMENTS_MAX];
    struct db_rows *rows[WRITE_STATEMENTS_MAX];
    size_t count;
    enum status status;
    struct error err;
    struct write *next;
};

/* Forget what an earlier try answered. */
void write_reset(struct write *write);

#endif
