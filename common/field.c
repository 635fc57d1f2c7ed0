/* field.c - plain structs from and to JSON by table.
 *
 * Nested tables are followed by recursion: its depth is that of the tables,
 * which are ours, not that of the input. */
#include "common/field.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#include "common/banned.h"

enum { PATH_BYTES = 256, NAME_SHOWN_BYTES = 64 };

/* Where decoding is, as a JSON pointer; and where it reports to. */
struct place {
    char path[PATH_BYTES];
    size_t size;
    struct error *err;
};

static void
path_cut(struct place *place, size_t size)
{
    place->size = size;
    place->path[size] = '\0';
}

static void
path_push_sized(struct place *place, const char *name, size_t size)
{
    size_t left = sizeof(place->path) - 1 - place->size;

    if (size + 1 > left)
        return; /* no table of ours nests so deep */
    place->path[place->size] = '/';
    memcpy(place->path + place->size + 1, name, size);
    path_cut(place, place->size + 1 + size);
}

/* The size of a text without a UTF-8 sequence that was cut at its end. */
static size_t
whole_size(const char *text, size_t size)
{
    size_t tail = 0; /* continuation bytes at the end */
    unsigned char head;
    size_t wanted;

    while (tail < size && ((unsigned char)text[size - 1 - tail] & 0xc0) == 0x80)
        tail++;
    if (tail == size)
        return size;
    head = (unsigned char)text[size - 1 - tail];
    wanted = head >= 0xf0 ? 3 : head >= 0xe0 ? 2 : head >= 0xc0 ? 1 : 0;
    return wanted > tail ? size - 1 - tail : size;
}

static void
path_push(struct place *place, const char *name)
{
    size_t size = strlen(name);

    if (size > NAME_SHOWN_BYTES)
        size = whole_size(name, NAME_SHOWN_BYTES);
    path_push_sized(place, name, size);
}

/* Runs for each item of long lists, hence without printf. */
static void
path_push_index(struct place *place, size_t index)
{
    char digits[24];
    size_t at = sizeof(digits);

    do {
        digits[--at] = (char)('0' + index % 10);
        index /= 10;
    } while (index > 0);
    path_push_sized(place, digits + at, sizeof(digits) - at);
}

/* The error at this place: "path: reason", the path also as the param. */
static enum status PRINTF_LIKE(2, 3)
    refuse(const struct place *place, const char *format, ...)
{
    const char *path = place->size > 0 ? place->path : "/";
    char reason[ERROR_TEXT_BYTES];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(reason, sizeof(reason), format, args);
    va_end(args);
    (void)error_set(place->err, STATUS_INVALID, "%s: %s", path, reason);
    (void)error_tag(place->err, NULL, path + 1);
    return STATUS_INVALID;
}

/* --- decoding --- */

static enum status
decode_text(const struct json *value, const struct field *field, char *item,
            const struct place *place)
{
    size_t max = field->max > 0 ? (size_t)field->max : field->size - 1;
    size_t size;
    const char *text = json_as_text(value, &size);

    assert(max < field->size);
    if (text == NULL)
        return refuse(place, "must be a text");
    if (size < field->min || size > max)
        return refuse(place, "must have %" PRIu64 " to %zu bytes, has %zu",
                      field->min, max, size);
    if (memchr(text, '\0', size) != NULL)
        return refuse(place, "must not contain a NUL");
    memset(item, 0, field->size);
    memcpy(item, text, size);
    return STATUS_OK;
}

/* An integer of at least @min and at most @max. */
static enum status
decode_integer(const struct json *value, int64_t min, int64_t max,
               int64_t *number, const struct place *place)
{
    int64_t decoded;

    if (json_as_i64(value, &decoded) != STATUS_OK || decoded < min ||
        decoded > max)
        return refuse(place,
                      "must be a whole number from %" PRId64 " to %" PRId64,
                      min, max);
    *number = decoded;
    return STATUS_OK;
}

/* The largest value of an unsigned field: @most unless the table says less.
 * JSON integers end at 2^63 - 1 here. */
static int64_t
unsigned_max(const struct field *field, int64_t most)
{
    return field->max > 0 && field->max < (uint64_t)most ? (int64_t)field->max
                                                         : most;
}

static enum status
decode_u64(const struct json *value, const struct field *field, void *item,
           const struct place *place)
{
    int64_t number = 0;
    enum status status =
        decode_integer(value, (int64_t)field->min,
                       unsigned_max(field, INT64_MAX), &number, place);

    if (status == STATUS_OK)
        *(uint64_t *)item = (uint64_t)number;
    return status;
}

