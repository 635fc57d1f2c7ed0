/* template_sequence.c - filters of chat templates over lists and mappings. */
#include "model/template_run.h"

#include <math.h>
#include <string.h>

#include "common/banned.h"

static enum status
self_items(struct run *run, const struct arguments *arguments,
           struct list **items)
{
    enum status status =
        run_items(run, arguments->line, &arguments->self, items);

    return status == STATUS_OK
               ? run_charge(run, arguments->line,
                            (*items)->count / TEMPLATE_STEP_ITEMS)
               : status;
}

static enum status
filter_length(struct run *run, const struct arguments *arguments,
              struct value *value)
{
    struct list *items = NULL;
    enum status status = STATUS_OK;

    if (arguments->self.kind == VALUE_TEXT) {
        *value = value_integer((int64_t)text_length(arguments->self.text));
        return run_charge(run, arguments->line,
                          arguments->self.text.size / TEMPLATE_STEP_BYTES);
    }
    status = self_items(run, arguments, &items);
    if (status == STATUS_OK)
        *value = value_integer((int64_t)items->count);
    return status;
}

static enum status
pick(struct run *run, const struct arguments *arguments, bool last,
     struct value *value)
{
    struct list *items = NULL;
    enum status status = self_items(run, arguments, &items);

    if (status != STATUS_OK)
        return status;
    *value = items->count == 0
                 ? value_undefined(TEXT("the item of an empty sequence"))
                 : items->items[last ? items->count - 1 : 0];
    return STATUS_OK;
}

static enum status
filter_first(struct run *run, const struct arguments *arguments,
             struct value *value)
{
    return pick(run, arguments, false, value);
}

static enum status
filter_last(struct run *run, const struct arguments *arguments,
            struct value *value)
{
    return pick(run, arguments, true, value);
}

static enum status
filter_list(struct run *run, const struct arguments *arguments,
            struct value *value)
{
    struct list *items = NULL;
    enum status status = self_items(run, arguments, &items);

    if (status == STATUS_OK)
        *value = value_list(items);
    return status;
}

/* The attribute of an item, which may be a path "a.b".  With @fallback, which
 * may be NULL, what is missing on the way is that. */
static enum status
item_attribute_or(struct run *run, uint32_t line, struct value item,
                  const struct value *path, const struct value *fallback,
                  struct value *value)
{
    struct text rest = path->kind == VALUE_TEXT ? path->text : TEXT("");
    enum status status = STATUS_OK;

    *value = item;
    if (path->kind != VALUE_TEXT)
        return run_item(run, line, &item, path, value);
    while (status == STATUS_OK && rest.size > 0) {
        size_t dot = text_find(rest, TEXT("."), 0, &run->steps);
        struct text part = {rest.data, dot == SIZE_MAX ? rest.size : dot};
        struct value key = value_text(part);

        item = *value;
        status = run_item(run, line, &item, &key, value);
        if (fallback != NULL && value->kind == VALUE_UNDEFINED)
            *value = *fallback;
        rest.data += part.size;
        rest.size -= part.size;
        if (rest.size > 0) {
            rest.data++;
            rest.size--;
        }
    }
    return status;
}

static enum status
item_attribute(struct run *run, uint32_t line, struct value item,
               const struct value *path, struct value *value)
{
    return item_attribute_or(run, line, item, path, NULL, value);
}

static enum status
filter_join(struct run *run, const struct arguments *arguments,
            struct value *value)
{
    struct text between = argument_text(arguments, 0, "d", TEXT(""));
    const struct value *attribute = argument(arguments, 1, "attribute");
    struct list *items = NULL;
    struct buf buf;
    enum status status = self_items(run, arguments, &items);

    run_buf(&buf);
    for (size_t i = 0; status == STATUS_OK && i < items->count; i++) {
        struct value item = items->items[i];

        if (attribute != NULL)
            status = item_attribute(run, arguments->line, items->items[i],
                                    attribute, &item);
        if (i > 0)
            buf_append(&buf, between.data, between.size);
        if (status == STATUS_OK)
            value_print(&item, &buf);
    }
    if (status == STATUS_OK)
        return run_take(run, arguments->line, &buf, value);
    buf_clear(&buf);
    return status;
}

static enum status
filter_reverse(struct run *run, const struct arguments *arguments,
               struct value *value)
{
    struct list *reversed = list_new(&run->arena);
    struct list *items = NULL;
    struct buf buf;
    enum status status = self_items(run, arguments, &items);

