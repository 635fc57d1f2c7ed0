/* backend.h - what the files of the cpu backend share: its memory and threads,
 * and the operations that are not in cpu.c. */
#ifndef BERTH_INFERENCE_CPU_BACKEND_H
#define BERTH_INFERENCE_CPU_BACKEND_H

#include "inference/cpu/integer.h"
#include "inference/cpu/kernels.h"
#include "inference/cpu/pool.h"
#include "inference/ops.h"

struct vec {
    size_t rows, size;
    float *data;
};

/* Per layer all keys, then all values; per head its positions together. */
struct kv {
    const struct kv_shape *shape;
    size_t positions;
    float *data;
    size_t *starts; /* of each layer in @data, per position */
    float *states;
    size_t *state_starts; /* of each layer in @states */
};

struct cpu {
    const struct kernels *kernels;
    const struct integer_kernels *integer; /* NULL: f32 */
    struct octet *octets;                  /* the inputs of one product */
    size_t octet_count;
    struct pool *pool;
    float **scratch; /* one per thread */
    size_t scratch_count;
};

/* Every thread's scratch has room for @count floats afterwards. */
void cpu_scratch_reserve(struct cpu *cpu, size_t count);
/* Items per piece: four pieces a thread, or all at once when there is little
 * to do; @work_each in multiply-adds. */
size_t cpu_piece_of(const struct cpu *cpu, size_t count, size_t work_each);

/* Operations, as inference/ops.h has them. */
struct kv *cpu_kv_new(void *ctx, const struct kv_shape *shape,
                      size_t positions);
void cpu_kv_free(void *ctx, struct kv *kv);
uint64_t cpu_kv_token_bytes(const struct kv_shape *shape);
uint64_t cpu_kv_state_bytes(const struct kv_shape *shape);
void cpu_kv_write(void *ctx, const struct vec *keys, const struct vec *values,
                  const struct pass_row *rows, size_t count, size_t layer);
void cpu_attention(void *ctx, struct vec *out, const struct vec *queries,
                   const struct pass_row *rows, size_t count,
                   const struct attention_shape *shape);
void cpu_linear_heads(void *ctx, struct vec *out, const struct vec *in,
                      size_t count, const struct weight *weight,
                      const struct heads_shape *shape);
void cpu_pieces_copy(void *ctx, struct vec *out, struct pieces to,
                     const struct vec *in, struct pieces from, size_t heads,
                     size_t size, size_t count);
void cpu_delta_net(void *ctx, struct vec *out, struct vec *qkv,
                   const struct vec *strength, const struct vec *decay,
                   const struct pass_row *rows, size_t count,
                   const struct delta_shape *shape);

#endif
