/* engines.h - the engines of this machine, the memory they share and the jobs
 * they run.
 *
 * One engine per model, started by the first job that needs it and kept warm.
 * An idle engine makes room for another model, the longest unused first.
 * Frames of jobs pass through unchanged both ways.
 *
 * A job goes on while the link is down, and its end is kept until it is
 * acknowledged.  After a loss nothing of it goes up before it was asked for on
 * the new link (docs/link-protocol.md, After a loss).  Belongs to the loop's
 * thread. */
#ifndef BERTH_NODE_AGENT_ENGINES_H
#define BERTH_NODE_AGENT_ENGINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/units.h"
#include "common/wire.h"
#include "node-agent/engine.h"
#include "node-agent/held.h"
#include "node-agent/jobs.h"
#include "node-agent/memory.h"
#include "node-agent/models.h"

struct engines;

enum {
    ENGINES_UNASKED_S = 300, /* a job that nobody asks for runs so long */
};

struct engines_hooks {
    /* A whole frame for the coordinator. */
    void (*on_frame)(void *arg, const void *frame, size_t size);
    /* The number of jobs with an engine has changed. */
    void (*on_jobs)(void *arg);
    /* What is loaded has changed. */
    void (*on_loaded)(void *arg);
    /* Free memory of the machine now; false when it cannot be told. */
    bool (*free_bytes)(uint64_t *bytes);
    void *arg;
};

struct engines_setup {
    struct event_base *base;
    const char *program;       /* kept */
    const char *socket_folder; /* kept */
    const char *log_folder;    /* kept */
    const char *journal;       /* path */
    uint64_t threads;
    uint64_t slots;
    uint64_t silence_s; /* of an engine with jobs, before it is killed */
    uint64_t limit_bytes;
    struct engines_hooks hooks;
};

struct engines *engines_new(const struct engines_setup *setup);
/* Kills what still runs. */
void engines_free(struct engines *engines);

/* How many models lie on this node: a start leaves memory to the others. */
void engines_expect(struct engines *engines, size_t model_count);

/* Frames from the coordinator, already checked for their epoch. @frame is the
 * whole frame. What is refused is answered with job.fail. */
void engines_input(struct engines *engines, const struct wire_job_input *input,
                   const void *frame, size_t size);
void engines_run(struct engines *engines, const struct wire_job_run *run,
                 const struct model_found *model, const void *frame,
                 size_t size);
void engines_cancel(struct engines *engines,
                    const struct wire_job_cancel *cancel);
void engines_resume(struct engines *engines,
                    const struct wire_job_resume *resume);
void engines_ack(struct engines *engines, const struct wire_job_ack *ack);

/* The link is lost: jobs go on, half-sent ones are forgotten. */
void engines_unbind(struct engines *engines);
/* Tell the coordinator what is held, as the first thing on a new link. */
void engines_report(struct engines *engines);
/* Has the attempt begun or ended here?  Then its job.run is an older question
 * asked again, which engines_resume answers. */
bool engines_knows(const struct engines *engines, const char *job,
                   uint32_t attempt);

/* Answer job.fail, and forget what has come for the job.  Nothing for an
 * attempt that is known: that has an end of its own. */
void engines_refuse(struct engines *engines, const char *job, uint32_t attempt,
                    const char *code, const char *text);
/* End every job here and at its engine. */
void engines_end_jobs(struct engines *engines, const char *code,
                      const char *text);
/* Will the ends of all jobs outlive the agent, as far as the disk allows? */
bool engines_are_safe(const struct engines *engines);
/* The node is sent away: no answer stays on its disk. */
void engines_forget(struct engines *engines);
/* Stop every engine; @at_once kills, to give memory back. */
void engines_stop(struct engines *engines, bool at_once);
/* A child ended. */
void engines_reap(struct engines *engines);

/* Jobs waiting for an engine or running on one. */
size_t engines_job_count(const struct engines *engines);
/* Does any process still run? */
bool engines_are_running(const struct engines *engines);
/* Memory a new load could take now. */
uint64_t engines_room(const struct engines *engines);

const struct jobs *engines_jobs(const struct engines *engines);
/* The engine of a model; NULL when none was ever started. */
const struct engine *engines_of(const struct engines *engines,
                                const char *digest);

#endif
