/* tokenizer.c - a tokenizer.json put together: added tokens, normalisation,
 * pre-tokenizer patterns, byte-pair encoding.
 *
 * "post_processor" is not applied (nor are "truncation" and "padding"): what it
 * adds, a first token mostly, is in rendered chat templates already. */
#include "model/tokenizer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "common/json.h"
#include "common/mem.h"
#include "model/catalogue.h"
#include "model/file.h"
#include "model/tokenizer_added.h"
#include "model/tokenizer_bpe.h"
#include "model/tokenizer_normal.h"
#include "model/tokenizer_pattern.h"

#include "common/banned.h"

/* NFKD makes one character of three bytes 33 bytes at most. */
enum { NORMAL_GROWTH = 11 };

struct tokenizer {
    struct bpe *bpe;
    struct splitter *splitter;
    struct normaliser normaliser;
    struct added_tokens added;
    /* By id: index into added.tokens, or NOT_ADDED. */
    uint32_t *added_by_id;
    size_t id_limit;
};

#define NOT_ADDED UINT32_MAX

/* --- reading --------------------------------------------------------------*/

static enum status
check_decoder(const struct json *decoder, struct error *err)
{
    size_t size = 0;
    const char *type = json_as_text(json_get(decoder, "type"), &size);

    if (json_is_null(decoder) ||
        (type != NULL && strcmp(type, "ByteLevel") == 0))
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "tokenizer.json: decoder: type %.32s is not supported",
                     type == NULL ? "(none)" : type);
}

static void
index_ids(struct tokenizer *tokenizer)
{
    const struct added_tokens *added = &tokenizer->added;

    tokenizer->id_limit = bpe_id_limit(tokenizer->bpe);
    for (size_t i = 0; i < added->count; i++) {
        if (added->tokens[i].id >= tokenizer->id_limit)
            tokenizer->id_limit = (size_t)added->tokens[i].id + 1;
    }
    tokenizer->added_by_id =
        mem_array(tokenizer->id_limit, sizeof(tokenizer->added_by_id[0]));
    for (size_t i = 0; i < tokenizer->id_limit; i++)
        tokenizer->added_by_id[i] = NOT_ADDED;
    for (size_t i = 0; i < added->count; i++)
        tokenizer->added_by_id[added->tokens[i].id] = (uint32_t)i;
}

static enum status
read_parts(struct tokenizer *tokenizer, const struct json *root,
           struct error *err)
{
    enum status status = check_decoder(json_get(root, "decoder"), err);

    if (status == STATUS_OK)
        status = bpe_read(json_get(root, "model"), &tokenizer->bpe, err);
    if (status == STATUS_OK)
        status = splitter_read(json_get(root, "pre_tokenizer"),
                               &tokenizer->splitter, err);
    if (status == STATUS_OK)
        status = normaliser_read(json_get(root, "normalizer"),
                                 &tokenizer->normaliser, err);
    if (status == STATUS_OK)
        status =
            added_tokens_read(json_get(root, "added_tokens"),
                              &tokenizer->normaliser, &tokenizer->added, err);
    if (status == STATUS_OK)
        index_ids(tokenizer);
    return status;
}

enum status
tokenizer_parse(const char *json, size_t size, struct tokenizer **tokenizer,
                struct error *err)
{
    struct tokenizer *read = mem_alloc(sizeof(*read));
    struct error inner = {0};
    struct json_doc doc = {0};
    enum status status = json_doc_parse(json, size, &doc, &inner);

    if (status == STATUS_OK)
        status = read_parts(read, doc.root, err);
    else
        status = error_set(err, STATUS_INVALID,
                           "tokenizer.json: no JSON (%.300s)", inner.text);
    if (status != STATUS_OK)
        error_advise(err, "download the file again, or choose another model");
    json_doc_clear(&doc);
    if (status == STATUS_OK)
        *tokenizer = read;
    else
        tokenizer_free(read);
    return status;
}

enum status
tokenizer_read(const char *directory, struct tokenizer **tokenizer,
               struct error *err)
{
    struct buf text;
    enum status status = STATUS_OK;

    buf_init(&text, CATALOGUE_TOKENIZER_MAX_BYTES);
    status = model_file_read(directory, "tokenizer.json", &text, err);
    if (status == STATUS_OK)
        status = tokenizer_parse(text.data, text.size, tokenizer, err);
    buf_clear(&text);
    return status;
}

void
tokenizer_free(struct tokenizer *tokenizer)
{
    if (tokenizer == NULL)
        return;
    bpe_free(tokenizer->bpe);
    splitter_free(tokenizer->splitter);
    added_tokens_clear(&tokenizer->added);
    free(tokenizer->added_by_id);
    free(tokenizer);
}

/* --- encoding -------------------------------------------------------------*/

struct encoding {
    const struct tokenizer *tokenizer;
    struct splitter_run *run;
    struct bpe_scratch scratch;
    struct id_list ids;
    bool specials;
    struct error *err;
};

static void
on_piece(void *arg, const char *piece, size_t size)
{
    struct encoding *encoding = arg;

    bpe_encode(encoding->tokenizer->bpe, &encoding->scratch, piece, size,
               &encoding->ids);
}

