/* chips.h - what Apple publishes about its chips, and the working-set rule.
 *
 * A brand string alone does not give the memory bandwidth (M3 Max, M4 Max and
 * M5 Max come in two widths, M6 in two speeds): the memory size decides, or
 * nothing is known.  Pure. */
#ifndef BERTH_NODE_AGENT_CHIPS_H
#define BERTH_NODE_AGENT_CHIPS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/attrs.h"

struct chip_facts {
    bool has_bandwidth_gb_s;
    uint64_t bandwidth_gb_s; /* decimal, as published */
    bool has_gpu_cores;
    uint64_t gpu_cores;
};

/* Facts of @chip ("Apple M4 Max") with @memory_bytes installed (0: unknown).
 * False when the chip is not in the table. */
MUST_CHECK bool chip_find(const char *chip, uint64_t memory_bytes,
                          struct chip_facts *facts);

/* Metal's default working set by the older, safe rule: 2/3 of the memory up to
 * 32 GiB, 3/4 above. */
uint64_t chip_working_set_bytes(uint64_t memory_bytes);

#endif
