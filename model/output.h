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
#include "model/tokenizer.h"

enum { OUTPUT_STOPS_MAX = 16, OUTPUT_STOP_BYTES = 512 };

enum output_finish {
    OUTPUT_GOING,
    OUTPUT_STOP,   /* an end token or a stop string */
    OUTPUT_LENGTH, /* max_tokens */
};

/* What of the request decides the events. */
struct output_rules {
    uint64_t max_tokens; /* > 0; of all attempts together */
    uint32_t end_ids[16];
    size_t end_id_count;
    char stop[OUTPUT_STOPS_MAX][OUTPUT_STOP_BYTES];
    size_t stop_count;
};

struct output;

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
enum output_finish output_finish(const struct output *output);
/* Ids taken so far: the n_out of the price. */
uint64_t output_count(const struct output *output);
/* "stop" or "length"; NULL while going. */
const char *output_finish_name(enum output_finish finish);

#endif
