/* link.h - the agent's connection to its coordinator: TLS, greeting, beats,
 * and coming back after a loss with jittered back-off.
 *
 * Belongs to the loop's thread. */
#ifndef BERTH_NODE_AGENT_LINK_H
#define BERTH_NODE_AGENT_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/units.h"
#include "common/wire.h"
#include "node-agent/home.h"

struct event_base;
struct link;

enum {
    LINK_RETRY_LEAST_MS = 500,
    LINK_STABLE_S = 60,   /* up for so long: the back-off starts over */
    LINK_GREETING_S = 20, /* connecting, TLS and welcome */
    LINK_REASON_BYTES = ERROR_TEXT_BYTES + 128,
};

enum link_state {
    LINK_STOPPED, /* before the start, and after a refusal for good */
    LINK_RESTING, /* the next try comes when the back-off ends */
    LINK_CONNECTING,
    LINK_GREETING, /* hello is sent */
    LINK_UP,
};

struct link_hooks {
    void (*fill_hello)(void *arg, struct wire_hello *hello);
    void (*fill_beat)(void *arg, struct wire_beat *beat);
    void (*on_welcome)(void *arg, const struct wire_welcome *welcome);
    /* Anything after the welcome. */
    void (*on_frame)(void *arg, const struct wire_message *message,
                     const uint8_t *frame, size_t frame_size);
    /* The link was up and is lost. */
    void (*on_down)(void *arg);
    /* Refused for good: the agent is to end. */
    void (*on_refused)(void *arg, const struct wire_refuse *refuse);
    void *arg;
};

/* @home is kept: keys are read from it at every connect, so that a renewed
 * certificate counts from the next one on.  @address "host:port" replaces the
 * stored one unless "".  Tries are at most @retry_most_s apart. */
struct link *link_new(struct event_base *base, const struct home *home,
                      const char *address, uint64_t retry_most_s,
                      const struct link_hooks *hooks);
void link_free(struct link *link);
void link_start(struct link *link);
/* Close for @reason and try again later. */
void link_close(struct link *link, const char *reason);

/* Nothing happens while the link is not up. */
void link_send(struct link *link, enum wire_type type, const void *body);
void link_send_frames(struct link *link, const void *bytes, size_t size);
size_t link_pending(const struct link *link);

enum link_state link_state(const struct link *link);
const char *link_state_name(enum link_state state);
/* Since when it is up, for people. */
struct instant link_since(const struct link *link);
/* Why it was lost or could not be made, "" when it never was. */
const char *link_reason(const struct link *link);
/* Until the next try; 0 unless LINK_RESTING. */
int64_t link_next_ms(const struct link *link);
uint64_t link_unknown_count(const struct link *link);

#endif
