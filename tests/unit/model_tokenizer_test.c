/* model_tokenizer_test.c - text to ids and back, against a second
 * implementation (tests/golden/make_model_golden.mjs). */
#include "model/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/mem.h"

#include "common/banned.h"

#define MODEL "tests/models/tiny-chat"

enum { FILE_MAX_BYTES = 8 * 1024 * 1024, BIG_BYTES = 1024 * 1024 };

static void
read_json(const char *path, struct json_doc *doc)
{
    struct error err = {0};
    struct buf text;

    buf_init(&text, FILE_MAX_BYTES);
    if (buf_read_file(&text, path, &err) != STATUS_OK ||
        json_doc_parse(text.data, text.size, doc, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    buf_clear(&text);
}

/* A member of tiny-chat's tokenizer.json, changed as the golden file says. */
static void
put_changed(struct json_out *out, const char *name, const struct json *original,
            const struct json *changes)
{
    const struct json *value = json_get(changes, name);

    json_key(out, name);
    if (value == NULL)
        value = json_get(original, name);
    if (value == NULL)
        json_put_null(out);
    else
        json_dump(value, out->buf);
    out->after_key = false;
    out->first[out->depth] = false;
}

/* A merge, however it was written, as ["a", "b"] or "a b". */
static void
put_merge(struct json_out *out, const struct json *merge, bool as_pair)
{
    size_t size = 0;
    const char *text = json_as_text(merge, &size);
    const char *space = text == NULL ? NULL : strchr(text, ' ');
    struct buf left;
    struct buf right;

    buf_init(&left, FILE_MAX_BYTES);
    buf_init(&right, FILE_MAX_BYTES);
    if (space != NULL) {
        buf_append(&left, text, (size_t)(space - text));
        buf_append_text(&right, space + 1);
    } else {
        buf_append_text(&left, json_as_text(json_at(merge, 0), &size));
        buf_append_text(&right, json_as_text(json_at(merge, 1), &size));
    }
    if (as_pair) {
        json_open_list(out);
        json_put_text(out, left.data);
        json_put_text(out, right.data);
        json_close_list(out);
    } else {
        buf_append_char(&left, ' ');
        buf_append(&left, right.data, right.size);
        json_put_text(out, left.data);
    }
    buf_clear(&left);
    buf_clear(&right);
}

static void
put_model(struct json_out *out, const struct json *model,
          const struct json *golden)
{
    const struct json *merges = json_get(model, "merges");
    bool as_pairs = json_as_bool(json_get(golden, "merges_as_pairs"));

    json_key(out, "model");
    json_open_object(out);
    json_member_text(out, "type", "BPE");
    json_member_bool(out, "ignore_merges",
                     json_as_bool(json_get(golden, "ignore_merges")));
    put_changed(out, "vocab", model, NULL);
    json_key(out, "merges");
    json_open_list(out);
    for (size_t i = 0; i < json_count(merges); i++)
        put_merge(out, json_at(merges, i), as_pairs);
    json_close_list(out);
    json_close_object(out);
}

static struct tokenizer *
make_variant(const struct json *golden)
{
    struct tokenizer *tokenizer = NULL;
    struct json_doc original = {0};
    struct error err = {0};
    struct json_out out;
    struct buf text;
    const struct json *changes = json_get(golden, "changes");

    read_json(MODEL "/tokenizer.json", &original);
    buf_init(&text, FILE_MAX_BYTES);
    json_out_init(&out, &text);
    json_open_object(&out);
    put_changed(&out, "added_tokens", original.root, changes);
    put_changed(&out, "normalizer", original.root, changes);
    put_changed(&out, "pre_tokenizer", original.root, changes);
    put_changed(&out, "decoder", original.root, changes);
    put_model(&out, json_get(original.root, "model"), golden);
    json_close_object(&out);
    if (tokenizer_parse(text.data, text.size, &tokenizer, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    buf_clear(&text);
    json_doc_clear(&original);
    return tokenizer;
}

static bool
row_matches(const struct tokenizer *tokenizer, const struct json *row)
{
    struct token_ids ids = {0};
    struct error err = {0};
    size_t size = 0;
    const char *text = json_as_text(json_get(row, "text"), &size);
    const struct json *expected = json_get(row, "ids");
    bool same = false;

    if (tokenizer_encode(tokenizer, text, size, true, &ids, &err) != STATUS_OK)
        fail_msg("%s: %s", text, err.text);
    same = ids.count == json_count(expected);
    for (size_t i = 0; same && i < ids.count; i++) {
        int64_t id = -1;

        same = json_as_i64(json_at(expected, i), &id) == STATUS_OK &&
               id == (int64_t)ids.ids[i];
    }
    if (!same) {
        printf("[%s]: got", text);
        for (size_t i = 0; i < ids.count; i++)
            printf(" %u", ids.ids[i]);
        printf("\n");
    }
    free(ids.ids);
    return same;
}

static void
check_golden(const char *path)
{
    struct json_doc golden = {0};
    struct tokenizer *tokenizer = NULL;
    int wrong = 0;

    read_json(path, &golden);
    tokenizer = make_variant(golden.root);
    assert_true(json_count(json_get(golden.root, "rows")) > 20);
    for (size_t i = 0; i < json_count(json_get(golden.root, "rows")); i++)
        wrong +=
            !row_matches(tokenizer, json_at(json_get(golden.root, "rows"), i));
    tokenizer_free(tokenizer);
    json_doc_clear(&golden);
    if (wrong != 0)
        fail_msg("%s: %d texts differ", path, wrong);
}

static void
ids_are_those_of_a_second_implementation(void **state)
{
    (void)state;
    check_golden("tests/golden/tokenizer/plain.json");
    check_golden("tests/golden/tokenizer/llama3.json");
    check_golden("tests/golden/tokenizer/gpt2.json");
    check_golden("tests/golden/tokenizer/nfc.json");
    check_golden("tests/golden/tokenizer/added.json");
}

static void
merges_may_be_written_as_pairs(void **state)
{
    (void)state;
    check_golden("tests/golden/tokenizer/pairs.json");
}

static void
the_demo_model_s_prompts_have_the_ids_of_its_reference(void **state)
{
    struct tokenizer *tokenizer = NULL;
    struct json_doc doc = {0};
    const struct json *prompts = NULL;

    (void)state;
    assert_int_equal(tokenizer_read(MODEL, &tokenizer, NULL), STATUS_OK);
    assert_int_equal(tokenizer_vocabulary(tokenizer), 2048);
    read_json("tests/models/reference.json", &doc);
    prompts = json_get(doc.root, "prompts");
    assert_int_equal(json_count(prompts), 12);
    for (size_t i = 0; i < json_count(prompts); i++) {
        const struct json *row = json_at(prompts, i);
        struct token_ids ids = {0};
        size_t size = 0;
        const char *text = json_as_text(json_get(row, "rendered"), &size);

        assert_int_equal(
            tokenizer_encode(tokenizer, text, size, true, &ids, NULL),
            STATUS_OK);
        assert_int_equal(ids.count, json_count(json_get(row, "prompt_ids")));
        for (size_t k = 0; k < ids.count; k++) {
            int64_t id = -1;

            assert_int_equal(
                json_as_i64(json_at(json_get(row, "prompt_ids"), k), &id),
                STATUS_OK);
            assert_int_equal(ids.ids[k], id);
        }
        free(ids.ids);
    }
    json_doc_clear(&doc);
    tokenizer_free(tokenizer);
}

static void
special_tokens_in_plain_text_stay_text(void **state)
{
    static const char text[] = "<|im_end|>";
    struct tokenizer *tokenizer = NULL;
    struct token_ids ids = {0};
    struct buf out;
    uint32_t id = 0;

    (void)state;
    assert_int_equal(tokenizer_read(MODEL, &tokenizer, NULL), STATUS_OK);
    assert_true(tokenizer_find(tokenizer, text, &id));
    assert_int_equal(id, 2047);
    assert_true(tokenizer_is_special(tokenizer, id));
    assert_false(tokenizer_find(tokenizer, "<|im_end", &id));

    assert_int_equal(
        tokenizer_encode(tokenizer, text, strlen(text), true, &ids, NULL),
        STATUS_OK);
    assert_int_equal(ids.count, 1);
    assert_int_equal(ids.ids[0], 2047);
    free(ids.ids);
    assert_int_equal(
        tokenizer_encode(tokenizer, text, strlen(text), false, &ids, NULL),
        STATUS_OK);
    assert_true(ids.count > 1);
    buf_init(&out, FILE_MAX_BYTES);
    for (size_t i = 0; i < ids.count; i++) {
        assert_true(ids.ids[i] < 2045);
        assert_true(tokenizer_append(tokenizer, ids.ids[i], false, &out));
    }
    assert_string_equal(out.data, text);
    buf_reset(&out);
    assert_true(tokenizer_append(tokenizer, 2047, false, &out));
    assert_int_equal(out.size, 0);
    assert_true(tokenizer_append(tokenizer, 2047, true, &out));
    assert_string_equal(out.data, text);
    assert_false(tokenizer_append(tokenizer, 2048, true, &out));
    buf_clear(&out);
    free(ids.ids);
    tokenizer_free(tokenizer);
}

/* n log n takes well under a second here, n^2 would take hours. */
static void
a_megabyte_of_anything_is_quick(void **state)
{
    static const char *const fills[] = {
        "a", " ", "hello world ", "\n", "1", "\xc3\xa9", "cc\xcc\xa3\xcc\x81"};
    struct tokenizer *tokenizer = NULL;
    char *text = mem_alloc(BIG_BYTES);
    struct span before = clock_monotonic();

    (void)state;
    assert_int_equal(tokenizer_read(MODEL, &tokenizer, NULL), STATUS_OK);
    for (size_t f = 0; f < COUNT_OF(fills); f++) {
        size_t size = strlen(fills[f]);
        size_t used = 0;
        struct token_ids ids = {0};

        for (; used + size <= BIG_BYTES; used += size)
            memcpy(text + used, fills[f], size);
        assert_int_equal(
            tokenizer_encode(tokenizer, text, used, true, &ids, NULL),
            STATUS_OK);
        assert_true(ids.count > 0);
        free(ids.ids);
    }
    assert_true(span_as_ms(span_sub(clock_monotonic(), before)) < 60000);
    free(text);
    tokenizer_free(tokenizer);
}

/* Marks of falling classes: sorted by exchange they would take n^2. */
static void
a_megabyte_of_combining_marks_is_quick(void **state)
{
    struct json_doc golden = {0};
    struct tokenizer *tokenizer = NULL;
    struct token_ids ids = {0};
    char *text = mem_alloc(BIG_BYTES);
    struct span before = clock_monotonic();

    (void)state;
    read_json("tests/golden/tokenizer/nfc.json", &golden);
    tokenizer = make_variant(golden.root);
    for (size_t i = 0; i + 2 <= BIG_BYTES; i += 2) /* U+0301 then U+0323 */
        memcpy(text + i, i < BIG_BYTES / 2 ? "\xcc\x81" : "\xcc\xa3", 2);
    assert_int_equal(
        tokenizer_encode(tokenizer, text, BIG_BYTES, true, &ids, NULL),
        STATUS_OK);
    assert_true(span_as_ms(span_sub(clock_monotonic(), before)) < 60000);
    free(ids.ids);
    free(text);
    tokenizer_free(tokenizer);
    json_doc_clear(&golden);
}

static void
text_that_is_not_utf8_or_too_long_is_refused(void **state)
{
    struct tokenizer *tokenizer = NULL;
    struct token_ids ids = {0};
    struct error err = {0};
    size_t size = (size_t)TOKENIZER_TEXT_MAX_BYTES + 1;
    char *text = mem_alloc(size);

    (void)state;
    assert_int_equal(tokenizer_read(MODEL, &tokenizer, NULL), STATUS_OK);
    assert_int_equal(tokenizer_encode(tokenizer, "a\xff", 2, true, &ids, &err),
                     STATUS_INVALID);
    assert_int_equal(
        tokenizer_encode(tokenizer, "\xed\xa0\x80", 3, true, &ids, &err),
        STATUS_INVALID);
    assert_int_equal(tokenizer_encode(tokenizer, text, size, true, &ids, &err),
                     STATUS_TOO_LARGE);
    free(text);
    tokenizer_free(tokenizer);
}

static void
what_a_file_asks_and_we_do_not_know_is_refused_by_name(void **state)
{
    static const char *const files[][2] = {
        {"{\"model\":{\"type\":\"Unigram\"}}", "Unigram"},
        {"{\"model\":{\"type\":\"BPE\",\"byte_fallback\":true}}",
         "byte_fallback"},
        {"{\"model\":{\"type\":\"BPE\",\"dropout\":0.1}}", "dropout"},
        {"{\"model\":{\"type\":\"BPE\",\"end_of_word_suffix\":\"</w>\"}}",
         "end_of_word_suffix"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}",
         "byte 0x00"},
        {"{\"decoder\":{\"type\":\"Metaspace\"},\"model\":{}}", "Metaspace"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}",
         "id of a"},
        {"not json", "tokenizer.json"},
    };
    struct tokenizer *tokenizer = NULL;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        struct error err = {0};

        assert_int_equal(
            tokenizer_parse(files[i][0], strlen(files[i][0]), &tokenizer, &err),
            STATUS_INVALID);
        if (strstr(err.text, files[i][1]) == NULL)
            fail_msg("\"%s\" does not say %s", err.text, files[i][1]);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_those_of_a_second_implementation),
        cmocka_unit_test(merges_may_be_written_as_pairs),
        cmocka_unit_test(
            the_demo_model_s_prompts_have_the_ids_of_its_reference),
        cmocka_unit_test(special_tokens_in_plain_text_stay_text),
        cmocka_unit_test(a_megabyte_of_anything_is_quick),
        cmocka_unit_test(a_megabyte_of_combining_marks_is_quick),
        cmocka_unit_test(text_that_is_not_utf8_or_too_long_is_refused),
        cmocka_unit_test(
            what_a_file_asks_and_we_do_not_know_is_refused_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
