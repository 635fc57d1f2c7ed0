/* links_agent.c - one agent's connection: handshake, frames, close. */
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <openssl/ssl.h>

#include "common/cert.h"
#include "common/clock.h"
#include "common/fault.h"
#include "common/log.h"
#include "common/mem.h"
#include "coordinator/core.h"
#include "coordinator/links_private.h"

#include "common/banned.h"

enum {
    LINKS_MAX = 4096,
    HANDSHAKE_S = 10,
    UNKNOWN_FRAMES_MAX = 1000,
};

/* --- closing --- */

void
link_close(struct link *link, const char *reason)
{
    struct links *links = link->links;
    struct link **at = &links->all;
    char quoted[200];

    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    links->link_count--;
    if (link->node[0] != '\0' && !links->stopping)
        core_link_down(links->core, link->id, link->node, reason);
    log_info("link.closed", "link=%" PRIu64 " node=%s reason=%s", link->id,
             link->node, log_quote(reason, quoted, sizeof(quoted)));
    bufferevent_free(link->bev);
    free(link);
}

struct link *
link_find(struct links *links, uint64_t id)
{
    struct link *link = links->all;

    while (link != NULL && link->id != id)
        link = link->next;
    return link;
}

/* --- jobs --- */

void
live_drop(struct links *links, const char *job)
{
    struct live *live = idmap_remove(&links->lives, job);

    if (live == NULL)
        return;
    record_drop(live->record);
    free(live);
}

void
live_cancel(struct links *links, const char *job, const char *reason)
{
    struct live *live = idmap_get(&links->lives, job);
    struct link *link;
    struct wire_job_cancel cancel = {.epoch = links->epoch};
    struct error err = {0};
    struct buf frame;

    if (live == NULL || live->cancelled)
        return;
    live->cancelled = true;
    link = link_find(links, live->link);
    if (link == NULL)
        return;
    memcpy(cancel.job, job, strlen(job) + 1);
    cancel.attempt = live->attempt;
    snprintf(cancel.reason, sizeof(cancel.reason), "%s", reason);
    buf_init(&frame, WIRE_FRAME_MAX_BYTES);
    if (wire_encode(WIRE_JOB_CANCEL, &cancel, &frame, &err) == STATUS_OK)
        bufferevent_write(link->bev, frame.data, frame.size);
    buf_clear(&frame);
    log_info("job.cancel_sent", "job=%s attempt=%" PRIu32 " reason=%s", job,
             live->attempt, reason);
}

static void
on_tokens(struct link *link, const struct wire_job_tokens *tokens)
{
    struct live *live = idmap_get(&link->links->lives, tokens->job);

    if (live == NULL || live->link != link->id ||
        live->attempt != tokens->attempt)
        return;                /* of an attempt that is over */
    if (tokens->choice != 0) { /* one choice is all that was asked for */
        core_output_broken(link->links->core, tokens->job, tokens->attempt);
        return;
    }
    FAULT_STEP("links.tokens");
    switch (record_push(live->record, tokens->attempt, tokens->first,
                        tokens->ids, tokens->id_count, clock_monotonic())) {
    case RECORD_FULL:
        core_output_full(link->links->core, tokens->job, tokens->attempt);
        break;
    case RECORD_BROKEN:
        core_output_broken(link->links->core, tokens->job, tokens->attempt);
        break;
    case RECORD_TAKEN:
    case RECORD_IGNORED:
        break;
    }
}

/* --- frames --- */

/* False when the link was closed. */
static bool
on_frame(struct link *link, const char *text, size_t size)
{
    struct links *links = link->links;
    struct error err = {0};
    enum status status = wire_decode(text, size, links->message, &err);
    char reason[200];

    if (status == STATUS_NOT_FOUND) {
        if (++link->unknown <= UNKNOWN_FRAMES_MAX)
            return true;
        link_close(link, "too many frames of unknown types");
        return false;
    }
    if (status != STATUS_OK) {
        snprintf(reason, sizeof(reason), "bad frame: %.150s", err.text);
        link_close(link, reason);
        return false;
    }
    if (links->message->type == WIRE_HELLO &&
        strcmp(links->message->hello.node, link->node) != 0) {
        link_close(link, "hello names another node than the certificate");
        return false;
    }
    if (links->message->type == WIRE_JOB_TOKENS)
        on_tokens(link, &links->message->job_tokens);
    else
        core_link_message(links->core, link->id, link->node, links->message);
    return true;
}

