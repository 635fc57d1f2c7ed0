/* wire_fuzz.c - frames of the link: what is decoded encodes to a frame that
 * decodes to the same. */
#include "common/wire.h"

#include <assert.h>
#include <string.h>

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A message takes some 300 KiB, so these are not on the stack. */
static struct wire_message message, again;

static const void *
body(const struct wire_message *from)
{
    return &from->hello; /* members of a union share their address */
}

/* An encoded message may be larger than the text it came from, where numbers
 * and escapes were short; then it is refused and nothing is left behind. */
static void
check_encoding(void)
{
    struct buf first, second;
    struct error err = {0};

    buf_init(&first, 2 * WIRE_FRAME_MAX_BYTES);
    buf_init(&second, 2 * WIRE_FRAME_MAX_BYTES);
    if (wire_encode(message.type, body(&message), &first, &err) == STATUS_OK) {
        size_t size = first.size - WIRE_HEAD_BYTES;

        assert(wire_head_size((const uint8_t *)first.data) == size);
        assert(size <= WIRE_FRAME_MAX_BYTES);
        assert(wire_decode(first.data + WIRE_HEAD_BYTES, size, &again, &err) ==
               STATUS_OK);
        assert(again.type == message.type);
        assert(wire_encode(again.type, body(&again), &second, &err) ==
               STATUS_OK);
        assert(first.size == second.size &&
               memcmp(first.data, second.data, first.size) == 0);
    } else {
        assert(first.size == 0);
    }
    buf_clear(&first);
    buf_clear(&second);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = {0};
    enum status status = wire_decode((const char *)data, size, &message, &err);

    assert(status == STATUS_OK || err.text[0] != '\0');
    if (status == STATUS_OK) {
        assert(size <= WIRE_FRAME_MAX_BYTES);
        assert((unsigned)message.type < WIRE_TYPE_COUNT);
        check_encoding();
    }
    return 0;
}
