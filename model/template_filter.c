/* template_filter.c - "|" of chat templates. */
#include "model/template_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/units.h"

#include "common/banned.h"

enum { INDENT_MAX = 1000 };

/* --- texts ----------------------------------------------------------------*/

static enum status
self_text(struct run *run, const struct arguments *arguments, struct text *text)
{
    return run_text(run, arguments->line, &arguments->self, text);
}

static enum status
filter_trim(struct run *run, const struct arguments *arguments,
            struct value *value)
{
    const struct value *characters = argument(arguments, 0, "chars");
    struct text text;
    enum status status = self_text(run, arguments, &text);

    if (status != STATUS_OK)
        return status;
    *value = value_text(text_strip(
        text,
        characters != NULL && characters->kind == VALUE_TEXT ? &characters->text
                                                             : NULL,
        SIDE_BOTH, &run->steps));
    return run_charge(run, arguments->line, 1);
}

static enum status
recase(struct run *run, const struct arguments *arguments, enum letter_case to,
       struct value *value)
{
    struct text text;
    struct buf buf;
    enum status status = self_text(run, arguments, &text);

    if (status != STATUS_OK)
        return status;
    run_buf(&buf);
    text_recase(text, to, &buf);
    return run_take(run, arguments->line, &buf, value);
}

static enum status
filter_upper(struct run *run, const struct arguments *arguments,
             struct value *value)
{
    return recase(run, arguments, CASE_UPPER, value);
}

static enum status
filter_lower(struct run *run, const struct arguments *arguments,
             struct value *value)
{
    return recase(run, arguments, CASE_LOWER, value);
}

static enum status
filter_title(struct run *run, const struct arguments *arguments,
             struct value *value)
{
    return recase(run, arguments, CASE_WORDS, value);
}

static enum status
filter_capitalize(struct run *run, const struct arguments *arguments,
                  struct value *value)
{
    return recase(run, arguments, CASE_CAPITAL, value);
}

static enum status
filter_replace(struct run *run, const struct arguments *arguments,
               struct value *value)
{
    struct text text;
    struct buf buf;
    enum status status = self_text(run, arguments, &text);

    if (status == STATUS_OK && arguments->count < 2)
        status = run_fail(run, arguments->line, "replace needs two strings");
    if (status != STATUS_OK)
        return status;
    run_buf(&buf);
    text_replace(text, argument_text(arguments, 0, "old", TEXT("")),
                 argument_text(arguments, 1, "new", TEXT("")),
                 argument_integer(arguments, 2, "count", -1), &run->steps,
                 &buf);
    return run_take(run, arguments->line, &buf, value);
}

/* Lines moved to the right: not the first unless asked, nor empty ones. */
static enum status
filter_indent(struct run *run, const struct arguments *arguments,
              struct value *value)
{
    const struct value *given = argument(arguments, 0, "width");
    int64_t width = argument_integer(arguments, 0, "width", 4);
    bool first = argument_is_true(arguments, 1, "first");
    bool blank = argument_is_true(arguments, 2, "blank");
    struct text text;
    struct buf buf;
    enum status status = self_text(run, arguments, &text);

    if (status == STATUS_OK && (width < 0 || width > INDENT_MAX))
        status = run_fail(run, arguments->line, "indent of more than %d",
                          INDENT_MAX);
    if (status != STATUS_OK)
        return status;
    run_buf(&buf);
    for (size_t at = 0; at < text.size; at++) {
        bool line_start = at == 0 ? first : text.data[at - 1] == '\n';
        bool empty = text.data[at] == '\n' && !(at == 0 && first);

        if (line_start && (blank || !empty)) {
            if (given != NULL && given->kind == VALUE_TEXT)
                buf_append(&buf, given->text.data, given->text.size);
            else
                buf_printf(&buf, "%*s", (int)width, "");
        }
        buf_append_char(&buf, text.data[at]);
    }
    return run_take(run, arguments->line, &buf, value);
}

static enum status
filter_string(struct run *run, const struct arguments *arguments,
              struct value *value)
{
    struct text text;
    enum status status = self_text(run, arguments, &text);

    if (status == STATUS_OK)
        *value = value_text(text);
    return status;
}

static enum status
filter_escape(struct run *run, const struct arguments *arguments,
              struct value *value)
{
    static const struct {
        char c;
        const char *entity;
    } entities[] = {{'&', "&amp;"},
                    {'<', "&lt;"},
                    {'>', "&gt;"},
                    {'"', "&#34;"},
                    {'\'', "&#39;"}};
    struct text text;
    struct buf buf;
    enum status status = self_text(run, arguments, &text);

    if (status != STATUS_OK)
        return status;
    run_buf(&buf);
    for (size_t i = 0; i < text.size; i++) {
        const char *entity = NULL;

        for (size_t e = 0; e < COUNT_OF(entities); e++) {
            if (entities[e].c == text.data[i])
                entity = entities[e].entity;
        }
        if (entity != NULL)
            buf_append_text(&buf, entity);
        else
            buf_append_char(&buf, text.data[i]);
    }
    return run_take(run, arguments->line, &buf, value);
}

