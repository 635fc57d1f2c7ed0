/* db.h - connections, statements and rows: the only user of libpq.
 *
 * SQL text is a constant beside the one function that binds it; a statement is
 * prepared by name the first time a connection runs it.  Parameters and
 * columns travel as text.  A connection belongs to one thread at a time. */
#ifndef BERTH_LEDGER_DB_H
#define BERTH_LEDGER_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "common/error.h"
#include "common/units.h"

enum { DB_PARAMS_MAX = 32, DB_CALLS_MAX = 64 };

enum db_shape {
    DB_NONE,  /* no rows come back */
    DB_ONE,   /* exactly one row; none is STATUS_NOT_FOUND */
    DB_MAYBE, /* one row or none */
    DB_MANY,  /* any number of rows */
};

struct db_rows;

struct statement {
    const char *name; /* unique over the program */
    const char *sql;
    enum db_shape shape;
    int param_count;
    /* Decide from the rows whether the statement did what was meant (e.g. the
     * answer code of ledger.reserve); NULL: the shape is enough. */
    enum status (*check)(const struct db_rows *rows, struct error *err);
};

/* One parameter: text (NULL = SQL null) or bytes of bytea. */
struct db_param {
    const char *text;
    const void *bytes; /* when not NULL: bytea of @size bytes */
    size_t size;
};

enum { DB_NUMBER_BYTES = 32 };

/* Parameters; @text must live until the statement has run or was added to a
 * write. NULL is SQL's null. */
struct db_param db_param_text(const char *text);
/* "" is SQL's null. */
struct db_param db_param_text_or_null(const char *text);
struct db_param db_param_i64(char text[static DB_NUMBER_BYTES], int64_t number);
struct db_param db_param_real(char text[static DB_NUMBER_BYTES], double number);
struct db_param db_param_instant(char text[static DB_NUMBER_BYTES],
                                 struct instant at);
/* No bytes are SQL's null. */
struct db_param db_param_bytes(const struct buf *buf);

struct db;

/* @conninfo is a libpq connection string. STATUS_RETRY when the server is not
 * there (now). */
MUST_CHECK enum status db_open(const char *conninfo, struct db **db,
                               struct error *err);
void db_close(struct db *db);
/* From now on all below answer STATUS_RETRY when the server has not answered in
 * @ms (and the connection is of no more use); 0: it waits as long as it takes.
 */
void db_set_deadline(struct db *db, int64_t ms);
/* Call @on_slow once for each answer that takes longer than @ms; 0: never. */
void db_set_slow(struct db *db, int64_t ms, void (*on_slow)(void *arg),
                 void *arg);

/* Run one statement. STATUS_RETRY: connection lost or serialization failure,
 * nothing is known to have happened; STATUS_CONFLICT: a unique or exclusion
 * constraint; STATUS_NO_FUNDS: the no_overdraft constraint; STATUS_DENIED:
 * fenced (SQLSTATE 55000); STATUS_INTERNAL: anything else, with SQLSTATE and
 * message in @err; err->code is the SQLSTATE. @rows is owned by the caller:
 * db_rows_free; may be NULL. */
MUST_CHECK enum status db_run(struct db *db, const struct statement *statement,
                              const struct db_param *params,
                              struct db_rows **rows, struct error *err);
/* A statement to run with others. */
struct db_call {
    const struct statement *statement;
    const struct db_param *params;
    struct db_rows **rows; /* written when the call succeeds; caller frees */
};
/* Run @count statements in one exchange with the server, inside a transaction;
 * the status is that of the first that fails, and those before it have run. */
MUST_CHECK enum status db_run_all(struct db *db, const struct db_call *calls,
                                  size_t count, struct error *err);
/* BEGIN, COMMIT, SAVEPOINT and the like, unprepared; the command tag must be
 * @tag (COMMIT of a failed transaction answers ROLLBACK). */
MUST_CHECK enum status db_command(struct db *db, const char *sql,
                                  const char *tag, struct error *err);
/* A script of several commands without parameters (migrations). */
MUST_CHECK enum status db_script(struct db *db, const char *sql,
                                 struct error *err);
/* A serializable transaction around @body, repeated on STATUS_RETRY; for
 * migrations and tools. */
typedef enum status db_body(struct db *db, void *arg, struct error *err);
MUST_CHECK enum status db_transact(struct db *db, db_body *body, void *arg,
                                   struct error *err);
bool db_is_alive(const struct db *db);
/* The same for an idle connection, after looking whether the server closed it.
 */
bool db_is_usable(struct db *db);
/* Undo a transaction that was left open, if any. */
void db_rollback(struct db *db);

size_t db_row_count(const struct db_rows *rows);
int db_column_count(const struct db_rows *rows);
void db_rows_free(struct db_rows *rows);
bool db_is_null(const struct db_rows *rows, size_t row, int column);
/* "" for null. Borrowed from @rows. */
const char *db_text(const struct db_rows *rows, size_t row, int column);
/* 0 for null; asserts that the column is an integer. */
int64_t db_i64(const struct db_rows *rows, size_t row, int column);
bool db_bool(const struct db_rows *rows, size_t row, int column);
double db_double(const struct db_rows *rows, size_t row, int column);
/* Decoded bytea, appended. */
void db_bytes(const struct db_rows *rows, size_t row, int column,
              struct buf *out);

/* A small pool of reader connections (default_transaction_read_only). Lease
 * waits until one is free, at most 2 s (then STATUS_RETRY); a dead one is
 * reopened. Thread-safe. */
struct db_pool;
MUST_CHECK enum status db_pool_open(const char *conninfo, size_t size,
                                    struct db_pool **pool, struct error *err);
void db_pool_close(struct db_pool *pool);
MUST_CHECK enum status db_lease(struct db_pool *pool, struct db **db,
                                struct error *err);
void db_return(struct db_pool *pool, struct db *db);

#endif
