/* model_output_test.c - what becomes certain, and when it is over. */
#include "model/output.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/banned.h"

enum { OUT_MAX_BYTES = 65536, END_ID = 2047 };

static struct tokenizer *tokenizer;
static uint32_t byte_ids[256]; /* the token that is exactly this byte */

static int
set_up(void **state)
{
    struct buf out;

    (void)state;
    if (tokenizer_read("tests/models/tiny-chat", &tokenizer, NULL) != STATUS_OK)
        return -1;
    buf_init(&out, OUT_MAX_BYTES);
    for (uint32_t id = 0; id < tokenizer_vocabulary(tokenizer); id++) {
        buf_reset(&out);
        if (tokenizer_append(tokenizer, id, false, &out) && out.size == 1)
            byte_ids[(uint8_t)out.data[0]] = id;
    }
    buf_clear(&out);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    tokenizer_free(tokenizer);
    return 0;
}

static struct output *
make(uint64_t max_tokens, const char *first, const char *second)
{
    struct output_rules rules = {
        .max_tokens = max_tokens, .end_ids = {END_ID}, .end_id_count = 1};

    if (first != NULL)
        snprintf(rules.stop[rules.stop_count++], OUTPUT_STOP_BYTES, "%s",
                 first);
    if (second != NULL)
        snprintf(rules.stop[rules.stop_count++], OUTPUT_STOP_BYTES, "%s",
                 second);
    return output_new(tokenizer, &rules);
}

/* One token for each byte; returns how many were taken. */
static size_t
push(struct output *output, const char *bytes, struct buf *content)
{
    size_t taken = 0;

    for (size_t i = 0; bytes[i] != '\0'; i++)
        taken += output_push(output, &byte_ids[(uint8_t)bytes[i]], 1, content);
    return taken;
}

static void
text_before_a_stop_string_is_delivered_and_nothing_after(void **state)
{
    struct output *output = make(100, "END", NULL);
    struct buf content;

    (void)state;
    buf_init(&content, OUT_MAX_BYTES);
    push(output, "abcE", &content);
    assert_string_equal(content.data, "abc");
    push(output, "N", &content);
    assert_string_equal(content.data, "abc");
    push(output, "EN", &content); /* "ENEN": the first two are text */
    assert_string_equal(content.data, "abcEN");
    assert_int_equal(push(output, "Dxyz", &content), 1);
    assert_string_equal(content.data, "abcEN");
    assert_int_equal(output_finish(output), OUTPUT_STOP);
    assert_int_equal(output_count(output), 8);
    assert_string_equal(output_finish_name(output_finish(output)), "stop");
    buf_clear(&content);
    output_free(output);
}

static void
the_leftmost_of_several_stop_strings_counts(void **state)
{
    struct output *output = make(100, "abcd", "bc");
    struct buf content;

    (void)state;
    buf_init(&content, OUT_MAX_BYTES);
    push(output, "xabc", &content);
    assert_string_equal(content.data, "xa");
    assert_int_equal(output_finish(output), OUTPUT_STOP);
    buf_clear(&content);
    output_free(output);
}

static void
an_end_id_ends_without_text_and_counts(void **state)
{
    const uint32_t ids[] = {byte_ids['h'], byte_ids['i'], END_ID,
                            byte_ids['!']};
    struct output *output = make(100, "is long", NULL);
    struct buf content;

    (void)state;
    buf_init(&content, OUT_MAX_BYTES);
    assert_int_equal(output_push(output, ids, 4, &content), 3);
    assert_string_equal(content.data, "hi");
    assert_int_equal(output_finish(output), OUTPUT_STOP);
    assert_int_equal(output_count(output), 3);
    buf_clear(&content);
    output_free(output);
}

static void
the_last_token_allowed_flushes_what_was_held(void **state)
{
    struct output *output = make(3, "abcd", NULL);
    struct buf content;

    (void)state;
    buf_init(&content, OUT_MAX_BYTES);
    push(output, "ab", &content);
    assert_int_equal(content.size, 0);
    assert_int_equal(push(output, "cd", &content), 1);
    assert_string_equal(content.data, "abc");
    assert_int_equal(output_finish(output), OUTPUT_LENGTH);
    assert_string_equal(output_finish_name(OUTPUT_LENGTH), "length");
    buf_clear(&content);
    output_free(output);
}

static void
a_stop_string_with_the_last_token_is_a_stop(void **state)
{
    struct output *output = make(2, "ab", NULL);
    struct buf content;

    (void)state;
    buf_init(&content, OUT_MAX_BYTES);
    push(output, "ab", &content);
    assert_int_equal(content.size, 0);
    assert_int_equal(output_finish(output), OUTPUT_STOP);
    buf_clear(&content);
    output_free(output);
}

static void
half_characters_are_replaced_at_the_end_and_dropped_by_a_flush(void **state)
{
    struct output *output = make(3, NULL, NULL);
    struct buf content;

    (void)state;
    buf_init(&content, OUT_MAX_BYTES);
    push(output, "a\xf0\x9f", &content);
    assert_string_equal(content.data, "a\xef\xbf\xbd");
    output_free(output);
    buf_reset(&content);
    output = make(100, "xyz", NULL);
    push(output, "axy\xf0", &content);
    assert_string_equal(content.data, "a");
    output_flush(output, &content);
    assert_string_equal(content.data, "axy");
    assert_int_equal(output_finish(output), OUTPUT_GOING);
    assert_null(output_finish_name(OUTPUT_GOING));
    buf_clear(&content);
    output_free(output);
}

static void
a_stop_string_may_cross_a_character_of_several_bytes(void **state)
{
    struct output *output = make(100, "\xc3\xa9!", NULL);
    struct buf content;

    (void)state;
    buf_init(&content, OUT_MAX_BYTES);
    push(output, "a\xc3\xa9", &content);
    assert_string_equal(content.data, "a");
    push(output, "?", &content);
    assert_string_equal(content.data, "a\xc3\xa9?");
    push(output, "\xc3\xa9!", &content);
    assert_string_equal(content.data, "a\xc3\xa9?");
    assert_int_equal(output_finish(output), OUTPUT_STOP);
    buf_clear(&content);
    output_free(output);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            text_before_a_stop_string_is_delivered_and_nothing_after),
        cmocka_unit_test(the_leftmost_of_several_stop_strings_counts),
        cmocka_unit_test(an_end_id_ends_without_text_and_counts),
        cmocka_unit_test(the_last_token_allowed_flushes_what_was_held),
        cmocka_unit_test(a_stop_string_with_the_last_token_is_a_stop),
        cmocka_unit_test(
            half_characters_are_replaced_at_the_end_and_dropped_by_a_flush),
        cmocka_unit_test(a_stop_string_may_cross_a_character_of_several_bytes),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
