/* channel.h - frames of common/wire.h over a libevent bufferevent, for the
 * link to the coordinator and the sockets of the engines alike.
 *
 * A frame that is too large or does not decode closes the channel with the
 * reason; a frame of an unknown type is counted and ignored.  Belongs to the
 * loop's thread. */
#ifndef BERTH_NODE_AGENT_CHANNEL_H
#define BERTH_NODE_AGENT_CHANNEL_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/wire.h"

struct bufferevent;
struct channel;

enum {
    /* A peer that lets this much pile up is not reading any more. */
    CHANNEL_OUTPUT_MAX_BYTES = 32 * 1024 * 1024,
};

struct channel_hooks {
    /* The connection (and its TLS handshake) is there; may be NULL. */
    void (*on_open)(void *arg);
    /* One message, and its frame with head for passing on; both borrowed. */
    void (*on_frame)(void *arg, const struct wire_message *message,
                     const uint8_t *frame, size_t frame_size);
    /* Called once, whoever closed it; @reason is one line. */
    void (*on_close)(void *arg, const char *reason);
    void *arg;
};

/* @bev is taken: it is freed on close. */
struct channel *channel_new(struct bufferevent *bev,
                            const struct channel_hooks *hooks);
/* Closes without calling on_close; NULL is nothing.  Allowed in hooks. */
void channel_free(struct channel *channel);
void channel_close(struct channel *channel, const char *reason);

/* Encode and send; after a close nothing happens.  Sending calls no hook. */
void channel_send(struct channel *channel, enum wire_type type,
                  const void *body);
/* Bytes of whole frames. */
void channel_send_frames(struct channel *channel, const void *bytes,
                         size_t size);
/* Bytes not yet given to the kernel. */
size_t channel_pending(const struct channel *channel);
uint64_t channel_unknown_count(const struct channel *channel);

#endif
