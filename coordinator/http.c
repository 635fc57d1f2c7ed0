/* http.c - libmicrohttpd: connections, bodies, suspension, start and stop.
 *
 * libmicrohttpd neither watches nor times out a suspended connection: the links
 * loop watches its socket (links_watch), the core keeps its deadline, and the
 * kernel gives up a peer that takes nothing of what was sent
 * (http_socket_bound). */
#include "coordinator/http.h"

#include <arpa/inet.h>
#include <assert.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <microhttpd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "coordinator/auth.h"
#include "coordinator/http_socket.h"
#include "coordinator/reply.h"
#include "coordinator/route.h"
#include "coordinator/sse.h"

#include "common/banned.h"

enum {
    CONNECTION_MEMORY_BYTES = 64 * 1024, /* head of a request, output block */
    /* A refused body is read and forgotten up to here, so that the client gets
     * to read why; then the connection is dropped. */
    DRAIN_MAX_BYTES = 256 * 1024 * 1024,
    STOP_PAUSE_NS = 1000000,
    BUSY_PAUSE_NS = 50000000,
    LOG_TEXT_BYTES = 256,
};

struct http_connection {
    struct request request;
    struct http *http;
    struct MHD_Connection *mhd;
    const struct route *route;
    size_t body_max;
    uint64_t drained;
    bool decided;       /* the reply is known before the body is */
    bool handled;       /* the handler was called */
    bool suspended;     /* by the call that now runs; its HTTP thread's */
    bool refused;       /* it wanted to wait, and nobody would wake it */
    struct sse *stream; /* borrowed: what the response reads from */
    /* under http->lock */
    bool waits;
    struct http_connection *next, *previous; /* of those that wait */
};

struct http {
    struct app *app;
    struct MHD_Daemon *daemon;
    uint16_t port;
    atomic_bool stopping;
    pthread_mutex_t lock;
    struct http_connection *waiting;
    bool closed; /* nothing may wait any more */
};

/* --- what handlers see --- */

const char *
request_header(const struct request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection->mhd,
                                       MHD_HEADER_KIND, name);
}

const char *
request_query(const struct request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection->mhd,
                                       MHD_GET_ARGUMENT_KIND, name);
}

int
request_socket(const struct request *request)
{
    return MHD_get_connection_info(request->connection->mhd,
                                   MHD_CONNECTION_INFO_CONNECTION_FD)
        ->connect_fd;
}

bool
request_suspend(struct request *request)
{
    struct http_connection *connection = request->connection;
    struct http *http = connection->http;

    pthread_mutex_lock(&http->lock);
    if (http->closed) {
        connection->refused = true;
        pthread_mutex_unlock(&http->lock);
        return false;
    }
    connection->suspended = true;
    assert(!connection->waits);
    connection->waits = true;
    connection->previous = NULL;
    connection->next = http->waiting;
    if (http->waiting != NULL)
        http->waiting->previous = connection;
    http->waiting = connection;
    MHD_suspend_connection(connection->mhd);
    pthread_mutex_unlock(&http->lock);
    return true;
}

/* The lock is held. */
static void
resume_locked(struct http *http, struct http_connection *connection)
{
    assert(connection->waits);
    connection->waits = false;
    if (connection->previous != NULL)
        connection->previous->next = connection->next;
    else
        http->waiting = connection->next;
    if (connection->next != NULL)
        connection->next->previous = connection->previous;
    MHD_resume_connection(connection->mhd);
}

void
request_resume(struct request *request)
{
    struct http_connection *connection = request->connection;
    struct http *http = connection->http;

    pthread_mutex_lock(&http->lock);
    /* At the stop the server may have answered first. */
    if (connection->waits || !atomic_load(&http->stopping))
        resume_locked(http, connection);
    pthread_mutex_unlock(&http->lock);
}

/* What a person must look into is logged whole; clients get less. */
static void
failure_note(const struct request *request, const struct error *err)
{
    char text[ERROR_TEXT_BYTES + 64];

    if (err->status == STATUS_INTERNAL)
        log_error("http.internal", "request=%s path=%s detail=%s", request->id,
                  request->connection->route != NULL
                      ? request->connection->route->path
                      : "-",
                  log_quote(err->text, text, sizeof(text)));
    else if (err->status == STATUS_RETRY)
        log_warn("http.unavailable", "request=%s detail=%s", request->id,
                 log_quote(err->text, text, sizeof(text)));
}

static void
fail(struct request *request, const struct error *err)
{
    failure_note(request, err);
    reply_error(&request->reply, err);
    request->on_resumed = NULL;
}

