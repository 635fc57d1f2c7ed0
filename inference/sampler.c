/* sampler.c - a heap gives the likeliest ids in order, and only as many as
 * top-k and top-p ask for. */
#include "inference/sampler.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

#include "common/banned.h"

static uint64_t
mix(uint64_t z)
{
    z += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint64_t
sampler_random(uint64_t seed, uint64_t choice, uint64_t position)
{
    return mix(mix(mix(seed) + choice) + position);
}

static uint32_t
greatest(const float *logits, size_t vocab)
{
    size_t best = 0;

    for (size_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best] || isnan(logits[best]))
            best = i;
    return (uint32_t)best;
}

/* Ties go to the lower id. */
static bool
precedes(const struct sampler_entry *a, const struct sampler_entry *b)
{
    return a->weight > b->weight || (a->weight == b->weight && a->id < b->id);
}

static void
sift_down(struct sampler_entry *heap, size_t count, size_t at)
{
    struct sampler_entry moved = heap[at];

    for (;;) {
        size_t child = 2 * at + 1;

        if (child >= count)
            break;
        if (child + 1 < count && precedes(&heap[child + 1], &heap[child]))
            child++;
        if (!precedes(&heap[child], &moved))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

/* Move the @keep likeliest to the end of @heap, the likeliest last; ends
 * early once they weigh @enough.  Returns how many, and their weight. */
static size_t
take_likeliest(struct sampler_entry *heap, size_t count, size_t keep,
               double enough, double *taken)
{
    size_t kept = 0;

    *taken = 0;
    for (size_t i = count / 2; i-- > 0;)
        sift_down(heap, count, i);
    while (kept < keep && kept < count && (kept == 0 || *taken < enough)) {
        size_t last = count - 1 - kept;
        struct sampler_entry top = heap[0];

        heap[0] = heap[last];
        heap[last] = top;
        *taken += top.weight;
        kept++;
        sift_down(heap, last, 0);
    }
    return kept;
}

/* The entry in which the point @share of the whole weight falls. */
static uint32_t
entry_at(const struct sampler_entry *entries, size_t count, double share,
         double whole)
{
    double sum = 0;

    for (size_t i = count; i-- > 1;) {
        sum += entries[i].weight;
        if (share * whole < sum)
            return entries[i].id;
    }
    return entries[0].id;
}

/* Weights relative to the likeliest; returns their sum. */
static double
weigh(const float *logits, size_t vocab, double temperature,
      struct sampler_entry *room)
{
    double top = (double)logits[greatest(logits, vocab)];
    double sum = 0;

    for (size_t i = 0; i < vocab; i++) {
        double weight = exp(((double)logits[i] - top) / temperature);

        room[i].id = (uint32_t)i;
        room[i].weight = isnan(weight) ? 0 : weight;
        sum += room[i].weight;
    }
    return sum;
}

uint32_t
sampler_pick(const float *logits, size_t vocab, const struct sampling *sampling,
             uint64_t choice, uint64_t position, struct sampler_entry *room)
{
    uint64_t random = sampler_random(sampling->seed, choice, position);
    double share = (double)(random >> 11) * 0x1p-53;
    size_t keep = sampling->top_k != 0 && sampling->top_k < vocab
                      ? sampling->top_k
                      : vocab;
    size_t kept;
    double whole;

    assert(vocab > 0);
    if (sampling->temperature <= 0)
        return greatest(logits, vocab);
    whole = weigh(logits, vocab, sampling->temperature, room);
    if (!(whole > 0))
        return greatest(logits, vocab);
    if (keep < vocab) {
        kept = take_likeliest(room, vocab, keep, INFINITY, &whole);
        room += vocab - kept;
        vocab = kept;
    }
    if (sampling->top_p < 1) {
        kept =
            take_likeliest(room, vocab, vocab, sampling->top_p * whole, &whole);
        room += vocab - kept;
        vocab = kept;
    }
    return entry_at(room, vocab, share, whole);
}
