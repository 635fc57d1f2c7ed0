/* job_attempt.c - an attempt's life: sent, lost, claimed by a node that comes
 * back, closed. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/fault.h"
#include "common/log.h"
#include "common/mem.h"
#include "coordinator/core_private.h"
#include "coordinator/links.h"
#include "coordinator/store_jobs.h"

#include "common/banned.h"

enum {
    FORGIVE_FIRST_MS = 250, /* doubles with each attempt that was lost */
    FORGIVE_MOST_MS = 8000,
    FRAMES_MAX_BYTES = 64 * 1024 * 1024,
};

struct job_attempt *
job_attempt_current(struct job *job)
{
    assert(job->attempt_count > 0);
    return &job->attempts[job->attempt_count - 1];
}

/* --- sent --- */

/* Attempts of an earlier reign may count more than this record has: its record
 * was lost, and what is not delivered anew is nobody's. */
void
job_attempts_clamp(struct job *job, uint64_t ids)
{
    uint64_t before = 0;

    for (size_t i = 0; i < job->attempt_count; i++) {
        struct job_attempt *attempt = &job->attempts[i];

        if (attempt->ids > ids - before)
            attempt->ids = ids - before;
        if (attempt->done > before)
            attempt->done = before;
        before += attempt->ids;
    }
}

static void
listen_to(struct core *core, struct job *job, const struct buf *frames)
{
    struct job_attempt *attempt = job_attempt_current(job);

    attempt->dispatched = clock_monotonic();
    record_attempt(job->record, attempt->number, attempt->done);
    links_dispatch(core->app->links, job->node->link, job->id, attempt->number,
                   job->record, frames);
}

void
job_dispatch(struct core *core, struct job *job)
{
    struct job_attempt *attempt = job_attempt_current(job);
    struct record_state state;
    struct buf frames;

    FAULT_STEP("core.attempt_written");
    job_admitted(job, NULL);
    if (job->cancelled) {
        job_leave_node(core, job); /* nothing was sent */
        job_step(core, job, JOB_CANCEL);
        return;
    }
    record_state(job->record, &state);
    job_attempts_clamp(job, state.ids);
    attempt->done = state.ids;
    if (job->node == NULL || job->node->link == 0) {
        job_lose(core, job, "node_lost");
        return;
    }
    buf_init(&frames, FRAMES_MAX_BYTES);
    job_frames(job, attempt->number, core->app->epoch, &frames);
    listen_to(core, job, &frames);
    buf_clear(&frames);
    FAULT_STEP("core.attempt_sent");
}

/* --- claimed --- */

static bool
earlier_add_up_to(const struct job *job, uint64_t done)
{
    uint64_t sum = 0;

    for (size_t i = 0; i + 1 < job->attempt_count; i++)
        sum += job->attempts[i].ids;
    return sum == done;
}

void
job_claim(struct core *core, struct job *job, struct node *node, uint64_t done)
{
    struct job_attempt *attempt = job_attempt_current(job);
    struct record_state state;

    record_state(job->record, &state);
    if (state.ids == 0 && !earlier_add_up_to(job, done)) {
        job_attempts_clamp(job, 0);
        done = 0;
    }
    if (attempt->unreachable && job->failure_count > 0)
        job->failure_count--; /* it was away, it did not fail */
    if (state.ids == 0)
        attempt->done = done;
    attempt->end_reason[0] = '\0';
    attempt->unreachable = false;
    job_join_node(core, job, node);
    log_info("job.claimed", "job=%s attempt=%" PRIu32 " node=%s ids=%" PRIu64,
             job->id, attempt->number, node->id, state.ids);
    job_step(core, job, JOB_CLAIMED);
}

static void
on_noted(void *arg, enum status status, struct db_rows *const *rows,
         size_t count, const struct error *err)
{
    (void)arg;
    (void)rows;
    (void)count;
    if (status != STATUS_OK)
        log_error("job.attempt_unwritten", "detail=\"%s\"", err->text);
}

void
job_resume(struct core *core, struct job *job)
{
    struct job_attempt *attempt = job_attempt_current(job);
    struct wire_job_resume resume = {
        .attempt = attempt->number,
        .epoch = core->app->epoch,
    };
    struct write *write = write_new(on_noted, NULL);
    struct record_state state;
    struct error err = {0};
    struct buf frame;

    store_attempt_reopen(write, job->id, attempt->number);
    writer_submit(core->app->writer, write);
    record_state(job->record, &state);
    memcpy(resume.job, job->id, sizeof(resume.job));
    resume.from = state.ids;
    buf_init(&frame, WIRE_FRAME_MAX_BYTES);
    if (wire_encode(WIRE_JOB_RESUME, &resume, &frame, &err) != STATUS_OK)
        log_error("wire.encode", "type=job.resume detail=\"%s\"", err.text);
    listen_to(core, job, &frame);
    buf_clear(&frame);
    FAULT_STEP("core.attempt_resumed");
}

/* --- closed --- */

void
job_attempt_close(struct job *job, const char *reason)
{
    struct job_attempt *attempt = job_attempt_current(job);
    struct record_state state;

    if (attempt->end_reason[0] != '\0')
        return;
    record_close(job->record);
    record_state(job->record, &state);
    snprintf(attempt->end_reason, sizeof(attempt->end_reason), "%s", reason);
    if (attempt->dispatched.ns == 0)
        return;
    attempt->ids = state.attempt_ids;
    if (!state.first_seen || attempt->observed)
        return;
    attempt->observed = true;
    attempt->observed_ttft_ms =
        (double)span_sub(state.first_at, attempt->dispatched).ns / 1e6;
    if (state.attempt_ids > 1 && state.last_at.ns > state.first_at.ns)
        attempt->observed_tok_s =
            (double)(state.attempt_ids - 1) * 1e9 /
            (double)span_sub(state.last_at, state.first_at).ns;
}

