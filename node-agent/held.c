/* held.c - a short list of ended attempts and their journal. */
#include "node-agent/held.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "common/clock.h"
#include "common/fault.h"
#include "common/log.h"

#include "common/banned.h"

/* --- the journal --- */

static size_t
written_bytes(const struct held *held)
{
    size_t bytes = 0;

    for (const struct ended *each = held->first; each != NULL;
         each = each->next)
        if (each->is_written)
            bytes += journal_size(each);
    return bytes;
}

/* Records of what is written already, of what has to be, or of both. */
static void
encode(const struct held *held, bool written, bool due, struct buf *records)
{
    buf_init(records, (size_t)HELD_MAX_BYTES + JOURNAL_RECORD_MAX_BYTES);
    for (const struct ended *each = held->first; each != NULL;
         each = each->next)
        if (each->is_written ? written : due && each->is_due)
            journal_encode(each, records);
}

static void
complain(struct held *held, const struct error *err)
{
    if (!held->is_failing)
        log_warn("journal.write",
                 "reason=%s step=\"free space there and let the agent write; "
                 "until then answers that are not delivered are lost when the "
                 "agent ends\"",
                 LOG_QUOTED(err->text));
    held->is_failing = true;
}

static bool
some_are_due(const struct held *held)
{
    for (const struct ended *each = held->first; each != NULL;
         each = each->next)
        if (each->is_due && !each->is_written)
            return true;
    return false;
}

/* Give back the disk that acknowledged records take. */
static void
shrink(struct held *held)
{
    size_t live = written_bytes(held);
    struct error err = {0};
    struct buf records;

    if (live == 0) {
        journal_empty(&held->journal);
    } else if (held->journal.size > JOURNAL_ANEW_BYTES &&
               live < held->journal.size / 2) {
        encode(held, true, false, &records);
        if (journal_replace(&held->journal, &records, &err) != STATUS_OK)
            complain(held, &err);
        buf_clear(&records);
    }
}

/* Put what is due into the journal, in one write. */
static void
write_due(struct held *held)
{
    bool anew = !journal_is_whole(&held->journal);
    struct error err = {0};
    struct buf records;
    enum status status;

    if (held->is_volatile || !some_are_due(held))
        return;
    encode(held, anew, true, &records);
    status = anew ? journal_replace(&held->journal, &records, &err)
                  : journal_append(&held->journal, &records, &err);
    buf_clear(&records);
    if (status != STATUS_OK) {
        complain(held, &err);
        return;
    }
    held->is_failing = false;
    for (struct ended *each = held->first; each != NULL; each = each->next)
        each->is_written = each->is_written || each->is_due;
    shrink(held);
}

/* --- the list --- */

static void
drop(struct held *held, struct ended *ended)
{
    struct ended **at = &held->first;

    while (*at != ended)
        at = &(*at)->next;
    *at = ended->next;
    held->count--;
    held->bytes -= journal_size(ended);
    ended_free(ended);
}

static void
add(struct held *held, struct ended *ended)
{
    struct ended **at = &held->first;

    while (*at != NULL)
        at = &(*at)->next;
    *at = ended;
    ended->next = NULL;
    held->count++;
    held->bytes += journal_size(ended);
    while (held->count > HELD_MAX || held->bytes > HELD_MAX_BYTES) {
        log_warn("held.dropped", "job=%s attempt=%" PRIu32 " reason=%s",
                 held->first->job, held->first->attempt,
                 "\"too many ends wait for the coordinator\"");
        drop(held, held->first);
    }
}

/* A record of the journal, at the start. */
static void
on_record(void *arg, struct ended *ended)
{
    struct held *held = arg;
    int64_t now_s = instant_unix_s(clock_wall());

    if (held_find(held, ended->job, ended->attempt) != NULL) {
        ended_free(ended); /* written twice */
        return;
    }
    if (now_s - ended->at_s > HELD_KEEP_S) {
        log_warn("held.dropped", "job=%s attempt=%" PRIu32 " reason=%s",
                 ended->job, ended->attempt, "\"over a day old\"");
        ended_free(ended);
        return;
    }
    ended->is_written = ended->is_due = true;
    add(held, ended);
}

/* --- the wait for a quick job.ack --- */

static void
set_timer(struct held *held)
{
    const struct timeval wait = {.tv_usec = HELD_WAIT_MS * 1000};

    if (!event_pending(held->timer, EV_TIMEOUT, NULL))
        event_add(held->timer, &wait);
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct held *held = arg;
    struct span now = clock_monotonic();
    bool some_wait = false;

    (void)fd;
    (void)what;
    for (struct ended *each = held->first; each != NULL; each = each->next) {
        each->is_due = each->is_due || each->due_at.ns <= now.ns;
        some_wait = some_wait || !each->is_due;
    }
    write_due(held);
    if (some_wait)
        set_timer(held);
}

/* --- public --- */

void
held_init(struct held *held, struct event_base *base, const char *path,
          const struct frame_sink *up)
{
    struct error err = {0};

    *held = (struct held){.up = *up};
    held->timer = event_new(base, -1, 0, on_timer, held);
    if (journal_open(&held->journal, path, on_record, held, &err) != STATUS_OK)
        complain(held, &err);
    shrink(held);
    if (held->count > 0)
        log_info("held.read", "attempts=%zu", held->count);
}

void
held_clear(struct held *held)
{
    held_unbind(held);
    journal_close(&held->journal);
    while (held->first != NULL)
        drop(held, held->first);
    event_free(held->timer);
}

struct ended *
held_find(const struct held *held, const char *job, uint32_t attempt)
{
    struct ended *ended = held->first;

    while (ended != NULL && (strcmp(ended->job, job) != 0 ||
                             (attempt != 0 && ended->attempt != attempt)))
        ended = ended->next;
    return ended;
}

void
held_send(struct held *held, struct ended *ended)
{
    FAULT_STEP("agent.end.send");
    ended->is_bound = true;
    held->up.on_frame(held->up.arg, ended->frame.data, ended->frame.size);
    FAULT_STEP("agent.end.sent");
}

void
held_take(struct held *held, struct ended *ended, bool is_bound)
{
    ended->at_s = instant_unix_s(clock_wall());
    ended->due_at = span_add(clock_monotonic(), span_ms(HELD_WAIT_MS));
    ended->is_due = !is_bound;
    if (is_bound)
        held_send(held, ended);
    add(held, ended);
    if (is_bound)
        set_timer(held);
    else
        write_due(held);
}

void
held_resume(struct held *held, struct ended *ended, uint64_t from)
{
    struct buf frames;

    buf_init(&frames, IDS_FRAMES_MAX_BYTES);
    ids_frames(&ended->ids, ended->job, ended->attempt, from, &frames);
    held->up.on_frame(held->up.arg, frames.data, frames.size);
    buf_clear(&frames);
    held_send(held, ended);
}

void
held_ack(struct held *held, const char *job, uint32_t attempt)
{
    struct ended *ended = held_find(held, job, attempt);

    if (ended == NULL)
        return;
    FAULT_STEP("agent.ack");
    drop(held, ended);
    shrink(held);
    FAULT_STEP("agent.acked");
}

void
held_unbind(struct held *held)
{
    for (struct ended *each = held->first; each != NULL; each = each->next) {
        each->is_bound = false;
        each->is_due = true;
    }
    write_due(held);
}

bool
held_is_safe(const struct held *held)
{
    for (const struct ended *each = held->first; each != NULL;
         each = each->next)
        if (!each->is_due)
            return false;
    return true;
}

void
held_forget(struct held *held)
{
    held->is_volatile = true;
    journal_remove(&held->journal);
}
