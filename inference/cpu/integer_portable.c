/* integer_portable.c - integer.h in plain C: the meaning of all others. */
#include "inference/cpu/integer.h"

#include <math.h>
#include <string.h>

#include "inference/cpu/packed.h"
#include "inference/floats.h"

#include "common/banned.h"

#define TARGET
#define SPREAD8 packed_spread
#define KERNELS integer_portable
#define KERNELS_NAME "portable"
#define INLINE static inline

struct f8 {
    float v[OCTET_UNITS];
};

INLINE struct f8
f_zero(void)
{
    return (struct f8){{0}};
}

INLINE struct f8
f_load(const float *from)
{
    struct f8 out;

    memcpy(out.v, from, sizeof(out.v));
    return out;
}

INLINE struct f8
f_mul(struct f8 a, struct f8 b)
{
    for (size_t i = 0; i < OCTET_UNITS; i++)
        a.v[i] *= b.v[i];
    return a;
}

INLINE struct f8
f_fma(struct f8 a, struct f8 b, struct f8 c)
{
    for (size_t i = 0; i < OCTET_UNITS; i++)
        c.v[i] = fmaf(a.v[i], b.v[i], c.v[i]);
    return c;
}

INLINE float
f_sum(struct f8 a)
{
    float four[4];

    for (size_t i = 0; i < 4; i++)
        four[i] = a.v[i] + a.v[i + 4];
    return (four[0] + four[2]) + (four[1] + four[3]);
}

INLINE float
scale_at(const uint8_t *from, enum dtype dtype, size_t index)
{
    uint16_t half;
    float whole;

    if (dtype == DTYPE_U8) /* the doubled E2M1 is made up for */
        return 0.5f * float_from_e8m0(from[index]);
    if (dtype == DTYPE_F32) {
        memcpy(&whole, from + index * 4, sizeof(whole));
        return whole;
    }
    memcpy(&half, from + index * 2, sizeof(half));
    return dtype == DTYPE_BF16 ? float_from_bf16(half) : float_from_f16(half);
}

INLINE struct f8
f_scales(const uint8_t *from, enum dtype dtype, size_t group)
{
    struct f8 out;

    for (size_t u = 0; u < OCTET_UNITS; u++)
        out.v[u % 2 * 4 + u / 2] =
            scale_at(from, dtype, u * INTEGER_UNIT / group);
    return out;
}

struct unpacked {
    int16_t v[OCTET_SIZE];
};

INLINE void
unpack_even_first(const uint8_t *data, bool is_float, struct unpacked *out)
{
    for (size_t i = 0; i < OCTET_SIZE / 2; i++) {
        size_t at = i / 32 * 64 + i % 32;
        uint8_t low = data[i] & 15, high = data[i] >> 4;

        out->v[at] = is_float ? e2m1_doubled[low] : low;
        out->v[at + 32] = is_float ? e2m1_doubled[high] : high;
    }
}

INLINE void
unpack_bytes(const uint8_t *bytes, struct unpacked *out)
{
    for (size_t i = 0; i < OCTET_SIZE; i++) {
        size_t unit = i / 32 % 2, half = i / 16 % 2;

        out->v[i / 64 * 64 + half * 32 + unit * 16 + i % 16] = bytes[i];
    }
}

INLINE int32_t
sum16(const int16_t *weights, const int8_t *q)
{
    int32_t sum = 0;

    for (size_t i = 0; i < 16; i++)
        sum += weights[i] * q[i];
    return sum;
}

INLINE struct f8
products(enum weight_format format, const struct unpacked *weights,
         const struct octet *in)
{
    struct f8 out;

    (void)format;
    for (size_t u = 0; u < OCTET_UNITS; u++) {
        size_t first = u / 2 * 64 + u % 2 * 16;

        out.v[u % 2 * 4 + u / 2] =
            (float)(sum16(weights->v + first, in->q + first) +
                    sum16(weights->v + first + 32, in->q + first + 32));
    }
    return out;
}

/* The bits of an absolute value, as a whole number, are the greater the
 * greater it is; those of NaN are greatest. */
INLINE float
greatest32(const float *x)
{
    uint32_t most = 0;

    for (size_t i = 0; i < INTEGER_UNIT; i++) {
        uint32_t bits;

        memcpy(&bits, x + i, sizeof(bits));
        bits &= 0x7fffffff;
        most = bits > most ? bits : most;
    }
    return float_from_bits(most);
}

INLINE int32_t
quantise32(const float *x, float inverse, int8_t *q)
{
    int32_t total = 0;

    for (size_t i = 0; i < INTEGER_UNIT; i++) {
        float scaled = x[i] * inverse;

        /* Infinities and NaN make no number here; their scale tells. */
        q[i] =
            scaled >= -127.5f && scaled <= 127.5f ? (int8_t)lrintf(scaled) : 0;
        total += q[i];
    }
    return total;
}

#include "inference/cpu/integer_body.inc"
