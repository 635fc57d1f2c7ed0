/* template_lex.h - a chat template as tokens; private to model/. */
#ifndef BERTH_MODEL_TEMPLATE_LEX_H
#define BERTH_MODEL_TEMPLATE_LEX_H

#include "model/template_tree.h"

enum token_kind {
    TOKEN_END,
    TOKEN_DATA,        /* text outside of tags, blanks already stripped */
    TOKEN_OPEN_BLOCK,  /* {% */
    TOKEN_CLOSE_BLOCK, /* %} */
    TOKEN_OPEN_PRINT,  /* {{ */
    TOKEN_CLOSE_PRINT, /* }} */
    TOKEN_NAME,
    TOKEN_TEXT, /* a string, escapes resolved */
    TOKEN_INTEGER,
    TOKEN_REAL,
    TOKEN_OPERATOR, /* in text: "(", "==", ... */
};

struct template_token {
    enum token_kind kind;
    uint32_t line;
    struct text text;
    int64_t integer;
    double real;
};

/* Where a tag stands in the reading. */
enum lexer_place { PLACE_DATA, PLACE_BLOCK, PLACE_PRINT };

struct lexer {
    struct arena *arena;
    struct text source;
    size_t at;
    uint32_t line;
    enum lexer_place place;
    bool opened;       /* the data before a tag was given: the tag is next */
    bool line_start;   /* what was read last ended a line */
    unsigned brackets; /* open ones inside the tag */
    struct error *err;
};

void lexer_init(struct lexer *lexer, struct arena *arena, struct text source,
                struct error *err);
MUST_CHECK enum status lexer_next(struct lexer *lexer,
                                  struct template_token *token);

#endif
