/* agent_states.h - the agent's transition table, for agent.c. */
#ifndef BERTH_NODE_AGENT_AGENT_STATES_H
#define BERTH_NODE_AGENT_AGENT_STATES_H

#include "node-agent/agent.h"

enum agent_action {
    AGENT_ANNOUNCE,  /* tell the coordinator */
    AGENT_GIVE_BACK, /* free the memory at once, then tell */
    AGENT_ACTION_COUNT
};

struct agent_transition {
    enum agent_state from;
    enum agent_event event;
    enum agent_state to;
    enum agent_action action;
};

/* NULL when the event changes nothing in that state. */
const struct agent_transition *agent_transition_find(enum agent_state from,
                                                     enum agent_event event);

#endif
