/* cpu.h - the backend that computes on the processor, in f32, or with
 * activations of 8 bits where they meet quantised weights.
 *
 * Shape-invariant and the same for every instruction set (cpu/kernels.h,
 * cpu/integer.h).
 * Keys and values are kept as f32, so a position takes
 * layers x kv_heads x head_dim x 8 bytes. */
#ifndef BERTH_INFERENCE_CPU_CPU_H
#define BERTH_INFERENCE_CPU_CPU_H

#include "inference/cpu/integer.h"
#include "inference/cpu/kernels.h"
#include "inference/ops.h"

/* @threads 0: one per processor.  @kernels NULL: the best there are.
 * @integer NULL: all activations are f32. */
void cpu_open(size_t threads, const struct kernels *kernels,
              const struct integer_kernels *integer, struct backend *backend);

#endif
