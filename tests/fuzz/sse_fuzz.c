/* sse_fuzz.c - server-sent events as the terminal reads them: cut anywhere,
 * the stream gives the same events.  The first byte says where it is cut. */
#include "cli/sse.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TEXT_MAX_BYTES = 16 * 1024 * 1024 };

static bool
on_event(void *arg, const struct cli_sse_event *event)
{
    struct buf *log = arg;

    assert(event->data[event->data_size] == '\0');
    buf_append_text(log, event->name);
    buf_append_text(log, event->id);
    buf_append(log, event->data, event->data_size);
    buf_append_char(log, '\n');
    return true;
}

/* The events of @bytes, given in pieces of @piece, as one text. */
static void
read_events(const char *bytes, size_t size, size_t piece, struct buf *log)
{
    struct cli_sse sse;
    struct error err = {0};

    buf_init(log, TEXT_MAX_BYTES);
    cli_sse_init(&sse, on_event, log);
    for (size_t i = 0; i < size; i += piece)
        assert(cli_sse_push(&sse, bytes + i,
                            size - i < piece ? size - i : piece,
                            &err) == STATUS_OK);
    cli_sse_clear(&sse);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf whole, pieces;

    if (size < 2)
        return 0;
    read_events((const char *)data + 1, size - 1, size, &whole);
    read_events((const char *)data + 1, size - 1, data[0] % 16 + 1, &pieces);
    assert(whole.size == pieces.size &&
           memcmp(whole.data, pieces.data, whole.size) == 0);
    buf_clear(&whole);
    buf_clear(&pieces);
    return 0;
}
