/* output_reader.c - content, reasoning, and the way to calls and back.
 *
 * Text is taken into @pending; a step looks at its front, emits what is certain
 * and may change the state.  White space next to a marker belongs to the
 * format, not to what it separates. */
#include "model/output_reader.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "model/output_reader_private.h"

#include "common/banned.h"

enum { SPACE_MAX_BYTES = 64 * 1024 };

/* --- making one --- */

struct reader *
reader_new(const struct output_rules *rules)
{
    struct reader *reader = mem_alloc(sizeof(*reader));

    reader->rules = rules;
    reader->format = rules->format;
    if (rules->tools_size > 0) {
        reader->tools = mem_copy(rules->tools, rules->tools_size);
        reader->tools_size = rules->tools_size;
    }
    buf_init(&reader->pending, READER_PENDING_MAX_BYTES);
    buf_init(&reader->raw, READER_PENDING_MAX_BYTES);
    buf_init(&reader->name, READER_NAME_MAX_BYTES);
    buf_init(&reader->id, READER_HEAD_MAX_BYTES);
    buf_init(&reader->key, READER_HEAD_MAX_BYTES);
    buf_init(&reader->value, READER_PENDING_MAX_BYTES);
    buf_init(&reader->arguments, READER_PENDING_MAX_BYTES);
    if (reader->format->syntax == FORMAT_CHANNELS)
        reader->state = READER_HEAD;
    else if (rules->thinks)
        reader->state = READER_REASONING;
    reader->strips = rules->thinks;
    return reader;
}

void
reader_free(struct reader *reader)
{
    if (reader == NULL)
        return;
    free(reader->tools);
    buf_clear(&reader->pending);
    buf_clear(&reader->raw);
    buf_clear(&reader->name);
    buf_clear(&reader->id);
    buf_clear(&reader->key);
    buf_clear(&reader->value);
    buf_clear(&reader->arguments);
    free(reader);
}

/* --- looking --- */

bool
reader_is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

enum reader_front
reader_front(const struct reader *reader, size_t at, const char *wanted)
{
    size_t size = strlen(wanted);
    size_t there = reader->pending.size - at;

    if (there >= size)
        return memcmp(reader->pending.data + at, wanted, size) == 0 ? FRONT_YES
                                                                    : FRONT_NO;
    return memcmp(reader->pending.data + at, wanted, there) == 0 ? FRONT_PART
                                                                 : FRONT_NO;
}

enum reader_front
reader_front_role(const struct reader *reader, size_t at, enum format_role role)
{
    const char *marker = reader->format->markers[role];

    return marker == NULL ? FRONT_NO : reader_front(reader, at, marker);
}

size_t
reader_role_size(const struct reader *reader, enum format_role role)
{
    return strlen(reader->format->markers[role]);
}

bool
reader_find(const struct reader *reader, unsigned roles, size_t *at,
            enum format_role *role)
{
    for (size_t i = 0; i < reader->pending.size; i++) {
        for (int r = 0; r < FORMAT_ROLE_COUNT; r++) {
            if ((roles & ROLE(r)) == 0 ||
                reader_front_role(reader, i, (enum format_role)r) != FRONT_YES)
                continue;
            *at = i;
            *role = (enum format_role)r;
            return true;
        }
    }
    return false;
}

size_t
reader_uncertain(const struct reader *reader, unsigned roles)
{
    for (size_t i = 0; i < reader->pending.size; i++)
        for (int r = 0; r < FORMAT_ROLE_COUNT; r++)
            if ((roles & ROLE(r)) != 0 &&
                reader_front_role(reader, i, (enum format_role)r) == FRONT_PART)
                return reader->pending.size - i;
    return 0;
}

void
reader_pass(struct reader *reader, size_t size)
{
    buf_append(&reader->raw, reader->pending.data, size);
    buf_drop_front(&reader->pending, size);
}

void
reader_drop(struct reader *reader, size_t size)
{
    buf_drop_front(&reader->pending, size);
}

bool
reader_skip_space(struct reader *reader)
{
    size_t size = 0;

    while (size < reader->pending.size &&
           reader_is_space(reader->pending.data[size]))
        size++;
    reader_pass(reader, size);
    return reader->pending.size > 0;
}

bool
reader_knows(const struct reader *reader, const char *text, size_t size)
{
    const struct format_tags *tags = reader->format->tags;
    const char *const inside[] = {
        tags == NULL ? "" : tags->key_open,
        tags == NULL ? "" : tags->key_close,
        tags == NULL ? "" : tags->value_open,
        tags == NULL ? "" : tags->value_close,
    };

    for (int r = 0; r < FORMAT_ROLE_COUNT; r++) {
        const char *marker = reader->format->markers[r];
        bool of_calls = r >= FORMAT_CALLS_OPEN && r <= FORMAT_CALL_CLOSE;

        if (marker != NULL && (!of_calls || reader->rules->calls) &&
            strlen(marker) == size && memcmp(marker, text, size) == 0)
            return true;
    }
    for (size_t i = 0; reader->rules->calls && i < COUNT_OF(inside); i++)
        if (size > 0 && strlen(inside[i]) == size &&
            memcmp(inside[i], text, size) == 0)
            return true;
    return false;
}

