/* cpu.c - the table of operations on host memory: what is shared out among
 * threads, in which pieces.  The arithmetic is in kernels_body.inc. */
#include "inference/cpu/cpu.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "common/mem.h"
#include "inference/cpu/backend.h"

#include "common/banned.h"

/* Less work than this (in multiply-adds) is not worth waking threads for. */
enum { SHARE_FROM = 32 * 1024 };
/* Rows of a matrix decoded at once when there are several inputs. */
enum { DECODED_ROWS = 16 };

static void
cpu_close(void *ctx)
{
    struct cpu *cpu = ctx;

    for (size_t i = 0; i < pool_threads(cpu->pool); i++)
        free(cpu->scratch[i]);
    free(cpu->scratch);
    free(cpu->octets);
    pool_free(cpu->pool);
    free(cpu);
}

void
cpu_scratch_reserve(struct cpu *cpu, size_t count)
{
    if (count <= cpu->scratch_count)
        return;
    for (size_t i = 0; i < pool_threads(cpu->pool); i++)
        cpu->scratch[i] = mem_grow(cpu->scratch[i], count, sizeof(float));
    cpu->scratch_count = count;
}

size_t
cpu_piece_of(const struct cpu *cpu, size_t count, size_t work_each)
{
    size_t pieces = 4 * pool_threads(cpu->pool);

    if (count * work_each < SHARE_FROM)
        return count;
    return count / pieces + 1;
}

static struct vec *
cpu_vec_new(void *ctx, size_t rows, size_t size)
{
    struct vec *vec = mem_alloc(sizeof(*vec));

    (void)ctx;
    vec->rows = rows;
    vec->size = size;
    vec->data = mem_array(rows * size, sizeof(float));
    return vec;
}

static void
cpu_vec_free(void *ctx, struct vec *vec)
{
    (void)ctx;
    if (vec == NULL)
        return;
    free(vec->data);
    free(vec);
}

static const float *
cpu_vec_read(void *ctx, const struct vec *vec, size_t row)
{
    (void)ctx;
    assert(row < vec->rows);
    return vec->data + row * vec->size;
}

static void
cpu_embed(void *ctx, struct vec *out, const struct weight *table,
          const struct pass_row *rows, size_t count)
{
    const struct cpu *cpu = ctx;

    assert(out->size == table->cols && count <= out->rows);
    for (size_t i = 0; i < count; i++) {
        assert(rows[i].id < table->rows);
        cpu->kernels->decode_row(table, rows[i].id, out->data + i * out->size);
    }
}

struct linear_task {
    struct cpu *cpu;
    const struct weight *weight;
    const struct vec *in;
    struct vec *out;
    size_t count;
};

static void
offset_add(const struct linear_task *task, size_t first, size_t last)
{
    for (size_t i = 0; task->weight->offset != NULL && i < task->count; i++)
        for (size_t r = first; r < last; r++)
            task->out->data[i * task->out->size + r] += task->weight->offset[r];
}

/* One input: read each weight once, straight from the file's format. */
static void
linear_single(void *arg, size_t first, size_t last, size_t thread)
{
    struct linear_task *task = arg;

    (void)thread;
    task->cpu->kernels->dot_rows(task->weight, first, last - first,
                                 task->in->data, task->out->data + first);
    offset_add(task, first, last);
}

/* Several: decode a few rows and use them for all inputs. */
static void
linear_many(void *arg, size_t first, size_t last, size_t thread)
{
    struct linear_task *task = arg;
    const struct kernels *kernels = task->cpu->kernels;
    size_t cols = task->weight->cols;
    float *rows = task->cpu->scratch[thread];

    for (size_t r = first; r < last; r += DECODED_ROWS) {
        size_t some = last - r < DECODED_ROWS ? last - r : DECODED_ROWS;

        for (size_t k = 0; k < some; k++)
            kernels->decode_row(task->weight, r + k, rows + k * cols);
        kernels->tile(rows, some, task->in->data, task->count, cols,
                      task->out->data + r, task->out->size);
    }
    offset_add(task, first, last);
}

static void
quantise_inputs(void *arg, size_t first, size_t last, size_t thread)
{
    struct linear_task *task = arg;
    struct cpu *cpu = task->cpu;
    bool even_first = integer_even_first(task->weight->format);

    (void)thread;
    for (size_t i = first; i < last; i++)
        cpu->integer->quantise(task->in->data + i * task->in->size,
                               task->in->size, even_first, cpu->octets + i,
                               task->count);
}

static void
linear_integer(void *arg, size_t first, size_t last, size_t thread)
{
    struct linear_task *task = arg;
    struct cpu *cpu = task->cpu;

    (void)thread;
    cpu->integer->multiply(task->weight, first, last - first, cpu->octets,
                           task->count, task->out->data + first,
                           task->out->size);
    offset_add(task, first, last);
}

