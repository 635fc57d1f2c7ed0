/* safetensors.c - the header of one .safetensors file.
 *
 * Files come from strangers: sizes meet their maxima before anything is
 * allocated, and products are computed so that they cannot wrap. */
#include "model/safetensors.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "common/json.h"
#include "common/mem.h"
#include "model/file.h"

#include "common/banned.h"

enum { SIZE_FIELD_BYTES = 8, NAME_MAX_BYTES = 1024 };

static const struct {
    const char *name;
    size_t bytes;
} dtypes[DTYPE_COUNT] = {
    [DTYPE_F32] = {"F32", 4},         [DTYPE_F16] = {"F16", 2},
    [DTYPE_BF16] = {"BF16", 2},       [DTYPE_U32] = {"U32", 4},
    [DTYPE_I32] = {"I32", 4},         [DTYPE_U8] = {"U8", 1},
    [DTYPE_I8] = {"I8", 1},           [DTYPE_I64] = {"I64", 8},
    [DTYPE_F8_E4M3] = {"F8_E4M3", 1}, [DTYPE_F64] = {"F64", 8},
    [DTYPE_U16] = {"U16", 2},         [DTYPE_I16] = {"I16", 2},
    [DTYPE_BOOL] = {"BOOL", 1},       [DTYPE_U64] = {"U64", 8},
};

/* What the parts of one parse share. */
struct parse {
    const char *path;
    struct error *err;
    uint64_t header_bytes;
    uint64_t data_bytes;
};

size_t
dtype_bytes(enum dtype dtype)
{
    assert(dtype < DTYPE_COUNT);
    return dtypes[dtype].bytes;
}

const char *
dtype_name(enum dtype dtype)
{
    assert(dtype < DTYPE_COUNT);
    return dtypes[dtype].name;
}

static enum status
refuse(const struct parse *parse, const char *name, const char *what)
{
    return error_set(parse->err, STATUS_INVALID,
                     "%s: tensor %.100s: %s: "
                     "download the file again",
                     parse->path, name, what);
}

static enum status
read_dtype(const struct parse *parse, const struct json *value,
           struct tensor_info *tensor)
{
    size_t size = 0;
    const char *text = json_as_text(value, &size);

    for (size_t i = 0; text != NULL && i < DTYPE_COUNT; i++) {
        if (strlen(dtypes[i].name) == size &&
            memcmp(dtypes[i].name, text, size) == 0) {
            tensor->dtype = (enum dtype)i;
            return STATUS_OK;
        }
    }
    return error_set(parse->err, STATUS_INVALID,
                     "%s: tensor %.100s: unknown dtype %.*s: choose a model "
                     "in BF16, F16, F32 or one of MLX's quantised formats",
                     parse->path, tensor->name,
                     text == NULL ? 1 : (int)(size < 32 ? size : 32),
                     text == NULL ? "?" : text);
}

/* A non-negative integer below 2^63. */
static bool
read_size(const struct json *value, uint64_t *number)
{
    int64_t read = 0;

    if (json_kind(value) != JSON_KIND_INTEGER ||
        json_as_i64(value, &read) != STATUS_OK || read < 0)
        return false;
    *number = (uint64_t)read;
    return true;
}

/* Shape into the tensor, and the bytes it takes. */
static enum status
read_shape(const struct parse *parse, const struct json *value,
           struct tensor_info *tensor, uint64_t *bytes)
{
    size_t rank = json_count(value);
    uint64_t product = dtype_bytes(tensor->dtype);

    if (json_kind(value) != JSON_KIND_LIST || rank > SAFETENSORS_RANK_MAX)
        return refuse(parse, tensor->name, "shape is no list of at most 8");
    tensor->rank = (uint32_t)rank;
    for (size_t i = 0; i < rank; i++) {
        uint64_t dim = 0;

        if (!read_size(json_at(value, i), &dim))
            return refuse(parse, tensor->name, "dimension is no size");
        if (dim != 0 && product > UINT64_MAX / dim)
            return refuse(parse, tensor->name, "size overflows");
        tensor->shape[i] = dim;
        product *= dim;
    }
    *bytes = product;
    return STATUS_OK;
}

static enum status
read_tensor(const struct parse *parse, const struct json *value,
            struct tensor_info *tensor)
{
    const struct json *offsets = json_get(value, "data_offsets");
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t bytes = 0;
    enum status status = STATUS_OK;

