/* json_out.c - JSON that leaves: trees as text, and the writer. */
#include "common/json.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>
/* Its macro of this name would hide our function. */
#undef json_is_null

#include "common/banned.h"

enum { DEPTH_MAX = 512, DOUBLE_TEXT_BYTES = 40 };

#define INTEGERS_END 0x1p53 /* beyond it not every integer is a double */

/* jansson's readers take a json_t without const and do not change it. */
static json_t *
tree(const struct json *value)
{
    return (json_t *)(uintptr_t)value;
}

/* --- writing single values --- */

/* The size of the well-formed UTF-8 sequence (RFC 3629) at @byte; 0 for none.
 * The ranges of the second byte keep out overlong forms, surrogates and what
 * is past U+10FFFF. */
static size_t
sequence_size(const unsigned char *byte, size_t left)
{
    unsigned char least = 0x80, most = 0xbf;
    size_t size;

    if (byte[0] < 0x80)
        return 1;
    if (byte[0] < 0xc2 || byte[0] > 0xf4)
        return 0;
    size = byte[0] < 0xe0 ? 2 : byte[0] < 0xf0 ? 3 : 4;
    if (byte[0] == 0xe0)
        least = 0xa0;
    else if (byte[0] == 0xed)
        most = 0x9f;
    else if (byte[0] == 0xf0)
        least = 0x90;
    else if (byte[0] == 0xf4)
        most = 0x8f;
    if (left < size || byte[1] < least || byte[1] > most)
        return 0;
    for (size_t i = 2; i < size; i++) {
        if ((byte[i] & 0xc0) != 0x80)
            return 0;
    }
    return size;
}

/* A quotation mark, a backslash or a control byte. */
static void
append_escaped(struct buf *buf, unsigned char c)
{
    static const char plain[] = "\"\\\b\f\n\r\t";
    static const char letters[] = "\"\\bfnrt";
    const char *at = c != '\0' ? strchr(plain, c) : NULL;

    if (at == NULL) {
        buf_printf(buf, "\\u%04x", (unsigned)c);
        return;
    }
    buf_append_char(buf, '\\');
    buf_append_char(buf, letters[at - plain]);
}

static void
append_text(struct buf *buf, const char *text, size_t size)
{
    const unsigned char *byte = (const unsigned char *)text;
    size_t at = 0, start = 0; /* bytes from start on are not yet written */

    buf_append_char(buf, '"');
    while (at < size) {
        size_t sequence = sequence_size(byte + at, size - at);
        bool is_plain = sequence > 1 || (sequence == 1 && byte[at] >= 0x20 &&
                                         byte[at] != '"' && byte[at] != '\\');

        if (is_plain) {
            at += sequence;
            continue;
        }
        buf_append(buf, text + start, at - start);
        if (sequence == 0)
            buf_append_text(buf, "\xef\xbf\xbd"); /* U+FFFD */
        else
            append_escaped(buf, byte[at]);
        start = ++at;
    }
    buf_append(buf, text + start, at - start);
    buf_append_char(buf, '"');
}

/* Fewer than 15 digits suffice only where doubles are sparse. */
static int
print_shortest(double value, char *text, size_t text_size)
{
    int digits = fabs(value) < DBL_MIN ? 1 : DBL_DIG;
    int size;

    do
        size = snprintf(text, text_size, "%.*g", digits, value);
    while (strtod(text, NULL) != value && digits++ < 17);
    return size;
}

static void
append_double(struct buf *buf, double value)
{
    char text[DOUBLE_TEXT_BYTES];
    int size;

    if (!isfinite(value)) {
        buf_append_text(buf, "null");
        return;
    }
    size = print_shortest(value, text, sizeof(text));
    for (int i = 0; i < size; i++) {
        /* Whatever the process's locale has for a decimal point. */
        if (strchr("+-e0123456789", text[i]) == NULL)
            text[i] = '.';
    }
    buf_append(buf, text, (size_t)size);
    /* Digits alone would be read as an integer, which has an end. */
    if (fabs(value) >= INTEGERS_END &&
        memchr(text, '.', (size_t)size) == NULL &&
        memchr(text, 'e', (size_t)size) == NULL)
        buf_append_text(buf, ".0");
}

/* --- dumping --- */

struct frame {
    json_t *container;
    void *member; /* objects: the next one */
    size_t index; /* lists: the next one */
};

static void
dump_real(struct buf *buf, double value)
{
    size_t start = buf->size;

    append_double(buf, value);
    /* A real stays one when it is read again. */
    if (strcspn(buf->data + start, ".en") == buf->size - start)
        buf_append_text(buf, ".0");
}

