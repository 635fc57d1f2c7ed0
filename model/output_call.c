/* output_call.c - a tool call: its begin, its header, its arguments. */
#include <string.h>

#include "common/json.h"
#include "common/prng.h"
#include "model/output_reader_private.h"

#include "common/banned.h"

enum {
    ID_DRAWN_CHARACTERS = 24,
    ID_NINE_CHARACTERS = 9,
};

void
call_begin(struct reader *reader)
{
    reader->state = READER_CALL;
    reader->part = PART_BEGIN;
    reader->place = OBJECT_BEGIN;
    reader->walk = (struct json_walk){.depth = 0};
    reader->is_bare = false;
    reader->is_named = false;
    reader->is_fenced = false;
    reader->has_arguments = false;
    reader->is_first = true;
    buf_reset(&reader->name);
    buf_reset(&reader->id);
    buf_reset(&reader->key);
    buf_reset(&reader->value);
    buf_reset(&reader->arguments);
}

/* It is no call: what it said is content. */
static bool
fail(struct reader *reader)
{
    reader_give_up(reader);
    reader->state = READER_CONTENT;
    return true;
}

/* --- the tools of the request --- */

/* The list of a tool behind its name; NULL: there is no such tool. */
static const char *
tool_members(const struct reader *reader, const char *name)
{
    const char *at = reader->tools;
    const char *end = at == NULL ? NULL : at + reader->tools_size;

    while (at != end) {
        const char *members = at + strlen(at) + 1;

        if (strcmp(at, name) == 0)
            return members;
        while (members != end && *members != '\0')
            members += strlen(members) + 1;
        at = members == end ? end : members + 1;
    }
    return NULL;
}

bool
call_tool_is_known(const struct reader *reader, const char *name)
{
    return tool_members(reader, name) != NULL;
}

bool
call_member_is_text(const struct reader *reader)
{
    const char *member = tool_members(reader, reader->name.data);

    while (member != NULL && *member != '\0') {
        if (strcmp(member, reader->key.data) == 0)
            return true;
        member += strlen(member) + 1;
    }
    return false;
}

/* --- its events --- */

/* Characters out of the request's seed and the call's number. */
static void
id_draw(const struct reader *reader, size_t characters, struct buf *id)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    struct prng prng;
    uint64_t seed;

    prng_seed(&prng, reader->rules->call_seed);
    seed = prng_next(&prng);
    prng_seed(&prng, seed + reader->calls);
    for (size_t i = 0; i < characters; i++)
        buf_append_char(id, letters[prng_below(&prng, sizeof(letters) - 1)]);
}

static bool
is_nine(const struct buf *id)
{
    if (id->size != ID_NINE_CHARACTERS)
        return false;
    for (size_t i = 0; i < id->size; i++) {
        char c = id->data[i];

        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
              (c >= 'A' && c <= 'Z')))
            return false;
    }
    return true;
}

static void
id_settle(struct reader *reader)
{
    struct buf *id = &reader->id;

    if (reader->format->id == FORMAT_ID_OWN && id->size > 0)
        return;
    if (reader->format->id == FORMAT_ID_NINE) {
        if (is_nine(id))
            return;
        buf_reset(id);
        id_draw(reader, ID_NINE_CHARACTERS, id);
        return;
    }
    buf_reset(id);
    buf_append_text(id, "call_");
    id_draw(reader, ID_DRAWN_CHARACTERS, id);
}

void
call_open(struct reader *reader)
{
    id_settle(reader);
    output_events_add_call(reader->to, reader->calls, reader->id.data,
                           reader->id.size, reader->name.data,
                           reader->name.size);
    reader->calls++;
    reader->is_open = true;
    buf_reset(&reader->raw);
}

void
call_arguments(struct reader *reader, const char *text, size_t size)
{
    output_events_add(reader->to, OUTPUT_ARGUMENTS, reader->calls - 1, text,
                      size);
}

void
call_close(struct reader *reader)
{
    reader->is_open = false;
    reader->state = READER_BETWEEN;
    buf_reset(&reader->raw);
}

