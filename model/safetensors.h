/* safetensors.h - the header of one .safetensors file, every size checked.
 *
 * Format: 8-byte little-endian header size, a JSON object {name: {dtype,
 * shape, data_offsets}}, then the data (huggingface/safetensors, format
 * documentation).  Only the header is read; data is the caller's to map. */
#ifndef BERTH_MODEL_SAFETENSORS_H
#define BERTH_MODEL_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/error.h"

enum {
    SAFETENSORS_HEADER_MAX_BYTES = 100 * 1024 * 1024, /* as the format allows */
    SAFETENSORS_RANK_MAX = 8,
    SAFETENSORS_TENSORS_MAX = 1 << 20,
};

enum dtype {
    DTYPE_F32,
    DTYPE_F16,
    DTYPE_BF16,
    DTYPE_U32,
    DTYPE_I32,
    DTYPE_U8,
    DTYPE_I8,
    DTYPE_I64,
    DTYPE_F8_E4M3,
    DTYPE_F64,
    DTYPE_U16,
    DTYPE_I16,
    DTYPE_BOOL,
    DTYPE_U64,
    DTYPE_COUNT
};

size_t dtype_bytes(enum dtype dtype);
const char *dtype_name(enum dtype dtype); /* "F32", "BF16", ... */

struct tensor_info {
    char *name; /* owned by the file */
    enum dtype dtype;
    uint32_t rank; /* number of dimensions, 0..8 */
    uint64_t shape[SAFETENSORS_RANK_MAX];
    uint64_t offset; /* of the data, from the start of the file */
    uint64_t bytes;
};

struct safetensors {
    struct tensor_info *tensors; /* sorted by name */
    size_t tensor_count;
    uint64_t file_bytes;
    uint64_t header_bytes; /* where the data begins */
};

/* Read and check the header of @path: every range inside the file, no
 * overlap, no hole, size = product of shape and dtype, known dtypes.
 * STATUS_INVALID names file and tensor. */
MUST_CHECK enum status safetensors_read(const char *path,
                                        struct safetensors *file,
                                        struct error *err);
/* The same from bytes already in memory: the first @size bytes of a file of
 * @file_bytes (at least its header must be there). @path is for messages. */
MUST_CHECK enum status safetensors_parse(const void *bytes, size_t size,
                                         uint64_t file_bytes, const char *path,
                                         struct safetensors *file,
                                         struct error *err);
void safetensors_clear(struct safetensors *file);
/* By name, NULL when absent. */
const struct tensor_info *safetensors_find(const struct safetensors *file,
                                           const char *name);

#endif
