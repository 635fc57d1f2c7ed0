/* template_print.c - values as text: str(), repr() and json.dumps() of Python,
 * which is what templates are written against. */
#include "model/template_value.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "common/mem.h"

#include "common/banned.h"

enum {
    REAL_DIGITS_MAX = 17,
    EXPONENT_MIN = -4, /* below and from here up Python writes 1e16 */
    EXPONENT_MAX = 16,
};

/* The shortest digits that read back equal, as repr() writes them. */
static void
print_real(double real, struct buf *out)
{
    char text[48];
    const char *e = NULL;
    int precision = 0;
    double exponent = 0;

    if (!isfinite(real)) {
        buf_append_text(out, isnan(real) ? "nan" : real < 0 ? "-inf" : "inf");
        return;
    }
    do {
        snprintf(text, sizeof(text), "%.*e", precision++, real);
    } while (precision < REAL_DIGITS_MAX && strtod(text, NULL) != real);
    e = strchr(text, 'e');
    exponent = strtod(e + 1, NULL);
    if (exponent < EXPONENT_MIN || exponent >= EXPONENT_MAX) {
        buf_append_text(out, text);
        return;
    }
    precision = precision - 1 - (int)exponent;
    snprintf(text, sizeof(text), "%.*f", precision < 1 ? 1 : precision, real);
    buf_append_text(out, text);
}

/* A text as a Python literal: quoted with ' unless only that is inside. */
static void
print_quoted(struct text text, struct buf *out)
{
    bool doubled = memchr(text.data, '\'', text.size) != NULL &&
                   memchr(text.data, '"', text.size) == NULL;
    char quote = doubled ? '"' : '\'';

    buf_append_char(out, quote);
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];

        if (c == quote || c == '\\')
            buf_printf(out, "\\%c", c);
        else if (c == '\n')
            buf_append_text(out, "\\n");
        else if (c == '\r')
            buf_append_text(out, "\\r");
        else if (c == '\t')
            buf_append_text(out, "\\t");
        else if ((uint8_t)c < 0x20 || c == 0x7f)
            buf_printf(out, "\\x%02x", (unsigned)(uint8_t)c);
        else
            buf_append_char(out, c);
    }
    buf_append_char(out, quote);
}

static void print_nested(const struct value *value, unsigned depth, bool quoted,
                         struct buf *out);

static void
print_list(const struct list *list, unsigned depth, struct buf *out)
{
    buf_append_char(out, list->is_tuple ? '(' : '[');
    for (size_t i = 0; i < list->count; i++) {
        if (i > 0)
            buf_append_text(out, ", ");
        print_nested(&list->items[i], depth + 1, true, out);
    }
    if (list->is_tuple && list->count == 1)
        buf_append_char(out, ',');
    buf_append_char(out, list->is_tuple ? ')' : ']');
}

static void
print_map(const struct map *map, unsigned depth, struct buf *out)
{
    if (map->is_namespace) {
        buf_append_text(out, "<namespace>");
        return;
    }
    buf_append_char(out, '{');
    for (size_t i = 0; i < map->count; i++) {
        if (i > 0)
            buf_append_text(out, ", ");
        print_nested(&map->entries[i].key, depth + 1, true, out);
        buf_append_text(out, ": ");
        print_nested(&map->entries[i].value, depth + 1, true, out);
    }
    buf_append_char(out, '}');
}

/* Lists may be shared without end: once the buffer is full nothing is visited
 * any more, and nothing is deeper than the bound. */
static void
print_nested(const struct value *value, unsigned depth, bool quoted,
             struct buf *out)
{
    if (depth > TEMPLATE_PRINT_DEPTH_MAX || out->overflowed)
        return;
    switch (value->kind) {
    case VALUE_UNDEFINED:
        if (quoted)
            buf_append_text(out, "Undefined");
        break;
    case VALUE_NONE:
        buf_append_text(out, "None");
        break;
    case VALUE_BOOL:
        buf_append_text(out, value->boolean ? "True" : "False");
        break;
    case VALUE_INTEGER:
        buf_printf(out, "%" PRId64, value->integer);
        break;
    case VALUE_REAL:
        print_real(value->real, out);
        break;
    case VALUE_TEXT:
        if (quoted)
            print_quoted(value->text, out);
        else
            buf_append(out, value->text.data, value->text.size);
        break;
    case VALUE_LIST:
        print_list(value->list, depth, out);
        break;
    case VALUE_MAP:
        print_map(value->map, depth, out);
        break;
    case VALUE_LOOP:
    case VALUE_MACRO:
    case VALUE_FUNCTION:
        buf_printf(out, "<%s>", value_kind_name(value));
        break;
    }
}

void
value_print(const struct value *value, struct buf *out)
{
    print_nested(value, 0, false, out);
}

/* --- JSON -----------------------------------------------------------------*/

static bool print_json(const struct value *value,
                       const struct json_style *style, unsigned depth,
                       struct buf *out);

static void
print_escape(utf8proc_int32_t point, struct buf *out)
{
    unsigned rest = (unsigned)point;

    if (rest > 0xffff) { /* a surrogate pair */
        rest -= 0x10000;
        buf_printf(out, "\\u%04x\\u%04x", 0xd800 + (rest >> 10),
                   0xdc00 + (rest & 0x3ff));
        return;
    }
    buf_printf(out, "\\u%04x", rest);
}

