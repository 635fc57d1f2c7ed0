/* bandwidth.c - threads that add up a large buffer, timed. */
#include "node-agent/bandwidth.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "common/clock.h"

#include "common/banned.h"

enum {
    THREADS_MAX = 128,
    PASSES_MAX = 12,
    BUDGET_MS = 400, /* for the passes; filling the buffer takes as long */
    LANES = 8,       /* independent sums, so that adding never waits */
};

static const uint64_t BUFFER_BYTES = 256 * MIB;

struct slice {
    const uint64_t *words;
    size_t count;
    uint64_t sum;
};

static void *
read_slice(void *arg)
{
    struct slice *slice = arg;
    uint64_t sums[LANES] = {0};

    for (size_t i = 0; i + LANES <= slice->count; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++)
            sums[lane] += slice->words[i + lane];
    for (size_t lane = 0; lane < LANES; lane++)
        slice->sum += sums[lane];
    return NULL;
}

/* One pass of all threads; false when a thread could not be started. */
static bool
run_pass(struct slice *slices, size_t count, struct span *took)
{
    pthread_t threads[THREADS_MAX];
    struct span from = clock_monotonic();
    size_t started = 0;

    while (started < count && pthread_create(&threads[started], NULL,
                                             read_slice, &slices[started]) == 0)
        started++;
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    *took = span_sub(clock_monotonic(), from);
    return started == count;
}

static void
cut(const uint64_t *words, size_t size, struct slice *slices, size_t count)
{
    size_t each = size / sizeof(*words) / count;

    for (size_t i = 0; i < count; i++)
        slices[i] = (struct slice){.words = words + i * each, .count = each};
}

enum status
bandwidth_measure(uint64_t threads, uint64_t memory_bytes, double *gb_s,
                  struct error *err)
{
    static struct slice slices[THREADS_MAX];
    size_t size = memory_bytes / 16 < BUFFER_BYTES ? (size_t)(memory_bytes / 16)
                                                   : (size_t)BUFFER_BYTES;
    size_t count = threads > THREADS_MAX ? THREADS_MAX : (size_t)threads;
    enum status status = STATUS_OK;
    int64_t best_ns = INT64_MAX;
    struct span took;
    struct span end;
    void *words;

    if (count == 0 || size < MIB)
        return error_set(err, STATUS_INVALID, "too little memory to measure");
    words =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
    if (words == MAP_FAILED)
        return error_set(err, STATUS_NO_CAPACITY, "no memory to measure");
    memset(words, 1, size); /* else all pages are the one page of zeros */
    cut(words, size, slices, count);
    end = span_add(clock_monotonic(), span_ms(BUDGET_MS));
    for (int pass = 0; pass < PASSES_MAX && status == STATUS_OK; pass++) {
        if (!run_pass(slices, count, &took))
            status = error_set(err, STATUS_RETRY, "cannot start threads");
        else if (took.ns > 0 && took.ns < best_ns)
            best_ns = took.ns;
        if (clock_monotonic().ns > end.ns)
            break;
    }
    if (status == STATUS_OK)
        *gb_s = (double)size / (double)best_ns; /* bytes per ns */
    munmap(words, size);
    return status;
}
