/* sse.c - events of a record as text, and the wait for more. */
#include "coordinator/sse.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "coordinator/core.h"
#include "coordinator/reply.h"

#include "common/banned.h"

enum {
    EVENTS_AT_ONCE = 64,
    /* A record's whole text with every byte escaped, and the frames. */
    PENDING_MAX_BYTES = 8 * RECORD_MAX_BYTES,
};

struct sse {
    struct request *request; /* gone before the stream may be */
    struct app *app;
    struct record *record;
    struct sse_options options;
    size_t index; /* of the next event */
    bool begun;
    bool over; /* nothing after what is pending */
    atomic_bool stopped;
    atomic_bool nudged; /* say something */
    struct buf text;    /* of the events just read */
    struct buf pending;
    size_t sent; /* of pending */
};

struct sse *
sse_new(struct request *request, struct record *record,
        const struct sse_options *options)
{
    struct sse *sse = mem_alloc(sizeof(*sse));

    sse->request = request;
    sse->app = request->app;
    sse->record = record_keep(record);
    sse->options = *options;
    sse->index = options->first;
    atomic_init(&sse->stopped, false);
    atomic_init(&sse->nudged, false);
    buf_init(&sse->text, RECORD_MAX_BYTES);
    buf_init(&sse->pending, PENDING_MAX_BYTES);
    return sse;
}

void
sse_free(struct sse *sse)
{
    struct record_end end;

    if (sse == NULL)
        return;
    record_read_end(sse->record, &end);
    if (!end.ended && sse->options.job[0] != '\0')
        core_cancel(sse->app->core, sse->options.job, "client_gone");
    record_drop(sse->record);
    buf_clear(&sse->text);
    buf_clear(&sse->pending);
    free(sse);
}

/* --- chunks --- */

static void
data_open(struct buf *out)
{
    buf_append_text(out, "data: ");
}

static void
data_close(struct buf *out)
{
    buf_append_text(out, "\n\n");
}

static void
chunk_content(struct sse *sse, const char *text, size_t size, struct buf *out)
{
    data_open(out);
    answer_content(&sse->options.answer, text, size, out);
    data_close(out);
}

static void
chunk_finish(struct sse *sse, const struct record_end *end, struct buf *out)
{
    data_open(out);
    answer_finish(&sse->options.answer, end->finish, out);
    data_close(out);
    if (sse->options.answer.usage) {
        data_open(out);
        answer_usage(&sse->options.answer, end, out);
        data_close(out);
    }
    buf_append_text(out, "data: [DONE]\n\n");
}

static void
chunk_error(const struct record_end *end, struct buf *out)
{
    struct json_out json;

    data_open(out);
    json_out_init(&json, out);
    json_open_object(&json);
    json_key(&json, "error");
    reply_error_put(&json, &end->error);
    json_close_object(&json);
    data_close(out);
}

static void
chunk_put(struct sse *sse, enum record_kind kind, const char *text, size_t size,
          const struct record_end *end, struct buf *out)
{
    if (!sse->begun && sse->options.answer.chat && kind != RECORD_ERROR) {
        data_open(out);
        answer_first(&sse->options.answer, out);
        data_close(out);
    }
    sse->begun = true;
    switch (kind) {
    case RECORD_CONTENT:
        chunk_content(sse, text, size, out);
        break;
    case RECORD_FINISH:
        chunk_finish(sse, end, out);
        break;
    case RECORD_ERROR:
        chunk_error(end, out);
        break;
    }
}

/* --- events --- */

static void
event_open(const struct sse *sse, const char *name, struct buf *out)
{
    buf_printf(out, "id: %zu\nevent: %s\ndata: ", sse->index, name);
}

static void
event_content(struct json_out *json, const char *text, size_t size)
{
    json_open_object(json);
    json_key(json, "text");
    json_put_text_sized(json, text, size);
    json_member_i64(json, "choice", 0);
    json_close_object(json);
}

static void
event_finish(struct json_out *json, const struct record_end *end)
{
    json_open_object(json);
    json_member_text(json, "finish_reason", end->finish);
    json_key(json, "usage");
    answer_usage_put(json, end->prompt_tokens, end->completion_tokens);
    json_close_object(json);
}

static void
event_put(struct sse *sse, enum record_kind kind, const char *text, size_t size,
          const struct record_end *end, struct buf *out)
{
    struct json_out json;

    json_out_init(&json, out);
    switch (kind) {
    case RECORD_CONTENT:
        event_open(sse, "content", out);
        event_content(&json, text, size);
        break;
    case RECORD_FINISH:
        event_open(sse, "finish", out);
        event_finish(&json, end);
        break;
    case RECORD_ERROR:
        event_open(sse, "error", out);
        reply_error_put(&json, &end->error);
        break;
    }
    data_close(out);
}

bool
sse_next(struct sse *sse, struct buf *out)
{
    enum record_kind kinds[EVENTS_AT_ONCE];
    size_t sizes[EVENTS_AT_ONCE];
    struct record_end end;
    size_t count, at = 0;

    /* The end is read first: once it is there, so is the last event. */
    record_read_end(sse->record, &end);
    buf_reset(&sse->text);
    count = record_read(sse->record, sse->index, EVENTS_AT_ONCE, kinds, sizes,
                        &sse->text);
    if (count == 0) {
        sse->over = sse->over || end.ended;
        return sse->over;
    }
    if (kinds[count - 1] != RECORD_CONTENT)
        record_read_end(sse->record, &end);
    for (size_t i = 0; i < count; i++) {
        const char *text = sse->text.data + at;

        if (sse->options.events)
            event_put(sse, kinds[i], text, sizes[i], &end, out);
        else
            chunk_put(sse, kinds[i], text, sizes[i], &end, out);
        sse->over = kinds[i] != RECORD_CONTENT;
        at += sizes[i];
        sse->index++;
    }
    return true;
}

/* --- the connection --- */

static void
on_more(void *arg)
{
    struct sse *sse = arg;

    request_resume(sse->request);
}

static ssize_t
wait_for_more(struct sse *sse)
{
    if (atomic_load(&sse->stopped))
        return SSE_OVER;
    /* Suspend first: the wake may come before record_wait returns. */
    if (!request_suspend(sse->request))
        return SSE_OVER;
    if (!record_wait(sse->record, sse->index, on_more, sse))
        request_resume(sse->request);
    return 0;
}

ssize_t
sse_read(struct sse *sse, char *bytes, size_t max)
{
    size_t size;

    while (sse->sent == sse->pending.size) {
        buf_reset(&sse->pending);
        sse->sent = 0;
        if (sse->over)
            return SSE_OVER;
        if (sse_next(sse, &sse->pending))
            continue;
        if (!atomic_exchange(&sse->nudged, false))
            return wait_for_more(sse);
        buf_append_text(&sse->pending, ": waiting\n\n");
    }
    size = sse->pending.size - sse->sent;
    if (size > max)
        size = max;
    memcpy(bytes, sse->pending.data + sse->sent, size);
    sse->sent += size;
    return (ssize_t)size;
}

bool
sse_nudge(struct sse *sse)
{
    if (!sse->options.events || !record_unwait(sse->record, on_more, sse))
        return false;
    atomic_store(&sse->nudged, true);
    return true;
}

bool
sse_stop(struct sse *sse)
{
    atomic_store(&sse->stopped, true);
    return record_unwait(sse->record, on_more, sse);
}
