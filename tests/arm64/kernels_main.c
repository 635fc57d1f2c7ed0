/* kernels_main.c - every instruction set's kernels on the same random inputs,
 * and a digest of each one's results.
 *
 * Prints a line "OPERATION INSTRUCTIONS DIGEST" for each operation and each
 * instruction set that the processor has.  All lines of an operation must
 * agree, on all machines: tests/arm64/check compares them.  Needs nothing but
 * the C library. */
#include "inference/cpu/cpu.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/attrs.h"
#include "common/mem.h"
#include "common/prng.h"

#include "common/banned.h"

enum { ROWS = 11, COLS_MAX = 512, INPUTS = 5, ROUNDS = 40 };

/* FNV-1a, 64 bits. */
struct digest {
    uint64_t value;
};

static void
digest_add(struct digest *digest, const void *data, size_t size)
{
    const uint8_t *bytes = data;

    for (size_t i = 0; i < size; i++)
        digest->value = (digest->value ^ bytes[i]) * 0x100000001b3;
}

static void
fill(struct prng *prng, float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] = (float)(2 * prng_unit(prng) - 1);
}

/* Random bytes; 16-bit floats keep a small exponent, so that no sum becomes
 * infinite and subnormals, which an instruction set might flush, occur. */
static void
fill_weight(struct prng *prng, enum weight_format format, uint8_t *data,
            size_t count)
{
    uint16_t mask = format == WEIGHT_F16 ? 0xbfff : 0xbf7f;

    for (size_t i = 0; i < count; i++) {
        float value = (float)(2 * prng_unit(prng) - 1);
        uint16_t half = (uint16_t)prng_next(prng) & mask;

        if (format == WEIGHT_F32)
            memcpy(data + i * 4, &value, 4);
        else
            memcpy(data + i * 2, &half, 2);
    }
}

static size_t
row_bytes_of(enum weight_format format, size_t cols)
{
    switch (format) {
    case WEIGHT_F32:
        return cols * 4;
    case WEIGHT_F16:
    case WEIGHT_BF16:
        return cols * 2;
    case WEIGHT_AFFINE2:
        return cols / 4;
    case WEIGHT_AFFINE3:
        return cols / 8 * 3;
    case WEIGHT_AFFINE4:
    case WEIGHT_MXFP4:
        return cols / 2;
    case WEIGHT_AFFINE5:
        return cols / 8 * 5;
    case WEIGHT_AFFINE6:
        return cols / 8 * 6;
    case WEIGHT_AFFINE8:
        return cols;
    case WEIGHT_FORMATS:
        break;
    }
    return 0;
}

/* A random matrix in @format; its memory is @data, @scales and @biases. */
struct matrix {
    struct weight weight;
    uint8_t data[ROWS * COLS_MAX * 4];
    float scales[ROWS * COLS_MAX / 32];
    float biases[ROWS * COLS_MAX / 32];
};

static enum weight_format
scale_format(enum dtype dtype)
{
    if (dtype == DTYPE_F32)
        return WEIGHT_F32;
    return dtype == DTYPE_F16 ? WEIGHT_F16 : WEIGHT_BF16;
}

static void
matrix_make(struct matrix *matrix, struct prng *prng, enum weight_format format)
{
    static const size_t groups[] = {32, 64, 128};
    static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    bool affine =
        format != WEIGHT_F32 && format != WEIGHT_F16 && format != WEIGHT_BF16;
    enum dtype dtype = dtypes[prng_below(prng, COUNT_OF(dtypes))];
    size_t group = format == WEIGHT_MXFP4
                       ? 32
                       : groups[prng_below(prng, COUNT_OF(groups))];
    size_t cols = 1 + prng_below(prng, COLS_MAX);
    size_t scale_count;

    if (affine)
        cols = group * (1 + prng_below(prng, COLS_MAX / group));
    matrix->weight = (struct weight){
        .format = format,
        .rows = ROWS,
        .cols = cols,
        .data = matrix->data,
        .row_bytes = row_bytes_of(format, cols),
    };
    if (!affine) {
        fill_weight(prng, format, matrix->data, ROWS * cols);
        return;
    }
    for (size_t i = 0; i < ROWS * matrix->weight.row_bytes; i++)
        matrix->data[i] = (uint8_t)prng_next(prng);
    scale_count = ROWS * cols / group;
    fill_weight(prng, scale_format(dtype), (uint8_t *)matrix->scales,
                scale_count);
    fill_weight(prng, scale_format(dtype), (uint8_t *)matrix->biases,
                scale_count);
    matrix->weight.scales = (const uint8_t *)matrix->scales;
    matrix->weight.biases = (const uint8_t *)matrix->biases;
    matrix->weight.scale_dtype = dtype;
    matrix->weight.group = group;
    if (format == WEIGHT_MXFP4) {
        uint8_t *powers = (uint8_t *)matrix->scales;

        for (size_t i = 0; i < scale_count; i++)
            powers[i] = (uint8_t)(120 + prng_below(prng, 16));
        matrix->weight.scale_dtype = DTYPE_U8;
    }
}

