/* model_detokenizer_test.c - no character is ever cut. */
#include "model/detokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/banned.h"

enum { OUT_MAX_BYTES = 65536 };

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

static void
expect(const char *bytes, const char *expected)
{
    struct detokenizer state;
    struct buf out;

    detokenizer_init(&state, tokenizer);
    buf_init(&out, OUT_MAX_BYTES);
    for (size_t i = 0; bytes[i] != '\0'; i++)
        detokenizer_push(&state, byte_ids[(uint8_t)bytes[i]], &out);
    detokenizer_finish(&state, &out);
    assert_string_equal(out.data, expected);
    buf_clear(&out);
    detokenizer_clear(&state);
}

static void
a_character_comes_with_its_last_byte(void **state)
{
    static const char rocket[] = "\xf0\x9f\x9a\x80";
    struct detokenizer detokenizer;
    struct buf out;

    (void)state;
    detokenizer_init(&detokenizer, tokenizer);
    buf_init(&out, OUT_MAX_BYTES);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(out.size, 0);
        detokenizer_push(&detokenizer, byte_ids[(uint8_t)rocket[i]], &out);
    }
    assert_string_equal(out.data, rocket);
    buf_clear(&out);
    detokenizer_clear(&detokenizer);
}

/* Substitution of maximal subparts: the Unicode Standard 15, tables 3-8 to
 * 3-11. */
static void
broken_bytes_are_replaced_as_unicode_recommends(void **state)
{
#define R "\xef\xbf\xbd"
    (void)state;
    expect("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", R R R R R R R R "A");
    expect("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41", R R R R R R R R "A");
    expect("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", R R R R R "A" R R "B");
    expect("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", R R R R "A");
    expect("a\xf0\x9f\x9a", "a" R);
}

static void
special_tokens_have_no_text(void **state)
{
    struct detokenizer detokenizer;
    struct buf out;

    (void)state;
    detokenizer_init(&detokenizer, tokenizer);
    buf_init(&out, OUT_MAX_BYTES);
    detokenizer_push(&detokenizer, 2046, &out);
    detokenizer_push(&detokenizer, 99999, &out);
    detokenizer_finish(&detokenizer, &out);
    assert_int_equal(out.size, 0);
    buf_clear(&out);
    detokenizer_clear(&detokenizer);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_character_comes_with_its_last_byte),
        cmocka_unit_test(broken_bytes_are_replaced_as_unicode_recommends),
        cmocka_unit_test(special_tokens_have_no_text),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
