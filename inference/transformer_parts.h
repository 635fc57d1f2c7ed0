/* transformer_parts.h - the state of a forward pass, for the files that do a
 * part of it. */
#ifndef BERTH_INFERENCE_TRANSFORMER_PARTS_H
#define BERTH_INFERENCE_TRANSFORMER_PARTS_H

#include "inference/router.h"
#include "inference/transformer.h"

/* Rows of a pass by the expert that works on them. */
struct expert_rows {
    struct chosen *chosen; /* experts.used for each row */
    size_t *rows;          /* of one expert, with their weights */
    float *weights;
    float *room; /* router_choose's */
};

struct transformer {
    const struct ops *ops;
    void *ctx;
    const struct model_config *config;
    const struct weights *weights;
    struct rope_shape rope;
    struct kv_shape kv_shape;
    struct vec *hidden, *normed, *query, *key, *value, *mixed;
    /* NULL where attention is not latent */
    struct vec *query_down, *latent_query, *latent_mixed;
    /* NULL where there is none: queries with their gates; delta nets */
    struct vec *query_gated, *attention_gate;
    struct vec *delta_qkv, *delta_gate, *delta_strength, *delta_decay,
        *delta_out;
    struct vec *gate, *up; /* NULL where all layers have experts */
    /* NULL where none has */
    struct vec *scores, *gathered, *expert_gate, *expert_up, *expert_out;
    struct vec *shared_gate, *shared_up, *shared_scale;
    struct expert_rows expert_rows;
    struct vec *last, *logits;
};

/* out = in, each piece of @size elements normalised. */
void transformer_normalise(struct transformer *t, struct vec *out,
                           const struct vec *in, size_t count,
                           const float *weight, size_t size);

/* A norm with its own epsilon, of the first @size of each @stride. */
void transformer_normalise_part(struct transformer *t, struct vec *x,
                                size_t count, const float *weight, size_t size,
                                size_t stride, float eps);

/* Allocate and free what latent attention needs; nothing without it. */
void latent_init(struct transformer *t);
void latent_clear(struct transformer *t);
/* mixed = attention over the normalised hidden. */
void latent_attend(struct transformer *t, size_t layer,
                   const struct pass_row *rows, size_t count);

/* Allocate and free what delta nets need; nothing without them. */
void delta_init(struct transformer *t);
void delta_clear(struct transformer *t);
/* What the layer keeps of a sequence. */
struct kv_layer delta_kv_layer(const struct model_config *config);
/* normed = the layer's answer to the normalised hidden. */
void delta_attend(struct transformer *t, size_t layer,
                  const struct pass_row *rows, size_t count);

/* Allocate and free what feed_forward needs. */
void feed_forward_init(struct transformer *t);
void feed_forward_clear(struct transformer *t);
/* hidden += what the layer's matrices make of the normalised hidden. */
void feed_forward(struct transformer *t, size_t layer, size_t count);

#endif
