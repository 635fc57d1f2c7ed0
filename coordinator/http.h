/* http.h - the HTTPS server and what a handler sees of a request.
 *
 * A handler decodes, calls one operation, encodes.  It runs on an HTTP thread
 * and never sleeps: when the answer must wait it calls request_suspend and
 * returns STATUS_OK; whoever knows the answer fills request->reply (or returns
 * an error through it) and calls request_resume, once, from any thread. */
#ifndef BERTH_COORDINATOR_HTTP_H
#define BERTH_COORDINATOR_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "common/error.h"
#include "common/json.h"
#include "coordinator/app.h"
#include "coordinator/record.h"
#include "coordinator/snapshot.h"

struct http;
struct sse; /* a stream over a record, sse.h */

enum { REPLY_MAX_BYTES = 80 * 1024 * 1024, REQUEST_PARAM_BYTES = 256 };

struct reply {
    int status;                /* HTTP status, 200 unless set */
    struct buf body;           /* JSON */
    char retry_after[16];      /* "" : no Retry-After */
    char job[UUID_TEXT_BYTES]; /* x-berth-job, "" when none */
    const char *content_type;  /* application/json unless set */
    struct sse *stream;        /* taken: answered as text/event-stream */
    char allow[40];            /* with 405: the methods of the path */
};

struct request;
typedef enum status http_handler(struct request *request, struct reply *reply,
                                 struct error *err);

struct request {
    struct app *app;
    char id[UUID_TEXT_BYTES + 4]; /* x-request-id */
    char method[8];
    char param[REQUEST_PARAM_BYTES]; /* what {id} in the route matched */
    struct buf body;
    /* The key's view, copied; account 0 and scopes 0 on open routes. */
    struct key_view key;
    struct reply reply;
    struct span began;
    void *state; /* the handler's, between suspend and resume */
    void (*state_free)(void *state);
    /* When set, called once on the HTTP thread after request_resume, for work
     * that the resuming thread should not do; may suspend again.  Set before
     * anyone who could resume has been told. */
    http_handler *on_resumed;
    struct http_connection *connection; /* the server's */
};

/* A header or query value, NULL when absent; borrowed for the request. */
const char *request_header(const struct request *request, const char *name);
const char *request_query(const struct request *request, const char *name);
/* The client's socket, for links_watch. */
int request_socket(const struct request *request);

/* Hold the connection; nothing may touch @request on this thread after the
 * handler has returned, until it is resumed.  False when the server is about to
 * end: the request is answered by that, whatever the handler does. */
bool request_suspend(struct request *request);
/* The reply is complete. */
void request_resume(struct request *request);
/* The reply is this error; resumes. */
void request_fail(struct request *request, const struct error *err);

/* The JSON of an error, all four members, as OpenAI's clients read it. */
void reply_error(struct reply *reply, const struct error *err);

MUST_CHECK enum status http_open(struct app *app, struct http **http,
                                 struct error *err);
/* Refuse new connections, answer 503 to new requests; what waits, waits on. */
void http_quiesce(struct http *http);
/* Answer what still waits with 503, end streams, stop the threads.  Only after
 * core_stop: it is the core that resumes requests. */
void http_close(struct http *http);
/* Make event lists that wait say something, so that readers who left are
 * noticed. From any thread. */
void http_nudge(struct http *http);
uint16_t http_port(const struct http *http);

#endif
