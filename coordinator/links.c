/* links.c - agent connections and client watches in one libevent loop.
 *
 * Other threads leave orders in an outbox and wake the loop; the loop runs
 * every order that was left before it looks at a socket's close, so that a
 * cancel can never overtake the run it cancels. */
#include "coordinator/links.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/bufferevent.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/listener.h>

#include "common/cert.h"
#include "common/log.h"
#include "common/mem.h"
#include "coordinator/core.h"
#include "coordinator/links_private.h"
#include "coordinator/peerwatch.h"

#include "common/banned.h"

enum {
    OUTBOX_LINK_MAX_BYTES = 64 * 1024 * 1024, /* unsent: the agent is stuck */
    CLOSED_BATCH = 32,
    ACCEPT_BACKLOG = 128,
    ACCEPT_PAUSE_MS = 100, /* after accept failed: for want of descriptors */
};

/* A client's socket. */
struct watch {
    char job[UUID_TEXT_BYTES];
    int fd;
};

enum order_kind {
    ORDER_SEND,
    ORDER_END,
    ORDER_DISPATCH,
    ORDER_CANCEL,
    ORDER_FORGET,
    ORDER_WATCH,
    ORDER_UNWATCH,
};

struct order {
    struct order *next;
    enum order_kind kind;
    uint64_t link;
    char *bytes; /* frames or reason, heap */
    size_t size;
    char job[UUID_TEXT_BYTES];
    uint32_t attempt;
    struct record *record;
    int fd;
};

/* --- client watches --- */

static void
watch_drop(struct links *links, const char *job)
{
    struct watch *watch = idmap_remove(&links->watches, job);

    if (watch == NULL)
        return;
    peerwatch_remove(links->peerwatch, watch->fd);
    close(watch->fd);
    free(watch);
}

static void
watch_add(struct links *links, const char *job, int fd)
{
    struct watch *watch = mem_alloc(sizeof(*watch));

    memcpy(watch->job, job, strlen(job) + 1);
    watch->fd = fd;
    if (peerwatch_add(links->peerwatch, fd, watch) != 0) {
        close(fd);
        free(watch);
        core_cancel(links->core, job, "client_gone");
        return;
    }
    idmap_put(&links->watches, job, watch);
}

/* --- orders of other threads --- */

static void
link_write(struct links *links, uint64_t id, const char *bytes, size_t size)
{
    struct link *link = link_find(links, id);

    if (link == NULL || link->ending)
        return;
    bufferevent_write(link->bev, bytes, size);
    if (evbuffer_get_length(bufferevent_get_output(link->bev)) >
        OUTBOX_LINK_MAX_BYTES)
        link_close(link, "the agent does not read");
}

static void
link_end(struct links *links, uint64_t id, const char *reason)
{
    struct link *link = link_find(links, id);

    if (link == NULL)
        return;
    link->ending = true;
    bufferevent_disable(link->bev, EV_READ);
    if (evbuffer_get_length(bufferevent_get_output(link->bev)) == 0)
        link_close(link, reason);
}

static void
order_dispatch(struct links *links, struct order *order)
{
    struct live *live = mem_alloc(sizeof(*live));

    live_drop(links, order->job);
    memcpy(live->job, order->job, sizeof(live->job));
    live->attempt = order->attempt;
    live->link = order->link;
    live->record = order->record;
    order->record = NULL;
    idmap_put(&links->lives, live->job, live);
    link_write(links, order->link, order->bytes, order->size);
}

static void
order_run(struct links *links, struct order *order)
{
    switch (order->kind) {
    case ORDER_SEND:
        link_write(links, order->link, order->bytes, order->size);
        break;
    case ORDER_END:
        link_end(links, order->link, order->bytes);
        break;
    case ORDER_DISPATCH:
        order_dispatch(links, order);
        break;
    case ORDER_CANCEL:
        live_cancel(links, order->job, order->bytes);
        break;
    case ORDER_FORGET:
        live_drop(links, order->job);
        break;
    case ORDER_WATCH:
        watch_add(links, order->job, order->fd);
        break;
    case ORDER_UNWATCH:
        watch_drop(links, order->job);
        break;
    }
    record_drop(order->record);
    free(order->bytes);
    free(order);
}

static void
orders_run(struct links *links)
{
    struct order *order;

    pthread_mutex_lock(&links->lock);
    order = links->first;
    links->first = links->last = NULL;
    pthread_mutex_unlock(&links->lock);
    while (order != NULL) {
        struct order *next = order->next;

        order_run(links, order);
        order = next;
    }
}

static void
on_wake(evutil_socket_t fd, short what, void *arg)
{
    struct links *links = arg;
    char drained[64];
    bool quit;

    (void)what;
    while (read(fd, drained, sizeof(drained)) > 0)
        continue;
    orders_run(links);
    pthread_mutex_lock(&links->lock);
    quit = links->quit;
    pthread_mutex_unlock(&links->lock);
    if (quit)
        event_base_loopbreak(links->base);
}