/* --- content --- */

void
reader_say(struct reader *reader, const char *text, size_t size)
{
    if (size == 0)
        return;
    reader->said = true;
    output_events_add(reader->to, OUTPUT_CONTENT, 0, text, size);
}

void
reader_give_up(struct reader *reader)
{
    reader_say(reader, reader->raw.data, reader->raw.size);
    buf_reset(&reader->raw);
}

/* Text of content or reasoning; the white space at its end waits in @raw for
 * what follows it. */
static void
text_take(struct reader *reader, size_t size, enum output_kind kind)
{
    const char *text = reader->pending.data;
    size_t begin = 0, end = size;

    while (reader->strips && begin < size && reader_is_space(text[begin]))
        begin++;
    if (begin < size)
        reader->strips = false;
    while (end > begin && reader_is_space(text[end - 1]))
        end--;
    if (end > begin || reader->raw.size > SPACE_MAX_BYTES) {
        output_events_add(reader->to, kind, 0, reader->raw.data,
                          reader->raw.size);
        buf_reset(&reader->raw);
        output_events_add(reader->to, kind, 0, text + begin, end - begin);
        if (kind == OUTPUT_CONTENT)
            reader->said = true;
    }
    buf_append(&reader->raw, text + end, size - end);
    reader_drop(reader, size);
}

/* A call that begins without a marker; false: it does not. */
static bool
bare_call(struct reader *reader, bool *waits)
{
    size_t at = 0;

    *waits = false;
    if (!reader->format->bare || !reader->rules->calls || reader->said ||
        reader->calls > 0)
        return false;
    while (at < reader->pending.size &&
           reader_is_space(reader->pending.data[at]))
        at++;
    *waits = at == reader->pending.size && at < SPACE_MAX_BYTES;
    if (at == reader->pending.size || reader->pending.data[at] != '{')
        return false;
    reader_pass(reader, at);
    call_begin(reader);
    reader->is_bare = true;
    return true;
}

static bool
content_step(struct reader *reader)
{
    unsigned roles = reader->said ? 0 : ROLE(FORMAT_THINK_OPEN);
    enum format_role role = FORMAT_ROLE_COUNT;
    size_t at = 0;
    bool waits = false;

    if (reader->rules->calls)
        roles |= ROLE(FORMAT_CALLS_OPEN) | ROLE(FORMAT_CALL_OPEN);
    if (bare_call(reader, &waits))
        return true;
    if (waits)
        return false;
    if (!reader_find(reader, roles, &at, &role)) {
        text_take(reader,
                  reader->pending.size - reader_uncertain(reader, roles),
                  OUTPUT_CONTENT);
        return false;
    }
    text_take(reader, at, OUTPUT_CONTENT);
    if (role == FORMAT_THINK_OPEN && !reader->said) {
        buf_reset(&reader->raw);
        reader_drop(reader, reader_role_size(reader, role));
        reader->state = READER_REASONING;
        reader->strips = true;
        return true;
    }
    if (role == FORMAT_THINK_OPEN) { /* text came before it */
        reader_pass(reader, reader_role_size(reader, role));
        reader_give_up(reader);
        return true;
    }
    reader_pass(reader, reader_role_size(reader, role));
    if (role == FORMAT_CALLS_OPEN)
        reader->state = READER_BETWEEN;
    else
        call_begin(reader);
    return true;
}

/* --- reasoning --- */

static bool
reasoning_step(struct reader *reader)
{
    unsigned roles = ROLE(FORMAT_THINK_CLOSE);
    enum format_role role = FORMAT_ROLE_COUNT;
    size_t at = 0;

    if (reader->rules->calls) /* some begin their calls without closing it */
        roles |= ROLE(FORMAT_CALLS_OPEN);
    if (!reader_find(reader, roles, &at, &role)) {
        text_take(reader,
                  reader->pending.size - reader_uncertain(reader, roles),
                  OUTPUT_REASONING);
        return false;
    }
    text_take(reader, at, OUTPUT_REASONING);
    buf_reset(&reader->raw);
    if (role == FORMAT_CALLS_OPEN) {
        reader_pass(reader, reader_role_size(reader, role));
        reader->state = READER_BETWEEN;
    } else {
        reader_drop(reader, reader_role_size(reader, role));
        reader->state = READER_CONTENT;
    }
    reader->strips = true;
    return true;
}

/* --- between calls --- */

