/* inference_ops_test.c - kernels and operations against sums in double and by
 * hand, and every instruction set against the portable one, bit by bit. */
#include "inference/cpu/cpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"
#include "common/prng.h"
#include "inference/floats.h"

#include "common/banned.h"

enum { ROWS = 13, COLS_MAX = 384 };

/* Sizes with and without a rest after pieces of sixteen. */
static const size_t plain_sizes[] = {1, 7, 15, 16, 17, 48, 100, 384};

static float
random_float(struct prng *prng)
{
    return (float)(2 * prng_unit(prng) - 1);
}

static void
fill(struct prng *prng, float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] = random_float(prng);
}

static uint16_t
bf16_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return (uint16_t)(bits >> 16);
}

/* Of a quantised format; 0 for the others. */
static size_t
bits_of(enum weight_format format)
{
    static const size_t bits[WEIGHT_FORMATS] = {
        [WEIGHT_AFFINE2] = 2, [WEIGHT_AFFINE3] = 3, [WEIGHT_AFFINE4] = 4,
        [WEIGHT_AFFINE5] = 5, [WEIGHT_AFFINE6] = 6, [WEIGHT_AFFINE8] = 8,
        [WEIGHT_MXFP4] = 4,
    };

    return bits[format];
}

/* A random matrix; the bytes are the caller's to free, as are the scales. */
static struct weight
matrix_make(struct prng *prng, enum weight_format format, size_t cols,
            size_t group)
{
    size_t row_bytes = cols * 2;
    struct weight weight = {.format = format, .rows = ROWS, .cols = cols};
    uint8_t *data;

    if (format == WEIGHT_F32)
        row_bytes = cols * 4;
    if (bits_of(format) != 0)
        row_bytes = cols * bits_of(format) / 8;
    data = mem_alloc(ROWS * row_bytes);
    for (size_t i = 0; i < ROWS * row_bytes; i++)
        data[i] = (uint8_t)prng_next(prng);
    for (size_t i = 0; i < ROWS * cols; i++) {
        float value = random_float(prng);
        uint16_t half = bf16_of(value);

        if (format == WEIGHT_F32)
            memcpy(data + i * 4, &value, 4);
        if (format == WEIGHT_F16)
            half = (uint16_t)(0x3800 | (half & 0x83ff)); /* 0.5..1 */
        if (format == WEIGHT_F16 || format == WEIGHT_BF16)
            memcpy(data + i * 2, &half, 2);
    }
    weight.data = data;
    weight.row_bytes = row_bytes;
    if (format == WEIGHT_MXFP4) {
        uint8_t *scales = mem_alloc(ROWS * cols / group);

        for (size_t i = 0; i < ROWS * cols / group; i++)
            scales[i] = (uint8_t)(120 + prng_below(prng, 16));
        weight.group = group;
        weight.scale_dtype = DTYPE_U8;
        weight.scales = scales;
    } else if (bits_of(format) != 0) {
        float *scales = mem_array(ROWS * cols / group, 2 * sizeof(float));

        fill(prng, scales, 2 * ROWS * cols / group);
        weight.group = group;
        weight.scale_dtype = DTYPE_F32;
        weight.scales = (const uint8_t *)scales;
        weight.biases = (const uint8_t *)(scales + ROWS * cols / group);
    }
    return weight;
}

static void
matrix_free(struct weight *weight)
{
    free((void *)(uintptr_t)weight->data);
    free((void *)(uintptr_t)weight->scales);
}

/* Every way to multiply gives what the portable decoding and a sum in double
 * give, nearly, and what portable dot_rows gives, exactly. */
