/* tokenizer_fuzz.c - a tokenizer.json that may be anything and, after a NUL, a
 * text for it; and any text with the demo model's tokenizer, whose ids must
 * give the text back. */
#include "model/tokenizer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/banned.h"

enum { BYTES_MAX = 64 * 1024 * 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Encode; every id is known, and @exact says that they give the text back. */
static void
check_encoding(const struct tokenizer *tokenizer, const char *text, size_t size,
               bool specials, bool exact)
{
    struct token_ids ids = {0};
    struct error err = {0};
    struct buf bytes;

    if (tokenizer_encode(tokenizer, text, size, specials, &ids, &err) !=
        STATUS_OK) {
        assert(err.text[0] != '\0');
        assert(ids.ids == NULL);
        return;
    }
    buf_init(&bytes, BYTES_MAX);
    for (size_t i = 0; i < ids.count; i++) {
        bool known = tokenizer_append(tokenizer, ids.ids[i], true, &bytes);

        assert(known);
        assert(specials || !tokenizer_is_special(tokenizer, ids.ids[i]));
    }
    if (exact) {
        assert(bytes.size == size);
        assert(memcmp(bytes.data, text, size) == 0);
    }
    buf_clear(&bytes);
    free(ids.ids);
}

static void
check_demo(const char *text, size_t size)
{
    static struct tokenizer *demo;

    if (demo == NULL) {
        enum status status =
            tokenizer_read("tests/models/tiny-chat", &demo, NULL);
        assert(status == STATUS_OK);
    }
    check_encoding(demo, text, size, true, true);
    check_encoding(demo, text, size, false, true);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *nul = size == 0 ? NULL : memchr(data, '\0', size);
    size_t json_size = nul == NULL ? size : (size_t)(nul - data);
    const char *text =
        nul == NULL ? "Hello <|im_end|> 12\n" : (const char *)nul + 1;
    size_t text_size = nul == NULL ? strlen(text) : size - json_size - 1;
    struct tokenizer *tokenizer = NULL;
    struct error err = {0};

    check_demo((const char *)data, size);
    if (tokenizer_parse((const char *)data, json_size, &tokenizer, &err) !=
        STATUS_OK) {
        assert(err.text[0] != '\0');
        assert(tokenizer == NULL);
        return 0;
    }
    check_encoding(tokenizer, text, text_size, true, false);
    check_encoding(tokenizer, text, text_size, false, false);
    tokenizer_free(tokenizer);
    return 0;
}
