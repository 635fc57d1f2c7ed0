/* model_answer.h - an answer read by a family's description and put together
 * again out of its events, for the tests of model/output and model/format. */
#ifndef BERTH_TESTS_UNIT_MODEL_ANSWER_H
#define BERTH_TESTS_UNIT_MODEL_ANSWER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/json.h"
#include "common/prng.h"
#include "model/output.h"

enum { OUT_MAX_BYTES = 1 << 20, CALLS_MAX = 8, END_ID = 2047 };

/* Each tool, its members that are text, as output_rules.tools wants them. */
static const char tools[] = "get_weather\0city\0\0take_note\0text\0\0"
                            "list_files\0";

static struct tokenizer *tokenizer;
static uint32_t byte_ids[256];
/* An answer put together again out of its events. */
struct answer {
    struct buf content, reasoning;
    struct buf names[CALLS_MAX], ids[CALLS_MAX], arguments[CALLS_MAX];
    size_t calls;
    enum output_finish finish;
    uint64_t reasoning_count;
};

static int
tiny_tokenizer_read(void)
{
    struct buf text;

    if (tokenizer_read("tests/models/tiny-chat", &tokenizer, NULL) != STATUS_OK)
        return -1;
    buf_init(&text, OUT_MAX_BYTES);
    for (uint32_t id = 0; id < tokenizer_vocabulary(tokenizer); id++) {
        buf_reset(&text);
        if (tokenizer_append(tokenizer, id, false, &text) && text.size == 1)
            byte_ids[(uint8_t)text.data[0]] = id;
    }
    buf_clear(&text);
    return 0;
}

static void
answer_init(struct answer *answer)
{
    *answer = (struct answer){.calls = 0};
    buf_init(&answer->content, OUT_MAX_BYTES);
    buf_init(&answer->reasoning, OUT_MAX_BYTES);
    for (size_t i = 0; i < CALLS_MAX; i++) {
        buf_init(&answer->names[i], OUT_MAX_BYTES);
        buf_init(&answer->ids[i], OUT_MAX_BYTES);
        buf_init(&answer->arguments[i], OUT_MAX_BYTES);
    }
}

static void
answer_clear(struct answer *answer)
{
    buf_clear(&answer->content);
    buf_clear(&answer->reasoning);
    for (size_t i = 0; i < CALLS_MAX; i++) {
        buf_clear(&answer->names[i]);
        buf_clear(&answer->ids[i]);
        buf_clear(&answer->arguments[i]);
    }
}

static void
answer_take(struct answer *answer, const struct output_events *events)
{
    const char *text = events->text.data;

    for (size_t i = 0; i < events->count; i++) {
        const struct output_event *event = &events->items[i];

        assert_true(event->call < CALLS_MAX);
        switch (event->kind) {
        case OUTPUT_CONTENT:
            buf_append(&answer->content, text, event->size);
            break;
        case OUTPUT_REASONING:
            buf_append(&answer->reasoning, text, event->size);
            break;
        case OUTPUT_CALL:
            assert_int_equal(event->call, answer->calls);
            answer->calls++;
            buf_append(&answer->ids[event->call], text, event->id_size);
            buf_append(&answer->names[event->call], text + event->id_size,
                       event->size - event->id_size);
            break;
        case OUTPUT_ARGUMENTS:
            assert_int_equal(event->call + 1, answer->calls);
            buf_append(&answer->arguments[event->call], text, event->size);
            break;
        }
        text += event->size;
    }
}

static struct output_rules
rules_of(const char *format)
{
    return (struct output_rules){
        .max_tokens = 100000,
        .end_ids = {END_ID},
        .end_id_count = 1,
        .format = format_named(format),
        .calls = true,
        .call_seed = 7,
        .tools = tools,
        .tools_size = sizeof(tools),
    };
}

/* Read a text: a byte an id, or (with @prng) cut anywhere between characters
 * and tokenised piece by piece; then the end id unless @cut. */
static void
read_text(const struct output_rules *rules, const char *text, size_t size,
          struct prng *prng, bool cut, struct answer *answer)
{
    struct output *output = output_new(tokenizer, rules);
    struct output_events events;
    const uint32_t end = END_ID;

    answer_init(answer);
    output_events_init(&events, OUT_MAX_BYTES);
    for (size_t at = 0; at < size;) {
        struct token_ids ids = {0};
        size_t piece = 1;

        if (prng != NULL) {
            piece = 1 + (size_t)prng_below(prng, 9);
            while (at + piece < size &&
                   ((uint8_t)text[at + piece] & 0xc0) == 0x80)
                piece++;
            if (piece > size - at)
                piece = size - at;
            assert_int_equal(tokenizer_encode(tokenizer, text + at, piece,
                                              false, &ids, NULL),
                             STATUS_OK);
        }
        for (size_t i = 0; i < (prng == NULL ? 1 : ids.count); i++) {
            uint32_t id =
                prng == NULL ? byte_ids[(uint8_t)text[at]] : ids.ids[i];

            output_events_reset(&events);
            (void)output_next(output, id, &events);
            answer_take(answer, &events);
        }
        free(ids.ids);
        at += piece;
    }
    output_events_reset(&events);
    if (cut)
        output_flush_events(output, &events);
    else
        (void)output_next(output, end, &events);
    answer_take(answer, &events);
    answer->finish = output_finish(output);
    answer->reasoning_count = output_reasoning_count(output);
    output_events_clear(&events);
    output_free(output);
}

static void
assert_arguments(const struct answer *answer, size_t index,
                 const struct json *wanted)
{
    const struct buf *text = &answer->arguments[index];
    struct json_doc doc = {0};
    struct buf a, b;

    buf_init(&a, OUT_MAX_BYTES);
    buf_init(&b, OUT_MAX_BYTES);
    assert_int_equal(json_doc_parse(text->data, text->size, &doc, NULL),
                     STATUS_OK);
    json_dump(doc.root, &a);
    json_dump(wanted, &b);
    assert_string_equal(a.data, b.data);
    json_doc_clear(&doc);
    buf_clear(&a);
    buf_clear(&b);
}

#endif
