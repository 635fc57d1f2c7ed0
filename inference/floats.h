/* floats.h - the 16-bit floating point formats of weight files, as float.
 *
 * Both conversions are exact.  Pure; safe from any thread. */
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

#endif