static enum status
filter_tojson(struct run *run, const struct arguments *arguments,
              struct value *value)
{
    const struct value *separators = argument(arguments, 3, "separators");
    int64_t indent = argument_integer(arguments, 0, "indent", -1);
    struct json_style style = {
        .ascii = argument_is_true(arguments, 1, "ensure_ascii"),
        .sorted = argument_is_true(arguments, 2, "sort_keys"),
        .indented = indent >= 0,
        .indent = indent > 0 ? (size_t)indent : 0,
        .item = indent >= 0 ? TEXT(",") : TEXT(", "),
        .colon = TEXT(": "),
    };
    struct buf buf;

    if (indent > INDENT_MAX)
        return run_fail(run, arguments->line, "indent of more than %d",
                        INDENT_MAX);
    if (separators != NULL && separators->kind == VALUE_LIST &&
        separators->list->count == 2 &&
        separators->list->items[0].kind == VALUE_TEXT &&
        separators->list->items[1].kind == VALUE_TEXT) {
        style.item = separators->list->items[0].text;
        style.colon = separators->list->items[1].text;
    }
    run_buf(&buf);
    if (!value_print_json(&arguments->self, &style, &buf) && !buf.overflowed) {
        buf_clear(&buf);
        return run_fail(run, arguments->line, "tojson of %s",
                        value_kind_name(&arguments->self));
    }
    return run_take(run, arguments->line, &buf, value);
}

/* --- numbers and defaults -------------------------------------------------*/

static enum status
filter_default(struct run *run, const struct arguments *arguments,
               struct value *value)
{
    const struct value *fallback = argument(arguments, 0, "default_value");
    bool missing = arguments->self.kind == VALUE_UNDEFINED ||
                   (argument_is_true(arguments, 1, "boolean") &&
                    !value_is_true(&arguments->self));

    (void)run;
    *value = arguments->self;
    if (missing)
        *value = fallback != NULL ? *fallback : value_text(TEXT(""));
    return STATUS_OK;
}

static bool
read_real(struct run *run, struct text text, double *real)
{
    text = text_strip(text, NULL, SIDE_BOTH, &run->steps);
    return parse_double(text.data, text.size, real) == STATUS_OK;
}

static enum status
filter_int(struct run *run, const struct arguments *arguments,
           struct value *value)
{
    const struct value *self = &arguments->self;
    double real = 0;

    *value = value_integer(argument_integer(arguments, 0, "default", 0));
    if (self->kind == VALUE_INTEGER)
        *value = *self;
    else if (value_is_number(self))
        real = value_as_real(self);
    else if (self->kind != VALUE_TEXT || !read_real(run, self->text, &real))
        return STATUS_OK;
    if (self->kind != VALUE_INTEGER && fabs(real) < 9e15)
        *value = value_integer((int64_t)real);
    return STATUS_OK;
}

static enum status
filter_float(struct run *run, const struct arguments *arguments,
             struct value *value)
{
    const struct value *self = &arguments->self;
    double real = 0;

    if (value_is_number(self))
        real = value_as_real(self);
    else if (self->kind != VALUE_TEXT || !read_real(run, self->text, &real))
        real = 0;
    *value = value_real(real);
    return STATUS_OK;
}

static enum status
filter_abs(struct run *run, const struct arguments *arguments,
           struct value *value)
{
    const struct value *self = &arguments->self;

    if (!value_is_number(self))
        return run_fail(run, arguments->line, "abs of %s",
                        value_kind_name(self));
    *value = *self;
    if (self->kind == VALUE_REAL)
        value->real = fabs(self->real);
    else if (self->kind == VALUE_INTEGER && self->integer < 0 &&
             self->integer != INT64_MIN)
        value->integer = -self->integer;
    return STATUS_OK;
}

static enum status
filter_round(struct run *run, const struct arguments *arguments,
             struct value *value)
{
    int64_t digits = argument_integer(arguments, 0, "precision", 0);
    double scale = 1;

    if (!value_is_number(&arguments->self) || digits < 0 || digits > 15)
        return run_fail(run, arguments->line, "round of %s",
                        value_kind_name(&arguments->self));
    while (digits-- > 0)
        scale *= 10;
    *value = value_real(rint(value_as_real(&arguments->self) * scale) / scale);
    return STATUS_OK;
}

static const struct filter_entry filters[] = {
    {"abs", filter_abs},         {"capitalize", filter_capitalize},
    {"d", filter_default},       {"default", filter_default},
    {"e", filter_escape},        {"escape", filter_escape},
    {"float", filter_float},     {"indent", filter_indent},
    {"int", filter_int},         {"lower", filter_lower},
    {"replace", filter_replace}, {"round", filter_round},
    {"safe", filter_string}, /* nothing is escaped, so all is safe */
    {"string", filter_string},   {"title", filter_title},
    {"tojson", filter_tojson},   {"trim", filter_trim},
    {"upper", filter_upper},     {NULL, NULL},
};

static filter *
find_filter(struct text name)
{
    const struct filter_entry *tables[] = {filters, template_sequence_filters};

    for (size_t t = 0; t < COUNT_OF(tables); t++) {
        for (const struct filter_entry *e = tables[t]; e->name != NULL; e++) {
            if (text_is(name, e->name))
                return e->filter;
        }
    }
    return NULL;
}

bool
template_filter_is_known(struct text name)
{
    return find_filter(name) != NULL;
}

/* map("map", "map", ...) may call itself once for each of its arguments. */
enum status
run_filter(struct run *run, const struct arguments *arguments,
           struct value *value)
{
    filter *found = find_filter(arguments->name);

    if (found == NULL)
        return run_fail(run, arguments->line, "unknown filter");
    return found(run, arguments, value);
}
