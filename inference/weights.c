/* weights.c - from tensor names to matrices in mapped files. */
#include "inference/weights.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/mem.h"
#include "inference/floats.h"

#include "common/banned.h"

enum { TENSOR_NAME_BYTES = 160 };

struct mapping {
    void *bytes;
    size_t size;
};

/* What is needed while the tensors are placed. */
struct placing {
    const struct model_directory *dir;
    struct weights *weights;
    struct error *err;
};

static enum status
shard_map(const struct model_shard *shard, struct mapping *mapping,
          struct error *err)
{
    char text[128];
    int fd = open(shard->path, O_RDONLY | O_CLOEXEC);
    size_t size = (size_t)shard->file.file_bytes;
    void *bytes = MAP_FAILED;

    if (fd >= 0)
        bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        error_set(err, STATUS_INTERNAL, "%s: cannot map: %s", shard->path,
                  error_errno(errno, text, sizeof(text)));
    if (fd >= 0)
        close(fd);
    if (bytes == MAP_FAILED)
        return STATUS_INTERNAL;
    /* Start reading now; the first pass waits for what is not there yet. */
    (void)posix_madvise(bytes, size, POSIX_MADV_WILLNEED);
    *mapping = (struct mapping){.bytes = bytes, .size = size};
    return STATUS_OK;
}

/* The bytes of a tensor; @info is written too. */
static enum status
tensor_find(const struct placing *placing, const char *name,
            const struct tensor_info **info, const uint8_t **bytes)
{
    size_t shard = 0;

    *info = model_directory_find(placing->dir, name, &shard);
    if (*info == NULL)
        return error_set(placing->err, STATUS_INVALID,
                         "%s: tensor %s is missing", placing->dir->path, name);
    assert(shard < placing->weights->mapping_count);
    assert((*info)->offset + (*info)->bytes <=
           placing->weights->mappings[shard].size);
    *bytes = (const uint8_t *)placing->weights->mappings[shard].bytes +
             (*info)->offset;
    return STATUS_OK;
}

/* A tensor of three dimensions is as many matrices, one under the other. */
static uint64_t
last_of(const struct tensor_info *info)
{
    return info->shape[info->rank - 1];
}

static uint64_t
rows_of(const struct tensor_info *info)
{
    uint64_t rows = 1;

    for (size_t i = 0; i + 1 < info->rank; i++)
        rows *= info->shape[i];
    return rows;
}

/* A vector of @size elements as floats of our own. */
static enum status
vector_read(const struct placing *placing, const char *name, size_t size,
            float **out)
{
    const struct tensor_info *info;
    const uint8_t *bytes;
    enum status status = tensor_find(placing, name, &info, &bytes);

    if (status != STATUS_OK)
        return status;
    if (info->rank == 0 || rows_of(info) * last_of(info) != size ||
        (info->dtype != DTYPE_F32 && info->dtype != DTYPE_F16 &&
         info->dtype != DTYPE_BF16))
        return error_set(placing->err, STATUS_INVALID,
                         "%s: tensor %s must be %zu floats, not %s",
                         placing->dir->path, name, size,
                         dtype_name(info->dtype));
    *out = mem_array(size, sizeof(float));
    for (size_t i = 0; i < size; i++) {
        uint16_t half;

        if (info->dtype == DTYPE_F32) {
            memcpy(&(*out)[i], bytes + i * 4, 4);
            continue;
        }
        memcpy(&half, bytes + i * 2, 2);
        (*out)[i] = info->dtype == DTYPE_BF16 ? float_from_bf16(half)
                                              : float_from_f16(half);
    }
    return STATUS_OK;
}

static enum status
quantised_refuse(const struct placing *placing, const char *name)
{
    return error_set(placing->err, STATUS_INVALID,
                     "%s: tensor %s.weight is quantised in a way this build "
                     "does not know; it knows MLX affine with 2, 3, 4, 5, 6 or "
                     "8 bits and groups of 32, 64 or 128, and mxfp4: choose "
                     "another model",
                     placing->dir->path, name);
}

