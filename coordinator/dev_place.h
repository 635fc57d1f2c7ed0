/* dev_place.h - where the private PostgreSQL of `--dev` lives: its programs,
 * its user, its data folder and its socket folder.
 *
 * An ordinary user's cluster is DIR/postgresql.  Root's is a folder of the
 * user postgres under /var/lib/berth-dev, since that user can enter neither
 * DIR (0700) nor often what is above it.  Where that path is too long or too
 * odd for a socket, the socket gets a short private folder made for this run.
 * DIR/cluster names both, a line each.  Private to the coordinator. */
#ifndef BERTH_COORDINATOR_DEV_PLACE_H
#define BERTH_COORDINATOR_DEV_PLACE_H

#include <stdbool.h>

#include "common/attrs.h"
#include "common/error.h"
#include "coordinator/config.h"
#include "coordinator/dev_process.h"

enum { DEV_SOCKET_FOLDER_BYTES = 80, DEV_PORT = 5432 };

struct dev_place {
    char dir[CONFIG_PATH_BYTES]; /* absolute, without links */
    char folder[CONFIG_PATH_BYTES];
    char data[CONFIG_PATH_BYTES]; /* folder/data */
    char lock[CONFIG_PATH_BYTES]; /* folder.lock: held by the server itself */
    char socket[DEV_SOCKET_FOLDER_BYTES];
    bool socket_apart; /* made for this run, removed at its end */
    char programs[CONFIG_PATH_BYTES]; /* folder of initdb and postgres */
    struct dev_user user;
};

/* Fill @place for the absolute folder @dir (0700, ours), making folders that
 * are missing, and write DIR/cluster.  The caller holds DIR's lock. */
MUST_CHECK enum status dev_place_prepare(const char *dir,
                                         struct dev_place *place,
                                         struct error *err);
/* Remove the socket folder that was made for this run. */
void dev_place_leave(const struct dev_place *place);

/* @format as a path; STATUS_TOO_LARGE when @size does not hold it. */
MUST_CHECK enum status dev_path(char *path, size_t size, struct error *err,
                                const char *format, ...) PRINTF_LIKE(4, 5);

#endif
