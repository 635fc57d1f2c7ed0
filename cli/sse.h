/* sse.h - server-sent events out of bytes, however the bytes are cut.
 *
 * As the HTML standard reads them: lines end with LF, CR or CRLF; a line that
 * starts with a colon is a comment; several data lines join with LF; an event
 * counts only at its blank line, so a last one cut off is dropped. */
#ifndef BERTH_CLI_SSE_H
#define BERTH_CLI_SSE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "common/error.h"

enum { CLI_SSE_EVENT_MAX_BYTES = 4 * 1024 * 1024 };

struct cli_sse_event {
    const char *name; /* "message" when the stream names none */
    const char *id;   /* the last id seen, "" when none */
    const char *data; /* NUL-terminated; borrowed for the call */
    size_t data_size;
};

/* False: no more events are wanted. */
typedef bool cli_sse_sink(void *arg, const struct cli_sse_event *event);

struct cli_sse {
    cli_sse_sink *sink;
    void *arg;
    struct buf line;
    struct buf data;
    struct buf name;
    struct buf next_id; /* counts from the blank line on */
    struct buf id;      /* survives events: what Last-Event-ID would send */
    bool after_cr;      /* the next LF belongs to the CR before it */
    bool has_data;      /* a data line came, maybe an empty one */
    bool at_start;      /* a byte order mark may come */
    bool is_stopped;    /* the sink wanted no more, or an event was too large */
};

void cli_sse_init(struct cli_sse *sse, cli_sse_sink *sink, void *arg);
void cli_sse_clear(struct cli_sse *sse);
/* Forget an unfinished event, as after a lost connection; the id stays. */
void cli_sse_restart(struct cli_sse *sse);
/* STATUS_TOO_LARGE when one event passes CLI_SSE_EVENT_MAX_BYTES.  After the
 * sink said false the rest is ignored. */
MUST_CHECK enum status cli_sse_push(struct cli_sse *sse, const char *bytes,
                                    size_t size, struct error *err);

#endif
