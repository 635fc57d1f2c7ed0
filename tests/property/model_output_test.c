/* model_output_test.c - random ids, cut at random: the events are the same, and
 * the text is that of decoding everything at once. */
#include "model/output.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <utf8proc.h>

#include "common/prng.h"

#include "common/banned.h"

enum {
    ROUNDS = 2000,
    IDS_MAX = 200,
    OUT_MAX_BYTES = 1 << 20,
    END_ID = 2047,
    SEED = 20261130
};

static struct tokenizer *tokenizer;

struct events {
    struct buf content;
    enum output_finish finish;
    uint64_t count;
};

/* The rules' answer over the ids, cut by the generator (NULL: in one piece). */
static void
run(const struct output_rules *rules, const uint32_t *ids, size_t count,
    struct prng *prng, struct events *events)
{
    struct output *output = output_new(tokenizer, rules);
    size_t at = 0;

    buf_init(&events->content, OUT_MAX_BYTES);
    while (at < count && output_finish(output) == OUTPUT_GOING) {
        size_t most = count - at;
        size_t size = prng == NULL
                          ? most
                          : (size_t)prng_below(prng, most < 5 ? most + 1 : 5);

        at += output_push(output, ids + at, size, &events->content);
    }
    output_flush(output, &events->content);
    events->finish = output_finish(output);
    events->count = output_count(output);
    output_free(output);
}

/* Whole characters of the bytes, broken ones as U+FFFD; an unfinished end
 * stays off unless @finished.  A decoder of its own, by utf8proc's table of
 * valid sequences. */
static void
decode(const uint8_t *bytes, size_t size, bool finished, struct buf *out)
{
    for (size_t at = 0; at < size;) {
        utf8proc_int32_t point = 0;
        utf8proc_ssize_t step =
            utf8proc_iterate(bytes + at, (utf8proc_ssize_t)(size - at), &point);
        size_t part = 1;

        if (step > 0) {
            buf_append(out, bytes + at, (size_t)step);
            at += (size_t)step;
            continue;
        }
        /* The longest front that some continuation makes valid. */
        for (size_t front = 1; front <= 3 && at + front <= size; front++) {
            bool valid = false;

            for (unsigned next = 0x80; next < 0xc0 && !valid; next++) {
                uint8_t whole[4] = {0x80, 0x80, 0x80, 0x80};

                memcpy(whole, bytes + at, front);
                for (size_t i = front; i < 4; i++)
                    whole[i] = (uint8_t)(i == front ? next : 0x80);
                step = utf8proc_iterate(whole, 4, &point);
                valid = step > (utf8proc_ssize_t)front;
            }
            if (valid)
                part = front;
        }
        if (at + part < size || finished)
            buf_append_text(out, "\xef\xbf\xbd");
        else {
            uint8_t lead = bytes[at];
            bool may_go_on = lead >= 0xc2 && lead <= 0xf4;

            if (!may_go_on)
                buf_append_text(out, "\xef\xbf\xbd");
        }
        at += part;
    }
}

/* What the rules say without looking at pieces: decode all that can count,
 * cut at the first stop string. */
static void
expected_text(const struct output_rules *rules, const uint32_t *ids,
              size_t count, const struct events *events, struct buf *out)
{
    struct buf bytes;
    const char *first = NULL;

    buf_init(&bytes, OUT_MAX_BYTES);
    for (size_t i = 0; i < count && i < events->count; i++)
        (void)tokenizer_append(tokenizer, ids[i], false, &bytes);
    decode((const uint8_t *)bytes.data, bytes.size,
           events->finish != OUTPUT_GOING, out);
    for (size_t i = 0; i < rules->stop_count; i++) {
        const char *found = strstr(out->data, rules->stop[i]);

        if (found != NULL && (first == NULL || found < first))
            first = found;
    }
    if (first != NULL)
        buf_truncate(out, (size_t)(first - out->data));
    buf_clear(&bytes);
}

static void
make_case(struct prng *prng, struct output_rules *rules, uint32_t *ids,
          size_t *count)
{
    static const char *const stops[] = {"e",  " the", "\n\n", "\xef\xbf\xbd",
                                        "an", "ana",  "1 ",   "zzzz"};
    /* Few different ids repeat patterns; many make broken characters. */
    uint64_t range = prng_below(prng, 2) == 0 ? 300 : 2045;

    *rules = (struct output_rules){.max_tokens = 1 + prng_below(prng, IDS_MAX),
                                   .end_ids = {END_ID},
                                   .end_id_count = 1};
    rules->stop_count = (size_t)prng_below(prng, 3);
    for (size_t i = 0; i < rules->stop_count; i++)
        snprintf(rules->stop[i], OUTPUT_STOP_BYTES, "%s",
                 stops[prng_below(prng, COUNT_OF(stops))]);
    *count = (size_t)prng_below(prng, IDS_MAX);
    for (size_t i = 0; i < *count; i++) {
        ids[i] = (uint32_t)prng_below(prng, range);
        if (ids[i] == 0) /* the byte NUL ends strstr early */
            ids[i] = 1;
        if (prng_below(prng, 200) == 0)
            ids[i] = END_ID;
    }
}

static bool
holds_nul(const uint32_t *ids, size_t count)
{
    struct buf bytes;
    bool found = false;

    buf_init(&bytes, OUT_MAX_BYTES);
    for (size_t i = 0; i < count; i++)
        (void)tokenizer_append(tokenizer, ids[i], false, &bytes);
    found = memchr(bytes.data, '\0', bytes.size) != NULL;
    buf_clear(&bytes);
    return found;
}

static void
cuts_change_nothing_and_text_is_that_of_the_whole(void **state)
{
    struct prng prng;
    size_t tried = 0;

    (void)state;
    printf("seed %d\n", SEED);
    prng_seed(&prng, SEED);
    for (int round = 0; round < ROUNDS; round++) {
        struct output_rules rules;
        uint32_t ids[IDS_MAX];
        size_t count = 0;
        struct events whole;
        struct events cut;
        struct buf expected;

        make_case(&prng, &rules, ids, &count);
        run(&rules, ids, count, NULL, &whole);
        run(&rules, ids, count, &prng, &cut);
        assert_int_equal(whole.finish, cut.finish);
        assert_int_equal(whole.count, cut.count);
        assert_int_equal(whole.content.size, cut.content.size);
        assert_memory_equal(whole.content.data, cut.content.data,
                            whole.content.size);
        if (!holds_nul(ids, count)) {
            buf_init(&expected, OUT_MAX_BYTES);
            expected_text(&rules, ids, count, &whole, &expected);
            if (strcmp(whole.content.data, expected.data) != 0)
                fail_msg("round %d: [%s] is not [%s]", round,
                         whole.content.data, expected.data);
            buf_clear(&expected);
            tried++;
        }
        buf_clear(&whole.content);
        buf_clear(&cut.content);
    }
    assert_true(tried > ROUNDS / 4);
}

static int
set_up(void **state)
{
    (void)state;
    return tokenizer_read("tests/models/tiny-chat", &tokenizer, NULL) ==
                   STATUS_OK
               ? 0
               : -1;
}

static int
tear_down(void **state)
{
    (void)state;
    tokenizer_free(tokenizer);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_change_nothing_and_text_is_that_of_the_whole),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