/* A scalar, or the opening bracket of a container (then true). */
static bool
dump_start(json_t *value, struct buf *buf)
{
    switch (json_typeof(value)) {
    case JSON_NULL:
        buf_append_text(buf, "null");
        return false;
    case JSON_TRUE:
        buf_append_text(buf, "true");
        return false;
    case JSON_FALSE:
        buf_append_text(buf, "false");
        return false;
    case JSON_INTEGER:
        buf_printf(buf, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        return false;
    case JSON_REAL:
        dump_real(buf, json_real_value(value));
        return false;
    case JSON_STRING:
        append_text(buf, json_string_value(value), json_string_length(value));
        return false;
    case JSON_ARRAY:
        buf_append_char(buf, '[');
        return true;
    case JSON_OBJECT:
        buf_append_char(buf, '{');
        return true;
    }
    return false;
}

/* The next child of the frame, its comma and key written; NULL at the end. */
static json_t *
dump_next(struct frame *frame, struct buf *buf)
{
    json_t *child = NULL;
    const char *key;

    if (json_is_array(frame->container)) {
        child = json_array_get(frame->container, frame->index);
    } else if (frame->member != NULL) {
        child = json_object_iter_value(frame->member);
    }
    if (child == NULL) {
        buf_append_char(buf, json_is_array(frame->container) ? ']' : '}');
        return NULL;
    }
    if (frame->index++ > 0)
        buf_append_char(buf, ',');
    if (json_is_object(frame->container)) {
        key = json_object_iter_key(frame->member);
        append_text(buf, key, strlen(key));
        buf_append_char(buf, ':');
        frame->member = json_object_iter_next(frame->container, frame->member);
    }
    return child;
}

void
json_dump(const struct json *value, struct buf *buf)
{
    struct frame stack[DEPTH_MAX];
    size_t depth = 0;
    json_t *next = tree(value);

    if (value == NULL) {
        buf_append_text(buf, "null");
        return;
    }
    do {
        if (next != NULL && dump_start(next, buf)) {
            assert(depth < DEPTH_MAX); /* json_doc_parse saw to it */
            stack[depth++] = (struct frame){.container = next,
                                            .member = json_object_iter(next)};
        }
        next = depth > 0 ? dump_next(&stack[depth - 1], buf) : NULL;
        if (next == NULL && depth > 0)
            depth--;
    } while (depth > 0 || next != NULL);
}

/* --- writing --- */

void
json_out_init(struct json_out *out, struct buf *buf)
{
    *out = (struct json_out){.buf = buf};
    out->first[0] = true;
}

/* The comma a value or key needs. */
static void
separate(struct json_out *out)
{
    if (out->after_key)
        out->after_key = false;
    else if (out->first[out->depth])
        out->first[out->depth] = false;
    else
        buf_append_char(out->buf, ',');
}

static void
open_with(struct json_out *out, char bracket)
{
    separate(out);
    assert(out->depth < JSON_OUT_DEPTH_MAX);
    out->first[++out->depth] = true;
    buf_append_char(out->buf, bracket);
}

static void
close_with(struct json_out *out, char bracket)
{
    assert(out->depth > 0);
    assert(!out->after_key);
    out->depth--;
    buf_append_char(out->buf, bracket);
}

void
json_open_object(struct json_out *out)
{
    open_with(out, '{');
}

void
json_close_object(struct json_out *out)
{
    close_with(out, '}');
}

void
json_open_list(struct json_out *out)
{
    open_with(out, '[');
}

void
json_close_list(struct json_out *out)
{
    close_with(out, ']');
}

void
json_key(struct json_out *out, const char *name)
{
    assert(!out->after_key);
    separate(out);
    append_text(out->buf, name, strlen(name));
    buf_append_char(out->buf, ':');
    out->after_key = true;
}

void
json_put_text(struct json_out *out, const char *text)
{
    if (text == NULL)
        json_put_null(out);
    else
        json_put_text_sized(out, text, strlen(text));
}

void
json_put_text_sized(struct json_out *out, const char *text, size_t size)
{
    if (text == NULL) {
        json_put_null(out);
        return;
    }
    separate(out);
    append_text(out->buf, text, size);
}

void
json_put_i64(struct json_out *out, int64_t value)
{
    separate(out);
    buf_printf(out->buf, "%" PRId64, value);
}

void
json_put_u64(struct json_out *out, uint64_t value)
{
    separate(out);
    buf_printf(out->buf, "%" PRIu64, value);
}

void
json_put_double(struct json_out *out, double value)
{
    separate(out);
    append_double(out->buf, value);
}

void
json_put_bool(struct json_out *out, bool value)
{
    separate(out);
    buf_append_text(out->buf, value ? "true" : "false");
}

void
json_put_null(struct json_out *out)
{
    separate(out);
    buf_append_text(out->buf, "null");
}

void
json_put_raw(struct json_out *out, const char *text, size_t size)
{
    separate(out);
    buf_append(out->buf, text, size);
}

void
json_member_text(struct json_out *out, const char *name, const char *text)
{
    json_key(out, name);
    json_put_text(out, text);
}

void
json_member_i64(struct json_out *out, const char *name, int64_t value)
{
    json_key(out, name);
    json_put_i64(out, value);
}

void
json_member_u64(struct json_out *out, const char *name, uint64_t value)
{
    json_key(out, name);
    json_put_u64(out, value);
}

void
json_member_bool(struct json_out *out, const char *name, bool value)
{
    json_key(out, name);
    json_put_bool(out, value);
}

void
json_member_null(struct json_out *out, const char *name)
{
    json_key(out, name);
    json_put_null(out);
}

void
json_member_double(struct json_out *out, const char *name, double value)
{
    json_key(out, name);
    json_put_double(out, value);
}
