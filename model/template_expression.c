/* template_expression.c - values of chat templates and what follows them,
 * parsed by descent.
 *
 * Nesting and the depth of a tree are bounded, so that neither parsing nor
 * evaluating can run out of stack. */
#include "model/template_parser.h"

#include <stdlib.h>
#include <string.h>

#include "common/banned.h"

/* --- tokens ---------------------------------------------------------------*/

enum status
parser_step(struct parser *parser)
{
    parser->now = parser->ahead;
    return lexer_next(&parser->lexer, &parser->ahead);
}

bool
parser_token_is(const struct template_token *token, enum token_kind kind,
                const char *text)
{
    return token->kind == kind && (text == NULL || text_is(token->text, text));
}

bool
parser_at(const struct parser *parser, enum token_kind kind, const char *text)
{
    return parser_token_is(&parser->now, kind, text);
}

bool
parser_at_operator(const struct parser *parser, const char *text)
{
    return parser_at(parser, TOKEN_OPERATOR, text);
}

bool
parser_at_name(const struct parser *parser, const char *text)
{
    return parser_at(parser, TOKEN_NAME, text);
}

enum status
parser_refuse(const struct parser *parser, const char *expected)
{
    const struct template_token *now = &parser->now;
    const char *what = now->kind == TOKEN_END           ? "the end"
                       : now->kind == TOKEN_CLOSE_BLOCK ? "%}"
                       : now->kind == TOKEN_CLOSE_PRINT ? "}}"
                       : now->kind == TOKEN_DATA        ? "text"
                                                        : NULL;

    if (what != NULL)
        return template_fail(parser->err, now->line, "expected %s, found %s",
                             expected, what);
    return template_fail(
        parser->err, now->line, "expected %s, found %.*s", expected,
        (int)(now->text.size < 40 ? now->text.size : 40), now->text.data);
}

enum status
parser_expect(struct parser *parser, enum token_kind kind, const char *text)
{
    if (!parser_at(parser, kind, text))
        return parser_refuse(parser, text != NULL                ? text
                                     : kind == TOKEN_NAME        ? "a name"
                                     : kind == TOKEN_CLOSE_BLOCK ? "%}"
                                                                 : "}}");
    return parser_step(parser);
}

/* The operator, if it is there. */
static enum status
accept(struct parser *parser, const char *text, bool *accepted)
{
    *accepted = parser_at_operator(parser, text);
    return *accepted ? parser_step(parser) : STATUS_OK;
}

enum status
parser_enter(struct parser *parser)
{
    if (++parser->nesting > TEMPLATE_NEST_MAX)
        return template_fail(parser->err, parser->now.line,
                             "nested more than %d deep", TEMPLATE_NEST_MAX);
    return STATUS_OK;
}

struct node *
parser_node(struct parser *parser, enum node_kind kind)
{
    struct node *node = arena_alloc(parser->lexer.arena, sizeof(*node));

    node->kind = kind;
    node->line = parser->now.line;
    node->name = TEXT("");
    node->depth = 1;
    return node;
}

enum status
parser_deepen(struct parser *parser, struct node *node, const struct node *part)
{
    if (part != NULL && part->depth + 1 > node->depth)
        node->depth = part->depth + 1;
    if (node->depth > TEMPLATE_DEPTH_MAX)
        return template_fail(parser->err, node->line,
                             "expression is more than %d deep",
                             TEMPLATE_DEPTH_MAX);
    return STATUS_OK;
}

/* --- values ---------------------------------------------------------------*/

/* Expressions up to @end, separated by commas, as the list of @node. */
static enum status
parse_items(struct parser *parser, const char *end, struct node *node)
{
    struct node **tail = &node->first;
    enum status status = STATUS_OK;

    while (!parser_at_operator(parser, end)) {
        status = parser_expression(parser, false, tail);
        if (status == STATUS_OK)
            status = parser_deepen(parser, node, *tail);
        if (status != STATUS_OK)
            return status;
        tail = &(*tail)->next;
        if (parser_at_operator(parser, end))
            break;
        status = parser_expect(parser, TOKEN_OPERATOR, ",");
        if (status != STATUS_OK)
            return status;
    }
    return parser_step(parser);
}

static enum status
parse_list(struct parser *parser, struct node **node)
{
    enum status status = STATUS_OK;

    *node = parser_node(parser, NODE_LIST);
    status = parser_step(parser);
    return status == STATUS_OK ? parse_items(parser, "]", *node) : status;
}

