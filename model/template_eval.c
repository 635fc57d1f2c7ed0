/* template_eval.c - expressions of chat templates, evaluated. */
#include "model/template_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/banned.h"

enum { MESSAGE_BYTES = 384 };

/* --- the run --------------------------------------------------------------*/

enum status
run_fail(struct run *run, uint32_t line, const char *format, ...)
{
    char text[MESSAGE_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return template_fail(run->err, line, "%s", text);
}

enum status
run_fail_undefined(struct run *run, uint32_t line, const struct value *value)
{
    return run_fail(run, line, "%.*s is undefined", text_shown(value->text),
                    value->text.data);
}

enum status
run_charge(struct run *run, uint32_t line, uint64_t steps)
{
    run->steps += steps;
    if (run->steps > TEMPLATE_STEPS_MAX)
        return run_fail(run, line, "takes more than %d steps",
                        TEMPLATE_STEPS_MAX);
    if (run->arena.used > RUN_MEMORY_MAX_BYTES)
        return run_fail(run, line, "takes more than %d bytes of memory",
                        RUN_MEMORY_MAX_BYTES);
    return STATUS_OK;
}

struct value
run_lookup(struct run *run, struct text name)
{
    uint64_t passed = 0;

    for (const struct scope *s = run->scope; s != NULL; s = s->parent) {
        for (const struct variable *v = s->first; v != NULL; v = v->next) {
            if (text_equal(v->name, name))
                return v->value;
            if (++passed % TEMPLATE_STEP_ITEMS == 0)
                run->steps++;
        }
    }
    if (template_function_is_known(name))
        return (struct value){.kind = VALUE_FUNCTION, .text = name};
    return value_undefined(name);
}

void
run_assign(struct run *run, struct text name, struct value value)
{
    struct variable *variable = run->scope->first;

    while (variable != NULL && !text_equal(variable->name, name))
        variable = variable->next;
    if (variable == NULL) {
        variable = arena_alloc(&run->arena, sizeof(*variable));
        variable->name = name;
        variable->next = run->scope->first;
        run->scope->first = variable;
    }
    variable->value = value;
}

void
run_buf(struct buf *buf)
{
    buf_init(buf, TEMPLATE_VALUE_TEXT_MAX);
}

enum status
run_take(struct run *run, uint32_t line, struct buf *buf, struct value *value)
{
    enum status status = buf_status(buf, NULL);

    if (status != STATUS_OK)
        status = run_fail(run, line, "a text is larger than %d bytes",
                          TEMPLATE_VALUE_TEXT_MAX);
    else
        status = run_charge(run, line, buf->size / TEMPLATE_STEP_CHARACTERS);
    if (status == STATUS_OK)
        *value = value_text(text_take(&run->arena, buf));
    buf_clear(buf);
    return status;
}

enum status
run_text(struct run *run, uint32_t line, const struct value *value,
         struct text *text)
{
    struct value printed;
    struct buf buf;
    enum status status = STATUS_OK;

    if (value->kind == VALUE_TEXT) {
        *text = value->text;
        return STATUS_OK;
    }
    run_buf(&buf);
    value_print(value, &buf);
    status = run_take(run, line, &buf, &printed);
    if (status == STATUS_OK)
        *text = printed.text;
    return status;
}

/* --- items ----------------------------------------------------------------*/

/* An index as Python counts, from the end when negative. */
static bool
resolve_index(int64_t index, size_t count, size_t *at)
{
    if (index < 0)
        index += (int64_t)count;
    if (index < 0 || (uint64_t)index >= count)
        return false;
    *at = (size_t)index;
    return true;
}

static struct value
loop_attribute(const struct loop *loop, struct text name)
{
    int64_t index = (int64_t)loop->index;
    int64_t count = (int64_t)loop->items->count;

    if (text_is(name, "index"))
        return value_integer(index + 1);
    if (text_is(name, "index0"))
        return value_integer(index);
    if (text_is(name, "first"))
        return value_bool(index == 0);
    if (text_is(name, "last"))
        return value_bool(index + 1 == count);
    if (text_is(name, "length"))
        return value_integer(count);
    if (text_is(name, "revindex"))
        return value_integer(count - index);
    if (text_is(name, "revindex0"))
        return value_integer(count - index - 1);
    if (text_is(name, "depth"))
        return value_integer(loop->depth);
    if (text_is(name, "depth0"))
        return value_integer((int64_t)loop->depth - 1);
    if (text_is(name, "previtem") && index > 0)
        return loop->items->items[index - 1];
    if (text_is(name, "nextitem") && index + 1 < count)
        return loop->items->items[index + 1];
    return value_undefined(name);
}

enum status
run_item(struct run *run, uint32_t line, const struct value *object,
         const struct value *key, struct value *value)
{
    struct text name = key->kind == VALUE_TEXT ? key->text : TEXT("item");
    const struct value *found = NULL;
    size_t at = 0;

    *value = value_undefined(name);
    switch (object->kind) {
    case VALUE_UNDEFINED:
        return run_fail_undefined(run, line, object);
    case VALUE_MAP:
        found = map_find(object->map, key, &run->steps);
        if (found != NULL)
            *value = *found;
        return run_charge(run, line, 0);
    case VALUE_LIST:
        if (key->kind == VALUE_INTEGER &&
            resolve_index(key->integer, object->list->count, &at))
            *value = object->list->items[at];
        return STATUS_OK;
    case VALUE_TEXT:
        if (key->kind == VALUE_INTEGER &&
            resolve_index(key->integer, text_length(object->text), &at)) {
            at = text_offset(object->text, at);
            *value = value_text((struct text){object->text.data + at,
                                              text_step(object->text, at)});
        }
        return run_charge(run, line, object->text.size / TEMPLATE_STEP_BYTES);
    case VALUE_LOOP:
        *value = loop_attribute(object->loop, name);
        return STATUS_OK;
    case VALUE_NONE:
    case VALUE_BOOL:
    case VALUE_INTEGER:
    case VALUE_REAL:
    case VALUE_MACRO:
    case VALUE_FUNCTION:
        break;
    }
    return STATUS_OK;
}

static enum status
split_characters(struct run *run, uint32_t line, struct text text,
                 struct list **items)
{
    *items = list_new(&run->arena);
    if (text_length(text) > TEMPLATE_LIST_MAX)
        return run_fail(run, line, "more than %d items", TEMPLATE_LIST_MAX);
    for (size_t at = 0; at < text.size;) {
        size_t size = text_step(text, at);

        list_add(&run->arena, *items,
                 value_text((struct text){text.data + at, size}));
        at += size;
    }
    return run_charge(run, line, (*items)->count);
}

enum status
run_items(struct run *run, uint32_t line, const struct value *value,
          struct list **items)
{
    switch (value->kind) {
    case VALUE_LIST:
        *items = value->list;
        return STATUS_OK;
    case VALUE_UNDEFINED:
        *items = list_new(&run->arena);
        return STATUS_OK;
    case VALUE_MAP:
        *items = list_new(&run->arena);
        for (size_t i = 0; i < value->map->count; i++)
            list_add(&run->arena, *items, value->map->entries[i].key);
        return run_charge(run, line, value->map->count);
    case VALUE_TEXT:
        return split_characters(run, line, value->text, items);
    case VALUE_NONE:
    case VALUE_BOOL:
    case VALUE_INTEGER:
    case VALUE_REAL:
    case VALUE_LOOP:
    case VALUE_MACRO:
    case VALUE_FUNCTION:
        break;
    }
    return run_fail(run, line, "%s cannot be iterated", value_kind_name(value));
}

enum status
run_contains(struct run *run, uint32_t line, const struct value *container,
             const struct value *item, bool *contains)
{
    struct list *items = NULL;
    enum status status = STATUS_OK;

    *contains = false;
    if (container->kind == VALUE_TEXT && item->kind == VALUE_TEXT) {
        *contains =
            text_find(container->text, item->text, 0, &run->steps) != SIZE_MAX;
        return run_charge(run, line, 0);
    }
    if (container->kind == VALUE_TEXT)
        return run_fail(run, line, "%s cannot be in a string",
                        value_kind_name(item));
    if (container->kind == VALUE_MAP) {
        *contains = map_find(container->map, item, &run->steps) != NULL;
        return run_charge(run, line, 0);
    }
    status = run_items(run, line, container, &items);
    for (size_t i = 0; status == STATUS_OK && !*contains && i < items->count;
         i++) {
        *contains = value_equal(&items->items[i], item, &run->steps);
        status = run_charge(run, line, 0);
    }
    return status;
}

/* --- calls ----------------------------------------------------------------*/

static enum status
call_value(struct run *run, const struct value *called,
           struct arguments *arguments, struct value *value)
{
    if (called->kind == VALUE_MACRO)
        return run_macro(run, called->macro, arguments, value);
    if (called->kind == VALUE_FUNCTION) {
        arguments->name = called->text;
        return run_function(run, arguments, value);
    }
    if (called->kind == VALUE_UNDEFINED)
        return run_fail_undefined(run, arguments->line, called);
    return run_fail(run, arguments->line, "%s cannot be called",
                    value_kind_name(called));
}

/* A method, unless the object has a macro of that name. */
static enum status
eval_call(struct run *run, const struct node *node, struct value *value)
{
    struct arguments *arguments = arena_alloc(&run->arena, sizeof(*arguments));
    bool method = node->left->kind == NODE_ATTRIBUTE;
    const struct value name = value_text(node->left->name);
    struct value called;
    enum status status =
        run_eval(run, method ? node->left->left : node->left, &called);

    if (status == STATUS_OK)
        status = run_arguments(run, node, arguments);
    if (status != STATUS_OK)
        return status;
    if (method) {
        const struct value *member =
            called.kind == VALUE_MAP ? map_find(called.map, &name, &run->steps)
                                     : NULL;

        if (member == NULL || member->kind != VALUE_MACRO) {
            arguments->name = node->left->name;
            arguments->self = called;
            return run_method(run, arguments, value);
        }
        called = *member;
    }
    return call_value(run, &called, arguments, value);
}

static enum status
eval_filter(struct run *run, const struct node *node, struct value *value)
{
    struct arguments *arguments = arena_alloc(&run->arena, sizeof(*arguments));
    enum status status = run_eval(run, node->left, &arguments->self);

    if (status == STATUS_OK)
        status = run_arguments(run, node, arguments);
    return status == STATUS_OK ? run_filter(run, arguments, value) : status;
}

static enum status
eval_test(struct run *run, const struct node *node, struct value *value)
{
    struct arguments *arguments = arena_alloc(&run->arena, sizeof(*arguments));
    bool passes = false;
    enum status status = run_eval(run, node->left, &arguments->self);

    if (status == STATUS_OK)
        status = run_arguments(run, node, arguments);
    if (status == STATUS_OK)
        status = run_test(run, arguments, &passes);
    *value = value_bool(passes != node->negated);
    return status;
}

/* --- the rest -------------------------------------------------------------*/

static enum status
eval_list(struct run *run, const struct node *node, struct value *value)
{
    struct list *list = list_new(&run->arena);
    enum status status = STATUS_OK;
    const struct node *item = node->first;

    list->is_tuple = node->negated;
    for (; item != NULL && status == STATUS_OK; item = item->next) {
        struct value evaluated;

        status = run_eval(run, item, &evaluated);
        if (status == STATUS_OK)
            list_add(&run->arena, list, evaluated);
    }
    *value = value_list(list);
    return status;
}

static enum status
eval_map(struct run *run, const struct node *node, struct value *value)
{
    struct map *map = map_new(&run->arena);
    enum status status = STATUS_OK;
    const struct node *key = node->first;

    for (; key != NULL && status == STATUS_OK; key = key->next->next) {
        struct value name;
        struct value member;

        status = run_eval(run, key, &name);
        if (status == STATUS_OK)
            status = run_eval(run, key->next, &member);
        if (status == STATUS_OK)
            map_set(&run->arena, map, name, member, &run->steps);
    }
    *value = value_map(map);
    return status;
}

static enum status
eval_item(struct run *run, const struct node *node, struct value *value)
{
    struct value object;
    struct value key = value_text(node->name);
    enum status status = run_eval(run, node->left, &object);

    if (status == STATUS_OK && node->kind == NODE_SUBSCRIPT)
        status = run_eval(run, node->right, &key);
    return status == STATUS_OK ? run_item(run, node->line, &object, &key, value)
                               : status;
}

/* and, or, not, a if b else c, signs. */
static enum status
eval_logic(struct run *run, const struct node *node, struct value *value)
{
    bool chosen = false;
    enum status status = run_eval(
        run, node->kind == NODE_CHOICE ? node->test : node->left, value);

    if (status != STATUS_OK)
        return status;
    chosen = value_is_true(value);
    if (node->kind == NODE_NOT) {
        *value = value_bool(!chosen);
        return STATUS_OK;
    }
    if (node->kind == NODE_CHOICE) {
        const struct node *side = chosen ? node->left : node->right;

        *value = value_undefined(TEXT("the value of if without else"));
        return side == NULL ? STATUS_OK : run_eval(run, side, value);
    }
    return chosen == (node->kind == NODE_AND)
               ? run_eval(run, node->right, value)
               : STATUS_OK;
}

static enum status
eval_sign(struct run *run, const struct node *node, struct value *value)
{
    enum status status = run_eval(run, node->left, value);

    if (status != STATUS_OK)
        return status;
    if (!value_is_number(value))
        return run_fail(run, node->line, "%s has no sign",
                        value_kind_name(value));
    if (node->kind == NODE_PLUS)
        return STATUS_OK;
    if (value->kind == VALUE_REAL)
        *value = value_real(-value->real);
    else if (value_as_integer(value) != INT64_MIN)
        *value = value_integer(-value_as_integer(value));
    return STATUS_OK;
}

static enum status
eval_node(struct run *run, const struct node *node, struct value *value)
{
    switch (node->kind) {
    case NODE_LITERAL:
        *value = node->literal;
        return STATUS_OK;
    case NODE_NAME:
        *value = run_lookup(run, node->name);
        return STATUS_OK;
    case NODE_PIPED:
        *value = run->piped;
        return STATUS_OK;
    case NODE_LIST:
        return eval_list(run, node, value);
    case NODE_MAP:
        return eval_map(run, node, value);
    case NODE_MINUS:
    case NODE_PLUS:
        return eval_sign(run, node, value);
    case NODE_BINARY:
        return run_binary(run, node, value);
    case NODE_COMPARE:
        return run_compare(run, node, value);
    case NODE_NOT:
    case NODE_AND:
    case NODE_OR:
    case NODE_CHOICE:
        return eval_logic(run, node, value);
    case NODE_ATTRIBUTE:
    case NODE_SUBSCRIPT:
        return eval_item(run, node, value);
    case NODE_SLICE:
        return run_slice(run, node, value);
    case NODE_CALL:
        return eval_call(run, node, value);
    case NODE_FILTER:
        return eval_filter(run, node, value);
    case NODE_TEST:
        return eval_test(run, node, value);
    case NODE_KEYWORD:
    case NODE_OUTPUT:
    case NODE_IF:
    case NODE_BRANCH:
    case NODE_FOR:
    case NODE_SET:
    case NODE_MACRO:
    case NODE_CALLER:
    case NODE_FILTERED:
    case NODE_GROUP:
    case NODE_BREAK:
    case NODE_CONTINUE:
        break;
    }
    return run_fail(run, node->line, "no expression");
}

enum status
run_eval(struct run *run, const struct node *node, struct value *value)
{
    enum status status = run_charge(run, node->line, 1);

    if (status != STATUS_OK)
        return status;
    if (run->depth == RUN_DEPTH_MAX)
        return run_fail(run, node->line, "nested more than %d deep",
                        RUN_DEPTH_MAX);
    run->depth++;
    *value = value_none();
    status = eval_node(run, node, value);
    run->depth--;
    return status;
}
