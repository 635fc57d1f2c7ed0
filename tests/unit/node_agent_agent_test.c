/* node_agent_agent_test.c - a whole agent on one loop with a coordinator made
 * for the test: real TLS, real engine processes (this program again, as
 * "serve"), real model folders. */
#include "node-agent/agent.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <openssl/ssl.h>

#include "common/cert.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/units.h"
#include "common/wire.h"
#include "node-agent/channel.h"
#include "node-agent/control.h"
#include "node-agent/host.h"
#include "node-agent/process.h"

#define NODE "01939a3c-7e40-7abc-8def-0123456789ab"
#define JOB "01939a3c-7e40-7abc-8def-0123456789ac"
#define OTHER_JOB "01939a3c-7e40-7abc-8def-0123456789ad"
/* cd tests/models/tiny-chat; sha256sum FILES | sha256sum */
#define TINY_CHAT                                                              \
    "49ee717ca4a64789a380d8d97f62a9c7e0d0eb01916b7bb6f8955fd9246a308b"

enum {
    WATCHDOG_S = 20,
    EPOCH = 7,
    /* What the engine of these tests does, told by the seed of a job. */
    SEED_ANSWER = 1, /* max_tokens ids, then done */
    SEED_HANG,       /* one id, then only a cancel ends it */
    SEED_CRASH,      /* one id, then the process ends */
};

/* --- the engine --- */

struct fake {
    int fd;
    struct wire_message *message;
    uint64_t inputs; /* ids of job.input so far */
};

static void
fake_send(const struct fake *fake, enum wire_type type, const void *body)
{
    struct buf frame;

    buf_init(&frame, WIRE_HEAD_BYTES + WIRE_FRAME_MAX_BYTES);
    if (wire_encode(type, body, &frame, NULL) != STATUS_OK ||
        write(fake->fd, frame.data, frame.size) != (ssize_t)frame.size)
        _exit(9);
    buf_clear(&frame);
}

static void
read_whole(int fd, void *bytes, size_t size)
{
    char *at = bytes;

    while (size > 0) {
        ssize_t got = read(fd, at, size);

        if (got <= 0)
            _exit(0); /* the agent is gone: so are we */
        at += got;
        size -= (size_t)got;
    }
}

static void
fake_read(struct fake *fake)
{
    static char text[WIRE_FRAME_MAX_BYTES];
    uint8_t head[WIRE_HEAD_BYTES];
    size_t size;

    read_whole(fake->fd, head, sizeof(head));
    size = wire_head_size(head);
    read_whole(fake->fd, text, size);
    if (wire_decode(text, size, fake->message, NULL) != STATUS_OK)
        _exit(8);
}

static void
fake_run(const struct fake *fake, const struct wire_job_run *run)
{
    struct wire_job_started started = {.attempt = run->attempt};
    struct wire_job_tokens *tokens = mem_alloc(sizeof(*tokens));
    struct wire_job_done done = {.attempt = run->attempt, .reason = "length"};

    memcpy(started.job, run->job, sizeof(started.job));
    memcpy(tokens->job, run->job, sizeof(tokens->job));
    memcpy(done.job, run->job, sizeof(done.job));
    fake_send(fake, WIRE_JOB_STARTED, &started);
    tokens->attempt = run->attempt;
    tokens->id_count =
        run->sampling.seed == SEED_ANSWER ? (size_t)run->max_tokens : 1;
    for (size_t i = 0; i < tokens->id_count; i++)
        tokens->ids[i] = (uint32_t)(fake->inputs * 100 + i);
    fake_send(fake, WIRE_JOB_TOKENS, tokens);
    done.ids = tokens->id_count;
    if (run->sampling.seed == SEED_ANSWER)
        fake_send(fake, WIRE_JOB_DONE, &done);
    if (run->sampling.seed == SEED_CRASH) {
        fprintf(stderr, "the roof is on fire\n");
        _exit(3);
    }
    free(tokens);
}

static void
fake_cancel(const struct fake *fake, const struct wire_job_cancel *cancel)
{
    struct wire_job_fail fail = {
        .attempt = cancel->attempt, .code = "cancelled", .ids = 1, .passes = 5};

    memcpy(fail.job, cancel->job, sizeof(fail.job));
    fake_send(fake, WIRE_JOB_FAIL, &fail);
}

static int
fake_listen(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    if (bind(listener, (const struct sockaddr *)&address, sizeof(address)) !=
            0 ||
        listen(listener, 1) != 0)
        _exit(7);
    return accept(listener, NULL, NULL);
}

