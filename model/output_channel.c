/* output_channel.c - answers of several messages, each with a head that says
 * what it is: reasoning, content, or a call of a tool. */
#include <string.h>

#include "model/output_reader_private.h"

#include "common/banned.h"

static const char functions[] = "functions.";

/* --- heads --- */

/* Where in the head @wanted begins; NULL: nowhere. */
static const char *
head_find(const char *head, size_t size, const char *wanted)
{
    size_t wanted_size = strlen(wanted);

    for (size_t at = 0; at + wanted_size <= size; at++)
        if (memcmp(head + at, wanted, wanted_size) == 0)
            return head + at + wanted_size;
    return NULL;
}

static size_t
word_size(const char *word, const char *end)
{
    size_t size = 0;

    while (word + size < end && !reader_is_space(word[size]) &&
           word[size] != '<')
        size++;
    return size;
}

static void
head_take(struct reader *reader, const char *head, size_t size)
{
    const char *end = head + size;
    const char *channel =
        head_find(head, size, reader->format->markers[FORMAT_HEAD_CHANNEL]);
    const char *to = head_find(head, size, "to=");
    size_t to_size = to == NULL ? 0 : word_size(to, end);

    reader->state = READER_TEXT;
    reader->kind = OUTPUT_CONTENT;
    if (channel != NULL && word_size(channel, end) == strlen("analysis") &&
        memcmp(channel, "analysis", strlen("analysis")) == 0)
        reader->kind = OUTPUT_REASONING;
    if (to_size == 0 || !reader->rules->calls)
        return;
    if (to_size > sizeof(functions) - 1 &&
        memcmp(to, functions, sizeof(functions) - 1) == 0) {
        to += sizeof(functions) - 1;
        to_size -= sizeof(functions) - 1;
    }
    buf_reset(&reader->name);
    buf_reset(&reader->id);
    buf_append(&reader->name, to, to_size);
    if (reader->name.overflowed)
        return;
    reader->kind = OUTPUT_ARGUMENTS;
    call_open(reader);
}

/* Whether what is pending may be a head; text without one is content. */
static enum reader_front
head_front(const struct reader *reader)
{
    const enum reader_front fronts[] = {
        reader_front_role(reader, 0, FORMAT_HEAD_OPEN),
        reader_front_role(reader, 0, FORMAT_HEAD_CHANNEL),
        reader_front(reader, 0, " to="),
        reader_front(reader, 0, "to="),
    };
    enum reader_front best = FRONT_NO;

    for (size_t i = 0; i < COUNT_OF(fronts); i++)
        if (fronts[i] > best)
            best = fronts[i];
    return best;
}

static void
content_begin(struct reader *reader)
{
    reader->kind = OUTPUT_CONTENT;
    reader->state = READER_TEXT;
}

bool
channel_head_step(struct reader *reader)
{
    enum format_role role = FORMAT_ROLE_COUNT;
    size_t at = 0;

    switch (head_front(reader)) {
    case FRONT_PART:
        return false;
    case FRONT_NO:
        content_begin(reader);
        return true;
    case FRONT_YES:
        break;
    }
    if (reader_find(reader, ROLE(FORMAT_HEAD_CLOSE), &at, &role) &&
        at + reader_role_size(reader, role) <= READER_HEAD_MAX_BYTES) {
        head_take(reader, reader->pending.data, at);
        reader_drop(reader, at + reader_role_size(reader, role));
        return true;
    }
    if (reader->pending.size < READER_HEAD_MAX_BYTES)
        return false;
    reader_say(reader, reader->pending.data, 1);
    reader_drop(reader, 1);
    content_begin(reader);
    return true;
}

/* --- texts --- */

static void
text_take(struct reader *reader, size_t size)
{
    if (reader->kind == OUTPUT_ARGUMENTS)
        call_arguments(reader, reader->pending.data, size);
    else
        output_events_add(reader->to, reader->kind, 0, reader->pending.data,
                          size);
    reader_drop(reader, size);
}

bool
channel_text_step(struct reader *reader)
{
    const unsigned roles = ROLE(FORMAT_TEXT_CLOSE) | ROLE(FORMAT_CALL_CLOSE) |
                           ROLE(FORMAT_HEAD_OPEN);
    enum format_role role = FORMAT_ROLE_COUNT;
    size_t at = 0;

    if (!reader_find(reader, roles, &at, &role)) {
        text_take(reader,
                  reader->pending.size - reader_uncertain(reader, roles));
        return false;
    }
    text_take(reader, at);
    if (role != FORMAT_HEAD_OPEN)
        reader_drop(reader, reader_role_size(reader, role));
    reader->is_open = false;
    reader->state = READER_HEAD;
    return true;
}

void
channel_end(struct reader *reader)
{
    if (reader->state == READER_HEAD)
        reader->kind = OUTPUT_CONTENT;
    text_take(reader, reader->pending.size);
    reader->is_open = false;
}
