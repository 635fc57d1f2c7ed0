/* model_safetensors_test.c - headers of .safetensors files, well formed and
 * not. */
#include "model/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/buf.h"

#include "common/banned.h"

enum { FILE_MAX_BYTES = 4096 };

/* A file with this header and @data_bytes of data, parsed. */
static enum status
parse(const char *header, size_t data_bytes, struct safetensors *file,
      struct error *err)
{
    struct buf bytes;
    enum status status = STATUS_OK;
    size_t size = strlen(header);

    buf_init(&bytes, FILE_MAX_BYTES);
    for (int i = 0; i < 8; i++)
        buf_append_char(&bytes, (char)(i < 2 ? size >> (8 * i) & 0xff : 0));
    buf_append_text(&bytes, header);
    status = safetensors_parse(bytes.data, bytes.size, bytes.size + data_bytes,
                               "file", file, err);
    buf_clear(&bytes);
    return status;
}

static void
tensors_are_found_with_their_numbers(void **state)
{
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[4,28]},"
        "\"a\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]},"
        "\"s\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[28,29]}}";
    struct safetensors file = {0};
    const struct tensor_info *b = NULL;

    (void)state;
    assert_int_equal(parse(header, 29, &file, NULL), STATUS_OK);
    assert_int_equal(file.tensor_count, 3);
    assert_int_equal(file.header_bytes, 8 + strlen(header));
    assert_string_equal(file.tensors[0].name, "a");
    b = safetensors_find(&file, "b");
    assert_non_null(b);
    assert_int_equal(b->dtype, DTYPE_F32);
    assert_int_equal(b->rank, 2);
    assert_int_equal(b->shape[0], 2);
    assert_int_equal(b->shape[1], 3);
    assert_int_equal(b->offset, file.header_bytes + 4);
    assert_int_equal(b->bytes, 24);
    assert_int_equal(safetensors_find(&file, "s")->rank, 0);
    assert_null(safetensors_find(&file, "c"));
    safetensors_clear(&file);
}

static void
wrong_headers_are_refused(void **state)
{
#define ONE(dtype, shape, offsets)                                             \
    "{\"t\":{\"dtype\":\"" dtype "\",\"shape\":" shape                         \
    ",\"data_offsets\":" offsets "}}"
    static const struct {
        const char *header;
        size_t data_bytes;
        const char *part;
    } wrong[] = {
        {ONE("F99", "[1]", "[0,4]"), 4, "dtype F99"},
        {ONE("F32", "[1]", "[0,5]"), 5, "disagree"},
        {ONE("F32", "[1]", "[0,4]"), 3, "outside"},
        {ONE("F32", "[1]", "[4,0]"), 4, "outside"},
        {ONE("F32", "[1]", "[4,8]"), 8, "hole"},
        {ONE("F32", "[1]", "[0,4]"), 8, "after the last"},
        {ONE("F32", "[-1]", "[0,4]"), 4, "dimension"},
        {ONE("F32", "[1.5]", "[0,4]"), 4, "dimension"},
        {ONE("F32", "[4294967296,4294967296]", "[0,4]"), 4, "overflows"},
        {ONE("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "shape"},
        {ONE("F32", "[1]", "[0]"), 4, "data_offsets"},
        {"{\"t\":7}", 0, "no object"},
        {"[1,2]", 0, "no object"},
        {"{\"t\":", 0, "header"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
         3, "overlaps"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
         2, "header"},
    };
    struct safetensors file = {0};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct error err = {0};

        assert_int_equal(
            parse(wrong[i].header, wrong[i].data_bytes, &file, &err),
            STATUS_INVALID);
        if (strstr(err.text, wrong[i].part) == NULL)
            fail_msg("%s says \"%s\", not \"%s\"", wrong[i].header, err.text,
                     wrong[i].part);
    }
}

static void
header_sizes_are_checked_before_anything_is_read(void **state)
{
    static const uint8_t huge[] = {0xff, 0xff, 0xff, 0xff, 0xff,
                                   0xff, 0xff, 0xff, '{',  '}'};
    static const uint8_t beyond[] = {3, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    static const uint8_t cut[] = {4, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    struct safetensors file = {0};

    (void)state;
    assert_int_equal(
        safetensors_parse(huge, sizeof(huge), 1 << 20, "f", &file, NULL),
        STATUS_INVALID);
    assert_int_equal(
        safetensors_parse(beyond, sizeof(beyond), 10, "f", &file, NULL),
        STATUS_INVALID);
    assert_int_equal(safetensors_parse(cut, sizeof(cut), 12, "f", &file, NULL),
                     STATUS_INVALID);
    assert_int_equal(safetensors_parse(cut, 3, 3, "f", &file, NULL),
                     STATUS_INVALID);
}

/* Sizes as written by the safetensors library that made the file. */
static void
the_demo_model_is_read(void **state)
{
    struct safetensors file = {0};

    (void)state;
    assert_int_equal(safetensors_read("tests/models/tiny-chat/"
                                      "model.safetensors",
                                      &file, NULL),
                     STATUS_OK);
    assert_int_equal(file.file_bytes, 2891312);
    assert_int_equal(file.tensor_count, 46);
    assert_int_equal(
        safetensors_find(&file, "model.embed_tokens.weight")->bytes,
        2048 * 128 * 2);
    safetensors_clear(&file);
    assert_int_equal(safetensors_read("tests/models/none", &file, NULL),
                     STATUS_NOT_FOUND);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_are_found_with_their_numbers),
        cmocka_unit_test(wrong_headers_are_refused),
        cmocka_unit_test(header_sizes_are_checked_before_anything_is_read),
        cmocka_unit_test(the_demo_model_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