    if (status != STATUS_OK)
        return status;
    for (size_t i = items->count; i-- > 0;)
        list_add(&run->arena, reversed, items->items[i]);
    *value = value_list(reversed);
    if (arguments->self.kind != VALUE_TEXT)
        return run_charge(run, arguments->line, items->count);
    run_buf(&buf);
    for (size_t i = 0; i < reversed->count; i++)
        value_print(&reversed->items[i], &buf);
    return run_take(run, arguments->line, &buf, value);
}

static enum status
filter_items(struct run *run, const struct arguments *arguments,
             struct value *value)
{
    struct arguments method = *arguments;

    if (arguments->self.kind == VALUE_UNDEFINED) {
        *value = value_list(list_new(&run->arena));
        return STATUS_OK;
    }
    method.name = TEXT("items");
    return run_method(run, &method, value);
}

/* Sorting: a stable merge sort, since qsort is neither stable everywhere nor
 * able to say that two items have no order. */
struct sorting {
    struct run *run;
    uint32_t line;
    const struct value *attribute;
    bool descending;
    bool by_case;
};

/* What an item is sorted by. */
static enum status
sort_key(const struct sorting *sorting, struct value item, struct value *key)
{
    struct buf buf;
    enum status status = STATUS_OK;

    *key = item;
    if (sorting->attribute != NULL)
        status = item_attribute(sorting->run, sorting->line, item,
                                sorting->attribute, key);
    if (status != STATUS_OK || sorting->by_case || key->kind != VALUE_TEXT)
        return status;
    run_buf(&buf);
    text_recase(key->text, CASE_LOWER, &buf);
    return run_take(sorting->run, sorting->line, &buf, key);
}

static enum status
merge(const struct sorting *sorting, const struct map_entry *from,
      struct map_entry *to, size_t sizes[2])
{
    size_t left = 0;
    size_t right = sizes[0];
    size_t end = sizes[0] + sizes[1];
    struct run *run = sorting->run;
    enum status status = STATUS_OK;

    for (size_t at = 0; status == STATUS_OK && at < end; at++) {
        int order = 0;

        status = run_charge(run, sorting->line, 1);
        if (left < sizes[0] && right < end &&
            !value_compare(&from[left].key, &from[right].key, &order,
                           &run->steps))
            return run_fail(run, sorting->line, "%s and %s have no order",
                            value_kind_name(&from[left].key),
                            value_kind_name(&from[right].key));
        if (sorting->descending)
            order = -order;
        to[at] = right == end || (left < sizes[0] && order <= 0)
                     ? from[left++]
                     : from[right++];
    }
    return status;
}

static enum status
sort_entries(const struct sorting *sorting, struct map_entry *entries,
             size_t count)
{
    struct map_entry *other =
        arena_alloc(&sorting->run->arena, count * sizeof(other[0]));
    enum status status = STATUS_OK;

    for (size_t width = 1; width < count; width *= 2) {
        for (size_t at = 0; at < count && status == STATUS_OK;
             at += 2 * width) {
            size_t left = count - at < width ? count - at : width;
            size_t right =
                count - at - left < width ? count - at - left : width;
            size_t sizes[2] = {left, right};

            status = merge(sorting, entries + at, other + at, sizes);
        }
        if (status != STATUS_OK)
            return status;
        memcpy(entries, other, count * sizeof(other[0]));
    }
    return status;
}

static enum status
sort_list(const struct sorting *sorting, const struct list *items,
          struct list **sorted)
{
    struct arena *arena = &sorting->run->arena;
    struct map_entry *entries =
        arena_alloc(arena, items->count * sizeof(entries[0]));
    enum status status = STATUS_OK;

    for (size_t i = 0; i < items->count && status == STATUS_OK; i++) {
        entries[i].value = items->items[i];
        status = sort_key(sorting, items->items[i], &entries[i].key);
    }
    if (status == STATUS_OK)
        status = sort_entries(sorting, entries, items->count);
    *sorted = list_new(arena);
    for (size_t i = 0; i < items->count && status == STATUS_OK; i++)
        list_add(arena, *sorted, entries[i].value);
    return status;
}

static enum status
filter_sort(struct run *run, const struct arguments *arguments,
            struct value *value)
{
    const struct sorting sorting = {
        .run = run,
        .line = arguments->line,
        .descending = argument_is_true(arguments, 0, "reverse"),
        .by_case = argument_is_true(arguments, 1, "case_sensitive"),
        .attribute = argument(arguments, 2, "attribute"),
    };
    struct list *items = NULL;
    enum status status = self_items(run, arguments, &items);

