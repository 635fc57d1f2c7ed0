/* jobs.h - the attempts this node knows: those whose input is arriving, those
 * waiting for an engine and those running.
 *
 * Belongs to the loop's thread. */
#ifndef BERTH_NODE_AGENT_JOBS_H
#define BERTH_NODE_AGENT_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "common/cert.h"
#include "common/error.h"
#include "common/units.h"
#include "common/wire.h"
#include "node-agent/ids.h"

struct engine;

enum {
    JOBS_MAX = 256,
    /* A million ids of seven digits and their frames. */
    JOB_INPUT_MAX_BYTES = 16 * 1024 * 1024,
    JOBS_INPUT_MAX_BYTES = 128 * 1024 * 1024, /* of all jobs together */
    /* Ids of answers, of all jobs together; ended ones have HELD_MAX_BYTES. */
    JOBS_IDS_MAX_BYTES = 48 * 1024 * 1024,
};

/* What of a job may go up on the link that is up. */
enum job_binding {
    JOB_UNBOUND, /* nothing: the coordinator has not asked for it */
    JOB_MUTE,    /* its end: it was cancelled without having been asked for */
    JOB_BOUND,   /* everything: job.run or job.resume came on this link */
};

struct job {
    char id[UUID_TEXT_BYTES];
    uint32_t attempt;
    char model[WIRE_NAME_BYTES]; /* "" until job.run has come */
    uint64_t kv_tokens;
    struct engine *engine; /* NULL until job.run has come */
    bool sent;             /* the engine has it */
    enum job_binding binding;
    struct span lost_at; /* while unbound: when the link was lost */
    uint64_t epoch;      /* of its job.run */
    struct ids ids;      /* of the whole answer */
    uint64_t done;       /* so many of them came with its input */
    struct buf frames;   /* not yet sent to the engine */
    struct job *next;
};

struct jobs {
    struct job *first;
    size_t count;
};

void jobs_init(struct jobs *jobs);
void jobs_clear(struct jobs *jobs);
/* NULL when unknown. @attempt 0 finds any attempt. */
struct job *jobs_find(const struct jobs *jobs, const char *id,
                      uint32_t attempt);
/* STATUS_NO_CAPACITY at JOBS_MAX. */
MUST_CHECK enum status jobs_add(struct jobs *jobs, const char *id,
                                uint32_t attempt, struct job **job,
                                struct error *err);
/* Unlink and free. */
void jobs_remove(struct jobs *jobs, struct job *job);
/* Keep a frame until an engine can take it. STATUS_TOO_LARGE past a limit. */
MUST_CHECK enum status jobs_keep(struct jobs *jobs, struct job *job,
                                 const void *frame, size_t size,
                                 struct error *err);
/* More ids of its answer. STATUS_TOO_LARGE past a limit. */
MUST_CHECK enum status jobs_add_ids(struct jobs *jobs, struct job *job,
                                    const uint32_t *ids, size_t count,
                                    struct error *err);
/* Jobs of @engine; of any engine for NULL. */
size_t jobs_count_of(const struct jobs *jobs, const struct engine *engine);

#endif