static void
on_readable(struct bufferevent *bev, void *arg)
{
    struct evbuffer *input = bufferevent_get_input(bev);
    struct link *link = arg;
    uint8_t head[WIRE_HEAD_BYTES];

    if (link->node[0] == '\0')
        return; /* before the handshake is done nothing can have come */
    while (evbuffer_copyout(input, head, sizeof(head)) == sizeof(head)) {
        size_t size = wire_head_size(head);
        const char *text;
        bool open;

        if (size > WIRE_FRAME_MAX_BYTES) {
            link_close(link, "a frame over 256 KiB");
            return;
        }
        if (evbuffer_get_length(input) < sizeof(head) + size)
            return; /* the rest has not come yet */
        text = (const char *)evbuffer_pullup(input,
                                             (ev_ssize_t)(sizeof(head) + size));
        open = on_frame(link, text + sizeof(head), size);
        if (!open)
            return;
        evbuffer_drain(input, sizeof(head) + size);
    }
}

static void
on_written(struct bufferevent *bev, void *arg)
{
    struct link *link = arg;

    if (link->ending && evbuffer_get_length(bufferevent_get_output(bev)) == 0)
        link_close(link, "ended by the coordinator");
}

static void
on_connected(struct link *link)
{
    struct error err = {0};
    struct timeval silence = {.tv_sec = link->links->silence_s};

    if (cert_peer_node(bufferevent_openssl_get_ssl(link->bev), link->node,
                       &err) != STATUS_OK) {
        link->node[0] = '\0';
        link_close(link, err.text);
        return;
    }
    bufferevent_set_timeouts(link->bev, &silence, &silence);
    log_info("link.open", "link=%" PRIu64 " node=%s", link->id, link->node);
}

static void
on_link_event(struct bufferevent *bev, short what, void *arg)
{
    struct link *link = arg;

    (void)bev;
    if ((what & BEV_EVENT_CONNECTED) != 0)
        on_connected(link);
    else if ((what & BEV_EVENT_TIMEOUT) != 0)
        link_close(link, "silent for too long");
    else if ((what & BEV_EVENT_EOF) != 0)
        link_close(link, "closed by the agent");
    else
        link_close(link, link->node[0] == '\0' ? "the TLS handshake failed"
                                               : "connection lost");
}

void
links_on_accept(struct evconnlistener *listener, evutil_socket_t fd,
                struct sockaddr *address, int size, void *arg)
{
    struct links *links = arg;
    struct timeval handshake = {.tv_sec = HANDSHAKE_S};
    struct link *link;
    SSL *ssl;
    int on = 1;

    (void)listener;
    (void)address;
    (void)size;
    links->accept_failed = false;
    ssl = links->link_count < LINKS_MAX ? SSL_new(links->tls) : NULL;
    if (ssl == NULL) {
        evutil_closesocket(fd);
        log_warn("link.refused", "reason=\"%d links are open\"", LINKS_MAX);
        return;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    link = mem_alloc(sizeof(*link));
    link->links = links;
    link->id = ++links->next_id;
    link->bev = bufferevent_openssl_socket_new(
        links->base, fd, ssl, BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE);
    if (link->bev == NULL) {
        SSL_free(ssl);
        evutil_closesocket(fd);
        free(link);
        return;
    }
    bufferevent_openssl_set_allow_dirty_shutdown(link->bev, 1);
    link->next = links->all;
    links->all = link;
    links->link_count++;
    bufferevent_setcb(link->bev, on_readable, on_written, on_link_event, link);
    bufferevent_set_timeouts(link->bev, &handshake, &handshake);
    bufferevent_enable(link->bev, EV_READ | EV_WRITE);
}
