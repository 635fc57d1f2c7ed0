/* engine.c - the life of one engine process. */
#include "node-agent/engine.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <event2/bufferevent.h>
#include <event2/event.h>

#include "common/clock.h"
#include "common/fault.h"
#include "common/log.h"
#include "common/mem.h"
#include "node-agent/backoff.h"
#include "node-agent/process.h"

#include "common/banned.h"

enum {
    CONNECT_POLL_MS = 25,
    LAST_LINE_BYTES = 300,
    ARGUMENTS_MAX = 16,
    NUMBER_BYTES = 24,
    LOG_PATH_BYTES = 4096 + 128,
};

enum action {
    ACTION_NONE,
    ACTION_SPAWN, /* start the process, poll for its socket */
    ACTION_SERVE, /* stop the start timer */
    ACTION_KILL,  /* SIGKILL: it failed */
    ACTION_END,   /* close its socket, SIGTERM, later SIGKILL */
    ACTION_REST,  /* wait before the next start */
    ACTION_COUNT
};

struct edge {
    enum engine_state from;
    enum engine_event event;
    enum engine_state to;
    enum action action;
};

static const struct edge edges[] = {
    {ENGINE_OFF, ENGINE_WANTED, ENGINE_WAITING, ACTION_NONE},
    {ENGINE_WAITING, ENGINE_FITS, ENGINE_STARTING, ACTION_SPAWN},
    {ENGINE_WAITING, ENGINE_NO_MEMORY, ENGINE_OFF, ACTION_NONE},
    {ENGINE_WAITING, ENGINE_STOP, ENGINE_OFF, ACTION_NONE},
    {ENGINE_STARTING, ENGINE_IS_READY, ENGINE_READY, ACTION_SERVE},
    {ENGINE_STARTING, ENGINE_FAILED, ENGINE_LOST, ACTION_KILL},
    {ENGINE_STARTING, ENGINE_STOP, ENGINE_ENDING, ACTION_END},
    {ENGINE_READY, ENGINE_FAILED, ENGINE_LOST, ACTION_KILL},
    {ENGINE_READY, ENGINE_STOP, ENGINE_ENDING, ACTION_END},
    {ENGINE_LOST, ENGINE_REAPED, ENGINE_RESTING, ACTION_REST},
    {ENGINE_LOST, ENGINE_STOP, ENGINE_ENDING, ACTION_END},
    {ENGINE_ENDING, ENGINE_STOP, ENGINE_ENDING, ACTION_END},
    {ENGINE_ENDING, ENGINE_REAPED, ENGINE_OFF, ACTION_NONE},
    {ENGINE_RESTING, ENGINE_RESTED, ENGINE_OFF, ACTION_NONE},
    {ENGINE_RESTING, ENGINE_STOP, ENGINE_OFF, ACTION_NONE},
};

static const char *const state_names[ENGINE_STATE_COUNT] = {
    [ENGINE_OFF] = "off",           [ENGINE_WAITING] = "waiting",
    [ENGINE_STARTING] = "starting", [ENGINE_READY] = "ready",
    [ENGINE_LOST] = "lost",         [ENGINE_ENDING] = "ending",
    [ENGINE_RESTING] = "resting",
};

static const char *const event_names[ENGINE_EVENT_COUNT] = {
    [ENGINE_WANTED] = "wanted",       [ENGINE_FITS] = "fits",
    [ENGINE_NO_MEMORY] = "no memory", [ENGINE_IS_READY] = "ready",
    [ENGINE_FAILED] = "failed",       [ENGINE_STOP] = "stop",
    [ENGINE_REAPED] = "reaped",       [ENGINE_RESTED] = "rested",
};

static const char *const action_names[ACTION_COUNT] = {
    [ACTION_NONE] = "",     [ACTION_SPAWN] = "spawn", [ACTION_SERVE] = "serve",
    [ACTION_KILL] = "kill", [ACTION_END] = "end",     [ACTION_REST] = "rest",
};

/* --- standard output and error into the log file --- */

static void
open_log(struct engine *engine)
{
    char path[LOG_PATH_BYTES];
    off_t size;

    snprintf(path, sizeof(path), "%s/engine-%u.log", engine->setup->log_folder,
             engine->number);
    engine->log_fd =
        open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    size = engine->log_fd < 0 ? 0 : lseek(engine->log_fd, 0, SEEK_END);
    engine->log_bytes = size < 0 ? 0 : (uint64_t)size;
}

static void
close_log(struct engine *engine)
{
    if (engine->log_fd >= 0)
        close(engine->log_fd);
    engine->log_fd = -1;
}

