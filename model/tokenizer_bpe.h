/* tokenizer_bpe.h - the vocabulary and the merges of a byte-level BPE model;
 * private to model/.
 *
 * Works on bytes throughout: the printable stand-ins that tokenizer.json
 * writes for bytes are resolved when it is read.  Immutable after that. */
#ifndef BERTH_MODEL_TOKENIZER_BPE_H
#define BERTH_MODEL_TOKENIZER_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/error.h"
#include "common/json.h"

enum { TOKENIZER_VOCABULARY_MAX = 1 << 22 };

/* Ids as they are found. */
struct id_list {
    uint32_t *ids;
    size_t count;
    size_t capacity;
};

void id_list_add(struct id_list *list, uint32_t id);

/* Memory of one encoding, used again from piece to piece. */
struct bpe_scratch {
    struct bpe_symbol *symbols;
    size_t symbol_capacity;
    uint64_t *heap; /* rank << 32 | index of the left symbol */
    size_t heap_count;
    size_t heap_capacity;
};

void bpe_scratch_clear(struct bpe_scratch *scratch);

struct bpe;

/* Read "model" of a tokenizer.json. */
MUST_CHECK enum status bpe_read(const struct json *model, struct bpe **bpe,
                                struct error *err);
void bpe_free(struct bpe *bpe);
/* One more than the highest id. */
size_t bpe_id_limit(const struct bpe *bpe);
/* The bytes of an id; NULL when the vocabulary has none. */
const char *bpe_bytes(const struct bpe *bpe, uint32_t id, size_t *size);
/* The ids of one piece of text, appended. n log n in its size. */
void bpe_encode(const struct bpe *bpe, struct bpe_scratch *scratch,
                const char *piece, size_t size, struct id_list *out);

#endif
