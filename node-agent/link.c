/* link.c - one connection to the coordinator at a time. */
#include "node-agent/link.h"

#include <assert.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/dns.h>
#include <event2/event.h>
#include <openssl/ssl.h>

#include "common/cert.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/prng.h"
#include "node-agent/backoff.h"
#include "node-agent/channel.h"
#include "node-agent/host.h"

#include "common/banned.h"

enum {
    ADDRESSES_MAX = 8,
    BEAT_MOST_S = 3600,
    SILENT_BEATS = 3,
};

struct address {
    struct sockaddr_storage at;
    socklen_t size;
};

struct link {
    struct event_base *base;
    const struct home *home;
    char override[HOME_HOST_BYTES + 16];
    struct link_hooks hooks;
    enum link_state state;
    struct evdns_base *dns;                  /* of the latest attempt */
    struct evdns_getaddrinfo_request *query; /* NULL: none under way */
    bool has_answered; /* the query called back before it returned */
    char host[HOME_HOST_BYTES];
    uint16_t port;
    struct address addresses[ADDRESSES_MAX];
    size_t address_count;
    size_t address_next;
    struct ssl_ctx_st *context;
    struct channel *channel;
    struct event *timer; /* greeting limit, or the end of the back-off */
    struct event *beat;
    uint32_t beat_s;
    struct span heard;
    struct prng prng;
    int64_t retry_most_ms;
    unsigned failures;
    struct span up_at;
    struct span next_at;
    struct instant since;
    char reason[LINK_REASON_BYTES];
    uint64_t unknown_count; /* of connections before this one */
};

static const char *const state_names[] = {
    [LINK_STOPPED] = "stopped",
    [LINK_RESTING] = "waiting",
    [LINK_CONNECTING] = "connecting",
    [LINK_GREETING] = "greeting",
    [LINK_UP] = "up",
};

static void connect_next(struct link *link);

static void
set_timer(struct event *timer, int64_t ms)
{
    struct timeval tv = {.tv_sec = ms / 1000,
                         .tv_usec = (suseconds_t)(ms % 1000 * 1000)};

    event_add(timer, &tv);
}

/* --- losing it --- */

static void
drop(struct link *link)
{
    if (link->query != NULL)
        evdns_getaddrinfo_cancel(link->query);
    link->query = NULL;
    if (link->channel != NULL)
        link->unknown_count += channel_unknown_count(link->channel);
    channel_free(link->channel);
    link->channel = NULL;
    event_del(link->beat);
    event_del(link->timer);
}

static void
rest(struct link *link)
{
    int64_t ceiling = backoff_ceiling_ms(LINK_RETRY_LEAST_MS,
                                         link->retry_most_ms, link->failures);
    int64_t ms = backoff_jitter_ms(ceiling, &link->prng);

    link->failures++;
    link->state = LINK_RESTING;
    link->next_at = span_add(clock_monotonic(), span_ms(ms));
    log_warn("link.down", "host=%s again_ms=%" PRId64 " reason=%s", link->host,
             ms, LOG_QUOTED(link->reason));
    set_timer(link->timer, ms);
}

/* The attempt or the connection is over: tell, and try again later. */
static void
lose(struct link *link, const char *reason)
{
    bool was_up = link->state == LINK_UP;
    struct span up = span_sub(clock_monotonic(), link->up_at);

    snprintf(link->reason, sizeof(link->reason), "%s", reason);
    drop(link);
    if (was_up && up.ns >= span_s(LINK_STABLE_S).ns)
        link->failures = 0;
    rest(link);
    if (was_up)
        link->hooks.on_down(link->hooks.arg);
}

static void
on_close(void *arg, const char *reason)
{
    struct link *link = arg;

    /* Another address of the same name may answer. */
    if (link->state == LINK_CONNECTING &&
        link->address_next < link->address_count) {
        snprintf(link->reason, sizeof(link->reason), "%s", reason);
        channel_free(link->channel);
        link->channel = NULL;
        connect_next(link);
        return;
    }
    lose(link, reason);
}

/* --- greeting and beats --- */

static void
say_hello(void *arg)
{
    struct link *link = arg;
    struct wire_hello *hello = mem_alloc(sizeof(*hello));

    link->state = LINK_GREETING;
    link->hooks.fill_hello(link->hooks.arg, hello);
    channel_send(link->channel, WIRE_HELLO, hello);
    free(hello);
}

static void
on_beat(evutil_socket_t fd, short what, void *arg)
{
    struct link *link = arg;
    struct wire_beat beat = {0};
    struct span silent = span_sub(clock_monotonic(), link->heard);

    (void)fd;
    (void)what;
    if (silent.ns > span_s((int64_t)SILENT_BEATS * link->beat_s).ns) {
        lose(link, "the coordinator is silent");
        return;
    }
    link->hooks.fill_beat(link->hooks.arg, &beat);
    channel_send(link->channel, WIRE_BEAT, &beat);
}

