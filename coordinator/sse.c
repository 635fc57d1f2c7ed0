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
chunk_text(struct sse *sse, const struct record_event *event, const char *text,
           struct buf *out)
{
    data_open(out);
    answer_event(&sse->options.answer, event, text, out);
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
chunk_put(struct sse *sse, const struct record_event *event, const char *text,
          const struct record_end *end, struct buf *out)
{
    if (!sse->begun && sse->options.answer.chat &&
        event->kind != RECORD_ERROR) {
        data_open(out);
        answer_first(&sse->options.answer, out);
        data_close(out);
    }
    sse->begun = true;
    switch (event->kind) {
    case RECORD_CONTENT:
    case RECORD_REASONING:
    case RECORD_CALL:
    case RECORD_ARGUMENTS:
        chunk_text(sse, event, text, out);
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

/* What an event with text is called, and what it holds. */
static const char *
event_name(enum record_kind kind)
{
    switch (kind) {
    case RECORD_CONTENT:
        return "content";
    case RECORD_REASONING:
        return "reasoning";
    case RECORD_CALL:
        return "tool_call";
    case RECORD_ARGUMENTS:
        return "tool_arguments";
    case RECORD_FINISH:
        return "finish";
    case RECORD_ERROR:
        break;
    }
    return "error";
}

static void
event_text(struct json_out *json, const struct record_event *event,
           const char *text)
{
    bool of_call =
        event->kind == RECORD_CALL || event->kind == RECORD_ARGUMENTS;

    json_open_object(json);
    if (of_call)
        json_member_i64(json, "index", event->call);
    if (event->kind == RECORD_CALL) {
        json_key(json, "id");
        json_put_text_sized(json, text, event->id_size);
    }
    json_key(json, event->kind == RECORD_CALL ? "name" : "text");
    json_put_text_sized(json, text + event->id_size,
                        event->text_size - event->id_size);
    json_member_i64(json, "choice", 0);
    json_close_object(json);
}

static void
event_finish(struct json_out *json, const struct record_end *end)
{
    json_open_object(json);
    json_member_text(json, "finish_reason", end->finish);
    json_key(json, "usage");
    answer_usage_put(json, end);
    json_close_object(json);
}

static void
event_put(struct sse *sse, const struct record_event *event, const char *text,
          const struct record_end *end, struct buf *out)
{
    struct json_out json;

    json_out_init(&json, out);
    event_open(sse, event_name(event->kind), out);
    switch (event->kind) {
    case RECORD_CONTENT:
    case RECORD_REASONING:
    case RECORD_CALL:
    case RECORD_ARGUMENTS:
        event_text(&json, event, text);
        break;
    case RECORD_FINISH:
        event_finish(&json, end);
        break;
    case RECORD_ERROR:
        reply_error_put(&json, &end->error);
        break;
    }
    data_close(out);
}

static bool
is_last(const struct record_event *event)
{
    return event->kind == RECORD_FINISH || event->kind == RECORD_ERROR;
}

bool
sse_next(struct sse *sse, struct buf *out)
{
    struct record_event events[EVENTS_AT_ONCE];
    struct record_end end;
    size_t count, at = 0;

    /* The end is read first: once it is there, so is the last event. */
    record_read_end(sse->record, &end);
    buf_reset(&sse->text);
    count = record_read(sse->record, sse->index, EVENTS_AT_ONCE, events,
                        &sse->text);
    /* A reader may have seen more than there is: events from before a crash
     * of the coordinator.  It still learns the end. */
    if (count == 0 && end.ended && !sse->over)
        count = record_read(sse->record, record_event_count(sse->record) - 1, 1,
                            events, &sse->text);
    if (count == 0)
        return sse->over;
    if (is_last(&events[count - 1]))
        record_read_end(sse->record, &end);
    for (size_t i = 0; i < count; i++) {
        const char *text = sse->text.data + at;

        if (sse->options.events)
            event_put(sse, &events[i], text, &end, out);
        else
            chunk_put(sse, &events[i], text, &end, out);
        sse->over = is_last(&events[i]);
        at += events[i].text_size;
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