/* serve --model DIR --socket PATH --slots N --kv-bytes N */
static int
fake_engine(int argc, char **argv)
{
    struct fake fake = {.message = mem_alloc(sizeof(struct wire_message))};
    struct wire_engine_ready ready = {.backend = "cpu",
                                      .version = "fake",
                                      .slots = 4,
                                      .context_max = 512,
                                      .kv_bytes_per_token = 1024};

    if (argc < 10)
        return 2;
    fake.fd = fake_listen(argv[5]);
    if (parse_u64(argv[9], strlen(argv[9]), INT64_MAX, &ready.kv_bytes) !=
        STATUS_OK)
        return 2;
    fprintf(stderr, "all is well\n");
    fake_send(&fake, WIRE_ENGINE_READY, &ready);
    for (;;) {
        fake_read(&fake);
        if (fake.message->type == WIRE_JOB_INPUT)
            fake.inputs += fake.message->job_input.id_count;
        else if (fake.message->type == WIRE_JOB_RUN)
            fake_run(&fake, &fake.message->job_run);
        else if (fake.message->type == WIRE_JOB_CANCEL)
            fake_cancel(&fake, &fake.message->job_cancel);
    }
}

/* --- the coordinator --- */

struct world {
    char folder[64];
    struct event_base *base;
    struct event *watchdog;
    struct evconnlistener *listener;
    struct ssl_ctx_st *tls;
    struct channel *channel; /* the agent's connection */
    struct home home;
    struct agent_config config;
    struct probe probe;
    struct agent *agent;
    char self[1024];
    struct buf ca, ca_key;
    uint64_t welcome_epoch;
    bool is_silent; /* answers no beat */
    struct wire_message *last[WIRE_TYPE_COUNT];
    unsigned count[WIRE_TYPE_COUNT];
    unsigned closes;
    bool is_late;
};

static struct world *world;

static void
on_frame(void *arg, const struct wire_message *message, const uint8_t *frame,
         size_t size)
{
    struct wire_welcome welcome = {.version = WIRE_VERSION,
                                   .epoch = world->welcome_epoch,
                                   .name = "quiet-heron",
                                   .beat_s = 1,
                                   .dev = true};

    (void)arg;
    (void)frame;
    (void)size;
    if (world->last[message->type] == NULL)
        world->last[message->type] = mem_alloc(sizeof(*message));
    *world->last[message->type] = *message;
    world->count[message->type]++;
    if (message->type == WIRE_HELLO && world->welcome_epoch != 0)
        channel_send(world->channel, WIRE_WELCOME, &welcome);
    if (message->type == WIRE_BEAT && !world->is_silent)
        channel_send(world->channel, WIRE_BEAT, &(struct wire_beat){0});
}

static void
on_close(void *arg, const char *reason)
{
    (void)arg;
    (void)reason;
    world->closes++;
}

static void
on_accept(struct evconnlistener *listener, evutil_socket_t fd,
          struct sockaddr *address, int size, void *arg)
{
    const struct channel_hooks hooks = {.on_frame = on_frame,
                                        .on_close = on_close};

    (void)listener;
    (void)address;
    (void)size;
    (void)arg;
    channel_free(world->channel);
    world->channel =
        channel_new(bufferevent_openssl_socket_new(
                        world->base, fd, SSL_new(world->tls),
                        BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE),
                    &hooks);
}

static void
on_watchdog(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
    world->is_late = true;
}

/* Turn the loop until @claim holds. */
#define WAIT_FOR(claim)                                                        \
    do {                                                                       \
        while (!(claim) && !world->is_late)                                    \
            event_base_loop(world->base, EVLOOP_ONCE);                         \
        assert_true(claim);                                                    \
    } while (0)

static void
make_identity(uint16_t port)
{
    static const char *const names[] = {"127.0.0.1"};
    struct identity identity = {
        .node = NODE, .host = "127.0.0.1", .port = port};
    struct buf request, cert, key;

    buf_init(&world->ca, CERT_PEM_MAX_BYTES);
    buf_init(&world->ca_key, CERT_PEM_MAX_BYTES);
    buf_init(&identity.cert, CERT_PEM_MAX_BYTES);
    buf_init(&identity.key, CERT_PEM_MAX_BYTES);
    buf_init(&request, CERT_PEM_MAX_BYTES);
    buf_init(&cert, CERT_PEM_MAX_BYTES);
    buf_init(&key, CERT_PEM_MAX_BYTES);
    assert_int_equal(cert_ca_make("test", &world->ca, &world->ca_key, NULL),
                     STATUS_OK);
    assert_int_equal(cert_server_make(world->ca.data, world->ca_key.data, names,
                                      1, 2, &cert, &key, NULL),
                     STATUS_OK);
    assert_int_equal(
        cert_tls_server(world->ca.data, cert.data, key.data, &world->tls, NULL),
        STATUS_OK);
    assert_int_equal(cert_request_make(&request, &identity.key, NULL),
                     STATUS_OK);
    assert_int_equal(cert_node_sign(world->ca.data, world->ca_key.data,
                                    request.data, NODE, 90, &identity.cert,
                                    NULL),
                     STATUS_OK);
    identity.ca = world->ca;
    assert_int_equal(identity_write(&world->home, &identity, NULL), STATUS_OK);
    buf_clear(&identity.cert);
    buf_clear(&identity.key);
    buf_clear(&request);
    buf_clear(&cert);
    buf_clear(&key);
}

