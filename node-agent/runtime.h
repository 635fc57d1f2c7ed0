/* runtime.h - a short private folder for the agent's unix sockets.
 *
 * A socket's path stops at about 104 bytes, and a home may be longer.  The
 * folder is 0700, named in home/control, and removed at the end. */
#ifndef BERTH_NODE_AGENT_RUNTIME_H
#define BERTH_NODE_AGENT_RUNTIME_H

#include "common/attrs.h"
#include "common/error.h"
#include "node-agent/home.h"

enum { RUNTIME_PATH_BYTES = 80 };

struct runtime {
    char path[RUNTIME_PATH_BYTES];
};

/* Also clears away what an agent that was killed has left. */
MUST_CHECK enum status runtime_open(const struct home *home,
                                    struct runtime *runtime, struct error *err);
void runtime_close(const struct home *home, struct runtime *runtime);
/* The folder of the agent that runs with @home; STATUS_NOT_FOUND if none. */
MUST_CHECK enum status runtime_find(const struct home *home,
                                    struct runtime *runtime, struct error *err);

#endif