static void
on_peer_closed(evutil_socket_t fd, short what, void *arg)
{
    struct links *links = arg;
    void *closed[CLOSED_BATCH];
    char jobs[CLOSED_BATCH][UUID_TEXT_BYTES];
    size_t count;

    (void)fd;
    (void)what;
    count = peerwatch_collect(links->peerwatch, closed, CLOSED_BATCH);
    for (size_t i = 0; i < count; i++)
        memcpy(jobs[i], ((struct watch *)closed[i])->job, UUID_TEXT_BYTES);
    orders_run(links); /* a run may still be in the outbox */
    for (size_t i = 0; i < count; i++) {
        watch_drop(links, jobs[i]);
        live_cancel(links, jobs[i], "client_gone");
        core_cancel(links->core, jobs[i], "client_gone");
    }
}

static void
order_leave(struct links *links, struct order *order)
{
    bool empty;

    pthread_mutex_lock(&links->lock);
    empty = links->first == NULL;
    if (empty)
        links->first = order;
    else
        links->last->next = order;
    links->last = order;
    pthread_mutex_unlock(&links->lock);
    if (empty && write(links->wake[1], "", 1) < 0 && errno != EAGAIN)
        log_error("links.wake", "errno=%d", errno);
}

static struct order *
order_new(enum order_kind kind, uint64_t link, const char *job)
{
    struct order *order = mem_alloc(sizeof(*order));

    order->kind = kind;
    order->link = link;
    if (job != NULL) {
        assert(strlen(job) < sizeof(order->job));
        memcpy(order->job, job, strlen(job) + 1);
    }
    return order;
}

void
links_send(struct links *links, uint64_t link, const struct buf *frames)
{
    struct order *order = order_new(ORDER_SEND, link, NULL);

    order->bytes = mem_copy(frames->data, frames->size);
    order->size = frames->size;
    order_leave(links, order);
}

void
links_end(struct links *links, uint64_t link, const char *reason)
{
    struct order *order = order_new(ORDER_END, link, NULL);

    order->bytes = mem_text(reason);
    order_leave(links, order);
}

void
links_dispatch(struct links *links, uint64_t link, const char *job,
               uint32_t attempt, struct record *record,
               const struct buf *frames)
{
    struct order *order = order_new(ORDER_DISPATCH, link, job);

    order->attempt = attempt;
    order->record = record_keep(record);
    order->bytes = mem_copy(frames->data, frames->size);
    order->size = frames->size;
    order_leave(links, order);
}

void
links_cancel(struct links *links, const char *job, const char *reason)
{
    struct order *order = order_new(ORDER_CANCEL, 0, job);

    order->bytes = mem_text(reason);
    order_leave(links, order);
}

void
links_forget(struct links *links, const char *job)
{
    order_leave(links, order_new(ORDER_FORGET, 0, job));
}

enum status
links_watch(struct links *links, int fd, const char *job, struct error *err)
{
    struct order *order;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

    if (copy < 0) {
        (void)error_set(err, STATUS_RETRY,
                        "the coordinator has no descriptor left (errno %d): "
                        "try again",
                        errno);
        return error_tag(err, "no_descriptors", NULL);
    }
    order = order_new(ORDER_WATCH, 0, job);
    order->fd = copy;
    order_leave(links, order);
    return STATUS_OK;
}

void
links_unwatch(struct links *links, const char *job)
{
    order_leave(links, order_new(ORDER_UNWATCH, 0, job));
}

/* --- start and stop --- */

static void *
links_loop(void *arg)
{
    struct links *links = arg;

    event_base_loop(links->base, EVLOOP_NO_EXIT_ON_EMPTY);
    return NULL;
}

/* The listener is ready as long as somebody waits: without a pause the loop
 * would do nothing else. */
static void
on_accept_error(struct evconnlistener *listener, void *arg)
{
    struct links *links = arg;
    const struct timeval pause = {.tv_usec = ACCEPT_PAUSE_MS * 1000};
    int code = EVUTIL_SOCKET_ERROR();

    if (!links->accept_failed)
        log_warn("link.accept_failed", "errno=%d", code);
    links->accept_failed = true;
    evconnlistener_disable(listener);
    event_add(links->accept_event, &pause);
}

static void
on_accept_again(evutil_socket_t fd, short what, void *arg)
{
    struct links *links = arg;

    (void)fd;
    (void)what;
    evconnlistener_enable(links->listener);
}

static enum status
listen_on(struct links *links, const struct links_options *options,
          struct error *err)
{
    struct sockaddr_storage storage = {0};
    int size = (int)sizeof(storage);
    socklen_t bound = sizeof(storage);
    char text[96];

