/* feed_forward.c - the second half of a layer: one gated projection for all
 * positions, or for each the experts that its router chooses. */
#include "inference/transformer_parts.h"

#include "common/mem.h"

#include "common/banned.h"

static bool
has_dense_layers(const struct model_config *config)
{
    return config->experts.router == ROUTER_NONE ||
           config->experts.dense_layers > 0;
}

static void
experts_init(struct transformer *t)
{
    const struct model_experts *experts = &t->config->experts;
    const struct ops *ops = t->ops;
    const size_t rows = TRANSFORMER_ROWS_MAX;

    t->scores = ops->vec_new(t->ctx, rows, experts->count);
    t->gathered = ops->vec_new(t->ctx, rows, t->config->hidden);
    t->expert_gate = ops->vec_new(t->ctx, rows, experts->inner);
    t->expert_up = ops->vec_new(t->ctx, rows, experts->inner);
    t->expert_out = ops->vec_new(t->ctx, rows, t->config->hidden);
    t->expert_rows.chosen =
        mem_array(rows * experts->used, sizeof(struct chosen));
    t->expert_rows.rows = mem_array(rows, sizeof(size_t));
    t->expert_rows.weights = mem_array(rows, sizeof(float));
    t->expert_rows.room = mem_array(3 * (size_t)experts->count, sizeof(float));
    if (experts->shared_inner == 0)
        return;
    t->shared_gate = ops->vec_new(t->ctx, rows, experts->shared_inner);
    t->shared_up = ops->vec_new(t->ctx, rows, experts->shared_inner);
    if (experts->shared_gate)
        t->shared_scale = ops->vec_new(t->ctx, rows, 1);
}

void
feed_forward_init(struct transformer *t)
{
    const size_t rows = TRANSFORMER_ROWS_MAX;

    if (has_dense_layers(t->config)) {
        t->gate = t->ops->vec_new(t->ctx, rows, t->config->intermediate);
        t->up = t->ops->vec_new(t->ctx, rows, t->config->intermediate);
    }
    if (t->config->experts.router != ROUTER_NONE)
        experts_init(t);
}

void
feed_forward_clear(struct transformer *t)
{
    struct vec *vecs[] = {t->gate,        t->up,          t->scores,
                          t->gathered,    t->expert_gate, t->expert_up,
                          t->expert_out,  t->shared_gate, t->shared_up,
                          t->shared_scale};

    for (size_t i = 0; i < COUNT_OF(vecs); i++)
        t->ops->vec_free(t->ctx, vecs[i]);
    free(t->expert_rows.chosen);
    free(t->expert_rows.rows);
    free(t->expert_rows.weights);
    free(t->expert_rows.room);
}

static void
dense(struct transformer *t, const struct layer_weights *w, size_t count)
{
    const struct ops *ops = t->ops;

    ops->linear(t->ctx, t->gate, t->normed, count, &w->matrix[MATRIX_GATE]);
    ops->linear(t->ctx, t->up, t->normed, count, &w->matrix[MATRIX_UP]);
    ops->silu_mul(t->ctx, t->gate, t->up, count);
    ops->linear(t->ctx, t->normed, t->gate, count, &w->matrix[MATRIX_DOWN]);
    ops->add(t->ctx, t->hidden, t->normed, count);
}

/* Choose for every row. */
static void
route(struct transformer *t, const struct layer_weights *w, size_t count)
{
    const struct model_experts *experts = &t->config->experts;

    t->ops->linear(t->ctx, t->scores, t->normed, count,
                   &w->matrix[MATRIX_ROUTER]);
    for (size_t i = 0; i < count; i++)
        router_choose(experts, t->ops->vec_read(t->ctx, t->scores, i),
                      w->vector[VECTOR_SCORE_BIAS], t->expert_rows.room,
                      t->expert_rows.chosen + i * experts->used);
}

/* The rows that chose @expert, gathered; returns how many. */
static size_t
rows_gather(struct transformer *t, uint32_t expert, size_t count)
{
    const size_t used = t->config->experts.used;
    struct expert_rows *r = &t->expert_rows;
    size_t found = 0;

    for (size_t i = 0; i < count * used; i++) {
        if (r->chosen[i].expert != expert)
            continue;
        r->rows[found] = i / used;
        r->weights[found] = r->chosen[i].weight;
        t->ops->row_copy(t->ctx, t->gathered, found, t->normed, i / used);
        found++;
    }
    return found;
}

static void
expert_run(struct transformer *t, const struct layer_weights *w,
           uint32_t expert, size_t count)
{
    const struct model_experts *experts = &t->config->experts;
    const struct ops *ops = t->ops;
    struct weight gate =
        layer_expert(w, MATRIX_EXPERT_GATE, expert, experts->inner);
    struct weight up =
        layer_expert(w, MATRIX_EXPERT_UP, expert, experts->inner);
    struct weight down =
        layer_expert(w, MATRIX_EXPERT_DOWN, expert, t->config->hidden);

    ops->linear(t->ctx, t->expert_gate, t->gathered, count, &gate);
    ops->linear(t->ctx, t->expert_up, t->gathered, count, &up);
    if (experts->limit > 0)
        ops->swiglu_limited(t->ctx, t->expert_gate, t->expert_up, count,
                            experts->limit);
    else
        ops->silu_mul(t->ctx, t->expert_gate, t->expert_up, count);
    ops->linear(t->ctx, t->expert_out, t->expert_gate, count, &down);
}

static void
shared_run(struct transformer *t, const struct layer_weights *w, size_t count)
{
    const struct ops *ops = t->ops;

    ops->linear(t->ctx, t->shared_gate, t->normed, count,
                &w->matrix[MATRIX_SHARED_GATE]);
    ops->linear(t->ctx, t->shared_up, t->normed, count,
                &w->matrix[MATRIX_SHARED_UP]);
    ops->silu_mul(t->ctx, t->shared_gate, t->shared_up, count);
    ops->linear(t->ctx, t->expert_out, t->shared_gate, count,
                &w->matrix[MATRIX_SHARED_DOWN]);
    if (t->shared_scale != NULL) {
        ops->linear(t->ctx, t->shared_scale, t->normed, count,
                    &w->matrix[MATRIX_SHARED_SCALE]);
        ops->sigmoid_mul(t->ctx, t->expert_out, t->shared_scale, count);
    }
    ops->add(t->ctx, t->hidden, t->expert_out, count);
}

/* Expert after expert, each for all rows that chose it: a row's sum is in the
 * order of the experts' numbers whatever other rows there are. */
static void
experts(struct transformer *t, const struct layer_weights *w, size_t count)
{
    route(t, w, count);
    for (uint32_t e = 0; e < t->config->experts.count; e++) {
        size_t found = rows_gather(t, e, count);

        if (found == 0)
            continue;
        expert_run(t, w, e, found);
        for (size_t i = 0; i < found; i++)
            t->ops->row_add(t->ctx, t->hidden, t->expert_rows.rows[i],
                            t->expert_out, i, t->expert_rows.weights[i]);
    }
    if (t->config->experts.shared_inner > 0)
        shared_run(t, w, count);
}

void
feed_forward(struct transformer *t, size_t layer, size_t count)
{
    const struct layer_weights *w = &t->weights->layers[layer];

    transformer_normalise(t, t->normed, t->hidden, count,
                          w->vector[VECTOR_MLP_NORM], t->config->hidden);
    if (model_layer_has_experts(t->config, (uint32_t)layer))
        experts(t, w, count);
    else
        dense(t, w, count);
}
