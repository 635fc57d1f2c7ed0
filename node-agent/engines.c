/* engines.c - which engine runs, in which memory, with which jobs. */
#include "node-agent/engines.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "common/clock.h"
#include "common/fault.h"
#include "common/log.h"
#include "common/mem.h"
#include "node-agent/engines_private.h"

#include "common/banned.h"

/* --- memory --- */

static uint64_t
held_by(const struct engine *engine)
{
    if (!engine_holds_memory(engine))
        return 0;
    return engine->model.weight_bytes + engine->kv_bytes + ENGINE_MARGIN_BYTES;
}

static uint64_t
held_by_others(const struct engines *engines, const struct engine *but)
{
    uint64_t held = 0;

    for (const struct engine *engine = engines->first; engine != NULL;
         engine = engine->next)
        if (engine != but)
            held += held_by(engine);
    return held;
}

/* The largest reservation a job of @engine asks for. */
static uint64_t
kv_tokens_wanted(const struct engines *engines, const struct engine *engine)
{
    uint64_t tokens = 0;

    for (const struct job *job = engines->jobs.first; job != NULL;
         job = job->next)
        if (job->engine == engine && job->kv_tokens > tokens)
            tokens = job->kv_tokens;
    return tokens;
}

/* A running engine without jobs, the longest unused; NULL when none. */
static struct engine *
idle_engine(const struct engines *engines, const struct engine *but)
{
    struct engine *idle = NULL;

    for (struct engine *engine = engines->first; engine != NULL;
         engine = engine->next)
        if (engine != but &&
            (engine->state == ENGINE_READY ||
             engine->state == ENGINE_STARTING) &&
            jobs_count_of(&engines->jobs, engine) == 0 &&
            (idle == NULL || engine->last_used.ns < idle->last_used.ns))
            idle = engine;
    return idle;
}

/* Is memory of an ending process about to come back? */
static bool
memory_is_coming(const struct engines *engines)
{
    for (const struct engine *engine = engines->first; engine != NULL;
         engine = engine->next)
        if (engine->state == ENGINE_ENDING || engine->state == ENGINE_LOST)
            return true;
    return false;
}

/* --- between engine and coordinator --- */

static void
pass_up(const struct engines *engines, const void *frame, size_t size)
{
    engines->setup.hooks.on_frame(engines->setup.hooks.arg, frame, size);
}

static void
fail_jobs_of(struct engines *engines, const struct engine *engine,
             const char *code, const char *text)
{
    struct job *next;

    for (struct job *job = engines->jobs.first; job != NULL; job = next) {
        next = job->next;
        if (job->engine == engine)
            engines_end(engines, job, code, text);
    }
}

/* --- starting --- */

static void
advance_soon(struct engines *engines)
{
    event_active(engines->advance, 0, 0);
}

static struct memory_question
question_of(const struct engines *engines, const struct engine *engine,
            uint64_t held)
{
    struct memory_question question = {
        .limit_bytes = engines->setup.limit_bytes,
        .held_bytes = held,
        .weight_bytes = engine->model.weight_bytes,
        .kv_bytes_per_token = engine->kv_bytes_per_token,
        .kv_tokens = kv_tokens_wanted(engines, engine),
        .kv_tokens_most =
            memory_product(engines->setup.slots, engine->model.context),
        .is_shared = engines->model_count > 1};

    question.has_free_bytes =
        engines->setup.hooks.free_bytes(&question.free_bytes);
    return question;
}

/* Start @engine where it fits; else make room, wait for room, or give up. */
static void
start_if_it_fits(struct engines *engines, struct engine *engine)
{
    struct memory_question question =
        question_of(engines, engine, held_by_others(engines, engine));
    struct engine *idle = idle_engine(engines, engine);
    struct error err = {0};

    if (memory_answer(&question, &engine->kv_bytes, &err) == STATUS_OK) {
        engine_step(engine, ENGINE_FITS);
    } else if (memory_is_coming(engines)) {
        return; /* asked again when that process is gone */
    } else if (idle != NULL) {
        log_info("engine.evicted", "model=%s for=%s", idle->model.path,
                 engine->model.path);
        engine_stop(idle, true);
    } else {
        snprintf(engine->reason, sizeof(engine->reason), "%.399s", err.text);
        fail_jobs_of(engines, engine, "no_memory", err.text);
        engine_step(engine, ENGINE_NO_MEMORY);
    }
}

