/* inference_integer_test.c - products with 8-bit activations against sums in
 * double, and every instruction set against the portable one, bit by bit. */
#include "inference/cpu/integer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "common/attrs.h"
#include "common/mem.h"
#include "common/prng.h"
#include "inference/floats.h"

#include "common/banned.h"

enum { ROWS = 11, COLS_MAX = 1152, INPUTS_MAX = 37, OCTETS_MAX = 5 };

static const enum weight_format formats[] = {
    WEIGHT_AFFINE2, WEIGHT_AFFINE3, WEIGHT_AFFINE4, WEIGHT_AFFINE5,
    WEIGHT_AFFINE6, WEIGHT_AFFINE8, WEIGHT_MXFP4};

/* Of a format above. */
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

static float
random_float(struct prng *prng)
{
    return (float)(2 * prng_unit(prng) - 1);
}

struct matrix {
    struct weight weight;
    uint8_t data[ROWS * COLS_MAX];
    uint8_t scales[ROWS * COLS_MAX / 8], biases[ROWS * COLS_MAX / 8];
};

static void
scales_fill(struct prng *prng, enum dtype dtype, uint8_t *to, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float value = random_float(prng);
        /* Halves between 2^-7 and 1. */
        uint16_t half = (uint16_t)(0x2000 | (prng_next(prng) & 0x9bff));

        if (dtype == DTYPE_U8)
            to[i] = (uint8_t)(120 + prng_below(prng, 12));
        else if (dtype == DTYPE_F32)
            memcpy(to + 4 * i, &value, 4);
        else
            memcpy(to + 2 * i, &half, 2);
    }
}

static void
matrix_make(struct matrix *matrix, struct prng *prng, enum weight_format format)
{
    static const size_t groups[] = {32, 64, 128};
    static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    bool is_mx = format == WEIGHT_MXFP4;
    size_t group = is_mx ? 32 : groups[prng_below(prng, COUNT_OF(groups))];
    size_t cols = group * (1 + prng_below(prng, COLS_MAX / group));
    enum dtype dtype =
        is_mx ? DTYPE_U8 : dtypes[prng_below(prng, COUNT_OF(dtypes))];

    matrix->weight = (struct weight){
        .format = format,
        .rows = ROWS,
        .cols = cols,
        .data = matrix->data,
        .row_bytes = cols * bits_of(format) / 8,
        .scales = matrix->scales,
        .biases = is_mx ? NULL : matrix->biases,
        .scale_dtype = dtype,
        .group = group,
    };
    for (size_t i = 0; i < ROWS * matrix->weight.row_bytes; i++)
        matrix->data[i] = (uint8_t)prng_next(prng);
    scales_fill(prng, dtype, matrix->scales, ROWS * cols / group);
    scales_fill(prng, dtype, matrix->biases, ROWS * cols / group);
}

static double
scale_of(const struct weight *weight, const uint8_t *scales, size_t index)
{
    uint16_t half;
    float value;

    if (weight->scale_dtype == DTYPE_U8)
        return ldexp(1, scales[index] - 127);
    if (weight->scale_dtype == DTYPE_F32) {
        memcpy(&value, scales + 4 * index, 4);
        return (double)value;
    }
    memcpy(&half, scales + 2 * index, 2);
    value = weight->scale_dtype == DTYPE_F16 ? float_from_f16(half)
                                             : float_from_bf16(half);
    return (double)value;
}

/* Bits i * bits and up of a row, from the low ones. */
static double
weight_at(const struct weight *weight, size_t row, size_t col)
{
    static const double e2m1[16] = {0,  0.5,  1,  1.5,  2,  3,  4,  6,
                                    -0, -0.5, -1, -1.5, -2, -3, -4, -6};
    size_t bits = bits_of(weight->format);
    size_t index = row * (weight->cols / weight->group) + col / weight->group;
    double scale = scale_of(weight, weight->scales, index);
    unsigned q = 0;

    for (size_t b = 0; b < bits; b++) {
        size_t at = col * bits + b;

        q |= ((unsigned)weight->data[row * weight->row_bytes + at / 8] >>
                  (at % 8) &
              1u)
             << b;
    }
    if (weight->format == WEIGHT_MXFP4)
        return scale * e2m1[q];
    return scale * q + scale_of(weight, weight->biases, index);
}

