/* dev.h - `berth-coordinator --dev DIR`: a private PostgreSQL, a CA and
 * certificates in DIR, for developers, tests and the demo.
 *
 * The cluster listens on a unix socket only.  When the process runs as root
 * (initdb refuses root) or DIR's path is too long for a socket or not readable
 * by the unprivileged user, cluster and socket live elsewhere and DIR names
 * the place.  A second dev_open of the same DIR reuses everything.  A watcher
 * thread restarts the server when it dies. */
#ifndef BERTH_COORDINATOR_DEV_H
#define BERTH_COORDINATOR_DEV_H

#include "common/attrs.h"
#include "common/error.h"
#include "coordinator/config.h"

struct dev;

/* Create or reuse DIR (0700) and start PostgreSQL; fills @config's database,
 * ca_*, certificate*, content_keys, dev, addresses (127.0.0.1); ports are left
 * to the caller.  STATUS_CONFLICT when another live coordinator uses DIR. */
MUST_CHECK enum status dev_open(const char *dir, struct config *config,
                                struct dev **dev, struct error *err);
/* Stop PostgreSQL (fast) and the watcher. */
void dev_close(struct dev *dev);

/* DIR/env: BERTH_URL, BERTH_CA_FILE, BERTH_API_KEY, single-quoted, 0600, by
 * rename.  Reading gives "" for a key that is not there. */
MUST_CHECK enum status dev_env_write(const struct dev *dev, const char *url,
                                     const char *api_key, struct error *err);
MUST_CHECK enum status dev_env_key(const struct dev *dev, char *api_key,
                                   size_t api_key_size, struct error *err);

#endif
