/* engine.h - sequences in, ids out: admission, batching, resuming, stopping.
 *
 * An engine holds one model and a budget of KV memory.  A sequence waits until
 * a slot and the memory it reserves are free, in the order of arrival, so the
 * budget is never exceeded.  engine_step does one forward pass for everything
 * that runs: one row per decoding sequence and one chunk of a prompt.  Results
 * do not depend on the company (inference/ops.h).
 *
 * One thread uses an engine; nothing blocks but the pass itself. */
#ifndef BERTH_INFERENCE_ENGINE_H
#define BERTH_INFERENCE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/error.h"
#include "common/units.h"
#include "inference/ops.h"
#include "inference/sampler.h"
#include "model/directory.h"
#include "model/output.h"
#include "model/tokenizer.h"

enum {
    ENGINE_SLOTS_MAX = 64,
    ENGINE_CHUNK_MAX = 256,   /* prompt ids of one pass */
    ENGINE_WAITING_MAX = 256, /* sequences in all */
};

#define ENGINE_KV_DEFAULT_BYTES (2 * GIB)

struct engine;
struct sequence;

struct engine_options {
    size_t threads;    /* 0: one per processor */
    uint32_t slots;    /* sequences run at once, 1..ENGINE_SLOTS_MAX */
    bool int8;         /* 8-bit activations where weights are quantised */
    uint64_t kv_bytes; /* 0: full context in every slot, at most
                        * ENGINE_KV_DEFAULT_BYTES */
};

struct engine_request {
    const uint32_t *prompt; /* copied */
    size_t prompt_count;    /* > 0 */
    const uint32_t *done;   /* ids that earlier attempts generated; copied */
    size_t done_count;
    uint64_t max_tokens; /* of all attempts; > done_count */
    uint64_t kv_tokens;  /* positions to reserve, >= prompt + max_tokens */
    struct sampling sampling;
    uint32_t choice;
    bool ignore_ends; /* go on past end ids: measurements only */
    const char (*stop)[OUTPUT_STOP_BYTES];
    size_t stop_count;
};

/* What a sequence has used. */
struct sequence_counts {
    uint64_t ids;    /* made here, an end id included */
    uint64_t passes; /* forward passes it took part in */
    struct span prefill, decode;
};

#define ENGINE_NOT_FINITE                                                      \
    "the model answers with numbers that are not finite: its files are "       \
    "damaged; fetch them again"

struct engine_events {
    /* An id was made. @tag as given to engine_add. */
    void (*on_id)(void *arg, void *tag, uint32_t id);
    /* The sequence takes part in its first pass now.  May be NULL. */
    void (*on_start)(void *arg, void *tag);
    /* The sequence has finished and is gone after this call.  OUTPUT_GOING: it
     * cannot go on, since the model answers with numbers that are none. */
    void (*on_finish)(void *arg, void *tag, enum output_finish finish,
                      const struct sequence_counts *counts);
    void *arg;
};

/* Read, check and map the model at @path. */
MUST_CHECK enum status engine_open(const char *path,
                                   const struct engine_options *options,
                                   struct engine **engine, struct error *err);
void engine_close(struct engine *engine);

/* Take a sequence.  Errors, tagged with a code and naming the numbers:
 * bad_request, context_exceeded, no_memory (more than the whole budget; what
 * is only busy now waits), no_capacity (too many wait).  @tag is kept. */
MUST_CHECK enum status engine_add(struct engine *engine,
                                  const struct engine_request *request,
                                  void *tag, struct sequence **sequence,
                                  struct error *err);
/* Drop a sequence at once, waiting or running; @counts may be NULL. */
void engine_cancel(struct engine *engine, struct sequence *sequence,
                   struct sequence_counts *counts);
/* Is there anything to run? */
bool engine_is_busy(const struct engine *engine);
/* One forward pass; ids and ends are told through @events, from which
 * engine_cancel and engine_add must not be called. */
void engine_step(struct engine *engine, const struct engine_events *events);

/* The last position's logits of @ids (checked as engine_add does), for the
 * logits command; @logits holds the vocabulary. */
MUST_CHECK enum status engine_logits(struct engine *engine, const uint32_t *ids,
                                     size_t count, float *logits,
                                     struct error *err);

const struct model_config *engine_config(const struct engine *engine);
const struct tokenizer *engine_tokenizer(const struct engine *engine);
const char *engine_backend(const struct engine *engine);
uint32_t engine_slots(const struct engine *engine);
uint64_t engine_kv_token_bytes(const struct engine *engine);
uint64_t engine_kv_bytes(const struct engine *engine); /* budget */
uint64_t engine_kv_reserved_bytes(const struct engine *engine);
uint64_t engine_weight_bytes(const struct engine *engine);
uint64_t engine_bytes_per_token(const struct engine *engine);

#endif
