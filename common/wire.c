/* wire.c - frames to messages and back, by the table. */
#include "common/wire.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/field.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/wire_table.h"

#include "common/banned.h"

enum { TYPE_BYTES = 32, FIELDS_MAX = 24 };

/* --- what a table of fields cannot say --- */

static bool
is_digest(const char *text)
{
    return strlen(text) == SHA256_HEX_BYTES - 1 &&
           strspn(text, "0123456789abcdef") == SHA256_HEX_BYTES - 1;
}

/* Members of these names hold the same thing everywhere. */
static bool
holds_uuid(const char *name)
{
    return strcmp(name, "job") == 0 || strcmp(name, "node") == 0;
}

static bool
holds_digest(const char *name)
{
    return strcmp(name, "digest") == 0;
}

enum { PATH_BYTES = 128 };

static enum status
check_text(const char *path, const char *name, const char *text,
           struct error *err)
{
    if (holds_uuid(name) && !uuid_is_valid(text))
        return error_set(err, STATUS_INVALID, "%s/%s: must be a UUID", path,
                         name);
    if (holds_digest(name) && !is_digest(text))
        return error_set(err, STATUS_INVALID,
                         "%s/%s: must be 64 lower-case hexadecimal digits",
                         path, name);
    return STATUS_OK;
}

static enum status check(const struct field *fields, size_t count,
                         const void *source, const char *path,
                         struct error *err);

/* The nested structs of a field, one or a list. */
static enum status
check_rows(const struct field *field, const char *base, const char *path,
           struct error *err)
{
    bool is_list = field->capacity > 0;
    size_t count =
        is_list ? *(const size_t *)(const void *)(base + field->count_at) : 1;
    enum status status = STATUS_OK;
    char deeper[PATH_BYTES];

    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        if (is_list)
            (void)snprintf(deeper, sizeof(deeper), "%s/%s/%zu", path,
                           field->name, i);
        else
            (void)snprintf(deeper, sizeof(deeper), "%s/%s", path, field->name);
        status = check(field->rows, field->row_count,
                       base + field->offset + i * field->size, deeper, err);
    }
    return status;
}

/* The rules above for every text of a struct, nested ones included; and the
 * end of JSON integers, 2^63 - 1, which the sender must keep to. */
static enum status
check(const struct field *fields, size_t count, const void *source,
      const char *path, struct error *err)
{
    const char *base = source;
    enum status status = STATUS_OK;

    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        const struct field *field = &fields[i];
        const void *item = base + field->offset;

        if (field->type == FIELD_OBJECT)
            status = check_rows(field, base, path, err);
        else if (field->capacity > 0)
            continue; /* lists of ids and of free texts */
        else if (field->type == FIELD_TEXT)
            status = check_text(path, field->name, item, err);
        else if (field->type == FIELD_U64 &&
                 *(const uint64_t *)item > INT64_MAX)
            status = error_set(err, STATUS_INVALID, "%s/%s: must be below 2^63",
                               path, field->name);
    }
    return status;
}

/* --- encoding --- */

const char *
wire_type_name(enum wire_type type)
{
    assert((unsigned)type < WIRE_TYPE_COUNT);
    return wire_messages[type].name;
}

static void
append_head(struct buf *out, size_t size)
{
    const uint8_t head[WIRE_HEAD_BYTES] = {(uint8_t)(size >> 24),
                                           (uint8_t)(size >> 16),
                                           (uint8_t)(size >> 8), (uint8_t)size};

    buf_append(out, head, sizeof(head));
}

enum status
wire_encode(enum wire_type type, const void *body, struct buf *out,
            struct error *err)
{
    const struct message *message = &wire_messages[type];
    size_t start = out->size;
    struct json_out json;
    struct buf text;
    enum status status;

    assert((unsigned)type < WIRE_TYPE_COUNT);
    buf_init(&text, WIRE_FRAME_MAX_BYTES);
    status = check(message->fields, message->field_count, body, "", err);
    if (status != STATUS_OK)
        goto out;
    json_out_init(&json, &text);
    json_open_object(&json);
    json_member_text(&json, "t", message->name);
    field_encode(&json, message->fields, message->field_count, body);
    json_close_object(&json);
    if (text.overflowed) {
        status = error_set(err, STATUS_TOO_LARGE, "%s: over %d bytes",
                           message->name, WIRE_FRAME_MAX_BYTES);
        goto out;
    }
    append_head(out, text.size);
    buf_append(out, text.data, text.size);
    status = buf_status(out, err);
    if (status != STATUS_OK)
        buf_truncate(out, start);

out:
    buf_clear(&text);
    return status;
}

/* --- decoding --- */

/* A frame is the message's members and "t", which the message's struct does
 * not have: it is decoded with this in front. */
struct envelope {
    char t[TYPE_BYTES];
    union {
        struct wire_message align;
        char bytes[1];
    } body;
};

static enum status
find_type(const struct json *root, enum wire_type *type, struct error *err)
{
    size_t size;
    const char *name = json_as_text(json_get(root, "t"), &size);

    if (name == NULL)
        return error_set(err, STATUS_INVALID, "/t: must be a text");
    for (int i = 0; i < WIRE_TYPE_COUNT; i++) {
        if (strlen(wire_messages[i].name) == size &&
            memcmp(wire_messages[i].name, name, size) == 0) {
            *type = (enum wire_type)i;
            return STATUS_OK;
        }
    }
    return error_set(err, STATUS_NOT_FOUND, "/t: unknown type %.*s",
                     (int)(size < TYPE_BYTES ? size : TYPE_BYTES), name);
}

