/* common_field_test.c - objects by table. */
#include "common/field.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/banned.h"

struct row {
    char id[8];
    uint32_t n;
};

struct thing {
    char name[8];
    uint64_t size;
    int64_t offset;
    bool on;
    double ratio;
    uint32_t ids[3];
    size_t id_count;
    struct row rows[2];
    size_t row_count;
    struct row one;
    bool has_cores;
    uint64_t cores;
};

static const struct field row_fields[] = {
    FIELD(struct row, id, FIELD_TEXT, .required = true, .min = 1),
    FIELD(struct row, n, FIELD_U32, .max = 9),
};

static const struct field thing_fields[] = {
    FIELD(struct thing, name, FIELD_TEXT, .required = true, .min = 2),
    FIELD(struct thing, size, FIELD_U64, .min = 1),
    FIELD(struct thing, offset, FIELD_I64, .hidden_when_zero = true),
    FIELD(struct thing, on, FIELD_BOOL, .hidden_when_zero = true),
    FIELD(struct thing, ratio, FIELD_DOUBLE, .fmin = 0, .fmax = 2),
    FIELD_LIST(struct thing, ids, id_count, FIELD_U32, .required = false),
    FIELD_ROWS(struct thing, rows, row_count, row_fields,
               .hidden_when_zero = true),
    FIELD_NESTED(struct thing, one, row_fields, .hidden_when_zero = true),
    FIELD_NULLABLE(struct thing, cores, has_cores, FIELD_U64,
                   .required = false),
};

static enum status
decode(const char *text, struct thing *thing, struct error *err)
{
    return field_decode_text(text, strlen(text), thing_fields,
                             COUNT_OF(thing_fields), thing, sizeof(*thing),
                             err);
}

static void
absent_members_keep_their_defaults(void **state)
{
    struct thing thing = {.size = 7, .ratio = 0.5, .id_count = 1, .ids = {4}};
    struct error err;

    (void)state;
    assert_int_equal(decode("{\"name\":\"ab\",\"cores\":3}", &thing, &err),
                     STATUS_OK);
    assert_string_equal(thing.name, "ab");
    assert_int_equal(thing.size, 7);
    assert_true(thing.ratio == 0.5);
    assert_int_equal(thing.id_count, 1);
    assert_true(thing.has_cores);
    assert_int_equal(thing.cores, 3);
    assert_int_equal(decode("{\"name\":\"ab\",\"cores\":null}", &thing, &err),
                     STATUS_OK);
    assert_false(thing.has_cores);
    assert_int_equal(thing.cores, 0);
}

