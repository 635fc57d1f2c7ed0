/* json.h - borrowed trees for JSON that is open-ended (OpenAI bodies, model
 * files), and a writer for JSON that leaves.
 *
 * Berth's own objects are decoded by common/field.h instead.  A document owns
 * every value got from it; values are borrowed and live as long as it does.
 * A document may be read from several threads at once. */
#ifndef BERTH_COMMON_JSON_H
#define BERTH_COMMON_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "common/error.h"

/* A value inside a document; opaque. NULL stands for "no such member". */
struct json;

struct json_doc {
    struct json *root; /* NULL before a parse */
};

enum json_kind {
    JSON_KIND_NULL,
    JSON_KIND_BOOL,
    JSON_KIND_INTEGER,
    JSON_KIND_REAL,
    JSON_KIND_TEXT,
    JSON_KIND_LIST,
    JSON_KIND_OBJECT,
};

/* Parse one JSON text (RFC 8259, UTF-8, no repeated members, nothing after
 * it, at most 512 levels deep).  STATUS_INVALID with line and column in @err.
 */
MUST_CHECK enum status json_doc_parse(const char *text, size_t size,
                                      struct json_doc *doc, struct error *err);
void json_doc_clear(struct json_doc *doc);

/* All of these take NULL and answer as for "nothing": null, 0, false. */
enum json_kind json_kind(const struct json *value);
bool json_is_null(const struct json *value); /* absent or null */
bool json_as_bool(const struct json *value); /* true only for true */
/* UTF-8 bytes (may hold NUL: use the size); NULL when it is no text. */
const char *json_as_text(const struct json *value, size_t *size);
/* STATUS_INVALID when it is no integer (a real without fraction passes). */
MUST_CHECK enum status json_as_i64(const struct json *value, int64_t *number);
MUST_CHECK enum status json_as_double(const struct json *value, double *number);
/* Items of a list or members of an object. */
size_t json_count(const struct json *value);
const struct json *json_at(const struct json *list, size_t index);
const struct json *json_get(const struct json *object, const char *name);

/* Members in the order of the text:
 *   for (it = json_member_first(o); it != NULL; it = json_member_next(o, it))
 */
struct json_member;
const struct json_member *json_member_first(const struct json *object);
const struct json_member *json_member_next(const struct json *object,
                                           const struct json_member *member);
const char *json_member_name(const struct json_member *member);
const struct json *json_member_value(const struct json_member *member);

/* Compact text of a value, appended, members in their order. */
void json_dump(const struct json *value, struct buf *buf);

/* --- writing --- */

enum { JSON_OUT_DEPTH_MAX = 32 };

/* Appends to a buffer it does not own; commas are its business. */
struct json_out {
    struct buf *buf;
    unsigned depth;
    bool first[JSON_OUT_DEPTH_MAX + 1];
    bool after_key;
};

void json_out_init(struct json_out *out, struct buf *buf);
void json_open_object(struct json_out *out);
void json_close_object(struct json_out *out);
void json_open_list(struct json_out *out);
void json_close_list(struct json_out *out);
void json_key(struct json_out *out, const char *name);
/* Text must be UTF-8; a byte that is not becomes U+FFFD. NULL writes null. */
void json_put_text(struct json_out *out, const char *text);
void json_put_text_sized(struct json_out *out, const char *text, size_t size);
void json_put_i64(struct json_out *out, int64_t value);
void json_put_u64(struct json_out *out, uint64_t value);
/* Shortest form that reads back equal; null for NaN and infinities. */
void json_put_double(struct json_out *out, double value);
void json_put_bool(struct json_out *out, bool value);
void json_put_null(struct json_out *out);
/* JSON text that is already valid. */
void json_put_raw(struct json_out *out, const char *text, size_t size);

/* Shorthands: key and value. */
void json_member_text(struct json_out *out, const char *name, const char *text);
void json_member_i64(struct json_out *out, const char *name, int64_t value);
void json_member_u64(struct json_out *out, const char *name, uint64_t value);
void json_member_bool(struct json_out *out, const char *name, bool value);
void json_member_null(struct json_out *out, const char *name);
void json_member_double(struct json_out *out, const char *name, double value);

#endif