static enum status
decode_u32(const struct json *value, const struct field *field, void *item,
           const struct place *place)
{
    int64_t number = 0;
    enum status status =
        decode_integer(value, (int64_t)field->min,
                       unsigned_max(field, UINT32_MAX), &number, place);

    if (status == STATUS_OK)
        *(uint32_t *)item = (uint32_t)number;
    return status;
}

static enum status
decode_i64(const struct json *value, const struct field *field, void *item,
           const struct place *place)
{
    bool has_range = field->max != 0;

    return decode_integer(value, has_range ? (int64_t)field->min : INT64_MIN,
                          has_range ? (int64_t)field->max : INT64_MAX, item,
                          place);
}

static enum status
decode_bool(const struct json *value, void *item, const struct place *place)
{
    if (json_kind(value) != JSON_KIND_BOOL)
        return refuse(place, "must be true or false");
    *(bool *)item = json_as_bool(value);
    return STATUS_OK;
}

static enum status
decode_double(const struct json *value, const struct field *field, void *item,
              const struct place *place)
{
    bool has_range = field->fmin < field->fmax;
    double number;

    if (json_as_double(value, &number) != STATUS_OK || !isfinite(number))
        return refuse(place, "must be a number");
    if (has_range && (number < field->fmin || number > field->fmax))
        return refuse(place, "must be a number from %g to %g", field->fmin,
                      field->fmax);
    *(double *)item = number + 0.0; /* -0.0 becomes 0.0: one spelling */
    return STATUS_OK;
}

static enum status decode_object(const struct json *object,
                                 const struct field *fields, size_t count,
                                 char *target, struct place *place);

static enum status
decode_item(const struct json *value, const struct field *field, char *item,
            struct place *place)
{
    switch (field->type) {
    case FIELD_TEXT:
        return decode_text(value, field, item, place);
    case FIELD_U64:
        return decode_u64(value, field, item, place);
    case FIELD_I64:
        return decode_i64(value, field, item, place);
    case FIELD_U32:
        return decode_u32(value, field, item, place);
    case FIELD_BOOL:
        return decode_bool(value, item, place);
    case FIELD_DOUBLE:
        return decode_double(value, field, item, place);
    case FIELD_OBJECT:
        return decode_object(value, field->rows, field->row_count, item, place);
    case FIELD_TREE:
        *(const struct json **)(void *)item = value;
        return STATUS_OK;
    }
    return STATUS_INTERNAL;
}

static enum status
decode_list(const struct json *value, const struct field *field, char *target,
            struct place *place)
{
    size_t count = json_count(value), size = place->size;
    enum status status = STATUS_OK;

    if (json_kind(value) != JSON_KIND_LIST)
        return refuse(place, "must be a list");
    if (count > field->capacity)
        return refuse(place, "must have at most %zu items, has %zu",
                      field->capacity, count);
    memset(target + field->offset, 0, field->capacity * field->size);
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        path_push_index(place, i);
        status = decode_item(json_at(value, i), field,
                             target + field->offset + i * field->size, place);
        path_cut(place, size);
    }
    *(size_t *)(void *)(target + field->count_at) = count;
    return status;
}

/* One member; @value is NULL when the object lacks it. */
static enum status
decode_member(const struct json *value, const struct field *field, char *target,
              struct place *place)
{
    if (value == NULL)
        return field->required ? refuse(place, "is missing") : STATUS_OK;
    if (field->nullable) {
        bool is_known = json_kind(value) != JSON_KIND_NULL;

        *(bool *)(target + field->has_at) = is_known;
        if (!is_known) {
            memset(target + field->offset, 0, field->size);
            return STATUS_OK;
        }
    }
    if (field->capacity > 0)
        return decode_list(value, field, target, place);
    return decode_item(value, field, target + field->offset, place);
}

static bool
is_listed(const char *name, const struct field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(fields[i].name, name) == 0)
            return true;
    }
    return false;
}

static enum status
decode_object(const struct json *object, const struct field *fields,
              size_t count, char *target, struct place *place)
{
    const struct json_member *member = json_member_first(object);
    enum status status = STATUS_OK;
    size_t size = place->size;

    if (json_kind(object) != JSON_KIND_OBJECT)
        return refuse(place, "must be an object");
    for (; member != NULL; member = json_member_next(object, member)) {
        if (!is_listed(json_member_name(member), fields, count)) {
            path_push(place, json_member_name(member));
            return refuse(place, "unknown member: leave it out");
        }
    }
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        path_push(place, fields[i].name);
        status = decode_member(json_get(object, fields[i].name), &fields[i],
                               target, place);
        path_cut(place, size);
    }
    return status;
}

