/* prng.h - a seeded generator for tests and jitter; never for secrets
 * (cert_random) and never for sampling (inference/sampler has its own).
 *
 * SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number
 * generators", 2014. */
#ifndef BERTH_COMMON_PRNG_H
#define BERTH_COMMON_PRNG_H

#include <stdint.h>

struct prng {
    uint64_t state;
};

void prng_seed(struct prng *prng, uint64_t seed);
uint64_t prng_next(struct prng *prng);
/* Uniform in [0, bound), bound > 0, without modulo bias. */
uint64_t prng_below(struct prng *prng, uint64_t bound);
/* Uniform in [0, 1). */
double prng_unit(struct prng *prng);

#endif
