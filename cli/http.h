/* http.h - requests to the coordinator, on libcurl.
 *
 * TLS is always verified, against the CA file when one is configured and the
 * system's certificates otherwise.  A request that changes nothing twice (GET,
 * or any with an idempotency key) is repeated once when the connection failed
 * or the coordinator answered 503; any other is sent once.  An answer of 400 or
 * more becomes the status of its number with message and code of the error
 * object.  One thread at a time. */
#ifndef BERTH_CLI_HTTP_H
#define BERTH_CLI_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/config.h"
#include "common/attrs.h"
#include "common/buf.h"
#include "common/error.h"

/* The largest answer that is taken whole. */
enum { CLI_HTTP_ANSWER_MAX_BYTES = 64 * 1024 * 1024 };

struct cli_http;

struct cli_request {
    const char *method; /* "GET", "POST", "DELETE" */
    const char *path;   /* with the query, "/api/v1/jobs?limit=2" */
    const char *body;   /* JSON, NULL: none */
    size_t body_size;
    const char *idempotency_key; /* NULL: none */
    const char *last_event_id;   /* NULL or "": none */
    bool is_long; /* an answer takes as long as the generation does */
};

/* Part of a stream; false ends the transfer, without an error. */
typedef bool cli_http_sink(void *arg, const char *bytes, size_t size);

/* @config is copied. STATUS_INVALID when the CA file cannot be read. */
MUST_CHECK enum status cli_http_new(const struct cli_config *config,
                                    struct cli_http **http, struct error *err);
void cli_http_free(struct cli_http *http);

/* The whole answer, appended to @answer. */
MUST_CHECK enum status cli_http_call(struct cli_http *http,
                                     const struct cli_request *request,
                                     struct buf *answer, struct error *err);
/* The answer as it comes.  Never repeated here: whoever reads knows how far it
 * got.  STATUS_RETRY when the connection failed, also in the middle.  When
 * interrupted (cli/interrupt.h) the connection is closed: STATUS_RETRY with
 * code "interrupted". */
MUST_CHECK enum status cli_http_stream(struct cli_http *http,
                                       const struct cli_request *request,
                                       cli_http_sink *sink, void *arg,
                                       struct error *err);

/* What an answer of status @number with @body means; public for tests. */
enum status cli_http_refusal(long number, const char *body, size_t size,
                             struct error *err);

#endif
