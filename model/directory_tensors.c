/* directory_tensors.c - every tensor there once, with its shape and dtype. */
#include "model/directory_tensors.h"

#include <inttypes.h>
#include <string.h>

#include "model/modules.h"

#include "common/banned.h"

enum { TENSOR_NAME_BYTES = 256 };

/* What the checks of one directory share. */
struct check {
    const struct model_directory *dir;
    const struct json *config;
    struct error *err;
};

static void
shape_text(const uint64_t *shape, size_t rank, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < rank && used < size; i++) {
        int written = snprintf(text + used, size - used, "%s%" PRIu64,
                               i == 0 ? "" : ", ", shape[i]);
        used += (size_t)written;
    }
}

/* @name must be there with @rank dimensions @shape and one of @dtypes (a set
 * of bits). */
static enum status
check_tensor(const struct check *check, const char *name, unsigned dtypes,
             const uint64_t *shape, size_t rank)
{
    const struct tensor_info *tensor =
        model_directory_find(check->dir, name, NULL);
    char expected[64];
    char found[200];

    shape_text(shape, rank, expected, sizeof(expected));
    if (tensor == NULL) {
        error_set(check->err, STATUS_INVALID,
                  "tensor %s [%s] is missing from %s: download the model again",
                  name, expected, check->dir->path);
        return error_tag(check->err, "tensor_missing", name);
    }
    if (tensor->rank != rank ||
        memcmp(tensor->shape, shape, rank * sizeof(shape[0])) != 0) {
        shape_text(tensor->shape, tensor->rank, found, sizeof(found));
        error_set(check->err, STATUS_INVALID,
                  "tensor %s has shape [%.90s], expected [%s]: config.json and "
                  "weights are not of one model, download it again",
                  name, found, expected);
        return error_tag(check->err, "tensor_shape", name);
    }
    if ((dtypes & 1U << tensor->dtype) == 0) {
        error_set(check->err, STATUS_INVALID,
                  "tensor %s has dtype %s, expected %s: choose another model",
                  name, dtype_name(tensor->dtype),
                  (dtypes & 1U << DTYPE_U32) != 0  ? "U32"
                  : (dtypes & 1U << DTYPE_U8) != 0 ? "U8"
                                                   : "BF16, F16 or F32");
        return error_tag(check->err, "tensor_dtype", name);
    }
    return STATUS_OK;
}

static const unsigned float_dtypes =
    1U << DTYPE_F32 | 1U << DTYPE_F16 | 1U << DTYPE_BF16;

static enum status
check_vector(const struct check *check, const char *name, uint64_t size)
{
    return check_tensor(check, name, float_dtypes, &size, 1);
}

/* Dimensions of a tensor of @count matrices, or one; returns how many. */
static size_t
shape_make(uint64_t count, uint64_t rows, uint64_t cols, uint64_t shape[3])
{
    if (count == 0) {
        shape[0] = rows;
        shape[1] = cols;
        return 2;
    }
    shape[0] = count;
    shape[1] = rows;
    shape[2] = cols;
    return 3;
}

static enum status
check_quantised(const struct check *check, const char *module,
                const struct matrix_module *m, const struct quantisation *how)
{
    bool affine = how->mode == QUANTISED_AFFINE;
    uint64_t shape[3];
    char name[TENSOR_NAME_BYTES];
    enum status status = STATUS_OK;
    size_t rank;

    if (m->cols % how->group != 0) {
        error_set(
            check->err, STATUS_INVALID,
            "config.json: quantization: %s: %" PRIu64
            " inputs are no whole number of groups of %u: choose another model",
            module, m->cols, how->group);
        return error_tag(check->err, "tensor_shape", module);
    }
    rank = shape_make(m->count, m->rows, m->cols * how->bits / 32, shape);
    snprintf(name, sizeof(name), "%s.weight", module);
    status = check_tensor(check, name, 1U << DTYPE_U32, shape, rank);
    rank = shape_make(m->count, m->rows, m->cols / how->group, shape);
    snprintf(name, sizeof(name), "%s.scales", module);
    if (status == STATUS_OK)
        status = check_tensor(
            check, name, affine ? float_dtypes : 1U << DTYPE_U8, shape, rank);
    snprintf(name, sizeof(name), "%s.biases", module);
    if (status == STATUS_OK && affine)
        status = check_tensor(check, name, float_dtypes, shape, rank);
    return status;
}

/* A matrix is quantised when it has scales, as MLX decides it: a quantised
 * model may keep some of its layers as they were. */
static enum status
check_matrix(const struct check *check, const char *module,
             const struct matrix_module *m)
{
    char name[TENSOR_NAME_BYTES];
    struct quantisation how;
    uint64_t shape[3];
    size_t rank = shape_make(m->count, m->rows, m->cols, shape);
    enum status status =
        model_config_quantisation(check->config, module, &how, check->err);

    if (status != STATUS_OK)
        return status;
    snprintf(name, sizeof(name), "%s.scales", module);
    if (how.mode != QUANTISED_NOT &&
        model_directory_find(check->dir, name, NULL) != NULL)
        return check_quantised(check, module, m, &how);
    snprintf(name, sizeof(name), "%s.weight", module);
    return check_tensor(check, name, float_dtypes, shape, rank);
}

/* Left out, a bias would change every answer without a word. */
static enum status
check_no_bias(const struct check *check, const char *name)
{
    if (model_directory_find(check->dir, name, NULL) == NULL)
        return STATUS_OK;
    error_set(check->err, STATUS_INVALID,
              "tensor %s is there and config.json tells of none: config.json "
              "and weights are not of one model, download it again",
              name);
    return error_tag(check->err, "tensor_unexpected", name);
}

