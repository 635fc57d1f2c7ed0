/* prng.c - SplitMix64. */
#include "common/prng.h"

#include <assert.h>

#include "common/banned.h"

void
prng_seed(struct prng *prng, uint64_t seed)
{
    prng->state = seed;
}

uint64_t
prng_next(struct prng *prng)
{
    uint64_t z = prng->state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t
prng_below(struct prng *prng, uint64_t bound)
{
    /* 2^64 modulo the bound: that many lowest values would come too often. */
    uint64_t surplus, value;

    assert(bound > 0);
    surplus = (0 - bound) % bound;
    do
        value = prng_next(prng);
    while (value < surplus);
    return value % bound;
}

double
prng_unit(struct prng *prng)
{
    return (double)(prng_next(prng) >> 11) * 0x1.0p-53;
}
