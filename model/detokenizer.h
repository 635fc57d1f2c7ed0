/* detokenizer.h - ids to text as they come, never cutting a character.
 *
 * Bytes that do not yet make a whole UTF-8 character are kept back; bytes that
 * can never make one become U+FFFD, as a decoder of the whole would write. */
#ifndef BERTH_MODEL_DETOKENIZER_H
#define BERTH_MODEL_DETOKENIZER_H

#include "common/buf.h"
#include "model/tokenizer.h"

struct detokenizer {
    const struct tokenizer *tokenizer; /* kept */
    struct buf pending;                /* an unfinished character */
};

void detokenizer_init(struct detokenizer *state,
                      const struct tokenizer *tokenizer);
void detokenizer_clear(struct detokenizer *state);
/* Append the text that @id completes. */
void detokenizer_push(struct detokenizer *state, uint32_t id, struct buf *out);
/* Nothing more comes: append U+FFFD for what is left. */
void detokenizer_finish(struct detokenizer *state, struct buf *out);

#endif
