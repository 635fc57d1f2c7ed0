/* template_exec.c - statements of chat templates, carried out. */
#include "model/template_run.h"

#include <string.h>

#include "common/banned.h"

static struct scope *
scope_new(struct run *run, struct scope *parent)
{
    struct scope *scope = arena_alloc(&run->arena, sizeof(*scope));

    scope->parent = parent;
    return scope;
}

/* The text that a body writes, as a value. */
static enum status
capture(struct run *run, const struct node *body, uint32_t line,
        struct value *value)
{
    struct buf *outer = run->out;
    struct buf buf;
    enum status status = STATUS_OK;

    run_buf(&buf);
    run->out = &buf;
    status = run_body(run, body);
    run->out = outer;
    if (status == STATUS_OK)
        return run_take(run, line, &buf, value);
    buf_clear(&buf);
    return status;
}

static enum status
exec_output(struct run *run, const struct node *node)
{
    struct value value;
    enum status status = run_eval(run, node->left, &value);

    if (status == STATUS_OK)
        value_print(&value, run->out);
    if (status == STATUS_OK && run->out->overflowed)
        return run_fail(run, node->line, "writes more than %zu bytes",
                        run->out->max);
    return status;
}

static enum status
exec_if(struct run *run, const struct node *node)
{
    const struct node *branch = node->first;

    for (; branch != NULL; branch = branch->next) {
        struct value test = value_bool(true);
        enum status status = STATUS_OK;

        if (branch->test != NULL)
            status = run_eval(run, branch->test, &test);
        if (status != STATUS_OK)
            return status;
        if (value_is_true(&test))
            return run_body(run, branch->body);
    }
    return STATUS_OK;
}

static enum status
assign_one(struct run *run, const struct node *target, struct value value)
{
    struct value object;

    if (target->kind == NODE_NAME) {
        run_assign(run, target->name, value);
        return STATUS_OK;
    }
    object = run_lookup(run, target->left->name);
    if (object.kind != VALUE_MAP || !object.map->is_namespace)
        return run_fail(run, target->line,
                        "only attributes of a namespace can be set");
    map_set(&run->arena, object.map, value_text(target->name), value,
            &run->steps);
    return run_charge(run, target->line, 0);
}

/* One value to one target, or its items to several. */
static enum status
assign(struct run *run, const struct node *targets, struct value value)
{
    struct list *items = NULL;
    size_t count = 0;
    enum status status = STATUS_OK;

    if (targets->next == NULL)
        return assign_one(run, targets, value);
    status = run_items(run, targets->line, &value, &items);
    if (status != STATUS_OK)
        return status;
    for (const struct node *t = targets; t != NULL; t = t->next)
        count++;
    if (items->count != count)
        return run_fail(run, targets->line, "%zu values for %zu names",
                        items->count, count);
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        status = assign_one(run, targets, items->items[i]);
        targets = targets->next;
    }
    return status;
}

/* The items that pass the loop's own "if". */
static enum status
select_items(struct run *run, const struct node *node, const struct list *all,
             struct list **selected)
{
    struct scope *outer = run->scope;
    enum status status = STATUS_OK;

    *selected = list_new(&run->arena);
    for (size_t i = 0; i < all->count && status == STATUS_OK; i++) {
        struct value passes;

        run->scope = scope_new(run, outer);
        status = assign(run, node->first, all->items[i]);
        if (status == STATUS_OK)
            status = run_eval(run, node->test, &passes);
        if (status == STATUS_OK && value_is_true(&passes))
            list_add(&run->arena, *selected, all->items[i]);
    }
    run->scope = outer;
    return status;
}

static enum status
exec_rounds(struct run *run, const struct node *node, const struct list *items)
{
    struct scope *outer = run->scope;
    enum status status = STATUS_OK;

    run->loop_depth++;
    for (size_t i = 0; i < items->count && status == STATUS_OK; i++) {
        struct loop *loop = arena_alloc(&run->arena, sizeof(*loop));

        *loop =
            (struct loop){.items = items, .index = i, .depth = run->loop_depth};
        run->scope = scope_new(run, outer);
        run_assign(run, TEXT("loop"),
                   (struct value){.kind = VALUE_LOOP, .loop = loop});
        status = assign(run, node->first, items->items[i]);
        if (status == STATUS_OK)
            status = run_charge(run, node->line, 1);
        if (status == STATUS_OK)
            status = run_body(run, node->body);
        if (run->flow == FLOW_BREAK)
            break;
        run->flow = FLOW_ON;
    }
    run->flow = FLOW_ON;
    run->loop_depth--;
    run->scope = outer;
    return status;
}

static enum status
exec_for(struct run *run, const struct node *node)
{
    struct value over;
    struct list *items = NULL;
    enum status status = run_eval(run, node->left, &over);

    if (status == STATUS_OK)
        status = run_items(run, node->line, &over, &items);
    if (status == STATUS_OK && node->test != NULL)
        status = select_items(run, node, items, &items);
    if (status != STATUS_OK)
        return status;
    return items->count == 0 ? run_body(run, node->otherwise)
                             : exec_rounds(run, node, items);
}

/* The block's text through its filters. */
static enum status
eval_block(struct run *run, const struct node *node, struct value *value)
{
    struct value text;
    struct scope *outer = run->scope;
    enum status status = STATUS_OK;

    run->scope = scope_new(run, outer);
    status = capture(run, node->body, node->line, &text);
    run->scope = outer;
    if (status != STATUS_OK)
        return status;
    run->piped = text;
    return run_eval(run, node->left, value);
}

