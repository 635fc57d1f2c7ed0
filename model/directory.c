/* directory.c - a model directory, opened and checked. */
#include "model/directory.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "model/file.h"

#include "common/banned.h"

#define INDEX_NAME "model.safetensors.index.json"
#define SHARD_SUFFIX ".safetensors"

enum {
    CONFIG_MAX_BYTES = 1024 * 1024,
    INDEX_MAX_BYTES = 64 * 1024 * 1024,
    TENSOR_NAME_BYTES = 256,
    SHARD_NAME_BYTES = 256,
};

/* --- which files ----------------------------------------------------------*/

struct names {
    char *names[MODEL_SHARDS_MAX];
    size_t count;
};

static void
names_clear(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->names[i]);
    names->count = 0;
}

/* A plain file name that ends in .safetensors: an index may not point outside
 * its directory. */
static bool
is_shard_name(const char *name)
{
    size_t size = strlen(name);
    size_t tail = strlen(SHARD_SUFFIX);

    return size > tail && size < SHARD_NAME_BYTES && name[0] != '.' &&
           strchr(name, '/') == NULL &&
           strcmp(name + size - tail, SHARD_SUFFIX) == 0;
}

static int
compare_texts(const void *a, const void *b)
{
    const char *const *left = a;
    const char *const *right = b;

    return strcmp(*left, *right);
}

/* Add @name unless it is there already (the list is short while it grows in
 * the order of an index). */
static enum status
names_add(struct names *names, const char *name, struct error *err)
{
    for (size_t i = names->count; i-- > 0;) {
        if (strcmp(names->names[i], name) == 0)
            return STATUS_OK;
    }
    if (names->count == MODEL_SHARDS_MAX)
        return error_set(err, STATUS_TOO_LARGE,
                         "more than %d safetensors files: choose a model in "
                         "fewer",
                         MODEL_SHARDS_MAX);
    names->names[names->count++] = mem_text(name);
    return STATUS_OK;
}

static enum status
names_from_index(const struct json *map, struct names *names, struct error *err)
{
    const struct json_member *it = json_member_first(map);
    enum status status = STATUS_OK;

    for (; it != NULL && status == STATUS_OK; it = json_member_next(map, it)) {
        size_t size = 0;
        const char *name = json_as_text(json_member_value(it), &size);

        if (name == NULL || strlen(name) != size || !is_shard_name(name))
            return error_set(err, STATUS_INVALID,
                             INDEX_NAME ": tensor %.100s is in no safetensors "
                                        "file of this directory: download "
                                        "the model again",
                             json_member_name(it));
        status = names_add(names, name, err);
    }
    return status;
}

static enum status
names_from_folder(const char *path, struct names *names, struct error *err)
{
    enum status status = STATUS_OK;
    const struct dirent *entry = NULL;
    char text[128];
    DIR *folder = opendir(path);

    if (folder == NULL)
        return error_set(err, STATUS_NOT_FOUND, "%s: %s", path,
                         error_errno(errno, text, sizeof(text)));
    while (status == STATUS_OK && (entry = readdir(folder)) != NULL) {
        if (is_shard_name(entry->d_name))
            status = names_add(names, entry->d_name, err);
    }
    closedir(folder);
    return status;
}

static enum status
list_shards(const char *path, const struct json *map, struct names *names,
            struct error *err)
{
    enum status status = map != NULL ? names_from_index(map, names, err)
                                     : names_from_folder(path, names, err);

    if (status == STATUS_OK && names->count == 0)
        status = error_set(
            err, STATUS_NOT_FOUND,
            "%s: no *.safetensors file: download the model again", path);
    qsort(names->names, names->count, sizeof(names->names[0]), compare_texts);
    return status;
}

static enum status
read_shards(struct model_directory *dir, const struct names *names,
            struct error *err)
{
    size_t tensors = 0;

