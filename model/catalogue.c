/* catalogue.c - what the network knows of a model, from its own headers. */
#include "model/catalogue.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "model/file.h"
#include "model/modules.h"

#include "common/banned.h"

enum {
    FILES_MAX = MODEL_SHARDS_MAX + 16,
    FILE_NAME_BYTES = 256,
    READ_BYTES = 256 * 1024,
    LINE_BYTES = SHA256_HEX_BYTES + FILE_NAME_BYTES + 4,
    KV_ELEMENT_BYTES = 2, /* fp16, the size that prices are made with */
};

#define SUFFIX ".safetensors"

const struct field catalogue_fields[] = {
    FIELD(struct catalogue_entry, id, FIELD_TEXT, .required = true, .min = 1),
    FIELD(struct catalogue_entry, digest, FIELD_TEXT, .required = true,
          .min = SHA256_HEX_BYTES - 1),
    FIELD(struct catalogue_entry, architecture, FIELD_TEXT, .required = true,
          .min = 1),
    FIELD(struct catalogue_entry, quantisation, FIELD_TEXT, .required = true,
          .min = 1),
    FIELD(struct catalogue_entry, layers, FIELD_U64, .required = true,
          .min = 1),
    FIELD(struct catalogue_entry, hidden, FIELD_U64, .required = true,
          .min = 1),
    FIELD(struct catalogue_entry, heads, FIELD_U64, .required = true, .min = 1),
    FIELD(struct catalogue_entry, kv_heads, FIELD_U64, .required = true,
          .min = 1),
    FIELD(struct catalogue_entry, head_dim, FIELD_U64, .required = true,
          .min = 1),
    FIELD(struct catalogue_entry, vocab, FIELD_U64, .required = true, .min = 1),
    FIELD(struct catalogue_entry, context, FIELD_U64, .required = true,
          .min = 1),
    FIELD(struct catalogue_entry, parameters, FIELD_U64, .required = true,
          .min = 1),
    FIELD(struct catalogue_entry, weight_bytes, FIELD_U64, .required = true,
          .min = 1),
    FIELD(struct catalogue_entry, bytes_per_token, FIELD_U64, .required = true,
          .min = 1),
    FIELD(struct catalogue_entry, kv_bytes_per_token, FIELD_U64,
          .required = true, .min = 1),
    FIELD(struct catalogue_entry, flop_per_token, FIELD_U64, .required = true,
          .min = 1),
    FIELD(struct catalogue_entry, attention_flop, FIELD_U64, .required = true,
          .min = 1),
};

const size_t catalogue_field_count = COUNT_OF(catalogue_fields);

/* --- numbers --------------------------------------------------------------*/

/* Elements of a layer: all that are stored, and those of matrices that one
 * position is multiplied with. */
struct elements {
    uint64_t stored, multiplied;
};

/* How many of a tensor's matrices one position needs. */
static uint64_t
multiplied_with(const struct model_config *c, const struct matrix_module *m)
{
    if (m->count == 0)
        return 1;
    return m->count == c->experts.count ? c->experts.used : m->count;
}

static void
count_layer(const struct model_config *c, uint32_t layer,
            struct elements *elements)
{
    struct modules modules;

    model_modules(c, layer, &modules);
    for (size_t i = 0; i < modules.matrix_count; i++) {
        const struct matrix_module *m = &modules.matrices[i];
        uint64_t one = m->rows * m->cols;

        elements->stored +=
            (m->count == 0 ? 1 : m->count) * (one + (m->bias ? m->rows : 0));
        elements->multiplied += multiplied_with(c, m) * one;
    }
    for (size_t i = 0; i < modules.vector_count; i++)
        elements->stored += modules.vectors[i].size;
}

/* Is all of the tensor read for every decoded token?  Of an embedding that is
 * not the output head one row is, which we do not count; a stored head beside
 * a tied embedding and computed tables are not used at all. */
static bool
is_read(const struct model_config *config, const char *name)
{
    if (config->tied_head ? strstr(name, "lm_head.") != NULL
                          : strstr(name, ".embed_tokens.") != NULL)
        return false;
    return strstr(name, "rotary_emb.") == NULL;
}

/* Of all experts together, of which a token needs some. */
static bool
is_of_experts(const struct model_config *config, const char *name)
{
    return config->experts.router != ROUTER_NONE &&
           (strstr(name, ".mlp.switch_mlp.") != NULL ||
            strstr(name, ".mlp.experts.") != NULL);
}