/* Element @i of the row whose octets stand at @octets, @stride apart. */
static double
activation_at(const struct octet *octets, size_t stride, bool even_first,
              size_t i)
{
    const struct octet *octet = octets + i / OCTET_SIZE * stride;
    size_t unit = i % OCTET_SIZE / INTEGER_UNIT;
    size_t in_unit = i % INTEGER_UNIT;
    size_t half = even_first ? in_unit % 2 : in_unit / 16;
    size_t at = even_first ? in_unit / 2 : in_unit % 16;

    at += unit / 2 * 64 + half * 32 + unit % 2 * 16;
    return (double)octet->scale[unit % 2 * 4 + unit / 2] * octet->q[at];
}

static void
a_product_is_the_sum_in_double_of_what_was_rounded(void **state)
{
    static struct matrix matrix;
    static struct octet octets[INPUTS_MAX * OCTETS_MAX];
    float in[COLS_MAX], out[2 * ROWS];
    struct prng prng;

    (void)state;
    prng_seed(&prng, 7);
    for (size_t round = 0; round < 20 * COUNT_OF(formats); round++) {
        enum weight_format format = formats[round % COUNT_OF(formats)];
        bool even_first = integer_even_first(format);

        matrix_make(&matrix, &prng, format);
        for (size_t c = 0; c < 2; c++) {
            for (size_t i = 0; i < matrix.weight.cols; i++)
                in[i] = random_float(&prng);
            integer_portable.quantise(in, matrix.weight.cols, even_first,
                                      octets + c, 2);
        }
        integer_portable.multiply(&matrix.weight, 0, ROWS, octets, 2, out,
                                  ROWS);
        for (size_t c = 0; c < 2; c++)
            for (size_t r = 0; r < ROWS; r++) {
                double sum = 0, size = 0;

                for (size_t i = 0; i < matrix.weight.cols; i++) {
                    double part = weight_at(&matrix.weight, r, i) *
                                  activation_at(octets + c, 2, even_first, i);

                    sum += part;
                    size += fabs(part);
                }
                assert_true(fabs((double)out[c * ROWS + r] - sum) <=
                            1e-5 * size + 1e-6);
            }
    }
}

static void
activations_are_rounded_to_the_nearest_of_255_steps(void **state)
{
    float in[INTEGER_UNIT] = {254, -127, 1, 3, -5, 0.9f, -254};
    static const int8_t expected[] = {127, -64, 0, 2, -2, 0, -127};
    struct octet octet;

    (void)state;
    /* The step is 2; halves go to the even neighbour: -127 / 2 = -63.5. */
    integer_portable.quantise(in, INTEGER_UNIT, false, &octet, 1);
    assert_true(octet.scale[0] == 2);
    for (size_t i = 0; i < COUNT_OF(expected); i++)
        assert_int_equal(octet.q[i], expected[i]);
    assert_int_equal(octet.total[0], -64 + 2 - 2);
    assert_true(octet.sum[0] == -128);
}

