/* serve.c - the loop between an agent's frames and the engine's passes. */
#include "inference/serve.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fault.h"
#include "common/json.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/options.h"
#include "common/wire.h"

#include "common/banned.h"

enum {
    READ_BYTES = 64 * 1024,
    PENDING_MAX = 256, /* ids held for the next frame */
    OUT_MAX_BYTES = SERVE_BACKLOG_BYTES + 8 * WIRE_FRAME_MAX_BYTES,
    /* Below it there is room for what one turn can add. */
    IN_MAX_BYTES = WIRE_HEAD_BYTES + WIRE_FRAME_MAX_BYTES + READ_BYTES,
};

/* Ids received for a job, as far as the context can hold them. */
struct input {
    uint32_t *ids;
    size_t stored;
    uint64_t count; /* also those not stored */
};

struct job {
    struct job *next;
    char id[UUID_TEXT_BYTES];
    uint32_t attempt;
    struct input prompt, done;
    struct sequence *sequence; /* NULL until job.run */
    uint32_t pending[PENDING_MAX];
    size_t pending_count;
    uint64_t sent; /* index of the next id to send among all of the choice */
    bool sent_any;
    struct span last_sent;
};

struct serve {
    int fd;
    struct engine *engine;
    struct job *jobs;
    size_t job_count;
    struct buf in, out;
    struct wire_message *message; /* large, so on the heap */
    struct wire_job_tokens *tokens;
    bool closed;
    uint64_t ignored; /* frames of unknown types */
    struct span last_pass;
    struct span last_beat; /* or when there was no work */
    uint64_t passes;
};

static void
send_frame(struct serve *serve, enum wire_type type, const void *body)
{
    struct error err;

    /* The buffer has room: reading and passes stop at the backlog. */
    if (wire_encode(type, body, &serve->out, &err) != STATUS_OK)
        log_error("engine.frame", "type=%s text=%s", wire_type_name(type),
                  LOG_QUOTED(err.text));
}

static void
text_set(char *to, size_t size, const char *from)
{
    size_t length = strnlen(from, size - 1);

    memcpy(to, from, length);
    to[length] = '\0';
}

static void
send_fail(struct serve *serve, const char *id, uint32_t attempt,
          const char *code, const char *text,
          const struct sequence_counts *counts)
{
    struct wire_job_fail fail = {.attempt = attempt};

    text_set(fail.job, sizeof(fail.job), id);
    text_set(fail.code, sizeof(fail.code), code);
    text_set(fail.text, sizeof(fail.text), text);
    if (counts != NULL) {
        fail.ids = counts->ids;
        fail.passes = counts->passes;
    }
    /* passes_after_cancel stays 0: the cancel is obeyed where it is read,
     * between two passes. */
    send_frame(serve, WIRE_JOB_FAIL, &fail);
}

/* --- jobs --- */

static struct job *
job_find(const struct serve *serve, const char *id, uint32_t attempt)
{
    struct job *job = serve->jobs;

    while (job != NULL && (job->attempt != attempt || strcmp(job->id, id) != 0))
        job = job->next;
    return job;
}

static void
job_drop(struct serve *serve, struct job *job)
{
    struct job **at = &serve->jobs;

    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
    serve->job_count--;
    free(job->prompt.ids);
    free(job->done.ids);
    free(job);
}

/* The job, made when it is new; NULL when there are too many. */
static struct job *
job_reach(struct serve *serve, const char *id, uint32_t attempt)
{
    struct job *job = job_find(serve, id, attempt);

    if (job != NULL)
        return job;
    if (serve->job_count == SERVE_JOBS_MAX) {
        send_fail(serve, id, attempt, "no_capacity",
                  "the engine holds as many jobs as it may; send it again "
                  "later",
                  NULL);
        return NULL;
    }
    job = mem_alloc(sizeof(*job));
    text_set(job->id, sizeof(job->id), id);
    job->attempt = attempt;
    job->next = serve->jobs;
    serve->jobs = job;
    serve->job_count++;
    return job;
}

static void
input_add(struct input *input, const uint32_t *ids, size_t count, size_t most)
{
    size_t room = most - input->stored;
    size_t some = count < room ? count : room;

    input->count += count;
    input->ids =
        mem_grow(input->ids, input->stored + some + 1, sizeof(uint32_t));
    memcpy(input->ids + input->stored, ids, some * sizeof(uint32_t));
    input->stored += some;
}

static void
on_input(struct serve *serve, const struct wire_job_input *part)
{
    struct job *job = job_reach(serve, part->job, part->attempt);

    if (job == NULL)
        return;
    if (job->sequence != NULL) {
        serve->ignored++; /* it runs already; late parts change nothing */
        return;
    }
    input_add(part->done ? &job->done : &job->prompt, part->ids, part->id_count,
              engine_config(serve->engine)->context);
}