/* --- walking over a JSON value --- */

static bool
ends_scalar(char c)
{
    return c == ',' || c == '}' || c == ']' || reader_is_space(c);
}

enum walk_step
call_walk(struct json_walk *walk, char c)
{
    if (walk->in_text) {
        if (walk->escaped)
            walk->escaped = false;
        else if (c == '\\')
            walk->escaped = true;
        else if (c == '"')
            walk->in_text = false;
        return walk->in_text || walk->depth > 0 ? WALK_GOES_ON : WALK_ENDS;
    }
    if (walk->begun && walk->depth == 0 && ends_scalar(c))
        return WALK_ENDED_BEFORE;
    walk->begun = true;
    if (c == '"') {
        walk->in_text = true;
    } else if (c == '{' || c == '[') {
        walk->depth++;
    } else if ((c == '}' || c == ']') && walk->depth > 0) {
        walk->depth--;
        return walk->depth == 0 ? WALK_ENDS : WALK_GOES_ON;
    }
    return WALK_GOES_ON;
}

/* --- header and arguments --- */

static void
trim(const char **text, size_t *size)
{
    while (*size > 0 && reader_is_space((*text)[0])) {
        (*text)++;
        (*size)--;
    }
    while (*size > 0 && reader_is_space((*text)[*size - 1]))
        (*size)--;
}

/* "functions.NAME:0": the name is in the middle of such an id. */
static void
name_of_id(struct reader *reader, const char *text, size_t size)
{
    static const char front[] = "functions.";
    size_t digits = size;

    buf_append(&reader->id, text, size);
    if (size >= sizeof(front) - 1 &&
        memcmp(text, front, sizeof(front) - 1) == 0) {
        text += sizeof(front) - 1;
        size -= sizeof(front) - 1;
        digits = size;
    }
    while (digits > 0 && text[digits - 1] >= '0' && text[digits - 1] <= '9')
        digits--;
    if (digits < size && digits > 0 && text[digits - 1] == ':')
        size = digits - 1;
    buf_append(&reader->name, text, size);
}

static void
header_take(struct reader *reader, const char *text, size_t size)
{
    const char *marker = reader->format->markers[FORMAT_CALL_ID];
    size_t marker_size = marker == NULL ? 0 : strlen(marker);

    trim(&text, &size);
    if (reader->format->id == FORMAT_ID_OWN) {
        name_of_id(reader, text, size);
        return;
    }
    for (size_t at = 0; marker != NULL && at + marker_size <= size; at++) {
        if (memcmp(text + at, marker, marker_size) != 0)
            continue;
        buf_append(&reader->id, text + at + marker_size,
                   size - at - marker_size);
        size = at;
    }
    buf_append(&reader->name, text, size);
}

static bool
header_step(struct reader *reader)
{
    const unsigned roles = ROLE(FORMAT_CALL_MIDDLE) | ROLE(FORMAT_CALL_CLOSE) |
                           ROLE(FORMAT_CALL_OPEN);
    const struct buf *pending = &reader->pending;
    enum format_role role = FORMAT_ROLE_COUNT;
    size_t at = pending->size;
    bool is_whole = reader_find(reader, roles, &at, &role);

    if (memchr(pending->data, '\n', at) != NULL)
        return fail(reader);
    if (!is_whole)
        return pending->size < READER_HEAD_MAX_BYTES ? false : fail(reader);
    if (role != FORMAT_CALL_MIDDLE ||
        at + reader_role_size(reader, role) > READER_HEAD_MAX_BYTES)
        return fail(reader);
    header_take(reader, pending->data, at);
    reader_pass(reader, at + reader_role_size(reader, role));
    reader->part = PART_FENCE;
    return true;
}

/* A name on a line of its own, then a fence of JSON: the header was but the
 * type of the call. */
