/* agent_states.c - the agent's transition table. */
#include "node-agent/agent_states.h"

#include <assert.h>

#include "common/banned.h"

static const struct agent_transition transitions[] = {
    {AGENT_LENDING, AGENT_JOB_BEGUN, AGENT_BUSY, AGENT_ANNOUNCE},
    {AGENT_LENDING, AGENT_PAUSE, AGENT_PAUSED, AGENT_GIVE_BACK},
    {AGENT_LENDING, AGENT_DRAIN, AGENT_DRAINING, AGENT_ANNOUNCE},
    {AGENT_BUSY, AGENT_JOBS_ENDED, AGENT_LENDING, AGENT_ANNOUNCE},
    {AGENT_BUSY, AGENT_PAUSE, AGENT_PAUSED, AGENT_GIVE_BACK},
    {AGENT_BUSY, AGENT_DRAIN, AGENT_DRAINING, AGENT_ANNOUNCE},
    {AGENT_DRAINING, AGENT_PAUSE, AGENT_PAUSED, AGENT_GIVE_BACK},
    {AGENT_DRAINING, AGENT_RESUME, AGENT_LENDING, AGENT_ANNOUNCE},
    {AGENT_DRAINING, AGENT_RESUME_BUSY, AGENT_BUSY, AGENT_ANNOUNCE},
    {AGENT_PAUSED, AGENT_RESUME, AGENT_LENDING, AGENT_ANNOUNCE},
};

static const char *const state_names[AGENT_STATE_COUNT] = {
    [AGENT_LENDING] = "lending",
    [AGENT_BUSY] = "busy",
    [AGENT_PAUSED] = "paused",
    [AGENT_DRAINING] = "draining",
};

static const char *const event_names[AGENT_EVENT_COUNT] = {
    [AGENT_JOB_BEGUN] = "job begun", [AGENT_JOBS_ENDED] = "jobs ended",
    [AGENT_PAUSE] = "pause",         [AGENT_DRAIN] = "drain",
    [AGENT_RESUME] = "resume",       [AGENT_RESUME_BUSY] = "resume with jobs",
};

static const char *const action_names[AGENT_ACTION_COUNT] = {
    [AGENT_ANNOUNCE] = "announce",
    [AGENT_GIVE_BACK] = "end jobs, kill engines, announce",
};

const struct agent_transition *
agent_transition_find(enum agent_state from, enum agent_event event)
{
    for (size_t i = 0; i < COUNT_OF(transitions); i++)
        if (transitions[i].from == from && transitions[i].event == event)
            return &transitions[i];
    return NULL;
}

bool
agent_edge(enum agent_state from, enum agent_event event, enum agent_state *to)
{
    const struct agent_transition *found = agent_transition_find(from, event);

    if (found == NULL)
        return false;
    *to = found->to;
    return true;
}

const char *
agent_state_name(enum agent_state state)
{
    assert(state < AGENT_STATE_COUNT);
    return state_names[state];
}

void
agent_states_print(struct buf *out)
{
    buf_append_text(out, "| from | event | to | what happens |\n"
                         "|---|---|---|---|\n");
    for (size_t i = 0; i < COUNT_OF(transitions); i++)
        buf_printf(
            out, "| %s | %s | %s | %s |\n", state_names[transitions[i].from],
            event_names[transitions[i].event], state_names[transitions[i].to],
            action_names[transitions[i].action]);
}