    dir->shards = mem_array(names->count, sizeof(dir->shards[0]));
    for (size_t i = 0; i < names->count; i++) {
        struct model_shard *shard = &dir->shards[dir->shard_count];
        enum status status = STATUS_OK;

        shard->path = model_file_path(dir->path, names->names[i]);
        dir->shard_count++;
        status = safetensors_read(shard->path, &shard->file, err);
        if (status != STATUS_OK)
            return status;
        tensors += shard->file.tensor_count;
        if (tensors > SAFETENSORS_TENSORS_MAX)
            return error_set(
                err, STATUS_TOO_LARGE,
                "%s: more than %d tensors in all: choose a model with "
                "fewer",
                dir->path, SAFETENSORS_TENSORS_MAX);
        for (size_t t = 0; t < shard->file.tensor_count; t++)
            dir->weight_bytes += shard->file.tensors[t].bytes;
    }
    return STATUS_OK;
}

/* --- which tensors --------------------------------------------------------*/

static enum status
check_unique(const struct model_directory *dir, struct error *err)
{
    enum status status = STATUS_OK;
    const char **names = NULL;
    size_t count = 0;

    for (size_t i = 0; i < dir->shard_count; i++)
        count += dir->shards[i].file.tensor_count;
    names = mem_array(count, sizeof(names[0]));
    count = 0;
    for (size_t i = 0; i < dir->shard_count; i++) {
        for (size_t t = 0; t < dir->shards[i].file.tensor_count; t++)
            names[count++] = dir->shards[i].file.tensors[t].name;
    }
    qsort(names, count, sizeof(names[0]), compare_texts);
    for (size_t i = 1; i < count && status == STATUS_OK; i++) {
        if (strcmp(names[i - 1], names[i]) == 0)
            status = error_set(err, STATUS_INVALID,
                               "%s: tensor %.100s is there twice: remove the "
                               "*.safetensors files of another model",
                               dir->path, names[i]);
    }
    free(names);
    return status;
}

static const struct model_shard *
find_shard(const struct model_directory *dir, const char *name)
{
    size_t skip = strlen(dir->path) + 1;

    for (size_t i = 0; i < dir->shard_count; i++) {
        if (strcmp(dir->shards[i].path + skip, name) == 0)
            return &dir->shards[i];
    }
    return NULL;
}

/* Every tensor of the index must be in the file it names. */
static enum status
check_index(const struct model_directory *dir, const struct json *map,
            struct error *err)
{
    const struct json_member *it = json_member_first(map);

    for (; it != NULL; it = json_member_next(map, it)) {
        size_t size = 0;
        const char *file = json_as_text(json_member_value(it), &size);
        const struct model_shard *shard = find_shard(dir, file);

        if (shard == NULL ||
            safetensors_find(&shard->file, json_member_name(it)) == NULL)
            return error_set(
                err, STATUS_INVALID,
                INDEX_NAME
                ": tensor %.100s is not in %.100s: download the model "
                "again",
                json_member_name(it), file);
    }
    return STATUS_OK;
}

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
check_vector(const struct check *check, const char *module, const char *part,
             uint64_t size)
{
    char name[TENSOR_NAME_BYTES];

    snprintf(name, sizeof(name), "%s.%s", module, part);
    return check_tensor(check, name, float_dtypes, &size, 1);
}

static enum status
check_quantised(const struct check *check, const char *module, uint64_t out,
                uint64_t in, const struct quantisation *how)
{
    bool affine = how->mode == QUANTISED_AFFINE;
    uint64_t packed[] = {out, in * how->bits / 32};
    uint64_t grouped[] = {out, in / how->group};
    char name[TENSOR_NAME_BYTES];
    enum status status = STATUS_OK;

    if (in % how->group != 0) {
        error_set(check->err, STATUS_INVALID,
                  "%s: %" PRIu64 " inputs are no whole number of groups of %u",
                  module, in, how->group);
        return error_tag(check->err, "tensor_shape", module);
    }
    snprintf(name, sizeof(name), "%s.weight", module);
    status = check_tensor(check, name, 1U << DTYPE_U32, packed, 2);
    snprintf(name, sizeof(name), "%s.scales", module);
    if (status == STATUS_OK)
        status = check_tensor(
            check, name, affine ? float_dtypes : 1U << DTYPE_U8, grouped, 2);
    snprintf(name, sizeof(name), "%s.biases", module);
    if (status == STATUS_OK && affine)
        status = check_tensor(check, name, float_dtypes, grouped, 2);
    return status;
}