    if (json_kind(value) != JSON_KIND_OBJECT)
        return refuse(parse, tensor->name, "no object");
    status = read_dtype(parse, json_get(value, "dtype"), tensor);
    if (status == STATUS_OK)
        status = read_shape(parse, json_get(value, "shape"), tensor, &bytes);
    if (status != STATUS_OK)
        return status;
    if (json_count(offsets) != 2 || !read_size(json_at(offsets, 0), &begin) ||
        !read_size(json_at(offsets, 1), &end))
        return refuse(parse, tensor->name, "data_offsets are no two sizes");
    if (begin > end || end > parse->data_bytes)
        return refuse(parse, tensor->name, "data is outside the file");
    if (end - begin != bytes)
        return refuse(parse, tensor->name,
                      "data_offsets disagree with shape and dtype");
    tensor->offset = parse->header_bytes + begin;
    tensor->bytes = bytes;
    return STATUS_OK;
}

static int
compare_names(const void *a, const void *b)
{
    const struct tensor_info *left = a;
    const struct tensor_info *right = b;

    return strcmp(left->name, right->name);
}

static int
compare_offsets(const void *a, const void *b)
{
    const struct tensor_info *left = a;
    const struct tensor_info *right = b;

    if (left->offset != right->offset)
        return left->offset < right->offset ? -1 : 1;
    if (left->bytes != right->bytes)
        return left->bytes < right->bytes ? -1 : 1;
    return 0;
}

/* The tensors must fill the data without overlap and without hole. */
static enum status
check_ranges(const struct parse *parse, struct safetensors *file)
{
    uint64_t expected = parse->header_bytes;

    qsort(file->tensors, file->tensor_count, sizeof(file->tensors[0]),
          compare_offsets);
    for (size_t i = 0; i < file->tensor_count; i++) {
        const struct tensor_info *tensor = &file->tensors[i];

        if (tensor->offset != expected)
            return refuse(parse, tensor->name,
                          tensor->offset < expected
                              ? "data overlaps another tensor"
                              : "there is a hole before its data");
        expected = tensor->offset + tensor->bytes;
    }
    if (expected != file->file_bytes)
        return error_set(
            parse->err, STATUS_INVALID,
            "%s: %llu bytes after the last tensor: download the file "
            "again",
            parse->path, (unsigned long long)(file->file_bytes - expected));
    return STATUS_OK;
}

static enum status
read_tensors(const struct parse *parse, const struct json *root,
             struct safetensors *file)
{
    const struct json_member *it = json_member_first(root);

    file->tensors = mem_array(json_count(root), sizeof(file->tensors[0]));
    for (; it != NULL; it = json_member_next(root, it)) {
        const char *name = json_member_name(it);
        struct tensor_info *tensor = &file->tensors[file->tensor_count];
        enum status status = STATUS_OK;

        if (strcmp(name, "__metadata__") == 0)
            continue;
        if (strlen(name) > NAME_MAX_BYTES)
            return refuse(parse, name, "name is longer than 1024 bytes");
        tensor->name = mem_text(name);
        file->tensor_count++;
        status = read_tensor(parse, json_member_value(it), tensor);
        if (status != STATUS_OK)
            return status;
    }
    return check_ranges(parse, file);
}

/* The size in the first bytes of a file, checked against its length. */
static enum status
read_header_size(const uint8_t *bytes, uint64_t file_bytes, const char *path,
                 uint64_t *header_size, struct error *err)
{
    uint64_t size = 0;

    for (int i = SIZE_FIELD_BYTES - 1; i >= 0; i--)
        size = size << 8 | bytes[i];
    if (size > SAFETENSORS_HEADER_MAX_BYTES)
        return error_set(
            err, STATUS_INVALID,
            "%s: header of %llu bytes, and at most %d are allowed: "
            "download the file again",
            path, (unsigned long long)size, SAFETENSORS_HEADER_MAX_BYTES);
    if (size < 2 || size > file_bytes - SIZE_FIELD_BYTES)
        return error_set(err, STATUS_INVALID,
                         "%s: header of %llu bytes does not fit the file: "
                         "download the file again",
                         path, (unsigned long long)size);
    *header_size = size;
    return STATUS_OK;
}

