/* kernels_portable.c - the kernels in plain C, for any processor; also what
 * the others are tested against. */
#include "inference/cpu/kernels.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "inference/cpu/packed.h"
#include "inference/floats.h"

#include "common/banned.h"

#define TARGET
#define TILE_ROWS 1
#define TILE_INPUTS 1
#define SPREAD8 packed_spread
#define KERNELS kernels_portable
#define KERNELS_NAME "portable"

struct v16 {
    float lane[16];
};

struct affine16 {
    float scale, bias;
};

static inline struct v16
v_set(float value)
{
    struct v16 v;

    for (int i = 0; i < 16; i++)
        v.lane[i] = value;
    return v;
}

static inline struct v16
v_zero(void)
{
    return v_set(0);
}

static inline struct v16
v_load(const float *from)
{
    struct v16 v;

    memcpy(v.lane, from, sizeof(v.lane));
    return v;
}

static inline void
v_store(float *to, struct v16 v)
{
    memcpy(to, v.lane, sizeof(v.lane));
}

static inline struct v16
v_add(struct v16 a, struct v16 b)
{
    for (int i = 0; i < 16; i++)
        a.lane[i] += b.lane[i];
    return a;
}

static inline struct v16
v_fma(struct v16 a, struct v16 b, struct v16 c)
{
    for (int i = 0; i < 16; i++)
        c.lane[i] = fmaf(a.lane[i], b.lane[i], c.lane[i]);
    return c;
}

static inline float
v_sum(struct v16 v)
{
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            v.lane[i] += v.lane[i + half];
    return v.lane[0];
}

static inline struct v16
v_load_bf16(const void *from)
{
    uint16_t half[16];
    struct v16 v;

    memcpy(half, from, sizeof(half));
    for (int i = 0; i < 16; i++)
        v.lane[i] = float_from_bf16(half[i]);
    return v;
}

static inline struct v16
v_load_f16(const void *from)
{
    uint16_t half[16];
    struct v16 v;

    memcpy(half, from, sizeof(half));
    for (int i = 0; i < 16; i++)
        v.lane[i] = float_from_f16(half[i]);
    return v;
}

static inline struct affine16
affine_make(float scale, float bias, bool four_bit)
{
    (void)four_bit;
    return (struct affine16){.scale = scale, .bias = bias};
}

static inline struct v16
v_load_q4(const uint8_t *from, const struct affine16 *affine)
{
    struct v16 v;

    for (int i = 0; i < 16; i++)
        v.lane[i] = fmaf((float)(from[i / 2] >> (i % 2 * 4) & 15),
                         affine->scale, affine->bias);
    return v;
}

static inline struct v16
v_load_q8(const uint8_t *from, const struct affine16 *affine)
{
    struct v16 v;

    for (int i = 0; i < 16; i++)
        v.lane[i] = fmaf((float)from[i], affine->scale, affine->bias);
    return v;
}

/* The doubled table is made up for by half the scale. */
static inline struct affine16
mx_make(float scale)
{
    return (struct affine16){.scale = 0.5f * scale, .bias = 0};
}

static inline struct v16
v_load_mx(const uint8_t *from, const struct affine16 *affine)
{
    struct v16 v;

    for (int i = 0; i < 16; i++)
        v.lane[i] = fmaf((float)e2m1_doubled[from[i / 2] >> (i % 2 * 4) & 15],
                         affine->scale, affine->bias);
    return v;
}

#include "inference/cpu/kernels_body.inc"
