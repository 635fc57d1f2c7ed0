/* attention.c - the keys and values of a sequence, and looking at them. */
#include "inference/cpu/backend.h"

#include <assert.h>
#include <string.h>

#include "common/mem.h"

#include "common/banned.h"

static size_t
layer_elements(const struct kv_layer *layer)
{
    return layer->heads * (layer->key_size + layer->value_size);
}

uint64_t
cpu_kv_token_bytes(const struct kv_shape *shape)
{
    uint64_t elements = 0;

    for (size_t i = 0; i < shape->layers; i++)
        elements += layer_elements(&shape->layer[i]);
    return elements * sizeof(float);
}

uint64_t
cpu_kv_state_bytes(const struct kv_shape *shape)
{
    uint64_t elements = 0;

    for (size_t i = 0; i < shape->layers; i++)
        elements += shape->layer[i].state;
    return elements * sizeof(float);
}

struct kv *
cpu_kv_new(void *ctx, const struct kv_shape *shape, size_t positions)
{
    struct kv *kv = mem_alloc(sizeof(*kv));
    size_t start = 0, state = 0;

    (void)ctx;
    kv->shape = shape;
    kv->positions = positions;
    kv->data = mem_array(positions, cpu_kv_token_bytes(shape));
    kv->starts = mem_array(shape->layers, sizeof(kv->starts[0]));
    kv->state_starts = mem_array(shape->layers, sizeof(kv->starts[0]));
    kv->states = mem_array(1, cpu_kv_state_bytes(shape) + sizeof(float));
    for (size_t i = 0; i < shape->layers; i++) {
        kv->starts[i] = start;
        kv->state_starts[i] = state;
        start += layer_elements(&shape->layer[i]);
        state += shape->layer[i].state;
    }
    return kv;
}

void
cpu_kv_free(void *ctx, struct kv *kv)
{
    (void)ctx;
    if (kv == NULL)
        return;
    free(kv->starts);
    free(kv->states);
    free(kv->state_starts);
    free(kv->data);
    free(kv);
}

/* Where the first position of a head lies. */
static float *
kv_keys(const struct kv *kv, size_t layer, size_t head)
{
    return kv->data +
           (kv->starts[layer] + head * kv->shape->layer[layer].key_size) *
               kv->positions;
}

static float *
kv_values(const struct kv *kv, size_t layer, size_t head)
{
    const struct kv_layer *shape = &kv->shape->layer[layer];

    return kv->data + (kv->starts[layer] + shape->heads * shape->key_size +
                       head * shape->value_size) *
                          kv->positions;
}

void
cpu_kv_write(void *ctx, const struct vec *keys, const struct vec *values,
             const struct pass_row *rows, size_t count, size_t layer)
{
    (void)ctx;
    assert(count <= keys->rows && (values == NULL || count <= values->rows));
    for (size_t i = 0; i < count; i++) {
        const struct kv *kv = rows[i].kv;
        const struct kv_layer *shape = &kv->shape->layer[layer];
        size_t at = rows[i].position;

        assert(at < kv->positions);
        assert((values == NULL) == (shape->value_size == 0));
        for (size_t head = 0; head < shape->heads; head++) {
            memcpy(kv_keys(kv, layer, head) + at * shape->key_size,
                   keys->data + i * keys->size + head * shape->key_size,
                   shape->key_size * sizeof(float));
            if (values != NULL)
                memcpy(kv_values(kv, layer, head) + at * shape->value_size,
                       values->data + i * values->size +
                           head * shape->value_size,
                       shape->value_size * sizeof(float));
        }
    }
}

struct attention_task {
    struct cpu *cpu;
    struct vec *out;
    const struct vec *queries;
    const struct pass_row *rows;
    const struct attention_shape *shape;
};

/* One head of one row; @p has room for the scores, a sink and a key. */
static void
attention_head(const struct attention_task *task, size_t index, size_t head,
               float *p)
{
    const struct attention_shape *shape = task->shape;
    const struct kernels *kernels = task->cpu->kernels;
    const struct pass_row *row = &task->rows[index];
    const struct kv_layer *kept = &row->kv->shape->layer[shape->layer];
    size_t kv_head = head / (shape->heads / shape->kv_heads);
    size_t end = (size_t)row->position + 1;
    size_t first =
        shape->window != 0 && end > shape->window ? end - shape->window : 0;
    size_t count = end - first;
    const float *keys =
        kv_keys(row->kv, shape->layer, kv_head) + first * shape->key_size;
    float *out =
        task->out->data + index * task->out->size + head * shape->value_size;
    float sum;

    kernels->scores(task->queries->data + index * task->queries->size +
                        head * shape->key_size,
                    keys, count, shape->key_size, shape->scale, p);
    if (shape->sinks != NULL)
        p[count] = shape->sinks[head];
    sum = kernels->exp_sum(p, count + (shape->sinks != NULL ? 1 : 0));
    if (kept->value_size == 0) {
        kernels->weighted_sum(p, keys, count, shape->key_size, 1.0f / sum,
                              p + count + 1);
        memcpy(out, p + count + 1, shape->value_size * sizeof(float));
        return;
    }
    kernels->weighted_sum(
        p, kv_values(row->kv, shape->layer, kv_head) + first * kept->value_size,
        count, shape->value_size, 1.0f / sum, out);
}

/* Items are heads of rows. */
static void
attention_heads(void *arg, size_t first, size_t last, size_t thread)
{
    struct attention_task *task = arg;
    size_t heads = task->shape->heads;

    for (size_t item = first; item < last; item++)
        attention_head(task, item / heads, item % heads,
                       task->cpu->scratch[thread]);
}

void
cpu_attention(void *ctx, struct vec *out, const struct vec *queries,
              const struct pass_row *rows, size_t count,
              const struct attention_shape *shape)
{
    struct cpu *cpu = ctx;
    struct attention_task task = {cpu, out, queries, rows, shape};
    size_t longest = 0;

    assert(queries->size == shape->heads * shape->key_size);
    assert(out->size == shape->heads * shape->value_size && count <= out->rows);
    for (size_t i = 0; i < count; i++)
        if (rows[i].position >= longest)
            longest = (size_t)rows[i].position + 1;
    cpu_scratch_reserve(cpu, longest + 1 + shape->key_size);
    pool_run(
        cpu->pool, attention_heads, &task, count * shape->heads,
        cpu_piece_of(cpu, count * shape->heads, 2 * longest * shape->key_size));
}
