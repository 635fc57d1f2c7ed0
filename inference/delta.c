/* delta.c - layers that keep a state instead of keys and values. */
#include "inference/transformer_parts.h"

#include "common/banned.h"

static size_t
values_of(const struct model_delta *delta)
{
    return (size_t)delta->value_heads * delta->value_size;
}

static size_t
channels_of(const struct model_delta *delta)
{
    return 2 * (size_t)delta->key_heads * delta->key_size + values_of(delta);
}

struct kv_layer
delta_kv_layer(const struct model_config *config)
{
    const struct model_delta *delta = &config->delta;

    return (struct kv_layer){.state = channels_of(delta) * (delta->kernel - 1) +
                                      values_of(delta) * delta->key_size};
}

void
delta_init(struct transformer *t)
{
    const struct model_delta *delta = &t->config->delta;
    const size_t rows = TRANSFORMER_ROWS_MAX;

    if (delta->kernel == 0)
        return;
    t->delta_qkv = t->ops->vec_new(t->ctx, rows, channels_of(delta));
    t->delta_gate = t->ops->vec_new(t->ctx, rows, values_of(delta));
    t->delta_out = t->ops->vec_new(t->ctx, rows, values_of(delta));
    t->delta_strength = t->ops->vec_new(t->ctx, rows, delta->value_heads);
    t->delta_decay = t->ops->vec_new(t->ctx, rows, delta->value_heads);
}

void
delta_clear(struct transformer *t)
{
    t->ops->vec_free(t->ctx, t->delta_qkv);
    t->ops->vec_free(t->ctx, t->delta_gate);
    t->ops->vec_free(t->ctx, t->delta_out);
    t->ops->vec_free(t->ctx, t->delta_strength);
    t->ops->vec_free(t->ctx, t->delta_decay);
}

void
delta_attend(struct transformer *t, size_t layer, const struct pass_row *rows,
             size_t count)
{
    const struct layer_weights *w = &t->weights->layers[layer];
    const struct model_delta *delta = &t->config->delta;
    const struct ops *ops = t->ops;
    const struct delta_shape shape = {.layer = layer,
                                      .key_heads = delta->key_heads,
                                      .value_heads = delta->value_heads,
                                      .key_size = delta->key_size,
                                      .value_size = delta->value_size,
                                      .kernel = delta->kernel,
                                      .conv = w->vector[VECTOR_DELTA_CONV],
                                      .step = w->vector[VECTOR_DELTA_STEP],
                                      .rate = w->vector[VECTOR_DELTA_RATE]};

    ops->linear(t->ctx, t->delta_qkv, t->normed, count,
                &w->matrix[MATRIX_DELTA_QKV]);
    ops->linear(t->ctx, t->delta_gate, t->normed, count,
                &w->matrix[MATRIX_DELTA_GATE]);
    ops->linear(t->ctx, t->delta_strength, t->normed, count,
                &w->matrix[MATRIX_DELTA_STRENGTH]);
    ops->linear(t->ctx, t->delta_decay, t->normed, count,
                &w->matrix[MATRIX_DELTA_DECAY]);
    ops->delta_net(t->ctx, t->delta_out, t->delta_qkv, t->delta_strength,
                   t->delta_decay, rows, count, &shape);
    transformer_normalise(t, t->delta_out, t->delta_out, count,
                          w->vector[VECTOR_DELTA_NORM], delta->value_size);
    ops->silu_mul(t->ctx, t->delta_gate, t->delta_out, count);
    ops->linear(t->ctx, t->normed, t->delta_gate, count,
                &w->matrix[MATRIX_OUTPUT]);
}
