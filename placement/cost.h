/* cost.h - what a job costs on a target: bytes of memory and nanoseconds.
 *
 * Private to placement.  Floating point stays inside cost.c; what leaves it for
 * a comparison is an integer.  Every sum saturates: no input, however hostile,
 * overflows.  Pure; safe from any thread.  Terms and constants with their
 * sources: docs/placement.md. */
#ifndef BERTH_PLACEMENT_COST_H
#define BERTH_PLACEMENT_COST_H

#include "placement/placement.h"

/* Memory of one member, by its parts. */
struct cost_memory {
    uint64_t weight_bytes;     /* 0 when the weights are already counted */
    uint64_t kv_bytes;         /* prompt and whole output */
    uint64_t activation_bytes; /* buffers at the prefill peak */
    uint64_t reserve_bytes;    /* the engine itself; 0 with the weights */
    uint64_t margin_bytes;     /* 4 % of the parts above, rounded up */
    uint64_t total_bytes;
};

/* @weights_counted: an engine already has this model pinned, so that only the
 * job's own part is asked for. */
struct cost_memory cost_memory(const struct place_demand *demand,
                               bool weights_counted);

/* Fill wait, load, prefill, decode, finish, ttft and tok_s of @candidate.
 * Rates that are zero, negative, not finite or beyond any machine count as
 * unknown and get the cautious default.  Each term is at most INT64_MAX / 4. */
void cost_time(const struct place_target *target,
               const struct place_demand *demand,
               struct place_candidate *candidate);

#endif