enum status
safetensors_parse(const void *bytes, size_t size, uint64_t file_bytes,
                  const char *path, struct safetensors *file, struct error *err)
{
    struct parse parse = {.path = path, .err = err};
    struct safetensors read = {.file_bytes = file_bytes};
    struct json_doc doc = {0};
    uint64_t header_size = 0;
    struct error inner = {0};
    enum status status = STATUS_OK;

    if (size < SIZE_FIELD_BYTES || file_bytes < size || file_bytes > INT64_MAX)
        return error_set(err, STATUS_INVALID,
                         "%s: no safetensors file: download the file again",
                         path);
    status = read_header_size(bytes, file_bytes, path, &header_size, err);
    if (status != STATUS_OK)
        return status;
    if (size - SIZE_FIELD_BYTES < header_size)
        return error_set(err, STATUS_INVALID,
                         "%s: header is cut off: download the file again",
                         path);
    read.header_bytes = SIZE_FIELD_BYTES + header_size;
    parse.header_bytes = read.header_bytes;
    parse.data_bytes = file_bytes - read.header_bytes;

    status = json_doc_parse((const char *)bytes + SIZE_FIELD_BYTES,
                            (size_t)header_size, &doc, &inner);
    if (status != STATUS_OK) {
        error_set(err, STATUS_INVALID,
                  "%s: header: %.200s: download the file again", path,
                  inner.text);
        status = STATUS_INVALID;
        goto out;
    }
    if (json_kind(doc.root) != JSON_KIND_OBJECT ||
        json_count(doc.root) > SAFETENSORS_TENSORS_MAX) {
        status =
            error_set(err, STATUS_INVALID,
                      "%s: header is no object of at most %d tensors: download "
                      "the file again",
                      path, SAFETENSORS_TENSORS_MAX);
        goto out;
    }
    status = read_tensors(&parse, doc.root, &read);
    if (status != STATUS_OK)
        goto out;
    qsort(read.tensors, read.tensor_count, sizeof(read.tensors[0]),
          compare_names);
    *file = read;
    read = (struct safetensors){0};

out:
    safetensors_clear(&read);
    json_doc_clear(&doc);
    return status;
}

static enum status
read_failed(const char *path, struct error *err)
{
    char text[128];
    int number = errno;

    return error_set(err, number == ENOENT ? STATUS_NOT_FOUND : STATUS_INVALID,
                     "%s: %s: download the file again", path,
                     number == 0 ? "file is too short"
                                 : error_errno(number, text, sizeof(text)));
}

/* The length of an open file, its position back at the start. */
static bool
measure(FILE *stream, uint64_t *bytes)
{
    off_t end = 0;

    if (fseeko(stream, 0, SEEK_END) != 0)
        return false;
    end = ftello(stream);
    if (end < 0 || fseeko(stream, 0, SEEK_SET) != 0)
        return false;
    *bytes = (uint64_t)end;
    return true;
}

enum status
safetensors_read(const char *path, struct safetensors *file, struct error *err)
{
    enum status status = STATUS_OK;
    uint8_t head[SIZE_FIELD_BYTES];
    uint64_t file_bytes = 0;
    uint64_t header_size = 0;
    size_t size = 0;
    uint8_t *bytes = NULL;
    FILE *stream = NULL;

    status = model_file_check(path, err);
    if (status != STATUS_OK)
        return status;
    errno = 0;
    stream = fopen(path, "rb");
    if (stream == NULL || !measure(stream, &file_bytes) ||
        fread(head, sizeof(head), 1, stream) != 1) {
        status = read_failed(path, err);
        goto out;
    }
    status = read_header_size(head, file_bytes, path, &header_size, err);
    if (status != STATUS_OK)
        goto out;
    size = SIZE_FIELD_BYTES + (size_t)header_size;
    bytes = mem_alloc(size);
    memcpy(bytes, head, sizeof(head));
    if (fread(bytes + sizeof(head), size - sizeof(head), 1, stream) != 1) {
        status = read_failed(path, err);
        goto out;
    }
    status = safetensors_parse(bytes, size, file_bytes, path, file, err);

out:
    free(bytes);
    if (stream != NULL)
        fclose(stream);
    return status;
}

void
safetensors_clear(struct safetensors *file)
{
    for (size_t i = 0; i < file->tensor_count; i++)
        free(file->tensors[i].name);
    free(file->tensors);
    *file = (struct safetensors){0};
}

const struct tensor_info *
safetensors_find(const struct safetensors *file, const char *name)
{
    size_t low = 0;
    size_t high = file->tensor_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, file->tensors[middle].name);

        if (order == 0)
            return &file->tensors[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}
