/* field.h - tables that decode and encode Berth's own JSON objects.
 *
 * A table lists the members of a plain struct with fixed arrays.  Decoding is
 * strict: unknown, missing, repeated and out-of-range members are refused and
 * the error begins with the member's path ("/models/0/id: ...").  The same
 * table encodes, so decode(encode(x)) equals x.
 *
 *   static const struct field spec_fields[] = {
 *       FIELD(struct spec, model, FIELD_TEXT, .required = true, .min = 1),
 *       FIELD_LIST(struct spec, ids, id_count, FIELD_U32),
 *       FIELD_ROWS(struct spec, rows, row_count, row_fields),
 *       FIELD_NULLABLE(struct spec, cores, has_cores, FIELD_U64),
 *   };
 */
#ifndef BERTH_COMMON_FIELD_H
#define BERTH_COMMON_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "common/error.h"
#include "common/json.h"

enum field_type {
    FIELD_TEXT,   /* char[n]: UTF-8 without NUL; min and max are its bytes */
    FIELD_U64,    /* uint64_t, min..max (max 0 = 2^63-1) */
    FIELD_I64,    /* int64_t; min..max when max is not 0 */
    FIELD_U32,    /* uint32_t, min..max (max 0 = 2^32-1) */
    FIELD_BOOL,   /* bool */
    FIELD_DOUBLE, /* double, finite, fmin..fmax when they differ */
    FIELD_OBJECT, /* a nested struct, described by .rows */
    FIELD_TREE,   /* const struct json *: any JSON, borrowed from the document;
                   * encodes as the value it points to */
};

struct field {
    const char *name;
    enum field_type type;
    bool required;
    bool hidden_when_zero; /* encode: leave out a zero, false or empty value */
    size_t offset;
    size_t size;       /* of one item, the whole char array for FIELD_TEXT */
    size_t capacity;   /* > 0: a list of at most that many items */
    size_t count_at;   /* offset of the size_t count of a list */
    bool nullable;     /* has_at is the offset of a bool: false = null */
    size_t has_at;
    uint64_t min, max; /* see the type */
    double fmin, fmax;
    const struct field *rows; /* FIELD_OBJECT: its table */
    size_t row_count;
};

#define FIELD(type_, member_, ...)                                             \
    {                                                                          \
        .name = #member_, .offset = offsetof(type_, member_),                  \
        .size = sizeof(((type_ *)0)->member_), .type = __VA_ARGS__             \
    }
/* A list of numbers or texts in a fixed array with a size_t count beside it. */
#define FIELD_LIST(type_, member_, count_, ...)                                \
    {                                                                          \
        .name = #member_, .offset = offsetof(type_, member_),                  \
        .size = sizeof(((type_ *)0)->member_[0]),                              \
        .capacity = COUNT_OF(((type_ *)0)->member_),                           \
        .count_at = offsetof(type_, count_), .type = __VA_ARGS__               \
    }
/* A list of nested structs. */
#define FIELD_ROWS(type_, member_, count_, table_, ...)                        \
    {                                                                          \
        .name = #member_, .type = FIELD_OBJECT,                                \
        .offset = offsetof(type_, member_),                                    \
        .size = sizeof(((type_ *)0)->member_[0]),                              \
        .capacity = COUNT_OF(((type_ *)0)->member_),                           \
        .count_at = offsetof(type_, count_), .rows = (table_),                 \
        .row_count = COUNT_OF(table_), __VA_ARGS__                             \
    }
/* One nested struct. */
#define FIELD_NESTED(type_, member_, table_, ...)                              \
    {                                                                          \
        .name = #member_, .type = FIELD_OBJECT,                                \
        .offset = offsetof(type_, member_),                                    \
        .size = sizeof(((type_ *)0)->member_), .rows = (table_),               \
        .row_count = COUNT_OF(table_), __VA_ARGS__                             \
    }
/* A value that may be null (and may be absent unless required). */
#define FIELD_NULLABLE(type_, member_, has_, ...)                              \
    {                                                                          \
        .name = #member_, .offset = offsetof(type_, member_),                  \
        .size = sizeof(((type_ *)0)->member_), .nullable = true,               \
        .has_at = offsetof(type_, has_), .type = __VA_ARGS__                   \
    }

/* Decode a tree into @target, which holds the defaults and is touched only on
 * success.  @target_size is the size of the struct. */
MUST_CHECK enum status field_decode(const struct json *object,
                                    const struct field *fields, size_t count,
                                    void *target, size_t target_size,
                                    struct error *err);
/* The same from text. FIELD_TREE members are not allowed in such a table. */
MUST_CHECK enum status field_decode_text(const char *text, size_t size,
                                         const struct field *fields,
                                         size_t count, void *target,
                                         size_t target_size, struct error *err);
/* Write the members (without braces) of @source. */
void field_encode(struct json_out *out, const struct field *fields,
                  size_t count, const void *source);

#endif
