/* integer_neon.c - integer.h for NEON with the dot product of bytes; empty on
 * other architectures. */
#include "inference/cpu/integer.h"

#if defined(__aarch64__)

#include <arm_neon.h>
#include <string.h>

#include "inference/cpu/packed.h"
#include "inference/floats.h"

#include "common/banned.h"

#if defined(__APPLE__)
#define TARGET __attribute__((target("dotprod")))
#else
#define TARGET /* the Makefile allows dot products in this file */
#endif
#define SPREAD8 packed_spread
#define KERNELS integer_neon
#define KERNELS_NAME "neon"
#define INLINE static inline __attribute__((always_inline)) TARGET

/* Units 0 2 4 6, and 1 3 5 7. */
struct f8 {
    float32x4_t even, odd;
};

INLINE struct f8
f_zero(void)
{
    return (struct f8){vdupq_n_f32(0), vdupq_n_f32(0)};
}

INLINE struct f8
f_load(const float *from)
{
    return (struct f8){vld1q_f32(from), vld1q_f32(from + 4)};
}

INLINE struct f8
f_mul(struct f8 a, struct f8 b)
{
    return (struct f8){vmulq_f32(a.even, b.even), vmulq_f32(a.odd, b.odd)};
}

INLINE struct f8
f_fma(struct f8 a, struct f8 b, struct f8 c)
{
    return (struct f8){vfmaq_f32(c.even, a.even, b.even),
                       vfmaq_f32(c.odd, a.odd, b.odd)};
}

INLINE float
f_sum(struct f8 a)
{
    float32x4_t four = vaddq_f32(a.even, a.odd);
    float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));

    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

/* Four scales, or fewer and then zeros. */
INLINE float32x4_t
scales_load(const uint8_t *from, enum dtype dtype, size_t count)
{
    uint8_t room[16] = {0};
    uint16x4_t half;

    if (dtype == DTYPE_F32) {
        memcpy(room, from, 4 * count);
        return vreinterpretq_f32_u8(vld1q_u8(room));
    }
    if (dtype == DTYPE_U8) {
        uint32x4_t wide;

        memcpy(room, from, count);
        wide = vmovl_u16(vget_low_u16(vmovl_u8(vld1_u8(room))));
        wide = vmaxq_u32(vshlq_n_u32(wide, 23), vdupq_n_u32(0x00400000));
        return vmulq_n_f32(vreinterpretq_f32_u32(wide), 0.5f);
    }
    memcpy(room, from, 2 * count);
    half = vreinterpret_u16_u8(vld1_u8(room));
    if (dtype == DTYPE_F16)
        return vcvt_f32_f16(vreinterpret_f16_u16(half));
    return vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(half), 16));
}

INLINE struct f8
f_scales(const uint8_t *from, enum dtype dtype, size_t group)
{
    size_t width = dtype == DTYPE_F32 ? 4 : dtype == DTYPE_U8 ? 1 : 2;
    float32x4_t low, high;

    if (group == 32) {
        low = scales_load(from, dtype, 4);
        high = scales_load(from + 4 * width, dtype, 4);
        return (struct f8){vuzp1q_f32(low, high), vuzp2q_f32(low, high)};
    }
    low = scales_load(from, dtype, OCTET_SIZE / group);
    if (group == 128)
        low = vzip1q_f32(low, low);
    return (struct f8){low, low};
}

/* In the order of the activations, 16 elements each. */
struct unpacked {
    int8x16_t v[16];
};

INLINE void
unpack_even_first(const uint8_t *data, bool is_float, struct unpacked *out)
{
    const int8x16_t table = vld1q_s8(e2m1_doubled);

    for (size_t k = 0; k < 8; k++) {
        uint8x16_t bytes = vld1q_u8(data + 16 * k);
        uint8x16_t low = vandq_u8(bytes, vdupq_n_u8(15));
        uint8x16_t high = vshrq_n_u8(bytes, 4);
        size_t at = k / 2 * 4 + k % 2;

        out->v[at] =
            is_float ? vqtbl1q_s8(table, low) : vreinterpretq_s8_u8(low);
        out->v[at + 2] =
            is_float ? vqtbl1q_s8(table, high) : vreinterpretq_s8_u8(high);
    }
}

INLINE void
unpack_bytes(const uint8_t *bytes, struct unpacked *out)
{
    for (size_t k = 0; k < 16; k++) {
        size_t unit = k / 2 % 2, half = k % 2;

        out->v[k / 4 * 4 + half * 2 + unit] =
            vreinterpretq_s8_u8(vld1q_u8(bytes + 16 * k));
    }
}

/* Bytes above 127 become less 128, with 128 times the sum of x to be added. */
INLINE int8x16_t
weights_at(enum weight_format format, const struct unpacked *weights, size_t at)
{
    if (format != WEIGHT_AFFINE8)
        return weights->v[at];
    return veorq_s8(weights->v[at], vdupq_n_s8((int8_t)-128));
}

INLINE int32x4_t
unit_products(enum weight_format format, const struct unpacked *weights,
              const int8_t *q, size_t unit)
{
    size_t first = unit / 2 * 4 + unit % 2, second = first + 2;
    int32x4_t sum =
        vdotq_s32(vdupq_n_s32(0), weights_at(format, weights, first),
                  vld1q_s8(q + 16 * first));

    return vdotq_s32(sum, weights_at(format, weights, second),
                     vld1q_s8(q + 16 * second));
}

/* The sums of units @from, @from + 2, + 4 and + 6. */
INLINE float32x4_t
four_products(enum weight_format format, const struct unpacked *weights,
              const struct octet *in, size_t from)
{
    int32x4_t low = vpaddq_s32(unit_products(format, weights, in->q, from),
                               unit_products(format, weights, in->q, from + 2));
    int32x4_t high =
        vpaddq_s32(unit_products(format, weights, in->q, from + 4),
                   unit_products(format, weights, in->q, from + 6));
    int32x4_t sums = vpaddq_s32(low, high);

    if (format == WEIGHT_AFFINE8)
        sums = vaddq_s32(sums, vshlq_n_s32(vld1q_s32(in->total + 4 * from), 7));
    return vcvtq_f32_s32(sums);
}

INLINE struct f8
products(enum weight_format format, const struct unpacked *weights,
         const struct octet *in)
{
    return (struct f8){four_products(format, weights, in, 0),
                       four_products(format, weights, in, 1)};
}

/* The bits of an absolute value, as a whole number, are the greater the
 * greater it is; those of NaN are greatest. */
INLINE float
greatest32(const float *x)
{
    uint32x4_t most = vdupq_n_u32(0);

    for (size_t i = 0; i < INTEGER_UNIT; i += 4) {
        uint32x4_t bits = vreinterpretq_u32_f32(vld1q_f32(x + i));

        most = vmaxq_u32(most, vandq_u32(bits, vdupq_n_u32(0x7fffffff)));
    }
    return float_from_bits(vmaxvq_u32(most));
}

INLINE int32_t
quantise32(const float *x, float inverse, int8_t *q)
{
    int32x4_t whole[8], sum = vdupq_n_s32(0);

    for (size_t i = 0; i < 8; i++) {
        whole[i] = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4 * i), inverse));
        sum = vaddq_s32(sum, whole[i]);
    }
    for (size_t i = 0; i < 8; i += 2) {
        int16x8_t pairs =
            vcombine_s16(vqmovn_s32(whole[i]), vqmovn_s32(whole[i + 1]));

        vst1_s8(q + 4 * i, vqmovn_s16(pairs));
    }
    return vaddvq_s32(sum);
}

#include "inference/cpu/integer_body.inc"

#endif
