/* heads.c - operations on the heads of rows, each with its own matrix. */
#include "inference/cpu/backend.h"

#include <assert.h>
#include <string.h>

#include "common/banned.h"

struct heads_task {
    struct cpu *cpu;
    const struct weight *weight;
    const struct heads_shape *shape;
    const struct vec *in;
    struct vec *out;
    size_t count;
};

/* The sum of the head's rows, each times its element of @in. */
static void
head_turned(const struct heads_task *task, size_t head, float *rows)
{
    const struct heads_shape *s = task->shape;
    const struct kernels *kernels = task->cpu->kernels;
    size_t cols = task->weight->cols;

    for (size_t r = 0; r < s->rows; r++)
        kernels->decode_row(task->weight,
                            head * s->row_stride + s->row_first + r,
                            rows + r * cols);
    for (size_t i = 0; i < task->count; i++)
        kernels->weighted_sum(task->in->data + i * task->in->size +
                                  s->in.first + head * s->in.stride,
                              rows, s->rows, cols, 1,
                              task->out->data + i * task->out->size +
                                  s->out.first + head * s->out.stride);
}

static void
heads_items(void *arg, size_t first, size_t last, size_t thread)
{
    struct heads_task *task = arg;
    const struct heads_shape *s = task->shape;

    for (size_t head = first; head < last; head++) {
        if (s->turned) {
            head_turned(task, head, task->cpu->scratch[thread]);
            continue;
        }
        for (size_t i = 0; i < task->count; i++)
            task->cpu->kernels->dot_rows(
                task->weight, head * s->row_stride + s->row_first, s->rows,
                task->in->data + i * task->in->size + s->in.first +
                    head * s->in.stride,
                task->out->data + i * task->out->size + s->out.first +
                    head * s->out.stride);
    }
}

void
cpu_linear_heads(void *ctx, struct vec *out, const struct vec *in, size_t count,
                 const struct weight *weight, const struct heads_shape *shape)
{
    struct cpu *cpu = ctx;
    struct heads_task task = {cpu, weight, shape, in, out, count};
    size_t last = shape->heads - 1;
    size_t taken = shape->turned ? shape->rows : weight->cols;
    size_t given = shape->turned ? weight->cols : shape->rows;

    assert(count <= in->rows && count <= out->rows && weight->offset == NULL);
    assert(last * shape->row_stride + shape->row_first + shape->rows <=
           weight->rows);
    assert(shape->in.first + last * shape->in.stride + taken <= in->size);
    assert(shape->out.first + last * shape->out.stride + given <= out->size);
    if (shape->turned)
        cpu_scratch_reserve(cpu, shape->rows * weight->cols);
    pool_run(
        cpu->pool, heads_items, &task, shape->heads,
        cpu_piece_of(cpu, shape->heads, shape->rows * weight->cols * count));
}

void
cpu_pieces_copy(void *ctx, struct vec *out, struct pieces to,
                const struct vec *in, struct pieces from, size_t heads,
                size_t size, size_t count)
{
    (void)ctx;
    assert(count <= in->rows && count <= out->rows && heads > 0);
    assert(from.first + (heads - 1) * from.stride + size <= in->size);
    assert(to.first + (heads - 1) * to.stride + size <= out->size);
    for (size_t i = 0; i < count; i++)
        for (size_t head = 0; head < heads; head++)
            memcpy(out->data + i * out->size + to.first + head * to.stride,
                   in->data + i * in->size + from.first + head * from.stride,
                   size * sizeof(float));
}
