/* bandwidth.h - how fast this machine's threads together read memory. */
#ifndef BERTH_NODE_AGENT_BANDWIDTH_H
#define BERTH_NODE_AGENT_BANDWIDTH_H

#include <stdint.h>

#include "common/attrs.h"
#include "common/error.h"

/* Decimal GB/s: the best of several passes over a buffer much larger than the
 * caches, with @threads threads.  Takes under a second and blocks; all threads
 * have ended when it returns. */
MUST_CHECK enum status bandwidth_measure(uint64_t threads,
                                         uint64_t memory_bytes, double *gb_s,
                                         struct error *err);

#endif