static bool
fence_begin(struct reader *reader)
{
    const char *line = reader->pending.data;
    const char *end = memchr(line, '\n', reader->pending.size);
    size_t size = end == NULL ? 0 : (size_t)(end - line);

    if (strcmp(reader->name.data, "function") != 0)
        return fail(reader);
    if (end == NULL && reader->pending.size < READER_NAME_MAX_BYTES)
        return false;
    if (end == NULL || size >= READER_NAME_MAX_BYTES)
        return fail(reader);
    buf_reset(&reader->name);
    trim(&line, &size);
    buf_append(&reader->name, line, size);
    reader_pass(reader, (size_t)(end - reader->pending.data) + 1);
    reader->is_fenced = true;
    return true;
}

static bool
fence_step(struct reader *reader)
{
    enum reader_front close;
    char c;

    if (!reader_skip_space(reader))
        return false;
    close = reader_front_role(reader, 0, FORMAT_CALL_CLOSE);
    c = reader->pending.data[0];
    if (close == FRONT_PART)
        return false;
    if (reader->name.size == 0 || reader->name.overflowed)
        return fail(reader);
    if (c == '{' || close == FRONT_YES) {
        call_open(reader);
        reader->part = PART_ARGUMENTS;
        if (close != FRONT_YES)
            return true;
        call_arguments(reader, "{}", 2);
        call_close(reader);
        return true;
    }
    if (!reader->is_fenced)
        return fence_begin(reader);
    if (strchr("`json", c) == NULL)
        return fail(reader);
    reader_pass(reader, 1);
    return true;
}

/* Arguments as they come, to the end of the value or, where that is damaged,
 * to the marker behind them. */
static bool
arguments_step(struct reader *reader)
{
    const struct buf *pending = &reader->pending;
    size_t at = 0;
    enum walk_step step = WALK_GOES_ON;

    while (at < pending->size && step == WALK_GOES_ON) {
        enum reader_front close =
            reader->walk.in_text
                ? FRONT_NO
                : reader_front_role(reader, at, FORMAT_CALL_CLOSE);

        if (close == FRONT_PART)
            break;
        step = close == FRONT_YES ? WALK_ENDED_BEFORE
                                  : call_walk(&reader->walk, pending->data[at]);
        if (step != WALK_ENDED_BEFORE)
            at++;
    }
    call_arguments(reader, pending->data, at);
    reader_drop(reader, at);
    if (step == WALK_GOES_ON)
        return false;
    call_close(reader);
    return true;
}

/* --- together --- */

/* What the first character says about the way a call is written. */
static bool
begin_step(struct reader *reader)
{
    if (!reader_skip_space(reader))
        return reader->raw.size < READER_RAW_MAX_BYTES ? false : fail(reader);
    if (reader->pending.data[0] == '[') { /* a list of calls */
        reader_pass(reader, 1);
        reader->is_list = true;
        return true;
    }
    if (reader->pending.data[0] == '{')
        reader->part = PART_OBJECT;
    else if (reader->format->syntax == FORMAT_HEADER)
        reader->part = PART_HEADER;
    else if (reader->format->syntax == FORMAT_TAGS)
        reader->part = PART_NAME;
    else
        return fail(reader);
    return true;
}

bool
call_step(struct reader *reader)
{
    switch (reader->part) {
    case PART_BEGIN:
        return begin_step(reader);
    case PART_OBJECT:
        return call_object_step(reader)                  ? true
               : reader->raw.size < READER_RAW_MAX_BYTES ? false
                                                         : fail(reader);
    case PART_HEADER:
        return header_step(reader);
    case PART_FENCE:
        return fence_step(reader);
    case PART_ARGUMENTS:
        return arguments_step(reader);
    case PART_NAME:
    case PART_KEY:
    case PART_VALUE_OPEN:
    case PART_VALUE:
        return call_tags_step(reader);
    }
    return false;
}

void
call_end_here(struct reader *reader, bool whole)
{
    if (!reader->is_open) {
        reader_pass(reader, reader->pending.size);
        reader_give_up(reader);
        return;
    }
    if (reader->part == PART_ARGUMENTS ||
        (reader->part == PART_OBJECT && reader->is_streamed))
        call_arguments(reader, reader->pending.data, reader->pending.size);
    if (reader->part >= PART_NAME && whole)
        call_tags_end(reader);
}
