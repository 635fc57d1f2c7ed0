/* kernels_avx512.c - the kernels for AVX-512 (F, BW, DQ, VL); empty on other
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

#define TARGET                                                                 \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma,f16c,"       \
                          "avx2,bmi2")))
#define TILE_ROWS 4
#define TILE_INPUTS 4
#define SPREAD8 packed_spread_bmi2
#define KERNELS kernels_avx512
#define KERNELS_NAME "avx512"
#define LEAF static inline __attribute__((always_inline)) TARGET

struct v16 {
    __m512 v;
};

/* For 4 bits @scale holds the sixteen values a weight can have. */
struct affine16 {
    __m512 scale, bias;
};

LEAF struct v16
v_set(float value)
{
    return (struct v16){_mm512_set1_ps(value)};
}

LEAF struct v16
v_zero(void)
{
    return (struct v16){_mm512_setzero_ps()};
}

LEAF struct v16
v_load(const float *from)
{
    return (struct v16){_mm512_loadu_ps(from)};
}

LEAF void
v_store(float *to, struct v16 a)
{
    _mm512_storeu_ps(to, a.v);
}

LEAF struct v16
v_add(struct v16 a, struct v16 b)
{
    return (struct v16){_mm512_add_ps(a.v, b.v)};
}

LEAF struct v16
v_fma(struct v16 a, struct v16 b, struct v16 c)
{
    return (struct v16){_mm512_fmadd_ps(a.v, b.v, c.v)};
}

LEAF float
v_sum(struct v16 a)
{
    __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v),
                                 _mm512_extractf32x8_ps(a.v, 1));
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight),
                             _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));

    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

LEAF struct v16
v_load_bf16(const void *from)
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from));

    return (struct v16){_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}

LEAF struct v16
v_load_f16(const void *from)
{
    return (struct v16){_mm512_cvtph_ps(_mm256_loadu_si256(from))};
}

LEAF struct affine16
affine_make(float scale, float bias, bool four_bit)
{
    struct affine16 affine = {_mm512_set1_ps(scale), _mm512_set1_ps(bias)};

    if (four_bit)
        affine.scale = _mm512_fmadd_ps(
            _mm512_set_ps(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
            affine.scale, affine.bias);
    return affine;
}

/* The permutation looks at the low four bits of each index only. */
LEAF struct v16
v_load_q4(const uint8_t *from, const struct affine16 *affine)
{
    const __m512i shifts = _mm512_set_epi32(28, 24, 20, 16, 12, 8, 4, 0, 28, 24,
                                            20, 16, 12, 8, 4, 0);
    const __m512i places =
        _mm512_set_epi32(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0);
    int64_t words;
    __m512i spread;

    memcpy(&words, from, sizeof(words));
    spread = _mm512_permutexvar_epi32(places, _mm512_set1_epi64(words));
    return (struct v16){_mm512_permutexvar_ps(_mm512_srlv_epi32(spread, shifts),
                                              affine->scale)};
}

LEAF struct v16
v_load_q8(const uint8_t *from, const struct affine16 *affine)
{
    __m512i wide = _mm512_cvtepu8_epi32(
        _mm_loadu_si128((const __m128i *)(const void *)from));

    return (struct v16){
        _mm512_fmadd_ps(_mm512_cvtepi32_ps(wide), affine->scale, affine->bias)};
}

/* The sixteen values a weight can have. */
LEAF struct affine16
mx_make(float scale)
{
    __m512i table = _mm512_cvtepi8_epi32(
        _mm_loadu_si128((const __m128i *)(const void *)e2m1_doubled));

    return (struct affine16){_mm512_fmadd_ps(_mm512_cvtepi32_ps(table),
                                             _mm512_set1_ps(0.5f * scale),
                                             _mm512_setzero_ps()),
                             _mm512_setzero_ps()};
}

LEAF struct v16
v_load_mx(const uint8_t *from, const struct affine16 *affine)
{
    return v_load_q4(from, affine);
}

#include "inference/cpu/kernels_body.inc"

#endif
