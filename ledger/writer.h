/* writer.h - the one connection that writes, with its thread.
 *
 * A write is a few statements that hold together: they run in order under one
 * savepoint, all or none.  Many writes share a commit: a batch is flushed when
 * the commit before is back.  Each batch runs READ COMMITTED after locking the
 * epoch row, so the first batch of a stale coordinator fails and the writer
 * reports that it is fenced.
 *
 * When the connection is lost the writer reconnects and runs the identical
 * batch again: whether the lost commit happened is then unknown, so every
 * statement must be idempotent (ON CONFLICT, state in WHERE, ledger functions
 * by id) and its check must accept "already there with the same content".
 * A write that fails for itself never holds up the others. */
#ifndef BERTH_LEDGER_WRITER_H
#define BERTH_LEDGER_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/error.h"
#include "ledger/db.h"

enum { WRITER_BATCH_MAX = 256, WRITE_STATEMENTS_MAX = 16 };

struct write;
struct writer;

/* Called on the writer's thread after the commit (STATUS_OK) or when the write
 * is known not to have happened.  Two answers leave that open when a commit was
 * lost with the connection: STATUS_DENIED (fenced) and STATUS_RETRY (closed
 * while the database was away); the next reign finds out from the database.
 * @rows[i] are the rows of statement i, only on STATUS_OK, borrowed for the
 * call. Must not block. */
typedef void write_done(void *arg, enum status status,
                        struct db_rows *const *rows, size_t count,
                        const struct error *err);

struct write *write_new(write_done *on_done, void *arg);
/* Parameters are copied. */
void write_add(struct write *write, const struct statement *statement,
               const struct db_param *params);
/* Statements added so far. */
size_t write_count(const struct write *write);
void write_free(struct write *write); /* only when never submitted */

struct writer_events {
    /* Another coordinator has a higher epoch: this one must stop. */
    void (*on_fenced)(void *arg);
    /* The database went away or came back. */
    void (*on_reachable)(void *arg, int reachable);
    void *arg;
};

/* Connect, wait for the advisory lock of the active coordinator (polling once
 * a second while *stop is 0; STATUS_RETRY when it was set), raise the epoch,
 * start the thread.  @epoch receives this reign's number. */
MUST_CHECK enum status writer_open(const char *conninfo,
                                   const struct writer_events *events,
                                   const volatile int *stop,
                                   struct writer **writer, uint64_t *epoch,
                                   struct error *err);
/* Take @write; its on_done is called exactly once. Thread-safe, never blocks
 * on the database. */
void writer_submit(struct writer *writer, struct write *write);
/* Finish what was submitted (waiting at most @limit_ms for a lost database,
 * then failing the rest with STATUS_RETRY), stop the thread, release the lock.
 */
void writer_close(struct writer *writer, int limit_ms);

#endif
