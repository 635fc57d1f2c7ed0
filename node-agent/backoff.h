/* backoff.h - how long to wait before trying again.
 *
 * The ceiling doubles with every failure between two bounds.  Reconnecting
 * agents draw uniformly below it ("full jitter"), so that a fleet does not
 * return in step after a coordinator's restart.  Pure. */
#ifndef BERTH_NODE_AGENT_BACKOFF_H
#define BERTH_NODE_AGENT_BACKOFF_H

#include <stdint.h>

#include "common/prng.h"

/* Milliseconds: @least_ms doubled @failures times, at most @most_ms. */
int64_t backoff_ceiling_ms(int64_t least_ms, int64_t most_ms,
                           unsigned failures);
/* Uniform in [0, @ceiling_ms]. */
int64_t backoff_jitter_ms(int64_t ceiling_ms, struct prng *prng);

#endif
