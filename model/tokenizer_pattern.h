/* tokenizer_pattern.h - the pre-tokenizer of a tokenizer.json: text to the
 * pieces that are encoded each by itself; private to model/.
 *
 * Knows Split, Digits and ByteLevel, alone or in a Sequence that ends with
 * ByteLevel.  Immutable after it was read. */
#ifndef BERTH_MODEL_TOKENIZER_PATTERN_H
#define BERTH_MODEL_TOKENIZER_PATTERN_H

#include <stddef.h>

#include "common/attrs.h"
#include "common/error.h"
#include "common/json.h"

struct splitter;
/* What one call of an encoding needs to match; not shared between threads. */
struct splitter_run;

typedef void piece_taker(void *arg, const char *piece, size_t size);

MUST_CHECK enum status splitter_read(const struct json *pre_tokenizer,
                                     struct splitter **splitter,
                                     struct error *err);
void splitter_free(struct splitter *splitter);

struct splitter_run *splitter_run_new(void);
void splitter_run_free(struct splitter_run *run);

/* Hand every piece of @text, which must be UTF-8, to @on_piece in order. */
MUST_CHECK enum status splitter_split(const struct splitter *splitter,
                                      struct splitter_run *run,
                                      const char *text, size_t size,
                                      piece_taker *on_piece, void *arg,
                                      struct error *err);

#endif
