/* read_bench.c - how fast memory can be read in one direction: the rate that
 * no engine's decoding can pass.
 *
 *   read_bench [THREADS [MIB]]      prints GB/s, the best of five rounds */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/mem.h"
#include "common/units.h"

#include "common/banned.h"

enum { THREADS_MAX = 64, ROUNDS = 5, LANES = 16 };

struct part {
    const uint64_t *words;
    size_t count; /* a multiple of LANES */
    uint64_t sum;
};

static void *
read_part(void *arg)
{
    struct part *part = arg;
    uint64_t lanes[LANES] = {0};

    for (size_t i = 0; i < part->count; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            lanes[k] += part->words[i + k];
    for (size_t k = 0; k < LANES; k++)
        part->sum += lanes[k];
    return NULL;
}

/* Nanoseconds for one reading by all threads. */
static int64_t
round_run(struct part *parts, size_t threads)
{
    pthread_t started[THREADS_MAX];
    struct span begun = clock_monotonic();

    for (size_t i = 1; i < threads; i++)
        if (pthread_create(&started[i], NULL, read_part, &parts[i]) != 0)
            abort();
    read_part(&parts[0]);
    for (size_t i = 1; i < threads; i++)
        pthread_join(started[i], NULL);
    return clock_monotonic().ns - begun.ns;
}

static size_t
number_of(const char *text, uint64_t max)
{
    uint64_t number;

    if (parse_u64(text, strlen(text), max, &number) != STATUS_OK ||
        number < 1) {
        fprintf(stderr, "usage: read_bench [THREADS [MIB]]\n");
        exit(2);
    }
    return (size_t)number;
}

int
main(int argc, char **argv)
{
    size_t threads = argc > 1 ? number_of(argv[1], THREADS_MAX) : 1;
    size_t size = (argc > 2 ? number_of(argv[2], 4096) : 256) << 20;
    size_t each = size / threads / sizeof(uint64_t) / LANES * LANES;
    uint64_t *words = mem_array(size / sizeof(uint64_t), sizeof(uint64_t));
    struct part parts[THREADS_MAX] = {{0}};
    uint64_t sum = 0;
    int64_t best = INT64_MAX;

    for (size_t i = 0; i < size / sizeof(uint64_t); i++)
        words[i] = i;
    for (size_t i = 0; i < threads; i++)
        parts[i] = (struct part){.words = words + i * each, .count = each};
    for (int round = 0; round < ROUNDS; round++) {
        int64_t took = round_run(parts, threads);

        best = took < best ? took : best;
    }
    for (size_t i = 0; i < threads; i++)
        sum += parts[i].sum;
    printf("read_bench: %zu threads, %.2f GB/s (sum %d)\n", threads,
           (double)(each * threads * sizeof(uint64_t)) / (double)best,
           (int)(sum & 0xff));
    free(words);
    return 0;
}
