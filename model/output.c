/* output.c - which text of the ids is certain, and when it is over.
 *
 * Ids are looked at one by one, so the result cannot depend on how they were
 * cut into pushes. */
#include "model/output.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "model/detokenizer.h"
#include "model/output_reader.h"

#include "common/banned.h"

/* Held back: less than a stop string, and the text of one id. */
enum { HELD_MAX_BYTES = 256 * 1024 };

/* A special token before the byte @at of what is held.  Stop strings are looked
 * for in the text without it, as the engine does that knows no formats. */
struct special {
    size_t at;
    uint32_t id;
};

struct output {
    struct output_rules rules;
    struct detokenizer detokenizer;
    struct buf held; /* may be the front of a stop string */
    struct special *specials;
    size_t special_count, special_room;
    struct reader *reader; /* NULL: all is content */
    char *prefix;          /* read before the first id; NULL: nothing (more) */
    uint64_t count;
    uint64_t reasoning_count;
    enum output_finish finish;
};

/* Where certain text goes. */
struct sink {
    struct buf *content;          /* of output_push */
    struct output_events *events; /* of output_next */
};

struct output *
output_new(const struct tokenizer *tokenizer, const struct output_rules *rules)
{
    struct output *output = mem_alloc(sizeof(*output));

    assert(rules->max_tokens > 0);
    assert(rules->end_id_count <= COUNT_OF(rules->end_ids));
    assert(rules->stop_count <= OUTPUT_STOPS_MAX);
    output->rules = *rules;
    detokenizer_init(&output->detokenizer, tokenizer);
    buf_init(&output->held, HELD_MAX_BYTES);
    if (rules->format != NULL)
        output->reader = reader_new(&output->rules);
    if (rules->prefix != NULL)
        output->prefix = mem_text(rules->prefix);
    output->rules.tools = NULL; /* they are copied */
    output->rules.prefix = NULL;
    return output;
}

void
output_free(struct output *output)
{
    if (output == NULL)
        return;
    detokenizer_clear(&output->detokenizer);
    buf_clear(&output->held);
    free(output->specials);
    reader_free(output->reader);
    free(output->prefix);
    free(output);
}

static bool
is_end(const struct output_rules *rules, uint32_t id)
{
    for (size_t i = 0; i < rules->end_id_count; i++) {
        if (rules->end_ids[i] == id)
            return true;
    }
    return false;
}

static const char *
find_text(const char *text, size_t size, const char *wanted, size_t wanted_size)
{
    const char *end = text + size;

    while ((size_t)(end - text) >= wanted_size) {
        text = memchr(text, wanted[0], (size_t)(end - text) - wanted_size + 1);
        if (text == NULL)
            return NULL;
        if (memcmp(text, wanted, wanted_size) == 0)
            return text;
        text++;
    }
    return NULL;
}

/* Where the first stop string begins in what is held. */
static bool
find_stop(const struct output *output, size_t *begin)
{
    const struct buf *held = &output->held;
    size_t first = SIZE_MAX;

    for (size_t i = 0; i < output->rules.stop_count; i++) {
        const char *stop = output->rules.stop[i];
        size_t size = strlen(stop);
        const char *found =
            size == 0 ? NULL : find_text(held->data, held->size, stop, size);

        if (found != NULL && (size_t)(found - held->data) < first)
            first = (size_t)(found - held->data);
    }
    *begin = first;
    return first != SIZE_MAX;
}

/* How many bytes at the end of what is held may begin a stop string. */
static size_t
uncertain(const struct output *output)
{
    const struct buf *held = &output->held;
    size_t longest = 0;

    for (size_t i = 0; i < output->rules.stop_count; i++) {
        const char *stop = output->rules.stop[i];
        size_t size = strlen(stop);
        size_t most = size == 0 ? 0 : size - 1;

        if (most > held->size)
            most = held->size;
        for (size_t tail = most; tail > longest; tail--) {
            if (memcmp(held->data + held->size - tail, stop, tail) == 0)
                longest = tail;
        }
    }
    return longest;
}

/* --- certain text --- */

static void
emit(const struct output *output, const char *text, size_t size,
     const struct sink *sink)
{
    if (size == 0)
        return;
    if (sink->events == NULL)
        buf_append(sink->content, text, size);
    else if (output->reader != NULL)
        reader_push(output->reader, text, size, sink->events);
    else
        output_events_add(sink->events, OUTPUT_CONTENT, 0, text, size);
}

/* A special token is text only where the format knows it. */
static void
emit_special(const struct output *output, uint32_t id, const struct sink *sink)
{
    struct buf text;

    if (sink->events == NULL || output->reader == NULL)
        return;
    buf_init(&text, HELD_MAX_BYTES);
    (void)tokenizer_append(output->detokenizer.tokenizer, id, true, &text);
    if (reader_knows(output->reader, text.data, text.size))
        reader_push(output->reader, text.data, text.size, sink->events);
    buf_clear(&text);
}