static enum status
counts_check(const struct job *job, const struct wire_job_run *run,
             struct error *err)
{
    if (job->prompt.count == run->prompt_count &&
        job->done.count == run->done_count)
        return STATUS_OK;
    error_set(err, STATUS_INVALID,
              "job.run announces %" PRIu64 " prompt ids and %" PRIu64
              " done ids, job.input brought %" PRIu64 " and %" PRIu64,
              run->prompt_count, run->done_count, job->prompt.count,
              job->done.count);
    error_tag(err, "bad_request", NULL);
    return STATUS_INVALID;
}

static void
on_run(struct serve *serve, const struct wire_job_run *run)
{
    struct job *job = job_reach(serve, run->job, run->attempt);
    struct engine_request request = {
        .max_tokens = run->max_tokens,
        .kv_tokens = run->kv_tokens,
        .sampling = run->sampling,
        .stop = run->stop,
        .stop_count = run->stop_count,
    };
    struct error err;
    enum status status;

    if (job == NULL)
        return;
    if (job->sequence != NULL) {
        serve->ignored++;
        return;
    }
    request.prompt = job->prompt.ids;
    request.prompt_count = (size_t)job->prompt.count;
    request.done = job->done.ids;
    request.done_count = (size_t)job->done.count;
    status = counts_check(job, run, &err);
    if (status == STATUS_OK)
        status = engine_add(serve->engine, &request, job, &job->sequence, &err);
    if (status != STATUS_OK) {
        send_fail(serve, job->id, job->attempt, err.code, err.text, NULL);
        job_drop(serve, job);
        return;
    }
    job->sent = job->done.count;
}

static void
on_cancel(struct serve *serve, const struct wire_job_cancel *cancel)
{
    struct job *job = job_find(serve, cancel->job, cancel->attempt);
    struct sequence_counts counts = {0};

    if (job == NULL) {
        serve->ignored++; /* it ended while the cancel was on its way */
        return;
    }
    if (job->sequence != NULL)
        engine_cancel(serve->engine, job->sequence, &counts);
    send_fail(serve, job->id, job->attempt, "cancelled",
              "cancelled by the agent", &counts);
    job_drop(serve, job);
}

/* --- events of the engine --- */

static void
pending_send(struct serve *serve, struct job *job)
{
    struct wire_job_tokens *tokens = serve->tokens;

    if (job->pending_count == 0)
        return;
    FAULT_STEP("engine.tokens"); /* made, not yet in the socket's buffer */
    text_set(tokens->job, sizeof(tokens->job), job->id);
    tokens->attempt = job->attempt;
    tokens->choice = 0;
    tokens->first = job->sent;
    memcpy(tokens->ids, job->pending, job->pending_count * sizeof(uint32_t));
    tokens->id_count = job->pending_count;
    send_frame(serve, WIRE_JOB_TOKENS, tokens);
    job->sent += job->pending_count;
    job->pending_count = 0;
    job->sent_any = true;
    job->last_sent = clock_monotonic();
}

static void
on_start(void *arg, void *tag)
{
    struct serve *serve = arg;
    const struct job *job = tag;
    struct wire_job_started started = {.attempt = job->attempt};

    text_set(started.job, sizeof(started.job), job->id);
    send_frame(serve, WIRE_JOB_STARTED, &started);
}

static void
on_id(void *arg, void *tag, uint32_t id)
{
    struct serve *serve = arg;
    struct job *job = tag;

    job->pending[job->pending_count++] = id;
    if (!job->sent_any || job->pending_count == PENDING_MAX)
        pending_send(serve, job);
}

static void
on_finish(void *arg, void *tag, enum output_finish finish,
          const struct sequence_counts *counts)
{
    struct serve *serve = arg;
    struct job *job = tag;
    struct wire_job_done done = {
        .attempt = job->attempt, .ids = counts->ids, .passes = counts->passes};

    pending_send(serve, job);
    FAULT_STEP("engine.done");
    if (finish == OUTPUT_GOING) {
        send_fail(serve, job->id, job->attempt, "not_finite", ENGINE_NOT_FINITE,
                  counts);
        job_drop(serve, job);
        return;
    }
    text_set(done.job, sizeof(done.job), job->id);
    text_set(done.reason, sizeof(done.reason), output_finish_name(finish));
    done.prefill_us = (uint64_t)counts->prefill.ns / 1000;
    done.decode_us = (uint64_t)counts->decode.ns / 1000;
    send_frame(serve, WIRE_JOB_DONE, &done);
    job_drop(serve, job);
}

/* Send the ids that would be too old after another pass like the last. */
static void
pending_send_due(struct serve *serve)
{
    struct span next = span_add(clock_monotonic(), serve->last_pass);

    for (struct job *job = serve->jobs; job != NULL; job = job->next) {
        struct span due = span_add(job->last_sent, span_ms(SERVE_TOKENS_MS));

        if (job->pending_count > 0 && next.ns >= due.ns)
            pending_send(serve, job);
    }
}

