/* inference_pool_test.c - every item of every task is done once, whether the
 * threads are looking for tasks or have gone to sleep. */
#include "inference/cpu/pool.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/banned.h"

enum {
    ITEMS = 500,
    THREADS = 5,
    TASKS = 2000,
    /* Every so many tasks the threads are left alone for long enough. */
    REST_EVERY = 100,
    REST_YIELDS = 3000,
};

struct tally {
    long done[ITEMS];
    long each;
    size_t threads;
};

static void
count_items(void *arg, size_t first, size_t last, size_t thread)
{
    struct tally *tally = arg;

    if (thread >= tally->threads)
        return; /* what is left undone fails the test */
    for (size_t i = first; i < last; i++)
        tally->done[i] += tally->each;
}

static void
run_tasks(struct pool *pool, size_t piece)
{
    struct tally tally = {.threads = pool_threads(pool)};
    long expected = 0;

    for (int task = 0; task < TASKS; task++) {
        if (task % REST_EVERY == 0)
            for (int i = 0; i < REST_YIELDS; i++)
                sched_yield();
        tally.each = task % 7;
        expected += tally.each;
        pool_run(pool, count_items, &tally, ITEMS, piece);
    }
    for (size_t i = 0; i < ITEMS; i++)
        assert_int_equal(tally.done[i], expected);
}

static void
every_item_is_done_once(void **state)
{
    (void)state;
    for (size_t threads = 1; threads <= THREADS; threads++) {
        struct pool *pool = pool_new(threads);

        run_tasks(pool, 37);
        run_tasks(pool, ITEMS - 1);
        pool_free(pool);
    }
}

static void
a_pool_ends_without_a_task(void **state)
{
    (void)state;
    for (size_t threads = 1; threads <= THREADS; threads++)
        pool_free(pool_new(threads));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_is_done_once),
        cmocka_unit_test(a_pool_ends_without_a_task),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
