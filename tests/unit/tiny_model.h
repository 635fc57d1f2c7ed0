/* tiny_model.h - model directories written from tests/data/architectures: the
 * shapes are kept there, the numbers follow from the tensors' names by the
 * arithmetic of tests/reference/numbers.mjs. */
#ifndef BERTH_TESTS_UNIT_TINY_MODEL_H
#define BERTH_TESTS_UNIT_TINY_MODEL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/json.h"

enum {
    TINY_FILE_MAX_BYTES = 4 * 1024 * 1024,
    TINY_NAME_MAX = 128,
    TINY_FILES_MAX = 4,
};

struct tiny_spec {
    const char *dtype;
    size_t count, size; /* elements, bytes of one */
    double center, step;
    int64_t levels;
};

static inline uint32_t
tiny_name_hash(const char *name)
{
    uint32_t hash = 0x811c9dc5;

    for (; *name != '\0'; name++)
        hash = (hash ^ (uint8_t)*name) * 0x01000193;
    return hash;
}

static inline uint32_t
tiny_word(uint32_t hash, size_t index)
{
    uint32_t x = hash + (uint32_t)index * 0x9e3779b9;

    x = (x ^ x >> 16) * 0x85ebca6b;
    x = (x ^ x >> 13) * 0xc2b2ae35;
    return x ^ x >> 16;
}

static inline double
tiny_number(const struct json *object, const char *name)
{
    double number = 0;

    assert_int_equal(json_as_double(json_get(object, name), &number),
                     STATUS_OK);
    return number;
}

static inline struct tiny_spec
tiny_spec_read(const struct json *value)
{
    const struct json *shape = json_get(value, "shape");
    struct tiny_spec spec = {
        .dtype = json_as_text(json_get(value, "dtype"), NULL), .count = 1};

    for (size_t i = 0; i < json_count(shape); i++) {
        int64_t size = 0;

        assert_int_equal(json_as_i64(json_at(shape, i), &size), STATUS_OK);
        spec.count *= (size_t)size;
    }
    if (strcmp(spec.dtype, "U8") == 0)
        spec.size = 1;
    else if (strcmp(spec.dtype, "BF16") == 0 || strcmp(spec.dtype, "F16") == 0)
        spec.size = 2;
    else
        spec.size = 4;
    if (strcmp(spec.dtype, "U32") == 0)
        return spec;
    spec.center = tiny_number(value, "center");
    spec.step = tiny_number(value, "step");
    spec.levels = (int64_t)tiny_number(value, "levels");
    return spec;
}

/* Exact: the values have few bits and no extreme exponents. */
static inline uint16_t
tiny_half(float value)
{
    uint32_t bits;
    uint32_t exponent;

    memcpy(&bits, &value, sizeof(bits));
    exponent = bits >> 23 & 0xff;
    assert_int_equal(bits & 0x1fff, 0);
    if (exponent < 113) { /* below 2^-14: subnormal in float16 */
        uint32_t fraction = (bits & 0x7fffff) | 0x800000;

        if (value == 0)
            return 0;
        assert_true(exponent >= 103);
        assert_int_equal(fraction & ((1u << (126 - exponent)) - 1), 0);
        return (uint16_t)(bits >> 31 << 15 | fraction >> (126 - exponent));
    }
    assert_true(exponent <= 142);
    return (uint16_t)(bits >> 31 << 15 | (exponent - 112) << 10 |
                      (bits >> 13 & 0x3ff));
}

static inline void
tiny_value_append(struct buf *buf, const struct tiny_spec *spec, uint32_t word)
{
    int64_t k = (int64_t)(word % (uint32_t)(2 * spec->levels + 1));
    float value =
        (float)(spec->center + (double)(k - spec->levels) * spec->step);
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    if (strcmp(spec->dtype, "U32") == 0) {
        buf_append(buf, &word, sizeof(word));
    } else if (strcmp(spec->dtype, "U8") == 0) {
        buf_append_char(buf, (char)(uint8_t)value);
    } else if (strcmp(spec->dtype, "F16") == 0) {
        uint16_t half = tiny_half(value);

        buf_append(buf, &half, sizeof(half));
    } else if (strcmp(spec->dtype, "BF16") == 0) {
        uint16_t half = (uint16_t)(bits >> 16);

        assert_int_equal(bits & 0xffff, 0);
        buf_append(buf, &half, sizeof(half));
    } else {
        buf_append(buf, &bits, sizeof(bits));
    }
}