static void
pass(struct serve *serve)
{
    const struct engine_events events = {.on_id = on_id,
                                         .on_start = on_start,
                                         .on_finish = on_finish,
                                         .arg = serve};
    struct span begun = clock_monotonic();

    FAULT_STEP("engine.pass");
    serve->passes++;
    engine_step(serve->engine, &events);
    serve->last_pass = span_sub(clock_monotonic(), begun);
    FAULT_STEP("engine.passed");
    pending_send_due(serve);
}

/* Tell the agent that passes go on: only the thread that makes them says so. */
static void
beat_send_due(struct serve *serve)
{
    struct wire_engine_beat beat = {.passes = serve->passes};
    struct span now = clock_monotonic();

    if (!engine_is_busy(serve->engine)) {
        serve->last_beat = now;
    } else if (span_sub(now, serve->last_beat).ns >=
               span_ms(SERVE_BEAT_MS).ns) {
        serve->last_beat = now;
        send_frame(serve, WIRE_ENGINE_BEAT, &beat);
    }
}

/* --- frames in --- */

/* A frame that does not fit its table: name the fault to whom it concerns. */
static void
on_misfit(struct serve *serve, const char *text, size_t size,
          const struct error *why)
{
    struct json_doc doc = {0};
    const char *id = NULL;
    size_t id_size = 0;
    int64_t attempt = 0;
    char job[UUID_TEXT_BYTES];
    struct job *known;

    serve->ignored++;
    log_warn("engine.misfit", "text=%s", LOG_QUOTED(why->text));
    if (json_doc_parse(text, size, &doc, NULL) == STATUS_OK)
        id = json_as_text(json_get(doc.root, "job"), &id_size);
    if (id == NULL || id_size + 1 != sizeof(job) ||
        json_as_i64(json_get(doc.root, "attempt"), &attempt) != STATUS_OK ||
        attempt < 0 || attempt > UINT32_MAX)
        goto out;
    memcpy(job, id, id_size);
    job[id_size] = '\0';
    known = job_find(serve, job, (uint32_t)attempt);
    if (!uuid_is_valid(job) || (known != NULL && known->sequence != NULL))
        goto out;
    send_fail(serve, job, (uint32_t)attempt, "bad_request", why->text, NULL);
    if (known != NULL) /* it has failed: nothing more comes for it */
        job_drop(serve, known);
out:
    json_doc_clear(&doc);
}

static void
on_frame(struct serve *serve, const char *text, size_t size)
{
    struct wire_message *message = serve->message;
    struct error err;
    enum status status = wire_decode(text, size, message, &err);

    if (status == STATUS_NOT_FOUND) {
        serve->ignored++;
        return;
    }
    if (status != STATUS_OK) {
        on_misfit(serve, text, size, &err);
        return;
    }
    if (message->type == WIRE_JOB_INPUT)
        on_input(serve, &message->job_input);
    else if (message->type == WIRE_JOB_RUN)
        on_run(serve, &message->job_run);
    else if (message->type == WIRE_JOB_CANCEL)
        on_cancel(serve, &message->job_cancel);
    else
        serve->ignored++;
}

static bool
has_backlog(const struct serve *serve)
{
    return serve->out.size > SERVE_BACKLOG_BYTES;
}

/* Handle whole frames while their answers have room. */
static enum status
frames_take(struct serve *serve, struct error *err)
{
    size_t used = 0;

    while (serve->in.size - used >= WIRE_HEAD_BYTES && !has_backlog(serve)) {
        const char *at = serve->in.data + used;
        uint8_t head[WIRE_HEAD_BYTES];
        size_t size;

        memcpy(head, at, sizeof(head));
        size = wire_head_size(head);
        if (size == 0 || size > WIRE_FRAME_MAX_BYTES)
            return error_set(err, STATUS_INVALID,
                             "a frame of %zu bytes came; frames have 1 to %d: "
                             "the peer is no agent",
                             size, WIRE_FRAME_MAX_BYTES);
        if (serve->in.size - used - WIRE_HEAD_BYTES < size)
            break;
        on_frame(serve, at + WIRE_HEAD_BYTES, size);
        used += WIRE_HEAD_BYTES + size;
    }
    buf_drop_front(&serve->in, used);
    return STATUS_OK;
}

static enum status
socket_failed(const char *what, struct error *err)
{
    char text[128];

    return error_set(err, STATUS_INTERNAL, "cannot %s the control socket: %s",
                     what, error_errno(errno, text, sizeof(text)));
}

static bool
is_passing(int number)
{
    return number == EAGAIN || number == EWOULDBLOCK || number == EINTR;
}

