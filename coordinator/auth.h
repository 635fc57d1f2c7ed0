/* auth.h - which key a request shows, and whether its scopes reach.
 *
 * Keys are compared by digest; the text of a key is never kept or logged.
 * Safe from any thread. */
#ifndef BERTH_COORDINATOR_AUTH_H
#define BERTH_COORDINATOR_AUTH_H

#include <stdint.h>

#include "common/attrs.h"
#include "common/error.h"
#include "common/units.h"
#include "coordinator/snapshot.h"

/* @authorization is the header's value, NULL when absent; one bit of @scopes
 * is enough.  @key is written on STATUS_OK only.
 *
 * STATUS_UNKNOWN_CALLER: none, unknown, revoked or expired (code
 * invalid_api_key); STATUS_DENIED: the key has none of the scopes, which the
 * text names. */
MUST_CHECK enum status auth_check(const struct identity_view *view,
                                  const char *authorization, uint32_t scopes,
                                  struct instant now, struct key_view *key,
                                  struct error *err);

#endif