    snprintf(text, sizeof(text),
             strchr(options->address, ':') != NULL ? "[%s]" : "%s",
             options->address);
    if (evutil_parse_sockaddr_port(text, (struct sockaddr *)&storage, &size) !=
        0)
        return error_set(err, STATUS_INVALID,
                         "link_address %s is not an IP address",
                         options->address);
    if (storage.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&storage)->sin6_port = htons(options->port);
    else
        ((struct sockaddr_in *)&storage)->sin_port = htons(options->port);
    links->listener = evconnlistener_new_bind(
        links->base, links_on_accept, links,
        LEV_OPT_CLOSE_ON_FREE | LEV_OPT_REUSEABLE | LEV_OPT_CLOSE_ON_EXEC,
        ACCEPT_BACKLOG, (struct sockaddr *)&storage, size);
    if (links->listener == NULL)
        return error_set(err, STATUS_CONFLICT,
                         "cannot listen on %s port %u (errno %d): is it taken? "
                         "Choose another with --link-port",
                         options->address, options->port, errno);
    evconnlistener_set_error_cb(links->listener, on_accept_error);
    if (getsockname(evconnlistener_get_fd(links->listener),
                    (struct sockaddr *)&storage, &bound) != 0)
        return error_set(err, STATUS_INTERNAL, "getsockname: errno %d", errno);
    links->port = storage.ss_family == AF_INET6
                      ? ntohs(((struct sockaddr_in6 *)&storage)->sin6_port)
                      : ntohs(((struct sockaddr_in *)&storage)->sin_port);
    return STATUS_OK;
}

static enum status
events_make(struct links *links, struct error *err)
{
    links->base = event_base_new();
    links->peerwatch = peerwatch_open();
    if (links->base == NULL || links->peerwatch < 0 || pipe(links->wake) != 0)
        return error_set(err, STATUS_INTERNAL,
                         "cannot make an event loop (errno %d)", errno);
    for (size_t i = 0; i < COUNT_OF(links->wake); i++) {
        (void)fcntl(links->wake[i], F_SETFL, O_NONBLOCK);
        (void)fcntl(links->wake[i], F_SETFD, FD_CLOEXEC);
    }
    links->wake_event = event_new(links->base, links->wake[0],
                                  EV_READ | EV_PERSIST, on_wake, links);
    links->peer_event = event_new(links->base, links->peerwatch,
                                  EV_READ | EV_PERSIST, on_peer_closed, links);
    links->accept_event = evtimer_new(links->base, on_accept_again, links);
    if (links->wake_event == NULL || links->peer_event == NULL ||
        links->accept_event == NULL ||
        event_add(links->wake_event, NULL) != 0 ||
        event_add(links->peer_event, NULL) != 0)
        return error_set(err, STATUS_INTERNAL, "cannot add events");
    return STATUS_OK;
}

enum status
links_open(const struct links_options *options, struct core *core,
           struct links **out, struct error *err)
{
    struct links *links = mem_alloc(sizeof(*links));
    enum status status;

    links->core = core;
    links->epoch = options->epoch;
    links->silence_s = options->silence_s;
    links->wake[0] = links->wake[1] = links->peerwatch = -1;
    links->message = mem_alloc(sizeof(*links->message));
    pthread_mutex_init(&links->lock, NULL);
    status = cert_tls_server(options->ca_certificate, options->certificate,
                             options->key, &links->tls, err);
    if (status == STATUS_OK)
        status = events_make(links, err);
    if (status == STATUS_OK)
        status = listen_on(links, options, err);
    if (status == STATUS_OK &&
        pthread_create(&links->thread, NULL, links_loop, links) != 0)
        status = error_set(err, STATUS_INTERNAL, "cannot start a thread");
    if (status != STATUS_OK) {
        links_close(links);
        return status;
    }
    links->started = true;
    *out = links;
    return STATUS_OK;
}

static void
loop_stop(struct links *links)
{
    pthread_mutex_lock(&links->lock);
    links->quit = true;
    pthread_mutex_unlock(&links->lock);
    while (write(links->wake[1], "", 1) < 0 && errno == EINTR)
        continue;
    pthread_join(links->thread, NULL);
}

static void
leftovers_drop(struct links *links)
{
    struct watch *watch;
    struct live *live;
    size_t at = 0;

    links->stopping = true;
    orders_run(links);
    while (links->all != NULL)
        link_close(links->all, "the coordinator stops");
    while ((watch = idmap_next(&links->watches, &at)) != NULL) {
        close(watch->fd);
        free(watch);
    }
    at = 0;
    while ((live = idmap_next(&links->lives, &at)) != NULL) {
        record_drop(live->record);
        free(live);
    }
    idmap_clear(&links->watches);
    idmap_clear(&links->lives);
}

void
links_close(struct links *links)
{
    if (links == NULL)
        return;
    if (links->started)
        loop_stop(links);
    if (links->base != NULL)
        leftovers_drop(links);
    if (links->listener != NULL)
        evconnlistener_free(links->listener);
    if (links->wake_event != NULL)
        event_free(links->wake_event);
    if (links->peer_event != NULL)
        event_free(links->peer_event);
    if (links->accept_event != NULL)
        event_free(links->accept_event);
    if (links->base != NULL)
        event_base_free(links->base);
    for (size_t i = 0; i < COUNT_OF(links->wake); i++)
        if (links->wake[i] >= 0)
            close(links->wake[i]);
    if (links->peerwatch >= 0)
        close(links->peerwatch);
    cert_tls_free(links->tls);
    pthread_mutex_destroy(&links->lock);
    free(links->message);
    free(links);
}

uint16_t
links_port(const struct links *links)
{
    return links->port;
}