static void
refusals_name_the_place(void **state)
{
    static const struct {
        const char *json, *text;
    } cases[] = {
        {"{}", "/name: is missing"},
        {"[]", "/: must be an object"},
        {"{\"name\":1}", "/name: must be a text"},
        {"{\"name\":\"a\"}", "/name: must have 2 to 7 bytes, has 1"},
        {"{\"name\":\"abcdefgh\"}", "/name: must have 2 to 7 bytes, has 8"},
        {"{\"name\":\"a\\u0000b\"}", "/name: must not contain a NUL"},
        {"{\"name\":\"ab\",\"x\":1}", "/x: unknown member: leave it out"},
        {"{\"name\":\"ab\",\"size\":0}",
         "/size: must be a whole number from 1 to 9223372036854775807"},
        {"{\"name\":\"ab\",\"size\":1.5}",
         "/size: must be a whole number from 1 to 9223372036854775807"},
        {"{\"name\":\"ab\",\"size\":18446744073709551615}",
         "/size: must be a whole number from 1 to 9223372036854775807"},
        {"{\"name\":\"ab\",\"on\":1}", "/on: must be true or false"},
        {"{\"name\":\"ab\",\"ratio\":2.5}",
         "/ratio: must be a number from 0 to 2"},
        {"{\"name\":\"ab\",\"ratio\":\"1\"}", "/ratio: must be a number"},
        {"{\"name\":\"ab\",\"ids\":1}", "/ids: must be a list"},
        {"{\"name\":\"ab\",\"ids\":[1,2,3,4]}",
         "/ids: must have at most 3 items, has 4"},
        {"{\"name\":\"ab\",\"ids\":[1,-2]}",
         "/ids/1: must be a whole number from 0 to 4294967295"},
        {"{\"name\":\"ab\",\"rows\":[{\"id\":\"a\"},{\"id\":\"b\",\"n\":10}]}",
         "/rows/1/n: must be a whole number from 0 to 9"},
        {"{\"name\":\"ab\",\"rows\":[{}]}", "/rows/0/id: is missing"},
        {"{\"name\":\"ab\",\"one\":{\"id\":\"a\",\"zz\":0}}",
         "/one/zz: unknown member: leave it out"},
        {"{\"name\":\"ab\",\"size\":null}",
         "/size: must be a whole number from 1 to 9223372036854775807"},
        {"{\"name\":\"ab\",\"name\":\"ab\"}",
         "/: no JSON object: line 1 column 19: duplicate object key"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct thing thing = {.size = 7}, before = thing;
        struct error err;

        assert_int_equal(decode(cases[i].json, &thing, &err), STATUS_INVALID);
        assert_string_equal(err.text, cases[i].text);
        assert_int_equal(strncmp(err.text + 1, err.param, strlen(err.param)),
                         0);
        assert_memory_equal(&thing, &before, sizeof(thing));
    }
}

static void
what_is_encoded_decodes_to_the_same(void **state)
{
    struct thing thing = {
        .name = "n\xc3\xa9\"x",
        .size = INT64_MAX,
        .offset = -5,
        .on = true,
        .ratio = 1.0 / 3,
        .ids = {1, UINT32_MAX},
        .id_count = 2,
        .rows = {{"a", 9}, {"b", 0}},
        .row_count = 2,
        .one = {"c", 1},
        .has_cores = true,
        .cores = 0,
    };
    struct thing decoded = {0};
    struct json_out out;
    struct error err;
    struct buf buf;

    (void)state;
    buf_init(&buf, 1000);
    json_out_init(&out, &buf);
    json_open_object(&out);
    field_encode(&out, thing_fields, COUNT_OF(thing_fields), &thing);
    json_close_object(&out);
    assert_string_equal(
        buf.data,
        "{\"name\":\"n\xc3\xa9\\\"x\",\"size\":9223372036854775807,"
        "\"offset\":-5,\"on\":true,\"ratio\":0.3333333333333333,"
        "\"ids\":[1,4294967295],\"rows\":[{\"id\":\"a\",\"n\":9},"
        "{\"id\":\"b\",\"n\":0}],\"one\":{\"id\":\"c\",\"n\":1},\"cores\":0}");
    assert_int_equal(decode(buf.data, &decoded, &err), STATUS_OK);
    assert_memory_equal(&decoded, &thing, sizeof(thing));
    buf_clear(&buf);
}

static void
zero_members_can_be_hidden(void **state)
{
    struct thing thing = {.name = "ab", .size = 1};
    struct json_out out;
    struct buf buf;

    (void)state;
    buf_init(&buf, 1000);
    json_out_init(&out, &buf);
    json_open_object(&out);
    field_encode(&out, thing_fields, COUNT_OF(thing_fields), &thing);
    json_close_object(&out);
    assert_string_equal(buf.data, "{\"name\":\"ab\",\"size\":1,\"ratio\":0,"
                                  "\"ids\":[],\"cores\":null}");
    buf_clear(&buf);
}

/* A name cut by snprintf in the middle of a sequence must still be readable
 * by a peer with the same array. */
static void
a_cut_sequence_is_left_out(void **state)
{
    struct thing thing = {.name = "abcdef\xc3", .size = 1}, decoded = {0};
    struct json_out out;
    struct error err;
    struct buf buf;

    (void)state;
    buf_init(&buf, 1000);
    json_out_init(&out, &buf);
    json_open_object(&out);
    field_encode(&out, thing_fields, COUNT_OF(thing_fields), &thing);
    json_close_object(&out);
    assert_int_equal(decode(buf.data, &decoded, &err), STATUS_OK);
    assert_string_equal(decoded.name, "abcdef");
    buf_clear(&buf);
}

struct holder {
    const struct json *any;
};

static const struct field holder_fields[] = {
    FIELD(struct holder, any, FIELD_TREE, .required = true),
};

static void
trees_are_borrowed_and_written_back(void **state)
{
    static const char text[] = "{\"any\":{\"b\":[1,2],\"a\":null}}";
    struct holder holder = {NULL};
    struct json_doc doc = {NULL};
    struct json_out out;
    struct error err;
    struct buf buf;

    (void)state;
    assert_int_equal(json_doc_parse(text, strlen(text), &doc, &err), STATUS_OK);
    assert_int_equal(
        field_decode(doc.root, holder_fields, 1, &holder, sizeof(holder), &err),
        STATUS_OK);
    assert_ptr_equal(holder.any, json_get(doc.root, "any"));
    buf_init(&buf, 1000);
    json_out_init(&out, &buf);
    json_open_object(&out);
    field_encode(&out, holder_fields, 1, &holder);
    json_close_object(&out);
    assert_string_equal(buf.data, text);
    buf_clear(&buf);
    json_doc_clear(&doc);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absent_members_keep_their_defaults),
        cmocka_unit_test(refusals_name_the_place),
        cmocka_unit_test(what_is_encoded_decodes_to_the_same),
        cmocka_unit_test(zero_members_can_be_hidden),
        cmocka_unit_test(a_cut_sequence_is_left_out),
        cmocka_unit_test(trees_are_borrowed_and_written_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
