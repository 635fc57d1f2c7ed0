/* sampler.h - from logits to the next id.
 *
 * Order: temperature, top-k, top-p (as transformers and mlx-lm apply them
 * together).  Temperature 0 takes the greatest logit, ties the lowest id.
 *
 * The random number of a sample is a function of (seed, choice, position) in
 * integers, so a job that goes on elsewhere draws what it would have drawn:
 *   x = mix(mix(mix(seed) + choice) + position)
 *   mix(z): z += 0x9e3779b97f4a7c15;
 *           z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
 *           z = (z ^ z >> 27) * 0x94d049bb133111eb;  z ^ z >> 31
 * modulo 2^64 (SplitMix64's step); the sample is at x / 2^64 of the
 * cumulative weight.  @position is the index of the id among all generated
 * ids of the choice, from 0.  Pure; safe from any thread. */
#ifndef BERTH_INFERENCE_SAMPLER_H
#define BERTH_INFERENCE_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include "common/sampling.h"

/* Room for sampler_pick: one for each id of the vocabulary. */
struct sampler_entry {
    double weight;
    uint32_t id;
};

uint64_t sampler_random(uint64_t seed, uint64_t choice, uint64_t position);

/* The id drawn from @logits, @vocab > 0 of them; NaN counts as impossible.
 * @room has @vocab entries and is used freely. */
uint32_t sampler_pick(const float *logits, size_t vocab,
                      const struct sampling *sampling, uint64_t choice,
                      uint64_t position, struct sampler_entry *room);

#endif
