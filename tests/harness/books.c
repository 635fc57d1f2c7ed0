/* books.c - see books.h. */
#include "tests/harness/books.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ledger/migrate.h"

#include "common/banned.h"

bool
books_open(struct books *books, bool durable)
{
    struct error err = {0};
    enum status status;

    memset(books, 0, sizeof(*books));
    books->pg = pg_start(durable);
    if (books->pg == NULL)
        return false;
    if (!pg_database(books->pg, "books", books->conninfo))
        return false;
    status = db_open(books->conninfo, &books->db, &err);
    if (status == STATUS_OK)
        status = migrate(books->db, NULL, &err);
    if (status == STATUS_OK)
        status = writer_open(books->conninfo, NULL, NULL, &books->writer,
                             &books->epoch, &err);
    if (status != STATUS_OK)
        (void)fprintf(stderr, "books: %s\n", err.text);
    return status == STATUS_OK;
}

void
books_close(struct books *books)
{
    writer_close(books->writer, 1000);
    db_close(books->db);
    pg_stop(books->pg);
}

uint64_t
books_violations(const struct books *books)
{
    struct error err = {0};
    struct buf text;
    uint64_t count = UINT64_MAX;

    buf_init(&text, 65536);
    if (ledger_check(books->db, &count, &text, &err) != STATUS_OK)
        (void)fprintf(stderr, "books: %s\n", err.text);
    (void)fputs(text.data, stderr);
    buf_clear(&text);
    return count;
}

int64_t
books_number(const struct books *books, const char *sql)
{
    struct statement statement = {.name = "", .sql = sql, .shape = DB_MANY};
    struct error err = {0};
    struct db_rows *rows = NULL;
    struct db *db = NULL;
    int64_t value = 0;

    /* A connection of its own: the statement does not live on. */
    if (db_open(books->conninfo, &db, &err) != STATUS_OK ||
        db_run(db, &statement, NULL, &rows, &err) != STATUS_OK) {
        (void)fprintf(stderr, "books: %s\n", err.text);
        abort(); /* the statement must run */
    }
    value = db_i64(rows, 0, 0);
    db_rows_free(rows);
    db_close(db);
    return value;
}

static void
on_done(void *arg, enum status status, struct db_rows *const *rows,
        size_t count, const struct error *err)
{
    struct answer *answer = arg;

    pthread_mutex_lock(&answer->mutex);
    answer->calls++;
    answer->done = true;
    answer->status = status;
    if (status != STATUS_OK)
        answer->err = *err;
    else if (count > 0 && db_row_count(rows[0]) > 0)
        for (int i = 0; i < db_column_count(rows[0]) && i < ANSWER_COLUMNS; i++)
            if (parse_i64(db_text(rows[0], 0, i),
                          strlen(db_text(rows[0], 0, i)),
                          &answer->values[i]) != STATUS_OK)
                answer->values[i] = 0;
    pthread_cond_signal(&answer->changed);
    pthread_mutex_unlock(&answer->mutex);
}

struct write *
answer_write(struct answer *answer)
{
    memset(answer, 0, sizeof(*answer));
    pthread_mutex_init(&answer->mutex, NULL);
    pthread_cond_init(&answer->changed, NULL);
    return write_new(on_done, answer);
}

enum status
answer_wait(struct answer *answer)
{
    pthread_mutex_lock(&answer->mutex);
    while (!answer->done)
        pthread_cond_wait(&answer->changed, &answer->mutex);
    pthread_mutex_unlock(&answer->mutex);
    return answer->status;
}

enum status
books_write(const struct books *books, struct write *write,
            struct answer *answer)
{
    writer_submit(books->writer, write);
    return answer_wait(answer);
}

int64_t
books_wallet(const struct books *books, int64_t owner, int64_t amount)
{
    struct answer opened;
    struct answer granted;
    struct write *write = answer_write(&opened);
    char id[UUID_TEXT_BYTES];
    enum status status;

    ledger_person_open(write, owner);
    status = books_write(books, write, &opened);
    assert(status == STATUS_OK);
    if (amount > 0) {
        write = answer_write(&granted);
        ledger_grant(write, books->epoch,
                     books_uuid(UINT64_C(0xabcdef0000) + (uint64_t)owner, id),
                     opened.values[0], (struct credits){amount});
        status = books_write(books, write, &granted);
        assert(status == STATUS_OK);
    }
    (void)status;
    return opened.values[0];
}

int64_t
books_node(const struct books *books, int64_t owner, const char *node)
{
    struct answer opened;
    struct write *write = answer_write(&opened);
    enum status status;

    ledger_node_open(write, owner, node);
    status = books_write(books, write, &opened);
    assert(status == STATUS_OK);
    (void)status;
    return opened.values[0];
}

const char *
books_uuid(uint64_t number, char text[static UUID_TEXT_BYTES])
{
    (void)snprintf(text, UUID_TEXT_BYTES, "00000000-0000-7000-8000-%012" PRIx64,
                   number & UINT64_C(0xffffffffffff));
    return text;
}