typedef enum status segment_encoder(struct encoding *encoding, const char *text,
                                    size_t size);

/* Text without added tokens. */
static enum status
encode_plain(struct encoding *encoding, const char *text, size_t size)
{
    return splitter_split(encoding->tokenizer->splitter, encoding->run, text,
                          size, on_piece, encoding, encoding->err);
}

/* The ids of the tokens in @trie, and of what lies between by @between. */
static enum status
encode_around(struct encoding *encoding, const struct trie *trie,
              const char *text, size_t size, segment_encoder *between)
{
    const struct added_tokens *added = &encoding->tokenizer->added;
    struct added_match match;
    enum status status = STATUS_OK;
    size_t at = 0;

    while (status == STATUS_OK &&
           added_tokens_next(added, trie, text, size, at, encoding->specials,
                             &match)) {
        status = between(encoding, text + at, match.begin - at);
        id_list_add(&encoding->ids, match.token->id);
        at = match.end;
    }
    if (status == STATUS_OK)
        status = between(encoding, text + at, size - at);
    return status;
}

static enum status
encode_normalised(struct encoding *encoding, const char *text, size_t size)
{
    const struct tokenizer *tokenizer = encoding->tokenizer;
    const struct trie *trie = &tokenizer->added.normalised;
    struct buf normal;
    enum status status = STATUS_OK;

    if (normaliser_leaves(&tokenizer->normaliser, text, size))
        return encode_around(encoding, trie, text, size, encode_plain);
    buf_init(&normal, (size_t)TOKENIZER_TEXT_MAX_BYTES * NORMAL_GROWTH);
    normaliser_apply(&tokenizer->normaliser, text, size, &normal);
    status = buf_status(&normal, encoding->err);
    if (status == STATUS_OK)
        status = encode_around(encoding, trie, normal.data, normal.size,
                               encode_plain);
    buf_clear(&normal);
    return status;
}

static bool
is_utf8(const char *text, size_t size)
{
    for (size_t at = 0; at < size;) {
        utf8proc_int32_t point = 0;
        utf8proc_ssize_t step =
            utf8proc_iterate((const utf8proc_uint8_t *)text + at,
                             (utf8proc_ssize_t)(size - at), &point);

        if (step <= 0)
            return false;
        at += (size_t)step;
    }
    return true;
}

enum status
tokenizer_encode(const struct tokenizer *tokenizer, const char *text,
                 size_t size, bool specials, struct token_ids *out,
                 struct error *err)
{
    struct encoding encoding = {
        .tokenizer = tokenizer, .specials = specials, .err = err};
    enum status status = STATUS_OK;

    if (size > TOKENIZER_TEXT_MAX_BYTES)
        return error_set(err, STATUS_TOO_LARGE,
                         "text of %zu bytes, and at most %d can be tokenised: "
                         "shorten it",
                         size, TOKENIZER_TEXT_MAX_BYTES);
    if (!is_utf8(text, size))
        return error_set(err, STATUS_INVALID, "text is not UTF-8: convert it");
    encoding.run = splitter_run_new();
    status = encode_around(&encoding, &tokenizer->added.raw, text, size,
                           encode_normalised);
    splitter_run_free(encoding.run);
    bpe_scratch_clear(&encoding.scratch);
    if (status == STATUS_OK) {
        out->ids = encoding.ids.ids != NULL ? encoding.ids.ids : mem_alloc(0);
        out->count = encoding.ids.count;
    } else {
        free(encoding.ids.ids);
    }
    return status;
}

/* --- decoding -------------------------------------------------------------*/

static const struct added_token *
find_added(const struct tokenizer *tokenizer, uint32_t id)
{
    if (id >= tokenizer->id_limit || tokenizer->added_by_id[id] == NOT_ADDED)
        return NULL;
    return &tokenizer->added.tokens[tokenizer->added_by_id[id]];
}

bool
tokenizer_append(const struct tokenizer *tokenizer, uint32_t id, bool specials,
                 struct buf *out)
{
    const struct added_token *token = find_added(tokenizer, id);
    size_t size = 0;
    const char *bytes = NULL;

    if (token != NULL) {
        if (!token->special || specials)
            buf_append(out, token->text, token->size);
        return true;
    }
    bytes = bpe_bytes(tokenizer->bpe, id, &size);
    if (bytes == NULL)
        return false;
    buf_append(out, bytes, size);
    return true;
}

bool
tokenizer_is_special(const struct tokenizer *tokenizer, uint32_t id)
{
    const struct added_token *token = find_added(tokenizer, id);

    return token != NULL && token->special;
}

bool
tokenizer_find(const struct tokenizer *tokenizer, const char *text,
               uint32_t *id)
{
    for (size_t i = 0; i < tokenizer->added.count; i++) {
        if (strcmp(tokenizer->added.tokens[i].text, text) == 0) {
            *id = tokenizer->added.tokens[i].id;
            return true;
        }
    }
    return false;
}

size_t
tokenizer_vocabulary(const struct tokenizer *tokenizer)
{
    return tokenizer->id_limit;
}