static void
every_instruction_set_has_the_bits_of_the_portable_one(void **state)
{
    static struct matrix matrix;
    static struct octet mine[INPUTS_MAX * OCTETS_MAX];
    static struct octet theirs[INPUTS_MAX * OCTETS_MAX];
    static float expected[INPUTS_MAX * ROWS], out[INPUTS_MAX * ROWS];
    static const size_t counts[] = {1, 2, 31, 32, 33, INPUTS_MAX};
    float in[COLS_MAX];
    struct prng prng;

    (void)state;
    prng_seed(&prng, 8);
    for (size_t round = 0; round < 30 * COUNT_OF(formats); round++) {
        enum weight_format format = formats[round % COUNT_OF(formats)];
        bool even_first = integer_even_first(format);
        size_t count = counts[prng_below(&prng, COUNT_OF(counts))];
        float size = ldexpf(1, (int)prng_below(&prng, 40) - 20);
        size_t used;

        matrix_make(&matrix, &prng, format);
        used = (matrix.weight.cols + OCTET_SIZE - 1) / OCTET_SIZE * count;
        for (int set = 0; set < INTEGER_SETS; set++) {
            const struct integer_kernels *kernels =
                integer_find((enum integer_set)set);

            if (kernels == NULL)
                continue;
            for (size_t c = 0; c < count; c++) {
                struct prng same = {0};

                prng_seed(&same, round * 100 + c);
                for (size_t i = 0; i < matrix.weight.cols; i++)
                    in[i] = size * random_float(&same);
                kernels->quantise(in, matrix.weight.cols, even_first,
                                  theirs + c, count);
            }
            kernels->multiply(&matrix.weight, 1, ROWS - 1, theirs, count, out,
                              ROWS);
            if (set == INTEGER_PORTABLE) {
                memcpy(mine, theirs, used * sizeof(mine[0]));
                memcpy(expected, out, sizeof(out));
            }
            assert_memory_equal(theirs, mine, used * sizeof(mine[0]));
            for (size_t c = 0; c < count; c++)
                assert_memory_equal(out + c * ROWS, expected + c * ROWS,
                                    (ROWS - 1) * sizeof(float));
        }
    }
}

/* One input at a time gives what many at once give. */
static void
company_changes_no_bit(void **state)
{
    static struct matrix matrix;
    static struct octet many[INPUTS_MAX * OCTETS_MAX], one[OCTETS_MAX];
    static float all[INPUTS_MAX * ROWS];
    const struct integer_kernels *kernels = integer_best();
    float in[COLS_MAX], alone[ROWS];
    struct prng prng;

    (void)state;
    prng_seed(&prng, 9);
    for (size_t round = 0; round < 5 * COUNT_OF(formats); round++) {
        enum weight_format format = formats[round % COUNT_OF(formats)];
        bool even_first = integer_even_first(format);

        matrix_make(&matrix, &prng, format);
        for (size_t c = 0; c < INPUTS_MAX; c++) {
            for (size_t i = 0; i < matrix.weight.cols; i++)
                in[i] = random_float(&prng);
            kernels->quantise(in, matrix.weight.cols, even_first, many + c,
                              INPUTS_MAX);
        }
        kernels->multiply(&matrix.weight, 0, ROWS, many, INPUTS_MAX, all, ROWS);
        for (size_t c = 0; c < INPUTS_MAX; c++) {
            for (size_t o = 0; o < OCTETS_MAX; o++)
                one[o] = many[o * INPUTS_MAX + c];
            kernels->multiply(&matrix.weight, 0, ROWS, one, 1, alone, ROWS);
            assert_memory_equal(alone, all + c * ROWS, sizeof(alone));
        }
    }
}

static void
what_is_not_finite_stays_so(void **state)
{
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    static struct matrix matrix;
    struct prng prng;

    (void)state;
    prng_seed(&prng, 10);
    for (size_t k = 0; k < COUNT_OF(bad); k++)
        for (int set = 0; set < INTEGER_SETS; set++) {
            const struct integer_kernels *kernels =
                integer_find((enum integer_set)set);
            struct octet octets[OCTETS_MAX];
            float in[COLS_MAX], out[ROWS];

            if (kernels == NULL)
                continue;
            matrix_make(&matrix, &prng, WEIGHT_AFFINE4);
            for (size_t i = 0; i < matrix.weight.cols; i++)
                in[i] = random_float(&prng);
            in[matrix.weight.cols - 3] = bad[k];
            kernels->quantise(in, matrix.weight.cols, true, octets, 1);
            kernels->multiply(&matrix.weight, 0, ROWS, octets, 1, out, ROWS);
            for (size_t r = 0; r < ROWS; r++)
                assert_true(isfinite(out[r]) == 0);
        }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_product_is_the_sum_in_double_of_what_was_rounded),
        cmocka_unit_test(activations_are_rounded_to_the_nearest_of_255_steps),
        cmocka_unit_test(
            every_instruction_set_has_the_bits_of_the_portable_one),
        cmocka_unit_test(company_changes_no_bit),
        cmocka_unit_test(what_is_not_finite_stays_so),
    };

    return cmocka_run_group_tests_name("inference_integer", tests, NULL, NULL);
}
