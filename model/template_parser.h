/* template_parser.h - what the two halves of the template parser share;
 * private to model/. */
#ifndef BERTH_MODEL_TEMPLATE_PARSER_H
#define BERTH_MODEL_TEMPLATE_PARSER_H

#include "model/template_lex.h"

struct parser {
    struct lexer lexer;
    struct template_token now;
    struct template_token ahead;
    unsigned nesting; /* of brackets and blocks being read */
    unsigned loops;   /* being read: break and continue need one */
    struct error *err;
};

MUST_CHECK enum status parser_step(struct parser *parser);
bool parser_at(const struct parser *parser, enum token_kind kind,
               const char *text);
bool parser_at_operator(const struct parser *parser, const char *text);
bool parser_at_name(const struct parser *parser, const char *text);
bool parser_token_is(const struct template_token *token, enum token_kind kind,
                     const char *text);
/* Step over a token that must be there. */
MUST_CHECK enum status parser_expect(struct parser *parser,
                                     enum token_kind kind, const char *text);
MUST_CHECK enum status parser_enter(struct parser *parser);
enum status parser_refuse(const struct parser *parser, const char *expected);
struct node *parser_node(struct parser *parser, enum node_kind kind);

/* Account for the depth of a part of @node. */
MUST_CHECK enum status parser_deepen(struct parser *parser, struct node *node,
                                     const struct node *part);

/* A literal, a name or something in brackets. */
MUST_CHECK enum status parser_primary(struct parser *parser,
                                      struct node **node);
/* Attributes, subscripts and calls after @node, which becomes the whole. */
MUST_CHECK enum status parser_postfix(struct parser *parser,
                                      struct node **node);
/* Filters and tests after it. */
MUST_CHECK enum status parser_filtered(struct parser *parser,
                                       struct node **node);
/* One expression; with @tuple also "a, b", which becomes a list. */
MUST_CHECK enum status parser_expression(struct parser *parser, bool tuple,
                                         struct node **node);
/* An expression without "if", what a loop runs over. */
MUST_CHECK enum status parser_iterable(struct parser *parser,
                                       struct node **node);
/* Filters after @base, "| a | b" or, at the first, "a | b". */
MUST_CHECK enum status parser_filters(struct parser *parser, struct node *base,
                                      bool first_bare, struct node **node);
/* A name, dotted names or (nested are refused) a list of names. */
MUST_CHECK enum status parser_targets(struct parser *parser, bool attributes,
                                      struct node **first);
/* "(a, b=1)" of a macro. */
MUST_CHECK enum status parser_parameters(struct parser *parser,
                                         struct node **first);

#endif
