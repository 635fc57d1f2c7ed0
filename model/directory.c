/* directory.c - a model directory, opened and checked. */
#include "model/directory.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "model/directory_tensors.h"
#include "model/file.h"
#include "model/modules.h"

#include "common/banned.h"

#define INDEX_NAME "model.safetensors.index.json"
#define SHARD_SUFFIX ".safetensors"

enum {
    CONFIG_MAX_BYTES = 1024 * 1024,
    INDEX_MAX_BYTES = 64 * 1024 * 1024,
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

/* --- opening --------------------------------------------------------------*/

/* An optional JSON file: absent leaves the document empty. */
static enum status
read_optional(const char *path, const char *name, size_t max,
              struct json_doc *doc, struct error *err)
{
    enum status status = model_file_json(path, name, max, doc, err);

    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

static bool
has_tensor(const struct model_directory *dir, const char *name)
{
    return model_directory_find(dir, name, NULL) != NULL;
}

/* How this directory names and keeps what its architecture has: as it was
 * published, or as MLX writes it. */
static void
layout_find(struct model_directory *dir)
{
    struct model_config *config = &dir->config;
    char name[MODULE_NAME_BYTES];
    const struct tensor_info *kernel;

    if (has_tensor(dir, "language_model.model.embed_tokens.weight")) {
        config->prefix = "language_model.model.";
        config->head = "language_model.lm_head";
    } else if (has_tensor(dir, "model.language_model.embed_tokens.weight")) {
        config->prefix = "model.language_model.";
    }
    model_layer_name(config, 0, "self_attn.kv_b_proj.weight", name);
    config->latent.joined = has_tensor(dir, name);
    if (config->experts.router != ROUTER_NONE &&
        config->experts.dense_layers < config->layers) {
        model_expert_name(config, config->experts.dense_layers, 0,
                          "gate_proj.weight", name);
        config->experts.apart = has_tensor(dir, name);
    }
    model_layer_name(config, 0, "linear_attn.conv1d.weight", name);
    kernel = model_directory_find(dir, name, NULL);
    config->norms_less_1 = config->delta.kernel != 0 && kernel != NULL &&
                           kernel->rank == 3 && kernel->shape[1] == 1;
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
        layout_find(dir);
    if (status == STATUS_OK)
        status = directory_check_tensors(dir, config, err);
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
