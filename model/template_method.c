/* template_method.c - methods of texts and mappings. */
#include "model/template_run.h"

#include <stdlib.h>
#include <string.h>

#include "common/banned.h"

typedef enum status method(struct run *run, const struct arguments *arguments,
                           struct value *value);

static const struct text nothing = {"", 0};

/* --- texts ----------------------------------------------------------------*/

static enum status
strip_side(struct run *run, const struct arguments *arguments, enum side side,
           struct value *value)
{
    const struct value *characters = argument(arguments, 0, "chars");
    bool given = characters != NULL && characters->kind == VALUE_TEXT;

    *value = value_text(text_strip(arguments->self.text,
                                   given ? &characters->text : NULL, side,
                                   &run->steps));
    return run_charge(run, arguments->line, 1);
}

static enum status
text_method_strip(struct run *run, const struct arguments *arguments,
                  struct value *value)
{
    return strip_side(run, arguments, SIDE_BOTH, value);
}

static enum status
text_method_lstrip(struct run *run, const struct arguments *arguments,
                   struct value *value)
{
    return strip_side(run, arguments, SIDE_LEFT, value);
}

static enum status
text_method_rstrip(struct run *run, const struct arguments *arguments,
                   struct value *value)
{
    return strip_side(run, arguments, SIDE_RIGHT, value);
}

static enum status
recase(struct run *run, const struct arguments *arguments, enum letter_case to,
       struct value *value)
{
    struct buf buf;

    run_buf(&buf);
    text_recase(arguments->self.text, to, &buf);
    return run_take(run, arguments->line, &buf, value);
}

static enum status
text_method_upper(struct run *run, const struct arguments *arguments,
                  struct value *value)
{
    return recase(run, arguments, CASE_UPPER, value);
}

static enum status
text_method_lower(struct run *run, const struct arguments *arguments,
                  struct value *value)
{
    return recase(run, arguments, CASE_LOWER, value);
}

static enum status
text_method_title(struct run *run, const struct arguments *arguments,
                  struct value *value)
{
    return recase(run, arguments, CASE_TITLE, value);
}

static enum status
text_method_capitalize(struct run *run, const struct arguments *arguments,
                       struct value *value)
{
    return recase(run, arguments, CASE_CAPITAL, value);
}

static bool
has_affix(struct text text, struct text affix, bool at_end, uint64_t *steps)
{
    *steps += affix.size / TEMPLATE_STEP_BYTES;
    return text.size >= affix.size &&
           memcmp(text.data + (at_end ? text.size - affix.size : 0), affix.data,
                  affix.size) == 0;
}

/* startswith and endswith take one text or several. */
static enum status
check_affix(struct run *run, const struct arguments *arguments, bool at_end,
            struct value *value)
{
    const struct value *given = argument(arguments, 0, "prefix");
    bool has = false;
    enum status status = STATUS_OK;

    if (given == NULL ||
        (given->kind != VALUE_TEXT && given->kind != VALUE_LIST))
        return run_fail(run, arguments->line, "%.*s needs a string",
                        (int)arguments->name.size, arguments->name.data);
    if (given->kind == VALUE_TEXT)
        has = has_affix(arguments->self.text, given->text, at_end, &run->steps);
    for (size_t i = 0; status == STATUS_OK && !has &&
                       given->kind == VALUE_LIST && i < given->list->count;
         i++) {
        const struct value *one = &given->list->items[i];

        has = one->kind == VALUE_TEXT &&
              has_affix(arguments->self.text, one->text, at_end, &run->steps);
        status = run_charge(run, arguments->line, 1);
    }
    *value = value_bool(has);
    return status;
}

static enum status
text_method_startswith(struct run *run, const struct arguments *arguments,
                       struct value *value)
{
    return check_affix(run, arguments, false, value);
}

static enum status
text_method_endswith(struct run *run, const struct arguments *arguments,
                     struct value *value)
{
    return check_affix(run, arguments, true, value);
}

static enum status
text_method_removeprefix(struct run *run, const struct arguments *arguments,
                         struct value *value)
{
    struct text text = arguments->self.text;
    struct text affix = argument_text(arguments, 0, "prefix", nothing);

    if (has_affix(text, affix, false, &run->steps)) {
        text.data += affix.size;
        text.size -= affix.size;
    }
    *value = value_text(text);
    return STATUS_OK;
}

static enum status
text_method_removesuffix(struct run *run, const struct arguments *arguments,
                         struct value *value)
{
    struct text text = arguments->self.text;
    struct text affix = argument_text(arguments, 0, "suffix", nothing);

    if (has_affix(text, affix, true, &run->steps))
        text.size -= affix.size;
    *value = value_text(text);
    return STATUS_OK;
}

static enum status
text_method_replace(struct run *run, const struct arguments *arguments,
                    struct value *value)
{
    struct buf buf;

    if (arguments->count < 2)
        return run_fail(run, arguments->line, "replace needs two strings");
    run_buf(&buf);
    text_replace(
        arguments->self.text, argument_text(arguments, 0, "old", nothing),
        argument_text(arguments, 1, "new", nothing),
        argument_integer(arguments, 2, "count", -1), &run->steps, &buf);
    return run_take(run, arguments->line, &buf, value);
}