/* --- lost --- */

/* An owner's wish is nobody's failure, and any number of owners may come home
 * during a long job. */
static bool
is_failure(const char *reason)
{
    static const char *const wishes[] = {"owner_returned", "paused", "draining",
                                         "agent_stopped", "node_removed"};

    for (size_t i = 0; i < COUNT_OF(wishes); i++)
        if (strcmp(reason, wishes[i]) == 0)
            return false;
    return true;
}

static void
node_avoid(struct job *job, const char *node)
{
    int64_t pause_ms = FORGIVE_FIRST_MS;
    bool known = false;

    for (size_t i = 0; i < job->failed_node_count; i++)
        known = known || strcmp(job->failed_nodes[i], node) == 0;
    if (!known)
        memcpy(job->failed_nodes[job->failed_node_count++], node,
               UUID_TEXT_BYTES);
    for (size_t i = 0; i < job->failure_count && pause_ms < FORGIVE_MOST_MS;
         i++)
        pause_ms *= 2;
    job->forgive = span_add(clock_monotonic(), span_ms(pause_ms));
}

/* The engine died under the job: did one of another node a moment ago?  Until
 * that moment is over the job runs alone (inventory.c), so that it takes no
 * other one with it and no other one can be to blame. */
static bool
is_poison(struct core *core, struct job *job, const char *node)
{
    struct span now = clock_monotonic();
    bool again = job->crashed_node[0] != '\0' &&
                 job->suspect_until.ns > now.ns &&
                 strcmp(job->crashed_node, node) != 0;

    memcpy(job->crashed_node, node, UUID_TEXT_BYTES);
    job->suspect_until =
        span_add(now, span_s((int64_t)core->app->config.poison_s));
    core->round_at = job->suspect_until;
    return again;
}

void
job_lose(struct core *core, struct job *job, const char *reason)
{
    struct job_attempt *attempt = job_attempt_current(job);
    struct record_state state;

    assert(job->state == JOB_RUNNING);
    (void)record_close(job->record); /* the last id may be coming just now */
    record_state(job->record, &state);
    if (state.finish != OUTPUT_GOING) {
        job_step(core, job, JOB_FULL); /* complete: its word is on the way */
        return;
    }
    job_attempt_close(job, reason);
    attempt->unreachable = strcmp(reason, "node_lost") == 0;
    log_warn("job.attempt_lost", "job=%s attempt=%" PRIu32 " node=%s reason=%s",
             job->id, attempt->number, attempt->node, reason);
    if (is_failure(reason))
        job->failure_count++;
    node_avoid(job, attempt->node);
    if (strcmp(reason, "engine_lost") == 0 &&
        is_poison(core, job, attempt->node))
        job_step(core, job, JOB_POISONED);
    else
        job_step(core, job, JOB_LOST);
}

struct ended {
    struct core *core;
    uint64_t ack_link; /* 0: nobody waits */
    char job[UUID_TEXT_BYTES];
    uint32_t attempt;
};

static void
run_ended(struct core *core, void *arg)
{
    struct ended *ended = arg;

    node_ack(core, ended->ack_link, ended->job, ended->attempt);
    free(ended);
}

/* On the writer's thread, which outlives the links. */
static void
on_attempt_ended(void *arg, enum status status, struct db_rows *const *rows,
                 size_t count, const struct error *err)
{
    struct ended *ended = arg;

    on_noted(NULL, status, rows, count, err);
    if (status == STATUS_OK && ended->ack_link != 0)
        core_post(ended->core, run_ended, ended);
    else
        free(ended);
}

/* The end of the latest attempt and the job's return to the queue. */
static void
end_write(struct core *core, struct job *job)
{
    struct ended *ended = mem_alloc(sizeof(*ended));
    struct write *write = write_new(on_attempt_ended, ended);

    ended->core = core;
    ended->ack_link = job->ack_link;
    ended->attempt = job->ack_attempt;
    memcpy(ended->job, job->id, sizeof(ended->job));
    job->ack_link = 0;
    store_attempts_end(write, job);
    store_job_requeue(write, job->id);
    writer_submit(core->app->writer, write);
}

/* The job goes on elsewhere, unless it has been tried often enough. */
void
job_retry(struct core *core, struct job *job)
{
    const struct job_attempt *attempt = job_attempt_current(job);

    FAULT_STEP("core.attempt_lost");
    links_cancel(core->app->links, job->id, "attempt_over");
    job_leave_node(core, job);
    job_queue_append(core, job);
    end_write(core, job);
    core->want_round = true;
    if (job->attempt_count < JOB_ATTEMPTS_MAX &&
        job->failure_count < JOB_FAILURES_MAX &&
        (job->outlives || !core->stopping))
        return;
    job->failed = true;
    (void)error_set(&job->error, STATUS_RETRY,
                    "the job was tried %zu times and lost its target each "
                    "time (last: %s): try again",
                    job->attempt_count, attempt->end_reason);
    (void)error_tag(&job->error, "target_lost", NULL);
    job_step(core, job, JOB_GIVEN_UP);
}

void
job_forsake(struct core *core, struct job *job)
{
    struct job_attempt *attempt = job_attempt_current(job);

    attempt->ids = 0;
    snprintf(attempt->end_reason, sizeof(attempt->end_reason), "%s",
             "coordinator_lost");
    attempt->unreachable = true;
    job_queue_append(core, job);
    end_write(core, job);
    core->want_round = true;
}