/* The number of the file that a tensor is in, from 1. */
static inline size_t
tiny_file_of(const struct json *spec)
{
    const struct json *file = json_get(spec, "file");

    return json_is_null(file) ? 1 : (size_t)tiny_number(spec, "file");
}

static inline void
tiny_header_append(struct json_out *out, const char *name,
                   const struct json *value, size_t from, size_t to)
{
    const struct json *shape = json_get(value, "shape");

    json_key(out, name);
    json_open_object(out);
    json_member_text(out, "dtype",
                     json_as_text(json_get(value, "dtype"), NULL));
    json_key(out, "shape");
    json_open_list(out);
    for (size_t i = 0; i < json_count(shape); i++) {
        int64_t size = 0;

        assert_int_equal(json_as_i64(json_at(shape, i), &size), STATUS_OK);
        json_put_i64(out, size);
    }
    json_close_list(out);
    json_key(out, "data_offsets");
    json_open_list(out);
    json_put_u64(out, from);
    json_put_u64(out, to);
    json_close_list(out);
    json_close_object(out);
}

/* Without the waits for the disk of file_write_whole. */
static inline void
tiny_write(const char *folder, const char *name, const struct buf *buf)
{
    char path[2 * TINY_NAME_MAX];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(buf_status(buf, NULL), STATUS_OK);
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(buf->data, 1, buf->size, file), buf->size);
    assert_int_equal(fclose(file), 0);
}

static inline void
tiny_file_name(char name[static TINY_NAME_MAX], size_t file, size_t files)
{
    if (files == 1)
        snprintf(name, TINY_NAME_MAX, "model.safetensors");
    else
        snprintf(name, TINY_NAME_MAX, "model-%05zu-of-%05zu.safetensors", file,
                 files);
}

/* The tensors that belong in file @file of @files. */
static inline void
tiny_weights_write(const char *folder, const struct json *tensors, size_t file,
                   size_t files)
{
    const struct json_member *it;
    struct buf header, data, whole;
    struct json_out out;
    char name[TINY_NAME_MAX];
    uint64_t size;

    buf_init(&header, TINY_FILE_MAX_BYTES);
    buf_init(&data, TINY_FILE_MAX_BYTES);
    buf_init(&whole, TINY_FILE_MAX_BYTES);
    json_out_init(&out, &header);
    json_open_object(&out);
    for (it = json_member_first(tensors); it != NULL;
         it = json_member_next(tensors, it)) {
        const struct json *value = json_member_value(it);
        struct tiny_spec spec = tiny_spec_read(value);
        uint32_t hash = tiny_name_hash(json_member_name(it));
        size_t from = data.size;

        if (tiny_file_of(value) != file)
            continue;
        for (size_t i = 0; i < spec.count; i++)
            tiny_value_append(&data, &spec, tiny_word(hash, i));
        tiny_header_append(&out, json_member_name(it), value, from, data.size);
    }
    json_close_object(&out);
    size = header.size;
    buf_append(&whole, &size, sizeof(size));
    buf_append(&whole, header.data, header.size);
    buf_append(&whole, data.data, data.size);
    assert_int_equal(buf_status(&data, NULL), STATUS_OK);
    tiny_file_name(name, file, files);
    tiny_write(folder, name, &whole);
    buf_clear(&whole);
    buf_clear(&data);
    buf_clear(&header);
}

static inline void
tiny_index_write(const char *folder, const struct json *tensors, size_t files)
{
    const struct json_member *it;
    struct json_out out;
    struct buf buf;

    buf_init(&buf, TINY_FILE_MAX_BYTES);
    json_out_init(&out, &buf);
    json_open_object(&out);
    json_key(&out, "weight_map");
    json_open_object(&out);
    for (it = json_member_first(tensors); it != NULL;
         it = json_member_next(tensors, it)) {
        char name[TINY_NAME_MAX];

        tiny_file_name(name, tiny_file_of(json_member_value(it)), files);
        json_member_text(&out, json_member_name(it), name);
    }
    json_close_object(&out);
    json_close_object(&out);
    tiny_write(folder, "model.safetensors.index.json", &buf);
    buf_clear(&buf);
}

