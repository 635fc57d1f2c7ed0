/* backoff.c - doubling waits with a ceiling, and their jitter. */
#include "node-agent/backoff.h"

#include <assert.h>

#include "common/banned.h"

int64_t
backoff_ceiling_ms(int64_t least_ms, int64_t most_ms, unsigned failures)
{
    int64_t ceiling = least_ms;

    assert(least_ms > 0 && least_ms <= most_ms);
    while (failures > 0 && ceiling < most_ms) {
        ceiling = ceiling > most_ms / 2 ? most_ms : ceiling * 2;
        failures--;
    }
    return ceiling;
}

int64_t
backoff_jitter_ms(int64_t ceiling_ms, struct prng *prng)
{
    assert(ceiling_ms >= 0);
    return (int64_t)prng_below(prng, (uint64_t)ceiling_ms + 1);
}
