/* kernels.h - the inner loops of the cpu backend, one table per instruction
 * set.
 *
 * Every sum is made of sixteen partial sums: element i goes to partial sum
 * i mod 16 by a fused multiply-add, in rising i, and the sixteen are added as
 * a tree of halves (i and i + 8, i + 4, i + 2, i + 1).  All tables keep this
 * order, so all give the same bits.  Pure; safe from any thread. */
#ifndef BERTH_INFERENCE_CPU_KERNELS_H
#define BERTH_INFERENCE_CPU_KERNELS_H

#include <stddef.h>

#include "inference/ops.h"

enum simd { SIMD_PORTABLE, SIMD_AVX2, SIMD_AVX512, SIMD_NEON, SIMD_COUNT };

struct kernels {
    const char *name;
    /* out[r] = row (first + r) of @weight times @in, for r < count; the
     * weight's offset is not added. */
    void (*dot_rows)(const struct weight *weight, size_t first, size_t count,
                     const float *in, float *out);
    /* One row of @weight as floats. */
    void (*decode_row)(const struct weight *weight, size_t row, float *out);
    /* out[c * out_stride + r] = rows[r] times in[c], all of @size floats and
     * packed.  The same bits as dot_rows. */
    void (*tile)(const float *rows, size_t row_count, const float *in,
                 size_t in_count, size_t size, float *out, size_t out_stride);
    float (*dot)(const float *a, const float *b, size_t size);
    /* out[j] = scale * (query times keys[j]) */
    void (*scores)(const float *query, const float *keys, size_t count,
                   size_t size, float scale, float *out);
    /* x[j] = exp(x[j] - greatest x); returns their sum, count > 0. */
    float (*exp_sum)(float *x, size_t count);
    /* out[i] = scale * sum over j of p[j] * values[j][i], j rising */
    void (*weighted_sum)(const float *p, const float *values, size_t count,
                         size_t size, float scale, float *out);
    void (*silu_mul)(float *gate, const float *up, size_t size);
};

/* The table of an instruction set; NULL when this processor lacks it or the
 * program was built for another. */
const struct kernels *kernels_find(enum simd simd);
/* The widest one this processor has. */
const struct kernels *kernels_best(void);

/* Each defined by its file, for kernels.c alone. */
extern const struct kernels kernels_portable;
extern const struct kernels kernels_avx2;
extern const struct kernels kernels_avx512;
extern const struct kernels kernels_neon;

#endif