static void
check_matrix(const struct kernels *kernels, const struct weight *weight,
             const float *in)
{
    float portable[ROWS], direct[ROWS], tiled[3 * ROWS];
    float *rows = mem_array(ROWS * weight->cols, sizeof(float));
    float *same = mem_array(ROWS * weight->cols, sizeof(float));
    float *inputs = mem_array(3 * weight->cols, sizeof(float));

    for (size_t c = 0; c < 3; c++)
        memcpy(inputs + c * weight->cols, in, weight->cols * sizeof(float));
    kernels_portable.dot_rows(weight, 0, ROWS, in, portable);
    kernels->dot_rows(weight, 0, ROWS, in, direct);
    assert_memory_equal(direct, portable, sizeof(direct));
    for (size_t r = 0; r < ROWS; r++) {
        double sum = 0, size = 0;

        kernels_portable.decode_row(weight, r, rows + r * weight->cols);
        kernels->decode_row(weight, r, same + r * weight->cols);
        for (size_t i = 0; i < weight->cols; i++) {
            double product = (double)rows[r * weight->cols + i] * (double)in[i];

            sum += product;
            size += fabs(product);
        }
        assert_true(fabs(sum - (double)portable[r]) <= 1e-6 * size);
    }
    assert_memory_equal(same, rows, ROWS * weight->cols * sizeof(float));
    kernels->tile(rows, ROWS, inputs, 3, weight->cols, tiled, ROWS);
    for (size_t c = 0; c < 3; c++)
        assert_memory_equal(tiled + c * ROWS, portable, sizeof(portable));
    free(inputs);
    free(same);
    free(rows);
}

static void
every_instruction_set_multiplies_to_the_same_bits(void **state)
{
    static const enum weight_format plain[] = {WEIGHT_F32, WEIGHT_F16,
                                               WEIGHT_BF16};
    static const enum weight_format affine[] = {
        WEIGHT_AFFINE2, WEIGHT_AFFINE3, WEIGHT_AFFINE4,
        WEIGHT_AFFINE5, WEIGHT_AFFINE6, WEIGHT_AFFINE8,
    };
    float in[COLS_MAX];
    struct prng prng;

    (void)state;
    prng_seed(&prng, 1);
    fill(&prng, in, COLS_MAX);
    for (int simd = 0; simd < SIMD_COUNT; simd++) {
        const struct kernels *kernels = kernels_find((enum simd)simd);

        if (kernels == NULL)
            continue;
        for (size_t f = 0; f < COUNT_OF(plain); f++) {
            for (size_t s = 0; s < COUNT_OF(plain_sizes); s++) {
                struct weight weight =
                    matrix_make(&prng, plain[f], plain_sizes[s], 0);

                check_matrix(kernels, &weight, in);
                matrix_free(&weight);
            }
        }
        for (size_t f = 0; f < COUNT_OF(affine); f++) {
            for (size_t group = 32; group <= 128; group *= 2) {
                struct weight weight =
                    matrix_make(&prng, affine[f], COLS_MAX, group);

                check_matrix(kernels, &weight, in);
                matrix_free(&weight);
            }
        }
        for (size_t s = 1; s <= COLS_MAX / 32; s++) {
            struct weight weight = matrix_make(&prng, WEIGHT_MXFP4, 32 * s, 32);

            check_matrix(kernels, &weight, in);
            matrix_free(&weight);
        }
    }
}

/* Bit by bit, as MLX packs: element i begins at bit i x bits of the row. */
static unsigned
packed_at(const struct weight *weight, size_t row, size_t i)
{
    size_t bits = bits_of(weight->format);
    const uint8_t *data = weight->data + row * weight->row_bytes;
    unsigned value = 0;

    for (size_t b = 0; b < bits; b++) {
        size_t bit = i * bits + b;

        value |= (unsigned)(data[bit / 8] >> (bit % 8) & 1) << b;
    }
    return value;
}

/* E2M1's values in the order of their codes (OCP MX 1.0, table 5). */
static const float e2m1[] = {0, .5f, 1, 1.5f, 2, 3, 4, 6};

static float
quantised_at(const struct weight *weight, size_t row, size_t i)
{
    unsigned q = packed_at(weight, row, i);
    size_t at = row * (weight->cols / weight->group) + i / weight->group;
    float scale, bias;

    if (weight->format == WEIGHT_MXFP4)
        return ldexpf(q < 8 ? e2m1[q] : -e2m1[q - 8], weight->scales[at] - 127);
    memcpy(&scale, weight->scales + 4 * at, 4);
    memcpy(&bias, weight->biases + 4 * at, 4);
    return fmaf((float)q, scale, bias);
}

