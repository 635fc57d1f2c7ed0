/* sse.c - lines, fields, events. */
#include "cli/sse.h"

#include <assert.h>
#include <string.h>

#include "common/banned.h"

enum { NAME_MAX_BYTES = 128 };

void
cli_sse_init(struct cli_sse *sse, cli_sse_sink *sink, void *arg)
{
    *sse = (struct cli_sse){.sink = sink, .arg = arg, .at_start = true};
    buf_init(&sse->line, CLI_SSE_EVENT_MAX_BYTES);
    buf_init(&sse->data, CLI_SSE_EVENT_MAX_BYTES);
    buf_init(&sse->name, NAME_MAX_BYTES);
    buf_init(&sse->next_id, NAME_MAX_BYTES);
    buf_init(&sse->id, NAME_MAX_BYTES);
}

void
cli_sse_clear(struct cli_sse *sse)
{
    buf_clear(&sse->line);
    buf_clear(&sse->data);
    buf_clear(&sse->name);
    buf_clear(&sse->next_id);
    buf_clear(&sse->id);
}

static void
copy(struct buf *to, const struct buf *from)
{
    buf_reset(to);
    buf_append(to, from->data, from->size);
}

void
cli_sse_restart(struct cli_sse *sse)
{
    copy(&sse->next_id, &sse->id);
    buf_reset(&sse->line);
    buf_reset(&sse->data);
    buf_reset(&sse->name);
    sse->after_cr = false;
    sse->has_data = false;
    sse->at_start = true;
    sse->is_stopped = false;
}

/* The id is taken over only now: a stream cut inside an event must ask for
 * that event again. */
static void
deliver(struct cli_sse *sse)
{
    struct cli_sse_event event = {.name = "message"};

    copy(&sse->id, &sse->next_id);
    event.id = sse->id.data;
    event.data = sse->data.data;
    event.data_size = sse->data.size;
    if (sse->name.size > 0)
        event.name = sse->name.data;
    if (sse->has_data)
        sse->is_stopped = !sse->sink(sse->arg, &event);
    buf_reset(&sse->data);
    buf_reset(&sse->name);
    sse->has_data = false;
}

static bool
is_field(const char *line, size_t size, const char *name)
{
    return strlen(name) == size && memcmp(line, name, size) == 0;
}

static void
take_field(struct cli_sse *sse, const char *name, size_t name_size,
           const char *value, size_t value_size)
{
    if (is_field(name, name_size, "data")) {
        if (sse->has_data)
            buf_append_char(&sse->data, '\n');
        buf_append(&sse->data, value, value_size);
        sse->has_data = true;
    } else if (is_field(name, name_size, "event")) {
        buf_reset(&sse->name);
        buf_append(&sse->name, value, value_size);
    } else if (is_field(name, name_size, "id") &&
               memchr(value, '\0', value_size) == NULL) {
        buf_reset(&sse->next_id);
        buf_append(&sse->next_id, value, value_size);
    } /* "retry" and what we do not know mean nothing here */
}

/* One line without its end. */
static void
take_line(struct cli_sse *sse)
{
    const char *line = sse->line.data;
    size_t size = sse->line.size;
    const char *colon = memchr(line, ':', size);
    size_t name_size = colon != NULL ? (size_t)(colon - line) : size;
    size_t value_at = colon != NULL ? name_size + 1 : size;

    if (size == 0) {
        deliver(sse);
        return;
    }
    if (value_at < size && line[value_at] == ' ')
        value_at++;
    if (name_size > 0) /* else a comment */
        take_field(sse, line, name_size, line + value_at, size - value_at);
}

static void
end_line(struct cli_sse *sse)
{
    static const char mark[] = "\xef\xbb\xbf";

    if (sse->at_start && sse->line.size >= 3 &&
        memcmp(sse->line.data, mark, 3) == 0)
        buf_drop_front(&sse->line, 3);
    sse->at_start = false;
    take_line(sse);
    buf_reset(&sse->line);
}

/* Bytes up to the next end of a line go in at once. */
static size_t
take_run(struct cli_sse *sse, const char *bytes, size_t size)
{
    size_t count = 0;

    while (count < size && bytes[count] != '\n' && bytes[count] != '\r')
        count++;
    buf_append(&sse->line, bytes, count);
    return count;
}

enum status
cli_sse_push(struct cli_sse *sse, const char *bytes, size_t size,
             struct error *err)
{
    size_t at = 0;

    while (at < size && !sse->is_stopped) {
        bool is_second = sse->after_cr && bytes[at] == '\n';

        sse->after_cr = false;
        if (is_second) {
            at++;
            continue;
        }
        at += take_run(sse, bytes + at, size - at);
        if (at < size && !sse->line.overflowed) {
            sse->after_cr = bytes[at] == '\r';
            at++;
            end_line(sse);
        }
        if (sse->line.overflowed || sse->data.overflowed) {
            sse->is_stopped = true;
            return error_set(err, STATUS_TOO_LARGE,
                             "one event of the stream is larger than %d bytes",
                             CLI_SSE_EVENT_MAX_BYTES);
        }
    }
    return STATUS_OK;
}
