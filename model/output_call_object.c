/* output_call_object.c - a call as a JSON object with name and arguments.
 *
 * Its bytes are looked at one by one.  As soon as the name is known the
 * arguments are passed on while they come, byte by byte as the model wrote
 * them; arguments before the name, or written as a text, wait. */
#include <string.h>

#include "common/json.h"
#include "model/output_reader_private.h"

#include "common/banned.h"

static bool
is_key(const struct reader *reader, const char *wanted)
{
    return strcmp(reader->key.data, wanted) == 0;
}

static bool
is_arguments(const struct reader *reader)
{
    return is_key(reader, "arguments") || is_key(reader, "parameters");
}

/* The text that a JSON text stands for. */
static bool
unquote(const struct buf *json, struct buf *text)
{
    struct json_doc doc = {0};
    size_t size = 0;
    const char *found = NULL;

    if (json_doc_parse(json->data, json->size, &doc, NULL) == STATUS_OK)
        found = json_as_text(doc.root, &size);
    buf_reset(text);
    if (found != NULL)
        buf_append(text, found, size);
    json_doc_clear(&doc);
    return found != NULL && !text->overflowed;
}

static void
arguments_say(struct reader *reader)
{
    struct buf text;

    buf_init(&text, READER_PENDING_MAX_BYTES);
    if (reader->arguments.data[0] == '"' && unquote(&reader->arguments, &text))
        call_arguments(reader, text.data, text.size);
    else
        call_arguments(reader, reader->arguments.data, reader->arguments.size);
    buf_clear(&text);
}

/* A member is whole; false: this is no call. */
static bool
member_take(struct reader *reader)
{
    if (is_key(reader, "name")) {
        if (reader->is_named || !unquote(&reader->value, &reader->name) ||
            reader->name.size == 0 ||
            strlen(reader->name.data) != reader->name.size ||
            (reader->is_bare && !call_tool_is_known(reader, reader->name.data)))
            return false;
        reader->is_named = true;
        if (reader->has_arguments) {
            call_open(reader);
            arguments_say(reader);
        }
    } else if (is_arguments(reader) && !reader->is_streamed) {
        if (reader->has_arguments)
            return true; /* the first counts */
        buf_reset(&reader->arguments);
        buf_append(&reader->arguments, reader->value.data, reader->value.size);
        reader->has_arguments = true;
        if (reader->is_named && !reader->is_open) {
            call_open(reader);
            arguments_say(reader);
        }
    } else if (is_key(reader, "id")) {
        (void)unquote(&reader->value, &reader->id);
    }
    return true;
}

/* The object's end; false: it named no tool. */
static bool
object_end(struct reader *reader)
{
    if (!reader->is_named)
        return false;
    if (!reader->is_open) {
        call_open(reader);
        call_arguments(reader, "{}", 2);
    }
    call_close(reader);
    return true;
}

static bool
value_begin(struct reader *reader, char c)
{
    reader->place = OBJECT_VALUE;
    reader->walk = (struct json_walk){.depth = 0};
    buf_reset(&reader->value);
    reader->is_streamed = false;
    if (!is_arguments(reader))
        return !reader->is_bare || is_key(reader, "name") ||
               is_key(reader, "type") || is_key(reader, "id");
    if (!reader->is_named || reader->is_open || c == '"')
        return true;
    reader->is_streamed = true;
    reader->has_arguments = true;
    call_open(reader);
    return true;
}

/* Take one byte outside of values; false: this is no call. */
static bool
place_take(struct reader *reader, char c)
{
    switch (reader->place) {
    case OBJECT_BEGIN:
        reader->place = OBJECT_OPEN;
        return c == '{';
    case OBJECT_OPEN:
        if (c == '}')
            return object_end(reader);
        if (c == '"') {
            reader->place = OBJECT_KEY;
            buf_reset(&reader->key);
            return true;
        }
        return reader_is_space(c);
    case OBJECT_KEY:
        if (c == '"')
            reader->place = OBJECT_COLON;
        else
            buf_append_char(&reader->key, c);
        return c != '\\' && c != '\0' && !reader->key.overflowed;
    case OBJECT_COLON:
        if (c == ':') {
            reader->place = OBJECT_VALUE;
            reader->walk = (struct json_walk){.depth = 0};
            return true;
        }
        return reader_is_space(c);
    case OBJECT_COMMA:
        if (c == '}')
            return object_end(reader);
        if (c == ',')
            reader->place = OBJECT_OPEN;
        return c == ',' || reader_is_space(c);
    case OBJECT_VALUE:
        break;
    }
    return false;
}

/* Take one byte of a value; false: this is no call.  @again: the byte was not
 * part of it. */
static bool
value_take(struct reader *reader, char c, bool *again)
{
    enum walk_step step;

    if (!reader->walk.begun) {
        if (reader_is_space(c))
            return true;
        if (!value_begin(reader, c))
            return false;
    }
    step = call_walk(&reader->walk, c);
    if (step != WALK_ENDED_BEFORE) {
        if (reader->is_streamed)
            call_arguments(reader, &c, 1);
        else
            buf_append_char(&reader->value, c);
    }
    if (step == WALK_GOES_ON)
        return !reader->value.overflowed;
    *again = step == WALK_ENDED_BEFORE;
    reader->place = OBJECT_COMMA;
    if (!member_take(reader))
        return false;
    reader->is_streamed = false;
    return true;
}

/* Take one byte; false: it does not belong to a call. */
static bool
byte_take(struct reader *reader, char c)
{
    bool again = reader->place != OBJECT_VALUE;

    if (!again && !value_take(reader, c, &again))
        return false;
    return !again || place_take(reader, c);
}

/* Whether the marker behind the call begins here, outside of any text. */
static enum reader_front
close_at(const struct reader *reader, size_t at)
{
    bool in_text = reader->place == OBJECT_KEY ||
                   (reader->place == OBJECT_VALUE && reader->walk.in_text);

    return in_text ? FRONT_NO
                   : reader_front_role(reader, at, FORMAT_CALL_CLOSE);
}

bool
call_object_step(struct reader *reader)
{
    size_t at = 0;
    bool is_call = true, waits = false;

    while (reader->state == READER_CALL && at < reader->pending.size) {
        enum reader_front close = close_at(reader, at);
        char c = reader->pending.data[at];

        waits = close == FRONT_PART;
        is_call = close == FRONT_NO && byte_take(reader, c);
        if (waits || !is_call)
            break;
        if (!reader->is_open && reader->state == READER_CALL)
            buf_append_char(&reader->raw, c);
        at++;
    }
    reader_drop(reader, at);
    if (waits || (is_call && reader->state == READER_CALL))
        return false;
    if (!is_call && reader->is_open) {
        call_close(reader); /* what follows is looked at as what it is */
    } else if (!is_call) {
        reader_give_up(reader);
        reader->state = READER_CONTENT;
    }
    return true;
}