static void
quantised_rows_are_decoded_as_they_were_packed(void **state)
{
    float out[COLS_MAX];
    struct prng prng;

    (void)state;
    prng_seed(&prng, 2);
    for (int format = 0; format < WEIGHT_FORMATS; format++) {
        struct weight weight;

        if (bits_of((enum weight_format)format) == 0)
            continue;
        weight = matrix_make(&prng, (enum weight_format)format, COLS_MAX, 32);
        for (size_t r = 0; r < ROWS; r++) {
            kernels_best()->decode_row(&weight, r, out);
            for (size_t i = 0; i < COLS_MAX; i++)
                assert_true(out[i] == quantised_at(&weight, r, i));
        }
        matrix_free(&weight);
    }
}

static void
attention_kernels_give_the_same_bits_everywhere(void **state)
{
    enum { COUNT = 37, SIZE = 80 };
    float keys[COUNT * SIZE], query[SIZE], expected[COUNT], got[COUNT];
    float mixed[SIZE], other[SIZE], gate[SIZE], up[SIZE];
    struct prng prng;

    (void)state;
    prng_seed(&prng, 2);
    fill(&prng, keys, COUNT * SIZE);
    fill(&prng, query, SIZE);
    fill(&prng, up, SIZE);
    for (int simd = 0; simd < SIMD_COUNT; simd++) {
        const struct kernels *kernels = kernels_find((enum simd)simd);
        float sum, portable_sum;

        if (kernels == NULL)
            continue;
        kernels_portable.scores(query, keys, COUNT, SIZE, 0.5f, expected);
        kernels->scores(query, keys, COUNT, SIZE, 0.5f, got);
        assert_memory_equal(got, expected, sizeof(got));
        portable_sum = kernels_portable.exp_sum(expected, COUNT);
        sum = kernels->exp_sum(got, COUNT);
        assert_memory_equal(got, expected, sizeof(got));
        assert_memory_equal(&sum, &portable_sum, sizeof(sum));
        for (size_t size = SIZE; size >= SIZE - 5; size--) {
            kernels_portable.weighted_sum(expected, keys, COUNT, size, 1 / sum,
                                          mixed);
            kernels->weighted_sum(got, keys, COUNT, size, 1 / sum, other);
            assert_memory_equal(mixed, other, size * sizeof(float));
        }
        memcpy(gate, query, sizeof(gate));
        memcpy(other, query, sizeof(other));
        kernels_portable.silu_mul(gate, up, SIZE);
        kernels->silu_mul(other, up, SIZE);
        assert_memory_equal(gate, other, sizeof(gate));
    }
}

static void
exponentials_are_right_to_a_millionth(void **state)
{
    (void)state;
    for (float x = -80; x <= 0; x += 0.37f) {
        float pair[2] = {0, x};

        (void)kernels_best()->exp_sum(pair, 2);
        assert_true(fabs((double)pair[1] / exp((double)x) - 1) < 1e-6);
    }
}

static void
silu_is_right_at_known_points(void **state)
{
    /* x / (1 + e^-x), computed in double by hand. */
    float gate[] = {0, 1, -1, 100, -100};
    const float up[] = {3, 2, 1, 1, 1};
    const double expected[] = {0, 2 * 0.731058578630005, -0.268941421369995,
                               100, 0};

    (void)state;
    kernels_best()->silu_mul(gate, up, COUNT_OF(gate));
    for (size_t i = 0; i < COUNT_OF(gate); i++)
        assert_true(fabs((double)gate[i] - expected[i]) < 1e-5);
}

