/* placement.h - choose the target on which a job runs, and say why.
 *
 * The passes in order: filter (every limit, with its shortfall), score
 * (estimated finish in integer nanoseconds), choose (least; ties to the lowest
 * id), explain.  Pure: no I/O, no clock, no allocation; equal inputs give equal
 * answers on every machine.  Safe to call from any thread.
 *
 * First form: a target is a single node.  Sources of the terms and constants:
 * docs/placement.md. */
#ifndef BERTH_PLACEMENT_PLACEMENT_H
#define BERTH_PLACEMENT_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "common/error.h"
#include "common/units.h"

enum { PLACE_ID_BYTES = 40, PLACE_REASON_BYTES = 200 };

/* What an engine can do, as bits; a demand lists what it needs. */
enum place_capability {
    PLACE_CAN_IDS = 1 << 0,
    PLACE_CAN_RESUME = 1 << 1,
    PLACE_CAN_SEED = 1 << 2,
    PLACE_CAN_GRAMMAR = 1 << 3,
    PLACE_CAN_LOGPROBS = 1 << 4,
    PLACE_CAN_EMBEDDINGS = 1 << 5,
    PLACE_CAN_BATCH = 1 << 6,
};
/* By the name an engine declares ("resume"); 0 when unknown. */
uint32_t place_capability_bit(const char *name);

/* One target as the coordinator's core sees it now, for one model. */
struct place_target {
    char id[PLACE_ID_BYTES]; /* ties go to the lowest by strcmp */
    bool online;
    bool lending;  /* not paused, draining, quarantined */
    bool in_pool;  /* of the pool that the job asked for */
    bool excluded; /* this job already failed here */
    bool verified; /* else no job above PLACE_UNVERIFIED_BYTES */
    uint32_t capabilities;
    bool holds_model;       /* the files are on its disk */
    bool warm;              /* the model is loaded */
    uint64_t limit_bytes;   /* working-set limit after the owner's cap */
    uint64_t in_use_bytes;  /* pinned by running jobs: weights (once a model)
                             * and KV; idle warm models are not counted */
    bool model_pinned;      /* this model's weights are in in_use_bytes */
    uint32_t slots;         /* jobs at once */
    uint32_t jobs;          /* running now */
    int64_t queued_ns;      /* estimated work already there */
    double bandwidth_gb_s;  /* 0: unknown */
    double prefill_tflop_s; /* 0: unknown */
    double read_gb_s;       /* 0: unknown */
};

/* What a job asks of a target. */
struct place_demand {
    uint64_t weight_bytes;
    uint64_t bytes_per_token; /* weight bytes read per decoded token */
    uint64_t kv_bytes_per_token;
    uint64_t flop_per_token;
    uint64_t attention_flop; /* per token^2 */
    uint64_t hidden;
    uint64_t prompt_tokens;
    uint64_t output_tokens; /* upper bound; decides the KV reservation */
    uint32_t capabilities;  /* needed */
};

enum place_verdict {
    PLACE_CHOSEN,
    PLACE_SLOWER, /* feasible, another finishes earlier */
    PLACE_NOT_IN_POOL,
    PLACE_NO_MODEL, /* files not on its disk */
    PLACE_NO_CAPABILITY,
    PLACE_TOO_SMALL,  /* would not fit even when idle */
    PLACE_UNVERIFIED, /* over PLACE_UNVERIFIED_BYTES */
    PLACE_EXCLUDED,
    PLACE_OFFLINE,
    PLACE_NOT_LENDING,
    PLACE_NO_SLOT,       /* all slots taken now */
    PLACE_NO_MEMORY_NOW, /* fits when running jobs end */
    PLACE_VERDICT_COUNT
};

/* What the passes found about one target. */
struct place_candidate {
    enum place_verdict verdict;
    uint64_t need_bytes; /* memory the job needs there */
    uint64_t free_bytes; /* memory it could have now */
    int64_t wait_ns, load_ns, prefill_ns, decode_ns;
    int64_t finish_ns; /* their sum */
    double ttft_ms;    /* predicted: wait + load + prefill + one token */
    double tok_s;      /* predicted decode rate */
    char reason[PLACE_REASON_BYTES]; /* with the limit and the shortfall */
};

#define PLACE_UNVERIFIED_BYTES UINT64_C(40000000000)

/* Try all targets; @candidates has room for @count and is always written.
 *
 * STATUS_OK: @chosen is the index.
 * STATUS_NO_CAPACITY: none now, but at least one could later (online or not):
 *   wait; code "no_capacity".
 * STATUS_INVALID: no known target could ever run it: code
 *   "model_unplaceable"; @err says which limit ruled out most, by how much, and
 *   the cheapest change that would help. */
MUST_CHECK enum status place_choose(const struct place_target *targets,
                                    size_t count,
                                    const struct place_demand *demand,
                                    struct place_candidate *candidates,
                                    size_t *chosen, struct error *err);

/* "chosen", "slower", "no_model", ... */
const char *place_verdict_name(enum place_verdict verdict);
/* Counts by verdict as one line: "3 targets: 1 without the model, 2 too small
 * (largest short by 3.2 GB)". */
void place_summary(const struct place_candidate *candidates, size_t count,
                   struct buf *out);

#endif