static enum status
parse_map(struct parser *parser, struct node **node)
{
    struct node *map = parser_node(parser, NODE_MAP);
    struct node **tail = &map->first;
    enum status status = parser_step(parser);

    while (status == STATUS_OK && !parser_at_operator(parser, "}")) {
        status = parser_expression(parser, false, tail);
        if (status == STATUS_OK)
            status = parser_deepen(parser, map, *tail);
        if (status == STATUS_OK)
            status = parser_expect(parser, TOKEN_OPERATOR, ":");
        if (status != STATUS_OK)
            return status;
        tail = &(*tail)->next;
        status = parser_expression(parser, false, tail);
        if (status == STATUS_OK)
            status = parser_deepen(parser, map, *tail);
        if (status != STATUS_OK)
            return status;
        tail = &(*tail)->next;
        if (!parser_at_operator(parser, "}"))
            status = parser_expect(parser, TOKEN_OPERATOR, ",");
    }
    *node = map;
    return status == STATUS_OK ? parser_step(parser) : status;
}

/* "(x)" or a tuple "(a, b)", which is a list here. */
static enum status
parse_group(struct parser *parser, struct node **node)
{
    enum status status = parser_step(parser);

    if (status == STATUS_OK && parser_at_operator(parser, ")")) {
        *node = parser_node(parser, NODE_LIST);
        (*node)->negated = true;
        return parser_step(parser);
    }
    if (status == STATUS_OK)
        status = parser_expression(parser, true, node);
    if (status == STATUS_OK)
        status = parser_expect(parser, TOKEN_OPERATOR, ")");
    return status;
}

static enum status
parse_name(struct parser *parser, struct node **node)
{
    static const struct {
        const char *name;
        enum value_kind kind;
        bool boolean;
    } words[] = {
        {"true", VALUE_BOOL, true},   {"True", VALUE_BOOL, true},
        {"false", VALUE_BOOL, false}, {"False", VALUE_BOOL, false},
        {"none", VALUE_NONE, false},  {"None", VALUE_NONE, false},
    };

    *node = parser_node(parser, NODE_NAME);
    (*node)->name = parser->now.text;
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        if (!text_is(parser->now.text, words[i].name))
            continue;
        (*node)->kind = NODE_LITERAL;
        (*node)->literal.kind = words[i].kind;
        (*node)->literal.boolean = words[i].boolean;
    }
    return parser_step(parser);
}

/* Neighbouring strings are one, as in Python. */
static enum status
parse_text(struct parser *parser, struct node **node)
{
    enum status status = STATUS_OK;
    struct buf joined;

    *node = parser_node(parser, NODE_LITERAL);
    buf_init(&joined, TEMPLATE_VALUE_TEXT_MAX);
    while (status == STATUS_OK && parser_at(parser, TOKEN_TEXT, NULL)) {
        buf_append(&joined, parser->now.text.data, parser->now.text.size);
        status = parser_step(parser);
    }
    (*node)->literal = value_text(text_take(parser->lexer.arena, &joined));
    return status;
}

enum status
parser_primary(struct parser *parser, struct node **node)
{
    const struct template_token *now = &parser->now;
    enum status status = parser_enter(parser);

    if (status != STATUS_OK)
        return status;
    if (now->kind == TOKEN_NAME) {
        status = parse_name(parser, node);
    } else if (now->kind == TOKEN_TEXT) {
        status = parse_text(parser, node);
    } else if (now->kind == TOKEN_INTEGER || now->kind == TOKEN_REAL) {
        *node = parser_node(parser, NODE_LITERAL);
        (*node)->literal = now->kind == TOKEN_REAL
                               ? value_real(now->real)
                               : value_integer(now->integer);
        status = parser_step(parser);
    } else if (parser_at_operator(parser, "(")) {
        status = parse_group(parser, node);
    } else if (parser_at_operator(parser, "[")) {
        status = parse_list(parser, node);
    } else if (parser_at_operator(parser, "{")) {
        status = parse_map(parser, node);
    } else {
        status = parser_refuse(parser, "a value");
    }
    parser->nesting--;
    return status;
}

/* --- after a value --------------------------------------------------------*/

/* Arguments between brackets, the opening one being read: into @node. */
static enum status
parse_arguments(struct parser *parser, struct node *node)
{
    struct node **tail = &node->first;
    enum status status = parser_step(parser);

    while (status == STATUS_OK && !parser_at_operator(parser, ")")) {
        if (parser->now.kind == TOKEN_NAME &&
            parser_token_is(&parser->ahead, TOKEN_OPERATOR, "=")) {
            *tail = parser_node(parser, NODE_KEYWORD);
            (*tail)->name = parser->now.text;
            status = parser_step(parser);
            if (status == STATUS_OK)
                status = parser_step(parser);
            if (status == STATUS_OK)
                status = parser_expression(parser, false, &(*tail)->left);
            if (status == STATUS_OK)
                status = parser_deepen(parser, *tail, (*tail)->left);
        } else {
            status = parser_expression(parser, false, tail);
        }
        if (status == STATUS_OK)
            status = parser_deepen(parser, node, *tail);
        if (status != STATUS_OK)
            return status;
        tail = &(*tail)->next;
        if (!parser_at_operator(parser, ")"))
            status = parser_expect(parser, TOKEN_OPERATOR, ",");
    }
    return status == STATUS_OK ? parser_step(parser) : status;
}