/* The message's table, moved into the envelope. Returns the count. */
static size_t
envelope_fields(const struct message *message, struct field fields[FIELDS_MAX])
{
    const struct field t =
        FIELD(struct envelope, t, FIELD_TEXT, .required = true);
    size_t shift = offsetof(struct envelope, body);

    assert(message->field_count + 1 <= FIELDS_MAX);
    fields[0] = t;
    for (size_t i = 0; i < message->field_count; i++) {
        fields[i + 1] = message->fields[i];
        fields[i + 1].offset += shift;
        fields[i + 1].count_at += shift;
        fields[i + 1].has_at += shift;
    }
    return message->field_count + 1;
}

/* The members of @root into @body, which has the size of the type's struct. */
static enum status
decode_body(const struct json *root, const struct message *message, void *body,
            struct error *err)
{
    size_t shift = offsetof(struct envelope, body);
    size_t size = shift + message->size;
    char *envelope = mem_alloc(size);
    struct field fields[FIELDS_MAX];
    size_t count = envelope_fields(message, fields);
    enum status status = field_decode(root, fields, count, envelope, size, err);

    if (status == STATUS_OK)
        status = check(message->fields, message->field_count, envelope + shift,
                       "", err);
    if (status == STATUS_OK)
        memcpy(body, envelope + shift, message->size);
    free(envelope);
    return status;
}

enum status
wire_decode(const char *text, size_t size, struct wire_message *message,
            struct error *err)
{
    struct json_doc doc = {NULL};
    struct error reason;
    enum wire_type type = WIRE_TYPE_COUNT;
    enum status status;

    if (size > WIRE_FRAME_MAX_BYTES)
        return error_set(err, STATUS_TOO_LARGE, "/: over %d bytes",
                         WIRE_FRAME_MAX_BYTES);
    if (json_doc_parse(text, size, &doc, &reason) != STATUS_OK)
        return error_set(err, STATUS_INVALID, "/: no JSON object: %s",
                         reason.text);
    status = find_type(doc.root, &type, err);
    if (status == STATUS_OK)
        status =
            decode_body(doc.root, &wire_messages[type], &message->hello, err);
    if (status == STATUS_OK)
        message->type = type;
    json_doc_clear(&doc);
    return status;
}

size_t
wire_head_size(const uint8_t head[static WIRE_HEAD_BYTES])
{
    return (size_t)head[0] << 24 | (size_t)head[1] << 16 |
           (size_t)head[2] << 8 | head[3];
}

/* --- the table as text --- */

static void print_fields(const struct field *fields, size_t count,
                         struct buf *out);

/* A text's size in bytes, unless its name says more. */
static void
print_text(const struct field *field, struct buf *out)
{
    if (holds_uuid(field->name))
        buf_append_text(out, "uuid");
    else if (holds_digest(field->name))
        buf_append_text(out, "sha256 in hex");
    else
        buf_printf(out, "text %" PRIu64 "..%zu", field->min,
                   field->max > 0 ? (size_t)field->max : field->size - 1);
}

/* "text 1..127", "u32 list up to 16", "{...} or null". */
static void
print_field(const struct field *field, struct buf *out)
{
    buf_printf(out, "%s: ", field->name);
    switch (field->type) {
    case FIELD_TEXT:
        print_text(field, out);
        break;
    case FIELD_U64:
        buf_append_text(out, "u63");
        break;
    case FIELD_I64:
        buf_append_text(out, "i64");
        break;
    case FIELD_U32:
        buf_append_text(out, "u32");
        break;
    case FIELD_BOOL:
        buf_append_text(out, "bool");
        break;
    case FIELD_DOUBLE:
        buf_append_text(out, "number");
        if (field->fmin < field->fmax)
            buf_printf(out, " %g..%g", field->fmin, field->fmax);
        break;
    case FIELD_OBJECT:
        buf_append_char(out, '{');
        print_fields(field->rows, field->row_count, out);
        buf_append_char(out, '}');
        break;
    case FIELD_TREE:
        buf_append_text(out, "any");
        break;
    }
    if (field->capacity > 0)
        buf_printf(out, " list up to %zu", field->capacity);
    if (field->nullable)
        buf_append_text(out, " or null");
}

static void
print_fields(const struct field *fields, size_t count, struct buf *out)
{
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buf_append_text(out, ", ");
        print_field(&fields[i], out);
    }
}

void
wire_print(struct buf *out)
{
    buf_append_text(out, "| t | direction | meaning | members |\n"
                         "|---|---|---|---|\n");
    for (size_t i = 0; i < WIRE_TYPE_COUNT; i++) {
        buf_printf(out, "| `%s` | %s | %s | ", wire_messages[i].name,
                   wire_messages[i].direction, wire_messages[i].meaning);
        print_fields(wire_messages[i].fields, wire_messages[i].field_count,
                     out);
        buf_append_text(out, " |\n");
    }
}
