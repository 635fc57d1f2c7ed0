/* record.h - a job's append-only list of output events, and its readers.
 *
 * The links thread pushes ids as they arrive; the record runs model/output
 * over them, one id at a time, so that the list of events is a pure function
 * of request and ids and an event's index means the same after a resume.  It
 * is the judge of stop strings and lengths, and the fence for old attempts.
 * Readers hold an index into it; a slow reader never holds up a link.
 *
 * Reference-counted, thread-safe.  Wake-ups run without the record's lock. */
#ifndef BERTH_COORDINATOR_RECORD_H
#define BERTH_COORDINATOR_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"
#include "common/units.h"
#include "coordinator/snapshot.h"
#include "model/output.h"

enum { RECORD_MAX_BYTES = 8 * 1024 * 1024 };

enum record_kind {
    RECORD_CONTENT,   /* text */
    RECORD_REASONING, /* text */
    RECORD_CALL,      /* a tool call begins: its id, then its name */
    RECORD_ARGUMENTS, /* a piece of its arguments */
    RECORD_FINISH,    /* the job is done: finish reason, usage */
    RECORD_ERROR,     /* the job ended otherwise: the error is the record's */
};

struct record_event {
    enum record_kind kind;
    uint32_t call;  /* of RECORD_CALL and RECORD_ARGUMENTS */
    size_t id_size; /* of RECORD_CALL: so much of its text */
    size_t text_at; /* into the record's text */
    size_t text_size;
};

/* How the job ended, for readers; filled before the last event. */
struct record_end {
    bool ended;
    bool failed;
    struct error error; /* when failed */
    char finish[16];    /* stop, length, tool_calls; else "" */
    uint64_t prompt_tokens;
    uint64_t completion_tokens;
    uint64_t reasoning_tokens; /* of these; filled by record_finish */
};

struct record;

/* Keeps a reference to @model. */
struct record *record_new(struct model *model, const struct output_rules *rules,
                          uint64_t prompt_tokens);
struct record *record_keep(struct record *record);
void record_drop(struct record *record);

enum record_push {
    RECORD_TAKEN,   /* appended, more may come */
    RECORD_FULL,    /* appended, and this ended the output: settle */
    RECORD_IGNORED, /* older attempt, or after the end */
    RECORD_BROKEN,  /* a gap or an impossible id: the attempt is at fault */
};

/* From now on only @attempt is listened to; ids below @from are not its own but
 * those of attempts before it. */
void record_attempt(struct record *record, uint32_t attempt, uint64_t from);
/* @first is the index of ids[0] among all ids of the job; ids already there
 * are skipped when equal.  @now is when they came. */
enum record_push record_push(struct record *record, uint32_t attempt,
                             uint64_t first, const uint32_t *ids, size_t count,
                             struct span now);
/* Stop listening to any attempt. Returns the ids delivered. */
uint64_t record_close(struct record *record);
/* The last event; @end->ended is set here. Wakes every reader. */
void record_finish(struct record *record, const struct record_end *end);

/* What the core needs to know. */
struct record_state {
    uint64_t ids; /* delivered so far */
    enum output_finish finish;
    bool first_seen;
    struct span first_at; /* first id of the current attempt */
    struct span last_at;
    uint64_t attempt_ids; /* delivered by the current attempt */
};
void record_state(struct record *record, struct record_state *state);
/* Ids delivered, copied into heap memory (free()). */
uint32_t *record_ids(struct record *record, size_t *count);
void record_read_end(struct record *record, struct record_end *end);

/* Copy the events from @index on, at most @max; their texts are appended to
 * @text, one after another. Returns how many. */
size_t record_read(struct record *record, size_t index, size_t max,
                   struct record_event *events, struct buf *text);
/* Ids of reasoning so far. */
uint64_t record_reasoning(struct record *record);
/* Call @wake once when there is an event at @index or the job has ended; false
 * when that is so already (then @wake is not kept). */
bool record_wait(struct record *record, size_t index, void (*wake)(void *arg),
                 void *arg);
/* Forget a waiter that has not been woken; true when it was still there (so
 * that its wake will never come). */
bool record_unwait(struct record *record, void (*wake)(void *arg), void *arg);
size_t record_event_count(struct record *record);
/* Memory that it takes, about. */
size_t record_bytes(struct record *record);

#endif
