/* dev_cluster.h - the private PostgreSQL server of `--dev`: made, started,
 * watched, stopped.
 *
 * The server listens on a unix socket in a 0700 folder and nowhere else, so
 * who may enter that folder may connect; it asks for no password.  A thread of
 * its own starts the server, starts it again when it dies, and stops it.  The
 * server and its children hold a file lock as long as one of them lives: that,
 * not a number in a file, says whether a server of the cluster is running.
 * Private to the coordinator. */
#ifndef BERTH_COORDINATOR_DEV_CLUSTER_H
#define BERTH_COORDINATOR_DEV_CLUSTER_H

#include "common/attrs.h"
#include "common/error.h"
#include "coordinator/dev_place.h"

struct dev_cluster;

/* Make the cluster if there is none, end a server left by a killed
 * coordinator, start one and wait until it takes connections. */
MUST_CHECK enum status dev_cluster_open(const struct dev_place *place,
                                        struct dev_cluster **cluster,
                                        struct error *err);
/* Stop the server: fast, after 10 s at once.  NULL is nothing. */
void dev_cluster_close(struct dev_cluster *cluster);

#endif
