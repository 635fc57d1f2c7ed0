/* template_arithmetic.c - operators of chat templates: sums, joins and
 * comparisons, as Python has them. */
#include "model/template_run.h"

#include <math.h>
#include <string.h>

#include "common/banned.h"

enum { REPEAT_MAX = 1 << 20 };

static enum status
refuse_operands(struct run *run, const struct node *node, const struct value *a,
                const struct value *b)
{
    const struct value *undefined = a->kind == VALUE_UNDEFINED   ? a
                                    : b->kind == VALUE_UNDEFINED ? b
                                                                 : NULL;

    if (undefined != NULL)
        return run_fail_undefined(run, node->line, undefined);
    return run_fail(run, node->line, "the operator does not take %s and %s",
                    value_kind_name(a), value_kind_name(b));
}

static enum status
join_texts(struct run *run, uint32_t line, struct text a, struct text b,
           struct value *value)
{
    char *joined = NULL;

    if (a.size + b.size > TEMPLATE_VALUE_TEXT_MAX)
        return run_fail(run, line, "a text is larger than %d bytes",
                        TEMPLATE_VALUE_TEXT_MAX);
    joined = arena_alloc(&run->arena, a.size + b.size + 1);
    memcpy(joined, a.data, a.size);
    memcpy(joined + a.size, b.data, b.size);
    *value = value_text((struct text){joined, a.size + b.size});
    return run_charge(run, line, (a.size + b.size) / TEMPLATE_STEP_BYTES);
}

static enum status
join_lists(struct run *run, uint32_t line, const struct list *a,
           const struct list *b, struct value *value)
{
    struct list *joined = list_new(&run->arena);

    if (a->count + b->count > TEMPLATE_LIST_MAX)
        return run_fail(run, line, "more than %d items", TEMPLATE_LIST_MAX);
    for (size_t i = 0; i < a->count; i++)
        list_add(&run->arena, joined, a->items[i]);
    for (size_t i = 0; i < b->count; i++)
        list_add(&run->arena, joined, b->items[i]);
    *value = value_list(joined);
    return run_charge(run, line, joined->count);
}

static enum status
repeat_text(struct run *run, uint32_t line, struct text text, int64_t count,
            struct value *value)
{
    struct buf buf;

    if (count > REPEAT_MAX)
        return run_fail(run, line, "a text repeated more than %d times",
                        REPEAT_MAX);
    run_buf(&buf);
    for (int64_t i = 0; i < count && text.size > 0 && !buf.overflowed; i++)
        buf_append(&buf, text.data, text.size);
    return run_take(run, line, &buf, value);
}

