/* template_value.c - the values of chat templates. */
#include "model/template_value.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "model/template.h"

#include "common/banned.h"

enum {
    CHUNK_BYTES = 64 * 1024,
    ALIGNMENT = 16,
    COMPARE_DEPTH_MAX = 600, /* above what JSON allows */
    COMPARE_ITEMS_MAX = 1000 * 1000,
    SHOWN_BYTES = 60,
};

struct arena_chunk {
    struct arena_chunk *next;
    size_t used;
    size_t size;
    _Alignas(ALIGNMENT) char bytes[];
};

void *
arena_alloc(struct arena *arena, size_t size)
{
    struct arena_chunk *chunk = arena->chunks;
    char *piece = NULL;

    size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (chunk == NULL || chunk->size - chunk->used < size) {
        size_t bytes = size > CHUNK_BYTES / 4 ? size : CHUNK_BYTES;

        chunk = mem_alloc(sizeof(*chunk) + bytes);
        chunk->size = bytes;
        chunk->next = arena->chunks;
        arena->chunks = chunk;
    }
    piece = chunk->bytes + chunk->used;
    chunk->used += size;
    arena->used += size;
    return piece;
}

void
arena_clear(struct arena *arena)
{
    while (arena->chunks != NULL) {
        struct arena_chunk *next = arena->chunks->next;

        free(arena->chunks);
        arena->chunks = next;
    }
    arena->used = 0;
}

/* --- making ---------------------------------------------------------------*/

struct value
value_undefined(struct text name)
{
    return (struct value){.kind = VALUE_UNDEFINED, .text = name};
}

struct value
value_none(void)
{
    return (struct value){.kind = VALUE_NONE};
}

struct value
value_bool(bool boolean)
{
    return (struct value){.kind = VALUE_BOOL, .boolean = boolean};
}

struct value
value_integer(int64_t integer)
{
    return (struct value){.kind = VALUE_INTEGER, .integer = integer};
}

struct value
value_real(double real)
{
    return (struct value){.kind = VALUE_REAL, .real = real};
}

struct value
value_text(struct text text)
{
    return (struct value){.kind = VALUE_TEXT, .text = text};
}

struct value
value_list(struct list *list)
{
    return (struct value){.kind = VALUE_LIST, .list = list};
}

struct value
value_map(struct map *map)
{
    return (struct value){.kind = VALUE_MAP, .map = map};
}

struct list *
list_new(struct arena *arena)
{
    return arena_alloc(arena, sizeof(struct list));
}

/* Room for one more item in an array of the arena: the old one is left behind,
 * which at most doubles what is used. */
static void *
grow(struct arena *arena, void *items, size_t count, size_t *capacity,
     size_t size)
{
    void *grown = NULL;

    if (count < *capacity)
        return items;
    *capacity = *capacity == 0 ? 4 : *capacity * 2;
    grown = arena_alloc(arena, *capacity * size);
    if (count > 0)
        memcpy(grown, items, count * size);
    return grown;
}

void
list_add(struct arena *arena, struct list *list, struct value item)
{
    if (list->count == TEMPLATE_LIST_MAX)
        return;
    list->items = grow(arena, list->items, list->count, &list->capacity,
                       sizeof(list->items[0]));
    list->items[list->count++] = item;
}

struct map *
map_new(struct arena *arena)
{
    return arena_alloc(arena, sizeof(struct map));
}

static void
map_add(struct arena *arena, struct map *map, struct value key,
        struct value value)
{
    if (map->count == TEMPLATE_LIST_MAX)
        return;
    map->entries = grow(arena, map->entries, map->count, &map->capacity,
                        sizeof(map->entries[0]));
    map->entries[map->count++] = (struct map_entry){key, value};
}

/* Recursion is bounded by the depth that the JSON parser allows. */
struct value
value_from_json(struct arena *arena, const struct json *json)
{
    struct value value = value_none();
    const struct json_member *it = NULL;

    switch (json_kind(json)) {
    case JSON_KIND_NULL:
        break;
    case JSON_KIND_BOOL:
        return value_bool(json_as_bool(json));
    case JSON_KIND_INTEGER:
        value.kind = VALUE_INTEGER;
        if (json_as_i64(json, &value.integer) != STATUS_OK)
            value = value_none();
        break;
    case JSON_KIND_REAL:
        value.kind = VALUE_REAL;
        if (json_as_double(json, &value.real) != STATUS_OK)
            value = value_none();
        break;
    case JSON_KIND_TEXT:
        value.kind = VALUE_TEXT;
        value.text.data = json_as_text(json, &value.text.size);
        break;
    case JSON_KIND_LIST:
        value = value_list(list_new(arena));
        for (size_t i = 0; i < json_count(json); i++)
            list_add(arena, value.list,
                     value_from_json(arena, json_at(json, i)));
        break;
    case JSON_KIND_OBJECT:
        value = value_map(map_new(arena));
        for (it = json_member_first(json); it != NULL;
             it = json_member_next(json, it)) {
            const char *name = json_member_name(it);
            struct text key = {name, strlen(name)};

            map_add(arena, value.map, value_text(key),
                    value_from_json(arena, json_member_value(it)));
        }
        break;
    }
    return value;
}

