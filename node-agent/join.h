/* join.h - becoming a node of a network, once per home.
 *
 * Blocks; a command of its own. */
#ifndef BERTH_NODE_AGENT_JOIN_H
#define BERTH_NODE_AGENT_JOIN_H

#include <stddef.h>

#include "common/attrs.h"
#include "common/cert.h"
#include "common/error.h"
#include "node-agent/home.h"

enum { JOIN_TOKEN_BYTES = 512 };

struct join_request {
    const char *url;     /* https://host:port of the coordinator's API */
    const char *token;   /* "id.secret.sha256-of-CA-key" */
    const char *name;    /* NULL: the coordinator draws one */
    const char *profile; /* folder of recorded outputs; NULL: none */
};

/* Fetch the network's CA, trust it only when its key is the token's, and get a
 * certificate from it.  The home is written once all is there; @name and the
 * node id are for people. */
MUST_CHECK enum status join_network(const struct home *home,
                                    const struct join_request *request,
                                    char *name, size_t name_size,
                                    char node[static UUID_TEXT_BYTES],
                                    struct error *err);

#endif