/* Floor division and its remainder, which has the sign of the divisor. */
static int64_t
floor_modulo(int64_t a, int64_t b)
{
    int64_t rest = b == -1 ? 0 : a % b;

    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static bool
fits_integer(double real)
{
    return real > -9.2e18 && real < 9.2e18;
}

/* Results that leave 64 bits are refused: the estimate in double tells. */
static enum status
compute_integers(struct run *run, const struct node *node, int64_t a, int64_t b,
                 struct value *value)
{
    double x = (double)a;
    double y = (double)b;
    double estimate = 0;

    if (node->op == OP_DIVIDE || node->op == OP_DIVIDE_FLOOR ||
        node->op == OP_MODULO) {
        if (b == 0)
            return run_fail(run, node->line, "division by zero");
    }
    if (node->op == OP_DIVIDE) {
        *value = value_real(x / y);
        return STATUS_OK;
    }
    if (node->op == OP_POWER) {
        estimate = pow(x, y);
        if (b < 0 || fabs(estimate) > 9e15)
            *value = value_real(estimate);
        else
            *value = value_integer((int64_t)estimate);
        return STATUS_OK;
    }
    estimate = node->op == OP_ADD        ? x + y
               : node->op == OP_SUBTRACT ? x - y
               : node->op == OP_MULTIPLY ? x * y
                                         : x / y;
    if (!fits_integer(estimate))
        return run_fail(run, node->line, "an integer is too large");
    *value = value_integer(node->op == OP_ADD        ? a + b
                           : node->op == OP_SUBTRACT ? a - b
                           : node->op == OP_MULTIPLY ? a * b
                           : node->op == OP_DIVIDE_FLOOR
                               ? (a - floor_modulo(a, b)) / b
                               : floor_modulo(a, b));
    return STATUS_OK;
}

static enum status
compute_reals(struct run *run, const struct node *node, double a, double b,
              struct value *value)
{
    bool divides = node->op == OP_DIVIDE || node->op == OP_DIVIDE_FLOOR ||
                   node->op == OP_MODULO;

    if (divides && b == 0)
        return run_fail(run, node->line, "division by zero");
    *value = value_real(node->op == OP_ADD            ? a + b
                        : node->op == OP_SUBTRACT     ? a - b
                        : node->op == OP_MULTIPLY     ? a * b
                        : node->op == OP_DIVIDE       ? a / b
                        : node->op == OP_DIVIDE_FLOOR ? floor(a / b)
                        : node->op == OP_MODULO       ? a - floor(a / b) * b
                                                      : pow(a, b));
    return STATUS_OK;
}

enum status
run_binary(struct run *run, const struct node *node, struct value *value)
{
    struct value a;
    struct value b;
    enum status status = run_eval(run, node->left, &a);

    if (status == STATUS_OK)
        status = run_eval(run, node->right, &b);
    if (status != STATUS_OK)
        return status;
    if (node->op == OP_CONCAT) {
        struct text left;
        struct text right;

        status = run_text(run, node->line, &a, &left);
        if (status == STATUS_OK)
            status = run_text(run, node->line, &b, &right);
        return status == STATUS_OK
                   ? join_texts(run, node->line, left, right, value)
                   : status;
    }
    if (value_is_number(&a) && value_is_number(&b)) {
        if (a.kind == VALUE_REAL || b.kind == VALUE_REAL)
            return compute_reals(run, node, value_as_real(&a),
                                 value_as_real(&b), value);
        return compute_integers(run, node, value_as_integer(&a),
                                value_as_integer(&b), value);
    }
    if (node->op == OP_ADD && a.kind == VALUE_TEXT && b.kind == VALUE_TEXT)
        return join_texts(run, node->line, a.text, b.text, value);
    if (node->op == OP_ADD && a.kind == VALUE_LIST && b.kind == VALUE_LIST)
        return join_lists(run, node->line, a.list, b.list, value);
    if (node->op == OP_MULTIPLY && a.kind == VALUE_TEXT &&
        b.kind == VALUE_INTEGER)
        return repeat_text(run, node->line, a.text, b.integer, value);
    return refuse_operands(run, node, &a, &b);
}

static enum status
compare(struct run *run, const struct node *node, const struct value *a,
        const struct value *b, bool *holds)
{
    enum status status = STATUS_OK;
    int order = 0;

    if (node->op == OP_EQUAL || node->op == OP_NOT_EQUAL) {
        *holds = value_equal(a, b, &run->steps) == (node->op == OP_EQUAL);
        return run_charge(run, node->line, 0);
    }
    if (node->op == OP_IN || node->op == OP_NOT_IN) {
        status = run_contains(run, node->line, b, a, holds);
        *holds = *holds == (node->op == OP_IN);
        return status;
    }
    if (!value_compare(a, b, &order, &run->steps))
        return refuse_operands(run, node, a, b);
    *holds = node->op == OP_LESS         ? order < 0
             : node->op == OP_LESS_EQUAL ? order <= 0
             : node->op == OP_GREATER    ? order > 0
                                         : order >= 0;
    return run_charge(run, node->line, 0);
}

/* "a < b < c" holds when each comparison does. */
enum status
run_compare(struct run *run, const struct node *node, struct value *value)
{
    struct value left;
    bool holds = true;
    enum status status = run_eval(run, node->left, &left);
    const struct node *part = node->first;

    for (; status == STATUS_OK && holds && part != NULL; part = part->next) {
        struct value right;

        status = run_eval(run, part->right, &right);
        if (status == STATUS_OK)
            status = compare(run, part, &left, &right, &holds);
        left = right;
    }
    *value = value_bool(holds);
    return status;
}
