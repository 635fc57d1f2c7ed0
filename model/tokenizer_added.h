/* tokenizer_added.h - added tokens: texts that become one id before anything
 * else looks at them; private to model/.
 *
 * As Hugging Face's tokenizers do it: the leftmost match counts, the longest
 * among those; tokens marked normalized are looked for after normalising, the
 * others before. */
#ifndef BERTH_MODEL_TOKENIZER_ADDED_H
#define BERTH_MODEL_TOKENIZER_ADDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/error.h"
#include "common/json.h"
#include "model/tokenizer_normal.h"

struct added_token {
    uint32_t id;
    char *text;
    size_t size;
    bool special;
    bool strips_left;  /* takes the blanks before it */
    bool strips_right; /* and after it */
    bool single_word;
    bool normalised;
};

struct trie {
    struct trie_node *nodes;
    size_t node_count;
    size_t node_capacity;
};

struct added_tokens {
    struct added_token *tokens;
    size_t count;
    struct trie raw;
    struct trie normalised;
};

struct added_match {
    const struct added_token *token;
    size_t begin;
    size_t end;
};

/* Read the list "added_tokens"; it may be absent. */
MUST_CHECK enum status added_tokens_read(const struct json *list,
                                         const struct normaliser *normaliser,
                                         struct added_tokens *added,
                                         struct error *err);
void added_tokens_clear(struct added_tokens *added);

/* The next match of @trie (one of @added's) at or after @from; false when none
 * is left.  Special tokens are passed over as plain text unless @specials. */
bool added_tokens_next(const struct added_tokens *added,
                       const struct trie *trie, const char *text, size_t size,
                       size_t from, bool specials, struct added_match *match);

#endif
