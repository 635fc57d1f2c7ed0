/* pool.h - threads that share out the items of one task at a time.
 *
 * One thread at a time may call pool_run.  Items are taken in pieces as
 * threads become free, so items must not depend on each other. */
#ifndef BERTH_INFERENCE_CPU_POOL_H
#define BERTH_INFERENCE_CPU_POOL_H

#include <stddef.h>

enum { POOL_THREADS_MAX = 256 };

struct pool;

/* Work on items [first, last); @thread is below the number of threads. */
typedef void pool_work(void *arg, size_t first, size_t last, size_t thread);

/* @threads of them, the caller of pool_run counted; 1 to POOL_THREADS_MAX. */
struct pool *pool_new(size_t threads);
void pool_free(struct pool *pool);
size_t pool_threads(const struct pool *pool);
/* Returns when all of @count items are done; @piece items are taken at once. */
void pool_run(struct pool *pool, pool_work *work, void *arg, size_t count,
              size_t piece);
/* Processors this process may use, at least 1. */
size_t pool_processors(void);

#endif