/* The full file becomes .old, so that at most two of them lie there. */
static void
rotate_log(struct engine *engine)
{
    char path[LOG_PATH_BYTES];
    char old[LOG_PATH_BYTES];

    snprintf(path, sizeof(path), "%s/engine-%u.log", engine->setup->log_folder,
             engine->number);
    snprintf(old, sizeof(old), "%s/engine-%u.log.old",
             engine->setup->log_folder, engine->number);
    close_log(engine);
    rename(path, old);
    open_log(engine);
}

/* Keep the beginning of the last line: it tells why the process ended. */
static void
keep_last_line(struct engine *engine, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] == '\n') { /* the line counts until the next one begins */
            engine->line_ended = true;
            continue;
        }
        if (engine->line_ended)
            buf_reset(&engine->last_line);
        engine->line_ended = false;
        if (bytes[i] >= ' ' && engine->last_line.size < LAST_LINE_BYTES)
            buf_append_char(&engine->last_line, bytes[i]);
    }
}

static void
close_output(struct engine *engine)
{
    if (engine->output != NULL)
        event_free(engine->output);
    engine->output = NULL;
    if (engine->output_fd >= 0)
        close(engine->output_fd);
    engine->output_fd = -1;
    close_log(engine);
}

static void
on_output(evutil_socket_t fd, short what, void *arg)
{
    struct engine *engine = arg;
    char bytes[4096];
    ssize_t got = read(fd, bytes, sizeof(bytes));

    (void)what;
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        close_output(engine);
        return;
    }
    keep_last_line(engine, bytes, (size_t)got);
    if (engine->log_bytes + (uint64_t)got > ENGINE_LOG_MAX_BYTES)
        rotate_log(engine);
    if (engine->log_fd >= 0 && write(engine->log_fd, bytes, (size_t)got) == got)
        engine->log_bytes += (uint64_t)got;
}

/* What the process wrote last may still be in the pipe. */
static void
drain_output(struct engine *engine)
{
    char bytes[4096];
    ssize_t got;

    if (engine->output_fd < 0)
        return;
    while ((got = read(engine->output_fd, bytes, sizeof(bytes))) > 0) {
        keep_last_line(engine, bytes, (size_t)got);
        if (engine->log_fd >= 0 &&
            write(engine->log_fd, bytes, (size_t)got) != got)
            return;
    }
}

/* --- the process and its socket --- */

static void
set_timer(struct engine *engine, int64_t ms)
{
    struct timeval tv = {.tv_sec = ms / 1000,
                         .tv_usec = (suseconds_t)(ms % 1000 * 1000)};

    event_add(engine->timer, &tv);
}

static void
socket_path(const struct engine *engine, char *path, size_t path_size)
{
    snprintf(path, path_size, "%s/engine-%u", engine->setup->socket_folder,
             engine->number);
}

static void
set_reason(struct engine *engine, const char *what)
{
    if (engine->last_line.size > 0)
        snprintf(engine->reason, sizeof(engine->reason), "%s: %s", what,
                 engine->last_line.data);
    else
        snprintf(engine->reason, sizeof(engine->reason), "%s", what);
}

static void
spawn(struct engine *engine)
{
    char socket_at[ENGINE_PATH_BYTES];
    char slots[NUMBER_BYTES], kv[NUMBER_BYTES], threads[NUMBER_BYTES];
    const char *argv[ARGUMENTS_MAX] = {engine->setup->program,
                                       "serve",
                                       "--model",
                                       engine->model.path,
                                       "--socket",
                                       socket_at,
                                       "--slots",
                                       slots,
                                       "--kv-bytes",
                                       kv};
    struct error err = {0};

    socket_path(engine, socket_at, sizeof(socket_at));
    unlink(socket_at);
    snprintf(slots, sizeof(slots), "%" PRIu64, engine->setup->slots);
    snprintf(kv, sizeof(kv), "%" PRIu64, engine->kv_bytes);
    snprintf(threads, sizeof(threads), "%" PRIu64, engine->setup->threads);
    if (engine->setup->threads > 0) {
        argv[10] = "--threads";
        argv[11] = threads;
    }
    buf_reset(&engine->last_line);
    engine->line_ended = false;
    engine->kill_at_once = false;
    engine->awaits_status = false;
    engine->is_stalled = false;
    engine->starts++;
    engine->start_ends =
        span_add(clock_monotonic(), span_s(ENGINE_START_MAX_S));
    if (process_start(argv, &engine->pid, &engine->output_fd, &err) !=
        STATUS_OK) {
        set_reason(engine, err.text);
        engine_step(engine, ENGINE_FAILED);
        return;
    }
    FAULT_STEP("agent.engine.spawned");
    open_log(engine);
    engine->output = event_new(engine->setup->base, engine->output_fd,
                               EV_READ | EV_PERSIST, on_output, engine);
    event_add(engine->output, NULL);
    set_timer(engine, CONNECT_POLL_MS);
}

