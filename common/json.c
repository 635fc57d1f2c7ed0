/* json.c - JSON trees, borrowed from jansson; json_out.c writes.
 *
 * A struct json is a json_t and a struct json_member an iterator of jansson's
 * under another name, so that nobody else needs its header. */
#include "common/json.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
/* Its macro of this name would hide our function. */
#undef json_is_null

#include "common/units.h"

#include "common/banned.h"

enum { DEPTH_MAX = 512, INT64_DIGITS = 19 };

/* Every whole number up to here is exact as a double: 2^53. */
#define EXACT_MAX 9007199254740992.0

/* jansson's readers take a json_t without const and do not change it. */
static json_t *
tree(const struct json *value)
{
    return (json_t *)(uintptr_t)value;
}

/* --- parsing --- */

/* The index after the token (string, number or single byte) at @at. */
static size_t
skip_token(const char *text, size_t size, size_t at)
{
    if (text[at] == '"') {
        for (at++; at < size && text[at] != '"'; at++) {
            if (text[at] == '\\')
                at++;
        }
        return at < size ? at + 1 : size;
    }
    if (strchr("+-.eE0123456789", text[at]) == NULL || text[at] == '\0')
        return at + 1;
    while (at < size && text[at] != '\0' &&
           strchr("+-.eE0123456789", text[at]) != NULL)
        at++;
    return at;
}

/* An integer that does not fit int64_t? The grammar allows them, model files
 * hold them to say "no limit", and jansson refuses them. */
static bool
is_large_integer(const char *text, size_t size)
{
    size_t sign = text[0] == '-' ? 1 : 0;
    uint64_t value;

    if (size < INT64_DIGITS + sign)
        return false;
    for (size_t i = sign; i < size; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
    }
    return parse_u64(text + sign, size - sign, (uint64_t)INT64_MAX + sign,
                     &value) != STATUS_OK;
}

/* jansson recurses when it parses and when it frees: the depth is bounded
 * here first. Also says whether the text holds large integers. */
static bool
is_shallow(const char *text, size_t size, bool *has_large)
{
    size_t depth = 0, next;

    *has_large = false;
    for (size_t at = 0; at < size; at = next) {
        next = skip_token(text, size, at);
        if (text[at] == '[' || text[at] == '{')
            depth++;
        else if ((text[at] == ']' || text[at] == '}') && depth > 0)
            depth--;
        else if (is_large_integer(text + at, next - at))
            *has_large = true;
        if (depth > DEPTH_MAX)
            return false;
    }
    return true;
}

/* Copy the text with large integers written as reals: "e0" after them. */
static void
widen(const char *text, size_t size, struct buf *out)
{
    size_t next;

    for (size_t at = 0; at < size; at = next) {
        next = skip_token(text, size, at);
        buf_append(out, text + at, next - at);
        if (is_large_integer(text + at, next - at))
            buf_append_text(out, "e0");
    }
}

/* jansson's reason without its quotation of the text, which may be private. */
static enum status
parse_failed(const json_error_t *reason, struct error *err)
{
    const char *quotation = strstr(reason->text, " near ");
    size_t size = quotation != NULL ? (size_t)(quotation - reason->text)
                                    : strlen(reason->text);

    return error_set(err, STATUS_INVALID, "line %d column %d: %.*s",
                     reason->line, reason->column, (int)size, reason->text);
}

enum status
json_doc_parse(const char *text, size_t size, struct json_doc *doc,
               struct error *err)
{
    size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL;
    json_error_t reason;
    struct buf widened;
    bool has_large;
    json_t *root;

    if (!is_shallow(text, size, &has_large))
        return error_set(err, STATUS_INVALID, "nested deeper than %d levels",
                         DEPTH_MAX);
    /* A large integer has at least 19 bytes and grows by two. */
    buf_init(&widened, has_large ? size + size / 8 + 2 : 0);
    if (has_large) {
        widen(text, size, &widened);
        text = widened.data;
        size = widened.size;
    }
    root = json_loadb(text, size, flags, &reason);
    buf_clear(&widened);
    if (root == NULL)
        return parse_failed(&reason, err);
    doc->root = (struct json *)root;
    return STATUS_OK;
}

void
json_doc_clear(struct json_doc *doc)
{
    json_decref(tree(doc->root));
    doc->root = NULL;
}

/* --- reading --- */

enum json_kind
json_kind(const struct json *value)
{
    if (value == NULL)
        return JSON_KIND_NULL;
    switch (json_typeof(tree(value))) {
    case JSON_NULL:
        return JSON_KIND_NULL;
    case JSON_TRUE:
    case JSON_FALSE:
        return JSON_KIND_BOOL;
    case JSON_INTEGER:
        return JSON_KIND_INTEGER;
    case JSON_REAL:
        return JSON_KIND_REAL;
    case JSON_STRING:
        return JSON_KIND_TEXT;
    case JSON_ARRAY:
        return JSON_KIND_LIST;
    case JSON_OBJECT:
        return JSON_KIND_OBJECT;
    }
    return JSON_KIND_NULL;
}

bool
json_is_null(const struct json *value)
{
    return json_kind(value) == JSON_KIND_NULL;
}

bool
json_as_bool(const struct json *value)
{
    return json_is_true(tree(value));
}

const char *
json_as_text(const struct json *value, size_t *size)
{
    if (json_kind(value) != JSON_KIND_TEXT)
        return NULL;
    if (size != NULL)
        *size = json_string_length(tree(value));
    return json_string_value(tree(value));
}

enum status
json_as_i64(const struct json *value, int64_t *number)
{
    double real;

    if (json_kind(value) == JSON_KIND_INTEGER) {
        *number = json_integer_value(tree(value));
        return STATUS_OK;
    }
    if (json_kind(value) != JSON_KIND_REAL)
        return STATUS_INVALID;
    real = json_real_value(tree(value));
    if (!(fabs(real) <= EXACT_MAX) || real != floor(real))
        return STATUS_INVALID;
    *number = (int64_t)real;
    return STATUS_OK;
}

enum status
json_as_double(const struct json *value, double *number)
{
    if (value == NULL || !json_is_number(tree(value)))
        return STATUS_INVALID;
    *number = json_number_value(tree(value));
    return STATUS_OK;
}

size_t
json_count(const struct json *value)
{
    if (json_kind(value) == JSON_KIND_LIST)
        return json_array_size(tree(value));
    return json_object_size(tree(value)); /* 0 for all other kinds */
}

const struct json *
json_at(const struct json *list, size_t index)
{
    return (const struct json *)json_array_get(tree(list), index);
}

const struct json *
json_get(const struct json *object, const char *name)
{
    return (const struct json *)json_object_get(tree(object), name);
}

static void *
iterator(const struct json_member *member)
{
    return (void *)(uintptr_t)member;
}

const struct json_member *
json_member_first(const struct json *object)
{
    return json_object_iter(tree(object));
}

const struct json_member *
json_member_next(const struct json *object, const struct json_member *member)
{
    return json_object_iter_next(tree(object), iterator(member));
}

const char *
json_member_name(const struct json_member *member)
{
    return json_object_iter_key(iterator(member));
}

const struct json *
json_member_value(const struct json_member *member)
{
    return (const struct json *)json_object_iter_value(iterator(member));
}
