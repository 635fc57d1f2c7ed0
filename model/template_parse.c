/* template_parse.c - statements of chat templates. */
#include "model/template_parser.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/banned.h"

enum { MESSAGE_BYTES = 384 };

typedef enum status statement_parser(struct parser *parser, struct node **node);

static enum status parse_body(struct parser *parser, const char *const *ends,
                              struct node **first);

enum status
template_fail(struct error *err, uint32_t line, const char *format, ...)
{
    char text[MESSAGE_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return error_set(err, STATUS_INVALID, "chat template, line %u: %s", line,
                     text);
}

/* The name of the end tag, and its close. */
static enum status
finish_tag(struct parser *parser)
{
    enum status status = parser_step(parser);

    return status == STATUS_OK ? parser_expect(parser, TOKEN_CLOSE_BLOCK, NULL)
                               : status;
}

/* "%}", the statements of the block, and its end tag. */
static enum status
parse_block(struct parser *parser, const char *end, struct node **body)
{
    const char *ends[] = {end, NULL};
    enum status status = parser_expect(parser, TOKEN_CLOSE_BLOCK, NULL);

    if (status == STATUS_OK)
        status = parse_body(parser, ends, body);
    return status == STATUS_OK ? finish_tag(parser) : status;
}

static enum status
parse_if(struct parser *parser, struct node **node)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct node **tail = NULL;
    bool last = false;
    enum status status = STATUS_OK;

    *node = parser_node(parser, NODE_IF);
    tail = &(*node)->first;
    while (status == STATUS_OK && !parser_at(parser, TOKEN_NAME, "endif")) {
        struct node *branch = parser_node(parser, NODE_BRANCH);

        if (last)
            return parser_refuse(parser, "endif");
        last = parser_at(parser, TOKEN_NAME, "else");
        status = parser_step(parser); /* if, elif or else */
        if (status == STATUS_OK && !last)
            status = parser_expression(parser, true, &branch->test);
        if (status == STATUS_OK)
            status = parser_expect(parser, TOKEN_CLOSE_BLOCK, NULL);
        if (status == STATUS_OK)
            status = parse_body(parser, ends, &branch->body);
        *tail = branch;
        tail = &branch->next;
    }
    return status == STATUS_OK ? finish_tag(parser) : status;
}

static enum status
parse_for(struct parser *parser, struct node **node)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    struct node *loop = parser_node(parser, NODE_FOR);
    enum status status = parser_step(parser);

    *node = loop;
    if (status == STATUS_OK)
        status = parser_targets(parser, false, &loop->first);
    if (status == STATUS_OK)
        status = parser_expect(parser, TOKEN_NAME, "in");
    if (status == STATUS_OK)
        status = parser_iterable(parser, &loop->left);
    if (status == STATUS_OK && parser_at(parser, TOKEN_NAME, "if")) {
        status = parser_step(parser);
        if (status == STATUS_OK)
            status = parser_expression(parser, false, &loop->test);
    }
    if (status == STATUS_OK && parser_at(parser, TOKEN_NAME, "recursive"))
        return template_fail(parser->err, loop->line,
                             "recursive loops are not supported");
    if (status == STATUS_OK)
        status = parser_expect(parser, TOKEN_CLOSE_BLOCK, NULL);
    parser->loops++;
    if (status == STATUS_OK)
        status = parse_body(parser, ends, &loop->body);
    parser->loops--;
    if (status == STATUS_OK && parser_at(parser, TOKEN_NAME, "else")) {
        status = parser_step(parser);
        return status == STATUS_OK
                   ? parse_block(parser, "endfor", &loop->otherwise)
                   : status;
    }
    return status == STATUS_OK ? finish_tag(parser) : status;
}

/* "set a, b = x", or "set a | filter" whose value is the block's text. */
static enum status
parse_set(struct parser *parser, struct node **node)
{
    struct node *set = parser_node(parser, NODE_SET);
    struct node *piped = NULL;
    enum status status = parser_step(parser);

    *node = set;
    if (status == STATUS_OK)
        status = parser_targets(parser, true, &set->first);
    if (status == STATUS_OK && parser_at(parser, TOKEN_OPERATOR, "=")) {
        status = parser_step(parser);
        if (status == STATUS_OK)
            status = parser_expression(parser, true, &set->left);
        return status == STATUS_OK
                   ? parser_expect(parser, TOKEN_CLOSE_BLOCK, NULL)
                   : status;
    }
    set->negated = true; /* the value is a block */
    piped = parser_node(parser, NODE_PIPED);
    if (status == STATUS_OK)
        status = parser_filters(parser, piped, false, &set->left);
    return status == STATUS_OK ? parse_block(parser, "endset", &set->body)
                               : status;
}

static enum status
parse_macro(struct parser *parser, struct node **node)
{
    struct node *macro = parser_node(parser, NODE_MACRO);
    unsigned loops = parser->loops;
    enum status status = parser_step(parser);

    *node = macro;
    macro->name = parser->now.text;
    parser->loops = 0;
    if (status == STATUS_OK)
        status = parser_expect(parser, TOKEN_NAME, NULL);
    if (status == STATUS_OK)
        status = parser_parameters(parser, &macro->first);
    if (status == STATUS_OK)
        status = parse_block(parser, "endmacro", &macro->body);
    parser->loops = loops;
    return status;
}

