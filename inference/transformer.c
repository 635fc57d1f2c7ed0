/* transformer.c - embedding, layers of attention and feed-forward, head. */
#include "inference/transformer_parts.h"

#include <assert.h>

#include "common/mem.h"
#include "inference/rope.h"

#include "common/banned.h"

static struct kv_layer *
kv_layers_make(const struct model_config *config)
{
    struct kv_layer *layers = mem_array(config->layers, sizeof(*layers));

    for (size_t i = 0; i < config->layers; i++)
        if (config->layer_kinds[i] == LAYER_DELTA)
            layers[i] = delta_kv_layer(config);
        else if (config->latent.kv_rank != 0)
            layers[i] = (struct kv_layer){.heads = 1,
                                          .key_size = config->latent.kv_rank +
                                                      config->latent.rope};
        else
            layers[i] = (struct kv_layer){.heads = config->kv_heads,
                                          .key_size = config->head_dim,
                                          .value_size = config->head_dim};
    return layers;
}

static struct rope_shape
rope_make(const struct model_config *config)
{
    return (struct rope_shape){.head_size = config->head_dim,
                               .size = config->rotary,
                               .frequencies = rope_frequencies(config),
                               .amplitude = config->rope_amplitude};
}

static void
attention_init(struct transformer *t)
{
    const struct model_config *config = t->config;
    size_t queries = (size_t)config->heads * config->head_dim;
    size_t keys = (size_t)config->kv_heads * config->head_dim;
    const size_t rows = TRANSFORMER_ROWS_MAX;

    if (config->latent.kv_rank != 0)
        return;
    t->query = t->ops->vec_new(t->ctx, rows, queries);
    t->key = t->ops->vec_new(t->ctx, rows, keys);
    t->value = t->ops->vec_new(t->ctx, rows, keys);
    t->mixed = t->ops->vec_new(t->ctx, rows, queries);
    if (!config->gated_attention)
        return;
    t->query_gated = t->ops->vec_new(t->ctx, rows, 2 * queries);
    t->attention_gate = t->ops->vec_new(t->ctx, rows, queries);
}

struct transformer *
transformer_new(const struct backend *backend,
                const struct model_config *config,
                const struct weights *weights)
{
    struct transformer *t = mem_alloc(sizeof(*t));
    const struct ops *ops = backend->ops;
    void *ctx = backend->ctx;
    const size_t rows = TRANSFORMER_ROWS_MAX;

    *t = (struct transformer){.ops = ops,
                              .ctx = ctx,
                              .config = config,
                              .weights = weights,
                              .rope = rope_make(config),
                              .kv_shape = {.layers = config->layers,
                                           .layer = kv_layers_make(config)}};
    t->hidden = ops->vec_new(ctx, rows, config->hidden);
    t->normed = ops->vec_new(ctx, rows, config->hidden);
    attention_init(t);
    latent_init(t);
    delta_init(t);
    feed_forward_init(t);
    t->last = ops->vec_new(ctx, TRANSFORMER_LOGITS_MAX, config->hidden);
    t->logits = ops->vec_new(ctx, TRANSFORMER_LOGITS_MAX, config->vocab);
    return t;
}

void
transformer_free(struct transformer *t)
{
    if (t == NULL)
        return;
    t->ops->vec_free(t->ctx, t->hidden);
    t->ops->vec_free(t->ctx, t->normed);
    t->ops->vec_free(t->ctx, t->query);
    t->ops->vec_free(t->ctx, t->key);
    t->ops->vec_free(t->ctx, t->value);
    t->ops->vec_free(t->ctx, t->mixed);
    t->ops->vec_free(t->ctx, t->last);
    t->ops->vec_free(t->ctx, t->logits);
    t->ops->vec_free(t->ctx, t->query_gated);
    t->ops->vec_free(t->ctx, t->attention_gate);
    latent_clear(t);
    delta_clear(t);
    feed_forward_clear(t);
    free((void *)(uintptr_t)t->kv_shape.layer);
    free((void *)(uintptr_t)t->rope.frequencies);
    free(t);
}

struct kv *
transformer_kv_new(struct transformer *t, size_t positions)
{
    return t->ops->kv_new(t->ctx, &t->kv_shape, positions);
}

void
transformer_kv_free(struct transformer *t, struct kv *kv)
{
    t->ops->kv_free(t->ctx, kv);
}

uint64_t
transformer_kv_token_bytes(const struct transformer *t)
{
    return t->ops->kv_token_bytes(&t->kv_shape);
}

uint64_t
transformer_kv_bytes(const struct transformer *t, uint64_t positions)
{
    return positions * t->ops->kv_token_bytes(&t->kv_shape) +
           t->ops->kv_state_bytes(&t->kv_shape);
}

void
transformer_normalise(struct transformer *t, struct vec *out,
                      const struct vec *in, size_t count, const float *weight,
                      size_t size)
{
    struct norm norm = {.weight = weight,
                        .size = size,
                        .stride = size,
                        .eps = t->config->norm_eps};

    t->ops->rmsnorm(t->ctx, out, in, count, &norm);
}