/* A matrix is quantised when it has scales, as MLX decides it: a quantised
 * model may keep some of its layers as they were. */
static enum status
check_matrix(const struct check *check, const char *module, uint64_t out,
             uint64_t in)
{
    const uint64_t shape[] = {out, in};
    char name[TENSOR_NAME_BYTES];
    struct quantisation how;
    enum status status =
        model_config_quantisation(check->config, module, &how, check->err);

    if (status != STATUS_OK)
        return status;
    snprintf(name, sizeof(name), "%s.scales", module);
    if (how.mode != QUANTISED_NOT &&
        model_directory_find(check->dir, name, NULL) != NULL)
        return check_quantised(check, module, out, in, &how);
    snprintf(name, sizeof(name), "%s.weight", module);
    return check_tensor(check, name, float_dtypes, shape, 2);
}

/* Left out, a bias would change every answer without a word. */
static enum status
check_no_bias(const struct check *check, const char *module)
{
    char name[TENSOR_NAME_BYTES];

    snprintf(name, sizeof(name), "%s.bias", module);
    if (model_directory_find(check->dir, name, NULL) == NULL)
        return STATUS_OK;
    error_set(check->err, STATUS_INVALID,
              "tensor %s is there and config.json tells of none: config.json "
              "and weights are not of one model, download it again",
              name);
    return error_tag(check->err, "tensor_unexpected", name);
}

static enum status
check_linear(const struct check *check, const char *module, uint64_t out,
             uint64_t in, bool bias)
{
    enum status status = check_matrix(check, module, out, in);

    if (status != STATUS_OK)
        return status;
    return bias ? check_vector(check, module, "bias", out)
                : check_no_bias(check, module);
}

static enum status
check_layer(const struct check *check, uint32_t layer)
{
    const struct model_config *c = &check->dir->config;
    const uint64_t q = (uint64_t)c->heads * c->head_dim;
    const uint64_t kv = (uint64_t)c->kv_heads * c->head_dim;
    const struct {
        const char *module;
        uint64_t out, in;
        bool bias;
    } linears[] = {
        {"self_attn.q_proj", q, c->hidden, c->attention_bias},
        {"self_attn.k_proj", kv, c->hidden, c->attention_bias},
        {"self_attn.v_proj", kv, c->hidden, c->attention_bias},
        {"self_attn.o_proj", c->hidden, q, c->attention_bias},
        {"mlp.gate_proj", c->intermediate, c->hidden, c->mlp_bias},
        {"mlp.up_proj", c->intermediate, c->hidden, c->mlp_bias},
        {"mlp.down_proj", c->hidden, c->intermediate, c->mlp_bias},
    };
    const struct {
        const char *module;
        uint64_t size; /* 0: this architecture has none */
    } norms[] = {
        {"input_layernorm", c->hidden},
        {"post_attention_layernorm", c->hidden},
        {"self_attn.q_norm", c->qk_norm ? c->head_dim : 0},
        {"self_attn.k_norm", c->qk_norm ? c->head_dim : 0},
    };
    enum status status = STATUS_OK;
    char module[TENSOR_NAME_BYTES / 2];

    for (size_t i = 0; i < COUNT_OF(linears) && status == STATUS_OK; i++) {
        snprintf(module, sizeof(module), "model.layers.%u.%s", layer,
                 linears[i].module);
        status = check_linear(check, module, linears[i].out, linears[i].in,
                              linears[i].bias);
    }
    for (size_t i = 0; i < COUNT_OF(norms) && status == STATUS_OK; i++) {
        snprintf(module, sizeof(module), "model.layers.%u.%s", layer,
                 norms[i].module);
        if (norms[i].size != 0)
            status = check_vector(check, module, "weight", norms[i].size);
    }
    return status;
}

