/* weights.h - the tensors of a model directory, mapped and put in their
 * places.
 *
 * The files stay mapped read-only until weights_close; a file cut short while
 * mapped ends the process (the directory check saw its full size).  Immutable
 * after weights_open, so safe from several threads. */
#ifndef BERTH_INFERENCE_WEIGHTS_H
#define BERTH_INFERENCE_WEIGHTS_H

#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/error.h"
#include "inference/ops.h"
#include "model/modules.h"

/* By their roles (model/modules.h); NULL and empty where a layer has none.
 * Experts lie one under the other in one matrix, or apart: layer_expert. */
struct layer_weights {
    struct weight matrix[MATRIX_ROLES];
    float *vector[VECTOR_ROLES];
    /* One for each expert, where they are apart; NULL otherwise. */
    struct weight *apart[MATRIX_ROLES];
};

struct mapping;

struct weights {
    struct weight embedding;
    struct weight head; /* the embedding again when the config ties them */
    float *final_norm;
    struct layer_weights *layers; /* config.layers */
    uint64_t bytes_per_token;     /* of matrices read for one decoded token */
    struct mapping *mappings;     /* one per shard */
    size_t mapping_count;
};

/* @dir is borrowed for the call. STATUS_INVALID names the tensor. */
MUST_CHECK enum status weights_open(const struct model_directory *dir,
                                    struct weights *weights, struct error *err);
/* The matrix of an expert, @rows of all that the layer has. */
struct weight layer_expert(const struct layer_weights *layer,
                           enum matrix_role role, size_t expert, size_t rows);
void weights_close(struct weights *weights, const struct model_config *config);

#endif
