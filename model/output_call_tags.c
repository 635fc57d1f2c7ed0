/* output_call_tags.c - a call whose name and arguments stand between tags.
 *
 * The arguments are written as JSON for the client.  A value that the tool's
 * schema calls text is passed on as it comes; any other waits for its end,
 * where it is JSON or, failing that, text. */
#include <string.h>

#include "common/json.h"
#include "model/output_reader_private.h"

#include "common/banned.h"

static bool
fail(struct reader *reader)
{
    reader_give_up(reader);
    reader->state = READER_CONTENT;
    return true;
}

/* Where @wanted begins whole, from @from on; SIZE_MAX: nowhere. */
static size_t
find(const struct reader *reader, size_t from, const char *wanted)
{
    for (size_t at = from; at < reader->pending.size; at++)
        if (wanted[0] != '\0' && reader_front(reader, at, wanted) == FRONT_YES)
            return at;
    return SIZE_MAX;
}

static size_t
find_role(const struct reader *reader, size_t from, enum format_role role)
{
    const char *marker = reader->format->markers[role];

    return marker == NULL ? SIZE_MAX : find(reader, from, marker);
}

static size_t
least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* --- the name --- */

static bool
name_take(struct reader *reader, const char *text, size_t size)
{
    while (size > 0 && reader_is_space(text[size - 1]))
        size--;
    for (size_t i = 0; i < size; i++)
        if (reader_is_space(text[i]) || text[i] == '<' || text[i] == '\0')
            return false;
    buf_append(&reader->name, text, size);
    return size > 0 && !reader->name.overflowed;
}

static bool
name_step(struct reader *reader)
{
    const struct format_tags *tags = reader->format->tags;
    size_t begin = strlen(tags->name_open), end, close;
    enum reader_front front = reader_front(reader, 0, tags->name_open);

    if (front == FRONT_PART)
        return false;
    if (front == FRONT_NO)
        return fail(reader);
    end = find(reader, begin, tags->name_close);
    close = SIZE_MAX;
    if (begin == 0) /* it ends by what follows it, too */
        close = least(find(reader, 0, tags->key_open),
                      find_role(reader, 0, FORMAT_CALL_CLOSE));
    if (end == SIZE_MAX && close == SIZE_MAX &&
        reader->pending.size < READER_HEAD_MAX_BYTES)
        return false;
    if (least(end, close) >= READER_NAME_MAX_BYTES)
        return fail(reader);
    if (!name_take(reader, reader->pending.data + begin,
                   least(end, close) - begin))
        return fail(reader);
    reader_drop(reader, end < close ? end + strlen(tags->name_close) : close);
    call_open(reader);
    call_arguments(reader, "{", 1);
    reader->part = PART_KEY;
    return true;
}

/* --- keys --- */

static void
space_drop(struct reader *reader)
{
    size_t size = 0;

    while (size < reader->pending.size &&
           reader_is_space(reader->pending.data[size]))
        size++;
    reader_drop(reader, size);
}

static void
json_say(struct reader *reader, const char *text, size_t size, bool quotes)
{
    struct json_out out;
    struct buf json;

    buf_init(&json, 8 * READER_PENDING_MAX_BYTES);
    json_out_init(&out, &json);
    json_put_text_sized(&out, text, size);
    if (quotes)
        call_arguments(reader, json.data, json.size);
    else if (json.size >= 2)
        call_arguments(reader, json.data + 1, json.size - 2);
    buf_clear(&json);
}

static void
close_all(struct reader *reader)
{
    call_arguments(reader, "}", 1);
    call_close(reader);
}

static void
key_take(struct reader *reader, const char *text, size_t size)
{
    buf_reset(&reader->key);
    buf_append(&reader->key, text, size);
    if (!reader->is_first)
        call_arguments(reader, ", ", 2);
    reader->is_first = false;
    json_say(reader, text, size, true);
    call_arguments(reader, ": ", 2);
    reader->part = PART_VALUE_OPEN;
}

/* What belongs nowhere inside a call is content, up to the next tag. */
static void
stray_say(struct reader *reader)
{
    size_t size = 1;

    while (size < reader->pending.size && reader->pending.data[size] != '<' &&
           !reader_is_space(reader->pending.data[size]))
        size++;
    reader_say(reader, reader->pending.data, size);
    reader_drop(reader, size);
}

static bool
key_step(struct reader *reader)
{
    const struct format_tags *tags = reader->format->tags;
    enum reader_front open, end, close, next;

    space_drop(reader);
    if (reader->pending.size == 0)
        return false;
    open = reader_front(reader, 0, tags->key_open);
    end = tags->end[0] == '\0' ? FRONT_NO : reader_front(reader, 0, tags->end);
    close = reader_front_role(reader, 0, FORMAT_CALL_CLOSE);
    next = reader_front_role(reader, 0, FORMAT_CALL_OPEN);
    if (open == FRONT_YES) {
        size_t begin = strlen(tags->key_open);
        size_t at = find(reader, begin, tags->key_close);

        if (at == SIZE_MAX && reader->pending.size < READER_HEAD_MAX_BYTES)
            return false;
        if (at == SIZE_MAX ||
            at + strlen(tags->key_close) > READER_HEAD_MAX_BYTES) {
            stray_say(reader);
            return true;
        }
        key_take(reader, reader->pending.data + begin, at - begin);
        reader_drop(reader, at + strlen(tags->key_close));
        return true;
    }
    if (end == FRONT_YES) {
        reader_drop(reader, strlen(tags->end));
        return true;
    }
    if (close == FRONT_YES || next == FRONT_YES) {
        close_all(reader);
        return true;
    }
    if (open == FRONT_PART || end == FRONT_PART || close == FRONT_PART ||
        next == FRONT_PART)
        return false;
    stray_say(reader);
    return true;
}

