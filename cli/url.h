/* url.h - the coordinator's address, and paths and queries under it. */
#ifndef BERTH_CLI_URL_H
#define BERTH_CLI_URL_H

#include <stdbool.h>
#include <stddef.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "common/error.h"

/* https always; http only for a loopback host, where nobody can listen in.
 * Writes @text without trailing slashes to @url; @is_plain tells http.
 * STATUS_INVALID says what is wrong with it. */
MUST_CHECK enum status cli_url_check(const char *text, char *url,
                                     size_t url_size, bool *is_plain,
                                     struct error *err);

/* Append @text percent-encoded (RFC 3986, all but unreserved); slashes stay
 * when @slashes is true. */
void cli_url_escape(struct buf *buf, const char *text, bool slashes);
/* Append "?name=value" or "&name=value" as @buf needs; nothing when @value is
 * NULL. */
void cli_url_query(struct buf *buf, const char *name, const char *value);

#endif
