/* memory.h - does a model fit, and how much is left for its keys and values?
 *
 * The owner's safety: a load that weights, KV and margin do not allow, by the
 * limit or by a fresh reading, is refused whatever anybody asks.  Pure. */
#ifndef BERTH_NODE_AGENT_MEMORY_H
#define BERTH_NODE_AGENT_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/error.h"

#define ENGINE_MARGIN_BYTES                                                    \
    (64 * MIB) /* beside weights and KV of each engine */

/* What a load takes and what there is, for decisions and their reasons. */
struct memory_question {
    uint64_t limit_bytes;
    uint64_t held_bytes; /* by engines that stay */
    bool has_free_bytes;
    uint64_t free_bytes; /* of the machine, now */
    uint64_t weight_bytes;
    uint64_t kv_bytes_per_token;
    uint64_t kv_tokens; /* at least */
    uint64_t kv_tokens_most;
    bool is_shared; /* other models may want memory: half of the rest is theirs
                     */
};

/* Does it fit?  @kv_bytes is the budget to give.  STATUS_NO_CAPACITY with the
 * numbers in @err.  Pure. */
MUST_CHECK enum status memory_answer(const struct memory_question *question,
                                     uint64_t *kv_bytes, struct error *err);

/* a - b, not below nothing. */
uint64_t memory_rest(uint64_t a, uint64_t b);
/* a * b, at most half of what fits: sizes come from files and peers. */
uint64_t memory_product(uint64_t a, uint64_t b);

#endif
