/* detokenizer.c - ids to text as they come.
 *
 * Invalid bytes are replaced as the Unicode Standard recommends (maximal
 * subpart, chapter 3, U+FFFD substitution), which is what decoders of whole
 * texts do; so the pieces joined equal the decoding of the whole. */
#include "model/detokenizer.h"

#include <string.h>

#include "common/banned.h"

enum { PENDING_MAX_BYTES = 64 * 1024 };

static const char replacement[] = "\xef\xbf\xbd";

/* What the bytes at the front of a text are. */
enum front { FRONT_WHOLE, FRONT_UNFINISHED, FRONT_BROKEN };

/* How many bytes a character takes that begins with @lead, and the range of
 * its second byte (Unicode Standard, table 3-7); 0 when none begins so. */
static size_t
sequence(uint8_t lead, uint8_t *low, uint8_t *high)
{
    *low = 0x80;
    *high = 0xbf;
    if (lead < 0x80)
        return 1;
    if (lead < 0xc2 || lead > 0xf4)
        return 0;
    if (lead < 0xe0)
        return 2;
    if (lead == 0xe0)
        *low = 0xa0;
    else if (lead == 0xed)
        *high = 0x9f;
    else if (lead == 0xf0)
        *low = 0x90;
    else if (lead == 0xf4)
        *high = 0x8f;
    return lead < 0xf0 ? 3 : 4;
}

/* Look at the first character; @size of it is what is whole, may be continued
 * or is to be replaced. */
static enum front
look(const uint8_t *bytes, size_t count, size_t *size)
{
    uint8_t low = 0;
    uint8_t high = 0;
    size_t need = sequence(bytes[0], &low, &high);

    *size = 1;
    if (need == 0)
        return FRONT_BROKEN;
    for (; *size < need; (*size)++) {
        if (*size == count)
            return FRONT_UNFINISHED;
        if (bytes[*size] < low || bytes[*size] > high)
            return FRONT_BROKEN;
        low = 0x80;
        high = 0xbf;
    }
    return FRONT_WHOLE;
}

void
detokenizer_init(struct detokenizer *state, const struct tokenizer *tokenizer)
{
    state->tokenizer = tokenizer;
    buf_init(&state->pending, PENDING_MAX_BYTES);
}

void
detokenizer_clear(struct detokenizer *state)
{
    buf_clear(&state->pending);
}

void
detokenizer_push(struct detokenizer *state, uint32_t id, struct buf *out)
{
    struct buf *pending = &state->pending;
    size_t at = 0;

    (void)tokenizer_append(state->tokenizer, id, false, pending);
    while (at < pending->size) {
        const uint8_t *bytes = (const uint8_t *)pending->data + at;
        size_t size = 0;
        enum front front = look(bytes, pending->size - at, &size);

        if (front == FRONT_UNFINISHED)
            break;
        if (front == FRONT_WHOLE)
            buf_append(out, bytes, size);
        else
            buf_append_text(out, replacement);
        at += size;
    }
    buf_drop_front(pending, at);
}

void
detokenizer_finish(struct detokenizer *state, struct buf *out)
{
    /* Three bytes at most, the front of one character. */
    if (state->pending.size > 0)
        buf_append_text(out, replacement);
    buf_reset(&state->pending);
}
