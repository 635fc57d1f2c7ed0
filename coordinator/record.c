/* record.c - events of a job, its fence and its readers. */
#include "coordinator/record.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#include "common/banned.h"

struct waiter {
    struct waiter *next;
    size_t index;
    void (*wake)(void *arg);
    void *arg;
};

struct record {
    atomic_size_t references;
    pthread_mutex_t lock;
    struct model *model;
    struct output *output;
    struct output_events fresh; /* of the id just taken */
    struct buf text;
    struct record_event *events;
    size_t event_count, event_room;
    uint32_t *ids;
    size_t id_count, id_room;
    uint32_t attempt;      /* 0: none is listened to */
    uint64_t attempt_from; /* ids of attempts before it */
    bool first_seen;
    struct span first_at, last_at;
    struct record_end end;
    struct waiter *waiters;
};

struct record *
record_new(struct model *model, const struct output_rules *rules,
           uint64_t prompt_tokens)
{
    struct record *record = mem_alloc(sizeof(*record));

    atomic_init(&record->references, 1);
    pthread_mutex_init(&record->lock, NULL);
    record->model = model_keep(model);
    record->output = output_new(model->tokenizer, rules);
    record->end.prompt_tokens = prompt_tokens;
    buf_init(&record->text, RECORD_MAX_BYTES);
    output_events_init(&record->fresh, RECORD_MAX_BYTES);
    return record;
}

struct record *
record_keep(struct record *record)
{
    atomic_fetch_add(&record->references, 1);
    return record;
}

void
record_drop(struct record *record)
{
    if (record == NULL || atomic_fetch_sub(&record->references, 1) != 1)
        return;
    assert(record->waiters == NULL);
    output_free(record->output);
    model_drop(record->model);
    buf_clear(&record->text);
    output_events_clear(&record->fresh);
    free(record->events);
    free(record->ids);
    pthread_mutex_destroy(&record->lock);
    free(record);
}

static void
event_add(struct record *record, const struct record_event *event)
{
    if (record->event_count == record->event_room) {
        record->event_room = record->event_room * 2 + 64;
        record->events = mem_grow(record->events, record->event_room,
                                  sizeof(*record->events));
    }
    record->events[record->event_count++] = *event;
}

static enum record_kind
kind_of(enum output_kind kind)
{
    switch (kind) {
    case OUTPUT_CONTENT:
        return RECORD_CONTENT;
    case OUTPUT_REASONING:
        return RECORD_REASONING;
    case OUTPUT_CALL:
        return RECORD_CALL;
    case OUTPUT_ARGUMENTS:
        break;
    }
    return RECORD_ARGUMENTS;
}

/* What the output just told, to the list. */
static void
fresh_take(struct record *record)
{
    struct output_events *fresh = &record->fresh;
    size_t at = record->text.size;

    buf_append(&record->text, fresh->text.data, fresh->text.size);
    if (fresh->text.overflowed)
        record->text.overflowed = true;
    for (size_t i = 0; !record->text.overflowed && i < fresh->count; i++) {
        const struct output_event *event = &fresh->items[i];

        event_add(record, &(struct record_event){
                              .kind = kind_of(event->kind),
                              .call = event->call,
                              .id_size = event->id_size,
                              .text_at = at,
                              .text_size = event->size,
                          });
        at += event->size;
    }
    output_events_reset(fresh);
}

/* Unlink the waiters that have something to read; the caller wakes them. */
static struct waiter *
waiters_ready(struct record *record)
{
    struct waiter *ready = NULL, **at = &record->waiters;

    while (*at != NULL) {
        struct waiter *waiter = *at;

        if (waiter->index < record->event_count || record->end.ended) {
            *at = waiter->next;
            waiter->next = ready;
            ready = waiter;
        } else {
            at = &waiter->next;
        }
    }
    return ready;
}

static void
waiters_wake(struct waiter *ready)
{
    while (ready != NULL) {
        struct waiter *next = ready->next;

        ready->wake(ready->arg);
        free(ready);
        ready = next;
    }
}

void
record_attempt(struct record *record, uint32_t attempt, uint64_t from)
{
    pthread_mutex_lock(&record->lock);
    assert(attempt > record->attempt);
    record->attempt = attempt;
    record->attempt_from = from;
    record->first_seen = false;
    pthread_mutex_unlock(&record->lock);
}

static void
id_take(struct record *record, uint32_t id)
{
    if (record->id_count == record->id_room) {
        record->id_room = record->id_room * 2 + 256;
        record->ids =
            mem_grow(record->ids, record->id_room, sizeof(*record->ids));
    }
    if (output_next(record->output, id, &record->fresh))
        record->ids[record->id_count++] = id;
    fresh_take(record);
}

