/* common_json_test.c - trees and the writer. */
#include "common/json.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/banned.h"

static enum status
parse(const char *text, struct json_doc *doc, struct error *err)
{
    return json_doc_parse(text, strlen(text), doc, err);
}

static void
values_are_read_by_kind(void **state)
{
    struct json_doc doc = {NULL};
    struct error err;
    int64_t number;
    double real;
    size_t size;

    (void)state;
    assert_int_equal(
        parse("{\"a\":[1,2.0,-3.5,null,true],\"b\":\"x\\u0000y\"}", &doc, &err),
        STATUS_OK);
    const struct json *a = json_get(doc.root, "a");

    assert_int_equal(json_count(doc.root), 2);
    assert_int_equal(json_count(a), 5);
    assert_int_equal(json_as_i64(json_at(a, 0), &number), STATUS_OK);
    assert_int_equal(number, 1);
    assert_int_equal(json_as_i64(json_at(a, 1), &number), STATUS_OK);
    assert_int_equal(number, 2);
    assert_int_equal(json_as_i64(json_at(a, 2), &number), STATUS_INVALID);
    assert_int_equal(json_as_double(json_at(a, 2), &real), STATUS_OK);
    assert_true(real == -3.5);
    assert_true(json_is_null(json_at(a, 3)));
    assert_true(json_as_bool(json_at(a, 4)));
    assert_null(json_at(a, 5));
    assert_null(json_as_text(a, NULL));
    assert_memory_equal(json_as_text(json_get(doc.root, "b"), &size), "x\0y",
                        3);
    assert_int_equal(size, 3);
    json_doc_clear(&doc);
}

static void
nothing_answers_as_nothing(void **state)
{
    int64_t number;
    double real;

    (void)state;
    assert_true(json_is_null(NULL));
    assert_false(json_as_bool(NULL));
    assert_null(json_as_text(NULL, NULL));
    assert_int_equal(json_as_i64(NULL, &number), STATUS_INVALID);
    assert_int_equal(json_as_double(NULL, &real), STATUS_INVALID);
    assert_int_equal(json_count(NULL), 0);
    assert_null(json_get(NULL, "a"));
    assert_null(json_at(NULL, 0));
    assert_null(json_member_first(NULL));
}

static void
bad_texts_are_refused_without_quoting_them(void **state)
{
    static const char *const bad[] = {
        "",     "{",        "{\"a\":1,\"a\":2}",
        "[1]x", "nan",      "'a'",
        "[1,]", "\"\xff\"", "1e999",
        "01",   "\"secret", "{\"secret\" 1}",
    };
    struct json_doc doc = {NULL};
    struct error err;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_int_equal(parse(bad[i], &doc, &err), STATUS_INVALID);
        assert_non_null(strstr(err.text, "line "));
        assert_null(strstr(err.text, "secret"));
        assert_null(doc.root);
    }
}

static void
depth_is_bounded_at_512(void **state)
{
    char text[2000];
    struct json_doc doc = {NULL};
    struct error err;
    struct buf buf;

    (void)state;
    memset(text, '[', 512);
    memset(text + 512, ']', 512);
    assert_int_equal(json_doc_parse(text, 1024, &doc, &err), STATUS_OK);
    buf_init(&buf, 2000);
    json_dump(doc.root, &buf);
    assert_int_equal(buf.size, 1024);
    assert_memory_equal(buf.data, text, 1024);
    buf_clear(&buf);
    json_doc_clear(&doc);
    memset(text, '[', 513);
    memset(text + 513, ']', 513);
    assert_int_equal(json_doc_parse(text, 1026, &doc, &err), STATUS_INVALID);
    assert_string_equal(err.text, "nested deeper than 512 levels");
    /* Brackets inside a string are not depth. */
    memset(text, '[', 1000);
    text[0] = text[999] = '"';
    assert_int_equal(json_doc_parse(text, 1000, &doc, &err), STATUS_OK);
    json_doc_clear(&doc);
}

/* tokenizer_config.json of many models says 10^30 to mean "no limit". */
static void
integers_past_64_bits_become_reals(void **state)
{
    struct json_doc doc = {NULL};
    struct error err;
    int64_t number;
    double real;

    (void)state;
    assert_int_equal(parse("[1000000000000000019884624838656,"
                           "-9223372036854775808,9223372036854775807,"
                           "\"1000000000000000019884624838656\"]",
                           &doc, &err),
                     STATUS_OK);
    assert_int_equal(json_as_double(json_at(doc.root, 0), &real), STATUS_OK);
    assert_true(real == 1e30);
    assert_int_equal(json_as_i64(json_at(doc.root, 0), &number),
                     STATUS_INVALID);
    assert_int_equal(json_as_i64(json_at(doc.root, 1), &number), STATUS_OK);
    assert_true(number == INT64_MIN);
    assert_int_equal(json_as_i64(json_at(doc.root, 2), &number), STATUS_OK);
    assert_true(number == INT64_MAX);
    assert_string_equal(json_as_text(json_at(doc.root, 3), NULL),
                        "1000000000000000019884624838656");
    json_doc_clear(&doc);
}

