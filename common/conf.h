/* conf.h - configuration files: "key = value", '#' or ';' comments, no
 * sections, keys from a table with unit, range and default.
 *
 * A comment has a line of its own: '#' and ';' within a value belong to it.
 * Blanks around key and value do not count; a line may be as long as the file.
 * An unknown or repeated key, or a value out of range, stops the start with a
 * line that names file, line, key and what is allowed. */
#ifndef BERTH_COMMON_CONF_H
#define BERTH_COMMON_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "common/error.h"
#include "common/json.h"

enum conf_type {
    CONF_TEXT,  /* char[n] */
    CONF_U64,   /* uint64_t min..max */
    CONF_BYTES, /* uint64_t with unit: 512MiB, 96GB */
    CONF_BOOL,  /* bool: yes or no */
    CONF_TEXTS, /* char[capacity][n], key may be repeated; count beside it */
};

struct conf_key {
    const char *name;
    enum conf_type type;
    size_t offset;
    size_t size;     /* of one text */
    size_t capacity; /* CONF_TEXTS */
    size_t count_at; /* CONF_TEXTS: offset of a size_t */
    uint64_t min, max;
    const char *fallback; /* default as text, NULL: leave as it is */
    const char *unit;     /* for the man page and messages: "ms", "bytes" */
    const char *meaning;  /* one line for the man page and check-config */
};

#define CONF_KEY(type_, member_, kind_, ...)                                   \
    {                                                                          \
        .name = #member_, .type = (kind_), .offset = offsetof(type_, member_), \
        .size = sizeof(((type_ *)0)->member_), __VA_ARGS__                     \
    }
#define CONF_KEY_LIST(type_, member_, count_, ...)                             \
    {                                                                          \
        .name = #member_, .type = CONF_TEXTS,                                  \
        .offset = offsetof(type_, member_),                                    \
        .size = sizeof(((type_ *)0)->member_[0]),                              \
        .capacity = COUNT_OF(((type_ *)0)->member_),                           \
        .count_at = offsetof(type_, count_), __VA_ARGS__                       \
    }

/* Write every fallback into @target. */
void conf_defaults(const struct conf_key *keys, size_t count, void *target);
/* Read @path over the defaults. STATUS_INVALID or STATUS_NOT_FOUND. */
MUST_CHECK enum status conf_read(const char *path, const struct conf_key *keys,
                                 size_t count, void *target, struct error *err);
/* All keys with values as they are now, one "key = value" a line. */
void conf_print(const struct conf_key *keys, size_t count, const void *source,
                struct buf *out);
/* The same as one JSON object: texts, numbers, booleans, lists of texts. */
void conf_print_json(const struct conf_key *keys, size_t count,
                     const void *source, struct json_out *out);

#endif
