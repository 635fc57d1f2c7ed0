/* tokenizer_normal.c - normalisation forms, on utf8proc's tables.
 *
 * utf8proc sorts combining marks by exchanging neighbours, which takes the
 * square of their number; a prompt may hold a million of them.  So the sorting
 * (Unicode Standard, D109, canonical ordering) is done here by counting. */
#include "model/tokenizer_normal.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "common/mem.h"

#include "common/banned.h"

enum {
    CLASS_COUNT = 256,
    INSERTION_MAX = 16,
    DECOMPOSED_MAX = 32, /* of one character; 18 in Unicode */
};

struct points {
    utf8proc_int32_t *items;
    size_t count;
    size_t capacity;
};

static const struct {
    const char *name;
    int options;
} forms[] = {
    {"NFC", UTF8PROC_STABLE | UTF8PROC_COMPOSE},
    {"NFD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE},
    {"NFKC", UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
    {"NFKD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT},
};

static enum status
read_form(const struct json *value, struct normaliser *normaliser,
          struct error *err)
{
    size_t size = 0;
    const char *type = json_as_text(json_get(value, "type"), &size);

    for (size_t i = 0; type != NULL && i < COUNT_OF(forms); i++) {
        if (strcmp(type, forms[i].name) != 0)
            continue;
        if (normaliser->form_count == NORMAL_FORMS_MAX)
            break;
        normaliser->forms[normaliser->form_count++] = forms[i].options;
        return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID,
                     "tokenizer.json: normalizer: type %.32s is not supported",
                     type == NULL ? "(none)" : type);
}

enum status
normaliser_read(const struct json *value, struct normaliser *normaliser,
                struct error *err)
{
    const struct json *list = json_get(value, "normalizers");
    enum status status = STATUS_OK;

    *normaliser = (struct normaliser){.form_count = 0};
    if (json_is_null(value))
        return STATUS_OK;
    if (json_kind(list) != JSON_KIND_LIST)
        return read_form(value, normaliser, err);
    for (size_t i = 0; i < json_count(list) && status == STATUS_OK; i++)
        status = read_form(json_at(list, i), normaliser, err);
    return status;
}

/* Below U+0300 nothing combines and, for NFC, nothing decomposes; ASCII is the
 * same in every form. */
bool
normaliser_leaves(const struct normaliser *normaliser, const char *text,
                  size_t size)
{
    uint8_t limit = 0xcc; /* the lead byte of U+0300 */

    if (normaliser->form_count == 0)
        return true;
    for (size_t i = 0; i < normaliser->form_count; i++) {
        if (normaliser->forms[i] != forms[0].options)
            limit = 0x80;
    }
    for (size_t i = 0; i < size; i++) {
        if ((uint8_t)text[i] >= limit)
            return false;
    }
    return true;
}

static void
points_reserve(struct points *points, size_t more)
{
    if (points->capacity - points->count >= more)
        return;
    points->capacity = points->capacity * 2 + more;
    points->items =
        mem_grow(points->items, points->capacity, sizeof(points->items[0]));
}

static void
decompose(const char *text, size_t size, int options, struct points *points)
{
    int boundary = 0;

    for (size_t at = 0; at < size;) {
        utf8proc_int32_t point = 0;
        utf8proc_ssize_t step =
            utf8proc_iterate((const utf8proc_uint8_t *)text + at,
                             (utf8proc_ssize_t)(size - at), &point);
        utf8proc_ssize_t made = 0;

        assert(step > 0); /* the text was checked to be UTF-8 */
        points_reserve(points, DECOMPOSED_MAX);
        made = utf8proc_decompose_char(point, points->items + points->count,
                                       DECOMPOSED_MAX,
                                       (utf8proc_option_t)options, &boundary);
        assert(made >= 0 && made <= DECOMPOSED_MAX);
        points->count += (size_t)made;
        at += (size_t)step;
    }
}

static uint8_t
class_of(utf8proc_int32_t point)
{
    return (uint8_t)utf8proc_get_property(point)->combining_class;
}

static void
sort_few(utf8proc_int32_t *items, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        utf8proc_int32_t item = items[i];
        size_t at = i;

        for (; at > 0 && class_of(items[at - 1]) > class_of(item); at--)
            items[at] = items[at - 1];
        items[at] = item;
    }
}

static void
sort_many(utf8proc_int32_t *items, size_t count)
{
    utf8proc_int32_t *copy = mem_copy(items, count * sizeof(items[0]));
    size_t starts[CLASS_COUNT + 1] = {0};

    for (size_t i = 0; i < count; i++)
        starts[class_of(items[i]) + 1]++;
    for (size_t i = 1; i <= CLASS_COUNT; i++)
        starts[i] += starts[i - 1];
    for (size_t i = 0; i < count; i++)
        items[starts[class_of(copy[i])]++] = copy[i];
    free(copy);
}

/* Every run of combining marks by class, equal ones in their order. */
static void
order(struct points *points)
{
    size_t begin = 0;

    for (size_t i = 0; i <= points->count; i++) {
        size_t count = i - begin;

        if (i < points->count && class_of(points->items[i]) != 0)
            continue;
        if (count > INSERTION_MAX)
            sort_many(points->items + begin, count);
        else
            sort_few(points->items + begin, count);
        begin = i + 1;
    }
}

static void
apply_form(int options, const char *text, size_t size, struct buf *out)
{
    struct points points = {.count = 0};
    utf8proc_ssize_t made = 0;

    decompose(text, size, options, &points);
    order(&points);
    points_reserve(&points, 1); /* utf8proc ends the text with a NUL */
    made = utf8proc_reencode(points.items, (utf8proc_ssize_t)points.count,
                             (utf8proc_option_t)options);
    assert(made >= 0);
    buf_append(out, points.items, (size_t)made);
    free(points.items);
}

void
normaliser_apply(const struct normaliser *normaliser, const char *text,
                 size_t size, struct buf *out)
{
    struct buf now;

    buf_init(&now, out->max);
    buf_append(&now, text, size);
    for (size_t i = 0; i < normaliser->form_count; i++) {
        struct buf next;

        buf_init(&next, out->max);
        apply_form(normaliser->forms[i], now.data, now.size, &next);
        buf_clear(&now);
        now = next;
    }
    buf_append(out, now.data, now.size);
    buf_clear(&now);
}