/* Words between blanks. */
static void
split_blanks(struct run *run, struct text text, int64_t count,
             struct list *list)
{
    text = text_strip(text, NULL, SIDE_LEFT, &run->steps);
    while (text.size > 0) {
        struct text word = {text.data, 0};

        while (count != 0 && word.size < text.size) {
            struct text rest = {text.data + word.size, text.size - word.size};
            struct text one = {rest.data, text_step(rest, 0)};

            if (text_strip(one, NULL, SIDE_LEFT, &run->steps).size == 0)
                break;
            word.size += one.size;
        }
        run->steps += word.size / TEMPLATE_STEP_CHARACTERS;
        if (count == 0) /* the rest, with the blanks at its end */
            word = text;
        list_add(&run->arena, list, value_text(word));
        if (count-- == 0)
            break;
        text.data += word.size;
        text.size -= word.size;
        text = text_strip(text, NULL, SIDE_LEFT, &run->steps);
    }
}

static void
split_at(struct run *run, struct text text, struct text separator,
         int64_t count, struct list *list)
{
    size_t at = 0;
    size_t found = 0;

    while (count-- != 0 &&
           (found = text_find(text, separator, at, &run->steps)) != SIZE_MAX) {
        list_add(&run->arena, list,
                 value_text((struct text){text.data + at, found - at}));
        at = found + separator.size;
    }
    list_add(&run->arena, list,
             value_text((struct text){text.data + at, text.size - at}));
}

static enum status
text_method_split(struct run *run, const struct arguments *arguments,
                  struct value *value)
{
    const struct value *separator = argument(arguments, 0, "sep");
    int64_t count = argument_integer(arguments, 1, "maxsplit", -1);
    struct list *list = list_new(&run->arena);

    if (separator == NULL || separator->kind == VALUE_NONE)
        split_blanks(run, arguments->self.text, count, list);
    else if (separator->kind != VALUE_TEXT || separator->text.size == 0)
        return run_fail(run, arguments->line, "split needs a separator");
    else
        split_at(run, arguments->self.text, separator->text, count, list);
    *value = value_list(list);
    return run_charge(run, arguments->line, list->count);
}

/* Like split, but counted from the right. */
static enum status
text_method_rsplit(struct run *run, const struct arguments *arguments,
                   struct value *value)
{
    int64_t count = argument_integer(arguments, 1, "maxsplit", -1);
    struct text separator = argument_text(arguments, 0, "sep", nothing);
    struct list *joined = list_new(&run->arena);
    struct list *all = NULL;
    size_t first = 0;
    enum status status = STATUS_OK;

    if (separator.size == 0)
        return run_fail(run, arguments->line, "rsplit needs a separator");
    all = list_new(&run->arena);
    split_at(run, arguments->self.text, separator, -1, all);
    status = run_charge(run, arguments->line, all->count);
    if (status != STATUS_OK)
        return status;
    if (count >= 0 && (uint64_t)count + 1 < all->count)
        first = all->count - (size_t)count - 1;
    for (size_t i = first; i < all->count; i++)
        list_add(&run->arena, joined, all->items[i]);
    if (first > 0) { /* the unsplit front reaches to where its last part ends */
        struct text last = all->items[first].text;

        joined->items[0].text.data = arguments->self.text.data;
        joined->items[0].text.size =
            (size_t)(last.data + last.size - arguments->self.text.data);
    }
    *value = value_list(joined);
    return STATUS_OK;
}

static enum status
text_method_splitlines(struct run *run, const struct arguments *arguments,
                       struct value *value)
{
    struct list *list = list_new(&run->arena);
    struct text text = arguments->self.text;

    if (has_affix(text, TEXT("\n"), true, &run->steps))
        text.size--;
    if (arguments->self.text.size > 0)
        split_at(run, text, TEXT("\n"), -1, list);
    *value = value_list(list);
    return run_charge(run, arguments->line, list->count);
}

static enum status
text_method_find(struct run *run, const struct arguments *arguments,
                 struct value *value)
{
    struct text text = arguments->self.text;
    size_t found = text_find(text, argument_text(arguments, 0, "sub", nothing),
                             0, &run->steps);

    *value = value_integer(-1);
    if (found != SIZE_MAX)
        *value = value_integer(
            (int64_t)text_length((struct text){text.data, found}));
    return run_charge(run, arguments->line, 0);
}

static enum status
text_method_count(struct run *run, const struct arguments *arguments,
                  struct value *value)
{
    struct text text = arguments->self.text;
    struct text wanted = argument_text(arguments, 0, "sub", nothing);
    int64_t count = 0;
    size_t at = 0;

    if (wanted.size == 0)
        return run_fail(run, arguments->line, "count needs a string");
    while ((at = text_find(text, wanted, at, &run->steps)) != SIZE_MAX) {
        at += wanted.size;
        count++;
    }
    *value = value_integer(count);
    return run_charge(run, arguments->line, 0);
}