static void
advance_engine(struct engines *engines, struct engine *engine)
{
    bool is_wanted =
        !engines->stopping && jobs_count_of(&engines->jobs, engine) > 0;

    if (engine->state == ENGINE_OFF && is_wanted)
        engine_step(engine, ENGINE_WANTED);
    if (engine->state == ENGINE_WAITING && !is_wanted)
        engine_stop(engine, true);
    else if (engine->state == ENGINE_WAITING)
        start_if_it_fits(engines, engine);
}

static void
on_advance(evutil_socket_t fd, short what, void *arg)
{
    struct engines *engines = arg;

    (void)fd;
    (void)what;
    for (struct engine *engine = engines->first; engine != NULL;
         engine = engine->next)
        advance_engine(engines, engine);
}

static void
send_down(struct engines *engines, struct job *job)
{
    bool is_first = true;

    for (const struct job *other = engines->jobs.first; other != NULL;
         other = other->next)
        if (other->engine == job->engine && other->sent)
            is_first = false;
    if (is_first) /* its silence counts from here */
        job->engine->heard = clock_monotonic();
    FAULT_STEP("agent.engine.send");
    channel_send_frames(job->engine->channel, job->frames.data,
                        job->frames.size);
    buf_clear(&job->frames);
    job->sent = true;
}

static void
on_ready(struct engines *engines, struct engine *engine)
{
    for (struct job *job = engines->jobs.first; job != NULL; job = job->next)
        if (job->engine == engine && !job->sent)
            send_down(engines, job);
    engines->setup.hooks.on_loaded(engines->setup.hooks.arg);
}

static void
on_state(void *arg, struct engine *engine)
{
    struct engines *engines = arg;
    char text[ENGINE_REASON_BYTES + 32];

    switch (engine->state) {
    case ENGINE_READY:
        on_ready(engines, engine);
        break;
    case ENGINE_LOST:
        snprintf(text, sizeof(text), "the engine failed: %s", engine->reason);
        fail_jobs_of(engines, engine,
                     engine->is_stalled ? "stalled" : "engine_lost", text);
        engines->setup.hooks.on_loaded(engines->setup.hooks.arg);
        break;
    case ENGINE_ENDING:
        engines->setup.hooks.on_loaded(engines->setup.hooks.arg);
        break;
    case ENGINE_OFF:
    case ENGINE_RESTING:
        advance_soon(engines); /* memory has come back */
        break;
    case ENGINE_WAITING:
    case ENGINE_STARTING:
    case ENGINE_STATE_COUNT:
        break;
    }
}

/* The job an engine's message is about; NULL when it is not this engine's. */
static struct job *
job_of(const struct engines *engines, const struct engine *engine,
       const char *id, uint32_t attempt)
{
    struct job *job = jobs_find(&engines->jobs, id, attempt);

    return job != NULL && job->engine == engine ? job : NULL;
}

static void
on_started(struct engines *engines, const struct job *job, const uint8_t *frame,
           size_t size)
{
    if (job != NULL && job->binding == JOB_BOUND)
        pass_up(engines, frame, size);
}

/* Keep the ids; they go up when the coordinator has asked for them. */
static void
on_tokens(struct engines *engines, struct engine *engine, struct job *job,
          const struct wire_job_tokens *tokens, const uint8_t *frame,
          size_t size)
{
    struct error err = {0};

    if (job == NULL)
        return;
    if (tokens->choice != 0 || tokens->first != job->ids.count) {
        engine_fail(engine, "the ids it sent do not follow each other");
    } else if (jobs_add_ids(&engines->jobs, job, tokens->ids, tokens->id_count,
                            &err) != STATUS_OK) {
        engines_break_off(engines, job, "too_large", err.text);
    } else if (job->binding == JOB_BOUND) {
        FAULT_STEP("agent.tokens.send");
        pass_up(engines, frame, size);
        FAULT_STEP("agent.tokens.sent");
    }
}

static void
on_end(struct engines *engines, struct engine *engine, struct job *job,
       const uint8_t *frame, size_t size)
{
    if (job == NULL)
        return;
    engine_worked(engine);
    engines_end_with(engines, job, frame, size);
}

