/* integer_avx2.c - integer.h for AVX2 with FMA; empty on other
 * architectures. */
#include "inference/cpu/integer.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#include "inference/cpu/packed.h"
#include "inference/floats.h"

#include "common/banned.h"

#define TARGET __attribute__((target("avx2,fma,f16c,bmi2")))
#define SPREAD8 packed_spread_bmi2
#define KERNELS integer_avx2
#define KERNELS_NAME "avx2"

#include "inference/cpu/integer_x86.inc"

/* Weights up to 63: four products stay below 2^15. */
INLINE __m256i
pair_products(__m256i low, __m256i high, __m256i x, __m256i y)
{
    __m256i sums = _mm256_add_epi16(_mm256_maddubs_epi16(low, x),
                                    _mm256_maddubs_epi16(high, y));

    return _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
}

/* Two products of 255 and 127 would not fit 16 bits: bytes less 128 do, with
 * 128 times the sum of x to be added at the end. */
INLINE __m256i
less_products(__m256i bytes, __m256i x)
{
    __m256i less = _mm256_xor_si256(bytes, _mm256_set1_epi8((char)0x80));

    return _mm256_madd_epi16(
        _mm256_maddubs_epi16(_mm256_abs_epi8(less), _mm256_sign_epi8(x, less)),
        _mm256_set1_epi16(1));
}

INLINE __m256i
wide_products(__m256i low, __m256i high, __m256i x, __m256i y)
{
    return _mm256_add_epi32(less_products(low, x), less_products(high, y));
}

INLINE __m256i
wide_rest(__m256i sums, const int32_t *total)
{
    __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)total);

    return _mm256_add_epi32(sums, _mm256_slli_epi32(x, 7));
}

#include "inference/cpu/integer_x86_products.inc"

#include "inference/cpu/integer_body.inc"

#endif