static inline size_t
tiny_file_count(const struct json *tensors)
{
    const struct json_member *it;
    size_t files = 1;

    for (it = json_member_first(tensors); it != NULL;
         it = json_member_next(tensors, it)) {
        size_t file = tiny_file_of(json_member_value(it));

        files = file > files ? file : files;
    }
    assert_true(files <= TINY_FILES_MAX);
    return files;
}

/* GPT-2's name for a byte: itself where it prints, else from 256 up. */
static inline void
tiny_byte_append(struct buf *buf, unsigned byte)
{
    bool prints =
        (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
    unsigned code = byte;

    if (!prints && byte <= 0x20)
        code = 0x100 + byte;
    else if (!prints)
        code = byte == 0xad ? 0x143 : 0x121 + byte - 0x7f;
    if (code == '"' || code == '\\')
        buf_append_char(buf, '\\');
    if (code < 0x80) {
        buf_append_char(buf, (char)code);
    } else {
        buf_append_char(buf, (char)(0xc0 | code >> 6));
        buf_append_char(buf, (char)(0x80 | (code & 0x3f)));
    }
}

/* A byte-level tokenizer of one token for each byte. */
static inline void
tiny_tokenizer_write(const char *folder)
{
    struct buf buf;

    buf_init(&buf, TINY_FILE_MAX_BYTES);
    buf_append_text(&buf, "{\"model\":{\"type\":\"BPE\",\"merges\":[],"
                          "\"vocab\":{");
    for (unsigned byte = 0; byte < 256; byte++) {
        buf_append_text(&buf, byte == 0 ? "\"" : ",\"");
        tiny_byte_append(&buf, byte);
        buf_printf(&buf, "\":%u", byte);
    }
    buf_append_text(&buf, "}},\"pre_tokenizer\":{\"type\":\"ByteLevel\","
                          "\"add_prefix_space\":false,\"use_regex\":true},"
                          "\"decoder\":{\"type\":\"ByteLevel\"}}");
    tiny_write(folder, "tokenizer.json", &buf);
    buf_clear(&buf);
}

/* Write the model that @doc describes into a new folder; @folder ends in
 * XXXXXX as for mkdtemp. */
static inline void
tiny_model_write(const struct json_doc *doc, char *folder)
{
    const struct json *config = json_get(doc->root, "config");
    const struct json *tensors = json_get(doc->root, "tensors");
    size_t files = tiny_file_count(tensors);
    struct buf buf;

    assert_non_null(mkdtemp(folder));
    buf_init(&buf, TINY_FILE_MAX_BYTES);
    json_dump(config, &buf);
    tiny_write(folder, "config.json", &buf);
    buf_clear(&buf);
    tiny_tokenizer_write(folder);
    for (size_t file = 1; file <= files; file++)
        tiny_weights_write(folder, tensors, file, files);
    if (files > 1)
        tiny_index_write(folder, tensors, files);
}

static inline void
tiny_model_remove(const struct json_doc *doc, const char *folder)
{
    size_t files = tiny_file_count(json_get(doc->root, "tensors"));
    char names[TINY_FILES_MAX + 3][TINY_NAME_MAX] = {
        "config.json", "tokenizer.json", "model.safetensors.index.json"};
    char path[2 * TINY_NAME_MAX];

    for (size_t file = 1; file <= files; file++)
        tiny_file_name(names[2 + file], file, files);
    for (size_t i = 0; i < 3 + files; i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        if (i != 2 || files > 1)
            assert_int_equal(remove(path), 0);
    }
    assert_int_equal(remove(folder), 0);
}

/* tests/data/architectures/@name.json; clear it with json_doc_clear. */
static inline struct json_doc
tiny_model_read(const char *name)
{
    struct json_doc doc = {0};
    char path[TINY_NAME_MAX];
    struct error err;
    struct buf buf;

    snprintf(path, sizeof(path), "tests/data/architectures/%s.json", name);
    buf_init(&buf, TINY_FILE_MAX_BYTES);
    if (buf_read_file(&buf, path, &err) != STATUS_OK ||
        json_doc_parse(buf.data, buf.size, &doc, &err) != STATUS_OK)
        fail_msg("%s: %s", path, err.text);
    buf_clear(&buf);
    return doc;
}

#endif