static void
on_frame(void *arg, const struct wire_message *message, const uint8_t *frame,
         size_t frame_size)
{
    struct engine *engine = arg;

    engine->heard = clock_monotonic();
    if (message->type == WIRE_ENGINE_READY &&
        engine->state == ENGINE_STARTING) {
        engine->kv_bytes = message->engine_ready.kv_bytes;
        if (message->engine_ready.kv_bytes_per_token > 0)
            engine->kv_bytes_per_token =
                message->engine_ready.kv_bytes_per_token;
        engine_step(engine, ENGINE_IS_READY);
    } else if (message->type == WIRE_ENGINE_BROKEN) {
        snprintf(engine->reason, sizeof(engine->reason), "%s: %.300s",
                 message->engine_broken.code, message->engine_broken.text);
        engine_step(engine, ENGINE_FAILED);
    } else if (engine->state == ENGINE_READY) {
        engine->setup->hooks.on_frame(engine->setup->hooks.arg, engine, message,
                                      frame, frame_size);
    }
}

/* The end of the process tells more than that of its connection, and comes a
 * moment later. */
static void
on_channel_close(void *arg, const char *reason)
{
    struct engine *engine = arg;
    char what[160];

    drain_output(engine);
    snprintf(what, sizeof(what), "engine connection: %s", reason);
    if (engine->state != ENGINE_STARTING && engine->state != ENGINE_READY)
        return;
    if (engine->pid == 0) { /* it was reaped before: the reason is known */
        engine_step(engine, ENGINE_FAILED);
        return;
    }
    set_reason(engine, what);
    engine->is_closed = true;
    engine->awaits_status = true;
    event_del(engine->timer);
    set_timer(engine, ENGINE_STATUS_MAX_MS);
    engine_reap(engine);
}

/* Connecting to a unix socket succeeds or fails at once. */
static bool
connect_socket(struct engine *engine)
{
    const struct channel_hooks hooks = {
        .on_frame = on_frame, .on_close = on_channel_close, .arg = engine};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    socket_path(engine, address.sun_path, sizeof(address.sun_path));
    if (fd < 0)
        return false;
    process_set_fd(fd);
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        close(fd);
        return false;
    }
    engine->channel = channel_new(
        bufferevent_socket_new(engine->setup->base, fd, BEV_OPT_CLOSE_ON_FREE),
        &hooks);
    return true;
}

static void
poll_start(struct engine *engine)
{
    struct span left = span_sub(engine->start_ends, clock_monotonic());

    if (left.ns <= 0) {
        set_reason(engine, "engine did not become ready in time");
        engine_step(engine, ENGINE_FAILED);
    } else if (engine->channel == NULL && !connect_socket(engine)) {
        set_timer(engine, CONNECT_POLL_MS);
    } else {
        set_timer(engine, span_as_ms(left) + 1);
    }
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct engine *engine = arg;

    (void)fd;
    (void)what;
    if (engine->is_closed) {
        engine_step(engine, ENGINE_FAILED);
        return;
    }
    switch (engine->state) {
    case ENGINE_STARTING:
        poll_start(engine);
        break;
    case ENGINE_ENDING:
        if (engine->pid > 0)
            kill(engine->pid, SIGKILL);
        break;
    case ENGINE_RESTING:
        engine_step(engine, ENGINE_RESTED);
        break;
    case ENGINE_OFF:
    case ENGINE_WAITING:
    case ENGINE_READY:
    case ENGINE_LOST:
    case ENGINE_STATE_COUNT:
        break;
    }
}

static void
disconnect(struct engine *engine)
{
    char path[ENGINE_PATH_BYTES];

    channel_free(engine->channel);
    engine->channel = NULL;
    socket_path(engine, path, sizeof(path));
    unlink(path);
}

/* End the process; where there is none (any more), it counts as reaped. */
static void
signal_process(struct engine *engine, int number)
{
    disconnect(engine);
    if (engine->pid > 0)
        kill(engine->pid, number);
    else
        engine_step(engine, ENGINE_REAPED);
}

static void
rest(struct engine *engine)
{
    int64_t ms = backoff_ceiling_ms(ENGINE_REST_LEAST_MS, ENGINE_REST_MOST_MS,
                                    engine->failures);

    engine->failures++;
    log_warn(
        "engine.lost", "model=%s failures=%u again_ms=%" PRId64 " reason=%s",
        engine->model.path, engine->failures, ms, LOG_QUOTED(engine->reason));
    set_timer(engine, ms);
}