/* Whether this role's marker is at the front; it is passed by. */
static enum reader_front
front_pass(struct reader *reader, enum format_role role)
{
    enum reader_front front = reader_front_role(reader, 0, role);

    if (front == FRONT_YES)
        reader_pass(reader, reader_role_size(reader, role));
    return front;
}

/* Behind a call: what separates it from the next, also in a list. */
static bool
is_between(char c)
{
    return reader_is_space(c) || c == ',' || c == ';' || c == ']' || c == '`';
}

/* Whether all that passed by behind a call belongs to the format. */
static bool
is_separator(const struct reader *reader)
{
    bool in_list = reader->is_list;

    for (size_t i = 0; i < reader->raw.size; i++) {
        char c = reader->raw.data[i];

        if (!reader_is_space(c) && !(in_list && c == ']'))
            return false;
        in_list = in_list && c != ']';
    }
    return reader->calls > 0;
}

static bool
between_step(struct reader *reader)
{
    static const enum format_role roles[] = {
        FORMAT_CALL_OPEN, FORMAT_CALL_CLOSE, FORMAT_CALLS_OPEN,
        FORMAT_CALLS_CLOSE};
    bool waits = false;
    size_t skipped = 0;

    while (skipped < reader->pending.size &&
           (reader->calls > 0 ? is_between(reader->pending.data[skipped])
                              : reader_is_space(reader->pending.data[skipped])))
        skipped++;
    reader_pass(reader, skipped);
    if (reader->pending.size == 0)
        return false;
    for (size_t i = 0; i < COUNT_OF(roles); i++) {
        enum reader_front front = front_pass(reader, roles[i]);

        waits = waits || front == FRONT_PART;
        if (front != FRONT_YES)
            continue;
        if (roles[i] == FORMAT_CALL_OPEN)
            call_begin(reader);
        else if (roles[i] != FORMAT_CALLS_OPEN && reader->calls > 0)
            buf_reset(&reader->raw);
        return true;
    }
    if (waits)
        return false;
    if (reader->calls > 0 && reader->pending.data[0] == '{' &&
        reader->format->syntax != FORMAT_TAGS) {
        call_begin(reader);
        return true;
    }
    if (is_separator(reader))
        buf_reset(&reader->raw);
    reader_give_up(reader);
    reader->state = READER_CONTENT;
    reader->strips = false;
    return true;
}

/* --- together --- */

static bool
step(struct reader *reader)
{
    switch (reader->state) {
    case READER_CONTENT:
        return content_step(reader);
    case READER_REASONING:
        return reasoning_step(reader);
    case READER_BETWEEN:
        return between_step(reader);
    case READER_CALL:
        return call_step(reader);
    case READER_HEAD:
        return channel_head_step(reader);
    case READER_TEXT:
        return channel_text_step(reader);
    }
    return false;
}

static void
take(struct reader *reader, const char *text, size_t size)
{
    buf_append(&reader->pending, text, size);
    while (reader->pending.size > 0 && step(reader))
        ;
}

/* The uncertain part is bounded, and so is what is taken at once. */
void
reader_push(struct reader *reader, const char *text, size_t size,
            struct output_events *events)
{
    enum { PIECE_BYTES = 64 * 1024 };

    reader->to = events;
    for (size_t at = 0; at < size; at += PIECE_BYTES)
        take(reader, text + at,
             size - at < PIECE_BYTES ? size - at : PIECE_BYTES);
    reader->to = NULL;
}

static void
end_text(struct reader *reader, enum output_kind kind)
{
    text_take(reader, reader->pending.size, kind);
    if (kind == OUTPUT_CONTENT)
        reader_give_up(reader);
    buf_reset(&reader->raw);
}

static void
end_between(struct reader *reader)
{
    if (reader->pending.size > 0 || reader->calls == 0) {
        reader_pass(reader, reader->pending.size);
        reader_give_up(reader);
    }
    buf_reset(&reader->raw);
}

void
reader_end(struct reader *reader, bool whole, struct output_events *events)
{
    reader->to = events;
    switch (reader->state) {
    case READER_CONTENT:
        end_text(reader, OUTPUT_CONTENT);
        break;
    case READER_REASONING:
        end_text(reader, OUTPUT_REASONING);
        break;
    case READER_BETWEEN:
        end_between(reader);
        break;
    case READER_CALL:
        call_end_here(reader, whole);
        break;
    case READER_HEAD:
    case READER_TEXT:
        channel_end(reader);
        break;
    }
    buf_reset(&reader->pending);
    reader->to = NULL;
}

bool
reader_thinks(const struct reader *reader)
{
    return reader->state == READER_REASONING ||
           (reader->state == READER_TEXT && reader->kind == OUTPUT_REASONING);
}

uint32_t
reader_calls(const struct reader *reader)
{
    return reader->calls;
}

bool
reader_has_whole_call(const struct reader *reader)
{
    return reader->calls > 0 && !reader->is_open;
}
