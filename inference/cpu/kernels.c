/* kernels.c - choose the instruction set when the program runs. */
#include "inference/cpu/kernels.h"

#include <stdbool.h>

#include "common/banned.h"

#if defined(__x86_64__)
static bool
has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("avx") && __builtin_cpu_supports("bmi2");
}

static bool
has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

/* Every processor with AVX2 and FMA also converts half floats (F16C). */
const struct kernels *
kernels_find(enum simd simd)
{
    switch (simd) {
    case SIMD_PORTABLE:
        return &kernels_portable;
    case SIMD_AVX2:
        return has_avx2() ? &kernels_avx2 : NULL;
    case SIMD_AVX512:
        return has_avx512() ? &kernels_avx512 : NULL;
    case SIMD_NEON:
    case SIMD_COUNT:
        break;
    }
    return NULL;
}
#elif defined(__aarch64__)
const struct kernels *
kernels_find(enum simd simd)
{
    switch (simd) {
    case SIMD_PORTABLE:
        return &kernels_portable;
    case SIMD_NEON:
        return &kernels_neon;
    case SIMD_AVX2:
    case SIMD_AVX512:
    case SIMD_COUNT:
        break;
    }
    return NULL;
}
#else
const struct kernels *
kernels_find(enum simd simd)
{
    return simd == SIMD_PORTABLE ? &kernels_portable : NULL;
}
#endif

const struct kernels *
kernels_best(void)
{
    static const enum simd order[] = {SIMD_AVX512, SIMD_AVX2, SIMD_NEON};

    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
        if (kernels_find(order[i]) != NULL)
            return kernels_find(order[i]);
    return &kernels_portable;
}
