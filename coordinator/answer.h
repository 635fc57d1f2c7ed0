/* answer.h - bodies and chunks of OpenAI's chat and text completions.
 *
 * Pure: writes JSON, keeps nothing.  Safe from any thread. */
#ifndef BERTH_COORDINATOR_ANSWER_H
#define BERTH_COORDINATOR_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/cert.h"
#include "common/json.h"
#include "coordinator/message.h"
#include "coordinator/record.h"
#include "model/catalogue.h"

enum { ANSWER_ID_BYTES = 48 };

/* What is the same in every chunk of one answer. */
struct answer {
    char id[ANSWER_ID_BYTES]; /* chatcmpl-<hex> or cmpl-<hex> */
    bool chat;
    bool usage;      /* the client asked for it: chunks carry "usage": null */
    int64_t created; /* seconds since 1970 */
    char model[CATALOGUE_ID_BYTES];
};

/* Id and created follow from the job's id (a UUIDv7). */
void answer_init(struct answer *answer, const char *job, bool chat,
                 const char *model);

/* The whole answer; @end gives finish reason and usage. */
void answer_body(const struct answer *answer, const struct message *message,
                 const struct record_end *end, struct buf *out);

/* JSON texts of chunks, appended. */
void answer_first(const struct answer *answer, struct buf *out); /* chat only */
/* One event with text: content, reasoning, a call or its arguments. */
void answer_event(const struct answer *answer, const struct record_event *event,
                  const char *text, struct buf *out);
void answer_finish(const struct answer *answer, const char *finish,
                   struct buf *out);
/* choices [] and the totals. */
void answer_usage(const struct answer *answer, const struct record_end *end,
                  struct buf *out);

/* A usage object; of @end the counts are read. */
void answer_usage_put(struct json_out *out, const struct record_end *end);

#endif