void
transformer_normalise_part(struct transformer *t, struct vec *x, size_t count,
                           const float *weight, size_t size, size_t stride,
                           float eps)
{
    struct norm norm = {
        .weight = weight, .size = size, .stride = stride, .eps = eps};

    t->ops->rmsnorm(t->ctx, x, x, count, &norm);
}

static struct attention_shape
attention_shape_of(const struct transformer *t, size_t layer)
{
    const struct model_config *config = t->config;
    const struct layer_weights *w = &t->weights->layers[layer];

    return (struct attention_shape){
        .layer = layer,
        .heads = config->heads,
        .kv_heads = config->kv_heads,
        .key_size = config->head_dim,
        .value_size = config->head_dim,
        .window =
            config->layer_kinds[layer] == LAYER_WINDOW ? config->window : 0,
        .scale = config->score_scale,
        .sinks = w->vector[VECTOR_SINKS]};
}

/* Of each head its query and, behind it, the gate of its result. */
static void
queries_make(struct transformer *t, const struct layer_weights *w, size_t count)
{
    const struct ops *ops = t->ops;
    const struct weight *matrix = &w->matrix[MATRIX_QUERY];
    size_t size = t->config->head_dim, heads = t->config->heads;
    const struct pieces close = {0, size}, first = {0, 2 * size},
                        second = {size, 2 * size};

    if (!t->config->gated_attention) {
        ops->linear(t->ctx, t->query, t->normed, count, matrix);
        return;
    }
    ops->linear(t->ctx, t->query_gated, t->normed, count, matrix);
    ops->pieces_copy(t->ctx, t->query, close, t->query_gated, first, heads,
                     size, count);
    ops->pieces_copy(t->ctx, t->attention_gate, close, t->query_gated, second,
                     heads, size, count);
}

/* mixed = attention over the normalised hidden. */
static void
heads_attend(struct transformer *t, size_t layer, const struct pass_row *rows,
             size_t count)
{
    const struct layer_weights *w = &t->weights->layers[layer];
    const struct ops *ops = t->ops;
    size_t head_dim = t->config->head_dim;
    struct attention_shape shape = attention_shape_of(t, layer);

    queries_make(t, w, count);
    ops->linear(t->ctx, t->key, t->normed, count, &w->matrix[MATRIX_KEY]);
    ops->linear(t->ctx, t->value, t->normed, count, &w->matrix[MATRIX_VALUE]);
    if (t->config->qk_norm) {
        transformer_normalise(t, t->query, t->query, count,
                              w->vector[VECTOR_QUERY_NORM], head_dim);
        transformer_normalise(t, t->key, t->key, count,
                              w->vector[VECTOR_KEY_NORM], head_dim);
    }
    ops->rope(t->ctx, t->query, rows, count, &t->rope);
    ops->rope(t->ctx, t->key, rows, count, &t->rope);
    ops->kv_write(t->ctx, t->key, t->value, rows, count, layer);
    ops->attention(t->ctx, t->mixed, t->query, rows, count, &shape);
    if (t->config->gated_attention)
        ops->sigmoid_mul(t->ctx, t->mixed, t->attention_gate, count);
}

static void
attend(struct transformer *t, size_t layer, const struct pass_row *rows,
       size_t count)
{
    const struct layer_weights *w = &t->weights->layers[layer];

    transformer_normalise(t, t->normed, t->hidden, count,
                          w->vector[VECTOR_ATTENTION_NORM], t->config->hidden);
    if (t->config->layer_kinds[layer] == LAYER_DELTA) {
        delta_attend(t, layer, rows, count);
    } else {
        if (t->config->latent.kv_rank != 0)
            latent_attend(t, layer, rows, count);
        else
            heads_attend(t, layer, rows, count);
        t->ops->linear(t->ctx, t->normed, t->mixed, count,
                       &w->matrix[MATRIX_OUTPUT]);
    }
    t->ops->add(t->ctx, t->hidden, t->normed, count);
}

void
transformer_pass(struct transformer *t, const struct pass_row *rows,
                 size_t count, const size_t *wanted, size_t wanted_count)
{
    const struct ops *ops = t->ops;

    assert(count > 0 && count <= TRANSFORMER_ROWS_MAX);
    assert(wanted_count <= TRANSFORMER_LOGITS_MAX);
    ops->embed(t->ctx, t->hidden, &t->weights->embedding, rows, count);
    for (size_t layer = 0; layer < t->config->layers; layer++) {
        attend(t, layer, rows, count);
        feed_forward(t, layer, count);
    }
    if (wanted_count == 0)
        return;
    for (size_t i = 0; i < wanted_count; i++) {
        assert(wanted[i] < count);
        ops->row_copy(t->ctx, t->last, i, t->hidden, wanted[i]);
    }
    transformer_normalise(t, t->last, t->last, wanted_count,
                          t->weights->final_norm, t->config->hidden);
    ops->linear(t->ctx, t->logits, t->last, wanted_count, &t->weights->head);
}

const float *
transformer_logits(const struct transformer *t, size_t index)
{
    return t->ops->vec_read(t->ctx, t->logits, index);
}
