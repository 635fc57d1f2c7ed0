/* config.h - the coordinator's configuration file, with defaults.
 *
 * Secrets are paths to files, never values. Under --dev the same struct is
 * filled by dev.h. */
#ifndef BERTH_COORDINATOR_CONFIG_H
#define BERTH_COORDINATOR_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "common/error.h"

enum { CONFIG_PATH_BYTES = 1024, CONFIG_NAMES_MAX = 16 };

struct config {
    char database[CONFIG_PATH_BYTES]; /* libpq connection string */
    char https_address[64];           /* listen address */
    uint64_t https_port;              /* 0: any free one */
    char link_address[64];
    uint64_t link_port; /* 0: any free one */
    char ca_certificate[CONFIG_PATH_BYTES];
    char ca_key[CONFIG_PATH_BYTES];
    char certificate[CONFIG_PATH_BYTES]; /* of HTTPS and of the link */
    char certificate_key[CONFIG_PATH_BYTES];
    char content_keys[CONFIG_PATH_BYTES]; /* folder of day keys, 0700 */
    char public_url[CONFIG_PATH_BYTES];   /* "" : from address and port */
    uint64_t http_threads;
    uint64_t http_connections_max;
    uint64_t http_connections_per_address;
    uint64_t http_timeout_s;
    uint64_t body_max_bytes;
    uint64_t reader_connections;
    uint64_t retention_s; /* of stored requests and results */
    uint64_t patience_max_ms;
    uint64_t slots_max; /* jobs at once on one node */
    uint64_t beat_s;    /* of agents; three missed close a link */
    uint64_t stall_s;   /* an attempt that says nothing for so long is lost */
    uint64_t adrift_s;  /* a job waits so long for the node that had it */
    uint64_t poison_s;  /* an engine that dies so soon counts against a job */
    bool dev;           /* simulated nodes allowed */
};

void config_defaults(struct config *config);
MUST_CHECK enum status config_read(const char *path, struct config *config,
                                   struct error *err);
/* The same for --dev, which provides paths, addresses and the database. */
MUST_CHECK enum status config_read_dev(const char *path, struct config *config,
                                       struct error *err);
void config_print(const struct config *config, struct buf *out);

#endif
