/* template_function.c - global functions of chat templates. */
#include "model/template_run.h"

#include <string.h>
#include <time.h>

#include "common/clock.h"

#include "common/banned.h"

enum { TIME_BYTES = 256, TIME_FORMAT_BYTES = 128 };

/* Also true of INT64_MIN, whose absolute value is none. */
static bool
is_far(int64_t bound)
{
    return bound > TEMPLATE_LIST_MAX || bound < -TEMPLATE_LIST_MAX;
}

static enum status
function_range(struct run *run, const struct arguments *arguments,
               struct value *value)
{
    bool one = arguments->count == 1;
    int64_t start = one ? 0 : argument_integer(arguments, 0, "start", 0);
    int64_t stop = argument_integer(arguments, one ? 0 : 1, "stop", 0);
    int64_t step = argument_integer(arguments, 2, "step", 1);
    struct list *list = list_new(&run->arena);

    if (step == 0 || is_far(start) || is_far(stop) || is_far(step) ||
        (stop - start) / step > TEMPLATE_LIST_MAX)
        return run_fail(run, arguments->line, "range of more than %d",
                        TEMPLATE_LIST_MAX);
    for (; step > 0 ? start < stop : start > stop; start += step)
        list_add(&run->arena, list, value_integer(start));
    *value = value_list(list);
    return run_charge(run, arguments->line, list->count);
}

/* dict(a=1) and namespace(a=1), both also from a mapping. */
static enum status
make_map(struct run *run, const struct arguments *arguments,
         struct value *value)
{
    struct map *map = map_new(&run->arena);
    enum status status = STATUS_OK;

    for (size_t i = 0; i < arguments->count; i++) {
        const struct value *given = &arguments->values[i];

        if (arguments->names[i].size > 0) {
            map_set(&run->arena, map, value_text(arguments->names[i]), *given,
                    &run->steps);
            continue;
        }
        if (given->kind != VALUE_MAP)
            return run_fail(run, arguments->line, "%.*s needs a mapping",
                            (int)arguments->name.size, arguments->name.data);
        for (size_t k = 0; status == STATUS_OK && k < given->map->count; k++) {
            map_set(&run->arena, map, given->map->entries[k].key,
                    given->map->entries[k].value, &run->steps);
            status = run_charge(run, arguments->line, 1);
        }
    }
    map->is_namespace = text_is(arguments->name, "namespace");
    *value = value_map(map);
    return status;
}

/* The message is the template's own, for the person who sent the request. */
static enum status
function_raise(struct run *run, const struct arguments *arguments,
               struct value *value)
{
    struct text message = argument_text(arguments, 0, "message", TEXT(""));

    (void)value;
    return error_set(run->err, STATUS_INVALID, "chat template: %.*s",
                     (int)(message.size < 400 ? message.size : 400),
                     message.data);
}

/* The time is UTC: the coordinator's zone says nothing about the asker's. */
static enum status
function_strftime(struct run *run, const struct arguments *arguments,
                  struct value *value)
{
    struct text format = argument_text(arguments, 0, "format", TEXT(""));
    char pattern[TIME_FORMAT_BYTES + 1];
    char text[TIME_BYTES];
    time_t now = (time_t)instant_unix_s(clock_wall());
    struct tm parts;

    if (format.size == 0 || format.size > TIME_FORMAT_BYTES ||
        gmtime_r(&now, &parts) == NULL)
        return run_fail(run, arguments->line, "strftime_now needs a format");
    memcpy(pattern, format.data, format.size);
    pattern[format.size] = '\0';
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    format.size = strftime(text, sizeof(text), pattern, &parts);
#pragma GCC diagnostic pop
    *value = value_text(text_copy(&run->arena, text, format.size));
    return STATUS_OK;
}

static const struct {
    const char *name;
    filter *function;
} functions[] = {
    {"range", function_range},
    {"dict", make_map},
    {"namespace", make_map},
    {"raise_exception", function_raise},
    {"strftime_now", function_strftime},
};

bool
template_function_is_known(struct text name)
{
    for (size_t i = 0; i < COUNT_OF(functions); i++) {
        if (text_is(name, functions[i].name))
            return true;
    }
    return false;
}

enum status
run_function(struct run *run, const struct arguments *arguments,
             struct value *value)
{
    for (size_t i = 0; i < COUNT_OF(functions); i++) {
        if (text_is(arguments->name, functions[i].name))
            return functions[i].function(run, arguments, value);
    }
    return run_fail(run, arguments->line, "unknown function");
}