    if (status == STATUS_OK)
        status = sort_list(&sorting, items, &items);
    if (status == STATUS_OK)
        *value = value_list(items);
    return status;
}

/* Members as pairs, by key. */
static enum status
filter_dictsort(struct run *run, const struct arguments *arguments,
                struct value *value)
{
    const struct value place = value_integer(0);
    const struct sorting sorting = {
        .run = run,
        .line = arguments->line,
        .by_case = argument_is_true(arguments, 0, "case_sensitive"),
        .descending = argument_is_true(arguments, 2, "reverse"),
        .attribute = &place,
    };
    struct list *items = NULL;
    enum status status = filter_items(run, arguments, value);

    if (status == STATUS_OK)
        status = sort_list(&sorting, value->list, &items);
    if (status == STATUS_OK)
        *value = value_list(items);
    return status;
}

/* The first of each kind; texts that differ only in case are one. */
static enum status
filter_unique(struct run *run, const struct arguments *arguments,
              struct value *value)
{
    const struct sorting sorting = {
        .run = run,
        .line = arguments->line,
        .by_case = argument_is_true(arguments, 0, "case_sensitive"),
        .attribute = argument(arguments, 1, "attribute"),
    };
    struct list *unique = list_new(&run->arena);
    struct value seen = value_list(list_new(&run->arena));
    struct list *items = NULL;
    enum status status = self_items(run, arguments, &items);

    for (size_t i = 0; status == STATUS_OK && i < items->count; i++) {
        struct value key = value_none();
        bool known = false;

        status = sort_key(&sorting, items->items[i], &key);
        if (status == STATUS_OK)
            status = run_contains(run, arguments->line, &seen, &key, &known);
        if (status != STATUS_OK || known)
            continue;
        list_add(&run->arena, seen.list, key);
        list_add(&run->arena, unique, items->items[i]);
    }
    *value = value_list(unique);
    return status;
}

static enum status
extreme(struct run *run, const struct arguments *arguments, int wanted,
        struct value *value)
{
    struct list *items = NULL;
    enum status status = self_items(run, arguments, &items);

    *value = value_undefined(TEXT("the item of an empty sequence"));
    for (size_t i = 0; status == STATUS_OK && i < items->count; i++) {
        int order = wanted;

        if (i > 0 &&
            !value_compare(&items->items[i], value, &order, &run->steps))
            return run_fail(run, arguments->line, "items have no order");
        if (order == wanted)
            *value = items->items[i];
        status = run_charge(run, arguments->line, 0);
    }
    return status;
}

static enum status
filter_min(struct run *run, const struct arguments *arguments,
           struct value *value)
{
    return extreme(run, arguments, -1, value);
}

static enum status
filter_max(struct run *run, const struct arguments *arguments,
           struct value *value)
{
    return extreme(run, arguments, 1, value);
}

static enum status
filter_sum(struct run *run, const struct arguments *arguments,
           struct value *value)
{
    const struct value *attribute = argument(arguments, 0, "attribute");
    struct list *items = NULL;
    double sum = 0;
    bool real = false;
    enum status status = self_items(run, arguments, &items);

    for (size_t i = 0; status == STATUS_OK && i < items->count; i++) {
        struct value item = items->items[i];

        if (attribute != NULL)
            status = item_attribute(run, arguments->line, items->items[i],
                                    attribute, &item);
        if (status == STATUS_OK && !value_is_number(&item))
            return run_fail(run, arguments->line, "sum of %s",
                            value_kind_name(&item));
        real = real || item.kind == VALUE_REAL;
        sum += status == STATUS_OK ? value_as_real(&item) : 0;
    }
    *value = real || fabs(sum) > 9e15 ? value_real(sum)
                                      : value_integer((int64_t)sum);
    return status;
}

/* --- choosing -------------------------------------------------------------*/

/* Does the item pass the test that the arguments name from @place on?  Without
 * one it must be true. */
static enum status
passes_test(struct run *run, const struct arguments *arguments, size_t place,
            struct value item, bool *passes)
{
    const struct value *name = argument(arguments, place, "");
    const struct value *other = argument(arguments, place + 1, "");
    struct arguments test = {.line = arguments->line, .self = item};

