/* db_pool.c - connections that only read, shared by many threads. */
#include "ledger/db.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/mem.h"

#include "common/banned.h"

enum { READER_ANSWER_MS = 10000, LEASE_WAIT_US = 2000000 };

struct db_pool {
    pthread_mutex_t mutex;
    pthread_cond_t freed;
    char *conninfo;
    struct db **idle; /* @free of them; NULL entries are not yet opened */
    size_t free;
    size_t size;
};

static enum status
reader_open(const char *conninfo, struct db **db, struct error *err)
{
    struct db *opened = NULL;
    enum status status = db_open(conninfo, &opened, err);

    if (status != STATUS_OK)
        return status;
    db_set_deadline(opened, READER_ANSWER_MS);
    status = db_command(opened, "SET default_transaction_read_only = on", "SET",
                        err);
    if (status == STATUS_OK)
        *db = opened;
    else
        db_close(opened);
    return status;
}

enum status
db_pool_open(const char *conninfo, size_t size, struct db_pool **pool,
             struct error *err)
{
    struct db *first = NULL;
    enum status status = reader_open(conninfo, &first, err);
    struct db_pool *opened;

    assert(size > 0);
    if (status != STATUS_OK)
        return status;
    opened = mem_alloc(sizeof(*opened));
    pthread_mutex_init(&opened->mutex, NULL);
    pthread_cond_init(&opened->freed, NULL);
    opened->conninfo = mem_text(conninfo);
    opened->idle = mem_array(size, sizeof(struct db *));
    opened->idle[size - 1] = first; /* leased first; the others open later */
    opened->free = size;
    opened->size = size;
    *pool = opened;
    return STATUS_OK;
}

void
db_pool_close(struct db_pool *pool)
{
    if (pool == NULL)
        return;
    assert(pool->free == pool->size);
    for (size_t i = 0; i < pool->size; i++)
        db_close(pool->idle[i]);
    pthread_mutex_destroy(&pool->mutex);
    pthread_cond_destroy(&pool->freed);
    free(pool->idle);
    free(pool->conninfo);
    free(pool);
}

/* Is one free, perhaps after a while?  The mutex is held.  Callers are threads
 * that serve others, too. */
static bool
wait_for_free(struct db_pool *pool)
{
    int64_t until_us = clock_wall().us + LEASE_WAIT_US;
    struct timespec until = {.tv_sec = (time_t)(until_us / 1000000),
                             .tv_nsec = (long)(until_us % 1000000) * 1000};

    while (pool->free == 0)
        if (pthread_cond_timedwait(&pool->freed, &pool->mutex, &until) ==
            ETIMEDOUT)
            return pool->free > 0;
    return true;
}

enum status
db_lease(struct db_pool *pool, struct db **db, struct error *err)
{
    enum status status = STATUS_OK;
    struct db *leased = NULL;
    bool is_free;

    pthread_mutex_lock(&pool->mutex);
    is_free = wait_for_free(pool);
    if (is_free)
        leased = pool->idle[--pool->free];
    pthread_mutex_unlock(&pool->mutex);
    if (!is_free)
        return error_set(err, STATUS_RETRY,
                         "the database does not answer: try again");

    if (leased != NULL && !db_is_usable(leased)) {
        db_close(leased);
        leased = NULL;
    }
    if (leased == NULL)
        status = reader_open(pool->conninfo, &leased, err);
    if (status == STATUS_OK)
        *db = leased;
    else
        db_return(pool, NULL);
    return status;
}

void
db_return(struct db_pool *pool, struct db *db)
{
    if (db != NULL)
        db_rollback(db);
    pthread_mutex_lock(&pool->mutex);
    assert(pool->free < pool->size);
    pool->idle[pool->free++] = db;
    pthread_cond_signal(&pool->freed);
    pthread_mutex_unlock(&pool->mutex);
}