static bool
affine_format(uint64_t bits, enum weight_format *format)
{
    static const enum weight_format formats[] = {
        [2] = WEIGHT_AFFINE2, [3] = WEIGHT_AFFINE3, [4] = WEIGHT_AFFINE4,
        [5] = WEIGHT_AFFINE5, [6] = WEIGHT_AFFINE6, [8] = WEIGHT_AFFINE8,
    };

    if (bits < 2 || bits > 8 || bits == 7)
        return false;
    *format = formats[bits];
    return true;
}

/* Bits and group follow from the shapes, so a layer may differ from the rest.
 */
static enum status
quantised_find(const struct placing *placing, const char *name,
               const struct tensor_info *info, struct weight *out)
{
    char part[TENSOR_NAME_BYTES + 16];
    const struct tensor_info *scales, *biases = NULL;
    uint64_t bits = last_of(info) * 32 / out->cols;
    enum status status;

    snprintf(part, sizeof(part), "%s.scales", name);
    status = tensor_find(placing, part, &scales, &out->scales);
    if (status != STATUS_OK)
        return status;
    out->format = WEIGHT_MXFP4;
    if (scales->dtype != DTYPE_U8) {
        snprintf(part, sizeof(part), "%s.biases", name);
        status = tensor_find(placing, part, &biases, &out->biases);
        if (status != STATUS_OK)
            return status;
        if (!affine_format(bits, &out->format) ||
            rows_of(biases) != rows_of(scales) ||
            last_of(biases) != last_of(scales) ||
            biases->dtype != scales->dtype ||
            (scales->dtype != DTYPE_F32 && scales->dtype != DTYPE_F16 &&
             scales->dtype != DTYPE_BF16))
            return quantised_refuse(placing, name);
    }
    if (last_of(info) * 32 != bits * out->cols ||
        rows_of(scales) != out->rows || last_of(scales) == 0 ||
        out->cols % last_of(scales) != 0)
        return quantised_refuse(placing, name);
    out->group = out->cols / (size_t)last_of(scales);
    if ((out->group != 32 && out->group != 64 && out->group != 128) ||
        (biases == NULL && (bits != 4 || out->group != 32)))
        return quantised_refuse(placing, name);
    out->scale_dtype = scales->dtype;
    return STATUS_OK;
}

static enum status
plain_format(const struct placing *placing, const char *name,
             const struct tensor_info *info, struct weight *out)
{
    if (last_of(info) != out->cols)
        return error_set(placing->err, STATUS_INVALID,
                         "%s: tensor %s.weight must have %zu columns",
                         placing->dir->path, name, out->cols);
    if (info->dtype == DTYPE_F32)
        out->format = WEIGHT_F32;
    else if (info->dtype == DTYPE_F16)
        out->format = WEIGHT_F16;
    else if (info->dtype == DTYPE_BF16)
        out->format = WEIGHT_BF16;
    else
        return error_set(placing->err, STATUS_INVALID,
                         "%s: tensor %s.weight has dtype %s; this build knows "
                         "F32, F16 and BF16",
                         placing->dir->path, name, dtype_name(info->dtype));
    return STATUS_OK;
}

/* The matrix called @name (without ".weight"), [rows, cols]. */
static enum status
matrix_find(const struct placing *placing, const char *name, size_t rows,
            size_t cols, struct weight *out)
{
    char part[TENSOR_NAME_BYTES + 16];
    const struct tensor_info *info;
    enum status status;

    *out = (struct weight){.rows = rows, .cols = cols};
    snprintf(part, sizeof(part), "%s.weight", name);
    status = tensor_find(placing, part, &info, &out->data);
    if (status != STATUS_OK)
        return status;
    if (info->rank < 2 || rows_of(info) != rows)
        return error_set(placing->err, STATUS_INVALID,
                         "%s: tensor %s must have %zu rows", placing->dir->path,
                         part, rows);
    out->row_bytes = (size_t)(info->bytes / rows);
    if (info->dtype == DTYPE_U32)
        return quantised_find(placing, name, info, out);
    return plain_format(placing, name, info, out);
}

