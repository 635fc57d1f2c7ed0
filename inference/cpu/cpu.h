/* cpu.h - the backend that computes on the processor, in f32.
 *
 * Shape-invariant and the same for every instruction set (cpu/kernels.h).
 * Keys and values are kept as f32, so a position takes
 * layers x kv_heads x head_dim x 8 bytes. */
#ifndef BERTH_INFERENCE_CPU_CPU_H
#define BERTH_INFERENCE_CPU_CPU_H

#include "inference/cpu/kernels.h"
#include "inference/ops.h"

/* @threads 0: one per processor.  @kernels NULL: the best there are. */
void cpu_open(size_t threads, const struct kernels *kernels,
              struct backend *backend);

#endif