static void
octets_reserve(struct cpu *cpu, size_t count)
{
    if (count <= cpu->octet_count)
        return;
    cpu->octets = mem_grow(cpu->octets, count, sizeof(cpu->octets[0]));
    cpu->octet_count = count;
}

static void
cpu_linear(void *ctx, struct vec *out, const struct vec *in, size_t count,
           const struct weight *weight)
{
    struct cpu *cpu = ctx;
    struct linear_task task = {cpu, weight, in, out, count};
    size_t piece = cpu_piece_of(cpu, weight->rows, weight->cols * count);

    assert(in->size == weight->cols && out->size == weight->rows);
    assert(count <= in->rows && count <= out->rows);
    piece = (piece + DECODED_ROWS - 1) / DECODED_ROWS * DECODED_ROWS;
    if (cpu->integer != NULL && integer_serves(weight)) {
        octets_reserve(cpu, (weight->cols / OCTET_SIZE + 1) * count);
        pool_run(cpu->pool, quantise_inputs, &task, count,
                 cpu_piece_of(cpu, count, weight->cols));
        pool_run(cpu->pool, linear_integer, &task, weight->rows, piece);
        return;
    }
    if (count == 1) {
        pool_run(cpu->pool, linear_single, &task, weight->rows, piece);
        return;
    }
    cpu_scratch_reserve(cpu, DECODED_ROWS * weight->cols);
    pool_run(cpu->pool, linear_many, &task, weight->rows, piece);
}

/* Operations that work on each row by itself. */
struct row_task {
    struct cpu *cpu;
    struct vec *out;
    const struct vec *in;
    const struct norm *norm;
    const struct pass_row *rows;
    const struct rope_shape *rope;
};

static void
rmsnorm_piece(const struct kernels *kernels, const struct norm *norm,
              const float *in, float *out)
{
    float squares = kernels->dot(in, in, norm->size);
    float inverse = 1.0f / sqrtf(squares / (float)norm->size + norm->eps);

    for (size_t i = 0; i < norm->size; i++)
        out[i] = in[i] * inverse * norm->weight[i];
}

static void
rmsnorm_rows(void *arg, size_t first, size_t last, size_t thread)
{
    struct row_task *task = arg;
    size_t size = task->norm->stride;

    (void)thread;
    for (size_t i = first * task->in->size; i < last * task->in->size;
         i += size)
        rmsnorm_piece(task->cpu->kernels, task->norm, task->in->data + i,
                      task->out->data + i);
}

static void
cpu_rmsnorm(void *ctx, struct vec *out, const struct vec *in, size_t count,
            const struct norm *norm)
{
    struct cpu *cpu = ctx;
    struct row_task task = {.cpu = cpu, .out = out, .in = in, .norm = norm};

    assert(out->size == in->size && in->size % norm->stride == 0);
    assert(norm->size <= norm->stride &&
           (norm->size == norm->stride || in == out));
    assert(count <= in->rows && count <= out->rows);
    pool_run(cpu->pool, rmsnorm_rows, &task, count,
             cpu_piece_of(cpu, count, in->size));
}

static void
rope_heads(float *row, size_t size, uint32_t position,
           const struct rope_shape *shape)
{
    size_t half = shape->size / 2;
    size_t step = shape->neighbours ? 2 : 1;
    size_t apart = shape->neighbours ? 1 : half;

    for (size_t i = 0; i < half; i++) {
        double angle = (double)position * (double)shape->frequencies[i];
        float cosine = (float)cos(angle) * shape->amplitude;
        float sine = (float)sin(angle) * shape->amplitude;

        for (float *x = row + shape->first + i * step; x < row + size;
             x += shape->head_size) {
            float low = x[0], high = x[apart];

            x[0] = low * cosine - high * sine;
            x[apart] = high * cosine + low * sine;
        }
    }
}

static void
rope_rows(void *arg, size_t first, size_t last, size_t thread)
{
    struct row_task *task = arg;
    size_t size = task->out->size;

    (void)thread;
    for (size_t i = first; i < last; i++)
        rope_heads(task->out->data + i * size, size, task->rows[i].position,
                   task->rope);
}

static void
cpu_rope(void *ctx, struct vec *x, const struct pass_row *rows, size_t count,
         const struct rope_shape *shape)
{
    struct cpu *cpu = ctx;
    struct row_task task = {.cpu = cpu, .out = x, .rows = rows, .rope = shape};

    assert(x->size % shape->head_size == 0 && count <= x->rows);
    assert(shape->first + shape->size <= shape->head_size);
    assert(shape->size % 2 == 0);
    pool_run(cpu->pool, rope_rows, &task, count,
             cpu_piece_of(cpu, count, 8 * x->size));
}