static uint64_t
bytes_per_token(const struct model_directory *dir)
{
    const struct model_experts *experts = &dir->config.experts;
    uint64_t bytes = 0;

    for (size_t i = 0; i < dir->shard_count; i++) {
        const struct safetensors *file = &dir->shards[i].file;

        for (size_t t = 0; t < file->tensor_count; t++) {
            const struct tensor_info *tensor = &file->tensors[t];

            if (is_read(&dir->config, tensor->name))
                bytes += is_of_experts(&dir->config, tensor->name)
                             ? tensor->bytes / experts->count * experts->used
                             : tensor->bytes;
        }
    }
    return bytes;
}

/* "affine-4bit-g64", as most of it is, or the dtype of the matrices in lower
 * case. */
static void
name_quantisation(const struct model_directory *dir, char *text, size_t size)
{
    char matrix[MODULE_NAME_BYTES];
    const struct tensor_info *tensor;
    const char *name;

    model_layer_name(&dir->config, 0, "input_layernorm.weight", matrix);
    tensor = model_directory_find(dir, matrix, NULL);
    name = tensor == NULL ? "" : dtype_name(tensor->dtype);

    if (dir->config.quantisation.mode != QUANTISED_NOT) {
        snprintf(text, size, "%s-%ubit-g%u",
                 dir->config.quantisation.mode == QUANTISED_MXFP4 ? "mxfp4"
                                                                  : "affine",
                 dir->config.quantisation.bits, dir->config.quantisation.group);
        return;
    }
    for (size_t i = 0; i < size; i++) {
        text[i] =
            name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] + 32) : name[i];
        if (name[i] == '\0')
            break;
    }
}

/* Multiplications of queries with one position's keys and values; what a state
 * takes does not grow with them. */
static uint64_t
attention_flop(const struct model_config *c)
{
    uint64_t each = 2 * (uint64_t)c->head_dim;
    uint64_t layers = 0;

    if (c->latent.kv_rank != 0)
        each = 2 * (uint64_t)c->latent.kv_rank + c->latent.rope;
    for (uint32_t i = 0; i < c->layers; i++)
        layers += c->layer_kinds[i] == LAYER_DELTA ? 0 : 1;
    return c->heads * each * layers;
}

static void
fill_numbers(const struct model_directory *dir, struct catalogue_entry *entry)
{
    const struct model_config *c = &dir->config;
    uint64_t embedding = (uint64_t)c->vocab * c->hidden;
    struct elements elements = {0, 0};

    for (uint32_t i = 0; i < c->layers; i++)
        count_layer(c, i, &elements);
    entry->layers = c->layers;
    entry->hidden = c->hidden;
    entry->heads = c->heads;
    entry->kv_heads = c->kv_heads;
    entry->head_dim = c->head_dim;
    entry->vocab = c->vocab;
    entry->context = c->context;
    entry->parameters =
        elements.stored + c->hidden + embedding * (c->tied_head ? 1 : 2);
    entry->weight_bytes = dir->weight_bytes;
    entry->bytes_per_token = bytes_per_token(dir);
    entry->kv_bytes_per_token = model_config_kv_elements(c) * KV_ELEMENT_BYTES;
    entry->flop_per_token = 2 * (elements.multiplied + embedding);
    entry->attention_flop = attention_flop(c);
}

enum status
catalogue_entry_compute(const struct model_directory *dir, const char *id,
                        struct catalogue_entry *entry, struct error *err)
{
    struct catalogue_entry computed = {.layers = 0};
    enum status status = STATUS_OK;

    if (!catalogue_id_is_valid(id))
        return error_set(err, STATUS_INVALID,
                         "model id: 1 to %d letters, digits and . _ - / :",
                         CATALOGUE_ID_BYTES - 1);
    status = catalogue_digest(dir->path, computed.digest, err);
    if (status != STATUS_OK)
        return status;
    snprintf(computed.id, sizeof(computed.id), "%s", id);
    snprintf(computed.architecture, sizeof(computed.architecture), "%s",
             dir->config.model_type);
    name_quantisation(dir, computed.quantisation,
                      sizeof(computed.quantisation));
    fill_numbers(dir, &computed);
    *entry = computed;
    return STATUS_OK;
}

/* --- digest ---------------------------------------------------------------*/

