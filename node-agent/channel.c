/* channel.c - frames in and out of a bufferevent. */
#include "node-agent/channel.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <openssl/err.h>

#include "common/buf.h"
#include "common/log.h"
#include "common/mem.h"

#include "common/banned.h"

enum { REASON_BYTES = ERROR_TEXT_BYTES + 64 };

struct channel {
    struct bufferevent *bev; /* NULL once closed */
    struct channel_hooks hooks;
    struct wire_message *message; /* large: kept off the stack */
    uint64_t unknown_count;
    unsigned depth; /* hooks running now */
    bool freed;     /* channel_free was called by a hook */
    bool is_stuck;  /* too much output: closes in the loop's next turn */
};

static void
destroy(struct channel *channel)
{
    free(channel->message);
    free(channel);
}

/* Hooks may free the channel; that waits until the last one has returned. */
static void
leave(struct channel *channel)
{
    assert(channel->depth > 0);
    if (--channel->depth == 0 && channel->freed)
        destroy(channel);
}

static void
take_frame(struct channel *channel, const uint8_t *frame, size_t size)
{
    struct error err = {0};
    enum status status =
        wire_decode((const char *)frame + WIRE_HEAD_BYTES,
                    size - WIRE_HEAD_BYTES, channel->message, &err);

    if (status == STATUS_NOT_FOUND) {
        channel->unknown_count++;
    } else if (status != STATUS_OK) {
        char reason[REASON_BYTES];

        snprintf(reason, sizeof(reason), "malformed frame: %s", err.text);
        channel_close(channel, reason);
    } else {
        channel->hooks.on_frame(channel->hooks.arg, channel->message, frame,
                                size);
    }
}

static void
on_readable(struct bufferevent *bev, void *arg)
{
    struct evbuffer *input = bufferevent_get_input(bev);
    struct channel *channel = arg;
    uint8_t head[WIRE_HEAD_BYTES];

    channel->depth++;
    while (channel->bev != NULL &&
           evbuffer_copyout(input, head, sizeof(head)) == sizeof(head)) {
        size_t size = wire_head_size(head);

        if (size > WIRE_FRAME_MAX_BYTES) {
            channel_close(channel, "frame too large");
            break;
        }
        size += sizeof(head);
        if (evbuffer_get_length(input) < size)
            break; /* the rest has not come yet */
        take_frame(channel, evbuffer_pullup(input, (ev_ssize_t)size), size);
        if (channel->bev != NULL) /* a hook may have closed it */
            evbuffer_drain(input, size);
    }
    leave(channel);
}

/* Why a bufferevent reported an error, as one line. */
static void
describe_error(struct bufferevent *bev, char *reason, size_t reason_size)
{
    unsigned long tls = bufferevent_get_openssl_error(bev);
    int number = EVUTIL_SOCKET_ERROR();
    const char *text = tls == 0 ? NULL : ERR_reason_error_string(tls);
    char buffer[128];

    if (text != NULL)
        snprintf(reason, reason_size, "TLS: %s", text);
    else if (number != 0)
        snprintf(reason, reason_size, "%s",
                 error_errno(number, buffer, sizeof(buffer)));
    else
        snprintf(reason, reason_size, "connection lost");
}

static void
on_event(struct bufferevent *bev, short what, void *arg)
{
    struct channel *channel = arg;
    char reason[REASON_BYTES];

    channel->depth++;
    if ((what & BEV_EVENT_CONNECTED) != 0) {
        if (channel->hooks.on_open != NULL)
            channel->hooks.on_open(channel->hooks.arg);
    } else if (channel->is_stuck) {
        channel_close(channel, "the other side does not read");
    } else if ((what & BEV_EVENT_EOF) != 0) {
        channel_close(channel, "closed by the other side");
    } else if ((what & BEV_EVENT_TIMEOUT) != 0) {
        channel_close(channel, "no progress in writing");
    } else if ((what & BEV_EVENT_ERROR) != 0) {
        describe_error(bev, reason, sizeof(reason));
        channel_close(channel, reason);
    }
    leave(channel);
}

struct channel *
channel_new(struct bufferevent *bev, const struct channel_hooks *hooks)
{
    struct channel *channel = mem_alloc(sizeof(*channel));

    assert(hooks->on_frame != NULL && hooks->on_close != NULL);
    channel->bev = bev;
    channel->hooks = *hooks;
    channel->message = mem_alloc(sizeof(*channel->message));
    bufferevent_setcb(bev, on_readable, NULL, on_event, channel);
    bufferevent_enable(bev, EV_READ | EV_WRITE);
    return channel;
}

void
channel_free(struct channel *channel)
{
    if (channel == NULL)
        return;
    if (channel->bev != NULL)
        bufferevent_free(channel->bev);
    channel->bev = NULL;
    if (channel->depth > 0)
        channel->freed = true;
    else
        destroy(channel);
}

void
channel_close(struct channel *channel, const char *reason)
{
    if (channel->bev == NULL)
        return;
    bufferevent_free(channel->bev);
    channel->bev = NULL;
    channel->depth++;
    channel->hooks.on_close(channel->hooks.arg, reason);
    leave(channel);
}

void
channel_send(struct channel *channel, enum wire_type type, const void *body)
{
    struct error err = {0};
    struct buf frame;

    buf_init(&frame, WIRE_HEAD_BYTES + WIRE_FRAME_MAX_BYTES);
    if (wire_encode(type, body, &frame, &err) == STATUS_OK)
        channel_send_frames(channel, frame.data, frame.size);
    else
        log_error("channel.encode", "type=%s reason=%s", wire_type_name(type),
                  LOG_QUOTED(err.text));
    buf_clear(&frame);
}

void
channel_send_frames(struct channel *channel, const void *bytes, size_t size)
{
    if (channel->bev == NULL || channel->is_stuck)
        return;
    if (channel_pending(channel) + size > CHANNEL_OUTPUT_MAX_BYTES) {
        /* Deferred, so that no hook runs under a sender's feet. */
        channel->is_stuck = true;
        bufferevent_trigger_event(channel->bev, BEV_EVENT_ERROR,
                                  BEV_TRIG_DEFER_CALLBACKS);
        return;
    }
    bufferevent_write(channel->bev, bytes, size);
}

size_t
channel_pending(const struct channel *channel)
{
    if (channel->bev == NULL)
        return 0;
    return evbuffer_get_length(bufferevent_get_output(channel->bev));
}

uint64_t
channel_unknown_count(const struct channel *channel)
{
    return channel->unknown_count;
}
