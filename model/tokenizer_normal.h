/* tokenizer_normal.h - Unicode normalisation forms; private to model/. */
#ifndef BERTH_MODEL_TOKENIZER_NORMAL_H
#define BERTH_MODEL_TOKENIZER_NORMAL_H

#include <stdbool.h>
#include <stddef.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "common/error.h"
#include "common/json.h"

enum { NORMAL_FORMS_MAX = 8 };

/* The forms to apply, in order; none leaves text as it is. */
struct normaliser {
    int forms[NORMAL_FORMS_MAX]; /* utf8proc options */
    size_t form_count;
};

/* Read "normalizer" of a tokenizer.json: null, NFC, NFD, NFKC, NFKD or a
 * Sequence of them. */
MUST_CHECK enum status normaliser_read(const struct json *value,
                                       struct normaliser *normaliser,
                                       struct error *err);
/* Does it leave this text as it is, as a quick look can tell? */
bool normaliser_leaves(const struct normaliser *normaliser, const char *text,
                       size_t size);
/* Append the normal form of UTF-8 @text.  Linear in its size. */
void normaliser_apply(const struct normaliser *normaliser, const char *text,
                      size_t size, struct buf *out);

#endif