static enum status
check_linear(const struct check *check, const char *module,
             const struct matrix_module *m)
{
    char name[TENSOR_NAME_BYTES];
    uint64_t shape[] = {m->count, m->rows};
    enum status status = check_matrix(check, module, m);

    snprintf(name, sizeof(name), "%s.bias", module);
    if (status != STATUS_OK)
        return status;
    if (!m->bias)
        return check_no_bias(check, name);
    if (m->count == 0)
        return check_vector(check, name, m->rows);
    return check_tensor(check, name, float_dtypes, shape, 2);
}

/* A kernel over positions is stored either way round. */
static enum status
check_layer_vector(const struct check *check, const char *name,
                   const struct vector_module *v)
{
    const struct tensor_info *found =
        model_directory_find(check->dir, name, NULL);
    uint64_t shape[3];

    if (v->kernel == 0)
        return check_vector(check, name, v->size);
    shape[0] = v->size / v->kernel;
    shape[1] = v->kernel;
    shape[2] = 1;
    if (found != NULL && found->rank == 3 && found->shape[1] == 1) {
        shape[1] = 1;
        shape[2] = v->kernel;
    }
    return check_tensor(check, name, float_dtypes, shape, 3);
}

static enum status
check_apart(const struct check *check, uint32_t layer,
            const struct matrix_module *m)
{
    struct matrix_module one = *m;
    enum status status = STATUS_OK;
    char name[MODULE_NAME_BYTES];

    one.count = 0;
    for (uint64_t e = 0; e < m->count && status == STATUS_OK; e++) {
        model_expert_name(&check->dir->config, layer, e, m->name, name);
        status = check_linear(check, name, &one);
    }
    return status;
}

static enum status
check_layer(const struct check *check, uint32_t layer)
{
    enum status status = STATUS_OK;
    char name[MODULE_NAME_BYTES];
    struct modules modules;

    model_modules(&check->dir->config, layer, &modules);
    for (size_t i = 0; i < modules.matrix_count && status == STATUS_OK; i++) {
        const struct matrix_module *m = &modules.matrices[i];

        if (m->apart) {
            status = check_apart(check, layer, m);
            continue;
        }
        model_layer_name(&check->dir->config, layer, m->name, name);
        status = check_linear(check, name, m);
    }
    for (size_t i = 0; i < modules.vector_count && status == STATUS_OK; i++) {
        model_layer_name(&check->dir->config, layer, modules.vectors[i].name,
                         name);
        status = check_layer_vector(check, name, &modules.vectors[i]);
    }
    return status;
}

static enum status
check_outer(const struct check *check, const char *module)
{
    const struct model_config *c = &check->dir->config;
    const struct matrix_module m = {.rows = c->vocab, .cols = c->hidden};

    return check_matrix(check, module, &m);
}

/* A smaller number than the weights have would answer, and wrongly. */
static enum status
check_no_more_layers(const struct model_directory *dir, struct error *err)
{
    char name[MODULE_NAME_BYTES];

    model_layer_name(&dir->config, dir->config.layers, "input_layernorm.weight",
                     name);
    if (model_directory_find(dir, name, NULL) == NULL)
        return STATUS_OK;
    error_set(err, STATUS_INVALID,
              "config.json: num_hidden_layers is %u and the weights have more: "
              "download the model again",
              dir->config.layers);
    return error_tag(err, "config_invalid", "num_hidden_layers");
}

static enum status
check_tensors(const struct model_directory *dir, const struct json *config,
              struct error *err)
{
    const struct check check = {.dir = dir, .config = config, .err = err};
    const struct model_config *c = &dir->config;
    char name[MODULE_NAME_BYTES];
    enum status status;

    snprintf(name, sizeof(name), "%sembed_tokens", c->prefix);
    status = check_outer(&check, name);

    for (uint32_t i = 0; i < c->layers && status == STATUS_OK; i++)
        status = check_layer(&check, i);
    snprintf(name, sizeof(name), "%snorm.weight", c->prefix);
    if (status == STATUS_OK)
        status = check_vector(&check, name, c->hidden);
    if (status == STATUS_OK && !c->tied_head)
        status = check_outer(&check, c->head);
    if (status == STATUS_OK)
        status = check_no_more_layers(dir, err);
    return status;
}

/* A module whose entry in "quantization" says false may have no scales, one
 * that says more must have them. */
static enum status
check_overrides(const struct model_directory *dir, const struct json *config,
                struct error *err)
{
    const struct json *value = json_get(config, "quantization");
    const struct json_member *it = json_member_first(value);
    char name[TENSOR_NAME_BYTES];

    for (; it != NULL; it = json_member_next(value, it)) {
        const struct json *own = json_member_value(it);

        if (json_kind(own) != JSON_KIND_BOOL || json_as_bool(own))
            continue;
        snprintf(name, sizeof(name), "%.200s.scales", json_member_name(it));
        if (model_directory_find(dir, name, NULL) != NULL) {
            error_set(err, STATUS_INVALID,
                      "config.json: quantization: %.200s is said not to be "
                      "quantised but has scales: download the model again",
                      json_member_name(it));
            return error_tag(err, "quantisation_unknown", "quantization");
        }
    }
    return STATUS_OK;
}

enum status
directory_check_tensors(const struct model_directory *dir,
                        const struct json *config, struct error *err)
{
    enum status status = check_overrides(dir, config, err);

    return status == STATUS_OK ? check_tensors(dir, config, err) : status;
}