static void
report(const char *operation, const char *set, const struct digest *digest)
{
    (void)printf("%s %s %016" PRIx64 "\n", operation, set, digest->value);
}

/* Rows times inputs, one by one and as tiles, and rows as floats. */
static void
digest_matrices(const struct kernels *kernels, enum weight_format format,
                const char *name)
{
    static struct matrix matrix;
    static float rows[ROWS * COLS_MAX], in[INPUTS * COLS_MAX];
    float direct[ROWS], tiled[INPUTS * ROWS];
    struct digest digest = {0xcbf29ce484222325};
    struct prng prng;

    prng_seed(&prng, 1 + (uint64_t)format);
    for (int round = 0; round < ROUNDS; round++) {
        size_t cols;

        matrix_make(&matrix, &prng, format);
        cols = matrix.weight.cols;
        fill(&prng, in, INPUTS * cols);
        kernels->dot_rows(&matrix.weight, 0, ROWS, in, direct);
        digest_add(&digest, direct, sizeof(direct));
        for (size_t r = 0; r < ROWS; r++)
            kernels->decode_row(&matrix.weight, r, rows + r * cols);
        digest_add(&digest, rows, ROWS * cols * sizeof(float));
        kernels->tile(rows, ROWS, in, INPUTS, cols, tiled, ROWS);
        digest_add(&digest, tiled, sizeof(tiled));
    }
    report(name, kernels->name, &digest);
}

static void
digest_attention(const struct kernels *kernels)
{
    enum { COUNT = 61, SIZE_MAX_HERE = 144 };
    static float keys[COUNT * SIZE_MAX_HERE];
    float query[SIZE_MAX_HERE], p[COUNT], mixed[SIZE_MAX_HERE];
    struct digest digest = {0xcbf29ce484222325};
    struct prng prng;

    prng_seed(&prng, 10);
    for (int round = 0; round < ROUNDS; round++) {
        size_t count = 1 + prng_below(&prng, COUNT);
        size_t size = 1 + prng_below(&prng, SIZE_MAX_HERE);
        float sum, product;

        fill(&prng, keys, count * size);
        fill(&prng, query, size);
        product = kernels->dot(query, keys, size);
        digest_add(&digest, &product, sizeof(product));
        kernels->scores(query, keys, count, size, 3.0f, p);
        digest_add(&digest, p, count * sizeof(float));
        sum = kernels->exp_sum(p, count);
        digest_add(&digest, &sum, sizeof(sum));
        digest_add(&digest, p, count * sizeof(float));
        kernels->weighted_sum(p, keys, count, size, 1 / sum, mixed);
        digest_add(&digest, mixed, size * sizeof(float));
        for (size_t i = 0; i < size; i++)
            query[i] *= 100;
        kernels->silu_mul(query, keys, size);
        digest_add(&digest, query, size * sizeof(float));
    }
    report("attention", kernels->name, &digest);
}