    if (name == NULL) {
        *passes = value_is_true(&item);
        return STATUS_OK;
    }
    if (name->kind == VALUE_TEXT)
        test.name = name->text;
    if (name->kind == VALUE_TEXT && text_is(name->text, "=="))
        test.name = TEXT("eq");
    if (name->kind != VALUE_TEXT || !template_test_is_known(test.name))
        return run_fail(run, arguments->line, "%.*s needs a known test",
                        (int)arguments->name.size, arguments->name.data);
    if (other != NULL) {
        test.count = 1;
        test.values[0] = *other;
        test.names[0] = TEXT("");
    }
    return run_test(run, &test, passes);
}

static enum status
choose(struct run *run, const struct arguments *arguments, bool by_attribute,
       bool wanted, struct value *value)
{
    const struct value *attribute = argument(arguments, 0, "");
    struct list *chosen = list_new(&run->arena);
    struct list *items = NULL;
    enum status status = self_items(run, arguments, &items);

    if (status == STATUS_OK && by_attribute && attribute == NULL)
        return run_fail(run, arguments->line, "%.*s needs an attribute",
                        (int)arguments->name.size, arguments->name.data);
    for (size_t i = 0; status == STATUS_OK && i < items->count; i++) {
        struct value item = items->items[i];
        bool passes = false;

        status = run_charge(run, arguments->line, 1);
        if (status == STATUS_OK && by_attribute)
            status = item_attribute(run, arguments->line, items->items[i],
                                    attribute, &item);
        if (status == STATUS_OK)
            status = passes_test(run, arguments, by_attribute ? 1 : 0, item,
                                 &passes);
        if (status == STATUS_OK && passes == wanted)
            list_add(&run->arena, chosen, items->items[i]);
    }
    *value = value_list(chosen);
    return status;
}

static enum status
filter_select(struct run *run, const struct arguments *arguments,
              struct value *value)
{
    return choose(run, arguments, false, true, value);
}

static enum status
filter_reject(struct run *run, const struct arguments *arguments,
              struct value *value)
{
    return choose(run, arguments, false, false, value);
}

static enum status
filter_selectattr(struct run *run, const struct arguments *arguments,
                  struct value *value)
{
    return choose(run, arguments, true, true, value);
}

static enum status
filter_rejectattr(struct run *run, const struct arguments *arguments,
                  struct value *value)
{
    return choose(run, arguments, true, false, value);
}

/* map(attribute="a") or map("filter", arguments...). */
static enum status
filter_map(struct run *run, const struct arguments *arguments,
           struct value *value)
{
    const struct value *name = argument(arguments, 0, "");
    const struct value *attribute = argument(arguments, SIZE_MAX, "attribute");
    const struct value *fallback = argument(arguments, SIZE_MAX, "default");
    struct list *mapped = list_new(&run->arena);
    struct list *items = NULL;
    struct arguments *call = NULL;
    enum status status = self_items(run, arguments, &items);

    if (status != STATUS_OK)
        return status;
    if (attribute == NULL && (name == NULL || name->kind != VALUE_TEXT ||
                              !template_filter_is_known(name->text)))
        return run_fail(run, arguments->line, "map needs a known filter");
    call = arena_alloc(&run->arena, sizeof(*call));
    if (attribute == NULL) {
        call->line = arguments->line;
        call->name = name->text;
        call->count = arguments->count - 1;
        memcpy(call->values, arguments->values + 1,
               call->count * sizeof(call->values[0]));
        memcpy(call->names, arguments->names + 1,
               call->count * sizeof(call->names[0]));
    }
    for (size_t i = 0; status == STATUS_OK && i < items->count; i++) {
        struct value item = value_none();

        status = run_charge(run, arguments->line, 1);
        call->self = items->items[i];
        if (status == STATUS_OK)
            status = attribute == NULL
                         ? run_filter(run, call, &item)
                         : item_attribute_or(run, arguments->line, call->self,
                                             attribute, fallback, &item);
        list_add(&run->arena, mapped, item);
    }
    *value = value_list(mapped);
    return status;
}

const struct filter_entry template_sequence_filters[] = {
    {"count", filter_length},
    {"dictsort", filter_dictsort},
    {"first", filter_first},
    {"items", filter_items},
    {"join", filter_join},
    {"last", filter_last},
    {"length", filter_length},
    {"list", filter_list},
    {"map", filter_map},
    {"max", filter_max},
    {"min", filter_min},
    {"reject", filter_reject},
    {"rejectattr", filter_rejectattr},
    {"reverse", filter_reverse},
    {"select", filter_select},
    {"selectattr", filter_selectattr},
    {"sort", filter_sort},
    {"sum", filter_sum},
    {"unique", filter_unique},
    {NULL, NULL},
};
