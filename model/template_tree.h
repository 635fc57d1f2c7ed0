/* template_tree.h - a parsed chat template; private to model/. */
#ifndef BERTH_MODEL_TEMPLATE_TREE_H
#define BERTH_MODEL_TEMPLATE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/error.h"
#include "model/template_value.h"

enum {
    TEMPLATE_NEST_MAX = 100, /* of brackets, and of blocks in blocks */
    TEMPLATE_DEPTH_MAX = 128 /* of an expression's tree */
};

enum node_kind {
    /* expressions */
    NODE_LITERAL,
    NODE_NAME,
    NODE_LIST, /* items: first */
    NODE_MAP,  /* keys and values in turn: first */
    NODE_NOT,
    NODE_MINUS,
    NODE_PLUS,
    NODE_BINARY,  /* left op right */
    NODE_COMPARE, /* left, then a chain of NODE_COMPARE in first: op, right */
    NODE_AND,
    NODE_OR,
    NODE_CHOICE,    /* left if test else right */
    NODE_ATTRIBUTE, /* left.name */
    NODE_SUBSCRIPT, /* left[right] */
    NODE_SLICE,     /* left[right:test:third] */
    NODE_CALL,      /* left(first) */
    NODE_FILTER,    /* left | name(first) */
    NODE_TEST,      /* left is name(first), negated: is not */
    NODE_KEYWORD,   /* an argument name=left */
    /* statements */
    NODE_OUTPUT,   /* left */
    NODE_IF,       /* branches: first, each NODE_BRANCH */
    NODE_BRANCH,   /* test (NULL: else), body */
    NODE_FOR,      /* targets: first; in left, if test; body, otherwise */
    NODE_SET,      /* targets: first = left, or the block body piped: left */
    NODE_MACRO,    /* name, parameters: first (default: left), body */
    NODE_CALLER,   /* call: left, parameters: first, body */
    NODE_FILTERED, /* filter block: the text of body through left */
    NODE_PIPED,    /* where the text of a block enters its filters */
    NODE_GROUP,    /* body alone: {% generation %} */
    NODE_BREAK,
    NODE_CONTINUE,
};

enum op {
    OP_ADD,
    OP_SUBTRACT,
    OP_MULTIPLY,
    OP_DIVIDE,
    OP_DIVIDE_FLOOR,
    OP_MODULO,
    OP_POWER,
    OP_CONCAT,
    OP_EQUAL,
    OP_NOT_EQUAL,
    OP_LESS,
    OP_LESS_EQUAL,
    OP_GREATER,
    OP_GREATER_EQUAL,
    OP_IN,
    OP_NOT_IN,
};

struct node {
    enum node_kind kind;
    enum op op;
    uint32_t line;
    uint32_t depth; /* of the tree below, for expressions */
    bool negated;   /* is not; NODE_SET: of a block; NODE_LIST: a tuple */
    struct text name;
    struct value literal;
    struct node *left;
    struct node *right;
    struct node *test;
    struct node *third;
    struct node *first;     /* of a list: arguments, items, targets */
    struct node *body;      /* statements */
    struct node *otherwise; /* {% else %} of a loop */
    struct node *next;      /* in the list it belongs to */
};

/* What a macro is when it is called. */
struct macro {
    const struct node *node;    /* NODE_MACRO or NODE_CALLER */
    struct scope *scope;        /* its variables' surroundings */
    const struct macro *caller; /* NODE_CALLER: that of the surroundings */
};

struct template
{
    struct arena arena; /* of the tree; texts of it too */
    struct text source;
    struct node *body;
    struct text bos_token;
    struct text eos_token;
    bool has_bos;
    bool has_eos;
};

/* Parse @source (kept in the arena by the caller) into a list of statements. */
MUST_CHECK enum status template_tree_parse(struct arena *arena,
                                           struct text source,
                                           struct node **body,
                                           struct error *err);

/* "chat template, line N: ..." and STATUS_INVALID. */
enum status template_fail(struct error *err, uint32_t line, const char *format,
                          ...) PRINTF_LIKE(3, 4);

/* Are filter and test known?  The parser asks, so that a template that needs
 * more than we have is refused when it is read. */
bool template_filter_is_known(struct text name);
bool template_test_is_known(struct text name);

#endif