static enum record_push
push_locked(struct record *record, uint64_t first, const uint32_t *ids,
            size_t count, struct span now)
{
    if (first > record->id_count)
        return RECORD_BROKEN;
    for (size_t i = 0; i < count; i++) {
        uint64_t index = first + i;

        if (ids[i] >= tokenizer_vocabulary(record->model->tokenizer) &&
            ids[i] >= record->model->entry.vocab)
            return RECORD_BROKEN;
        if (index < record->id_count) {
            if (record->ids[index] != ids[i])
                return RECORD_BROKEN;
            continue;
        }
        if (!record->first_seen) {
            record->first_seen = true;
            record->first_at = now;
        }
        record->last_at = now;
        id_take(record, ids[i]);
        if (record->text.overflowed)
            return RECORD_BROKEN;
        if (output_finish(record->output) != OUTPUT_GOING) {
            record->attempt = 0;
            return RECORD_FULL;
        }
    }
    return RECORD_TAKEN;
}

enum record_push
record_push(struct record *record, uint32_t attempt, uint64_t first,
            const uint32_t *ids, size_t count, struct span now)
{
    enum record_push result = RECORD_IGNORED;
    struct waiter *ready;

    pthread_mutex_lock(&record->lock);
    if (attempt == record->attempt && !record->end.ended)
        result = push_locked(record, first, ids, count, now);
    ready = waiters_ready(record);
    pthread_mutex_unlock(&record->lock);
    waiters_wake(ready);
    return result;
}

uint64_t
record_close(struct record *record)
{
    uint64_t ids;

    pthread_mutex_lock(&record->lock);
    record->attempt = 0;
    ids = record->id_count;
    pthread_mutex_unlock(&record->lock);
    return ids;
}

void
record_finish(struct record *record, const struct record_end *end)
{
    const struct record_event last = {.kind = end->failed ? RECORD_ERROR
                                                          : RECORD_FINISH};
    struct waiter *ready;

    pthread_mutex_lock(&record->lock);
    assert(!record->end.ended);
    output_flush_events(record->output, &record->fresh);
    fresh_take(record);
    record->attempt = 0;
    record->end = *end;
    record->end.ended = true;
    record->end.reasoning_tokens = output_reasoning_count(record->output);
    event_add(record, &last);
    ready = waiters_ready(record);
    pthread_mutex_unlock(&record->lock);
    waiters_wake(ready);
}

void
record_state(struct record *record, struct record_state *state)
{
    pthread_mutex_lock(&record->lock);
    *state = (struct record_state){
        .ids = record->id_count,
        .finish = output_finish(record->output),
        .first_seen = record->first_seen,
        .first_at = record->first_at,
        .last_at = record->last_at,
        .attempt_ids = record->id_count > record->attempt_from
                           ? record->id_count - record->attempt_from
                           : 0,
    };
    pthread_mutex_unlock(&record->lock);
}

uint32_t *
record_ids(struct record *record, size_t *count)
{
    uint32_t *ids;

    pthread_mutex_lock(&record->lock);
    *count = record->id_count;
    ids = mem_copy(record->ids, record->id_count * sizeof(*ids));
    pthread_mutex_unlock(&record->lock);
    return ids;
}

void
record_read_end(struct record *record, struct record_end *end)
{
    pthread_mutex_lock(&record->lock);
    *end = record->end;
    pthread_mutex_unlock(&record->lock);
}

size_t
record_read(struct record *record, size_t index, size_t max,
            struct record_event *events, struct buf *text)
{
    size_t count = 0;

    pthread_mutex_lock(&record->lock);
    while (count < max && index + count < record->event_count) {
        const struct record_event *event = &record->events[index + count];

        events[count++] = *event;
        buf_append(text, record->text.data + event->text_at, event->text_size);
    }
    pthread_mutex_unlock(&record->lock);
    return count;
}

uint64_t
record_reasoning(struct record *record)
{
    uint64_t count;

    pthread_mutex_lock(&record->lock);
    count = output_reasoning_count(record->output);
    pthread_mutex_unlock(&record->lock);
    return count;
}

bool
record_wait(struct record *record, size_t index, void (*wake)(void *arg),
            void *arg)
{
    bool waits = false;

    pthread_mutex_lock(&record->lock);
    if (index >= record->event_count && !record->end.ended) {
        struct waiter *waiter = mem_alloc(sizeof(*waiter));

        *waiter = (struct waiter){
            .next = record->waiters,
            .index = index,
            .wake = wake,
            .arg = arg,
        };
        record->waiters = waiter;
        waits = true;
    }
    pthread_mutex_unlock(&record->lock);
    return waits;
}

bool
record_unwait(struct record *record, void (*wake)(void *arg), void *arg)
{
    struct waiter **at, *found = NULL;

    pthread_mutex_lock(&record->lock);
    for (at = &record->waiters; *at != NULL; at = &(*at)->next) {
        if ((*at)->wake == wake && (*at)->arg == arg) {
            found = *at;
            *at = found->next;
            break;
        }
    }
    pthread_mutex_unlock(&record->lock);
    free(found);
    return found != NULL;
}

size_t
record_event_count(struct record *record)
{
    size_t count;

    pthread_mutex_lock(&record->lock);
    count = record->event_count;
    pthread_mutex_unlock(&record->lock);
    return count;
}

size_t
record_bytes(struct record *record)
{
    size_t bytes;

    pthread_mutex_lock(&record->lock);
    bytes = sizeof(*record) + record->text.capacity +
            record->event_room * sizeof(*record->events) +
            record->id_room * sizeof(*record->ids);
    pthread_mutex_unlock(&record->lock);
    return bytes;
}
