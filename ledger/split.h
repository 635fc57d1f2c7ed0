/* split.h - dividing an amount exactly by integer weights.
 *
 * q_i = floor(A w_i / W); the left-over ucr go to the largest remainders, ties
 * by (member id XOR job digest) so that no member is favoured for ever.
 * The shares sum to A exactly and do not depend on the order of the parts.
 * Pure; no floating point. */
#ifndef BERTH_LEDGER_SPLIT_H
#define BERTH_LEDGER_SPLIT_H

#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/error.h"
#include "common/units.h"

enum { SPLIT_PARTS_MAX = 64 };

struct split_part {
    uint64_t weight;      /* <= 2^63 */
    uint64_t tie;         /* first 8 bytes of the member's id, big-endian */
    struct credits share; /* written */
};

/* @job_tie: first 8 bytes of the job's digest. STATUS_INVALID when all weights
 * are 0, there are no parts, or a weight is over 2^63. */
MUST_CHECK enum status split_compute(struct credits amount, uint64_t job_tie,
                                     struct split_part *parts, size_t count,
                                     struct error *err);

#endif