void
request_fail(struct request *request, const struct error *err)
{
    fail(request, err);
    request_resume(request);
}

/* --- a request --- */

static struct http_connection *
connection_new(struct http *http, struct MHD_Connection *mhd,
               const char *method)
{
    struct http_connection *connection = mem_alloc(sizeof(*connection));
    struct request *request = &connection->request;
    char id[UUID_TEXT_BYTES];

    connection->http = http;
    connection->mhd = mhd;
    request->connection = connection;
    request->app = http->app;
    request->began = clock_monotonic();
    uuid_make(clock_wall(), id);
    snprintf(request->id, sizeof(request->id), "req-%s", id);
    snprintf(request->method, sizeof(request->method), "%s", method);
    buf_init(&request->body, 0);
    buf_init(&request->reply.body, REPLY_MAX_BYTES);
    return connection;
}

static void
on_completed(void *arg, struct MHD_Connection *mhd, void **state,
             enum MHD_RequestTerminationCode code)
{
    struct http_connection *connection = *state;
    struct request *request;

    (void)arg;
    (void)mhd;
    (void)code;
    if (connection == NULL)
        return;
    *state = NULL;
    request = &connection->request;
    if (request->state != NULL && request->state_free != NULL)
        request->state_free(request->state);
    sse_free(request->reply.stream);
    buf_clear(&request->body);
    buf_clear(&request->reply.body);
    free(connection);
}

/* The reply is this error; the body, if one comes, is forgotten. */
static void
decide(struct http_connection *connection, const struct error *err)
{
    fail(&connection->request, err);
    connection->decided = true;
    buf_clear(&connection->request.body);
}

static enum status
authenticate(struct http_connection *connection, struct error *err)
{
    struct request *request = &connection->request;
    const struct identity_view *view;
    enum status status;

    if (connection->route->scopes == 0)
        return STATUS_OK;
    view = identity_take(request->app->snapshots);
    status =
        auth_check(view, request_header(request, "Authorization"),
                   connection->route->scopes, clock_wall(), &request->key, err);
    identity_drop(view);
    return status;
}

static enum status
body_too_large(const struct http_connection *connection, struct error *err)
{
    (void)error_set(err, STATUS_TOO_LARGE,
                    "the body is over the limit of %zu bytes for this path: "
                    "send less",
                    connection->body_max);
    return error_tag(err, "request_too_large", NULL);
}

static enum status
length_check(struct http_connection *connection, struct error *err)
{
    const char *text = request_header(&connection->request, "Content-Length");
    uint64_t size = 0;

    if (text == NULL)
        return STATUS_OK; /* counted as it comes */
    if (parse_u64(text, strlen(text), UINT64_MAX, &size) == STATUS_OK &&
        size <= connection->body_max)
        return STATUS_OK;
    return body_too_large(connection, err);
}

static enum status
stopping(struct error *err)
{
    (void)error_set(err, STATUS_RETRY,
                    "the coordinator is stopping: try again");
    return error_tag(err, "stopping", NULL);
}

static enum status
find(struct http_connection *connection, const char *path, struct error *err)
{
    struct request *request = &connection->request;

    switch (route_find(request->method, path, &connection->route,
                       request->param, request->reply.allow)) {
    case ROUTE_FOUND:
        request->reply.allow[0] = '\0';
        return STATUS_OK;
    case ROUTE_NO_PATH:
        (void)error_set(err, STATUS_NOT_FOUND,
                        "there is no %.200s here: see docs/api.md for the "
                        "paths of this service",
                        path);
        return error_tag(err, "unknown_url", NULL);
    case ROUTE_NO_METHOD:
        (void)error_set(err, STATUS_INVALID,
                        "%.200s takes %s, not %s: see docs/api.md", path,
                        request->reply.allow, request->method);
        return error_tag(err, "method_not_allowed", NULL);
    }
    return STATUS_INTERNAL;
}

/* All that is decided before a byte of the body is taken. */
static enum status
begin(struct http_connection *connection, const char *path, struct error *err)
{
    struct app *app = connection->request.app;
    enum status status = find(connection, path, err);

    if (status != STATUS_OK)
        return status;
    connection->body_max = connection->route->body_max != 0
                               ? connection->route->body_max
                               : (size_t)app->config.body_max_bytes;
    status = authenticate(connection, err);
    if (status == STATUS_OK)
        status = length_check(connection, err);
    if (status == STATUS_OK && atomic_load(&connection->http->stopping))
        status = stopping(err);
    if (status == STATUS_OK)
        buf_init(&connection->request.body, connection->body_max);
    return status;
}