static uint16_t
listen_on_loopback(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);

    world->listener = evconnlistener_new_bind(
        world->base, on_accept, NULL, LEV_OPT_CLOSE_ON_FREE, 8,
        (const struct sockaddr *)&address, sizeof(address));
    assert_non_null(world->listener);
    assert_int_equal(getsockname(evconnlistener_get_fd(world->listener),
                                 (struct sockaddr *)&address, &size),
                     0);
    return ntohs(address.sin_port);
}

static int
set_up(void **state)
{
    const struct timeval late = {.tv_sec = WATCHDOG_S};
    char path[128];

    (void)state;
    log_set_level(LOG_ERROR);
    world = mem_alloc(sizeof(*world));
    snprintf(world->folder, sizeof(world->folder), "/tmp/berth-test-XXXXXX");
    assert_non_null(mkdtemp(world->folder));
    snprintf(path, sizeof(path), "%s/home", world->folder);
    assert_int_equal(home_open(path, true, &world->home, NULL), STATUS_OK);
    world->base = event_base_new();
    world->watchdog = event_new(world->base, -1, 0, on_watchdog, NULL);
    event_add(world->watchdog, &late);
    world->welcome_epoch = EPOCH;
    make_identity(listen_on_loopback());
    assert_int_equal(agent_config_read(NULL, &world->config, NULL), STATUS_OK);
    snprintf(world->config.models[0], CONFIG_PATH_BYTES, "tests/models");
    world->config.model_count = 1;
    assert_int_equal(host_self_path(world->self, sizeof(world->self), NULL),
                     STATUS_OK);
    snprintf(world->probe.facts.os, sizeof(world->probe.facts.os), "linux");
    snprintf(world->probe.facts.chip, sizeof(world->probe.facts.chip), "x");
    world->probe.facts.has_limit_bytes = true;
    world->probe.facts.limit_bytes = 8 * GIB;
    snprintf(world->probe.facts.limit_source,
             sizeof(world->probe.facts.limit_source), "memory");
    return 0;
}

static int
tear_down(void **state)
{
    char command[128];

    (void)state;
    agent_free(world->agent);
    channel_free(world->channel);
    evconnlistener_free(world->listener);
    cert_tls_free(world->tls);
    event_free(world->watchdog);
    event_base_free(world->base);
    for (size_t i = 0; i < WIRE_TYPE_COUNT; i++)
        free(world->last[i]);
    buf_clear(&world->ca);
    buf_clear(&world->ca_key);
    snprintf(command, sizeof(command), "rm -rf %s", world->folder);
    assert_int_equal(system(command), 0);
    free(world);
    return 0;
}

