/* core.h - the core thread: inventory, queue, placement rounds, the job state
 * machine.  Never blocks, touches no socket and no database.
 *
 * Other threads post commands; everything else here is for the core thread. */
#ifndef BERTH_COORDINATOR_CORE_H
#define BERTH_COORDINATOR_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "common/error.h"
#include "common/wire.h"
#include "coordinator/app.h"
#include "coordinator/job.h"

struct core;

/* STATUS_RETRY: no descriptor or thread is to be had. */
MUST_CHECK enum status core_new(struct app *app, struct core **core,
                                struct error *err);
MUST_CHECK enum status core_start(struct core *core, struct error *err);
/* Stop taking jobs, cancel what cannot outlive this process, and return when
 * every job's end is written or @limit_ms has passed. */
void core_stop(struct core *core, int limit_ms);
void core_free(struct core *core);

/* --- from any thread --- */

/* Run @fn(core, arg) on the core thread, in the order of posting. */
void core_post(struct core *core, void (*fn)(struct core *core, void *arg),
               void *arg);
/* Take a prepared job. Its record tells what becomes of it. */
void core_submit(struct core *core, struct job *job);
/* The same for a job that dies with its client's connection: its socket @fd is
 * watched first, so that no close is missed and no cancel comes before its
 * job.  @fd must stay open until the record has its first event. */
void core_submit_watched(struct core *core, struct job *job, int fd);
/* Cancel; unknown and ended jobs are ignored. */
void core_cancel(struct core *core, const char *job, const char *reason);
/* The same with an answer on the core thread: STATUS_OK once the job's end is
 * written, STATUS_CONFLICT when the job is not live. */
void core_cancel_answer(struct core *core, const char *job, const char *reason,
                        void (*done)(void *arg, enum status status), void *arg);
/* The record of a live or recently ended outliving job, with a reference;
 * NULL when it is not held in memory. */
struct record *core_record(struct core *core, const char *job);

/* From the links thread; @node is the id in the link's certificate and
 * @message is copied as far as its type needs. */
void core_link_message(struct core *core, uint64_t link, const char *node,
                       const struct wire_message *message);
void core_link_down(struct core *core, uint64_t link, const char *node,
                    const char *reason);
void core_output_full(struct core *core, const char *job, uint32_t attempt);
void core_output_broken(struct core *core, const char *job, uint32_t attempt);

/* The server whose waiting event lists are nudged now and then; closed only
 * after core_stop. */
void core_serve(struct core *core, struct http *http);

/* --- on the core thread --- */

struct inventory *core_inventory(struct core *core);
/* Look at the queue again at the end of this turn. */
void core_want_round(struct core *core);

/* The transition table, for docs and tests. */
extern const struct job_transition job_transitions[];
extern const size_t job_transition_count;
void job_transitions_print(struct buf *out);

#endif
