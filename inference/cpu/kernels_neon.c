/* kernels_neon.c - the kernels for arm64; empty on other architectures. */
#include "inference/cpu/kernels.h"

#if defined(__aarch64__)

#include <arm_neon.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "inference/cpu/packed.h"
#include "inference/floats.h"

#include "common/banned.h"

#define TARGET
#define TILE_ROWS 2
#define TILE_INPUTS 2
#define SPREAD8 packed_spread
#define KERNELS kernels_neon
#define KERNELS_NAME "neon"
#define LEAF static inline __attribute__((always_inline))

struct v16 {
    float32x4_t part[4];
};

struct affine16 {
    float32x4_t scale, bias;
};

LEAF struct v16
v_set(float value)
{
    float32x4_t four = vdupq_n_f32(value);

    return (struct v16){{four, four, four, four}};
}

LEAF struct v16
v_zero(void)
{
    return v_set(0);
}

LEAF struct v16
v_load(const float *from)
{
    return (struct v16){{vld1q_f32(from), vld1q_f32(from + 4),
                         vld1q_f32(from + 8), vld1q_f32(from + 12)}};
}

LEAF void
v_store(float *to, struct v16 a)
{
    for (int i = 0; i < 4; i++)
        vst1q_f32(to + 4 * i, a.part[i]);
}

LEAF struct v16
v_add(struct v16 a, struct v16 b)
{
    for (int i = 0; i < 4; i++)
        a.part[i] = vaddq_f32(a.part[i], b.part[i]);
    return a;
}

LEAF struct v16
v_fma(struct v16 a, struct v16 b, struct v16 c)
{
    for (int i = 0; i < 4; i++)
        c.part[i] = vfmaq_f32(c.part[i], a.part[i], b.part[i]);
    return c;
}

LEAF float
v_sum(struct v16 a)
{
    float32x4_t low = vaddq_f32(a.part[0], a.part[2]);
    float32x4_t high = vaddq_f32(a.part[1], a.part[3]);
    float32x4_t four = vaddq_f32(low, high);
    float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));

    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

LEAF struct v16
v_load_bf16(const void *from)
{
    const uint8_t *bytes = from;
    struct v16 v;

    for (int i = 0; i < 4; i++) {
        uint16x4_t half = vreinterpret_u16_u8(vld1_u8(bytes + 8 * i));

        v.part[i] = vreinterpretq_f32_u32(vshll_n_u16(half, 16));
    }
    return v;
}

LEAF struct v16
v_load_f16(const void *from)
{
    const uint8_t *bytes = from;
    struct v16 v;

    for (int i = 0; i < 4; i++)
        v.part[i] = vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(bytes + 8 * i)));
    return v;
}

LEAF struct affine16
affine_make(float scale, float bias, bool four_bit)
{
    (void)four_bit;
    return (struct affine16){vdupq_n_f32(scale), vdupq_n_f32(bias)};
}

/* Sixteen bytes to sixteen weights. */
LEAF struct v16
v_from_bytes(uint8x16_t bytes, const struct affine16 *affine)
{
    uint16x8_t low = vmovl_u8(vget_low_u8(bytes));
    uint16x8_t high = vmovl_u8(vget_high_u8(bytes));
    struct v16 v = {{vcvtq_f32_u32(vmovl_u16(vget_low_u16(low))),
                     vcvtq_f32_u32(vmovl_u16(vget_high_u16(low))),
                     vcvtq_f32_u32(vmovl_u16(vget_low_u16(high))),
                     vcvtq_f32_u32(vmovl_u16(vget_high_u16(high)))}};

    for (int i = 0; i < 4; i++)
        v.part[i] = vfmaq_f32(affine->bias, v.part[i], affine->scale);
    return v;
}

LEAF struct v16
v_load_q4(const uint8_t *from, const struct affine16 *affine)
{
    uint8x8_t pairs = vld1_u8(from);
    uint8x8_t even = vand_u8(pairs, vdup_n_u8(15));
    uint8x8_t odd = vshr_n_u8(pairs, 4);

    return v_from_bytes(vcombine_u8(vzip1_u8(even, odd), vzip2_u8(even, odd)),
                        affine);
}

LEAF struct v16
v_load_q8(const uint8_t *from, const struct affine16 *affine)
{
    return v_from_bytes(vld1q_u8(from), affine);
}

/* The doubled table is made up for by half the scale. */
LEAF struct affine16
mx_make(float scale)
{
    return (struct affine16){vdupq_n_f32(0.5f * scale), vdupq_n_f32(0)};
}

LEAF struct v16
v_load_mx(const uint8_t *from, const struct affine16 *affine)
{
    uint8x8_t pairs = vld1_u8(from);
    uint8x8_t even = vand_u8(pairs, vdup_n_u8(15));
    uint8x8_t odd = vshr_n_u8(pairs, 4);
    int8x16_t values =
        vqtbl1q_s8(vld1q_s8(e2m1_doubled),
                   vcombine_u8(vzip1_u8(even, odd), vzip2_u8(even, odd)));
    int16x8_t low = vmovl_s8(vget_low_s8(values));
    int16x8_t high = vmovl_s8(vget_high_s8(values));
    struct v16 v = {{vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))),
                     vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))),
                     vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))),
                     vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)))}};

    for (int i = 0; i < 4; i++)
        v.part[i] = vfmaq_f32(affine->bias, v.part[i], affine->scale);
    return v;
}

#include "inference/cpu/kernels_body.inc"

#endif
