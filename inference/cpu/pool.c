/* pool.c - a task is published by raising its number; threads look for a new
 * number for a short while, then between offers of their processor to others,
 * and then sleep, since the operations of one pass follow each other within
 * microseconds.
 *
 * Waking costs more than a small operation, so nobody takes the lock while all
 * are looking: who goes to sleep says so first and looks once more, who has
 * something new says so first and then asks for sleepers.  The atomics are
 * sequentially consistent, so one of the two sees the other. */
#include "inference/cpu/pool.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "common/mem.h"

#include "common/banned.h"

enum { LOOKS_BEFORE_YIELD = 2000, YIELDS_BEFORE_SLEEP = 100 };

struct worker {
    struct pool *pool;
    size_t index;
    pthread_t thread;
};

struct pool {
    size_t threads;
    struct worker *workers; /* threads - 1 */
    pool_work *work;
    void *arg;
    size_t count, piece;
    atomic_size_t next; /* first item not taken */
    atomic_size_t busy; /* workers not yet done with the task */
    atomic_uint task;   /* number of the task, raised by one each */
    atomic_bool stopping;
    atomic_size_t sleepers;    /* workers that sleep or are about to */
    atomic_bool caller_sleeps; /* or is about to */
    pthread_mutex_t lock;      /* for sleeping alone */
    pthread_cond_t wake;
    pthread_cond_t idle;
};

static void
take_items(struct pool *pool, size_t thread)
{
    for (;;) {
        size_t first = atomic_fetch_add(&pool->next, pool->piece);
        size_t last = first + pool->piece;

        if (first >= pool->count)
            return;
        pool->work(pool->arg, first, last < pool->count ? last : pool->count,
                   thread);
    }
}

/* Called between two looks; false when it is time to sleep. */
static bool
is_worth_looking(int looks)
{
    if (looks >= LOOKS_BEFORE_YIELD)
        sched_yield();
    return looks < LOOKS_BEFORE_YIELD + YIELDS_BEFORE_SLEEP;
}

/* Until the task's number is no longer @seen. */
static void
await_task(struct pool *pool, unsigned seen)
{
    for (int looks = 0; is_worth_looking(looks); looks++)
        if (atomic_load(&pool->task) != seen)
            return;
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(&pool->task) == seen)
        pthread_cond_wait(&pool->wake, &pool->lock);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->lock);
}

static void *
worker_main(void *arg)
{
    struct worker *worker = arg;
    struct pool *pool = worker->pool;
    unsigned seen = 0;

    for (;;) {
        await_task(pool, seen);
        seen++;
        if (atomic_load(&pool->stopping))
            return NULL;
        take_items(pool, worker->index);
        if (atomic_fetch_sub(&pool->busy, 1) == 1 &&
            atomic_load(&pool->caller_sleeps)) {
            pthread_mutex_lock(&pool->lock);
            pthread_cond_signal(&pool->idle);
            pthread_mutex_unlock(&pool->lock);
        }
    }
}

struct pool *
pool_new(size_t threads)
{
    struct pool *pool = mem_alloc(sizeof(*pool));

    assert(threads >= 1 && threads <= POOL_THREADS_MAX);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->idle, NULL);
    pool->workers = mem_array(threads, sizeof(pool->workers[0]));
    pool->threads = 1;
    for (size_t i = 0; i + 1 < threads; i++) {
        struct worker *worker = &pool->workers[i];

        *worker = (struct worker){.pool = pool, .index = i + 1};
        /* Fewer threads than asked for give the same results. */
        if (pthread_create(&worker->thread, NULL, worker_main, worker) != 0)
            break;
        pool->threads++;
    }
    return pool;
}

static void
publish(struct pool *pool)
{
    atomic_fetch_add(&pool->task, 1);
    if (atomic_load(&pool->sleepers) == 0)
        return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
}

void
pool_free(struct pool *pool)
{
    if (pool == NULL)
        return;
    atomic_store(&pool->stopping, true);
    publish(pool);
    for (size_t i = 0; i + 1 < pool->threads; i++)
        pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->idle);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    free(pool->workers);
    free(pool);
}

size_t
pool_threads(const struct pool *pool)
{
    return pool->threads;
}

static void
await_idle(struct pool *pool)
{
    for (int looks = 0; is_worth_looking(looks); looks++)
        if (atomic_load(&pool->busy) == 0)
            return;
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->caller_sleeps, true);
    while (atomic_load(&pool->busy) != 0)
        pthread_cond_wait(&pool->idle, &pool->lock);
    atomic_store(&pool->caller_sleeps, false);
    pthread_mutex_unlock(&pool->lock);
}

void
pool_run(struct pool *pool, pool_work *work, void *arg, size_t count,
         size_t piece)
{
    assert(piece > 0);
    if (pool->threads == 1 || count <= piece) {
        work(arg, 0, count, 0);
        return;
    }
    pool->work = work;
    pool->arg = arg;
    pool->count = count;
    pool->piece = piece;
    atomic_store(&pool->next, 0);
    atomic_store(&pool->busy, pool->threads - 1);
    publish(pool);
    take_items(pool, 0);
    await_idle(pool);
}

size_t
pool_processors(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);

    if (count < 1)
        return 1;
    return count < POOL_THREADS_MAX ? (size_t)count : POOL_THREADS_MAX;
}
