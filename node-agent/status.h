/* status.h - what `berth-node status` shows, for people and for programs.
 *
 * No prompt, answer or token id is in it. */
#ifndef BERTH_NODE_AGENT_STATUS_H
#define BERTH_NODE_AGENT_STATUS_H

#include <stdbool.h>

#include "common/buf.h"
#include "common/wire.h"
#include "node-agent/catalogue.h"
#include "node-agent/engines.h"
#include "node-agent/link.h"
#include "node-agent/models.h"

struct status_view {
    const char *state;
    const char *node;
    const char *name;        /* "" before the first welcome */
    const char *coordinator; /* host:port */
    bool simulated;
    const struct link *link;
    const struct models *models;
    const struct known_models *known; /* to the coordinator */
    const struct engines *engines;
    const struct wire_state *announced; /* state and reasons */
};

void status_write_json(const struct status_view *view, struct buf *out);
void status_write_text(const struct status_view *view, struct buf *out);

#endif
