/* template_operator.c - operators between the values of chat templates.
 *
 * Precedence is Jinja2's: if, or, and, not, comparisons, + -, ~, * / // %, **,
 * signs. */
#include "model/template_parser.h"

#include <string.h>

#include "common/banned.h"

static enum status
parse_unary(struct parser *parser, bool with_filters, struct node **node)
{
    enum status status = parser_enter(parser);

    if (status != STATUS_OK)
        return status;
    if (parser_at_operator(parser, "-") || parser_at_operator(parser, "+")) {
        struct node *sign = parser_node(
            parser, parser_at_operator(parser, "-") ? NODE_MINUS : NODE_PLUS);

        status = parser_step(parser);
        if (status == STATUS_OK)
            status = parse_unary(parser, false, &sign->left);
        if (status == STATUS_OK)
            status = parser_deepen(parser, sign, sign->left);
        *node = sign;
    } else {
        status = parser_primary(parser, node);
    }
    if (status == STATUS_OK)
        status = parser_postfix(parser, node);
    if (status == STATUS_OK && with_filters)
        status = parser_filtered(parser, node);
    parser->nesting--;
    return status;
}

/* Binary operators by level, the weakest first. */
static const struct {
    const char *text;
    enum op op;
    unsigned level;
} operators[] = {
    {"+", OP_ADD, 1},      {"-", OP_SUBTRACT, 1}, {"~", OP_CONCAT, 2},
    {"*", OP_MULTIPLY, 3}, {"/", OP_DIVIDE, 3},   {"//", OP_DIVIDE_FLOOR, 3},
    {"%", OP_MODULO, 3},   {"**", OP_POWER, 4},
};

enum { LEVEL_UNARY = 5 };

static bool
at_level(const struct parser *parser, unsigned level, enum op *op)
{
    for (size_t i = 0; i < COUNT_OF(operators); i++) {
        if (operators[i].level == level &&
            parser_at_operator(parser, operators[i].text)) {
            *op = operators[i].op;
            return true;
        }
    }
    return false;
}

/* Recursion is bounded by the number of levels. */
static enum status
parse_binary(struct parser *parser, unsigned level, struct node **node)
{
    enum op op = OP_ADD;
    enum status status = STATUS_OK;

    if (level == LEVEL_UNARY)
        return parse_unary(parser, true, node);
    status = parse_binary(parser, level + 1, node);
    while (status == STATUS_OK && at_level(parser, level, &op)) {
        struct node *binary = parser_node(parser, NODE_BINARY);

        binary->op = op;
        binary->left = *node;
        status = parser_step(parser);
        if (status == STATUS_OK)
            status = parse_binary(parser, level + 1, &binary->right);
        if (status == STATUS_OK)
            status = parser_deepen(parser, binary, binary->left);
        if (status == STATUS_OK)
            status = parser_deepen(parser, binary, binary->right);
        *node = binary;
    }
    return status;
}

/* A comparison at the parser?  @words tokens make it. */
static bool
at_comparison(const struct parser *parser, enum op *op, unsigned *words)
{
    static const struct {
        const char *text;
        enum op op;
    } comparisons[] = {
        {"==", OP_EQUAL},      {"!=", OP_NOT_EQUAL}, {"<", OP_LESS},
        {"<=", OP_LESS_EQUAL}, {">", OP_GREATER},    {">=", OP_GREATER_EQUAL},
    };

    *words = 1;
    for (size_t i = 0; i < COUNT_OF(comparisons); i++) {
        if (parser_at_operator(parser, comparisons[i].text)) {
            *op = comparisons[i].op;
            return true;
        }
    }
    if (parser_at_name(parser, "in")) {
        *op = OP_IN;
        return true;
    }
    *words = 2;
    *op = OP_NOT_IN;
    return parser_at_name(parser, "not") &&
           parser_token_is(&parser->ahead, TOKEN_NAME, "in");
}

