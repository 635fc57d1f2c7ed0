/* tokenizer.h - text to ids and ids to bytes, from a tokenizer.json
 * (byte-level BPE; the pre-tokenizer's patterns run on PCRE2).
 *
 * A tokenizer is immutable after it was read and may be used from several
 * threads at once.  What its file asks and we do not know is refused by name
 * when it is read, never guessed. */
#ifndef BERTH_MODEL_TOKENIZER_H
#define BERTH_MODEL_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "common/error.h"

enum { TOKENIZER_TEXT_MAX_BYTES = 8 * 1024 * 1024 };

struct tokenizer;

struct token_ids {
    uint32_t *ids; /* heap, free() */
    size_t count;
};

MUST_CHECK enum status tokenizer_parse(const char *json, size_t size,
                                       struct tokenizer **tokenizer,
                                       struct error *err);
/* tokenizer.json of a model directory. */
MUST_CHECK enum status tokenizer_read(const char *directory,
                                      struct tokenizer **tokenizer,
                                      struct error *err);
void tokenizer_free(struct tokenizer *tokenizer);

/* Ids of UTF-8 @text.  Added tokens (also special ones) found in the text
 * become their ids when @specials is true (rendered chat templates), else only
 * non-special added tokens do.  Text that is not UTF-8 is STATUS_INVALID. */
MUST_CHECK enum status tokenizer_encode(const struct tokenizer *tokenizer,
                                        const char *text, size_t size,
                                        bool specials, struct token_ids *out,
                                        struct error *err);

/* The bytes of one id, appended: possibly part of a character, empty for a
 * special token unless @specials.  False when the id is unknown. */
bool tokenizer_append(const struct tokenizer *tokenizer, uint32_t id,
                      bool specials, struct buf *out);
bool tokenizer_is_special(const struct tokenizer *tokenizer, uint32_t id);
/* Id of an added token by its exact text; false when there is none. */
bool tokenizer_find(const struct tokenizer *tokenizer, const char *text,
                    uint32_t *id);
size_t tokenizer_vocabulary(const struct tokenizer *tokenizer);

#endif
