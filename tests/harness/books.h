/* books.h - a migrated ledger in a throwaway PostgreSQL, with its writer, and
 * writes that a test waits for.  One thread at a time. */
#ifndef BERTH_TESTS_BOOKS_H
#define BERTH_TESTS_BOOKS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "ledger/ledger.h"
#include "tests/harness/pg.h"

enum { ANSWER_COLUMNS = 2 };

struct books {
    struct pg *pg;
    char conninfo[PG_CONNINFO_BYTES];
    struct db *db; /* a second connection, for looking */
    struct writer *writer;
    uint64_t epoch;
};

/* false, with the reason on standard error, when it cannot start. */
MUST_CHECK bool books_open(struct books *books, bool durable);
void books_close(struct books *books);
/* Rows of the violation view; they go to standard error. */
uint64_t books_violations(const struct books *books);
/* The first column of the first row of @sql. */
int64_t books_number(const struct books *books, const char *sql);

/* What became of one write. */
struct answer {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool done;
    int calls; /* of on_done */
    enum status status;
    struct error err;
    /* First columns of the first row of the first statement, if integers. */
    int64_t values[ANSWER_COLUMNS];
};

/* A write that answers to @answer. */
struct write *answer_write(struct answer *answer);
/* Wait until on_done was called. */
enum status answer_wait(struct answer *answer);
/* Submit and wait. */
enum status books_write(const struct books *books, struct write *write,
                        struct answer *answer);

/* A person's wallet with @amount ucr in it. */
int64_t books_wallet(const struct books *books, int64_t owner, int64_t amount);
/* The maturing account of a node. */
int64_t books_node(const struct books *books, int64_t owner, const char *node);
/* A UUID made of @number. */
const char *books_uuid(uint64_t number, char text[static UUID_TEXT_BYTES]);

#endif
