/* kernels_avx2.c - the kernels for AVX2 with FMA and F16C; empty on other
 * architectures. */
#include "inference/cpu/kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "inference/cpu/packed.h"
#include "inference/floats.h"

#include "common/banned.h"

#define TARGET __attribute__((target("avx2,fma,f16c,bmi2")))
#define TILE_ROWS 2
#define TILE_INPUTS 2
#define SPREAD8 packed_spread_bmi2
#define KERNELS kernels_avx2
#define KERNELS_NAME "avx2"
#define LEAF static inline __attribute__((always_inline)) TARGET

struct v16 {
    __m256 low, high;
};

struct affine16 {
    __m256 scale, bias;
};

LEAF struct v16
v_set(float value)
{
    return (struct v16){_mm256_set1_ps(value), _mm256_set1_ps(value)};
}

LEAF struct v16
v_zero(void)
{
    return (struct v16){_mm256_setzero_ps(), _mm256_setzero_ps()};
}

LEAF struct v16
v_load(const float *from)
{
    return (struct v16){_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)};
}

LEAF void
v_store(float *to, struct v16 a)
{
    _mm256_storeu_ps(to, a.low);
    _mm256_storeu_ps(to + 8, a.high);
}

LEAF struct v16
v_add(struct v16 a, struct v16 b)
{
    return (struct v16){_mm256_add_ps(a.low, b.low),
                        _mm256_add_ps(a.high, b.high)};
}

LEAF struct v16
v_fma(struct v16 a, struct v16 b, struct v16 c)
{
    return (struct v16){_mm256_fmadd_ps(a.low, b.low, c.low),
                        _mm256_fmadd_ps(a.high, b.high, c.high)};
}

LEAF float
v_sum(struct v16 a)
{
    __m256 eight = _mm256_add_ps(a.low, a.high);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight),
                             _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));

    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

LEAF __m256
half_bf16(__m128i half)
{
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

LEAF struct v16
v_load_bf16(const void *from)
{
    const __m128i *half = from;

    return (struct v16){half_bf16(_mm_loadu_si128(half)),
                        half_bf16(_mm_loadu_si128(half + 1))};
}

LEAF struct v16
v_load_f16(const void *from)
{
    const __m128i *half = from;

    return (struct v16){_mm256_cvtph_ps(_mm_loadu_si128(half)),
                        _mm256_cvtph_ps(_mm_loadu_si128(half + 1))};
}

LEAF struct affine16
affine_make(float scale, float bias, bool four_bit)
{
    (void)four_bit;
    return (struct affine16){_mm256_set1_ps(scale), _mm256_set1_ps(bias)};
}

/* Sixteen bytes to sixteen weights. */
LEAF struct v16
v_from_bytes(__m128i bytes, const struct affine16 *affine)
{
    __m256 low = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
    __m256 high = _mm256_cvtepi32_ps(
        _mm256_cvtepu8_epi32(_mm_unpackhi_epi64(bytes, bytes)));

    return (struct v16){_mm256_fmadd_ps(low, affine->scale, affine->bias),
                        _mm256_fmadd_ps(high, affine->scale, affine->bias)};
}

LEAF struct v16
v_load_q4(const uint8_t *from, const struct affine16 *affine)
{
    const __m128i mask = _mm_set1_epi8(15);
    __m128i pairs = _mm_loadl_epi64((const __m128i *)(const void *)from);
    __m128i even = _mm_and_si128(pairs, mask);
    __m128i odd = _mm_and_si128(_mm_srli_epi16(pairs, 4), mask);

    return v_from_bytes(_mm_unpacklo_epi8(even, odd), affine);
}

LEAF struct v16
v_load_q8(const uint8_t *from, const struct affine16 *affine)
{
    return v_from_bytes(_mm_loadu_si128((const __m128i *)(const void *)from),
                        affine);
}

/* The doubled table is made up for by half the scale. */
LEAF struct affine16
mx_make(float scale)
{
    return (struct affine16){_mm256_set1_ps(0.5f * scale), _mm256_setzero_ps()};
}

LEAF struct v16
v_load_mx(const uint8_t *from, const struct affine16 *affine)
{
    const __m128i mask = _mm_set1_epi8(15);
    const __m128i table =
        _mm_loadu_si128((const __m128i *)(const void *)e2m1_doubled);
    __m128i pairs = _mm_loadl_epi64((const __m128i *)(const void *)from);
    __m128i even = _mm_and_si128(pairs, mask);
    __m128i odd = _mm_and_si128(_mm_srli_epi16(pairs, 4), mask);
    __m128i values = _mm_shuffle_epi8(table, _mm_unpacklo_epi8(even, odd));
    __m256 low = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(values));
    __m256 high = _mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_unpackhi_epi64(values, values)));

    return (struct v16){_mm256_fmadd_ps(low, affine->scale, affine->bias),
                        _mm256_fmadd_ps(high, affine->scale, affine->bias)};
}

#include "inference/cpu/kernels_body.inc"

#endif
