/* engines.h - the engines of this machine, the memory they share and the jobs
 * they run.
 *
 * One engine per model, started by the first job that needs it and kept warm.
 * An idle engine makes room for another model, the longest unused first.
 * Frames of jobs pass through unchanged both ways.  Belongs to the loop's
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
#include "node-agent/jobs.h"
#include "node-agent/memory.h"
#include "node-agent/models.h"

struct engines;

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
    uint64_t threads;
    uint64_t slots;
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
                    const struct wire_job_cancel *cancel, const void *frame,
                    size_t size);

/* Answer job.fail, and forget what has come for the job. */
void engines_refuse(struct engines *engines, const char *job, uint32_t attempt,
                    const char *code, const char *text);
/* End every job at its engine; with a @code, job.fail goes up for each. */
void engines_end_jobs(struct engines *engines, uint64_t epoch, const char *code,
                      const char *text);
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
