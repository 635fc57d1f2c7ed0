/* transformer.c - embedding, layers of attention and mlp, head. */
#include "inference/transformer.h"

#include <assert.h>
#include <math.h>

#include "common/mem.h"

#include "common/banned.h"

struct transformer {
    const struct ops *ops;
    void *ctx;
    const struct model_config *config;
    const struct weights *weights;
    float *frequencies; /* head_dim / 2: radians per position */
    struct kv_shape kv_shape;
    struct vec *hidden, *normed, *query, *key, *value, *mixed, *gate, *up;
    struct vec *last, *logits;
};

/* Llama 3.1: long wavelengths are stretched by the factor, short ones kept,
 * those between blended. */
static double
llama3_scaled(const struct model_config *config, double frequency)
{
    double wavelength = 2 * 3.14159265358979323846 / frequency;
    double original = config->rope_original_context;
    double low = (double)config->rope_low_freq_factor;
    double high = (double)config->rope_high_freq_factor;
    double factor = (double)config->rope_factor;
    double blend;

    if (wavelength < original / high)
        return frequency;
    if (wavelength > original / low)
        return frequency / factor;
    blend = (original / wavelength - low) / (high - low);
    return (1 - blend) * frequency / factor + blend * frequency;
}

static float *
frequencies_make(const struct model_config *config)
{
    size_t half = config->head_dim / 2;
    float *frequencies = mem_array(half, sizeof(float));

    for (size_t i = 0; i < half; i++) {
        double frequency = pow((double)config->rope_theta,
                               -2.0 * (double)i / (double)config->head_dim);

        switch (config->rope_scaling) {
        case ROPE_PLAIN:
            break;
        case ROPE_LINEAR:
            frequency /= (double)config->rope_factor;
            break;
        case ROPE_LLAMA3:
            frequency = llama3_scaled(config, frequency);
            break;
        }
        frequencies[i] = (float)frequency;
    }
    return frequencies;
}

struct transformer *
transformer_new(const struct backend *backend,
                const struct model_config *config,
                const struct weights *weights)
{
    struct transformer *t = mem_alloc(sizeof(*t));
    const struct ops *ops = backend->ops;
    void *ctx = backend->ctx;
    size_t queries = (size_t)config->heads * config->head_dim;
    size_t keys = (size_t)config->kv_heads * config->head_dim;
    const size_t rows = TRANSFORMER_ROWS_MAX;

    t->ops = ops;
    t->ctx = ctx;
    t->config = config;
    t->weights = weights;
    t->frequencies = frequencies_make(config);
    t->kv_shape = (struct kv_shape){.layers = config->layers,
                                    .heads = config->kv_heads,
                                    .head_dim = config->head_dim};
    t->hidden = ops->vec_new(ctx, rows, config->hidden);
    t->normed = ops->vec_new(ctx, rows, config->hidden);
    t->query = ops->vec_new(ctx, rows, queries);
    t->key = ops->vec_new(ctx, rows, keys);
    t->value = ops->vec_new(ctx, rows, keys);
    t->mixed = ops->vec_new(ctx, rows, queries);
    t->gate = ops->vec_new(ctx, rows, config->intermediate);
    t->up = ops->vec_new(ctx, rows, config->intermediate);
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
    t->ops->vec_free(t->ctx, t->gate);
    t->ops->vec_free(t->ctx, t->up);
    t->ops->vec_free(t->ctx, t->last);
    t->ops->vec_free(t->ctx, t->logits);
    free(t->frequencies);
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

static void
normalise(struct transformer *t, struct vec *out, const struct vec *in,
          size_t count, const float *weight, size_t size)
{
    struct norm norm = {
        .weight = weight, .size = size, .eps = t->config->norm_eps};

    t->ops->rmsnorm(t->ctx, out, in, count, &norm);
}

static void
attend(struct transformer *t, size_t layer, const struct pass_row *rows,
       size_t count)
{
    const struct layer_weights *w = &t->weights->layers[layer];
    const struct ops *ops = t->ops;
    size_t head_dim = t->config->head_dim;
    struct attention_shape shape = {.layer = layer,
                                    .heads = t->config->heads,
                                    .kv_heads = t->config->kv_heads,
                                    .head_dim = head_dim};

    normalise(t, t->normed, t->hidden, count, w->attention_norm,
              t->config->hidden);
    ops->linear(t->ctx, t->query, t->normed, count, &w->query);
    ops->linear(t->ctx, t->key, t->normed, count, &w->key);
    ops->linear(t->ctx, t->value, t->normed, count, &w->value);
    if (t->config->qk_norm) {
        normalise(t, t->query, t->query, count, w->query_norm, head_dim);
        normalise(t, t->key, t->key, count, w->key_norm, head_dim);
    }
    ops->rope(t->ctx, t->query, rows, count, head_dim, t->frequencies);
    ops->rope(t->ctx, t->key, rows, count, head_dim, t->frequencies);
    ops->kv_write(t->ctx, t->key, t->value, rows, count, layer);
    ops->attention(t->ctx, t->mixed, t->query, rows, count, &shape);
    ops->linear(t->ctx, t->normed, t->mixed, count, &w->output);
    ops->add(t->ctx, t->hidden, t->normed, count);
}

static void
feed_forward(struct transformer *t, size_t layer, size_t count)
{
    const struct layer_weights *w = &t->weights->layers[layer];
    const struct ops *ops = t->ops;

    normalise(t, t->normed, t->hidden, count, w->mlp_norm, t->config->hidden);
    ops->linear(t->ctx, t->gate, t->normed, count, &w->gate);
    ops->linear(t->ctx, t->up, t->normed, count, &w->up);
    ops->silu_mul(t->ctx, t->gate, t->up, count);
    ops->linear(t->ctx, t->normed, t->gate, count, &w->down);
    ops->add(t->ctx, t->hidden, t->normed, count);
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
    normalise(t, t->last, t->last, wanted_count, t->weights->final_norm,
              t->config->hidden);
    ops->linear(t->ctx, t->logits, t->last, wanted_count, &t->weights->head);
}

const float *
transformer_logits(const struct transformer *t, size_t index)
{
    return t->ops->vec_read(t->ctx, t->logits, index);
}
