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
    if (info->rank != 1 || info->shape[0] != size ||
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
    uint64_t bits = info->shape[1] * 32 / out->cols;
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
        if (!affine_format(bits, &out->format) || biases->rank != 2 ||
            biases->shape[0] != scales->shape[0] ||
            biases->shape[1] != scales->shape[1] ||
            biases->dtype != scales->dtype ||
            (scales->dtype != DTYPE_F32 && scales->dtype != DTYPE_F16 &&
             scales->dtype != DTYPE_BF16))
            return quantised_refuse(placing, name);
    }
    if (info->shape[1] * 32 != bits * out->cols || scales->rank != 2 ||
        scales->shape[0] != out->rows || scales->shape[1] == 0 ||
        out->cols % scales->shape[1] != 0)
        return quantised_refuse(placing, name);
    out->group = out->cols / (size_t)scales->shape[1];
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
    if (info->shape[1] != out->cols)
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
    if (info->rank != 2 || info->shape[0] != rows)
        return error_set(placing->err, STATUS_INVALID,
                         "%s: tensor %s must have %zu rows", placing->dir->path,
                         part, rows);
    out->row_bytes = (size_t)(info->bytes / rows);
    if (info->dtype == DTYPE_U32)
        return quantised_find(placing, name, info, out);
    return plain_format(placing, name, info, out);
}

/* A matrix of a layer, with its bias when the config says so. */
static enum status
projection_find(const struct placing *placing, size_t layer, const char *name,
                bool biased, struct weight *out)
{
    char whole[TENSOR_NAME_BYTES];
    char part[TENSOR_NAME_BYTES + 16];
    float *offset = NULL;
    size_t rows = out->rows;
    enum status status;

    snprintf(whole, sizeof(whole), "model.layers.%zu.%s", layer, name);
    status = matrix_find(placing, whole, rows, out->cols, out);
    if (status != STATUS_OK || !biased)
        return status;
    snprintf(part, sizeof(part), "%s.bias", whole);
    status = vector_read(placing, part, rows, &offset);
    out->offset = offset;
    return status;
}

static enum status
norms_find(const struct placing *placing, size_t layer,
           struct layer_weights *weights)
{
    const struct model_config *config = &placing->dir->config;
    const struct {
        const char *name;
        size_t size;
        float **to;
        bool present;
    } norms[] = {
        {"input_layernorm", config->hidden, &weights->attention_norm, true},
        {"post_attention_layernorm", config->hidden, &weights->mlp_norm, true},
        {"self_attn.q_norm", config->head_dim, &weights->query_norm,
         config->qk_norm},
        {"self_attn.k_norm", config->head_dim, &weights->key_norm,
         config->qk_norm},
    };
    enum status status = STATUS_OK;

    for (size_t i = 0; status == STATUS_OK && i < COUNT_OF(norms); i++) {
        char name[TENSOR_NAME_BYTES];

        if (!norms[i].present)
            continue;
        snprintf(name, sizeof(name), "model.layers.%zu.%s.weight", layer,
                 norms[i].name);
        status = vector_read(placing, name, norms[i].size, norms[i].to);
    }
    return status;
}

static enum status
layer_find(const struct placing *placing, size_t layer,
           struct layer_weights *weights)
{
    const struct model_config *config = &placing->dir->config;
    size_t queries = (size_t)config->heads * config->head_dim;
    size_t keys = (size_t)config->kv_heads * config->head_dim;
    const struct {
        const char *name;
        size_t rows, cols;
        bool biased;
        struct weight *to;
    } matrices[] = {
        {"self_attn.q_proj", queries, config->hidden, config->attention_bias,
         &weights->query},
        {"self_attn.k_proj", keys, config->hidden, config->attention_bias,
         &weights->key},
        {"self_attn.v_proj", keys, config->hidden, config->attention_bias,
         &weights->value},
        {"self_attn.o_proj", config->hidden, queries, config->attention_bias,
         &weights->output},
        {"mlp.gate_proj", config->intermediate, config->hidden,
         config->mlp_bias, &weights->gate},
        {"mlp.up_proj", config->intermediate, config->hidden, config->mlp_bias,
         &weights->up},
        {"mlp.down_proj", config->hidden, config->intermediate,
         config->mlp_bias, &weights->down},
    };
    enum status status = norms_find(placing, layer, weights);

    for (size_t i = 0; status == STATUS_OK && i < COUNT_OF(matrices); i++) {
        matrices[i].to->rows = matrices[i].rows;
        matrices[i].to->cols = matrices[i].cols;
        status = projection_find(placing, layer, matrices[i].name,
                                 matrices[i].biased, matrices[i].to);
    }
    return status;
}

static enum status
outside_find(const struct placing *placing)
{
    const struct model_config *config = &placing->dir->config;
    struct weights *weights = placing->weights;
    enum status status =
        matrix_find(placing, "model.embed_tokens", config->vocab,
                    config->hidden, &weights->embedding);

    if (status == STATUS_OK)
        status = vector_read(placing, "model.norm.weight", config->hidden,
                             &weights->final_norm);
    if (status != STATUS_OK)
        return status;
    if (config->tied_head) {
        weights->head = weights->embedding;
        return STATUS_OK;
    }
    return matrix_find(placing, "lm_head", config->vocab, config->hidden,
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

static uint64_t
layer_bytes(const struct layer_weights *layer)
{
    return matrix_bytes(&layer->query) + matrix_bytes(&layer->key) +
           matrix_bytes(&layer->value) + matrix_bytes(&layer->output) +
           matrix_bytes(&layer->gate) + matrix_bytes(&layer->up) +
           matrix_bytes(&layer->down);
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
        weights->bytes_per_token += layer_bytes(&weights->layers[i]);
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
    struct weight *matrices[] = {&layer->query,  &layer->key,  &layer->value,
                                 &layer->output, &layer->gate, &layer->up,
                                 &layer->down};

    for (size_t i = 0; i < COUNT_OF(matrices); i++)
        offset_free(matrices[i]);
    free(layer->attention_norm);
    free(layer->mlp_norm);
    free(layer->query_norm);
    free(layer->key_norm);
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