static enum status
parse_caller(struct parser *parser, struct node **node)
{
    struct node *caller = parser_node(parser, NODE_CALLER);
    unsigned loops = parser->loops;
    enum status status = parser_step(parser);

    *node = caller;
    parser->loops = 0;
    if (status == STATUS_OK && parser_at(parser, TOKEN_OPERATOR, "("))
        status = parser_parameters(parser, &caller->first);
    if (status == STATUS_OK)
        status = parser_expression(parser, false, &caller->left);
    if (status == STATUS_OK && caller->left->kind != NODE_CALL)
        return template_fail(parser->err, caller->line,
                             "call needs a macro call");
    if (status == STATUS_OK)
        status = parse_block(parser, "endcall", &caller->body);
    parser->loops = loops;
    return status;
}

static enum status
parse_filtered(struct parser *parser, struct node **node)
{
    struct node *filtered = parser_node(parser, NODE_FILTERED);
    struct node *piped = parser_node(parser, NODE_PIPED);
    enum status status = parser_step(parser);

    *node = filtered;
    if (status == STATUS_OK)
        status = parser_filters(parser, piped, true, &filtered->left);
    return status == STATUS_OK
               ? parse_block(parser, "endfilter", &filtered->body)
               : status;
}

static enum status
parse_generation(struct parser *parser, struct node **node)
{
    enum status status = STATUS_OK;

    *node = parser_node(parser, NODE_GROUP);
    status = parser_step(parser);
    return status == STATUS_OK
               ? parse_block(parser, "endgeneration", &(*node)->body)
               : status;
}

static enum status
parse_jump(struct parser *parser, struct node **node)
{
    *node = parser_node(parser, parser_at(parser, TOKEN_NAME, "break")
                                    ? NODE_BREAK
                                    : NODE_CONTINUE);
    if (parser->loops == 0)
        return template_fail(parser->err, (*node)->line,
                             "break or continue outside of a loop");
    return finish_tag(parser);
}

static const struct {
    const char *name;
    statement_parser *parse;
} statements[] = {
    {"if", parse_if},
    {"for", parse_for},
    {"set", parse_set},
    {"macro", parse_macro},
    {"call", parse_caller},
    {"filter", parse_filtered},
    {"generation", parse_generation},
    {"break", parse_jump},
    {"continue", parse_jump},
};

/* The statement whose name is at the parser. */
static enum status
parse_statement(struct parser *parser, struct node **node)
{
    for (size_t i = 0; i < COUNT_OF(statements); i++) {
        if (parser_at(parser, TOKEN_NAME, statements[i].name))
            return statements[i].parse(parser, node);
    }
    return parser_refuse(parser, "a known statement");
}

static enum status
parse_output(struct parser *parser, struct node **node)
{
    enum status status = STATUS_OK;

    *node = parser_node(parser, NODE_OUTPUT);
    if (parser_at(parser, TOKEN_DATA, NULL)) {
        (*node)->left = parser_node(parser, NODE_LITERAL);
        (*node)->left->literal = value_text(parser->now.text);
        return parser_step(parser);
    }
    status = parser_step(parser);
    if (status == STATUS_OK)
        status = parser_expression(parser, true, &(*node)->left);
    return status == STATUS_OK ? parser_expect(parser, TOKEN_CLOSE_PRINT, NULL)
                               : status;
}

static bool
at_any(const struct parser *parser, const char *const *names)
{
    for (; *names != NULL; names++) {
        if (parser_at(parser, TOKEN_NAME, *names))
            return true;
    }
    return false;
}

/* Statements up to a tag named in @ends, on whose name the parser then is; to
 * the end of the text when @ends is NULL. */
static enum status
parse_body(struct parser *parser, const char *const *ends, struct node **first)
{
    enum status status = parser_enter(parser);

    while (status == STATUS_OK) {
        if (parser_at(parser, TOKEN_END, NULL)) {
            if (ends != NULL)
                status = parser_refuse(parser, ends[0]);
            break;
        }
        if (parser_at(parser, TOKEN_OPEN_BLOCK, NULL)) {
            status = parser_step(parser);
            if (status == STATUS_OK && ends != NULL && at_any(parser, ends))
                break;
            if (status == STATUS_OK)
                status = parse_statement(parser, first);
        } else {
            status = parse_output(parser, first);
        }
        if (status == STATUS_OK)
            first = &(*first)->next;
    }
    parser->nesting--;
    return status;
}

enum status
template_tree_parse(struct arena *arena, struct text source, struct node **body,
                    struct error *err)
{
    struct parser parser = {.err = err};
    enum status status = STATUS_OK;

    lexer_init(&parser.lexer, arena, source, err);
    status = parser_step(&parser);
    if (status == STATUS_OK)
        status = parser_step(&parser);
    if (status == STATUS_OK)
        status = parse_body(&parser, NULL, body);
    return status;
}
