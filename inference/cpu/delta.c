/* delta.c - the gated delta rule: a state for each head that every position
 * decays, corrects by what it should have found, and asks.
 *
 * S *= exp(-exp(rate) softplus(decay + step))
 * S += key (strength (value - key S))
 * out = query S
 *
 * Keys and queries have length 1, queries are scaled by 1 / sqrt(key_size).
 * Channels, then heads, are shared out among threads; the rows of each are
 * worked on in their order. */
#include "inference/cpu/backend.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "common/banned.h"

static const float length_eps = 1e-6f;

struct delta_task {
    struct cpu *cpu;
    struct vec *out, *qkv;
    const struct vec *strength, *decay;
    const struct pass_row *rows;
    size_t count;
    const struct delta_shape *shape;
};

static float *
state_of(const struct kv *kv, size_t layer)
{
    return kv->states + kv->state_starts[layer];
}

static float
sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

static float
softplus(float x)
{
    return x > 20 ? x : log1pf(expf(x));
}

/* The new value of a channel: its last values and this one, each times its
 * element of the kernel. */
static float
channel_step(float *last, const float *kernel, size_t size, float value)
{
    float sum = 0;

    for (size_t k = 0; k + 1 < size; k++)
        sum += last[k] * kernel[k];
    sum += value * kernel[size - 1];
    memmove(last, last + 1, (size - 2) * sizeof(last[0]));
    last[size - 2] = value;
    return sum * sigmoid(sum);
}

static void
channels_run(void *arg, size_t first, size_t last, size_t thread)
{
    struct delta_task *task = arg;
    size_t kernel = task->shape->kernel;

    (void)thread;
    for (size_t i = 0; i < task->count; i++) {
        float *state = state_of(task->rows[i].kv, task->shape->layer);
        float *row = task->qkv->data + i * task->qkv->size;

        if (task->rows[i].position == 0)
            memset(state + first * (kernel - 1), 0,
                   (last - first) * (kernel - 1) * sizeof(float));
        for (size_t c = first; c < last; c++)
            row[c] =
                channel_step(state + c * (kernel - 1),
                             task->shape->conv + c * kernel, kernel, row[c]);
    }
}

/* out = x times @scale over its length */
static void
length_1(const float *x, size_t size, float scale, float *out)
{
    float squares = 0;

    for (size_t i = 0; i < size; i++)
        squares += x[i] * x[i];
    scale /= sqrtf(squares + length_eps);
    for (size_t i = 0; i < size; i++)
        out[i] = x[i] * scale;
}

/* One head of one row; @room holds a query, a key and a value. */
static void
head_step(const struct delta_task *task, size_t index, size_t head, float *room)
{
    const struct delta_shape *s = task->shape;
    const struct kernels *kernels = task->cpu->kernels;
    const float *row = task->qkv->data + index * task->qkv->size;
    size_t key_head = head / (s->value_heads / s->key_heads);
    size_t keys = s->key_heads * s->key_size;
    const float *value = row + 2 * keys + head * s->value_size;
    size_t channels = 2 * keys + s->value_heads * s->value_size;
    size_t each = s->key_size * s->value_size;
    float *state = state_of(task->rows[index].kv, s->layer) +
                   channels * (s->kernel - 1) + head * each;
    float *query = room, *key = query + s->key_size,
          *change = key + s->key_size;
    size_t at = index * s->value_heads + head;
    float strength = sigmoid(task->strength->data[at]);
    float kept = expf(-expf(s->rate[head]) *
                      softplus(task->decay->data[at] + s->step[head]));

    if (task->rows[index].position == 0)
        memset(state, 0, each * sizeof(float));
    length_1(row + key_head * s->key_size, s->key_size,
             1.0f / sqrtf((float)s->key_size), query);
    length_1(row + keys + key_head * s->key_size, s->key_size, 1, key);
    for (size_t i = 0; i < each; i++)
        state[i] *= kept;
    kernels->weighted_sum(key, state, s->key_size, s->value_size, 1, change);
    for (size_t v = 0; v < s->value_size; v++)
        change[v] = strength * (value[v] - change[v]);
    for (size_t k = 0; k < s->key_size; k++)
        for (size_t v = 0; v < s->value_size; v++)
            state[k * s->value_size + v] += key[k] * change[v];
    kernels->weighted_sum(query, state, s->key_size, s->value_size, 1,
                          task->out->data + index * task->out->size +
                              head * s->value_size);
}

static void
heads_run(void *arg, size_t first, size_t last, size_t thread)
{
    struct delta_task *task = arg;

    for (size_t i = 0; i < task->count; i++)
        for (size_t head = first; head < last; head++)
            head_step(task, i, head, task->cpu->scratch[thread]);
}

void
cpu_delta_net(void *ctx, struct vec *out, struct vec *qkv,
              const struct vec *strength, const struct vec *decay,
              const struct pass_row *rows, size_t count,
              const struct delta_shape *shape)
{
    struct cpu *cpu = ctx;
    struct delta_task task = {cpu,   out,  qkv,   strength,
                              decay, rows, count, shape};
    size_t each = shape->key_size * shape->value_size;

    assert(out->size == shape->value_heads * shape->value_size);
    assert(qkv->size == 2 * shape->key_heads * shape->key_size + out->size);
    assert(strength->size == shape->value_heads && shape->kernel >= 2);
    assert(decay->size == shape->value_heads && count <= qkv->rows);
    cpu_scratch_reserve(cpu, 2 * shape->key_size + shape->value_size);
    pool_run(cpu->pool, channels_run, &task, qkv->size,
             cpu_piece_of(cpu, qkv->size, 8 * count));
    pool_run(cpu->pool, heads_run, &task, shape->value_heads,
             cpu_piece_of(cpu, shape->value_heads, 4 * each * count));
}