static void
act(struct engine *engine, enum action action)
{
    switch (action) {
    case ACTION_SPAWN:
        spawn(engine);
        break;
    case ACTION_SERVE:
        log_info("engine.ready", "model=%s kv_bytes=%" PRIu64,
                 engine->model.path, engine->kv_bytes);
        break;
    case ACTION_KILL:
        signal_process(engine, SIGKILL);
        break;
    case ACTION_END:
        if (!engine->kill_at_once)
            set_timer(engine, ENGINE_END_MAX_MS);
        signal_process(engine, engine->kill_at_once ? SIGKILL : SIGTERM);
        break;
    case ACTION_REST:
        rest(engine);
        break;
    case ACTION_NONE:
    case ACTION_COUNT:
        break;
    }
}

/* --- public --- */

struct engine *
engine_new(const struct engine_setup *setup, unsigned number,
           const struct model_found *model)
{
    struct engine *engine = mem_alloc(sizeof(*engine));

    engine->setup = setup;
    engine->number = number;
    engine->model = *model;
    engine->kv_bytes_per_token = model->kv_bytes_per_token;
    engine->output_fd = -1;
    engine->log_fd = -1;
    engine->timer = event_new(setup->base, -1, 0, on_timer, engine);
    buf_init(&engine->last_line, LAST_LINE_BYTES);
    return engine;
}

void
engine_free(struct engine *engine)
{
    char how[64];

    disconnect(engine);
    if (engine->pid > 0) {
        kill(engine->pid, SIGKILL);
        /* A killed process ends within the scheduler's next turns. */
        while (!process_has_ended(engine->pid, how, sizeof(how)))
            usleep(1000);
    }
    close_output(engine);
    event_free(engine->timer);
    buf_clear(&engine->last_line);
    free(engine);
}

void
engine_step(struct engine *engine, enum engine_event event)
{
    for (size_t i = 0; i < COUNT_OF(edges); i++) {
        const struct edge *edge = &edges[i];

        if (edge->from != engine->state || edge->event != event)
            continue;
        event_del(engine->timer);
        engine->is_closed = false;
        engine->state = edge->to;
        engine->setup->hooks.on_state(engine->setup->hooks.arg, engine);
        if (engine->state == edge->to)
            act(engine, edge->action);
        return;
    }
}

void
engine_fail(struct engine *engine, const char *reason)
{
    snprintf(engine->reason, sizeof(engine->reason), "%s", reason);
    engine_step(engine, ENGINE_FAILED);
}

void
engine_stop(struct engine *engine, bool at_once)
{
    engine->kill_at_once = at_once;
    engine_step(engine, ENGINE_STOP);
}

void
engine_reap(struct engine *engine)
{
    char how[64];
    char what[96];

    if (engine->pid == 0 || !process_has_ended(engine->pid, how, sizeof(how)))
        return;
    engine->pid = 0;
    drain_output(engine);
    snprintf(what, sizeof(what), "engine ended, %s", how);
    if (engine->state == ENGINE_STARTING || engine->state == ENGINE_READY) {
        set_reason(engine, what);
        /* Its last frames may wait in the socket: then the end of the
         * connection, which comes after them, is the failure. */
        if (engine->channel == NULL || engine->is_closed)
            engine_step(engine, ENGINE_FAILED);
    } else {
        if (engine->awaits_status)
            set_reason(engine, what);
        engine_step(engine, ENGINE_REAPED);
    }
}

void
engine_worked(struct engine *engine)
{
    engine->failures = 0;
    engine->last_used = clock_monotonic();
}

bool
engine_holds_memory(const struct engine *engine)
{
    return engine->state == ENGINE_STARTING || engine->state == ENGINE_READY ||
           engine->state == ENGINE_LOST || engine->state == ENGINE_ENDING;
}

const char *
engine_state_name(enum engine_state state)
{
    assert(state < ENGINE_STATE_COUNT);
    return state_names[state];
}

bool
engine_edge(enum engine_state from, enum engine_event event,
            enum engine_state *to)
{
    for (size_t i = 0; i < COUNT_OF(edges); i++)
        if (edges[i].from == from && edges[i].event == event) {
            *to = edges[i].to;
            return true;
        }
    return false;
}

void
engine_states_print(struct buf *out)
{
    buf_append_text(out, "| from | event | to | what happens |\n"
                         "|---|---|---|---|\n");
    for (size_t i = 0; i < COUNT_OF(edges); i++)
        buf_printf(out, "| %s | %s | %s | %s |\n", state_names[edges[i].from],
                   event_names[edges[i].event], state_names[edges[i].to],
                   action_names[edges[i].action]);
}
