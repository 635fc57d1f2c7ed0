/* agent.h - the agent: what it lends, to whom it answers, when it stops.
 *
 * Its states and what moves between them are one table.  Everything runs on one
 * libevent loop; nothing here blocks. */
#ifndef BERTH_NODE_AGENT_AGENT_H
#define BERTH_NODE_AGENT_AGENT_H

#include <stdbool.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "common/error.h"
#include "node-agent/config.h"
#include "node-agent/home.h"
#include "node-agent/probe.h"

struct event_base;
struct agent;

enum agent_state {
    AGENT_LENDING,  /* no job runs */
    AGENT_BUSY,     /* jobs run; more may come */
    AGENT_PAUSED,   /* the owner wants the machine */
    AGENT_DRAINING, /* running jobs end; no more are taken */
    AGENT_STATE_COUNT
};

enum agent_event {
    AGENT_JOB_BEGUN,
    AGENT_JOBS_ENDED,
    AGENT_PAUSE,
    AGENT_DRAIN,
    AGENT_RESUME,      /* while no job runs */
    AGENT_RESUME_BUSY, /* while jobs run */
    AGENT_EVENT_COUNT
};

struct agent_setup {
    struct event_base *base;           /* kept */
    const struct home *home;           /* kept; joined and locked */
    const struct agent_config *config; /* kept */
    const struct probe *probe;         /* copied */
    const char *engine;                /* program, kept */
};

/* STATUS_NOT_FOUND when the home has not joined a network. */
MUST_CHECK enum status agent_new(const struct agent_setup *setup,
                                 struct agent **agent, struct error *err);
void agent_free(struct agent *agent);
/* Connect, look for models, answer the owner. */
void agent_start(struct agent *agent);
/* Begin an orderly stop: jobs fail, engines end, the loop is left.  A second
 * call leaves at once. */
void agent_stop(struct agent *agent);
/* Did the coordinator send it away for good? */
bool agent_was_refused(const struct agent *agent);

/* Where the table leads; false when there is no edge. */
bool agent_edge(enum agent_state from, enum agent_event event,
                enum agent_state *to);
const char *agent_state_name(enum agent_state state);
/* The table in Markdown, for docs/architecture.md. */
void agent_states_print(struct buf *out);

#endif