static enum status
exec_set(struct run *run, const struct node *node)
{
    struct value value;
    enum status status = node->negated ? eval_block(run, node, &value)
                                       : run_eval(run, node->left, &value);

    return status == STATUS_OK ? assign(run, node->first, value) : status;
}

static enum status
exec_filtered(struct run *run, const struct node *node)
{
    struct value value;
    enum status status = eval_block(run, node, &value);

    if (status == STATUS_OK)
        value_print(&value, run->out);
    return status;
}

static struct value
macro_value(struct run *run, const struct node *node)
{
    struct macro *macro = arena_alloc(&run->arena, sizeof(*macro));

    *macro = (struct macro){
        .node = node, .scope = run->scope, .caller = run->caller};
    return (struct value){.kind = VALUE_MACRO, .macro = macro};
}

/* {% call %}: the block is the macro "caller" of what is called. */
static enum status
exec_caller(struct run *run, const struct node *node)
{
    struct arguments *arguments = arena_alloc(&run->arena, sizeof(*arguments));
    struct value caller = macro_value(run, node);
    const struct macro *outer = run->caller;
    struct value called;
    struct value value;
    enum status status = run_eval(run, node->left->left, &called);

    if (status == STATUS_OK)
        status = run_arguments(run, node->left, arguments);
    if (status == STATUS_OK && called.kind != VALUE_MACRO)
        status = run_fail(run, node->line, "call needs a macro");
    if (status != STATUS_OK)
        return status;
    run->caller = caller.macro;
    status = run_macro(run, called.macro, arguments, &value);
    run->caller = outer;
    if (status == STATUS_OK)
        value_print(&value, run->out);
    return status;
}

static enum status
bind_parameters(struct run *run, const struct macro *macro,
                const struct arguments *arguments)
{
    const struct node *parameter = macro->node->first;
    enum status status = STATUS_OK;
    size_t place = 0;

    for (; parameter != NULL && status == STATUS_OK;
         parameter = parameter->next) {
        struct value value = value_undefined(parameter->name);
        const struct value *given = NULL;
        size_t nth = 0;

        for (size_t i = 0; i < arguments->count && given == NULL; i++) {
            if (arguments->names[i].size == 0
                    ? nth++ == place
                    : text_equal(arguments->names[i], parameter->name))
                given = &arguments->values[i];
        }
        if (given != NULL)
            value = *given;
        else if (parameter->left != NULL)
            status = run_eval(run, parameter->left, &value);
        run_assign(run, parameter->name, value);
        place++;
    }
    return status;
}

enum status
run_macro(struct run *run, const struct macro *macro,
          const struct arguments *arguments, struct value *value)
{
    struct scope *outer = run->scope;
    const struct macro *caller = run->caller;
    enum status status = STATUS_OK;

    run->scope = scope_new(run, macro->scope);
    if (macro->node->kind == NODE_CALLER)
        run->caller = macro->caller;
    else if (caller != NULL)
        run_assign(run, TEXT("caller"),
                   (struct value){.kind = VALUE_MACRO, .macro = caller});
    status = bind_parameters(run, macro, arguments);
    if (macro->node->kind == NODE_MACRO)
        run->caller = NULL; /* it is for this macro, not for those it calls */
    if (status == STATUS_OK)
        status = capture(run, macro->node->body, macro->node->line, value);
    run->caller = caller;
    run->scope = outer;
    return status;
}

static enum status
exec_node(struct run *run, const struct node *node)
{
    switch (node->kind) {
    case NODE_OUTPUT:
        return exec_output(run, node);
    case NODE_IF:
        return exec_if(run, node);
    case NODE_FOR:
        return exec_for(run, node);
    case NODE_SET:
        return exec_set(run, node);
    case NODE_MACRO:
        run_assign(run, node->name, macro_value(run, node));
        return STATUS_OK;
    case NODE_CALLER:
        return exec_caller(run, node);
    case NODE_FILTERED:
        return exec_filtered(run, node);
    case NODE_GROUP:
        return run_body(run, node->body);
    case NODE_BREAK:
        run->flow = FLOW_BREAK;
        return STATUS_OK;
    case NODE_CONTINUE:
        run->flow = FLOW_CONTINUE;
        return STATUS_OK;
    case NODE_LITERAL:
    case NODE_NAME:
    case NODE_LIST:
    case NODE_MAP:
    case NODE_NOT:
    case NODE_MINUS:
    case NODE_PLUS:
    case NODE_BINARY:
    case NODE_COMPARE:
    case NODE_AND:
    case NODE_OR:
    case NODE_CHOICE:
    case NODE_ATTRIBUTE:
    case NODE_SUBSCRIPT:
    case NODE_SLICE:
    case NODE_CALL:
    case NODE_FILTER:
    case NODE_TEST:
    case NODE_KEYWORD:
    case NODE_BRANCH:
    case NODE_PIPED:
        break;
    }
    return run_fail(run, node->line, "no statement");
}

enum status
run_body(struct run *run, const struct node *first)
{
    enum status status = STATUS_OK;

    if (first == NULL)
        return STATUS_OK;
    if (run->depth == RUN_DEPTH_MAX)
        return run_fail(run, first->line, "nested more than %d deep",
                        RUN_DEPTH_MAX);
    run->depth++;
    for (; first != NULL && status == STATUS_OK && run->flow == FLOW_ON;
         first = first->next)
        status = exec_node(run, first);
    run->depth--;
    return status;
}
