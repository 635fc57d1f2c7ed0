/* engines_private.h - what engines.c and engines_held.c share. */
#ifndef BERTH_NODE_AGENT_ENGINES_PRIVATE_H
#define BERTH_NODE_AGENT_ENGINES_PRIVATE_H

#include "node-agent/engines.h"

struct event;

struct engines {
    struct engines_setup setup;
    struct engine_setup engine_setup;
    struct engine *first;
    unsigned count;
    struct jobs jobs;      /* those that have not ended */
    struct held held;      /* those that have */
    struct event *advance; /* runs soon: starts what can start */
    struct event *watch;   /* each second while there are jobs */
    struct span watched;   /* when it ran last */
    bool stopping;         /* nothing starts any more */
    size_t model_count;    /* that jobs may come for */
};

/* Take the job out of the table; @frame is its end, kept until it is
 * acknowledged.  That of one whose job.run was not taken is not kept: whoever
 * sent that asks again. */
void engines_end_with(struct engines *engines, struct job *job,
                      const void *frame, size_t size);
/* End a job that has not ended, with a job.fail of the agent's own. */
void engines_end(struct engines *engines, struct job *job, const char *code,
                 const char *text);
/* The same for one that the engine may be working on. */
void engines_break_off(struct engines *engines, struct job *job,
                       const char *code, const char *text);
/* Answer with a job.fail that is not kept. */
void engines_answer_fail(struct engines *engines, const char *job,
                         uint32_t attempt, uint64_t ids, const char *code,
                         const char *text);
/* Tell the engine to stop the attempt; its answer ends it. */
void engines_stop_job(struct engines *engines, struct job *job,
                      const char *reason);
/* Look at engines and jobs once a second from now on, while there are jobs. */
void engines_watch_begin(struct engines *engines);
void engines_on_watch(int fd, short what, void *arg);

#endif
