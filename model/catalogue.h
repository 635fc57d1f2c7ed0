/* catalogue.h - a catalogue entry: what the network knows of a model, computed
 * from the files' own headers, never from what anybody claims.
 *
 * The digest names the exact files: SHA-256 over the lines
 *   "<sha256 hex of the file>  <file name>\n"
 * of config.json, generation_config.json (if there), tokenizer.json,
 * tokenizer_config.json (if there), chat_template.jinja (if there) and every
 * *.safetensors, sorted by name (what `sha256sum FILES | sha256sum` gives). */
#ifndef BERTH_MODEL_CATALOGUE_H
#define BERTH_MODEL_CATALOGUE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "common/cert.h"
#include "common/error.h"
#include "common/field.h"
#include "model/directory.h"

enum {
    CATALOGUE_ID_BYTES = 128,
    /* The largest tokenizer.json in use is about 33 MB (Gemma). */
    CATALOGUE_TOKENIZER_MAX_BYTES = 64 * 1024 * 1024,
    CATALOGUE_FILE_MAX_BYTES = 1024 * 1024,
};

struct catalogue_entry {
    char id[CATALOGUE_ID_BYTES]; /* letters, digits and . _ - / : */
    char digest[SHA256_HEX_BYTES];
    char architecture[32]; /* "qwen3", "llama" */
    char quantisation[32]; /* "bf16", "f16", "f32", "affine-4bit-g64", ... */
    uint64_t layers;
    uint64_t hidden;
    uint64_t heads;
    uint64_t kv_heads;
    uint64_t head_dim;
    uint64_t vocab;
    uint64_t context; /* tokens, prompt and answer together */
    uint64_t parameters;
    uint64_t weight_bytes;       /* resident: all tensors */
    uint64_t bytes_per_token;    /* weight bytes read for one decoded token */
    uint64_t kv_bytes_per_token; /* fp16 reference size: price and placement */
    uint64_t flop_per_token;     /* 2 x parameters that multiply (embedding
                                  * look-up not counted, output head counted) */
    uint64_t attention_flop;     /* `at` of the price: FLOP per token^2,
                                  * 2 x heads x head_dim x layers that look
                                  * back; a compressed cache counts its rows */
};

extern const struct field catalogue_fields[];
extern const size_t catalogue_field_count;

MUST_CHECK enum status
catalogue_entry_compute(const struct model_directory *dir, const char *id,
                        struct catalogue_entry *entry, struct error *err);
/* Digest of a model folder as described above; reads every byte. */
MUST_CHECK enum status catalogue_digest(const char *path,
                                        char digest[static SHA256_HEX_BYTES],
                                        struct error *err);
bool catalogue_id_is_valid(const char *id);

#endif