static enum status
socket_read(struct serve *serve, struct error *err)
{
    char bytes[READ_BYTES];
    enum status status = STATUS_OK;

    while (status == STATUS_OK && !has_backlog(serve)) {
        ssize_t got = recv(serve->fd, bytes, sizeof(bytes), 0);

        if (got < 0 && is_passing(errno))
            return STATUS_OK;
        if (got == 0 || (got < 0 && errno == ECONNRESET)) {
            serve->closed = true;
            return STATUS_OK;
        }
        if (got < 0)
            return socket_failed("read", err);
        buf_append(&serve->in, bytes, (size_t)got);
        assert(!serve->in.overflowed);
        status = frames_take(serve, err);
    }
    return status;
}

static enum status
socket_write(struct serve *serve, struct error *err)
{
    size_t sent = 0;
    enum status status = STATUS_OK;

    while (sent < serve->out.size) {
        ssize_t went =
            send(serve->fd, serve->out.data + sent, serve->out.size - sent, 0);

        if (went < 0 && is_passing(errno))
            break;
        if (went < 0 && (errno == EPIPE || errno == ECONNRESET)) {
            serve->closed = true;
            break;
        }
        if (went < 0) {
            status = socket_failed("write to", err);
            break;
        }
        sent += (size_t)went;
    }
    buf_drop_front(&serve->out, sent);
    return status;
}

/* One turn: what came, one pass, what goes. */
static enum status
turn(struct serve *serve, struct error *err)
{
    /* Frames that waited for room; after this the buffer has none that could
     * be taken, so waiting for the socket is right. */
    enum status status = frames_take(serve, err);
    bool can_pass = engine_is_busy(serve->engine) && !has_backlog(serve);
    struct pollfd watched = {.fd = serve->fd};

    if (status != STATUS_OK)
        return status;
    if (!has_backlog(serve))
        watched.events |= POLLIN;
    if (serve->out.size > 0)
        watched.events |= POLLOUT;
    if (poll(&watched, 1, can_pass ? 0 : -1) < 0 && errno != EINTR)
        return socket_failed("watch", err);
    if ((watched.revents & (POLLHUP | POLLERR)) != 0 && has_backlog(serve))
        serve->closed = true; /* nobody is left to read it */
    if (!serve->closed)
        status = socket_read(serve, err);
    if (status == STATUS_OK && !serve->closed && can_pass &&
        engine_is_busy(serve->engine))
        pass(serve);
    if (!has_backlog(serve))
        beat_send_due(serve);
    if (status == STATUS_OK && !serve->closed)
        status = socket_write(serve, err);
    return status;
}

static void
send_ready(struct serve *serve)
{
    static const char *const capabilities[] = {"ids", "resume", "seed",
                                               "batch"};
    const struct engine *engine = serve->engine;
    struct wire_engine_ready ready = {
        .slots = engine_slots(engine),
        .capability_count = COUNT_OF(capabilities),
        .context_max = engine_config(engine)->context,
        .kv_bytes_per_token = engine_kv_token_bytes(engine),
        .kv_bytes = engine_kv_bytes(engine),
        .weight_bytes = engine_weight_bytes(engine),
    };

    text_set(ready.backend, sizeof(ready.backend), engine_backend(engine));
    text_set(ready.version, sizeof(ready.version), BERTH_VERSION);
    for (size_t i = 0; i < COUNT_OF(capabilities); i++)
        text_set(ready.capabilities[i], sizeof(ready.capabilities[i]),
                 capabilities[i]);
    send_frame(serve, WIRE_ENGINE_READY, &ready);
}

static void
serve_clear(struct serve *serve)
{
    while (serve->jobs != NULL) {
        if (serve->jobs->sequence != NULL)
            engine_cancel(serve->engine, serve->jobs->sequence, NULL);
        job_drop(serve, serve->jobs);
    }
    buf_clear(&serve->in);
    buf_clear(&serve->out);
    free(serve->message);
    free(serve->tokens);
    close(serve->fd);
}

enum status
serve_connection(int fd, struct engine *engine, struct error *err)
{
    struct serve serve = {.fd = fd, .engine = engine};
    int flags = fcntl(fd, F_GETFL);
    enum status status = STATUS_OK;

    /* A closed peer is found by the failing write. */
    signal(SIGPIPE, SIG_IGN);
    buf_init(&serve.in, IN_MAX_BYTES);
    buf_init(&serve.out, OUT_MAX_BYTES);
    serve.message = mem_alloc(sizeof(*serve.message));
    serve.tokens = mem_alloc(sizeof(*serve.tokens));
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        status = socket_failed("set up", err);
    send_ready(&serve);
    while (status == STATUS_OK && !serve.closed)
        status = turn(&serve, err);
    serve_clear(&serve);
    return status;
}
