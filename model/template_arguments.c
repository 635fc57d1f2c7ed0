/* template_arguments.c - what calls, filters and tests are given. */
#include "model/template_run.h"

#include "common/banned.h"

const struct value *
argument(const struct arguments *arguments, size_t place, const char *name)
{
    size_t given = 0;

    for (size_t i = 0; i < arguments->count; i++) {
        if (arguments->names[i].size == 0) {
            if (given++ == place)
                return &arguments->values[i];
        } else if (text_is(arguments->names[i], name)) {
            return &arguments->values[i];
        }
    }
    return NULL;
}

int64_t
argument_integer(const struct arguments *arguments, size_t place,
                 const char *name, int64_t fallback)
{
    const struct value *value = argument(arguments, place, name);

    return value != NULL && value->kind == VALUE_INTEGER ? value->integer
                                                         : fallback;
}

struct text
argument_text(const struct arguments *arguments, size_t place, const char *name,
              struct text fallback)
{
    const struct value *value = argument(arguments, place, name);

    return value != NULL && value->kind == VALUE_TEXT ? value->text : fallback;
}

bool
argument_is_true(const struct arguments *arguments, size_t place,
                 const char *name)
{
    const struct value *value = argument(arguments, place, name);

    return value != NULL && value_is_true(value);
}

enum status
run_arguments(struct run *run, const struct node *node,
              struct arguments *arguments)
{
    const struct node *part = node->first;
    enum status status = STATUS_OK;

    arguments->line = node->line;
    arguments->name = node->name;
    arguments->count = 0;
    for (; part != NULL && status == STATUS_OK; part = part->next) {
        bool named = part->kind == NODE_KEYWORD;

        if (arguments->count == RUN_ARGUMENTS_MAX)
            return run_fail(run, node->line, "more than %d arguments",
                            RUN_ARGUMENTS_MAX);
        status = run_eval(run, named ? part->left : part,
                          &arguments->values[arguments->count]);
        arguments->names[arguments->count++] = named ? part->name : TEXT("");
    }
    return status;
}
