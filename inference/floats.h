/* floats.h - the small floating point formats of weight files, as float.
 *
 * All conversions are exact.  Pure; safe from any thread. */
#ifndef BERTH_INFERENCE_FLOATS_H
#define BERTH_INFERENCE_FLOATS_H

#include <stdint.h>
#include <string.h>

static inline float
float_from_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* bfloat16: the upper half of a float. */
static inline float
float_from_bf16(uint16_t bits)
{
    return float_from_bits((uint32_t)bits << 16);
}

/* IEEE 754 binary16, subnormals, infinities and NaN included. */
static inline float
float_from_f16(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
    uint32_t rest = bits & 0x7fff;

    if (rest >= 0x7c00)
        return float_from_bits(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    if (rest >= 0x400)
        return float_from_bits(sign | ((rest << 13) + (112u << 23)));
    /* A subnormal counts in units of 2^-24. */
    return float_from_bits(sign | 0x3f800000) * (float)rest * 0x1p-24f;
}

/* E8M0 (OCP Microscaling Formats 1.0, 5.4.1): a power of two from 2^-127 to
 * 2^127; 255 is NaN. */
static inline float
float_from_e8m0(uint8_t exponent)
{
    if (exponent == 255)
        return float_from_bits(0x7fc00000);
    return float_from_bits(exponent == 0 ? 0x00400000
                                         : (uint32_t)exponent << 23);
}

/* E2M1 (ibid., 5.3.3), doubled: so whole numbers.  -0 is 0. */
static const int8_t e2m1_doubled[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                        0, -1, -2, -3, -4, -6, -8, -12};

#endif