static enum MHD_Result
answer(struct http_connection *connection)
{
    bool last = atomic_load(&connection->http->stopping);

    connection->stream = connection->request.reply.stream;
    return reply_queue(&connection->request, connection->mhd, last) ? MHD_YES
                                                                    : MHD_NO;
}

/* Is an answer before the body of use?  A client that waits for 100 Continue
 * has sent nothing yet; a body over what is drained is not worth reading. */
static bool
answers_early(const struct http_connection *connection)
{
    const char *expect = request_header(&connection->request, "Expect");
    const char *text = request_header(&connection->request, "Content-Length");
    uint64_t size = 0;

    if (!connection->decided)
        return false;
    return expect != NULL ||
           (text != NULL &&
            parse_u64(text, strlen(text), DRAIN_MAX_BYTES, &size) != STATUS_OK);
}

static enum MHD_Result
on_head(struct http_connection *connection, const char *path)
{
    struct error err = {0};

    if (begin(connection, path, &err) != STATUS_OK) {
        decide(connection, &err);
        if (err.status == STATUS_INVALID)
            connection->request.reply.status = MHD_HTTP_METHOD_NOT_ALLOWED;
    }
    return answers_early(connection) ? answer(connection) : MHD_YES;
}

static enum MHD_Result
on_body(struct http_connection *connection, const char *bytes, size_t size)
{
    struct buf *body = &connection->request.body;
    struct error err = {0};

    if (!connection->decided && size > connection->body_max - body->size) {
        connection->drained = body->size;
        (void)body_too_large(connection, &err);
        decide(connection, &err);
    }
    if (!connection->decided) {
        buf_append(body, bytes, size);
        return MHD_YES;
    }
    connection->drained += size;
    return connection->drained <= DRAIN_MAX_BYTES ? MHD_YES : MHD_NO;
}

static enum MHD_Result
run(struct http_connection *connection, http_handler *handler)
{
    struct request *request = &connection->request;
    struct error err = {0};
    enum status status = STATUS_OK;

    connection->suspended = false;
    if (handler != NULL)
        status = handler(request, &request->reply, &err);
    if (connection->suspended) {
        /* From here on it may be answered by another thread. */
        assert(status == STATUS_OK);
        return MHD_YES;
    }
    if (status == STATUS_OK && connection->refused)
        status = stopping(&err);
    if (status != STATUS_OK) {
        err.status = status;
        fail(request, &err);
    }
    return answer(connection);
}

static enum MHD_Result
on_request(void *arg, struct MHD_Connection *mhd, const char *url,
           const char *method, const char *version, const char *upload,
           size_t *upload_size, void **state)
{
    struct http_connection *connection = *state;
    http_handler *handler;

    (void)version;
    if (connection == NULL) {
        connection = connection_new(arg, mhd, method);
        *state = connection;
        return on_head(connection, url);
    }
    if (*upload_size > 0) {
        size_t size = *upload_size;

        *upload_size = 0;
        return on_body(connection, upload, size);
    }
    if (connection->decided)
        return answer(connection);
    handler = connection->handled ? connection->request.on_resumed
                                  : connection->route->handler;
    connection->request.on_resumed = NULL;
    connection->handled = true;
    return run(connection, handler);
}

/* --- start and stop --- */

static size_t
on_unescape(void *arg, struct MHD_Connection *mhd, char *text)
{
    (void)arg;
    (void)mhd;
    return route_unescape(text);
}

static void on_log(void *arg, const char *format, va_list list)
    PRINTF_LIKE(2, 0);

static void
on_log(void *arg, const char *format, va_list list)
{
    static const char spins[] = "Hit process or system resource limit at FIRST";
    struct timespec pause = {.tv_nsec = BUSY_PAUSE_NS};
    char text[LOG_TEXT_BYTES], quoted[LOG_TEXT_BYTES];

    (void)arg;
    vsnprintf(text, sizeof(text), format, list);
    text[strcspn(text, "\n")] = '\0';
    log_debug("http.library", "detail=%s",
              log_quote(text, quoted, sizeof(quoted)));
    /* Out of descriptors, a thread without connections would try again at
     * once, and for ever.  It has nobody to keep waiting. */
    if (strncmp(text, spins, sizeof(spins) - 1) == 0)
        nanosleep(&pause, NULL);
}

static void
on_connection(void *arg, struct MHD_Connection *mhd, void **state,
              enum MHD_ConnectionNotificationCode code)
{
    const struct http *http = arg;

    (void)state;
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        http_socket_bound(
            MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)
                ->connect_fd,
            (unsigned)http->app->config.http_timeout_s);
}

