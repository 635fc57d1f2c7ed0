/* announce.h - what the coordinator is told: hello, state, models.
 *
 * Fills messages from a view of the agent.  Belongs to the loop's thread. */
#ifndef BERTH_NODE_AGENT_ANNOUNCE_H
#define BERTH_NODE_AGENT_ANNOUNCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire.h"
#include "node-agent/engines.h"
#include "node-agent/models.h"
#include "node-agent/probe.h"

struct announce_view {
    const char *state;
    const char *node;
    uint64_t epoch; /* highest seen */
    uint64_t slots;
    bool is_paused;
    bool is_drained;
    bool coordinator_drains;
    const struct probe *probe;
    const struct models *models;
    const struct engines *engines;
};

void announce_state_fill(const struct announce_view *view,
                         struct wire_state *state);
/* @rows holds WIRE_MODELS_MAX. Returns how many were filled. */
size_t announce_models_fill(const struct announce_view *view,
                            struct wire_model *rows);
void announce_hello_fill(const struct announce_view *view,
                         struct wire_hello *hello);

#endif