/* --- text -----------------------------------------------------------------*/

struct text
text_copy(struct arena *arena, const char *data, size_t size)
{
    char *copy = arena_alloc(arena, size + 1);

    memcpy(copy, data, size);
    return (struct text){copy, size};
}

struct text
text_take(struct arena *arena, struct buf *buf)
{
    struct text text = text_copy(arena, buf->data, buf->size);

    buf_clear(buf);
    return text;
}

bool
text_equal(struct text a, struct text b)
{
    return a.size == b.size && memcmp(a.data, b.data, a.size) == 0;
}

bool
text_is(struct text text, const char *other)
{
    return text.size == strlen(other) &&
           memcmp(text.data, other, text.size) == 0;
}

/* Where @wanted, which is not empty, begins.  What was compared is counted,
 * since a text may begin with it nearly everywhere. */
static size_t
find_from(struct text text, struct text wanted, size_t from, uint64_t *steps)
{
    uint64_t compared = 0;
    size_t found = SIZE_MAX;

    while (found == SIZE_MAX && from < text.size &&
           text.size - from >= wanted.size &&
           *steps + compared / TEMPLATE_STEP_BYTES <= TEMPLATE_STEPS_MAX) {
        size_t same = 1;
        const char *at = memchr(text.data + from, wanted.data[0],
                                text.size - from - wanted.size + 1);

        if (at == NULL)
            break;
        while (same < wanted.size && at[same] == wanted.data[same])
            same++;
        compared += same;
        if (same == wanted.size)
            found = (size_t)(at - text.data);
        from = (size_t)(at - text.data) + 1;
    }
    *steps += compared / TEMPLATE_STEP_BYTES;
    return found;
}

size_t
text_find(struct text text, struct text wanted, size_t from, uint64_t *steps)
{
    size_t found;

    ++*steps;
    if (wanted.size == 0)
        return from <= text.size ? from : SIZE_MAX;
    found = find_from(text, wanted, from, steps);
    *steps +=
        ((found == SIZE_MAX ? text.size : found) - from) / TEMPLATE_STEP_BYTES;
    return found;
}

size_t
text_step(struct text text, size_t at)
{
    size_t end = at + 1;

    while (end < text.size && ((uint8_t)text.data[end] & 0xc0) == 0x80)
        end++;
    return end - at;
}

size_t
text_length(struct text text)
{
    size_t count = 0;

    for (size_t i = 0; i < text.size; i++)
        count += ((uint8_t)text.data[i] & 0xc0) != 0x80;
    return count;
}

size_t
text_offset(struct text text, size_t index)
{
    size_t at = 0;

    while (index > 0 && at < text.size) {
        at += text_step(text, at);
        index--;
    }
    return at;
}

int
text_shown(struct text text)
{
    size_t size = text.size;

    if (size <= SHOWN_BYTES)
        return (int)size;
    size = SHOWN_BYTES;
    while (size > 0 && ((uint8_t)text.data[size] & 0xc0) == 0x80)
        size--;
    return (int)size;
}

/* --- comparing ------------------------------------------------------------*/

bool
value_is_true(const struct value *value)
{
    switch (value->kind) {
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        return false;
    case VALUE_BOOL:
        return value->boolean;
    case VALUE_INTEGER:
        return value->integer != 0;
    case VALUE_REAL:
        return value->real != 0;
    case VALUE_TEXT:
        return value->text.size != 0;
    case VALUE_LIST:
        return value->list->count != 0;
    case VALUE_MAP:
        return value->map->is_namespace || value->map->count != 0;
    case VALUE_LOOP:
    case VALUE_MACRO:
    case VALUE_FUNCTION:
        break;
    }
    return true;
}

bool
value_is_number(const struct value *value)
{
    return value->kind == VALUE_INTEGER || value->kind == VALUE_REAL ||
           value->kind == VALUE_BOOL;
}

double
value_as_real(const struct value *value)
{
    if (value->kind == VALUE_REAL)
        return value->real;
    return value->kind == VALUE_BOOL ? value->boolean : (double)value->integer;
}

int64_t
value_as_integer(const struct value *value)
{
    return value->kind == VALUE_BOOL ? value->boolean : value->integer;
}

/* What one comparison may still do.  A template can nest lists without end and
 * share them, so neither depth nor size is bounded by the memory they take;
 * past these bounds two values count as different. */
struct comparison {
    unsigned depth;
    unsigned left;
    uint64_t *steps;
};

static bool equal(const struct value *a, const struct value *b,
                  struct comparison *comparison);

static bool
lists_equal(const struct list *a, const struct list *b,
            struct comparison *comparison)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        if (!equal(&a->items[i], &b->items[i], comparison))
            return false;
    }
    return true;
}

static bool
texts_equal(struct text a, struct text b, uint64_t *steps)
{
    if (a.size != b.size)
        return false;
    *steps += a.size / TEMPLATE_STEP_BYTES;
    return text_equal(a, b);
}

