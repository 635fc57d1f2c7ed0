/* transformer.h - the forward pass of the known architectures, written once
 * over inference/ops.h.
 *
 * Architectures: those of model/directory_config.c: grouped attention, rotary
 * positions with their scalings, windows, sinks, a compressed cache, delta
 * nets, experts.  Not safe to share between threads.
 */
#ifndef BERTH_INFERENCE_TRANSFORMER_H
#define BERTH_INFERENCE_TRANSFORMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inference/ops.h"
#include "inference/weights.h"
#include "model/directory.h"

enum {
    /* Rows of one pass: a prefill chunk beside one row per slot. */
    TRANSFORMER_ROWS_MAX = 320,
    TRANSFORMER_LOGITS_MAX = 64,
};

struct transformer;

/* All are kept. */
struct transformer *transformer_new(const struct backend *backend,
                                    const struct model_config *config,
                                    const struct weights *weights);
void transformer_free(struct transformer *transformer);

/* Memory for @positions of one sequence. */
struct kv *transformer_kv_new(struct transformer *transformer,
                              size_t positions);
void transformer_kv_free(struct transformer *transformer, struct kv *kv);
/* What a position takes, and a sequence of @positions. */
uint64_t transformer_kv_token_bytes(const struct transformer *transformer);
uint64_t transformer_kv_bytes(const struct transformer *transformer,
                              uint64_t positions);

/* One pass over @count rows (at most TRANSFORMER_ROWS_MAX).  Rows of one
 * sequence stand in rising positions, and all positions before its first one
 * were in earlier passes.  Logits are made for the rows listed in @wanted (at
 * most TRANSFORMER_LOGITS_MAX); ids and positions must be in range. */
void transformer_pass(struct transformer *transformer,
                      const struct pass_row *rows, size_t count,
                      const size_t *wanted, size_t wanted_count);
/* Logits of the @index-th wanted row, config.vocab of them, valid until the
 * next pass. */
const float *transformer_logits(const struct transformer *transformer,
                                size_t index);

#endif
