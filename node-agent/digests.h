/* digests.h - digests of model folders, remembered between starts.
 *
 * A folder's fingerprint covers name, size, change time and inode of every file
 * that belongs to a model.  Not for several threads. */
#ifndef BERTH_NODE_AGENT_DIGESTS_H
#define BERTH_NODE_AGENT_DIGESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/cert.h"
#include "common/error.h"
#include "common/wire.h"
#include "node-agent/config.h"

struct digest_row {
    char path[CONFIG_PATH_BYTES];
    char fingerprint[SHA256_HEX_BYTES];
    char digest[SHA256_HEX_BYTES];
};

struct digests {
    struct digest_row rows[WIRE_MODELS_MAX];
    size_t count;
};

/* A missing or damaged file gives an empty table: digests are then computed
 * again. */
void digests_read(const char *path, struct digests *digests);
MUST_CHECK enum status digests_write(const char *path,
                                     const struct digests *digests,
                                     struct error *err);

/* Fingerprint of the folder @path now, and the bytes of its model files. */
MUST_CHECK enum status digests_fingerprint(const char *path,
                                           char text[static SHA256_HEX_BYTES],
                                           uint64_t *bytes, struct error *err);
/* The digest of @path when its fingerprint is still @fingerprint, else NULL. */
const char *digests_find(const struct digests *digests, const char *path,
                         const char *fingerprint);
/* Dropped silently past the table's end: computed again next time. */
void digests_add(struct digests *digests, const char *path,
                 const char *fingerprint, const char *digest);

#endif