/* A norm and a product on three threads, as a forward pass does them. */
static void
digest_operations(const struct kernels *kernels)
{
    enum { COUNT = 7, SIZE = 320, OUTPUTS = 400 };
    static float weights[OUTPUTS * SIZE], inputs[COUNT * SIZE];
    struct weight table = {.format = WEIGHT_F32,
                           .rows = COUNT,
                           .cols = SIZE,
                           .data = (const uint8_t *)inputs,
                           .row_bytes = SIZE * sizeof(float)};
    struct weight weight = table;
    struct norm norm = {
        .weight = weights, .size = SIZE, .stride = SIZE, .eps = 1e-5f};
    struct digest digest = {0xcbf29ce484222325};
    struct pass_row rows[COUNT] = {{0}};
    struct backend b;
    struct vec *x, *y;
    struct prng prng;

    prng_seed(&prng, 20);
    fill(&prng, weights, OUTPUTS * SIZE);
    fill(&prng, inputs, COUNT * SIZE);
    weight.rows = OUTPUTS;
    weight.data = (const uint8_t *)weights;
    for (uint32_t i = 0; i < COUNT; i++)
        rows[i].id = COUNT - 1 - i;
    cpu_open(3, kernels, NULL, &b);
    x = b.ops->vec_new(b.ctx, COUNT, SIZE);
    y = b.ops->vec_new(b.ctx, COUNT, OUTPUTS);
    b.ops->embed(b.ctx, x, &table, rows, COUNT);
    b.ops->rmsnorm(b.ctx, x, x, COUNT, &norm);
    b.ops->linear(b.ctx, y, x, COUNT, &weight);
    b.ops->silu_mul(b.ctx, y, y, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        digest_add(&digest, b.ops->vec_read(b.ctx, y, i),
                   OUTPUTS * sizeof(float));
    b.ops->vec_free(b.ctx, x);
    b.ops->vec_free(b.ctx, y);
    b.ops->close(b.ctx);
    report("operations", kernels->name, &digest);
}

/* Products with 8-bit activations. */
static void
digest_integer(const struct integer_kernels *kernels, enum weight_format format,
               const char *name)
{
    enum { OCTETS = COLS_MAX / OCTET_SIZE };
    static struct matrix matrix;
    static struct octet octets[INPUTS * OCTETS];
    float in[COLS_MAX], out[INPUTS * ROWS];
    struct digest digest = {0xcbf29ce484222325};
    struct prng prng;

    prng_seed(&prng, 1 + (uint64_t)format);
    for (int round = 0; round < ROUNDS; round++) {
        size_t cols;

        matrix_make(&matrix, &prng, format);
        cols = matrix.weight.cols;
        for (size_t c = 0; c < INPUTS; c++) {
            fill(&prng, in, cols);
            kernels->quantise(in, cols, integer_even_first(format), octets + c,
                              INPUTS);
        }
        digest_add(&digest, octets,
                   (cols + OCTET_SIZE - 1) / OCTET_SIZE * INPUTS *
                       sizeof(octets[0]));
        kernels->multiply(&matrix.weight, 0, ROWS, octets, INPUTS, out, ROWS);
        digest_add(&digest, out, sizeof(out));
    }
    report(name, kernels->name, &digest);
}

int
main(void)
{
    for (int set = 0; set < INTEGER_SETS; set++) {
        const struct integer_kernels *kernels =
            integer_find((enum integer_set)set);

        if (kernels == NULL)
            continue;
        digest_integer(kernels, WEIGHT_AFFINE2, "int8_affine2");
        digest_integer(kernels, WEIGHT_AFFINE3, "int8_affine3");
        digest_integer(kernels, WEIGHT_AFFINE4, "int8_affine4");
        digest_integer(kernels, WEIGHT_AFFINE5, "int8_affine5");
        digest_integer(kernels, WEIGHT_AFFINE6, "int8_affine6");
        digest_integer(kernels, WEIGHT_AFFINE8, "int8_affine8");
        digest_integer(kernels, WEIGHT_MXFP4, "int8_mxfp4");
    }
    for (int simd = 0; simd < SIMD_COUNT; simd++) {
        const struct kernels *kernels = kernels_find((enum simd)simd);

        if (kernels == NULL)
            continue;
        digest_matrices(kernels, WEIGHT_F32, "f32");
        digest_matrices(kernels, WEIGHT_F16, "f16");
        digest_matrices(kernels, WEIGHT_BF16, "bf16");
        digest_matrices(kernels, WEIGHT_AFFINE2, "affine2");
        digest_matrices(kernels, WEIGHT_AFFINE3, "affine3");
        digest_matrices(kernels, WEIGHT_AFFINE4, "affine4");
        digest_matrices(kernels, WEIGHT_AFFINE5, "affine5");
        digest_matrices(kernels, WEIGHT_AFFINE6, "affine6");
        digest_matrices(kernels, WEIGHT_AFFINE8, "affine8");
        digest_matrices(kernels, WEIGHT_MXFP4, "mxfp4");
        digest_attention(kernels);
        digest_operations(kernels);
    }
    return fflush(stdout) == 0 ? 0 : 1;
}