static enum status
address_fill(const struct config *config, struct sockaddr_storage *storage,
             struct error *err)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)storage;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)storage;

    if (inet_pton(AF_INET, config->https_address, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)config->https_port);
        return STATUS_OK;
    }
    if (inet_pton(AF_INET6, config->https_address, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons((uint16_t)config->https_port);
        return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID, "https_address %s is no IP address",
                     config->https_address);
}

static struct MHD_Daemon *
daemon_start(struct http *http, const struct sockaddr_storage *address)
{
    const struct app *app = http->app;
    const struct config *config = &app->config;
    struct MHD_OptionItem pool[] = {
        {MHD_OPTION_THREAD_POOL_SIZE, (intptr_t)config->http_threads, NULL},
        {MHD_OPTION_END, 0, NULL},
    };
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_AUTO |
                     MHD_USE_TLS | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC |
                     MHD_USE_ERROR_LOG;

    if (address->ss_family == AF_INET6)
        flags |= MHD_USE_DUAL_STACK;
    if (config->http_threads < 2)
        pool[0].option = MHD_OPTION_END;
    /* The logger comes first: also later options may have to complain. */
    return MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, http, MHD_OPTION_EXTERNAL_LOGGER,
        on_log, http, MHD_OPTION_SOCK_ADDR, (const struct sockaddr *)address,
        MHD_OPTION_HTTPS_MEM_CERT, app->certificate, MHD_OPTION_HTTPS_MEM_KEY,
        app->certificate_key, MHD_OPTION_HTTPS_PRIORITIES,
        "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2",
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)config->http_connections_max,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        (unsigned)config->http_connections_per_address,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)config->http_timeout_s,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY_BYTES,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, http,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, http,
        MHD_OPTION_UNESCAPE_CALLBACK, on_unescape, http, MHD_OPTION_ARRAY, pool,
        MHD_OPTION_END);
}

enum status
http_open(struct app *app, struct http **out, struct error *err)
{
    struct sockaddr_storage address = {0};
    struct http *http;
    enum status status = address_fill(&app->config, &address, err);

    if (status != STATUS_OK)
        return status;
    http = mem_alloc(sizeof(*http));
    http->app = app;
    atomic_init(&http->stopping, false);
    pthread_mutex_init(&http->lock, NULL);
    http->daemon = daemon_start(http, &address);
    if (http->daemon == NULL) {
        http_close(http);
        return error_set(err, STATUS_CONFLICT,
                         "cannot serve HTTPS on %s port %" PRIu64
                         ": is the port taken (choose another with "
                         "--https-port), or do certificate and key not fit?",
                         app->config.https_address, app->config.https_port);
    }
    http->port =
        MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
    *out = http;
    return STATUS_OK;
}

void
http_quiesce(struct http *http)
{
    MHD_socket listener;

    if (http == NULL || atomic_exchange(&http->stopping, true))
        return;
    listener = MHD_quiesce_daemon(http->daemon);
    if (listener != MHD_INVALID_SOCKET)
        close(listener);
}

/* End what waits. Returns whether anything still does; if not, nothing ever
 * does again, since libmicrohttpd does not stop with a suspended connection. */
static bool
waiting_end(struct http *http)
{
    struct http_connection *connection, *next;
    struct error err = {0};
    bool left;

    (void)!stopping(&err);
    pthread_mutex_lock(&http->lock);
    for (connection = http->waiting; connection != NULL; connection = next) {
        next = connection->next;
        if (connection->stream == NULL)
            fail(&connection->request, &err);
        else if (!sse_stop(connection->stream))
            continue; /* it is being woken, or about to wait */
        resume_locked(http, connection);
    }
    left = http->waiting != NULL;
    http->closed = !left;
    pthread_mutex_unlock(&http->lock);
    return left;
}

void
http_nudge(struct http *http)
{
    struct http_connection *connection, *next;

    pthread_mutex_lock(&http->lock);
    for (connection = http->waiting; connection != NULL; connection = next) {
        next = connection->next;
        if (connection->stream != NULL && sse_nudge(connection->stream))
            resume_locked(http, connection);
    }
    pthread_mutex_unlock(&http->lock);
}

void
http_close(struct http *http)
{
    if (http == NULL)
        return;
    if (http->daemon != NULL) {
        http_quiesce(http);
        while (waiting_end(http)) {
            struct timespec pause = {.tv_nsec = STOP_PAUSE_NS};

            nanosleep(&pause, NULL);
        }
        MHD_stop_daemon(http->daemon);
    }
    pthread_mutex_destroy(&http->lock);
    free(http);
}

uint16_t
http_port(const struct http *http)
{
    return http->port;
}
