/* dev_certs.h - the CA and the server certificate of `--dev`.
 *
 * Private to the coordinator. */
#ifndef BERTH_COORDINATOR_DEV_CERTS_H
#define BERTH_COORDINATOR_DEV_CERTS_H

#include "common/attrs.h"
#include "common/error.h"

/* Make what is missing of ca.crt, ca.key, server.crt, server.key in the folder
 * @dir; the server's pair is made anew in the last third of its life.  Agents
 * pin the CA, so a CA certificate without its key is STATUS_INVALID rather
 * than replaced. */
MUST_CHECK enum status dev_certs_prepare(const char *dir, struct error *err);

#endif