/* --- values --- */

static bool
value_open_step(struct reader *reader)
{
    const struct format_tags *tags = reader->format->tags;
    enum reader_front front = FRONT_NO;

    if (tags->value_open[0] != '\0') {
        space_drop(reader);
        if (reader->pending.size == 0)
            return false;
        front = reader_front(reader, 0, tags->value_open);
    }
    if (front == FRONT_PART)
        return false;
    if (front == FRONT_YES)
        reader_drop(reader, strlen(tags->value_open));
    reader->part = PART_VALUE;
    reader->is_text = call_member_is_text(reader);
    reader->is_quoted = false;
    reader->is_led = tags->lines;
    buf_reset(&reader->value);
    return true;
}

static void
text_say(struct reader *reader, const char *text, size_t size)
{
    if (!reader->is_quoted)
        call_arguments(reader, "\"", 1);
    reader->is_quoted = true;
    json_say(reader, text, size, false);
}

static void
value_add(struct reader *reader, const char *text, size_t size)
{
    if (!reader->is_text && reader->value.size + size > READER_RAW_MAX_BYTES) {
        reader->is_text = true; /* too long to wait for */
        text_say(reader, reader->value.data, reader->value.size);
    }
    if (reader->is_text)
        text_say(reader, text, size);
    else
        buf_append(&reader->value, text, size);
}

/* What is no text is JSON, or one of Python's words for JSON's. */
static void
value_judge(struct reader *reader)
{
    static const char *const words[][2] = {
        {"True", "true"}, {"False", "false"}, {"None", "null"}};
    struct json_doc doc = {0};
    const struct buf *value = &reader->value;
    bool is_json =
        json_doc_parse(value->data, value->size, &doc, NULL) == STATUS_OK &&
        json_kind(doc.root) != JSON_KIND_TEXT;

    json_doc_clear(&doc);
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        if (strcmp(value->data, words[i][0]) != 0)
            continue;
        call_arguments(reader, words[i][1], strlen(words[i][1]));
        return;
    }
    if (is_json)
        call_arguments(reader, value->data, value->size);
    else
        json_say(reader, value->data, value->size, true);
}

static void
value_end(struct reader *reader)
{
    if (reader->is_text) {
        text_say(reader, "", 0);
        call_arguments(reader, "\"", 1);
    } else {
        value_judge(reader);
    }
    reader->part = PART_KEY;
}

/* How many bytes before @end are the value's: a line end before the closing tag
 * belongs to the tag. */
static size_t
without_line_end(const struct reader *reader, size_t end)
{
    if (reader->format->tags->lines && end > 0 &&
        reader->pending.data[end - 1] == '\n')
        return end - 1;
    return end;
}

static size_t
uncertain(const struct reader *reader)
{
    const char *close = reader->format->tags->value_close;
    size_t most = reader_uncertain(reader, ROLE(FORMAT_CALL_CLOSE));

    for (size_t at = 0; at < reader->pending.size - most; at++)
        if (reader_front(reader, at, close) == FRONT_PART)
            return reader->pending.size - at;
    return most;
}

static bool
value_step(struct reader *reader)
{
    const struct format_tags *tags = reader->format->tags;
    size_t close, end, size;

    if (reader->is_led && reader->pending.data[0] == '\n')
        reader_drop(reader, 1);
    reader->is_led = false;
    close = find(reader, 0, tags->value_close);
    end = least(close, find_role(reader, 0, FORMAT_CALL_CLOSE));
    if (end == SIZE_MAX) {
        size = reader->pending.size - uncertain(reader);
        size = without_line_end(reader, size);
        value_add(reader, reader->pending.data, size);
        reader_drop(reader, size);
        return false;
    }
    value_add(reader, reader->pending.data, without_line_end(reader, end));
    value_end(reader);
    reader_drop(reader, end == close ? end + strlen(tags->value_close) : end);
    return true;
}

bool
call_tags_step(struct reader *reader)
{
    switch (reader->part) {
    case PART_NAME:
        return name_step(reader);
    case PART_KEY:
        return key_step(reader);
    case PART_VALUE_OPEN:
        return value_open_step(reader);
    case PART_VALUE:
        return value_step(reader);
    case PART_BEGIN:
    case PART_OBJECT:
    case PART_HEADER:
    case PART_FENCE:
    case PART_ARGUMENTS:
        break;
    }
    return false;
}

void
call_tags_end(struct reader *reader)
{
    if (reader->part == PART_VALUE_OPEN)
        call_arguments(reader, "null", 4);
    if (reader->part == PART_VALUE) {
        value_add(reader, reader->pending.data, reader->pending.size);
        value_end(reader);
    }
    close_all(reader);
}
