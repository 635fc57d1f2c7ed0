/* template_run.h - one rendering of a chat template; private to model/.
 *
 * Bounded in steps, memory and depth: a template comes from strangers. */
#ifndef BERTH_MODEL_TEMPLATE_RUN_H
#define BERTH_MODEL_TEMPLATE_RUN_H

#include "model/template.h"
#include "model/template_tree.h"

enum {
    RUN_MEMORY_MAX_BYTES = 256 * 1024 * 1024,
    RUN_DEPTH_MAX = 384, /* of nodes in nodes, macros included */
    RUN_ARGUMENTS_MAX = 16,
};

struct variable {
    struct variable *next;
    struct text name;
    struct value value;
};

struct scope {
    struct scope *parent;
    struct variable *first;
};

enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE };

struct run {
    struct arena arena;
    struct scope *scope;
    struct buf *out;
    uint64_t steps;
    unsigned depth;
    unsigned loop_depth;
    enum flow flow;
    const struct macro *caller; /* of the macro that runs */
    struct value piped;         /* text of a block on its way to filters */
    struct error *err;
};

/* What a filter, test, method or function is called with. */
struct arguments {
    uint32_t line;
    struct text name;  /* of what is called */
    struct value self; /* what it is applied to */
    size_t count;
    struct value values[RUN_ARGUMENTS_MAX];
    struct text names[RUN_ARGUMENTS_MAX]; /* "" when given by place */
};

/* The argument at a place (from 0) or of that name; NULL when not given. */
const struct value *argument(const struct arguments *arguments, size_t place,
                             const char *name);
/* The same as a whole number, or @fallback. */
int64_t argument_integer(const struct arguments *arguments, size_t place,
                         const char *name, int64_t fallback);
/* The same as a text, or @fallback. */
struct text argument_text(const struct arguments *arguments, size_t place,
                          const char *name, struct text fallback);
bool argument_is_true(const struct arguments *arguments, size_t place,
                      const char *name);

enum status run_fail(struct run *run, uint32_t line, const char *format, ...)
    PRINTF_LIKE(3, 4);
enum status run_fail_undefined(struct run *run, uint32_t line,
                               const struct value *value);
/* Count @steps steps at @line; fails when the rendering has used too much. */
MUST_CHECK enum status run_charge(struct run *run, uint32_t line,
                                  uint64_t steps);

struct value run_lookup(struct run *run, struct text name);
void run_assign(struct run *run, struct text name, struct value value);

/* Expressions. */
MUST_CHECK enum status run_eval(struct run *run, const struct node *node,
                                struct value *value);
MUST_CHECK enum status run_arguments(struct run *run, const struct node *node,
                                     struct arguments *arguments);
/* The attribute or item of @object that is called by @key; undefined when
 * there is none. */
MUST_CHECK enum status run_item(struct run *run, uint32_t line,
                                const struct value *object,
                                const struct value *key, struct value *value);
/* What a loop over @value sees, as a list. */
MUST_CHECK enum status run_items(struct run *run, uint32_t line,
                                 const struct value *value,
                                 struct list **items);
MUST_CHECK enum status run_contains(struct run *run, uint32_t line,
                                    const struct value *container,
                                    const struct value *item, bool *contains);
/* str() of a value as a value. */
MUST_CHECK enum status run_text(struct run *run, uint32_t line,
                                const struct value *value, struct text *text);
/* The bytes of @buf, which is cleared, as a text value. */
MUST_CHECK enum status run_take(struct run *run, uint32_t line, struct buf *buf,
                                struct value *value);
void run_buf(struct buf *buf);

/* NODE_BINARY, NODE_COMPARE, NODE_SLICE. */
MUST_CHECK enum status run_binary(struct run *run, const struct node *node,
                                  struct value *value);
MUST_CHECK enum status run_compare(struct run *run, const struct node *node,
                                   struct value *value);
MUST_CHECK enum status run_slice(struct run *run, const struct node *node,
                                 struct value *value);

/* Statements. */
MUST_CHECK enum status run_body(struct run *run, const struct node *first);
MUST_CHECK enum status run_macro(struct run *run, const struct macro *macro,
                                 const struct arguments *arguments,
                                 struct value *value);

/* What is called by name. */
MUST_CHECK enum status run_filter(struct run *run,
                                  const struct arguments *arguments,
                                  struct value *value);
MUST_CHECK enum status run_test(struct run *run,
                                const struct arguments *arguments,
                                bool *passes);
MUST_CHECK enum status run_method(struct run *run,
                                  const struct arguments *arguments,
                                  struct value *value);
MUST_CHECK enum status run_function(struct run *run,
                                    const struct arguments *arguments,
                                    struct value *value);
bool template_function_is_known(struct text name);

typedef enum status filter(struct run *run, const struct arguments *arguments,
                           struct value *value);

struct filter_entry {
    const char *name; /* NULL ends a table */
    filter *filter;
};

/* Filters of sequences. */
extern const struct filter_entry template_sequence_filters[];

/* Shared by filters and methods. */
enum side { SIDE_LEFT = 1, SIDE_RIGHT = 2, SIDE_BOTH = 3 };
struct text text_strip(struct text text, const struct text *characters,
                       enum side side, uint64_t *steps);
enum letter_case {
    CASE_UPPER,
    CASE_LOWER,
    CASE_TITLE,   /* after anything that is no letter: str.title() */
    CASE_WORDS,   /* after blanks, "-" and opening brackets: the filter */
    CASE_CAPITAL, /* the first character alone */
};
void text_recase(struct text text, enum letter_case to, struct buf *out);
/* Replace up to @count (negative: all) occurrences. */
void text_replace(struct text text, struct text old, struct text new,
                  int64_t count, uint64_t *steps, struct buf *out);

#endif