static bool
is_digested(const char *name)
{
    static const char *const named[] = {
        "config.json", "generation_config.json", "tokenizer.json",
        "tokenizer_config.json", "chat_template.jinja"};
    size_t size = strlen(name);
    size_t tail = strlen(SUFFIX);

    for (size_t i = 0; i < COUNT_OF(named); i++) {
        if (strcmp(name, named[i]) == 0)
            return true;
    }
    return name[0] != '.' && size > tail && size < FILE_NAME_BYTES &&
           strcmp(name + size - tail, SUFFIX) == 0;
}

static int
compare_names(const void *a, const void *b)
{
    const char *const *left = a;
    const char *const *right = b;

    return strcmp(*left, *right);
}

static enum status
list_files(const char *path, char **names, size_t *count, struct error *err)
{
    enum status status = STATUS_OK;
    const struct dirent *entry = NULL;
    char text[128];
    DIR *folder = opendir(path);

    if (folder == NULL)
        return error_set(err, STATUS_NOT_FOUND, "%s: %s", path,
                         error_errno(errno, text, sizeof(text)));
    while (status == STATUS_OK && (entry = readdir(folder)) != NULL) {
        if (!is_digested(entry->d_name))
            continue;
        if (*count == FILES_MAX)
            status =
                error_set(err, STATUS_TOO_LARGE,
                          "%s: more than %d files: choose a model in fewer",
                          path, FILES_MAX);
        else
            names[(*count)++] = mem_text(entry->d_name);
    }
    closedir(folder);
    qsort(names, *count, sizeof(names[0]), compare_names);
    return status;
}

static enum status
digest_file(const char *path, char hex[static SHA256_HEX_BYTES],
            struct error *err)
{
    struct sha256_stream *stream = sha256_open();
    uint8_t *bytes = mem_alloc(READ_BYTES);
    uint8_t digest[SHA256_BYTES];
    enum status status = model_file_check(path, err);
    char text[128];
    size_t size = 0;
    FILE *file = status == STATUS_OK ? fopen(path, "rb") : NULL;

    while (file != NULL && (size = fread(bytes, 1, READ_BYTES, file)) > 0)
        sha256_add(stream, bytes, size);
    if (status == STATUS_OK && (file == NULL || ferror(file)))
        status = error_set(err, STATUS_INTERNAL, "%s: %s", path,
                           error_errno(errno, text, sizeof(text)));
    sha256_finish(stream, digest);
    cert_hex(digest, sizeof(digest), hex);
    free(bytes);
    if (file != NULL)
        fclose(file);
    return status;
}

/* The line that sha256sum prints for one file. */
static enum status
add_line(const char *path, const char *name, struct buf *lines,
         struct error *err)
{
    char hex[SHA256_HEX_BYTES];
    char *whole = model_file_path(path, name);
    enum status status = digest_file(whole, hex, err);

    if (status == STATUS_OK)
        buf_printf(lines, "%s  %s\n", hex, name);
    free(whole);
    return status;
}

enum status
catalogue_digest(const char *path, char digest[static SHA256_HEX_BYTES],
                 struct error *err)
{
    char **names = mem_array(FILES_MAX, sizeof(names[0]));
    size_t count = 0;
    uint8_t bytes[SHA256_BYTES];
    struct buf lines;
    enum status status = list_files(path, names, &count, err);

    buf_init(&lines, (size_t)FILES_MAX * LINE_BYTES);
    for (size_t i = 0; i < count && status == STATUS_OK; i++)
        status = add_line(path, names[i], &lines, err);
    if (status == STATUS_OK)
        status = buf_status(&lines, err);
    if (status == STATUS_OK) {
        cert_sha256(lines.data, lines.size, bytes);
        cert_hex(bytes, sizeof(bytes), digest);
    }
    for (size_t i = 0; i < count; i++)
        free(names[i]);
    free(names);
    buf_clear(&lines);
    return status;
}

static bool
is_id_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_' || c == '-' || c == ':' ||
           c == '.';
}

/* Parts between slashes are names: neither empty nor "." nor "..", since ids
 * are also used in paths. */
bool
catalogue_id_is_valid(const char *id)
{
    size_t size = strlen(id);
    size_t part = 0;
    bool only_dots = true;

    if (size == 0 || size >= CATALOGUE_ID_BYTES)
        return false;
    for (size_t i = 0; i <= size; i++) {
        if (i == size || id[i] == '/') {
            if (part == 0 || only_dots)
                return false;
            part = 0;
            only_dots = true;
            continue;
        }
        if (!is_id_byte(id[i]))
            return false;
        only_dots = only_dots && id[i] == '.';
        part++;
    }
    return true;
}