/* One bound of a slice, which may be absent. */
static enum status
parse_bound(struct parser *parser, struct node *slice, struct node **bound)
{
    enum status status = STATUS_OK;

    if (parser_at_operator(parser, ":") || parser_at_operator(parser, "]"))
        return STATUS_OK;
    status = parser_expression(parser, false, bound);
    return status == STATUS_OK ? parser_deepen(parser, slice, *bound) : status;
}

/* "[x]", "[a:b]" or "[a:b:c]" after @left. */
static enum status
parse_subscript(struct parser *parser, struct node *left, struct node **node)
{
    struct node *result = parser_node(parser, NODE_SUBSCRIPT);
    bool more = false;
    enum status status = parser_step(parser);

    result->left = left;
    if (status == STATUS_OK)
        status = parse_bound(parser, result, &result->right);
    if (status == STATUS_OK)
        status = accept(parser, ":", &more);
    if (status == STATUS_OK && more) {
        result->kind = NODE_SLICE;
        status = parse_bound(parser, result, &result->test);
        if (status == STATUS_OK)
            status = accept(parser, ":", &more);
        if (status == STATUS_OK && more)
            status = parse_bound(parser, result, &result->third);
    } else if (status == STATUS_OK && result->right == NULL) {
        status = parser_refuse(parser, "a subscript");
    }
    *node = result;
    return status == STATUS_OK ? parser_expect(parser, TOKEN_OPERATOR, "]")
                               : status;
}

/* ".name" after @left; ".0" is a subscript. */
static enum status
parse_attribute(struct parser *parser, struct node *left, struct node **node)
{
    struct node *result = parser_node(parser, NODE_ATTRIBUTE);
    enum status status = parser_step(parser);

    result->left = left;
    *node = result;
    if (status != STATUS_OK)
        return status;
    if (parser->now.kind == TOKEN_INTEGER) {
        result->kind = NODE_SUBSCRIPT;
        result->right = parser_node(parser, NODE_LITERAL);
        result->right->literal = value_integer(parser->now.integer);
        return parser_step(parser);
    }
    result->name = parser->now.text;
    return parser_expect(parser, TOKEN_NAME, NULL);
}

enum status
parser_postfix(struct parser *parser, struct node **node)
{
    enum status status = STATUS_OK;

    while (status == STATUS_OK) {
        struct node *left = *node;

        if (parser_at_operator(parser, ".")) {
            status = parse_attribute(parser, left, node);
        } else if (parser_at_operator(parser, "[")) {
            status = parse_subscript(parser, left, node);
        } else if (parser_at_operator(parser, "(")) {
            *node = parser_node(parser, NODE_CALL);
            (*node)->left = left;
            status = parse_arguments(parser, *node);
        } else {
            break;
        }
        if (status == STATUS_OK)
            status = parser_deepen(parser, *node, left);
    }
    return status;
}

/* The name of a filter and its arguments, applied to @base. */
static enum status
parse_filter(struct parser *parser, struct node *base, struct node **node)
{
    struct node *filter = parser_node(parser, NODE_FILTER);
    enum status status = STATUS_OK;

    filter->name = parser->now.text;
    filter->left = base;
    if (parser->now.kind != TOKEN_NAME)
        return parser_refuse(parser, "a filter");
    if (!template_filter_is_known(filter->name))
        return template_fail(parser->err, filter->line,
                             "filter %.*s is not known",
                             (int)(filter->name.size % 40), filter->name.data);
    status = parser_step(parser);
    if (status == STATUS_OK && parser_at_operator(parser, "("))
        status = parse_arguments(parser, filter);
    if (status == STATUS_OK)
        status = parser_deepen(parser, filter, base);
    *node = filter;
    return status;
}

