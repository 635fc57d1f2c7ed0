/* latent.c - attention whose keys and values are one short row for all heads.
 *
 * The matrices that would make each head's keys and values out of that row
 * are applied to the queries and to the results instead, so the cache holds
 * the row alone. */
#include "inference/transformer_parts.h"

#include "common/banned.h"

/* Of the inner norms, whatever the config says of the others. */
static const float inner_eps = 1e-6f;

void
latent_init(struct transformer *t)
{
    const struct model_config *c = t->config;
    const struct model_latent *latent = &c->latent;
    const size_t rows = TRANSFORMER_ROWS_MAX;

    if (latent->kv_rank == 0)
        return;
    t->query = t->ops->vec_new(t->ctx, rows, (size_t)c->heads * c->head_dim);
    t->key = t->ops->vec_new(t->ctx, rows, latent->kv_rank + latent->rope);
    t->mixed = t->ops->vec_new(t->ctx, rows, (size_t)c->heads * latent->value);
    t->latent_query = t->ops->vec_new(
        t->ctx, rows, (size_t)c->heads * (latent->kv_rank + latent->rope));
    t->latent_mixed =
        t->ops->vec_new(t->ctx, rows, (size_t)c->heads * latent->kv_rank);
    if (latent->q_rank != 0)
        t->query_down = t->ops->vec_new(t->ctx, rows, latent->q_rank);
}

void
latent_clear(struct transformer *t)
{
    t->ops->vec_free(t->ctx, t->query_down);
    t->ops->vec_free(t->ctx, t->latent_query);
    t->ops->vec_free(t->ctx, t->latent_mixed);
}

static void
queries_make(struct transformer *t, const struct layer_weights *w, size_t count)
{
    const struct ops *ops = t->ops;
    size_t rank = t->config->latent.q_rank;

    if (rank == 0) {
        ops->linear(t->ctx, t->query, t->normed, count,
                    &w->matrix[MATRIX_QUERY]);
        return;
    }
    ops->linear(t->ctx, t->query_down, t->normed, count,
                &w->matrix[MATRIX_QUERY_DOWN]);
    transformer_normalise_part(t, t->query_down, count,
                               w->vector[VECTOR_QUERY_DOWN_NORM], rank, rank,
                               inner_eps);
    ops->linear(t->ctx, t->query, t->query_down, count,
                &w->matrix[MATRIX_QUERY_UP]);
}

/* Where the matrices that make keys and values lie. */
static const struct weight *
key_matrix(const struct transformer *t, const struct layer_weights *w,
           struct heads_shape *shape)
{
    const struct model_latent *latent = &t->config->latent;

    *shape = (struct heads_shape){
        .heads = t->config->heads,
        .in = {.stride = latent->nope + latent->rope},
        .out = {.stride = latent->kv_rank + latent->rope},
        .turned = latent->joined,
    };
    shape->rows = latent->joined ? latent->nope : latent->kv_rank;
    shape->row_stride =
        latent->joined ? latent->nope + latent->value : latent->kv_rank;
    return &w->matrix[latent->joined ? MATRIX_KV_UP : MATRIX_KEY_UP];
}

static const struct weight *
value_matrix(const struct transformer *t, const struct layer_weights *w,
             struct heads_shape *shape)
{
    const struct model_latent *latent = &t->config->latent;

    *shape = (struct heads_shape){
        .heads = t->config->heads,
        .rows = latent->value,
        .row_first = latent->joined ? latent->nope : 0,
        .row_stride =
            latent->joined ? latent->nope + latent->value : latent->value,
        .in = {.stride = latent->kv_rank},
        .out = {.stride = latent->value},
    };
    return &w->matrix[latent->joined ? MATRIX_KV_UP : MATRIX_VALUE_UP];
}

/* [nope, rope] of each head as [rank, rope], the space of the cached rows. */
static void
queries_take_over(struct transformer *t, const struct layer_weights *w,
                  size_t count)
{
    const struct model_latent *latent = &t->config->latent;
    struct pieces from = {latent->nope, latent->nope + latent->rope};
    struct pieces to = {latent->kv_rank, latent->kv_rank + latent->rope};
    struct heads_shape shape;
    const struct weight *matrix = key_matrix(t, w, &shape);

    t->ops->linear_heads(t->ctx, t->latent_query, t->query, count, matrix,
                         &shape);
    t->ops->pieces_copy(t->ctx, t->latent_query, to, t->query, from,
                        t->config->heads, latent->rope, count);
}

static void
positions_turn(struct transformer *t, const struct pass_row *rows, size_t count)
{
    const struct model_latent *latent = &t->config->latent;
    struct rope_shape rope = t->rope;

    rope.neighbours = true;
    rope.head_size = latent->nope + latent->rope;
    rope.first = latent->nope;
    t->ops->rope(t->ctx, t->query, rows, count, &rope);
    rope.head_size = latent->kv_rank + latent->rope;
    rope.first = latent->kv_rank;
    t->ops->rope(t->ctx, t->key, rows, count, &rope);
}

void
latent_attend(struct transformer *t, size_t layer, const struct pass_row *rows,
              size_t count)
{
    const struct layer_weights *w = &t->weights->layers[layer];
    const struct model_latent *latent = &t->config->latent;
    const struct attention_shape shape = {.layer = layer,
                                          .heads = t->config->heads,
                                          .kv_heads = 1,
                                          .key_size =
                                              latent->kv_rank + latent->rope,
                                          .value_size = latent->kv_rank,
                                          .scale = t->config->score_scale};
    struct heads_shape heads;
    const struct weight *values = value_matrix(t, w, &heads);

    queries_make(t, w, count);
    t->ops->linear(t->ctx, t->key, t->normed, count,
                   &w->matrix[MATRIX_KV_DOWN]);
    transformer_normalise_part(t, t->key, count, w->vector[VECTOR_KV_NORM],
                               latent->kv_rank, latent->kv_rank + latent->rope,
                               inner_eps);
    positions_turn(t, rows, count);
    queries_take_over(t, w, count);
    t->ops->kv_write(t->ctx, t->key, NULL, rows, count, layer);
    t->ops->attention(t->ctx, t->latent_mixed, t->latent_query, rows, count,
                      &shape);
    t->ops->linear_heads(t->ctx, t->mixed, t->latent_mixed, count, values,
                         &heads);
}
