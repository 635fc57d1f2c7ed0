/* integer.h - products of quantised weights with activations of 8 bits.
 *
 * An activation row is cut into units of 32 elements.  A unit is kept as whole
 * numbers q from -127 to 127 and a scale d, so that x is about d * q.  The
 * product of a unit with 32 weights is one sum of whole numbers, which is
 * exact; its share of the result is scale * d * sum + bias * d * (sum of q).
 * These shares are added in one fixed order: unit u goes to partial sum u mod
 * 8, first its scaled sum and then its bias, by fused multiply-adds in rising
 * u, and the eight are added as ((0 + 1) + (4 + 5)) + ((2 + 3) + (6 + 7)).  So
 * all instruction sets give the same bits, whatever the number of inputs and of
 * threads.
 *
 * Pure; safe from any thread. */
#ifndef BERTH_INFERENCE_CPU_INTEGER_H
#define BERTH_INFERENCE_CPU_INTEGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inference/ops.h"

enum {
    INTEGER_UNIT = 32,
    OCTET_UNITS = 8,
    OCTET_SIZE = OCTET_UNITS * INTEGER_UNIT,
};

enum integer_set {
    INTEGER_PORTABLE,
    INTEGER_AVX2,
    INTEGER_VNNI,
    INTEGER_NEON,
    INTEGER_SETS,
};

/* Eight units of one row.  Each 64 elements of q are the first half of unit 0,
 * the first half of unit 1, and their second halves; a first half is the even
 * elements for weights of four bits, whose bytes hold an even and an odd one,
 * and else the first 16.  Scales, sums and totals stand in the order of units
 * 0 2 4 6 1 3 5 7. */
struct octet {
    int8_t q[OCTET_SIZE];
    float scale[OCTET_UNITS];
    float sum[OCTET_UNITS];     /* scale times total */
    int32_t total[OCTET_UNITS]; /* the sum of the unit's q */
};

struct integer_kernels {
    const char *name;
    /* The octets of one row of @size floats, a multiple of 32; octet o goes to
     * out[o * stride], the rest of the last one is zero.  A row that holds an
     * infinity or a NaN has scales that are NaN. */
    void (*quantise)(const float *in, size_t size, bool even_first,
                     struct octet *out, size_t stride);
    /* out[c * out_stride + r] = row (first + r) of @weight times input c, for
     * r < count and c < in_count; octet o of input c is in[o * in_count + c].
     * The weight's offset is not added. */
    void (*multiply)(const struct weight *weight, size_t first, size_t count,
                     const struct octet *in, size_t in_count, float *out,
                     size_t out_stride);
};

/* Is the product of @weight with 8-bit activations known? */
bool integer_serves(const struct weight *weight);
/* Does @format want the even elements first? */
bool integer_even_first(enum weight_format format);

/* The table of an instruction set; NULL when this processor lacks it or the
 * program was built for another. */
const struct integer_kernels *integer_find(enum integer_set set);
const struct integer_kernels *integer_best(void);

/* Each defined by its file, for integer.c alone. */
extern const struct integer_kernels integer_portable;
extern const struct integer_kernels integer_avx2;
extern const struct integer_kernels integer_vnni;
extern const struct integer_kernels integer_neon;

#endif