/* Does a test's argument without brackets follow? */
static bool
at_test_argument(const struct parser *parser)
{
    switch (parser->now.kind) {
    case TOKEN_NAME:
        return !parser_at_name(parser, "else") &&
               !parser_at_name(parser, "or") &&
               !parser_at_name(parser, "and") &&
               !parser_at_name(parser, "if") && !parser_at_name(parser, "is") &&
               !parser_at_name(parser, "in") && !parser_at_name(parser, "not");
    case TOKEN_TEXT:
    case TOKEN_INTEGER:
    case TOKEN_REAL:
        return true;
    case TOKEN_OPERATOR:
        return parser_at_operator(parser, "[") ||
               parser_at_operator(parser, "{");
    case TOKEN_END:
    case TOKEN_DATA:
    case TOKEN_OPEN_BLOCK:
    case TOKEN_CLOSE_BLOCK:
    case TOKEN_OPEN_PRINT:
    case TOKEN_CLOSE_PRINT:
        break;
    }
    return false;
}

static enum status
parse_test(struct parser *parser, struct node *base, struct node **node)
{
    struct node *test = parser_node(parser, NODE_TEST);
    enum status status = parser_step(parser);

    *node = test;
    test->left = base;
    if (status == STATUS_OK && parser_at_name(parser, "not")) {
        test->negated = true;
        status = parser_step(parser);
    }
    if (status != STATUS_OK)
        return status;
    test->name = parser->now.text;
    if (parser->now.kind != TOKEN_NAME || !template_test_is_known(test->name))
        return parser_refuse(parser, "a known test");
    status = parser_step(parser);
    if (status == STATUS_OK && parser_at_operator(parser, "(")) {
        status = parse_arguments(parser, test);
    } else if (status == STATUS_OK && at_test_argument(parser)) {
        status = parser_primary(parser, &test->first);
        if (status == STATUS_OK)
            status = parser_postfix(parser, &test->first);
        if (status == STATUS_OK)
            status = parser_deepen(parser, test, test->first);
    }
    return status == STATUS_OK ? parser_deepen(parser, test, base) : status;
}

enum status
parser_filters(struct parser *parser, struct node *base, bool first_bare,
               struct node **node)
{
    enum status status = STATUS_OK;

    *node = base;
    while (status == STATUS_OK &&
           (first_bare || parser_at_operator(parser, "|"))) {
        if (!first_bare)
            status = parser_step(parser);
        if (status == STATUS_OK)
            status = parse_filter(parser, *node, node);
        first_bare = false;
    }
    return status;
}

/* Filters, tests and calls of their results. */
enum status
parser_filtered(struct parser *parser, struct node **node)
{
    enum status status = STATUS_OK;

    for (;;) {
        struct node *base = *node;

        if (parser_at_operator(parser, "|"))
            status = parser_filters(parser, base, false, node);
        else if (parser_at_name(parser, "is"))
            status = parse_test(parser, base, node);
        else
            return STATUS_OK;
        if (status != STATUS_OK)
            return status;
    }
}

/* --- names that are assigned ----------------------------------------------*/

static enum status
parse_target(struct parser *parser, bool attributes, struct node **node)
{
    enum status status = STATUS_OK;

    *node = parser_node(parser, NODE_NAME);
    (*node)->name = parser->now.text;
    status = parser_expect(parser, TOKEN_NAME, NULL);
    if (status == STATUS_OK && attributes && parser_at_operator(parser, ".")) {
        struct node *left = *node;

        *node = parser_node(parser, NODE_ATTRIBUTE);
        (*node)->left = left;
        status = parser_step(parser);
        (*node)->name = parser->now.text;
        if (status == STATUS_OK)
            status = parser_expect(parser, TOKEN_NAME, NULL);
    }
    return status;
}

enum status
parser_targets(struct parser *parser, bool attributes, struct node **first)
{
    bool bracket = false;
    bool more = true;
    enum status status = accept(parser, "(", &bracket);

    while (status == STATUS_OK && more) {
        status = parse_target(parser, attributes, first);
        first = &(*first)->next;
        if (status == STATUS_OK)
            status = accept(parser, ",", &more);
    }
    if (status == STATUS_OK && bracket)
        status = parser_expect(parser, TOKEN_OPERATOR, ")");
    return status;
}

enum status
parser_parameters(struct parser *parser, struct node **first)
{
    enum status status = parser_expect(parser, TOKEN_OPERATOR, "(");
    bool more = false;

    while (status == STATUS_OK && !parser_at_operator(parser, ")")) {
        *first = parser_node(parser, NODE_NAME);
        (*first)->name = parser->now.text;
        status = parser_expect(parser, TOKEN_NAME, NULL);
        if (status == STATUS_OK)
            status = accept(parser, "=", &more);
        if (status == STATUS_OK && more)
            status = parser_expression(parser, false, &(*first)->left);
        first = &(*first)->next;
        if (status == STATUS_OK && !parser_at_operator(parser, ")"))
            status = parser_expect(parser, TOKEN_OPERATOR, ",");
    }
    return status == STATUS_OK ? parser_step(parser) : status;
}