static void
take_welcome(struct link *link, const struct wire_welcome *welcome)
{
    struct timeval every = {0};

    if (welcome->version != WIRE_VERSION || welcome->beat_s == 0 ||
        welcome->beat_s > BEAT_MOST_S) {
        lose(link, "a welcome this agent does not understand");
        return;
    }
    event_del(link->timer);
    link->state = LINK_UP;
    link->reason[0] = '\0';
    link->beat_s = welcome->beat_s;
    link->up_at = clock_monotonic();
    link->since = clock_wall();
    every.tv_sec = (time_t)welcome->beat_s;
    event_add(link->beat, &every);
    log_info("link.up", "host=%s port=%u epoch=%" PRIu64, link->host,
             (unsigned)link->port, welcome->epoch);
    link->hooks.on_welcome(link->hooks.arg, welcome);
}

/* A refusal that trying again cannot mend. */
static bool
is_final(const struct wire_refuse *refuse)
{
    return strcmp(refuse->code, "revoked") == 0 ||
           strcmp(refuse->code, "version") == 0;
}

static void
take_refuse(struct link *link, const struct wire_refuse *refuse)
{
    char reason[LINK_REASON_BYTES];

    snprintf(reason, sizeof(reason), "refused: %s", refuse->text);
    if (!is_final(refuse)) {
        lose(link, reason);
        return;
    }
    snprintf(link->reason, sizeof(link->reason), "%s", reason);
    drop(link);
    link->state = LINK_STOPPED;
    link->hooks.on_refused(link->hooks.arg, refuse);
}

static void
on_frame(void *arg, const struct wire_message *message, const uint8_t *frame,
         size_t frame_size)
{
    struct link *link = arg;

    link->heard = clock_monotonic();
    if (message->type == WIRE_REFUSE)
        take_refuse(link, &message->refuse);
    else if (message->type == WIRE_BEAT)
        return; /* heard */
    else if (link->state == LINK_UP)
        link->hooks.on_frame(link->hooks.arg, message, frame, frame_size);
    else if (message->type == WIRE_WELCOME)
        take_welcome(link, &message->welcome);
    else
        lose(link, "the coordinator spoke before its welcome");
}

/* --- connecting --- */

