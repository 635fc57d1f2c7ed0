/* integer_vnni.c - integer.h for AVX-512 with VNNI, on vectors of 256 bits;
 * empty on other architectures. */
#include "inference/cpu/integer.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#include "inference/cpu/packed.h"
#include "inference/floats.h"

#include "common/banned.h"

#define TARGET                                                                 \
    __attribute__((target("avx512f,avx512vl,avx512vnni,avx2,fma,f16c,bmi2")))
#define SPREAD8 packed_spread_bmi2
#define KERNELS integer_vnni
#define KERNELS_NAME "vnni"

#include "inference/cpu/integer_x86.inc"

INLINE __m256i
pair_products(__m256i low, __m256i high, __m256i x, __m256i y)
{
    return _mm256_dpbusd_epi32(
        _mm256_dpbusd_epi32(_mm256_setzero_si256(), low, x), high, y);
}

INLINE __m256i
wide_products(__m256i low, __m256i high, __m256i x, __m256i y)
{
    return pair_products(low, high, x, y);
}

INLINE __m256i
wide_rest(__m256i sums, const int32_t *total)
{
    (void)total;
    return sums;
}

#include "inference/cpu/integer_x86_products.inc"

#include "inference/cpu/integer_body.inc"

#endif