static void
half_floats_have_their_published_values(void **state)
{
    /* Values of binary16 as in IEEE 754's and Wikipedia's tables. */
    static const struct {
        uint16_t bits;
        double value;
    } known[] = {
        {0x0001, 0x1p-24},        {0x03ff, 0x1.ff8p-15}, {0x0400, 0x1p-14},
        {0x3555, 0.333251953125}, {0x3c00, 1},           {0x3c01, 1.0009765625},
        {0x7bff, 65504},          {0xc000, -2},          {0x8000, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(known); i++)
        assert_true((double)float_from_f16(known[i].bits) == known[i].value);
    assert_true(isinf(float_from_f16(0x7c00)));
    assert_true(isnan(float_from_f16(0x7e00)));
    assert_true(float_from_bf16(0x3f80) == 1.0f);
    assert_true(float_from_bf16(0xc049) == -3.140625f);
}

static void
affine_weights_are_scale_times_q_plus_bias(void **state)
{
    /* Element 0 in the lowest bits: 0x3210 holds 0, 1, 2, 3. */
    static const uint8_t data[16] = {0x10, 0x32, 0x54, 0x76,
                                     0x98, 0xba, 0xdc, 0xfe};
    static const uint16_t scale = 0x3f00, bias = 0xbf80; /* bf16 0.5, -1 */
    struct weight weight = {.format = WEIGHT_AFFINE4,
                            .rows = 1,
                            .cols = 32,
                            .data = data,
                            .row_bytes = 16,
                            .scales = (const uint8_t *)&scale,
                            .biases = (const uint8_t *)&bias,
                            .scale_dtype = DTYPE_BF16,
                            .group = 32};

    (void)state;
    for (int simd = 0; simd < SIMD_COUNT; simd++) {
        float out[32];

        if (kernels_find((enum simd)simd) == NULL)
            continue;
        kernels_find((enum simd)simd)->decode_row(&weight, 0, out);
        for (int i = 0; i < 32; i++)
            assert_true(out[i] == (i < 16 ? 0.5f * (float)i - 1 : -1));
    }
}

/* out = weight x in (+ offset) on @threads, @count inputs in one call. */
static void
linear_on(size_t threads, const struct weight *weight, const float *in,
          size_t count, float *out)
{
    struct backend b;
    struct vec *x, *y;
    struct weight table = {.format = WEIGHT_F32,
                           .rows = count,
                           .cols = weight->cols,
                           .data = (const uint8_t *)in,
                           .row_bytes = weight->cols * sizeof(float)};
    struct pass_row *rows = mem_array(count, sizeof(*rows));

    cpu_open(threads, NULL, NULL, &b);
    x = b.ops->vec_new(b.ctx, count, weight->cols);
    y = b.ops->vec_new(b.ctx, count, weight->rows);
    for (size_t i = 0; i < count; i++)
        rows[i].id = (uint32_t)i;
    b.ops->embed(b.ctx, x, &table, rows, count);
    b.ops->linear(b.ctx, y, x, count, weight);
    for (size_t i = 0; i < count; i++)
        memcpy(out + i * weight->rows, b.ops->vec_read(b.ctx, y, i),
               weight->rows * sizeof(float));
    b.ops->vec_free(b.ctx, x);
    b.ops->vec_free(b.ctx, y);
    b.ops->close(b.ctx);
    free(rows);
}

static void
linear_does_not_depend_on_batch_or_threads(void **state)
{
    enum { INPUTS = 9, MANY_ROWS = 700, COLS = 320 };
    struct prng prng;
    float *values = mem_array(MANY_ROWS * COLS, sizeof(float));
    float *in = mem_array(INPUTS * COLS, sizeof(float));
    float *single = mem_array(INPUTS * MANY_ROWS, sizeof(float));
    float *batch = mem_array(INPUTS * MANY_ROWS, sizeof(float));
    struct weight weight = {.format = WEIGHT_F32,
                            .rows = MANY_ROWS,
                            .cols = COLS,
                            .data = (const uint8_t *)values,
                            .row_bytes = COLS * sizeof(float),
                            .offset = values};

    (void)state;
    prng_seed(&prng, 3);
    fill(&prng, values, MANY_ROWS * COLS);
    fill(&prng, in, INPUTS * COLS);
    for (size_t i = 0; i < INPUTS; i++)
        linear_on(1, &weight, in + i * COLS, 1, single + i * MANY_ROWS);
    for (size_t threads = 1; threads <= 5; threads++) {
        for (size_t count = 1; count <= INPUTS; count++) {
            linear_on(threads, &weight, in, count, batch);
            assert_memory_equal(batch, single,
                                count * MANY_ROWS * sizeof(float));
        }
    }
    free(batch);
    free(single);
    free(in);
    free(values);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_instruction_set_multiplies_to_the_same_bits),
        cmocka_unit_test(quantised_rows_are_decoded_as_they_were_packed),
        cmocka_unit_test(attention_kernels_give_the_same_bits_everywhere),
        cmocka_unit_test(exponentials_are_right_to_a_millionth),
        cmocka_unit_test(silu_is_right_at_known_points),
        cmocka_unit_test(half_floats_have_their_published_values),
        cmocka_unit_test(affine_weights_are_scale_times_q_plus_bias),
        cmocka_unit_test(linear_does_not_depend_on_batch_or_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