enum status
field_decode(const struct json *object, const struct field *fields,
             size_t count, void *target, size_t target_size, struct error *err)
{
    struct place place = {.err = err};
    char *copy = mem_copy(target, target_size);
    enum status status = decode_object(object, fields, count, copy, &place);

    if (status == STATUS_OK)
        memcpy(target, copy, target_size);
    free(copy);
    return status;
}

static bool
has_tree(const struct field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (fields[i].type == FIELD_TREE ||
            (fields[i].type == FIELD_OBJECT &&
             has_tree(fields[i].rows, fields[i].row_count)))
            return true;
    }
    return false;
}

enum status
field_decode_text(const char *text, size_t size, const struct field *fields,
                  size_t count, void *target, size_t target_size,
                  struct error *err)
{
    struct place place = {.err = err};
    struct json_doc doc = {NULL};
    struct error reason;
    enum status status;

    assert(!has_tree(fields, count)); /* it would outlive the document */
    if (json_doc_parse(text, size, &doc, &reason) != STATUS_OK)
        return refuse(&place, "no JSON object: %s", reason.text);
    status = field_decode(doc.root, fields, count, target, target_size, err);
    json_doc_clear(&doc);
    return status;
}

/* --- encoding --- */

static bool
is_zero(const void *bytes, size_t size)
{
    const unsigned char *byte = bytes;

    for (size_t i = 0; i < size; i++) {
        if (byte[i] != 0)
            return false;
    }
    return true;
}

/* A text may be followed by anything after its NUL. */
static bool
is_empty(const struct field *field, const char *source)
{
    if (field->nullable)
        return !*(const bool *)(source + field->has_at);
    if (field->capacity > 0)
        return *(const size_t *)(const void *)(source + field->count_at) == 0;
    if (field->type == FIELD_TEXT)
        return source[field->offset] == '\0';
    return is_zero(source + field->offset, field->size);
}

/* A text cut to fit its array may end inside a sequence, whose replacement
 * character could be too long for the reader's array. */
static void
encode_text(struct json_out *out, const char *text, size_t size)
{
    const char *end = memchr(text, '\0', size);
    size_t used = end != NULL ? (size_t)(end - text) : size - 1;

    json_put_text_sized(out, text, whole_size(text, used));
}

static void
encode_tree(struct json_out *out, const struct json *tree)
{
    json_put_raw(out, "", 0); /* the comma it may need */
    json_dump(tree, out->buf);
}

static void
encode_item(struct json_out *out, const struct field *field, const char *item)
{
    const void *value = item;

    switch (field->type) {
    case FIELD_TEXT:
        encode_text(out, item, field->size);
        return;
    case FIELD_U64:
        json_put_u64(out, *(const uint64_t *)value);
        return;
    case FIELD_I64:
        json_put_i64(out, *(const int64_t *)value);
        return;
    case FIELD_U32:
        json_put_u64(out, *(const uint32_t *)value);
        return;
    case FIELD_BOOL:
        json_put_bool(out, *(const bool *)value);
        return;
    case FIELD_DOUBLE:
        json_put_double(out, *(const double *)value);
        return;
    case FIELD_OBJECT:
        json_open_object(out);
        field_encode(out, field->rows, field->row_count, item);
        json_close_object(out);
        return;
    case FIELD_TREE:
        encode_tree(out, *(const struct json *const *)value);
        return;
    }
}

static void
encode_list(struct json_out *out, const struct field *field, const char *source)
{
    size_t count = *(const size_t *)(const void *)(source + field->count_at);

    assert(count <= field->capacity);
    json_open_list(out);
    for (size_t i = 0; i < count; i++)
        encode_item(out, field, source + field->offset + i * field->size);
    json_close_list(out);
}

void
field_encode(struct json_out *out, const struct field *fields, size_t count,
             const void *source)
{
    const char *base = source;

    for (size_t i = 0; i < count; i++) {
        const struct field *field = &fields[i];

        if (field->hidden_when_zero && is_empty(field, base))
            continue;
        json_key(out, field->name);
        if (field->nullable && is_empty(field, base))
            json_put_null(out);
        else if (field->capacity > 0)
            encode_list(out, field, base);
        else
            encode_item(out, field, base + field->offset);
    }
}