struct pair_task {
    struct cpu *cpu;
    float *x;
    const float *y;
    float limit;
};

static void
silu_items(void *arg, size_t first, size_t last, size_t thread)
{
    struct pair_task *task = arg;

    (void)thread;
    task->cpu->kernels->silu_mul(task->x + first, task->y + first,
                                 last - first);
}

static void
cpu_silu_mul(void *ctx, struct vec *gate, const struct vec *up, size_t count)
{
    struct cpu *cpu = ctx;
    struct pair_task task = {cpu, gate->data, up->data, 0};

    assert(gate->size == up->size && count <= gate->rows && count <= up->rows);
    pool_run(cpu->pool, silu_items, &task, count * gate->size,
             cpu_piece_of(cpu, count * gate->size, 4));
}

static void
limited_items(void *arg, size_t first, size_t last, size_t thread)
{
    struct pair_task *task = arg;

    (void)thread;
    for (size_t i = first; i < last; i++) {
        float gate = fminf(task->x[i], task->limit);
        float up = fmaxf(fminf(task->y[i], task->limit), -task->limit);

        task->x[i] = gate / (1 + expf(-1.702f * gate)) * (up + 1);
    }
}

static void
cpu_swiglu_limited(void *ctx, struct vec *gate, const struct vec *up,
                   size_t count, float limit)
{
    struct cpu *cpu = ctx;
    struct pair_task task = {cpu, gate->data, up->data, limit};

    assert(gate->size == up->size && count <= gate->rows && count <= up->rows);
    pool_run(cpu->pool, limited_items, &task, count * gate->size,
             cpu_piece_of(cpu, count * gate->size, 40));
}

static void
cpu_sigmoid_mul(void *ctx, struct vec *x, const struct vec *gate, size_t count)
{
    size_t each = x->size / gate->size;

    (void)ctx;
    assert(x->size % gate->size == 0);
    assert(count <= x->rows && count <= gate->rows);
    for (size_t i = 0; i < count * gate->size; i++) {
        float scale = 1 / (1 + expf(-gate->data[i]));

        for (size_t k = 0; k < each; k++)
            x->data[i * each + k] *= scale;
    }
}

static void
cpu_add(void *ctx, struct vec *x, const struct vec *y, size_t count)
{
    (void)ctx;
    assert(x->size == y->size && count <= x->rows && count <= y->rows);
    for (size_t i = 0; i < count * x->size; i++)
        x->data[i] += y->data[i];
}

static void
cpu_row_copy(void *ctx, struct vec *out, size_t to, const struct vec *in,
             size_t from)
{
    (void)ctx;
    assert(out->size == in->size && to < out->rows && from < in->rows);
    memmove(out->data + to * out->size, in->data + from * in->size,
            in->size * sizeof(float));
}

static void
cpu_row_add(void *ctx, struct vec *x, size_t to, const struct vec *y,
            size_t from, float scale)
{
    (void)ctx;
    assert(x->size == y->size && to < x->rows && from < y->rows);
    for (size_t i = 0; i < x->size; i++)
        x->data[to * x->size + i] += scale * y->data[from * x->size + i];
}

static const struct ops cpu_ops = {
    .name = "cpu",
    .close = cpu_close,
    .vec_new = cpu_vec_new,
    .vec_free = cpu_vec_free,
    .vec_read = cpu_vec_read,
    .kv_new = cpu_kv_new,
    .kv_free = cpu_kv_free,
    .kv_token_bytes = cpu_kv_token_bytes,
    .kv_state_bytes = cpu_kv_state_bytes,
    .embed = cpu_embed,
    .linear = cpu_linear,
    .linear_heads = cpu_linear_heads,
    .pieces_copy = cpu_pieces_copy,
    .rmsnorm = cpu_rmsnorm,
    .rope = cpu_rope,
    .kv_write = cpu_kv_write,
    .attention = cpu_attention,
    .delta_net = cpu_delta_net,
    .sigmoid_mul = cpu_sigmoid_mul,
    .silu_mul = cpu_silu_mul,
    .swiglu_limited = cpu_swiglu_limited,
    .add = cpu_add,
    .row_copy = cpu_row_copy,
    .row_add = cpu_row_add,
};

void
cpu_open(size_t threads, const struct kernels *kernels,
         const struct integer_kernels *integer, struct backend *backend)
{
    struct cpu *cpu = mem_alloc(sizeof(*cpu));

    cpu->kernels = kernels != NULL ? kernels : kernels_best();
    cpu->integer = integer;
    cpu->pool = pool_new(threads != 0 ? threads : pool_processors());
    cpu->scratch = mem_array(pool_threads(cpu->pool), sizeof(cpu->scratch[0]));
    *backend = (struct backend){.ops = &cpu_ops, .ctx = cpu};
}
