/* packed.h - weights of 2 to 8 bits that are packed without gaps, from the low
 * bits up.  Pure; safe from any thread. */
#ifndef BERTH_INFERENCE_CPU_PACKED_H
#define BERTH_INFERENCE_CPU_PACKED_H

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "inference/ops.h"

/* Bits of a weight of a quantised @format. */
static inline __attribute__((always_inline)) size_t
packed_bits(enum weight_format format)
{
    switch (format) {
    case WEIGHT_AFFINE2:
        return 2;
    case WEIGHT_AFFINE3:
        return 3;
    case WEIGHT_AFFINE4:
    case WEIGHT_MXFP4:
        return 4;
    case WEIGHT_AFFINE5:
        return 5;
    case WEIGHT_AFFINE6:
        return 6;
    case WEIGHT_AFFINE8:
        return 8;
    case WEIGHT_F32:
    case WEIGHT_F16:
    case WEIGHT_BF16:
    case WEIGHT_FORMATS:
        break;
    }
    return 0;
}

/* The lowest eight integers of @bits bits, below 8, to eight bytes. */
static inline __attribute__((always_inline)) uint64_t
packed_spread(uint64_t packed, unsigned bits)
{
    uint64_t spread = 0;

    for (unsigned i = 0; i < 8; i++)
        spread |= (packed >> (i * bits) & ((1u << bits) - 1)) << (8 * i);
    return spread;
}

#if defined(__x86_64__)
/* The same in one instruction. */
static inline __attribute__((always_inline, target("bmi2"))) uint64_t
packed_spread_bmi2(uint64_t packed, unsigned bits)
{
    return _pdep_u64(packed, ((1u << bits) - 1) * 0x0101010101010101u);
}
#endif

#endif
