/* home.h - the agent's state folder: who it is and what it must remember.
 *
 * The folder is made 0700, nobody else may write in it, and every file is
 * 0600.  Each file is written whole, through
 * a temporary one.  The identity exists from the moment node.id does; a renewed
 * certificate counts from the moment node.crt.next does. */
#ifndef BERTH_NODE_AGENT_HOME_H
#define BERTH_NODE_AGENT_HOME_H

#include <stdbool.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "common/cert.h"
#include "common/error.h"

enum {
    HOME_PATH_BYTES = 4096,
    HOME_FILE_BYTES = HOME_PATH_BYTES + 64,
    HOME_FILE_MAX_BYTES = 1024 * 1024,
    HOME_HOST_BYTES = 256,
};

struct home {
    char path[HOME_PATH_BYTES]; /* absolute */
};

/* Take the folder as it is; a missing one is made when @make, else it is an
 * empty home.  STATUS_INVALID for one that others may write in. */
MUST_CHECK enum status home_open(const char *path, bool make, struct home *home,
                                 struct error *err);
/* Take the folder for this process until it ends: STATUS_CONFLICT when another
 * agent runs in it. */
MUST_CHECK enum status home_lock(const struct home *home, struct error *err);
/* "<home>/<name>" in @path. Returns @path. */
const char *home_file(const struct home *home, const char *name,
                      char path[static HOME_FILE_BYTES]);

bool home_has(const struct home *home, const char *name);
/* @text is initialised here and cleared by the caller, also on failure. */
MUST_CHECK enum status home_read(const struct home *home, const char *name,
                                 struct buf *text, struct error *err);
MUST_CHECK enum status home_write(const struct home *home, const char *name,
                                  const void *bytes, size_t size,
                                  struct error *err);
void home_remove(const struct home *home, const char *name);

/* The highest epoch seen; 0 when none was. */
uint64_t home_epoch(const struct home *home);
void home_epoch_set(const struct home *home, uint64_t epoch);

/* "host:port", "[v6]:port". */
MUST_CHECK enum status home_link_parse(const char *text,
                                       char host[static HOME_HOST_BYTES],
                                       uint16_t *port, struct error *err);

/* What join left. */
struct identity {
    char node[UUID_TEXT_BYTES];
    char host[HOME_HOST_BYTES]; /* of the coordinator's link */
    uint16_t port;
    char profile[HOME_PATH_BYTES]; /* "" unless simulated */
    struct buf ca, cert, key;      /* PEM */
};

/* STATUS_NOT_FOUND with what to do when the home has not joined. */
MUST_CHECK enum status identity_read(const struct home *home,
                                     struct identity *identity,
                                     struct error *err);
void identity_clear(struct identity *identity);
/* Write a new identity over whatever there was. */
MUST_CHECK enum status identity_write(const struct home *home,
                                      const struct identity *identity,
                                      struct error *err);
/* Put a renewed certificate with its key in place of the old pair: a crash at
 * any point leaves one whole pair, which identity_read finds. */
MUST_CHECK enum status identity_renew(const struct home *home,
                                      const struct buf *cert,
                                      const struct buf *key, struct error *err);

#endif
