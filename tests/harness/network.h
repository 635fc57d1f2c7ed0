/* network.h - a whole network for one test: PostgreSQL and coordinator by
 * `--dev` in a temporary folder, agents, on ports that the kernel chooses.
 *
 *   struct network network;
 *   network_start(&network, &(struct network_options){.agents = 2}, &err);
 *   ...
 *   network_stop(&network, failed);
 *
 * Everything that a function waits for is a condition, never a time.  Nothing
 * is left when the test program ends, in whatever way.  One thread at a time.
 */
#ifndef BERTH_TESTS_HARNESS_NETWORK_H
#define BERTH_TESTS_HARNESS_NETWORK_H

#include <stdbool.h>
#include <stddef.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "common/error.h"
#include "tests/harness/process.h"

enum {
    NETWORK_AGENTS_MAX = 8,
    NETWORK_URL_BYTES = 256,
    NETWORK_KEY_BYTES = 256,
    NETWORK_PORT_BYTES = 8,
    NETWORK_OUTPUT_MAX_BYTES = 4 * 1024 * 1024,
};

struct network_options {
    size_t agents; /* node-1, node-2, ... */
    /* Owner of each agent by account name, as many as agents; NULL: alice
     * owns all. */
    const char *const *owners;
    /* Model folders for the catalogue, NULL after the last; NULL: the three of
     * tests/models.  The agents are given the folders themselves. */
    const char *const *models;
    /* More lines for every agent's configuration file, or NULL. */
    const char *agent_config;
    /* --profile of every agent, or NULL. */
    const char *profile;
};

struct network {
    char folder[PROCESS_PATH_BYTES];
    char programs[PROCESS_PATH_BYTES]; /* of the same build as the test */
    char url[NETWORK_URL_BYTES];
    char ca_file[PROCESS_PATH_BYTES];
    char api_key[NETWORK_KEY_BYTES];
    char https_port[NETWORK_PORT_BYTES];
    char link_port[NETWORK_PORT_BYTES];
    struct process_guard guard;
    struct process coordinator;
    struct process agents[NETWORK_AGENTS_MAX];
    size_t agent_count;
    size_t model_count; /* in the catalogue */
};

/* Start everything and wait until a chat request would succeed for every model
 * (without agents: until the API answers).  On failure the logs are printed
 * and nothing is left.  BERTH_BIN names the folder of the programs; default
 * build/bin. */
MUST_CHECK enum status network_start(struct network *network,
                                     const struct network_options *options,
                                     struct error *err);
/* End agents and coordinator by process id and remove the folder; with
 * @failed the ends of all logs are printed first. */
void network_stop(struct network *network, bool failed);

/* Run `berth` with the words of @argv (NULL after the last) as administrator;
 * its standard output is appended to @out. */
MUST_CHECK enum status network_berth(const struct network *network,
                                     const char *const *argv, struct buf *out,
                                     struct error *err);

/* Start or end one part, for tests of what happens then.  An agent or a
 * coordinator that was ended comes back with its state; the coordinator gets
 * the ports it had. */
MUST_CHECK enum status network_agent_start(struct network *network,
                                           size_t index, struct error *err);
void network_agent_end(struct network *network, size_t index, int signal);
MUST_CHECK enum status network_coordinator_start(struct network *network,
                                                 struct error *err);
void network_coordinator_end(struct network *network, int signal);

/* Poll @holds until it is true; STATUS_INTERNAL naming @what after 120 s or
 * when a part that should run has ended. */
MUST_CHECK enum status network_wait(struct network *network, const char *what,
                                    bool (*holds)(const struct network *network,
                                                  void *arg),
                                    void *arg, struct error *err);
/* All agents that run are lending and all models are offered. */
MUST_CHECK enum status network_wait_ready(struct network *network,
                                          struct error *err);

#endif
