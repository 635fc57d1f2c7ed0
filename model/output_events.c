/* output_events.c - a list of events that grows. */
#include <stdlib.h>

#include "common/mem.h"
#include "model/output_reader.h"

#include "common/banned.h"

void
output_events_init(struct output_events *events, size_t max_bytes)
{
    *events = (struct output_events){.count = 0};
    buf_init(&events->text, max_bytes);
}

void
output_events_clear(struct output_events *events)
{
    buf_clear(&events->text);
    free(events->items);
    *events = (struct output_events){.count = 0};
}

void
output_events_reset(struct output_events *events)
{
    buf_reset(&events->text);
    events->count = 0;
}

static struct output_event *
event_new(struct output_events *events, enum output_kind kind, uint32_t call)
{
    if (events->count == events->room) {
        events->room = events->room * 2 + 8;
        events->items =
            mem_grow(events->items, events->room, sizeof(*events->items));
    }
    events->items[events->count] =
        (struct output_event){.kind = kind, .call = call};
    return &events->items[events->count++];
}

/* Append to the text of an event; what the buffer has no room for is no part
 * of it, and the buffer says so. */
static void
event_append(struct output_events *events, struct output_event *event,
             const char *text, size_t size)
{
    size_t before = events->text.size;

    buf_append(&events->text, text, size);
    event->size += events->text.size - before;
}

void
output_events_add(struct output_events *events, enum output_kind kind,
                  uint32_t call, const char *text, size_t size)
{
    struct output_event *last =
        events->count == 0 ? NULL : &events->items[events->count - 1];

    if (size == 0)
        return;
    if (last == NULL || last->kind != kind || last->call != call)
        last = event_new(events, kind, call);
    event_append(events, last, text, size);
}

void
output_events_add_call(struct output_events *events, uint32_t call,
                       const char *id, size_t id_size, const char *name,
                       size_t name_size)
{
    struct output_event *event = event_new(events, OUTPUT_CALL, call);

    event_append(events, event, id, id_size);
    event->id_size = event->size;
    event_append(events, event, name, name_size);
}