/* A smaller number than the weights have would answer, and wrongly. */
static enum status
check_no_more_layers(const struct model_directory *dir, struct error *err)
{
    char name[TENSOR_NAME_BYTES];

    snprintf(name, sizeof(name), "model.layers.%u.input_layernorm.weight",
             dir->config.layers);
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
    enum status status =
        check_matrix(&check, "model.embed_tokens", c->vocab, c->hidden);

    for (uint32_t i = 0; i < c->layers && status == STATUS_OK; i++)
        status = check_layer(&check, i);
    if (status == STATUS_OK)
        status = check_vector(&check, "model.norm", "weight", c->hidden);
    if (status == STATUS_OK && !c->tied_head)
        status = check_matrix(&check, "lm_head", c->vocab, c->hidden);
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

/* --- opening --------------------------------------------------------------*/

/* An optional JSON file: absent leaves the document empty. */
static enum status
read_optional(const char *path, const char *name, size_t max,
              struct json_doc *doc, struct error *err)
{
    enum status status = model_file_json(path, name, max, doc, err);

    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

static enum status
read_files(struct model_directory *dir, const struct json *config,
           const struct json *map, struct error *err)
{
    struct names names = {.count = 0};
    enum status status = list_shards(dir->path, map, &names, err);

    if (status == STATUS_OK)
        status = read_shards(dir, &names, err);
    if (status == STATUS_OK)
        status = check_unique(dir, err);
    if (status == STATUS_OK && map != NULL)
        status = check_index(dir, map, err);
    if (status == STATUS_OK)
        status = check_overrides(dir, config, err);
    if (status == STATUS_OK)
        status = check_tensors(dir, config, err);
    names_clear(&names);
    return status;
}

enum status
model_directory_open(const char *path, struct model_directory *dir,
                     struct error *err)
{
    struct model_directory opened = {.path = mem_text(path)};
    struct json_doc config = {0};
    struct json_doc generation = {0};
    struct json_doc index = {0};
    const struct json *map = NULL;
    enum status status =
        model_file_json(path, "config.json", CONFIG_MAX_BYTES, &config, err);

    if (status == STATUS_OK)
        status = read_optional(path, "generation_config.json", CONFIG_MAX_BYTES,
                               &generation, err);
    if (status == STATUS_OK)
        status = model_config_parse(config.root, generation.root,
                                    &opened.config, err);
    if (status == STATUS_OK)
        status = read_optional(path, INDEX_NAME, INDEX_MAX_BYTES, &index, err);
    if (status != STATUS_OK)
        goto out;
    if (index.root != NULL) {
        map = json_get(index.root, "weight_map");
        if (json_kind(map) != JSON_KIND_OBJECT) {
            status =
                error_set(err, STATUS_INVALID,
                          INDEX_NAME
                          ": weight_map is no object: download the file again");
            goto out;
        }
    }
    status = read_files(&opened, config.root, map, err);
    if (status != STATUS_OK)
        goto out;
    *dir = opened;
    opened = (struct model_directory){0};

out:
    model_directory_close(&opened);
    json_doc_clear(&index);
    json_doc_clear(&generation);
    json_doc_clear(&config);
    return status;
}

void
model_directory_close(struct model_directory *dir)
{
    for (size_t i = 0; i < dir->shard_count; i++) {
        safetensors_clear(&dir->shards[i].file);
        free(dir->shards[i].path);
    }
    free(dir->shards);
    free(dir->path);
    *dir = (struct model_directory){0};
}

const struct tensor_info *
model_directory_find(const struct model_directory *dir, const char *name,
                     size_t *shard)
{
    for (size_t i = 0; i < dir->shard_count; i++) {
        const struct tensor_info *found =
            safetensors_find(&dir->shards[i].file, name);

        if (found == NULL)
            continue;
        if (shard != NULL)
            *shard = i;
        return found;
    }
    return NULL;
}