static void
connect_next(struct link *link)
{
    const struct channel_hooks hooks = {.on_open = say_hello,
                                        .on_frame = on_frame,
                                        .on_close = on_close,
                                        .arg = link};
    const struct address *address = &link->addresses[link->address_next++];
    struct timeval stalled = {.tv_sec = LINK_GREETING_S};
    struct error err = {0};
    struct bufferevent *bev;
    struct ssl_st *ssl;

    /* Each address has the whole time: one may swallow every packet. */
    set_timer(link->timer, INT64_C(1000) * LINK_GREETING_S);
    if (cert_tls_session(link->context, link->host, &ssl, &err) != STATUS_OK) {
        lose(link, err.text);
        return;
    }
    bev = bufferevent_openssl_socket_new(
        link->base, -1, ssl, BUFFEREVENT_SSL_CONNECTING,
        BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
    bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
    bufferevent_set_timeouts(bev, NULL, &stalled);
    link->channel = channel_new(bev, &hooks);
    if (bufferevent_socket_connect(bev, (const struct sockaddr *)&address->at,
                                   (int)address->size) == 0)
        host_link_options(bufferevent_getfd(bev), LINK_GREETING_S);
    else /* no callback comes then: go on with the next address */
        channel_close(link->channel, "cannot connect");
}

static void
on_resolved(int result, struct evutil_addrinfo *found, void *arg)
{
    struct link *link = arg;
    char reason[LINK_REASON_BYTES];

    if (result == EVUTIL_EAI_CANCEL)
        return;
    link->query = NULL;
    link->has_answered = true;
    for (const struct evutil_addrinfo *each = found;
         each != NULL && link->address_count < ADDRESSES_MAX;
         each = each->ai_next) {
        struct address *address = &link->addresses[link->address_count++];

        memcpy(&address->at, each->ai_addr, each->ai_addrlen);
        address->size = (socklen_t)each->ai_addrlen;
    }
    if (found != NULL)
        evutil_freeaddrinfo(found);
    if (link->address_count > 0) {
        connect_next(link);
        return;
    }
    snprintf(reason, sizeof(reason), "%s: %s", link->host,
             evutil_gai_strerror(result));
    lose(link, reason);
}

static void
resolve(struct link *link)
{
    const struct evutil_addrinfo hints = {.ai_family = AF_UNSPEC,
                                          .ai_socktype = SOCK_STREAM,
                                          .ai_protocol = IPPROTO_TCP};
    struct evdns_getaddrinfo_request *query;
    char port[8];

    snprintf(port, sizeof(port), "%u", (unsigned)link->port);
    link->address_count = 0;
    link->address_next = 0;
    link->has_answered = false;
    query = evdns_getaddrinfo(link->dns, link->host, port, &hints, on_resolved,
                              link);
    if (!link->has_answered)
        link->query = query;
}

/* Read who we are and whom to trust afresh. */
static enum status
prepare(struct link *link, struct error *err)
{
    struct identity identity;
    struct ssl_ctx_st *context = NULL;
    enum status status = identity_read(link->home, &identity, err);

    if (status != STATUS_OK)
        return status;
    if (link->override[0] != '\0')
        status =
            home_link_parse(link->override, identity.host, &identity.port, err);
    if (status == STATUS_OK)
        status = cert_tls_client(identity.ca.data, identity.cert.data,
                                 identity.key.data, &context, err);
    if (status == STATUS_OK) {
        if (link->context != NULL)
            cert_tls_free(link->context);
        link->context = context;
        link->port = identity.port;
        snprintf(link->host, sizeof(link->host), "%s", identity.host);
    }
    identity_clear(&identity);
    return status;
}

/* The name servers may have changed since the last attempt: a laptop moves. */
static void
renew_resolver(struct link *link)
{
    if (link->dns != NULL)
        evdns_base_free(link->dns, 0);
    link->dns = evdns_base_new(link->base, EVDNS_BASE_DISABLE_WHEN_INACTIVE);
    /* Without the file names in /etc/hosts and addresses still work. */
    (void)evdns_base_resolv_conf_parse(link->dns, DNS_OPTIONS_ALL,
                                       "/etc/resolv.conf");
}

static void
try_now(struct link *link)
{
    struct error err = {0};

    renew_resolver(link);
    link->state = LINK_CONNECTING;
    set_timer(link->timer, INT64_C(1000) * LINK_GREETING_S);
    if (prepare(link, &err) != STATUS_OK)
        lose(link, err.text);
    else
        resolve(link);
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct link *link = arg;

    (void)fd;
    (void)what;
    if (link->state == LINK_RESTING)
        try_now(link);
    else if (link->channel != NULL)
        on_close(link, "the coordinator did not answer in time");
    else
        lose(link, "the coordinator did not answer in time");
}

/* --- public --- */

struct link *
link_new(struct event_base *base, const struct home *home, const char *address,
         uint64_t retry_most_s, const struct link_hooks *hooks)
{
    struct link *link = mem_alloc(sizeof(*link));
    uint64_t seed;

    cert_random(&seed, sizeof(seed));
    prng_seed(&link->prng, seed);
    link->base = base;
    link->home = home;
    link->hooks = *hooks;
    link->retry_most_ms = (int64_t)retry_most_s * 1000;
    snprintf(link->override, sizeof(link->override), "%s", address);
    link->timer = event_new(base, -1, 0, on_timer, link);
    link->beat = event_new(base, -1, EV_PERSIST, on_beat, link);
    return link;
}

void
link_free(struct link *link)
{
    drop(link);
    if (link->dns != NULL)
        evdns_base_free(link->dns, 0);
    event_free(link->timer);
    event_free(link->beat);
    if (link->context != NULL)
        cert_tls_free(link->context);
    free(link);
}

void
link_start(struct link *link)
{
    assert(link->state == LINK_STOPPED);
    try_now(link);
}

void
link_close(struct link *link, const char *reason)
{
    if (link->channel != NULL)
        lose(link, reason);
}

void
link_send(struct link *link, enum wire_type type, const void *body)
{
    if (link->state == LINK_UP)
        channel_send(link->channel, type, body);
}

void
link_send_frames(struct link *link, const void *bytes, size_t size)
{
    if (link->state == LINK_UP)
        channel_send_frames(link->channel, bytes, size);
}

size_t
link_pending(const struct link *link)
{
    return link->channel == NULL ? 0 : channel_pending(link->channel);
}

enum link_state
link_state(const struct link *link)
{
    return link->state;
}

const char *
link_state_name(enum link_state state)
{
    return state_names[state];
}

struct instant
link_since(const struct link *link)
{
    return link->since;
}

const char *
link_reason(const struct link *link)
{
    return link->reason;
}

int64_t
link_next_ms(const struct link *link)
{
    int64_t ms = span_as_ms(span_sub(link->next_at, clock_monotonic()));

    return link->state == LINK_RESTING && ms > 0 ? ms : 0;
}

uint64_t
link_unknown_count(const struct link *link)
{
    return link->unknown_count +
           (link->channel == NULL ? 0 : channel_unknown_count(link->channel));
}