static void
print_json_text(struct text text, const struct json_style *style,
                struct buf *out)
{
    static const char named[] = "\"\\\n\r\t\b\f";
    static const char letters[] = "\"\\nrtbf";

    buf_append_char(out, '"');
    for (size_t at = 0; at < text.size;) {
        utf8proc_int32_t point = 0;
        utf8proc_ssize_t step =
            utf8proc_iterate((const utf8proc_uint8_t *)text.data + at,
                             (utf8proc_ssize_t)(text.size - at), &point);
        size_t size = step > 0 ? (size_t)step : 1;
        char c = text.data[at];
        const char *name = c == '\0' ? NULL : strchr(named, c);

        if (name != NULL)
            buf_printf(out, "\\%c", letters[name - named]);
        else if ((uint8_t)c < 0x20 || (style->ascii && step > 1))
            print_escape(point, out);
        else
            buf_append(out, text.data + at, size);
        at += size;
    }
    buf_append_char(out, '"');
}

static void
print_break(const struct json_style *style, unsigned depth, struct buf *out)
{
    if (!style->indented)
        return;
    buf_append_char(out, '\n');
    for (size_t i = 0; i < depth * style->indent && !out->overflowed; i++)
        buf_append_char(out, ' ');
}

static bool
print_json_list(const struct list *list, const struct json_style *style,
                unsigned depth, struct buf *out)
{
    buf_append_char(out, '[');
    for (size_t i = 0; i < list->count; i++) {
        if (i > 0)
            buf_append(out, style->item.data, style->item.size);
        print_break(style, depth + 1, out);
        if (!print_json(&list->items[i], style, depth + 1, out))
            return false;
    }
    if (list->count > 0)
        print_break(style, depth, out);
    buf_append_char(out, ']');
    return true;
}

static int
compare_entries(const void *a, const void *b)
{
    const struct map_entry *left = a;
    const struct map_entry *right = b;
    uint64_t steps = 0; /* keys_fit() has bounded them */
    int order = 0;

    (void)value_compare(&left->key, &right->key, &order, &steps);
    return order;
}

/* Keys may share their bytes: those that together pass what can be written are
 * not worth sorting, and would take long. */
static bool
keys_fit(const struct map *map, const struct buf *out)
{
    size_t left = out->max;

    for (size_t i = 0; i < map->count; i++) {
        const struct value *key = &map->entries[i].key;
        size_t size = key->kind == VALUE_TEXT ? key->text.size : 0;

        if (size > left)
            return false;
        left -= size;
    }
    return true;
}

/* Keys that are no text are written as one, as json.dumps() does. */
static void
print_json_key(const struct value *key, const struct json_style *style,
               struct buf *out)
{
    struct buf text;

    if (key->kind == VALUE_TEXT) {
        print_json_text(key->text, style, out);
        return;
    }
    buf_init(&text, out->max);
    (void)print_json(key, style, TEMPLATE_PRINT_DEPTH_MAX, &text);
    print_json_text((struct text){text.data, text.size}, style, out);
    buf_clear(&text);
}

static bool
print_json_map(const struct map *map, const struct json_style *style,
               unsigned depth, struct buf *out)
{
    struct map_entry *entries = mem_array(map->count, sizeof(entries[0]));
    bool printed = true;

    if (map->count > 0)
        memcpy(entries, map->entries, map->count * sizeof(entries[0]));
    if (style->sorted && keys_fit(map, out))
        qsort(entries, map->count, sizeof(entries[0]), compare_entries);
    buf_append_char(out, '{');
    for (size_t i = 0; i < map->count && printed; i++) {
        if (i > 0)
            buf_append(out, style->item.data, style->item.size);
        print_break(style, depth + 1, out);
        print_json_key(&entries[i].key, style, out);
        buf_append(out, style->colon.data, style->colon.size);
        printed = print_json(&entries[i].value, style, depth + 1, out);
    }
    if (map->count > 0)
        print_break(style, depth, out);
    buf_append_char(out, '}');
    free(entries);
    return printed;
}

static bool
print_json(const struct value *value, const struct json_style *style,
           unsigned depth, struct buf *out)
{
    if (depth > TEMPLATE_PRINT_DEPTH_MAX || out->overflowed)
        return false;
    switch (value->kind) {
    case VALUE_NONE:
        buf_append_text(out, "null");
        return true;
    case VALUE_BOOL:
        buf_append_text(out, value->boolean ? "true" : "false");
        return true;
    case VALUE_INTEGER:
        buf_printf(out, "%" PRId64, value->integer);
        return true;
    case VALUE_REAL:
        print_real(value->real, out);
        return true;
    case VALUE_TEXT:
        print_json_text(value->text, style, out);
        return true;
    case VALUE_LIST:
        return print_json_list(value->list, style, depth, out);
    case VALUE_MAP:
        return !value->map->is_namespace &&
               print_json_map(value->map, style, depth, out);
    case VALUE_UNDEFINED:
    case VALUE_LOOP:
    case VALUE_MACRO:
    case VALUE_FUNCTION:
        break;
    }
    return false;
}

bool
value_print_json(const struct value *value, const struct json_style *style,
                 struct buf *out)
{
    return print_json(value, style, 0, out);
}