static void
on_engine_frame(void *arg, struct engine *engine,
                const struct wire_message *message, const uint8_t *frame,
                size_t size)
{
    struct engines *engines = arg;
    const struct wire_job_tokens *tokens = &message->job_tokens;
    const struct wire_job_started *started = &message->job_started;
    const struct wire_job_done *done = &message->job_done;
    const struct wire_job_fail *fail = &message->job_fail;

    if (message->type == WIRE_JOB_STARTED)
        on_started(engines,
                   job_of(engines, engine, started->job, started->attempt),
                   frame, size);
    else if (message->type == WIRE_JOB_TOKENS)
        on_tokens(engines, engine,
                  job_of(engines, engine, tokens->job, tokens->attempt), tokens,
                  frame, size);
    else if (message->type == WIRE_JOB_DONE)
        on_end(engines, engine,
               job_of(engines, engine, done->job, done->attempt), frame, size);
    else if (message->type == WIRE_JOB_FAIL)
        on_end(engines, engine,
               job_of(engines, engine, fail->job, fail->attempt), frame, size);
    else if (message->type != WIRE_ENGINE_BEAT)
        log_warn("engine.frame", "type=%s reason=\"not an engine's\"",
                 wire_type_name(message->type));
}

/* --- public --- */

struct engines *
engines_new(const struct engines_setup *setup)
{
    struct engines *engines = mem_alloc(sizeof(*engines));
    const struct frame_sink up = {.on_frame = setup->hooks.on_frame,
                                  .arg = setup->hooks.arg};

    engines->setup = *setup;
    engines->engine_setup = (struct engine_setup){
        .base = setup->base,
        .program = setup->program,
        .socket_folder = setup->socket_folder,
        .log_folder = setup->log_folder,
        .threads = setup->threads,
        .slots = setup->slots,
        .hooks = {
            .on_state = on_state, .on_frame = on_engine_frame, .arg = engines}};
    engines->advance = event_new(setup->base, -1, 0, on_advance, engines);
    engines->watch = event_new(setup->base, -1, 0, engines_on_watch, engines);
    jobs_init(&engines->jobs);
    held_init(&engines->held, setup->base, setup->journal, &up);
    return engines;
}

void
engines_free(struct engines *engines)
{
    while (engines->first != NULL) {
        struct engine *engine = engines->first;

        engines->first = engine->next;
        engine_free(engine);
    }
    jobs_clear(&engines->jobs);
    held_clear(&engines->held);
    event_free(engines->advance);
    event_free(engines->watch);
    free(engines);
}

void
engines_expect(struct engines *engines, size_t model_count)
{
    engines->model_count = model_count;
}

void
engines_input(struct engines *engines, const struct wire_job_input *input,
              const void *frame, size_t size)
{
    struct job *job = jobs_find(&engines->jobs, input->job, input->attempt);
    struct error err = {0};
    enum status status;

    if ((job != NULL && job->engine != NULL) ||
        held_find(&engines->held, input->job, input->attempt) != NULL)
        return; /* job.run has come: its input was complete */
    if (job == NULL && jobs_add(&engines->jobs, input->job, input->attempt,
                                &job, &err) != STATUS_OK) {
        engines_refuse(engines, input->job, input->attempt, "busy", err.text);
        return;
    }
    status = jobs_keep(&engines->jobs, job, frame, size, &err);
    if (status == STATUS_OK && input->done)
        status = jobs_add_ids(&engines->jobs, job, input->ids, input->id_count,
                              &err);
    job->done = job->ids.count;
    if (status != STATUS_OK)
        engines_end(engines, job, "too_large", err.text);
}

static struct engine *
engine_for(struct engines *engines, const struct model_found *model)
{
    struct engine *engine = engines->first;

    while (engine != NULL && strcmp(engine->model.digest, model->digest) != 0)
        engine = engine->next;
    if (engine == NULL) {
        engine = engine_new(&engines->engine_setup, engines->count++, model);
        engine->next = engines->first;
        engines->first = engine;
    }
    return engine;
}

/* Can a running engine's budget ever hold the job?  An idle one is started
 * again with a larger budget instead. */
static bool
budget_is_too_small(const struct engine *engine, const struct job *job)
{
    return engine->state == ENGINE_READY &&
           memory_product(job->kv_tokens, engine->kv_bytes_per_token) >
               engine->kv_bytes;
}

