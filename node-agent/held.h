/* held.h - ended attempts, kept until the coordinator acknowledges them.
 *
 * An end that goes up at once and is acknowledged within HELD_WAIT_MS costs no
 * disk write; any other one is put into the journal, so that it outlives the
 * agent.  Bounded: the oldest goes first.  Belongs to the loop's thread. */
#ifndef BERTH_NODE_AGENT_HELD_H
#define BERTH_NODE_AGENT_HELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire.h"
#include "node-agent/journal.h"

struct event;
struct event_base;

enum {
    HELD_WAIT_MS = 250,
    HELD_MAX = 256,
    HELD_MAX_BYTES = 16 * 1024 * 1024,
    HELD_KEEP_S = 24 * 3600, /* older ones are dropped at the start */
};

/* Where whole frames for the coordinator go. */
struct frame_sink {
    void (*on_frame)(void *arg, const void *frame, size_t size);
    void *arg;
};

struct held {
    struct frame_sink up;
    struct ended *first; /* the oldest */
    size_t count;
    size_t bytes; /* of their records */
    struct journal journal;
    struct event *timer;
    bool is_failing;  /* the journal cannot be written, and it was said */
    bool is_volatile; /* nothing goes to disk (any more) */
};

/* Read the journal at @path back. */
void held_init(struct held *held, struct event_base *base, const char *path,
               const struct frame_sink *up);
/* What is not in the journal is written to it. */
void held_clear(struct held *held);

/* Keep @ended (taken); when @is_bound its end goes up now. */
void held_take(struct held *held, struct ended *ended, bool is_bound);
/* NULL when there is none. @attempt 0 finds any attempt. */
struct ended *held_find(const struct held *held, const char *job,
                        uint32_t attempt);
/* Send its end on the link that is up. */
void held_send(struct held *held, struct ended *ended);
/* Send the ids from @from on, then the end. */
void held_resume(struct held *held, struct ended *ended, uint64_t from);
/* The coordinator has it: forget it.  Unknown ones are nothing. */
void held_ack(struct held *held, const char *job, uint32_t attempt);
/* The link is lost: what it did not acknowledge goes to the journal. */
void held_unbind(struct held *held);
/* Has each end been acknowledged or had its chance to be written? */
bool held_is_safe(const struct held *held);
/* Remove the journal and write none any more. */
void held_forget(struct held *held);

#endif
