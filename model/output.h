/* output.h - output events as a pure function of the request and the ids.
 *
 * Coordinator and engine run the same function over the same ids: the
 * coordinator is the judge of stop strings and lengths, the engine may stop
 * early by it.  However the ids are cut into pushes, the concatenated events
 * are the same.  Not safe to share between threads without a lock. */
#ifndef BERTH_MODEL_OUTPUT_H
#define BERTH_MODEL_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "model/format.h"
#include "model/tokenizer.h"

enum { OUTPUT_STOPS_MAX = 16, OUTPUT_STOP_BYTES = 512 };

enum output_finish {
    OUTPUT_GOING,
    OUTPUT_STOP,   /* an end token or a stop string */
    OUTPUT_LENGTH, /* max_tokens */
    OUTPUT_CALLS,  /* as OUTPUT_STOP, and tools were called */
};

enum output_kind {
    OUTPUT_CONTENT,
    OUTPUT_REASONING,
    OUTPUT_CALL,      /* a call begins: its id, then its name */
    OUTPUT_ARGUMENTS, /* a piece of the JSON text of its arguments */
};

struct output_event {
    enum output_kind kind;
    uint32_t call;  /* from 0; of OUTPUT_CALL and OUTPUT_ARGUMENTS */
    size_t id_size; /* of OUTPUT_CALL */
    size_t size;    /* of its text, id included */
};

/* Events in order, their texts one after another. */
struct output_events {
    struct buf text;
    struct output_event *items;
    size_t count, room;
};

/* What of the request decides the events. */
struct output_rules {
    uint64_t max_tokens; /* > 0; of all attempts together */
    uint32_t end_ids[16];
    size_t end_id_count;
    char stop[OUTPUT_STOPS_MAX][OUTPUT_STOP_BYTES];
    size_t stop_count;
    /* What the answer may hold beside content. */
    const struct format *format; /* NULL: all is content */
    bool thinks;                 /* it begins inside reasoning */
    bool calls;                  /* calls are looked for */
    bool one_call;               /* the first call ends the answer */
    uint64_t call_seed;          /* ids of calls are drawn from it */
    /* The tools: each name, then its members that are always text, each ended
     * by NUL, and one NUL more.  Copied by output_new. */
    const char *tools;
    size_t tools_size;
    /* What the prompt ended with that belongs to the answer: the begin of a
     * call that is asked for; NULL: nothing.  Copied by output_new. */
    const char *prefix;
};

struct output;

void output_events_init(struct output_events *events, size_t max_bytes);
void output_events_clear(struct output_events *events);
void output_events_reset(struct output_events *events);

/* @tokenizer is kept. */
struct output *output_new(const struct tokenizer *tokenizer,
                          const struct output_rules *rules);
void output_free(struct output *output);

/* Take ids in order until one finishes the output; returns how many were
 * taken (ids past the finish are never taken: they are not delivered).  The
 * text that became certain is appended to @content: nothing that may yet turn
 * out to be a stop string or half a character.  An id that completes a stop
 * string or is an end id counts as taken. */
size_t output_push(struct output *output, const uint32_t *ids, size_t count,
                   struct buf *content);
/* The attempt ended without a finish (target lost, cancelled): append what was
 * kept back as far as it is whole characters. */
void output_flush(struct output *output, struct buf *content);
/* The same two with events by the rules' format: one id, whose events are
 * added; neighbours of one kind are one event.  False: it was not taken.  An
 * output is either pushed to or asked for events, never both. */
bool output_next(struct output *output, uint32_t id,
                 struct output_events *events);
void output_flush_events(struct output *output, struct output_events *events);
enum output_finish output_finish(const struct output *output);
/* Ids taken so far: the n_out of the price. */
uint64_t output_count(const struct output *output);
/* Of these, the ids of reasoning with its markers; of output_next only. */
uint64_t output_reasoning_count(const struct output *output);
/* "stop", "length" or "tool_calls"; NULL while going. */
const char *output_finish_name(enum output_finish finish);

#endif