static void
assign(struct engines *engines, struct job *job, struct engine *engine)
{
    bool was_idle = jobs_count_of(&engines->jobs, engine) == 0;
    char text[WIRE_TEXT_BYTES];
    char budget[32];

    job->engine = engine;
    job->binding = JOB_BOUND;
    engine->last_used = clock_monotonic();
    engines_watch_begin(engines);
    engines->setup.hooks.on_jobs(engines->setup.hooks.arg);
    if (budget_is_too_small(engine, job) && was_idle) {
        engine_stop(engine, true);
    } else if (budget_is_too_small(engine, job)) {
        snprintf(text, sizeof(text),
                 "a reservation of %" PRIu64 " tokens passes the engine's KV "
                 "budget of %s",
                 job->kv_tokens,
                 bytes_text(engine->kv_bytes, budget, sizeof(budget)));
        engines_end(engines, job, "no_memory", text);
        return;
    }
    if (engine->state == ENGINE_READY)
        send_down(engines, job);
    else
        advance_soon(engines);
}

/* Is this attempt or a later one known here? */
static bool
has_as_late(const struct engines *engines, const char *id, uint32_t attempt)
{
    for (const struct job *job = engines->jobs.first; job != NULL;
         job = job->next)
        if (job->engine != NULL && job->attempt >= attempt &&
            strcmp(job->id, id) == 0)
            return true;
    for (const struct ended *ended = engines->held.first; ended != NULL;
         ended = ended->next)
        if (ended->attempt >= attempt && strcmp(ended->job, id) == 0)
            return true;
    return false;
}

static void
stop_earlier(struct engines *engines, const char *id, uint32_t attempt)
{
    struct job *next;

    for (struct job *job = engines->jobs.first; job != NULL; job = next) {
        next = job->next;
        if (job->engine != NULL && job->attempt < attempt &&
            strcmp(job->id, id) == 0)
            engines_stop_job(engines, job, "superseded");
    }
}

bool
engines_knows(const struct engines *engines, const char *id, uint32_t attempt)
{
    const struct job *job = jobs_find(&engines->jobs, id, attempt);

    return (job != NULL && job->engine != NULL) ||
           held_find(&engines->held, id, attempt) != NULL;
}

void
engines_run(struct engines *engines, const struct wire_job_run *run,
            const struct model_found *model, const void *frame, size_t size)
{
    struct job *job = jobs_find(&engines->jobs, run->job, run->attempt);
    struct error err = {0};

    if (has_as_late(engines, run->job, run->attempt)) {
        engines_refuse(engines, run->job, run->attempt, "stale_attempt",
                       "a later attempt of this job is known here");
        return;
    }
    stop_earlier(engines, run->job, run->attempt);
    if (job == NULL && jobs_add(&engines->jobs, run->job, run->attempt, &job,
                                &err) != STATUS_OK) {
        engines_refuse(engines, run->job, run->attempt, "busy", err.text);
        return;
    }
    if (jobs_keep(&engines->jobs, job, frame, size, &err) != STATUS_OK) {
        engines_end(engines, job, "too_large", err.text);
        return;
    }
    if (model == NULL) {
        engines_end(engines, job, "model_missing",
                    "no model of that digest lies on this node");
        return;
    }
    snprintf(job->model, sizeof(job->model), "%s", run->model);
    job->kv_tokens = run->kv_tokens;
    job->epoch = run->epoch;
    assign(engines, job, engine_for(engines, model));
}

void
engines_stop(struct engines *engines, bool at_once)
{
    for (struct engine *engine = engines->first; engine != NULL;
         engine = engine->next)
        engine_stop(engine, at_once);
}

void
engines_reap(struct engines *engines)
{
    for (struct engine *engine = engines->first; engine != NULL;
         engine = engine->next)
        engine_reap(engine);
}

size_t
engines_job_count(const struct engines *engines)
{
    return jobs_count_of(&engines->jobs, NULL);
}

bool
engines_are_running(const struct engines *engines)
{
    for (const struct engine *engine = engines->first; engine != NULL;
         engine = engine->next)
        if (engine->pid > 0)
            return true;
    return false;
}

uint64_t
engines_room(const struct engines *engines)
{
    uint64_t room =
        memory_rest(engines->setup.limit_bytes, held_by_others(engines, NULL));
    uint64_t free_bytes;

    if (engines->setup.hooks.free_bytes(&free_bytes) && free_bytes < room)
        room = free_bytes;
    return room;
}

const struct jobs *
engines_jobs(const struct engines *engines)
{
    return &engines->jobs;
}

const struct engine *
engines_of(const struct engines *engines, const char *digest)
{
    const struct engine *engine = engines->first;

    while (engine != NULL && strcmp(engine->model.digest, digest) != 0)
        engine = engine->next;
    return engine;
}