/* Most keys are texts of different sizes, so that passing one by is cheap. */
static struct map_entry *
find_entry(const struct map *map, const struct value *key,
           struct comparison *comparison)
{
    *comparison->steps += map->count / TEMPLATE_STEP_ITEMS;
    for (size_t i = 0;
         i < map->count && *comparison->steps <= TEMPLATE_STEPS_MAX; i++) {
        const struct value *other = &map->entries[i].key;

        if (key->kind == VALUE_TEXT && other->kind == VALUE_TEXT
                ? texts_equal(other->text, key->text, comparison->steps)
                : equal(other, key, comparison))
            return &map->entries[i];
    }
    return NULL;
}

/* Namespaces may hold themselves: they are equal only to themselves. */
static bool
maps_equal(const struct map *a, const struct map *b,
           struct comparison *comparison)
{
    if (a->count != b->count || a->is_namespace || b->is_namespace)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        const struct map_entry *other =
            find_entry(b, &a->entries[i].key, comparison);

        if (other == NULL ||
            !equal(&a->entries[i].value, &other->value, comparison))
            return false;
    }
    return true;
}

static bool
nested_equal(const struct value *a, const struct value *b,
             struct comparison *comparison)
{
    bool same = false;

    if (comparison->depth == COMPARE_DEPTH_MAX)
        return false;
    comparison->depth++;
    if (a->kind == VALUE_LIST)
        same = a->list == b->list || lists_equal(a->list, b->list, comparison);
    else
        same = a->map == b->map || maps_equal(a->map, b->map, comparison);
    comparison->depth--;
    return same;
}

static bool
equal(const struct value *a, const struct value *b,
      struct comparison *comparison)
{
    if (comparison->left == 0 || *comparison->steps > TEMPLATE_STEPS_MAX)
        return false;
    comparison->left--;
    ++*comparison->steps;
    if (value_is_number(a) && value_is_number(b)) {
        if (a->kind == VALUE_REAL || b->kind == VALUE_REAL)
            return value_as_real(a) == value_as_real(b);
        return value_as_integer(a) == value_as_integer(b);
    }
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        return true;
    case VALUE_TEXT:
    case VALUE_FUNCTION:
        return texts_equal(a->text, b->text, comparison->steps);
    case VALUE_LIST:
    case VALUE_MAP:
        return nested_equal(a, b, comparison);
    case VALUE_LOOP:
        return a->loop == b->loop;
    case VALUE_MACRO:
        return a->macro == b->macro;
    case VALUE_BOOL:
    case VALUE_INTEGER:
    case VALUE_REAL:
        break;
    }
    return false;
}

static struct comparison
comparison_begin(uint64_t *steps)
{
    return (struct comparison){.left = COMPARE_ITEMS_MAX, .steps = steps};
}

bool
value_equal(const struct value *a, const struct value *b, uint64_t *steps)
{
    struct comparison comparison = comparison_begin(steps);

    return equal(a, b, &comparison);
}

const struct value *
map_find(const struct map *map, const struct value *key, uint64_t *steps)
{
    struct comparison comparison = comparison_begin(steps);
    const struct map_entry *entry = find_entry(map, key, &comparison);

    return entry != NULL ? &entry->value : NULL;
}

void
map_set(struct arena *arena, struct map *map, struct value key,
        struct value value, uint64_t *steps)
{
    struct comparison comparison = comparison_begin(steps);
    struct map_entry *entry = find_entry(map, &key, &comparison);

    if (entry != NULL)
        entry->value = value;
    else
        map_add(arena, map, key, value);
}

static int
compare_texts(struct text a, struct text b)
{
    size_t size = a.size < b.size ? a.size : b.size;
    int order = memcmp(a.data, b.data, size);

    if (order != 0)
        return order < 0 ? -1 : 1;
    return a.size == b.size ? 0 : a.size < b.size ? -1 : 1;
}

bool
value_compare(const struct value *a, const struct value *b, int *order,
              uint64_t *steps)
{
    if (a->kind == VALUE_TEXT && b->kind == VALUE_TEXT) {
        size_t size = a->text.size < b->text.size ? a->text.size : b->text.size;

        *steps += size / TEMPLATE_STEP_BYTES;
        /* UTF-8 sorts by bytes as it does by code points. */
        *order = compare_texts(a->text, b->text);
        return true;
    }
    if (value_is_number(a) && value_is_number(b)) {
        double left = value_as_real(a);
        double right = value_as_real(b);

        *order = left == right ? 0 : left < right ? -1 : 1;
        return true;
    }
    return false;
}

const char *
value_kind_name(const struct value *value)
{
    static const char *const names[] = {
        [VALUE_UNDEFINED] = "undefined", [VALUE_NONE] = "none",
        [VALUE_BOOL] = "a boolean",      [VALUE_INTEGER] = "an integer",
        [VALUE_REAL] = "a float",        [VALUE_TEXT] = "a string",
        [VALUE_LIST] = "a list",         [VALUE_MAP] = "a mapping",
        [VALUE_LOOP] = "a loop",         [VALUE_MACRO] = "a macro",
        [VALUE_FUNCTION] = "a function",
    };

    return names[value->kind];
}