static enum status
text_method_isdigit(struct run *run, const struct arguments *arguments,
                    struct value *value)
{
    struct text text = arguments->self.text;
    bool digits = text.size > 0;

    for (size_t i = 0; i < text.size && digits; i++)
        digits = text.data[i] >= '0' && text.data[i] <= '9';
    *value = value_bool(digits);
    return run_charge(run, arguments->line,
                      text.size / TEMPLATE_STEP_CHARACTERS);
}

static enum status
text_method_join(struct run *run, const struct arguments *arguments,
                 struct value *value)
{
    const struct value *over = argument(arguments, 0, "iterable");
    struct list *items = NULL;
    struct buf buf;
    enum status status = STATUS_OK;

    if (over == NULL)
        return run_fail(run, arguments->line, "join needs a list");
    status = run_items(run, arguments->line, over, &items);
    if (status != STATUS_OK)
        return status;
    run->steps += items->count / TEMPLATE_STEP_ITEMS;
    run_buf(&buf);
    for (size_t i = 0; i < items->count; i++) {
        if (i > 0)
            buf_append(&buf, arguments->self.text.data,
                       arguments->self.text.size);
        value_print(&items->items[i], &buf);
    }
    return run_take(run, arguments->line, &buf, value);
}

/* --- mappings -------------------------------------------------------------*/

static enum status
map_method_get(struct run *run, const struct arguments *arguments,
               struct value *value)
{
    const struct value *key = argument(arguments, 0, "key");
    const struct value *fallback = argument(arguments, 1, "default");
    const struct value *found =
        key == NULL ? NULL : map_find(arguments->self.map, key, &run->steps);

    *value = found != NULL      ? *found
             : fallback != NULL ? *fallback
                                : value_none();
    return run_charge(run, arguments->line, 1);
}

static enum status
map_method_keys(struct run *run, const struct arguments *arguments,
                struct value *value)
{
    struct list *keys = NULL;
    enum status status =
        run_items(run, arguments->line, &arguments->self, &keys);

    *value = value_list(keys);
    return status;
}

static enum status
map_method_values(struct run *run, const struct arguments *arguments,
                  struct value *value)
{
    const struct map *map = arguments->self.map;
    struct list *list = list_new(&run->arena);

    for (size_t i = 0; i < map->count; i++)
        list_add(&run->arena, list, map->entries[i].value);
    *value = value_list(list);
    return run_charge(run, arguments->line, map->count);
}

static enum status
map_method_items(struct run *run, const struct arguments *arguments,
                 struct value *value)
{
    const struct map *map = arguments->self.map;
    struct list *list = list_new(&run->arena);

    for (size_t i = 0; i < map->count; i++) {
        struct list *pair = list_new(&run->arena);

        pair->is_tuple = true;
        list_add(&run->arena, pair, map->entries[i].key);
        list_add(&run->arena, pair, map->entries[i].value);
        list_add(&run->arena, list, value_list(pair));
    }
    *value = value_list(list);
    return run_charge(run, arguments->line, map->count);
}

static const struct {
    const char *name;
    enum value_kind kind;
    method *method;
} methods[] = {
    {"strip", VALUE_TEXT, text_method_strip},
    {"lstrip", VALUE_TEXT, text_method_lstrip},
    {"rstrip", VALUE_TEXT, text_method_rstrip},
    {"upper", VALUE_TEXT, text_method_upper},
    {"lower", VALUE_TEXT, text_method_lower},
    {"title", VALUE_TEXT, text_method_title},
    {"capitalize", VALUE_TEXT, text_method_capitalize},
    {"startswith", VALUE_TEXT, text_method_startswith},
    {"endswith", VALUE_TEXT, text_method_endswith},
    {"removeprefix", VALUE_TEXT, text_method_removeprefix},
    {"removesuffix", VALUE_TEXT, text_method_removesuffix},
    {"replace", VALUE_TEXT, text_method_replace},
    {"split", VALUE_TEXT, text_method_split},
    {"rsplit", VALUE_TEXT, text_method_rsplit},
    {"splitlines", VALUE_TEXT, text_method_splitlines},
    {"find", VALUE_TEXT, text_method_find},
    {"count", VALUE_TEXT, text_method_count},
    {"isdigit", VALUE_TEXT, text_method_isdigit},
    {"join", VALUE_TEXT, text_method_join},
    {"get", VALUE_MAP, map_method_get},
    {"keys", VALUE_MAP, map_method_keys},
    {"values", VALUE_MAP, map_method_values},
    {"items", VALUE_MAP, map_method_items},
};

enum status
run_method(struct run *run, const struct arguments *arguments,
           struct value *value)
{
    const struct value *self = &arguments->self;

    if (self->kind == VALUE_UNDEFINED)
        return run_fail_undefined(run, arguments->line, self);
    for (size_t i = 0; i < COUNT_OF(methods); i++) {
        if (methods[i].kind == self->kind &&
            text_is(arguments->name, methods[i].name))
            return methods[i].method(run, arguments, value);
    }
    return run_fail(run, arguments->line, "%s has no method %.*s",
                    value_kind_name(self), text_shown(arguments->name),
                    arguments->name.data);
}