/* A matrix of a layer, with its bias when there is one. */
static enum status
module_find(const struct placing *placing, size_t layer,
            const struct matrix_module *m, struct weight *out)
{
    char whole[MODULE_NAME_BYTES];
    char part[TENSOR_NAME_BYTES + 16];
    size_t rows = (size_t)((m->count == 0 ? 1 : m->count) * m->rows);
    float *offset = NULL;
    enum status status;

    model_layer_name(&placing->dir->config, (uint32_t)layer, m->name, whole);
    status = matrix_find(placing, whole, rows, (size_t)m->cols, out);
    if (status != STATUS_OK || !m->bias)
        return status;
    snprintf(part, sizeof(part), "%s.bias", whole);
    status = vector_read(placing, part, rows, &offset);
    out->offset = offset;
    return status;
}

/* The delta net's own norm is kept whole everywhere. */
static bool
is_plain_norm(enum vector_role role)
{
    return role == VECTOR_ATTENTION_NORM || role == VECTOR_MLP_NORM ||
           role == VECTOR_QUERY_NORM || role == VECTOR_KEY_NORM;
}

static void
add_1(float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] += 1;
}

static enum status
apart_find(const struct placing *placing, size_t layer,
           const struct matrix_module *m, struct weight **out)
{
    char name[MODULE_NAME_BYTES];
    enum status status = STATUS_OK;

    *out = mem_array((size_t)m->count, sizeof(**out));
    for (size_t e = 0; status == STATUS_OK && e < m->count; e++) {
        model_expert_name(&placing->dir->config, (uint32_t)layer, e, m->name,
                          name);
        status = matrix_find(placing, name, (size_t)m->rows, (size_t)m->cols,
                             &(*out)[e]);
    }
    return status;
}

static enum status
layer_find(const struct placing *placing, size_t layer,
           struct layer_weights *weights)
{
    enum status status = STATUS_OK;
    struct modules modules;

    model_modules(&placing->dir->config, (uint32_t)layer, &modules);
    for (size_t i = 0; status == STATUS_OK && i < modules.matrix_count; i++) {
        const struct matrix_module *m = &modules.matrices[i];

        status =
            m->apart
                ? apart_find(placing, layer, m, &weights->apart[m->role])
                : module_find(placing, layer, m, &weights->matrix[m->role]);
    }
    for (size_t i = 0; status == STATUS_OK && i < modules.vector_count; i++) {
        const struct vector_module *v = &modules.vectors[i];
        char name[MODULE_NAME_BYTES];

        model_layer_name(&placing->dir->config, (uint32_t)layer, v->name, name);
        status = vector_read(placing, name, (size_t)v->size,
                             &weights->vector[v->role]);
        if (status == STATUS_OK && placing->dir->config.norms_less_1 &&
            is_plain_norm(v->role))
            add_1(weights->vector[v->role], (size_t)v->size);
    }
    return status;
}

static enum status
outside_find(const struct placing *placing)
{
    const struct model_config *config = &placing->dir->config;
    struct weights *weights = placing->weights;
    char name[MODULE_NAME_BYTES];
    enum status status;

    snprintf(name, sizeof(name), "%sembed_tokens", config->prefix);
    status = matrix_find(placing, name, config->vocab, config->hidden,
                         &weights->embedding);
    snprintf(name, sizeof(name), "%snorm.weight", config->prefix);
    if (status == STATUS_OK)
        status =
            vector_read(placing, name, config->hidden, &weights->final_norm);
    if (status != STATUS_OK)
        return status;
    if (config->norms_less_1)
        add_1(weights->final_norm, config->hidden);
    if (config->tied_head) {
        weights->head = weights->embedding;
        return STATUS_OK;
    }
    return matrix_find(placing, config->head, config->vocab, config->hidden,
                       &weights->head);
}

static uint64_t
matrix_bytes(const struct weight *weight)
{
    uint64_t row = weight->row_bytes;

    if (weight->scales != NULL)
        row += (weight->biases == NULL ? 1 : 2) *
               dtype_bytes(weight->scale_dtype) *
               (weight->cols / weight->group);
    return row * weight->rows;
}

