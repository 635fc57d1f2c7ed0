/* sse.h - a job's record as a stream of server-sent events.
 *
 * Read by one HTTP thread, which is never held up: with nothing to read the
 * connection is suspended until the record wakes it.  The formats are those of
 * chat and text completions, and the event list of /api/v1/jobs/{id}/events. */
#ifndef BERTH_COORDINATOR_SSE_H
#define BERTH_COORDINATOR_SSE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/buf.h"
#include "coordinator/answer.h"
#include "coordinator/http.h"
#include "coordinator/record.h"

enum { SSE_OVER = -1 };

struct sse_options {
    bool events; /* the event list, else chunks of @answer and [DONE] */
    struct answer answer;
    size_t first; /* index of the first event to send */
    /* A /v1 job, which does not outlive its reader: cancelled when the stream
     * goes before the job's end.  "" : nothing is cancelled. */
    char job[UUID_TEXT_BYTES];
};

/* Keeps a reference to @record; @request is kept for as long as its
 * connection reads. */
struct sse *sse_new(struct request *request, struct record *record,
                    const struct sse_options *options);
void sse_free(struct sse *sse);

/* Append what the events at hand say to @out; false: none is at hand.  True
 * with nothing appended: the stream is over. */
bool sse_next(struct sse *sse, struct buf *out);

/* At most @max bytes; 0: the connection is suspended until there is more;
 * SSE_OVER: there will be no more. On the connection's HTTP thread. */
ssize_t sse_read(struct sse *sse, char *bytes, size_t max);

/* Make an event list that waits write a comment, from any thread: what is sent
 * to a client that left comes back as an error, and the connection ends.
 * True: the caller resumes the connection. */
bool sse_nudge(struct sse *sse);

/* End it at once, from any thread, when it waits: true: the caller resumes the
 * connection.  To be repeated until the connection waits no more. */
bool sse_stop(struct sse *sse);

#endif