static void
release(struct output *output, size_t size, const struct sink *sink)
{
    size_t from = 0, taken = 0;

    while (taken < output->special_count &&
           output->specials[taken].at <= size) {
        const struct special *special = &output->specials[taken++];

        emit(output, output->held.data + from, special->at - from, sink);
        from = special->at;
        emit_special(output, special->id, sink);
    }
    emit(output, output->held.data + from, size - from, sink);
    output->special_count -= taken;
    for (size_t i = 0; i < output->special_count; i++) {
        output->specials[i] = output->specials[i + taken];
        output->specials[i].at -= size;
    }
    buf_drop_front(&output->held, size);
}

/* --- the end --- */

/* @whole: the model ended by itself. */
static void
conclude(struct output *output, enum output_finish finish, bool whole,
         const struct sink *sink)
{
    output->finish = finish;
    buf_reset(&output->held);
    output->special_count = 0;
    if (output->reader == NULL || sink->events == NULL)
        return;
    reader_end(output->reader, whole, sink->events);
    if (finish == OUTPUT_STOP && reader_calls(output->reader) > 0)
        output->finish = OUTPUT_CALLS;
}

/* Finish at a stop string, if one is there; what follows it is dropped. */
static bool
finish_at_stop(struct output *output, const struct sink *sink)
{
    size_t begin = 0;

    if (!find_stop(output, &begin))
        return false;
    release(output, begin, sink);
    conclude(output, OUTPUT_STOP, false, sink);
    return true;
}

/* No more text comes: all that is held becomes certain. */
static void
finish_here(struct output *output, enum output_finish finish,
            const struct sink *sink)
{
    detokenizer_finish(&output->detokenizer, &output->held);
    if (finish_at_stop(output, sink))
        return;
    release(output, output->held.size, sink);
    conclude(output, finish, finish == OUTPUT_STOP, sink);
}

/* --- ids --- */

static void
hold_special(struct output *output, uint32_t id)
{
    if (output->special_count == output->special_room) {
        output->special_room = output->special_room * 2 + 8;
        output->specials = mem_grow(output->specials, output->special_room,
                                    sizeof(*output->specials));
    }
    output->specials[output->special_count++] =
        (struct special){.at = output->held.size, .id = id};
}

static void
take(struct output *output, uint32_t id, const struct sink *sink)
{
    output->count++;
    if (is_end(&output->rules, id)) {
        finish_here(output, OUTPUT_STOP, sink);
        return;
    }
    if (output->reader != NULL &&
        tokenizer_is_special(output->detokenizer.tokenizer, id))
        hold_special(output, id);
    detokenizer_push(&output->detokenizer, id, &output->held);
    if (finish_at_stop(output, sink))
        return;
    if (output->count >= output->rules.max_tokens)
        finish_here(output, OUTPUT_LENGTH, sink);
    else
        release(output, output->held.size - uncertain(output), sink);
}

size_t
output_push(struct output *output, const uint32_t *ids, size_t count,
            struct buf *content)
{
    const struct sink sink = {.content = content};
    size_t taken = 0;

    while (taken < count && output->finish == OUTPUT_GOING)
        take(output, ids[taken++], &sink);
    return taken;
}

void
output_flush(struct output *output, struct buf *content)
{
    const struct sink sink = {.content = content};

    release(output, output->held.size, &sink);
    buf_reset(&output->detokenizer.pending);
}

bool
output_next(struct output *output, uint32_t id, struct output_events *events)
{
    const struct sink sink = {.events = events};
    bool thinks;

    if (output->finish != OUTPUT_GOING)
        return false;
    if (output->prefix != NULL && output->reader != NULL)
        reader_push(output->reader, output->prefix, strlen(output->prefix),
                    events);
    free(output->prefix);
    output->prefix = NULL;
    thinks = output->reader != NULL && reader_thinks(output->reader);
    take(output, id, &sink);
    if (output->reader == NULL)
        return true;
    if (thinks || reader_thinks(output->reader))
        output->reasoning_count++;
    if (output->finish == OUTPUT_GOING && output->rules.one_call &&
        reader_has_whole_call(output->reader))
        conclude(output, OUTPUT_STOP, true, &sink);
    return true;
}

void
output_flush_events(struct output *output, struct output_events *events)
{
    const struct sink sink = {.events = events};

    release(output, output->held.size, &sink);
    buf_reset(&output->detokenizer.pending);
    if (output->reader != NULL && output->finish == OUTPUT_GOING)
        reader_end(output->reader, false, events);
}

enum output_finish
output_finish(const struct output *output)
{
    return output->finish;
}

uint64_t
output_count(const struct output *output)
{
    return output->count;
}

uint64_t
output_reasoning_count(const struct output *output)
{
    return output->reasoning_count;
}

const char *
output_finish_name(enum output_finish finish)
{
    switch (finish) {
    case OUTPUT_STOP:
        return "stop";
    case OUTPUT_LENGTH:
        return "length";
    case OUTPUT_CALLS:
        return "tool_calls";
    case OUTPUT_GOING:
        break;
    }
    return NULL;
}