/* An agent that has been welcomed and has announced its models. */
static void
start_agent(void)
{
    const struct agent_setup setup = {.base = world->base,
                                      .home = &world->home,
                                      .config = &world->config,
                                      .probe = &world->probe,
                                      .engine = world->self};
    struct error err = {0};

    if (agent_new(&setup, &world->agent, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    agent_start(world->agent);
    WAIT_FOR(world->count[WIRE_HELLO] == 1);
    WAIT_FOR(world->closes > 0 ||
             (world->count[WIRE_MODELS] > 0 &&
              world->last[WIRE_MODELS]->models.model_count == 3));
}

static void
send_run(const char *job, uint32_t attempt, uint64_t epoch, uint64_t seed)
{
    struct wire_job_input *input = mem_alloc(sizeof(*input));
    struct wire_job_run *run = mem_alloc(sizeof(*run));

    snprintf(input->job, sizeof(input->job), "%s", job);
    input->attempt = run->attempt = attempt;
    input->epoch = run->epoch = epoch;
    input->id_count = 2;
    input->ids[0] = 11;
    input->ids[1] = 12;
    channel_send(world->channel, WIRE_JOB_INPUT, input);
    snprintf(run->job, sizeof(run->job), "%s", job);
    snprintf(run->model, sizeof(run->model), "tiny-chat");
    snprintf(run->digest, sizeof(run->digest), TINY_CHAT);
    run->prompt_count = 2;
    run->max_tokens = 3;
    run->kv_tokens = 5;
    run->sampling.seed = seed;
    run->sampling.top_p = 1;
    channel_send(world->channel, WIRE_JOB_RUN, run);
    free(input);
    free(run);
}

static void
send_cancel(const char *job)
{
    struct wire_job_cancel cancel = {
        .attempt = 1, .epoch = EPOCH, .reason = "client_gone"};

    snprintf(cancel.job, sizeof(cancel.job), "%s", job);
    channel_send(world->channel, WIRE_JOB_CANCEL, &cancel);
}

static const struct wire_job_fail *
last_fail(void)
{
    return &world->last[WIRE_JOB_FAIL]->job_fail;
}

static bool
state_is(const char *state)
{
    return world->last[WIRE_STATE] != NULL &&
           strcmp(world->last[WIRE_STATE]->state.state, state) == 0;
}

/* Asking blocks, so a child asks while this process turns the loop. */
static void
ask_in_child(void *arg, int fd)
{
    struct buf answer;
    struct error err = {0};

    buf_init(&answer, CONTROL_ANSWER_MAX_BYTES);
    if (control_ask(&world->home, arg, true, &answer, &err) != STATUS_OK)
        buf_append_text(&answer, err.text);
    if (write(fd, answer.data, answer.size) < 0)
        _exit(1);
    buf_clear(&answer);
}

static void
ask(const char *command, struct json_doc *doc)
{
    char name[32];
    char how[64];
    char bytes[4096];
    struct buf answer;
    pid_t pid;
    int fd;
    ssize_t got;

    snprintf(name, sizeof(name), "%s", command);
    buf_init(&answer, CONTROL_ANSWER_MAX_BYTES);
    assert_int_equal(process_help(ask_in_child, name, &pid, &fd, NULL),
                     STATUS_OK);
    WAIT_FOR(process_has_ended(pid, how, sizeof(how)));
    while ((got = read(fd, bytes, sizeof(bytes))) > 0)
        buf_append(&answer, bytes, (size_t)got);
    close(fd);
    assert_int_equal(json_doc_parse(answer.data, answer.size, doc, NULL),
                     STATUS_OK);
    buf_clear(&answer);
}

/* --- claims --- */

static void
hello_tells_who_and_what(void **state)
{
    const struct wire_hello *hello;

    (void)state;
    start_agent();
    hello = &world->last[WIRE_HELLO]->hello;
    assert_string_equal(hello->node, NODE);
    assert_string_equal(hello->state, "lending");
    assert_int_equal(hello->version, WIRE_VERSION);
    assert_int_equal(hello->engine.slots, 4);
    assert_true(hello->facts.limit_bytes == 8 * GIB);
    WAIT_FOR(world->count[WIRE_BEAT] > 0);
    assert_true(world->last[WIRE_BEAT]->beat.free_bytes > 0);
    assert_true(home_epoch(&world->home) == EPOCH);
}

static void
models_are_announced_by_the_digest_of_their_files(void **state)
{
    const struct wire_models *models;
    bool is_there = false;

    (void)state;
    start_agent();
    WAIT_FOR(world->count[WIRE_MODELS] > 0);
    models = &world->last[WIRE_MODELS]->models;
    assert_int_equal(models->model_count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_false(models->models[i].loaded);
        if (strcmp(models->models[i].digest, TINY_CHAT) == 0)
            is_there = true;
    }
    assert_true(is_there);
}

static void
ids_of_a_job_pass_through(void **state)
{
    const struct wire_job_tokens *tokens;

    (void)state;
    start_agent();
    send_run(JOB, 1, EPOCH, SEED_ANSWER);
    WAIT_FOR(world->count[WIRE_JOB_DONE] == 1);
    tokens = &world->last[WIRE_JOB_TOKENS]->job_tokens;
    assert_int_equal(world->count[WIRE_JOB_STARTED], 1);
    assert_string_equal(tokens->job, JOB);
    assert_int_equal(tokens->id_count, 3);
    assert_int_equal(tokens->ids[0], 200); /* the engine saw both ids */
    assert_int_equal(tokens->ids[2], 202);
    WAIT_FOR(state_is("lending"));
    assert_true(world->count[WIRE_STATE] >= 2); /* busy came before */
    assert_true(world->last[WIRE_MODELS]->models.models[0].loaded ||
                world->last[WIRE_MODELS]->models.models[1].loaded ||
                world->last[WIRE_MODELS]->models.models[2].loaded);
}

static void
a_cancel_reaches_the_engine(void **state)
{
    (void)state;
    start_agent();
    send_run(JOB, 1, EPOCH, SEED_HANG);
    WAIT_FOR(world->count[WIRE_JOB_TOKENS] == 1);
    assert_true(state_is("busy"));
    send_cancel(JOB);
    WAIT_FOR(world->count[WIRE_JOB_FAIL] == 1);
    assert_string_equal(last_fail()->code, "cancelled");
    assert_int_equal(last_fail()->passes, 5); /* the engine's own count */
}

static void
a_cancel_before_the_engine_is_ready_costs_no_pass(void **state)
{
    (void)state;
    start_agent();
    send_run(JOB, 1, EPOCH, SEED_ANSWER);
    send_cancel(JOB);
    WAIT_FOR(world->count[WIRE_JOB_FAIL] == 1);
    assert_string_equal(last_fail()->code, "cancelled");
    assert_int_equal(last_fail()->passes, 0);
    assert_int_equal(world->count[WIRE_JOB_STARTED], 0);
}

static void
an_older_epoch_starts_and_cancels_nothing(void **state)
{
    (void)state;
    start_agent();
    send_run(JOB, 1, EPOCH, SEED_HANG);
    WAIT_FOR(world->count[WIRE_JOB_TOKENS] == 1);
    send_run(OTHER_JOB, 1, EPOCH - 1, SEED_ANSWER);
    WAIT_FOR(world->count[WIRE_JOB_FAIL] == 1);
    assert_string_equal(last_fail()->code, "stale_epoch");
    assert_string_equal(last_fail()->job, OTHER_JOB);
    /* A later epoch is remembered at once. */
    send_run(OTHER_JOB, 2, EPOCH + 5, SEED_ANSWER);
    WAIT_FOR(world->count[WIRE_JOB_DONE] == 1);
    assert_true(home_epoch(&world->home) == EPOCH + 5);
    send_cancel(JOB); /* of EPOCH: over by now */
    send_run(OTHER_JOB, 3, EPOCH + 5, SEED_ANSWER);
    WAIT_FOR(world->count[WIRE_JOB_DONE] == 2);
    assert_int_equal(world->count[WIRE_JOB_FAIL], 1);
}

static void
a_coordinator_whose_reign_is_over_is_left(void **state)
{
    (void)state;
    home_epoch_set(&world->home, EPOCH + 1);
    start_agent();
    WAIT_FOR(world->closes >= 1);
    assert_true(home_epoch(&world->home) == EPOCH + 1);
}

static void
garbage_closes_the_link_and_the_agent_comes_back(void **state)
{
    static const char malformed[] = "\0\0\0\x05{\"t\":";
    static const char too_large[] = "\xff\xff\xff\xff";

    (void)state;
    start_agent();
    channel_send_frames(world->channel, malformed, sizeof(malformed) - 1);
    WAIT_FOR(world->closes == 1);
    WAIT_FOR(world->count[WIRE_HELLO] == 2);
    channel_send_frames(world->channel, too_large, sizeof(too_large) - 1);
    WAIT_FOR(world->closes == 2);
    WAIT_FOR(world->count[WIRE_HELLO] == 3);
}

/* From the welcome on: a link may be swallowed before its first beat. */
static void
a_silent_coordinator_is_left(void **state)
{
    (void)state;
    world->is_silent = true;
    start_agent();
    WAIT_FOR(world->closes == 1);
    WAIT_FOR(world->count[WIRE_HELLO] == 2);
}

static void
an_unknown_type_is_counted_and_ignored(void **state)
{
    static const char frame[] = "\0\0\0\x14{\"t\":\"job.teleport\"}";
    struct json_doc doc = {0};
    int64_t count = 0;

    (void)state;
    start_agent();
    assert_int_equal(sizeof(frame) - 1 - WIRE_HEAD_BYTES, 0x14);
    channel_send_frames(world->channel, frame, sizeof(frame) - 1);
    send_run(JOB, 1, EPOCH, SEED_ANSWER);
    WAIT_FOR(world->count[WIRE_JOB_DONE] == 1);
    assert_int_equal(world->closes, 0);
    ask("status", &doc);
    assert_int_equal(
        json_as_i64(json_get(json_get(doc.root, "link"), "unknown_frames"),
                    &count),
        STATUS_OK);
    assert_int_equal(count, 1);
    json_doc_clear(&doc);
}

static void
a_dead_engine_fails_its_job_and_starts_again(void **state)
{
    struct json_doc doc = {0};
    size_t size = 0;

    (void)state;
    start_agent();
    send_run(JOB, 1, EPOCH, SEED_CRASH);
    WAIT_FOR(world->count[WIRE_JOB_FAIL] == 1);
    assert_string_equal(last_fail()->code, "engine_lost");
    assert_int_equal(last_fail()->ids, 1);
    send_run(JOB, 2, EPOCH, SEED_ANSWER);
    WAIT_FOR(world->count[WIRE_JOB_DONE] == 1);
    ask("status", &doc);
    for (size_t i = 0; i < 3; i++) {
        const struct json *model = json_at(json_get(doc.root, "models"), i);
        const char *why = json_as_text(json_get(model, "last_failure"), &size);
        int64_t restarts = 0;

        if (why == NULL)
            continue;
        assert_string_equal(why,
                            "engine ended, exit status 3: the roof is on fire");
        assert_int_equal(json_as_i64(json_get(model, "restarts"), &restarts),
                         STATUS_OK);
        assert_int_equal(restarts, 1);
    }
    json_doc_clear(&doc);
}

static void
a_load_that_does_not_fit_is_refused_with_numbers(void **state)
{
    (void)state;
    world->probe.facts.limit_bytes = 32 * MIB; /* less than the margin */
    start_agent();
    send_run(JOB, 1, EPOCH, SEED_ANSWER);
    WAIT_FOR(world->count[WIRE_JOB_FAIL] == 1);
    assert_string_equal(last_fail()->code, "no_memory");
    assert_non_null(strstr(last_fail()->text, "64 MiB of margin"));
    assert_non_null(strstr(last_fail()->text, "33.6 MB"));
}

static void
pause_gives_the_memory_back_and_resume_lends_again(void **state)
{
    struct json_doc doc = {0};
    size_t size = 0;

    (void)state;
    start_agent();
    send_run(JOB, 1, EPOCH, SEED_HANG);
    WAIT_FOR(world->count[WIRE_JOB_TOKENS] == 1);
    ask("pause", &doc);
    assert_string_equal(json_as_text(json_get(doc.root, "state"), &size),
                        "paused");
    assert_int_equal(json_count(json_get(doc.root, "jobs")), 0);
    json_doc_clear(&doc);
    WAIT_FOR(world->count[WIRE_JOB_FAIL] == 1);
    assert_string_equal(last_fail()->code, "owner_returned");
    assert_int_equal(last_fail()->ids, 1);
    WAIT_FOR(state_is("paused"));
    assert_true(home_has(&world->home, "paused"));
    send_run(JOB, 2, EPOCH, SEED_ANSWER);
    WAIT_FOR(world->count[WIRE_JOB_FAIL] == 2);
    assert_string_equal(last_fail()->code, "paused");
    ask("resume", &doc);
    json_doc_clear(&doc);
    WAIT_FOR(state_is("lending"));
    assert_false(home_has(&world->home, "paused"));
    send_run(JOB, 3, EPOCH, SEED_ANSWER);
    WAIT_FOR(world->count[WIRE_JOB_DONE] == 1);
}

static void
drain_finishes_what_runs_and_takes_no_more(void **state)
{
    struct wire_drain drain = {.epoch = EPOCH, .on = true};

    (void)state;
    start_agent();
    send_run(JOB, 1, EPOCH, SEED_HANG);
    WAIT_FOR(world->count[WIRE_JOB_TOKENS] == 1);
    channel_send(world->channel, WIRE_DRAIN, &drain);
    WAIT_FOR(state_is("draining"));
    send_run(OTHER_JOB, 1, EPOCH, SEED_ANSWER);
    WAIT_FOR(world->count[WIRE_JOB_FAIL] == 1);
    assert_string_equal(last_fail()->code, "draining");
    assert_string_equal(last_fail()->job, OTHER_JOB);
    drain.on = false;
    channel_send(world->channel, WIRE_DRAIN, &drain);
    WAIT_FOR(state_is("busy")); /* the first job was left alone */
}

static void
a_lost_link_leaves_its_job_running(void **state)
{
    struct json_doc doc = {0};

    (void)state;
    start_agent();
    send_run(JOB, 1, EPOCH, SEED_HANG);
    WAIT_FOR(world->count[WIRE_JOB_TOKENS] == 1);
    channel_close(world->channel, "test");
    WAIT_FOR(world->count[WIRE_HELLO] == 2);
    assert_string_equal(world->last[WIRE_HELLO]->hello.state, "busy");
    ask("status", &doc);
    assert_int_equal(json_count(json_get(doc.root, "jobs")), 1);
    json_doc_clear(&doc);
}

static void
send_resume(const char *job, uint32_t attempt, uint64_t epoch, uint64_t from)
{
    struct wire_job_resume resume = {
        .attempt = attempt, .epoch = epoch, .from = from};

    snprintf(resume.job, sizeof(resume.job), "%s", job);
    channel_send(world->channel, WIRE_JOB_RESUME, &resume);
}

static void
what_ended_unseen_is_reported_resumed_and_acknowledged(void **state)
{
    struct wire_job_ack ack = {.job = JOB, .attempt = 1};
    const struct wire_job_held *held;

    (void)state;
    start_agent();
    assert_int_equal(world->count[WIRE_JOB_HELD], 1); /* also when empty */
    assert_int_equal(world->last[WIRE_JOB_HELD]->job_held.attempt_count, 0);
    send_run(JOB, 1, EPOCH, SEED_ANSWER);
    WAIT_FOR(world->count[WIRE_JOB_DONE] == 1);
    channel_close(world->channel, "test");
    WAIT_FOR(world->count[WIRE_JOB_HELD] == 2);
    held = &world->last[WIRE_JOB_HELD]->job_held;
    assert_int_equal(held->attempt_count, 1);
    assert_string_equal(held->attempts[0].job, JOB);
    assert_true(held->attempts[0].ended);
    assert_int_equal(held->attempts[0].ids, 3);
    send_resume(OTHER_JOB, 1, EPOCH, 0);
    WAIT_FOR(world->count[WIRE_JOB_FAIL] == 1);
    assert_string_equal(last_fail()->code, "unknown_attempt");
    assert_int_equal(world->count[WIRE_JOB_DONE], 1); /* not asked for yet */
    send_resume(JOB, 1, EPOCH - 1, 0); /* of a reign that is over: nothing */
    send_resume(JOB, 1, EPOCH, 1);
    WAIT_FOR(world->count[WIRE_JOB_DONE] == 2);
    assert_int_equal(world->last[WIRE_JOB_TOKENS]->job_tokens.first, 1);
    assert_int_equal(world->last[WIRE_JOB_TOKENS]->job_tokens.id_count, 2);
    assert_int_equal(world->last[WIRE_JOB_TOKENS]->job_tokens.ids[0], 201);
    channel_send(world->channel, WIRE_JOB_ACK, &ack);
    send_resume(JOB, 1, EPOCH, 0);
    WAIT_FOR(world->count[WIRE_JOB_FAIL] == 2); /* it is forgotten */
}

static void
a_running_attempt_goes_on_when_it_is_resumed(void **state)
{
    (void)state;
    start_agent();
    send_run(JOB, 1, EPOCH, SEED_HANG);
    WAIT_FOR(world->count[WIRE_JOB_TOKENS] == 1);
    channel_close(world->channel, "test");
    WAIT_FOR(world->count[WIRE_JOB_HELD] == 2);
    assert_false(world->last[WIRE_JOB_HELD]->job_held.attempts[0].ended);
    send_resume(JOB, 1, EPOCH, 0);
    WAIT_FOR(world->count[WIRE_JOB_TOKENS] == 2);
    send_run(JOB, 2, EPOCH, SEED_ANSWER); /* stops the first attempt */
    WAIT_FOR(world->count[WIRE_JOB_FAIL] == 1);
    assert_string_equal(last_fail()->code, "cancelled");
    WAIT_FOR(world->count[WIRE_JOB_DONE] == 1);
    send_run(JOB, 1, EPOCH + 1, SEED_ANSWER); /* known: its end again */
    WAIT_FOR(world->count[WIRE_JOB_FAIL] == 2);
    assert_int_equal(world->count[WIRE_JOB_DONE], 1);
}

static void
an_engine_that_stops_is_killed_and_its_job_fails(void **state)
{
    (void)state;
    world->config.engine_silence_s = 1;
    start_agent();
    send_run(JOB, 1, EPOCH, SEED_HANG); /* this engine has no beat */
    WAIT_FOR(world->count[WIRE_JOB_FAIL] == 1);
    assert_string_equal(last_fail()->code, "stalled");
    send_run(JOB, 2, EPOCH, SEED_ANSWER);
    WAIT_FOR(world->count[WIRE_JOB_DONE] == 1);
}

static void
a_revoked_node_ends(void **state)
{
    struct wire_refuse refuse = {.code = "revoked", .text = "you are gone"};
    const struct agent_setup setup = {.base = world->base,
                                      .home = &world->home,
                                      .config = &world->config,
                                      .probe = &world->probe,
                                      .engine = world->self};

    (void)state;
    world->welcome_epoch = 0; /* no welcome */
    assert_int_equal(agent_new(&setup, &world->agent, NULL), STATUS_OK);
    agent_start(world->agent);
    WAIT_FOR(world->count[WIRE_HELLO] == 1);
    channel_send(world->channel, WIRE_REFUSE, &refuse);
    event_base_dispatch(world->base);
    assert_true(agent_was_refused(world->agent));
    assert_true(home_has(&world->home, "removed"));
}

static void
a_certificate_is_renewed_at_two_thirds_of_its_life(void **state)
{
    struct wire_renewed *renewed = mem_alloc(sizeof(*renewed));
    struct identity identity;
    struct buf cert, before;

    (void)state;
    assert_int_equal(home_read(&world->home, "node.crt", &before, NULL),
                     STATUS_OK);
    clock_shift_wall(span_s(INT64_C(59) * 86400));
    start_agent();
    send_run(JOB, 1, EPOCH, SEED_ANSWER);
    WAIT_FOR(world->count[WIRE_JOB_DONE] == 1);
    assert_int_equal(world->count[WIRE_RENEW], 0);
    clock_shift_wall(span_s(INT64_C(2) * 86400)); /* 61 days in all */
    channel_close(world->channel, "test");
    WAIT_FOR(world->count[WIRE_RENEW] == 1);
    clock_shift_wall(span_s(INT64_C(-61) * 86400));
    buf_init(&cert, CERT_PEM_MAX_BYTES);
    assert_int_equal(cert_node_sign(world->ca.data, world->ca_key.data,
                                    world->last[WIRE_RENEW]->renew.request,
                                    NODE, 90, &cert, NULL),
                     STATUS_OK);
    snprintf(renewed->certificate, sizeof(renewed->certificate), "%s",
             cert.data);
    channel_send(world->channel, WIRE_RENEWED, renewed);
    send_run(JOB, 2, EPOCH, SEED_ANSWER);
    WAIT_FOR(world->count[WIRE_JOB_DONE] == 2);
    assert_int_equal(identity_read(&world->home, &identity, NULL), STATUS_OK);
    assert_string_equal(identity.cert.data, cert.data);
    assert_string_not_equal(identity.cert.data, before.data);
    identity_clear(&identity);
    channel_close(world->channel, "test"); /* and it is good for a connection */
    WAIT_FOR(world->count[WIRE_HELLO] == 3);
    buf_clear(&cert);
    buf_clear(&before);
    free(renewed);
}

static void
every_state_is_reached_and_left(void **state)
{
    bool seen[AGENT_STATE_COUNT] = {[AGENT_LENDING] = true};

    (void)state;
    for (int round = 0; round < AGENT_STATE_COUNT; round++)
        for (int from = 0; from < AGENT_STATE_COUNT; from++)
            for (int event = 0; event < AGENT_EVENT_COUNT; event++) {
                enum agent_state to;

                if (seen[from] && agent_edge((enum agent_state)from,
                                             (enum agent_event)event, &to))
                    seen[to] = true;
            }
    for (int each = 0; each < AGENT_STATE_COUNT; each++) {
        enum agent_state to = AGENT_LENDING;
        bool leaves = false;

        assert_true(seen[each]);
        for (int event = 0; event < AGENT_EVENT_COUNT; event++)
            leaves = leaves || agent_edge((enum agent_state)each,
                                          (enum agent_event)event, &to);
        assert_true(leaves);
    }
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CLAIM(hello_tells_who_and_what),
        CLAIM(models_are_announced_by_the_digest_of_their_files),
        CLAIM(ids_of_a_job_pass_through),
        CLAIM(a_cancel_reaches_the_engine),
        CLAIM(a_cancel_before_the_engine_is_ready_costs_no_pass),
        CLAIM(an_older_epoch_starts_and_cancels_nothing),
        CLAIM(a_coordinator_whose_reign_is_over_is_left),
        CLAIM(garbage_closes_the_link_and_the_agent_comes_back),
        CLAIM(a_silent_coordinator_is_left),
        CLAIM(an_unknown_type_is_counted_and_ignored),
        CLAIM(a_dead_engine_fails_its_job_and_starts_again),
        CLAIM(a_load_that_does_not_fit_is_refused_with_numbers),
        CLAIM(pause_gives_the_memory_back_and_resume_lends_again),
        CLAIM(drain_finishes_what_runs_and_takes_no_more),
        CLAIM(a_lost_link_leaves_its_job_running),
        CLAIM(what_ended_unseen_is_reported_resumed_and_acknowledged),
        CLAIM(a_running_attempt_goes_on_when_it_is_resumed),
        CLAIM(an_engine_that_stops_is_killed_and_its_job_fails),
        CLAIM(a_revoked_node_ends),
        CLAIM(a_certificate_is_renewed_at_two_thirds_of_its_life),
        cmocka_unit_test(every_state_is_reached_and_left),
    };

    if (argc > 1 && strcmp(argv[1], "serve") == 0)
        return fake_engine(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
