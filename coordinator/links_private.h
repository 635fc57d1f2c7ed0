/* links_private.h - what the files of the links thread share; of that thread
 * alone, but for what links->lock guards. */
#ifndef BERTH_COORDINATOR_LINKS_PRIVATE_H
#define BERTH_COORDINATOR_LINKS_PRIVATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>

#include "coordinator/idmap.h"
#include "coordinator/links.h"

struct order; /* of another thread, links.c */

struct link {
    struct links *links;
    uint64_t id;
    struct bufferevent *bev;
    char node[UUID_TEXT_BYTES]; /* "" before the handshake is done */
    bool ending;                /* close when the output is written */
    uint32_t unknown;           /* frames of types we do not know */
    struct link *next;
};

/* A job that was sent to an agent. */
struct live {
    char job[UUID_TEXT_BYTES];
    uint32_t attempt;
    uint64_t link;
    struct record *record;
    bool cancelled;
};

struct links {
    struct core *core;
    uint64_t epoch;
    uint32_t silence_s;
    struct ssl_ctx_st *tls;
    struct event_base *base;
    struct evconnlistener *listener;
    struct event *wake_event, *peer_event;
    struct event *accept_event; /* timer: the listener rests until then */
    bool accept_failed;         /* since the last connection */
    int wake[2];
    int peerwatch;
    uint16_t port;
    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* of the outbox and quit */
    struct order *first, *last;
    bool quit;
    /* of the loop */
    bool stopping; /* the core is gone */
    struct link *all;
    size_t link_count;
    uint64_t next_id;
    struct idmap lives;           /* struct live */
    struct idmap watches;         /* struct watch */
    struct wire_message *message; /* decoding space */
};

/* links_agent.c: the connections of agents. */

/* The one function that closes a link. */
void link_close(struct link *link, const char *reason);
/* NULL when it is gone. */
struct link *link_find(struct links *links, uint64_t id);
/* Forget a dispatched job. */
void live_drop(struct links *links, const char *job);
/* Send job.cancel for a dispatched job, once. */
void live_cancel(struct links *links, const char *job, const char *reason);
/* Of the listener; @arg is the struct links. */
void links_on_accept(struct evconnlistener *listener, evutil_socket_t fd,
                     struct sockaddr *address, int size, void *arg);

#endif