static bool
is_of_experts(size_t role)
{
    return role == MATRIX_EXPERT_GATE || role == MATRIX_EXPERT_UP ||
           role == MATRIX_EXPERT_DOWN;
}

/* Read for one token: of the experts those that are used. */
static uint64_t
layer_bytes(const struct layer_weights *layer,
            const struct model_experts *experts)
{
    uint64_t bytes = 0;

    for (size_t role = 0; role < MATRIX_ROLES; role++) {
        const struct weight *matrix = &layer->matrix[role];

        for (size_t e = 0; layer->apart[role] != NULL && e < experts->used; e++)
            bytes += matrix_bytes(&layer->apart[role][e]);
        if (matrix->rows == 0)
            continue;
        bytes += is_of_experts(role)
                     ? matrix_bytes(matrix) / experts->count * experts->used
                     : matrix_bytes(matrix);
    }
    return bytes;
}

/* The @index-th part of @rows rows. */
static struct weight
weight_part(const struct weight *weight, size_t index, size_t rows)
{
    struct weight part = *weight;
    size_t first = index * rows;

    assert(first + rows <= weight->rows);
    part.rows = rows;
    part.data += first * weight->row_bytes;
    if (weight->scales != NULL) {
        size_t row = weight->cols / weight->group *
                     (size_t)dtype_bytes(weight->scale_dtype);

        part.scales += first * row;
        if (weight->biases != NULL)
            part.biases += first * row;
    }
    if (weight->offset != NULL)
        part.offset += first;
    return part;
}

struct weight
layer_expert(const struct layer_weights *layer, enum matrix_role role,
             size_t expert, size_t rows)
{
    if (layer->apart[role] != NULL)
        return layer->apart[role][expert];
    return weight_part(&layer->matrix[role], expert, rows);
}

enum status
weights_open(const struct model_directory *dir, struct weights *weights,
             struct error *err)
{
    struct placing placing = {.dir = dir, .weights = weights, .err = err};
    enum status status = STATUS_OK;

    *weights = (struct weights){0};
    weights->mappings = mem_array(dir->shard_count, sizeof(struct mapping));
    weights->layers = mem_array(dir->config.layers, sizeof(*weights->layers));
    for (size_t i = 0; status == STATUS_OK && i < dir->shard_count; i++) {
        status = shard_map(&dir->shards[i], &weights->mappings[i], err);
        weights->mapping_count = i + 1;
    }
    if (status == STATUS_OK)
        status = outside_find(&placing);
    for (size_t i = 0; status == STATUS_OK && i < dir->config.layers; i++)
        status = layer_find(&placing, i, &weights->layers[i]);
    if (status != STATUS_OK) {
        weights_close(weights, &dir->config);
        return status;
    }
    weights->bytes_per_token = matrix_bytes(&weights->head);
    for (size_t i = 0; i < dir->config.layers; i++)
        weights->bytes_per_token +=
            layer_bytes(&weights->layers[i], &dir->config.experts);
    return STATUS_OK;
}

/* The offset of a matrix is ours although readers see it as constant. */
static void
offset_free(struct weight *weight)
{
    free((void *)(uintptr_t)weight->offset);
}

static void
layer_close(struct layer_weights *layer)
{
    for (size_t role = 0; role < MATRIX_ROLES; role++)
        offset_free(&layer->matrix[role]);
    for (size_t role = 0; role < MATRIX_ROLES; role++)
        free(layer->apart[role]);
    for (size_t role = 0; role < VECTOR_ROLES; role++)
        free(layer->vector[role]);
}

void
weights_close(struct weights *weights, const struct model_config *config)
{
    for (size_t i = 0; weights->layers != NULL && i < config->layers; i++)
        layer_close(&weights->layers[i]);
    for (size_t i = 0; i < weights->mapping_count; i++)
        if (weights->mappings[i].bytes != NULL)
            munmap(weights->mappings[i].bytes, weights->mappings[i].size);
    free(weights->layers);
    free(weights->mappings);
    free(weights->final_norm);
    *weights = (struct weights){0};
}
