/* integer.c - choose the instruction set when the program runs. */
#include "inference/cpu/integer.h"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#include "common/attrs.h"

#include "common/banned.h"

bool
integer_serves(const struct weight *weight)
{
    switch (weight->format) {
    case WEIGHT_F32:
    case WEIGHT_F16:
    case WEIGHT_BF16:
    case WEIGHT_FORMATS:
        break;
    case WEIGHT_AFFINE2:
    case WEIGHT_AFFINE3:
    case WEIGHT_AFFINE4:
    case WEIGHT_AFFINE5:
    case WEIGHT_AFFINE6:
    case WEIGHT_AFFINE8:
    case WEIGHT_MXFP4:
        return true;
    }
    return false;
}

bool
integer_even_first(enum weight_format format)
{
    return format == WEIGHT_AFFINE4 || format == WEIGHT_MXFP4;
}

#if defined(__x86_64__)
static bool
has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi2");
}

static bool
has_vnni(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512vnni") &&
           __builtin_cpu_supports("avx512vl");
}

const struct integer_kernels *
integer_find(enum integer_set set)
{
    switch (set) {
    case INTEGER_PORTABLE:
        return &integer_portable;
    case INTEGER_AVX2:
        return has_avx2() ? &integer_avx2 : NULL;
    case INTEGER_VNNI:
        return has_vnni() ? &integer_vnni : NULL;
    case INTEGER_NEON:
    case INTEGER_SETS:
        break;
    }
    return NULL;
}
#elif defined(__aarch64__)
/* Every Mac with Apple silicon has the dot product. */
static bool
has_dot_product(void)
{
#if defined(__linux__)
    return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#else
    return true;
#endif
}

const struct integer_kernels *
integer_find(enum integer_set set)
{
    switch (set) {
    case INTEGER_PORTABLE:
        return &integer_portable;
    case INTEGER_NEON:
        return has_dot_product() ? &integer_neon : NULL;
    case INTEGER_AVX2:
    case INTEGER_VNNI:
    case INTEGER_SETS:
        break;
    }
    return NULL;
}
#else
const struct integer_kernels *
integer_find(enum integer_set set)
{
    return set == INTEGER_PORTABLE ? &integer_portable : NULL;
}
#endif

const struct integer_kernels *
integer_best(void)
{
    static const enum integer_set order[] = {INTEGER_VNNI, INTEGER_AVX2,
                                             INTEGER_NEON};

    for (size_t i = 0; i < COUNT_OF(order); i++)
        if (integer_find(order[i]) != NULL)
            return integer_find(order[i]);
    return &integer_portable;
}
