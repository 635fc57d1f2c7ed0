/* core_private.h - what the files of the core share. Core thread only, except
 * where said. */
#ifndef BERTH_COORDINATOR_CORE_PRIVATE_H
#define BERTH_COORDINATOR_CORE_PRIVATE_H

#include <pthread.h>
#include <stdbool.h>

#include "coordinator/core.h"
#include "coordinator/idmap.h"
#include "coordinator/inventory.h"

struct command {
    struct command *next;
    void (*run)(struct core *core, void *arg);
    void *arg;
};

/* A record kept after its job's end, for readers that come back. */
struct kept_record {
    char job[UUID_TEXT_BYTES];
    struct record *record;
    bool ended;
    size_t bytes; /* once it has ended */
    struct span until;
    struct kept_record *next;
};

struct core {
    struct app *app;
    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* of commands and flags below */
    int wake[2];          /* a byte: there is something to do */
    struct command *first, *last;
    bool quit;
    bool stopping; /* core thread: takes no more jobs */

    struct inventory inventory;
    struct idmap jobs; /* struct job, live or still on a node */
    struct job *queue_first, *queue_last;
    bool want_round;
    struct span fleet_published;
    struct span swept, unanswered_swept;
    struct span round_at; /* look at the queue then, 0: no need */
    struct http *http;    /* NULL before it serves */
    struct span nudged;

    pthread_mutex_t records_lock;
    struct idmap records;                       /* struct kept_record */
    struct kept_record *kept_first, *kept_last; /* ended, oldest first */
    size_t kept_count, kept_bytes;
};

/* core_jobs.c */
void job_step(struct core *core, struct job *job, enum job_event event);
void job_submit(struct core *core, struct job *job);
bool job_cancel(struct core *core, struct job *job, const char *reason);

/* A write whose end comes back as an event of the job. */
struct write *job_write_new(struct core *core, const struct job *job,
                            enum job_event done, enum job_event failed);
/* Tell who waits for it whether the hold is committed; once. */
void job_admitted(struct job *job, const struct error *err);

/* The database has not answered for too long. */
void job_admission_expire(struct core *core, struct job *job);

/* job_queue.c */
/* How long it waits for a target.  One that has begun is not given up for being
 * impatient to begin. */
struct span job_patience(const struct job *job);
void job_queue_append(struct core *core, struct job *job);
void job_queue_remove(struct core *core, struct job *job);
/* Patience, and what was never answered. Returns when to look again. */
struct span jobs_timers(struct core *core, struct span now);

/* job_attempt.c */
struct job_attempt *job_attempt_current(struct job *job);
/* Close the record to the current attempt and note what it did. */
void job_attempt_close(struct job *job, const char *reason);
/* Let no attempt count more than its part of @ids. */
void job_attempts_clamp(struct job *job, uint64_t ids);
/* The current attempt of @job ended early, for @reason. */
void job_lose(struct core *core, struct job *job, const char *reason);
/* @node, that was away, holds the current attempt of a waiting job, which was
 * given @done ids of the answer. */
void job_claim(struct core *core, struct job *job, struct node *node,
               uint64_t done);
/* Actions of the table: send the attempt; ask for its ids again; go on as the
 * next one; give up an attempt of an earlier reign. */
void job_dispatch(struct core *core, struct job *job);
void job_resume(struct core *core, struct job *job);
void job_retry(struct core *core, struct job *job);
void job_forsake(struct core *core, struct job *job);

/* job_place.c */
enum { JOB_WHY_MAX_BYTES = 32 * 1024 };
/* Try to place a job now. On success its attempt is begun (not written) and
 * @why holds the reasons; else as place_choose. */
MUST_CHECK enum status job_place(struct core *core, struct job *job,
                                 struct buf *why, struct error *err);
/* One pass of placement over the queue. */
void jobs_round(struct core *core);
/* @job takes room on @node without a choice: it runs there already. */
void job_join_node(struct core *core, struct job *job, struct node *node);
/* The node has let go of @job. */
void job_leave_node(struct core *core, struct job *job);
/* Free @job when it has ended and no node holds it. */
void job_retire(struct core *core, struct job *job);

/* job_frames.c: job.input parts and job.run, appended. */
void job_frames(const struct job *job, uint32_t attempt, uint64_t epoch,
                struct buf *frames);

/* job_end.c */
/* Settle by what was delivered (or release), end attempts and row as @state,
 * keep the result of a job that outlives its connection: one write. */
void job_end(struct core *core, struct job *job, const char *state,
             const char *finish, const char *reason);

/* core_nodes.c */
void node_message(struct core *core, uint64_t link, const char *id,
                  const struct wire_message *message);
void node_link_down(struct core *core, uint64_t link, const char *id,
                    const char *reason);

/* One frame to a link. */
void node_send(struct core *core, uint64_t link, enum wire_type type,
               const void *body);
/* The agent may forget the end of an attempt. */
void node_ack(struct core *core, uint64_t link, const char *job,
              uint32_t attempt);
/* The digests the network knows, to one link. */
void node_send_catalogue(struct core *core, uint64_t link);
/* Tell a connected node whether it is to drain. */
void node_send_drain(struct core *core, const struct node *node);
/* Its row is gone: jobs go on elsewhere, the link is closed. */
void node_remove(struct core *core, struct node *node);

/* core_held.c */
void node_held(struct core *core, uint64_t link, struct node *node,
               const struct wire_job_held *held);
/* Acknowledge an end: now, or when what hangs on it is written. */
void node_end_acknowledge(struct core *core, uint64_t link,
                          const struct node *node, const char *job,
                          uint32_t attempt);

/* core_records.c */
void records_sweep(struct core *core, struct span now);
void records_add(struct core *core, const char *job, struct record *record);
void records_end(struct core *core, const char *job);
/* Of a job that was never taken. */
void records_forget(struct core *core, const char *job);

#endif
