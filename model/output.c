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

#include "common/banned.h"

/* Held back: less than a stop string, and the text of one id. */
enum { HELD_MAX_BYTES = 256 * 1024 };

struct output {
    struct output_rules rules;
    struct detokenizer detokenizer;
    struct buf held; /* may be the front of a stop string */
    uint64_t count;
    enum output_finish finish;
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
    return output;
}

void
output_free(struct output *output)
{
    if (output == NULL)
        return;
    detokenizer_clear(&output->detokenizer);
    buf_clear(&output->held);
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

static void
release(struct output *output, size_t size, struct buf *content)
{
    buf_append(content, output->held.data, size);
    buf_drop_front(&output->held, size);
}

/* Finish at a stop string, if one is there; what follows it is dropped. */
static bool
finish_at_stop(struct output *output, struct buf *content)
{
    size_t begin = 0;

    if (!find_stop(output, &begin))
        return false;
    release(output, begin, content);
    buf_reset(&output->held);
    output->finish = OUTPUT_STOP;
    return true;
}

/* No more text comes: all that is held becomes certain. */
static void
finish_here(struct output *output, enum output_finish finish,
            struct buf *content)
{
    detokenizer_finish(&output->detokenizer, &output->held);
    if (finish_at_stop(output, content))
        return;
    release(output, output->held.size, content);
    output->finish = finish;
}

static void
take(struct output *output, uint32_t id, struct buf *content)
{
    output->count++;
    if (is_end(&output->rules, id)) {
        finish_here(output, OUTPUT_STOP, content);
        return;
    }
    detokenizer_push(&output->detokenizer, id, &output->held);
    if (finish_at_stop(output, content))
        return;
    if (output->count >= output->rules.max_tokens)
        finish_here(output, OUTPUT_LENGTH, content);
    else
        release(output, output->held.size - uncertain(output), content);
}

size_t
output_push(struct output *output, const uint32_t *ids, size_t count,
            struct buf *content)
{
    size_t taken = 0;

    while (taken < count && output->finish == OUTPUT_GOING)
        take(output, ids[taken++], content);
    return taken;
}

void
output_flush(struct output *output, struct buf *content)
{
    release(output, output->held.size, content);
    buf_reset(&output->detokenizer.pending);
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

const char *
output_finish_name(enum output_finish finish)
{
    switch (finish) {
    case OUTPUT_STOP:
        return "stop";
    case OUTPUT_LENGTH:
        return "length";
    case OUTPUT_GOING:
        break;
    }
    return NULL;
}