static void
members_keep_their_order_and_dump_compactly(void **state)
{
    static const char text[] =
        "{\"z\":1,\"a\":[],\"m\":{\"y\":0.1,\"b\":1.0,\"c\":{}},"
        "\"\xc3\xa9\":\"\\\"\\\\\\n\\u0001/\",\"n\":[null,true,false,-5]}";
    static const char *const names[] = {"z", "a", "m", "\xc3\xa9", "n"};
    const struct json_member *member;
    struct json_doc doc = {NULL};
    struct error err;
    struct buf buf;
    size_t i = 0;

    (void)state;
    assert_int_equal(parse(text, &doc, &err), STATUS_OK);
    for (member = json_member_first(doc.root); member != NULL;
         member = json_member_next(doc.root, member))
        assert_string_equal(json_member_name(member), names[i++]);
    assert_int_equal(i, COUNT_OF(names));
    buf_init(&buf, 1000);
    json_dump(doc.root, &buf);
    assert_string_equal(buf.data, text);
    buf_clear(&buf);
    json_doc_clear(&doc);
}

static void
the_writer_places_commas_and_escapes(void **state)
{
    struct json_out out;
    struct buf buf;

    (void)state;
    buf_init(&buf, 1000);
    json_out_init(&out, &buf);
    json_open_object(&out);
    json_member_text(&out, "t", "a\"\\\b\f\n\r\t\x1f\x7f");
    json_key(&out, "l");
    json_open_list(&out);
    json_put_i64(&out, INT64_MIN);
    json_put_u64(&out, UINT64_MAX);
    json_put_raw(&out, "{}", 2);
    json_open_object(&out);
    json_close_object(&out);
    json_put_text_sized(&out, "a\0b", 3);
    json_put_text(&out, NULL);
    json_close_list(&out);
    json_member_bool(&out, "b", false);
    json_member_null(&out, "n");
    json_member_double(&out, "d", NAN);
    json_close_object(&out);
    assert_string_equal(
        buf.data, "{\"t\":\"a\\\"\\\\\\b\\f\\n\\r\\t\\u001f\x7f\","
                  "\"l\":[-9223372036854775808,18446744073709551615,{},{},"
                  "\"a\\u0000b\",null],\"b\":false,\"n\":null,\"d\":null}");
    buf_clear(&buf);
}

/* Unicode's own examples of ill-formed sequences: overlong forms, surrogates,
 * past U+10FFFF, cut ones. */
static void
bytes_that_are_no_utf8_are_replaced(void **state)
{
    static const struct {
        const char *text, *written;
    } cases[] = {
        {"\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\""},
        {"a\xed\xa0\x80", "\"a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xf4\x90\x80\x80z",
         "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz\""},
        {"\xe2\x82", "\"\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xe2\x82\xac\xf0\x9f\x98\x80\""},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct json_out out;
        struct buf buf;

        buf_init(&buf, 100);
        json_out_init(&out, &buf);
        json_put_text(&out, cases[i].text);
        assert_string_equal(buf.data, cases[i].written);
        buf_clear(&buf);
    }
}

static void
doubles_are_short_and_read_back_equal(void **state)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0.1, "0.1"},
        {1, "1"},
        {1e300, "1e+300"},
        {-2.5, "-2.5"},
        {1.0 / 3, "0.3333333333333333"},
        {5e-324, "5e-324"},
        {0.1 + 0.2, "0.30000000000000004"},
        {DBL_MAX, "1.7976931348623157e+308"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct json_out out;
        struct buf buf;

        buf_init(&buf, 100);
        json_out_init(&out, &buf);
        json_put_double(&out, cases[i].value);
        assert_string_equal(buf.data, cases[i].text);
        buf_clear(&buf);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_read_by_kind),
        cmocka_unit_test(nothing_answers_as_nothing),
        cmocka_unit_test(bad_texts_are_refused_without_quoting_them),
        cmocka_unit_test(depth_is_bounded_at_512),
        cmocka_unit_test(integers_past_64_bits_become_reals),
        cmocka_unit_test(members_keep_their_order_and_dump_compactly),
        cmocka_unit_test(the_writer_places_commas_and_escapes),
        cmocka_unit_test(bytes_that_are_no_utf8_are_replaced),
        cmocka_unit_test(doubles_are_short_and_read_back_equal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