static enum status
parse_compare(struct parser *parser, struct node **node)
{
    enum op op = OP_EQUAL;
    unsigned words = 0;
    struct node *compare = NULL;
    struct node **tail = NULL;
    enum status status = parse_binary(parser, 1, node);

    while (status == STATUS_OK && at_comparison(parser, &op, &words)) {
        struct node *part = parser_node(parser, NODE_COMPARE);

        if (compare == NULL) {
            compare = parser_node(parser, NODE_COMPARE);
            compare->left = *node;
            status = parser_deepen(parser, compare, *node);
            tail = &compare->first;
            *node = compare;
        }
        part->op = op;
        while (status == STATUS_OK && words-- > 0)
            status = parser_step(parser);
        if (status == STATUS_OK)
            status = parse_binary(parser, 1, &part->right);
        if (status == STATUS_OK)
            status = parser_deepen(parser, compare, part->right);
        *tail = part;
        tail = &part->next;
    }
    return status;
}

static enum status
parse_not(struct parser *parser, struct node **node)
{
    struct node *negation = NULL;
    enum status status = STATUS_OK;

    if (!parser_at_name(parser, "not"))
        return parse_compare(parser, node);
    status = parser_enter(parser);
    negation = parser_node(parser, NODE_NOT);
    if (status == STATUS_OK)
        status = parser_step(parser);
    if (status == STATUS_OK)
        status = parse_not(parser, &negation->left);
    if (status == STATUS_OK)
        status = parser_deepen(parser, negation, negation->left);
    parser->nesting--;
    *node = negation;
    return status;
}

/* "and" and "or". */
static enum status
parse_logic(struct parser *parser, bool either, struct node **node)
{
    enum status status =
        either ? parse_logic(parser, false, node) : parse_not(parser, node);

    while (status == STATUS_OK &&
           parser_at_name(parser, either ? "or" : "and")) {
        struct node *logic = parser_node(parser, either ? NODE_OR : NODE_AND);

        logic->left = *node;
        status = parser_step(parser);
        if (status == STATUS_OK)
            status = either ? parse_logic(parser, false, &logic->right)
                            : parse_not(parser, &logic->right);
        if (status == STATUS_OK)
            status = parser_deepen(parser, logic, logic->left);
        if (status == STATUS_OK)
            status = parser_deepen(parser, logic, logic->right);
        *node = logic;
    }
    return status;
}

enum status
parser_iterable(struct parser *parser, struct node **node)
{
    return parse_logic(parser, true, node);
}

/* "a if b else c"; without "else" it may be undefined. */
static enum status
parse_choice(struct parser *parser, struct node **node)
{
    enum status status = parse_logic(parser, true, node);

    while (status == STATUS_OK && parser_at_name(parser, "if")) {
        struct node *choice = parser_node(parser, NODE_CHOICE);

        choice->left = *node;
        *node = choice;
        status = parser_step(parser);
        if (status == STATUS_OK)
            status = parse_logic(parser, true, &choice->test);
        if (status == STATUS_OK && parser_at_name(parser, "else")) {
            status = parser_step(parser);
            if (status == STATUS_OK)
                status = parser_expression(parser, false, &choice->right);
        }
        if (status == STATUS_OK)
            status = parser_deepen(parser, choice, choice->left);
        if (status == STATUS_OK)
            status = parser_deepen(parser, choice, choice->test);
        if (status == STATUS_OK)
            status = parser_deepen(parser, choice, choice->right);
    }
    return status;
}

enum status
parser_expression(struct parser *parser, bool tuple, struct node **node)
{
    struct node *list = NULL;
    struct node **tail = NULL;
    enum status status = parser_enter(parser);

    if (status == STATUS_OK)
        status = parse_choice(parser, node);
    if (status == STATUS_OK && tuple && parser_at_operator(parser, ",")) {
        list = parser_node(parser, NODE_LIST);
        list->first = *node;
        list->negated = true;
        tail = &(*node)->next;
        status = parser_deepen(parser, list, *node);
        *node = list;
    }
    while (status == STATUS_OK && list != NULL &&
           parser_at_operator(parser, ",")) {
        status = parser_step(parser);
        if (status != STATUS_OK || parser_at_operator(parser, ")") ||
            parser_at(parser, TOKEN_CLOSE_BLOCK, NULL) ||
            parser_at(parser, TOKEN_CLOSE_PRINT, NULL))
            break;
        status = parse_choice(parser, tail);
        if (status == STATUS_OK)
            status = parser_deepen(parser, list, *tail);
        if (status == STATUS_OK)
            tail = &(*tail)->next;
    }
    parser->nesting--;
    return status;
}
