/* template_value.h - the values of chat templates; private to model/.
 *
 * Everything a rendering makes lives in its arena and goes with it, so values
 * are copied and dropped freely.  Semantics are Python's, as Jinja2 has them:
 * texts are sequences of characters (code points), not of bytes.
 *
 * Whatever may take long adds what it took to @steps and gives up, with any
 * result, once they are more than TEMPLATE_STEPS_MAX; the caller's next
 * run_charge ends the rendering. */
#ifndef BERTH_MODEL_TEMPLATE_VALUE_H
#define BERTH_MODEL_TEMPLATE_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "common/error.h"
#include "common/json.h"

enum {
    TEMPLATE_VALUE_TEXT_MAX = 32 * 1024 * 1024, /* of one text */
    TEMPLATE_LIST_MAX = 1024 * 1024,            /* items of one list */
    TEMPLATE_PRINT_DEPTH_MAX = 600,             /* above what JSON allows */
    /* What counts as one step of a rendering. */
    TEMPLATE_STEP_BYTES = 64,     /* copied or compared */
    TEMPLATE_STEP_CHARACTERS = 8, /* looked at one by one */
    TEMPLATE_STEP_ITEMS = 16,     /* passed by */
};

/* --- memory ---------------------------------------------------------------*/

/* Memory that is freed all at once.  It never fails: past its limit it says
 * so, and whoever works with it looks at that now and then.  One piece is
 * never larger than a text or a list may be. */
struct arena {
    struct arena_chunk *chunks;
    size_t used; /* bytes of all pieces */
};

void *arena_alloc(struct arena *arena, size_t size);
void arena_clear(struct arena *arena);

/* --- values ---------------------------------------------------------------*/

struct text {
    const char *data;
    size_t size;
};

#define TEXT(literal) ((struct text){(literal), sizeof(literal) - 1})

enum value_kind {
    VALUE_UNDEFINED,
    VALUE_NONE,
    VALUE_BOOL,
    VALUE_INTEGER,
    VALUE_REAL,
    VALUE_TEXT,
    VALUE_LIST,
    VALUE_MAP,
    VALUE_LOOP,     /* the variable "loop" */
    VALUE_MACRO,    /* {% macro %}, and caller() */
    VALUE_FUNCTION, /* a global function, by its name */
};

struct value {
    enum value_kind kind;
    union {
        bool boolean;
        int64_t integer;
        double real;
        struct text text; /* also the name of an undefined variable */
        struct list *list;
        struct map *map;
        struct loop *loop;
        const struct macro *macro;
    };
};

struct list {
    struct value *items;
    size_t count;
    size_t capacity;
    bool is_tuple; /* written with round brackets; else no difference */
};

struct map_entry {
    struct value key;
    struct value value;
};

struct map {
    struct map_entry *entries;
    size_t count;
    size_t capacity;
    bool is_namespace; /* its members may be set */
};

struct loop {
    const struct list *items;
    size_t index;
    unsigned depth; /* 1: outermost */
};

struct value value_undefined(struct text name);
struct value value_none(void);
struct value value_bool(bool boolean);
struct value value_integer(int64_t integer);
struct value value_real(double real);
struct value value_text(struct text text);
struct value value_list(struct list *list);
struct value value_map(struct map *map);

struct list *list_new(struct arena *arena);
/* Items past the maximum are dropped; the arena's limit stops it before. */
void list_add(struct arena *arena, struct list *list, struct value item);
struct map *map_new(struct arena *arena);
/* The value of a key; NULL when there is none. */
const struct value *map_find(const struct map *map, const struct value *key,
                             uint64_t *steps);
void map_set(struct arena *arena, struct map *map, struct value key,
             struct value value, uint64_t *steps);

/* A copy of bytes that lives as long as the arena. */
struct text text_copy(struct arena *arena, const char *data, size_t size);
/* The bytes of @buf, which is cleared. */
struct text text_take(struct arena *arena, struct buf *buf);
bool text_equal(struct text a, struct text b);
bool text_is(struct text text, const char *other);
/* Where @wanted begins in @text from @from on; SIZE_MAX when it does not. */
size_t text_find(struct text text, struct text wanted, size_t from,
                 uint64_t *steps);
/* Characters, and the byte where the character @index begins. */
size_t text_length(struct text text);
size_t text_offset(struct text text, size_t index);
/* The size in bytes of the character at byte @at. */
size_t text_step(struct text text, size_t at);
/* How many bytes of a text, whole characters, a message shows. */
int text_shown(struct text text);

/* A JSON tree as values; texts are borrowed from it. */
struct value value_from_json(struct arena *arena, const struct json *json);

bool value_is_true(const struct value *value);
bool value_is_number(const struct value *value);
double value_as_real(const struct value *value);     /* of a number */
int64_t value_as_integer(const struct value *value); /* or of a boolean */
bool value_equal(const struct value *a, const struct value *b, uint64_t *steps);
/* -1, 0 or 1 into @order; false when they have no order. */
bool value_compare(const struct value *a, const struct value *b, int *order,
                   uint64_t *steps);
/* "string", "list", ... for messages. */
const char *value_kind_name(const struct value *value);

/* What {{ value }} writes: str() of it. */
void value_print(const struct value *value, struct buf *out);

struct json_style {
    bool ascii;    /* escape everything else */
    bool indented; /* by @indent blanks */
    bool sorted;
    size_t indent;
    struct text item; /* between items, ", " */
    struct text colon;
};

/* json.dumps() of it.  False when it is no JSON value. */
bool value_print_json(const struct value *value, const struct json_style *style,
                      struct buf *out);

#endif
