/* template_tests.c - "is" of chat templates. */
#include "model/template_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/banned.h"

enum test {
    TEST_DEFINED,
    TEST_UNDEFINED,
    TEST_NONE,
    TEST_BOOLEAN,
    TEST_TRUE,
    TEST_FALSE,
    TEST_INTEGER,
    TEST_FLOAT,
    TEST_NUMBER,
    TEST_STRING,
    TEST_MAPPING,
    TEST_SEQUENCE,
    TEST_ITERABLE,
    TEST_CALLABLE,
    TEST_EQUAL,
    TEST_NOT_EQUAL,
    TEST_LESS,
    TEST_LESS_EQUAL,
    TEST_GREATER,
    TEST_GREATER_EQUAL,
    TEST_IN,
    TEST_ODD,
    TEST_EVEN,
    TEST_DIVISIBLE,
};

static const struct {
    const char *name;
    enum test test;
} tests[] = {
    {"defined", TEST_DEFINED},
    {"undefined", TEST_UNDEFINED},
    {"none", TEST_NONE},
    {"boolean", TEST_BOOLEAN},
    {"true", TEST_TRUE},
    {"false", TEST_FALSE},
    {"integer", TEST_INTEGER},
    {"float", TEST_FLOAT},
    {"number", TEST_NUMBER},
    {"string", TEST_STRING},
    {"mapping", TEST_MAPPING},
    {"sequence", TEST_SEQUENCE},
    {"iterable", TEST_ITERABLE},
    {"callable", TEST_CALLABLE},
    {"equalto", TEST_EQUAL},
    {"eq", TEST_EQUAL},
    {"sameas", TEST_EQUAL},
    {"ne", TEST_NOT_EQUAL},
    {"lt", TEST_LESS},
    {"lessthan", TEST_LESS},
    {"le", TEST_LESS_EQUAL},
    {"gt", TEST_GREATER},
    {"greaterthan", TEST_GREATER},
    {"ge", TEST_GREATER_EQUAL},
    {"in", TEST_IN},
    {"odd", TEST_ODD},
    {"even", TEST_EVEN},
    {"divisibleby", TEST_DIVISIBLE},
};

static bool
find_test(struct text name, enum test *test)
{
    for (size_t i = 0; i < COUNT_OF(tests); i++) {
        if (text_is(name, tests[i].name)) {
            *test = tests[i].test;
            return true;
        }
    }
    return false;
}

bool
template_test_is_known(struct text name)
{
    enum test test = TEST_DEFINED;

    return find_test(name, &test);
}

/* Is the number a multiple of @divisor, with @rest left over? */
static enum status
leaves(struct run *run, const struct arguments *arguments, int64_t divisor,
       int64_t rest, bool *passes)
{
    const struct value *self = &arguments->self;

    if (self->kind != VALUE_INTEGER)
        return run_fail(run, arguments->line, "%s is no whole number",
                        value_kind_name(self));
    if (divisor == 0)
        return run_fail(run, arguments->line, "division by zero");
    /* INT64_MIN % -1 has no value in C. */
    *passes =
        divisor == -1 ? rest == 0 : llabs(self->integer % divisor) == rest;
    return STATUS_OK;
}

static enum status
orders(struct run *run, const struct arguments *arguments, enum test test,
       bool *passes)
{
    const struct value *other = argument(arguments, 0, "other");
    int order = 0;

    if (other == NULL ||
        !value_compare(&arguments->self, other, &order, &run->steps))
        return run_fail(run, arguments->line,
                        "test %.*s needs two that have "
                        "an order",
                        (int)arguments->name.size, arguments->name.data);
    *passes = test == TEST_LESS         ? order < 0
              : test == TEST_LESS_EQUAL ? order <= 0
              : test == TEST_GREATER    ? order > 0
                                        : order >= 0;
    return run_charge(run, arguments->line, 0);
}

enum status
run_test(struct run *run, const struct arguments *arguments, bool *passes)
{
    const struct value *self = &arguments->self;
    const struct value *other = argument(arguments, 0, "other");
    enum value_kind kind = self->kind;
    struct value undefined = value_undefined(TEXT("argument"));
    enum test test = TEST_DEFINED;

    if (!find_test(arguments->name, &test))
        return run_fail(run, arguments->line, "unknown test");
    if (other == NULL)
        other = &undefined;
    switch (test) {
    case TEST_DEFINED:
        *passes = kind != VALUE_UNDEFINED;
        return STATUS_OK;
    case TEST_UNDEFINED:
        *passes = kind == VALUE_UNDEFINED;
        return STATUS_OK;
    case TEST_NONE:
        *passes = kind == VALUE_NONE;
        return STATUS_OK;
    case TEST_BOOLEAN:
        *passes = kind == VALUE_BOOL;
        return STATUS_OK;
    case TEST_TRUE:
        *passes = kind == VALUE_BOOL && self->boolean;
        return STATUS_OK;
    case TEST_FALSE:
        *passes = kind == VALUE_BOOL && !self->boolean;
        return STATUS_OK;
    case TEST_INTEGER:
        *passes = kind == VALUE_INTEGER;
        return STATUS_OK;
    case TEST_FLOAT:
        *passes = kind == VALUE_REAL;
        return STATUS_OK;
    case TEST_NUMBER: /* in Python a boolean is one */
        *passes = value_is_number(self);
        return STATUS_OK;
    case TEST_STRING:
        *passes = kind == VALUE_TEXT;
        return STATUS_OK;
    case TEST_MAPPING:
        *passes = kind == VALUE_MAP && !self->map->is_namespace;
        return STATUS_OK;
    case TEST_SEQUENCE: /* what has a length and items */
    case TEST_ITERABLE:
        *passes = kind == VALUE_TEXT || kind == VALUE_LIST ||
                  (kind == VALUE_MAP && !self->map->is_namespace) ||
                  kind == VALUE_UNDEFINED;
        return STATUS_OK;
    case TEST_CALLABLE:
        *passes = kind == VALUE_MACRO || kind == VALUE_FUNCTION;
        return STATUS_OK;
    case TEST_EQUAL:
    case TEST_NOT_EQUAL:
        *passes = value_equal(self, other, &run->steps) == (test == TEST_EQUAL);
        return run_charge(run, arguments->line, 0);
    case TEST_LESS:
    case TEST_LESS_EQUAL:
    case TEST_GREATER:
    case TEST_GREATER_EQUAL:
        return orders(run, arguments, test, passes);
    case TEST_IN:
        return run_contains(run, arguments->line, other, self, passes);
    case TEST_ODD:
        return leaves(run, arguments, 2, 1, passes);
    case TEST_EVEN:
        return leaves(run, arguments, 2, 0, passes);
    case TEST_DIVISIBLE:
        return leaves(run, arguments, argument_integer(arguments, 0, "num", 0),
                      0, passes);
    }
    return STATUS_OK;
}
