/* core_jobs.c - the job state machine: one table, and its actions.
 *
 * An action that cannot know its outcome yet submits a write and returns; the
 * write's end comes back as the next event.  A cancel that arrives meanwhile
 * is noted and acted on then. */
#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "coordinator/content.h"
#include "coordinator/core_private.h"
#include "coordinator/links.h"
#include "coordinator/store_jobs.h"
#include "ledger/ledger.h"
#include "ledger/settlement.h"

#include "common/banned.h"

enum {
    FORGIVE_FIRST_MS = 250, /* doubles with each attempt that was lost */
    STALLED_S = 60,         /* without an id for so long it is lost */
    SLOWNESS_MAX_MS = 3600000,
    FRAMES_MAX_BYTES = 64 * 1024 * 1024,
};

/* --- writes and their ends --- */

struct job_write {
    struct core *core;
    char job[UUID_TEXT_BYTES];
    enum job_event done, failed;
    enum status status;
    struct error error;
};

/* The end as it should be cannot be written (never expected): at least the
 * hold must not stay for ever. */
static void
end_plainly(struct core *core, struct job *job)
{
    struct write *write = job_write_new(core, job, JOB_WRITTEN, JOB_WRITTEN);

    job->abandoned = true;
    job->settled = false;
    ledger_release(write, core->app->epoch, job->id);
    store_job_abandon(write, job->id, "internal",
                      "its end could not be written; nothing was charged");
    writer_submit(core->app->writer, write);
}

static void
run_written(struct core *core, void *arg)
{
    struct job_write *written = arg;
    struct job *job = idmap_get(&core->jobs, written->job);

    assert(job != NULL);
    if (written->status != STATUS_OK)
        job->error = written->error;
    if (written->status != STATUS_OK && written->failed == JOB_WRITTEN) {
        job->failed = true;
        log_error("job.end_unwritten", "job=%s status=%s detail=\"%s\"",
                  job->id, status_name(written->status), written->error.text);
        if (!job->abandoned && written->status != STATUS_RETRY &&
            written->status != STATUS_DENIED) {
            end_plainly(core, job);
            free(written);
            return;
        }
    }
    job_step(core, job,
             written->status == STATUS_OK ? written->done : written->failed);
    free(written);
}

static void
on_written(void *arg, enum status status, struct db_rows *const *rows,
           size_t count, const struct error *err)
{
    struct job_write *written = arg;

    (void)rows;
    (void)count;
    written->status = status;
    if (status != STATUS_OK) {
        written->error = *err;
        written->error.status = status;
    }
    core_post(written->core, run_written, written);
}

struct write *
job_write_new(struct core *core, const struct job *job, enum job_event done,
              enum job_event failed)
{
    struct job_write *written = mem_alloc(sizeof(*written));

    written->core = core;
    memcpy(written->job, job->id, sizeof(written->job));
    written->done = done;
    written->failed = failed;
    return write_new(on_written, written);
}

/* --- queue --- */

static void
queue_append(struct core *core, struct job *job)
{
    job->next = NULL;
    if (core->queue_last == NULL)
        core->queue_first = job;
    else
        core->queue_last->next = job;
    core->queue_last = job;
    core->inventory.jobs_queued++;
    core->inventory.fleet_dirty = true;
    job->deadline = span_add(clock_monotonic(), job->patience);
}

void
job_queue_remove(struct core *core, struct job *job)
{
    struct job **at = &core->queue_first, *before = NULL;

    while (*at != NULL && *at != job) {
        before = *at;
        at = &(*at)->next;
    }
    if (*at == NULL)
        return;
    *at = job->next;
    if (core->queue_last == job)
        core->queue_last = before;
    job->next = NULL;
    core->inventory.jobs_queued--;
    core->inventory.fleet_dirty = true;
}

/* --- admission --- */

static void
admitted(struct job *job, const struct error *err)
{
    if (job->on_admitted != NULL)
        job->on_admitted(job->arg, err);
    job->on_admitted = NULL;
}

static void
hold_write(struct core *core, struct job *job, const char *why)
{
    bool placed = job->attempt_count > 0;
    struct write *write = job_write_new(
        core, job, placed ? JOB_COMMITTED : JOB_HELD, JOB_REFUSED);

    ledger_hold(write, core->app->epoch, job->id, job->wallet, job->hold,
                job->revision.revision);
    store_job_add(write, job);
    if (placed)
        store_attempt_add(write, core->app->epoch, job,
                          job_attempt_current(job), why);
    writer_submit(core->app->writer, write);
}

void
job_submit(struct core *core, struct job *job)
{
    enum status status = STATUS_NO_CAPACITY;
    struct buf why;

    job->state = job->adopted ? JOB_QUEUED : JOB_ADMITTING;
    idmap_put(&core->jobs, job->id, job);
    if (job->outlives)
        records_add(core, job->id, job->record);
    if (job->adopted) {
        queue_append(core, job);
        core->want_round = true;
        return;
    }
    buf_init(&why, JOB_WHY_MAX_BYTES);
    if (core->stopping)
        status = error_set(&job->error, STATUS_RETRY,
                           "the coordinator is stopping: try again");
    else if (!atomic_load(&core->app->reachable))
        status = error_set(&job->error, STATUS_RETRY,
                           "the database does not answer: try again");
    else if (core->queue_first == NULL)
        status = job_place(core, job, &why, &job->error);
    else
        status = STATUS_NO_CAPACITY; /* behind those who wait already */
    if (status == STATUS_OK || status == STATUS_NO_CAPACITY)
        hold_write(core, job, why.data);
    else
        job_step(core, job, JOB_REFUSED);
    buf_clear(&why);
}

static void
enqueue(struct core *core, struct job *job)
{
    admitted(job, NULL);
    queue_append(core, job);
    core->want_round = true;
    if (job->cancelled)
        job_step(core, job, JOB_CANCEL);
}

/* --- running --- */

static void
dispatch(struct core *core, struct job *job)
{
    struct job_attempt *attempt = job_attempt_current(job);
    uint64_t epoch = core->app->epoch;
    struct buf frames;

    admitted(job, NULL);
    if (job->cancelled) {
        job_leave_node(core, job); /* nothing was sent */
        job_step(core, job, JOB_CANCEL);
        return;
    }
    if (job->node == NULL || job->node->link == 0) {
        job_lose(core, job, "node_lost");
        return;
    }
    buf_init(&frames, FRAMES_MAX_BYTES);
    job_frames(job, attempt->number, epoch, &frames);
    attempt->dispatched = clock_monotonic();
    record_attempt(job->record, attempt->number);
    links_dispatch(core->app->links, job->node->link, job->id, attempt->number,
                   job->record, &frames);
    buf_clear(&frames);
}

/* Close the record to the current attempt and note what it did. */
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
    attempt->observed = state.first_seen;
    if (!state.first_seen)
        return;
    attempt->observed_ttft_ms =
        (double)span_sub(state.first_at, attempt->dispatched).ns / 1e6;
    if (state.attempt_ids > 1 && state.last_at.ns > state.first_at.ns)
        attempt->observed_tok_s =
            (double)(state.attempt_ids - 1) * 1e9 /
            (double)span_sub(state.last_at, state.first_at).ns;
}

void
job_lose(struct core *core, struct job *job, const char *reason)
{
    struct record_state state;

    assert(job->state == JOB_RUNNING);
    record_state(job->record, &state);
    if (state.finish != OUTPUT_GOING) {
        job_step(core, job, JOB_FULL); /* complete: its word is on the way */
        return;
    }
    job_attempt_close(job, reason);
    log_warn("job.attempt_lost", "job=%s attempt=%" PRIu32 " node=%s reason=%s",
             job->id, job_attempt_current(job)->number,
             job_attempt_current(job)->node, reason);
    memcpy(job->failed_nodes[job->failed_node_count++],
           job_attempt_current(job)->node, UUID_TEXT_BYTES);
    job->forgive = span_add(
        clock_monotonic(),
        span_ms(FORGIVE_FIRST_MS * (INT64_C(1) << job->failed_node_count)));
    job_step(core, job, JOB_LOST);
}

static void
on_attempt_ended(void *arg, enum status status, struct db_rows *const *rows,
                 size_t count, const struct error *err)
{
    (void)arg;
    (void)rows;
    (void)count;
    if (status != STATUS_OK)
        log_error("job.attempt_unwritten", "detail=\"%s\"", err->text);
}

/* The job goes on elsewhere, unless it has been tried often enough. */
static void
retry(struct core *core, struct job *job)
{
    const struct job_attempt *attempt = job_attempt_current(job);
    struct write *write = write_new(on_attempt_ended, NULL);

    links_cancel(core->app->links, job->id, "attempt_over");
    job_leave_node(core, job);
    queue_append(core, job);
    store_attempt_end(write, job->id, attempt);
    store_job_requeue(write, job->id);
    writer_submit(core->app->writer, write);
    core->want_round = true;
    if (job->attempt_count < JOB_ATTEMPTS_MAX &&
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

/* --- the end --- */

static void
end_done(struct core *core, struct job *job)
{
    struct record_state state;

    record_state(job->record, &state);
    job_end(core, job, "done", output_finish_name(state.finish), "done");
}

static void
end_cancelled(struct core *core, struct job *job)
{
    if (job->node != NULL)
        links_cancel(core->app->links, job->id, job->cancel_reason);
    job->failed = true;
    if (strcmp(job->cancel_reason, "shutdown") == 0)
        (void)error_set(&job->error, STATUS_RETRY,
                        "the coordinator is stopping: try again");
    else
        (void)error_set(&job->error, STATUS_CONFLICT,
                        "the job was cancelled: %s", job->cancel_reason);
    (void)error_tag(&job->error, "cancelled", NULL);
    job_end(core, job, "cancelled", "cancelled", job->cancel_reason);
}

static void
end_failed(struct core *core, struct job *job)
{
    job->failed = true;
    job_end(core, job, "failed", "failed", "failed");
}

static void
end_expired(struct core *core, struct job *job)
{
    char reason[ERROR_TEXT_BYTES];

    snprintf(reason, sizeof(reason), "%.300s",
             job->error.text[0] != '\0' ? job->error.text
                                        : "others wait before it");
    (void)error_set(&job->error, STATUS_NO_CAPACITY,
                    "no target within the patience of %" PRId64
                    " ms: %.300s. Try again later, or raise "
                    "X-Berth-Patience-Ms",
                    span_as_ms(job->patience), reason);
    (void)error_tag(&job->error, "no_capacity", NULL);
    end_failed(core, job);
}

static void
finish(struct core *core, struct job *job)
{
    struct record_state state;
    struct record_end last = {
        .failed = job->failed,
        .error = job->error,
        .prompt_tokens = job->prompt_count,
    };

    record_state(job->record, &state);
    last.completion_tokens = state.ids;
    if (!last.failed && output_finish_name(state.finish) != NULL)
        snprintf(last.finish, sizeof(last.finish), "%s",
                 output_finish_name(state.finish));
    log_info("job.ended",
             "job=%s result=%s prompt_tokens=%zu completion_tokens=%" PRIu64
             " price_ucr=%" PRId64,
             job->id, last.failed ? job->error.code : last.finish,
             job->prompt_count, state.ids,
             job->settled ? job->price.total.micro : 0);
    record_finish(job->record, &last);
    if (job->outlives)
        records_end(core, job->id);
    links_unwatch(core->app->links, job->id);
    if (job->on_ended != NULL)
        job->on_ended(job->ended_arg, STATUS_OK);
    job_retire(core, job);
}

/* Nothing was written: no hold, no row. */
static void
refuse(struct core *core, struct job *job)
{
    job_leave_node(core, job);
    admitted(job, &job->error);
    records_forget(core, job->id);
    job->failed = true;
    finish(core, job);
}

static void
unwritten(struct core *core, struct job *job)
{
    job_leave_node(core, job);
    job_attempt_close(job, "unwritten");
    job->failed = true;
    job_end(core, job, "failed", "failed", "unwritten");
}

static void
note(struct core *core, struct job *job)
{
    (void)core;
    (void)job;
}

const struct job_transition job_transitions[] = {
    {JOB_ADMITTING, JOB_HELD, JOB_QUEUED, enqueue, "waits for a target"},
    {JOB_ADMITTING, JOB_COMMITTED, JOB_RUNNING, dispatch,
     "placed at once: hold, row and attempt were one write"},
    {JOB_ADMITTING, JOB_REFUSED, JOB_ENDED, refuse,
     "no funds, never placeable, or not written"},
    {JOB_ADMITTING, JOB_CANCEL, JOB_ADMITTING, note,
     "acted on when the write is back"},
    {JOB_QUEUED, JOB_PLACED, JOB_STARTING, note, "the attempt is written"},
    {JOB_QUEUED, JOB_CANCEL, JOB_ENDING, end_cancelled,
     "settled by what was delivered, else released"},
    {JOB_QUEUED, JOB_EXPIRED, JOB_ENDING, end_expired,
     "no capacity within the patience"},
    {JOB_QUEUED, JOB_GIVEN_UP, JOB_ENDING, end_failed, "tried often enough"},
    {JOB_STARTING, JOB_COMMITTED, JOB_RUNNING, dispatch,
     "input and run are sent"},
    {JOB_STARTING, JOB_UNWRITTEN, JOB_ENDING, unwritten,
     "the attempt could not be written"},
    {JOB_STARTING, JOB_CANCEL, JOB_STARTING, note,
     "acted on when the write is back"},
    {JOB_RUNNING, JOB_FULL, JOB_ENDING, end_done, "settled"},
    {JOB_RUNNING, JOB_LOST, JOB_QUEUED, retry, "goes on as the next attempt"},
    {JOB_RUNNING, JOB_CANCEL, JOB_ENDING, end_cancelled,
     "settled by what was delivered, else released"},
    {JOB_ENDING, JOB_CANCEL, JOB_ENDING, note, "too late"},
    {JOB_ENDING, JOB_WRITTEN, JOB_ENDED, finish, "readers get the end"},
};
const size_t job_transition_count = COUNT_OF(job_transitions);

void
job_step(struct core *core, struct job *job, enum job_event event)
{
    for (size_t i = 0; i < job_transition_count; i++) {
        const struct job_transition *row = &job_transitions[i];

        if (row->from != job->state || row->event != event)
            continue;
        if (event == JOB_PLACED)
            job_queue_remove(core, job);
        job->state = row->to;
        row->action(core, job);
        return;
    }
    log_error("job.impossible", "job=%s state=%s event=%s", job->id,
              job_state_name(job->state), job_event_name(event));
    assert(false && "an event that its state cannot take");
}

bool
job_cancel(struct core *core, struct job *job, const char *reason)
{
    if (job->cancelled || job->state == JOB_ENDING || job->state == JOB_ENDED)
        return false;
    job->cancelled = true;
    snprintf(job->cancel_reason, sizeof(job->cancel_reason), "%s", reason);
    job_step(core, job, JOB_CANCEL);
    return true;
}

/* Progress is ids.  The first may take ten times what was predicted more. */
static bool
is_stalled(struct job *job, struct span now)
{
    const struct job_attempt *attempt = job_attempt_current(job);
    double slowness = attempt->predicted_ttft_ms * 10;
    struct span limit = span_s(STALLED_S), since;
    struct record_state state;

    record_state(job->record, &state);
    since = state.first_seen ? state.last_at : attempt->dispatched;
    if (!state.first_seen && slowness > 0)
        limit = span_add(limit,
                         span_ms(slowness < SLOWNESS_MAX_MS ? (int64_t)slowness
                                                            : SLOWNESS_MAX_MS));
    return span_sub(now, since).ns > limit.ns;
}

/* An agent that does not end a job loses its link: its slots are free. */
static void
unanswered_sweep(struct core *core, struct span now)
{
    struct job *job;
    size_t at = 0;

    if (span_sub(now, core->unanswered_swept).ns < span_s(1).ns)
        return;
    core->unanswered_swept = now;
    while ((job = idmap_next(&core->jobs, &at)) != NULL)
        if (job->state == JOB_ENDED && job->node != NULL &&
            job->deadline.ns <= now.ns)
            links_end(core->app->links, job->node->link,
                      "it did not answer a job.cancel");
        else if (job->state == JOB_RUNNING && is_stalled(job, now))
            job_lose(core, job, "stalled");
}

struct span
jobs_timers(struct core *core, struct span now)
{
    struct span wait = span_s(1);
    struct job *job = core->queue_first;

    while (job != NULL) {
        struct job *next = job->next;
        struct span left = span_sub(job->deadline, now);

        if (left.ns <= 0) {
            job_step(core, job, JOB_EXPIRED);
        } else {
            struct span pause = span_sub(job->forgive, now);

            if (pause.ns > 0 && pause.ns < left.ns)
                left = pause;
            else if (job->forgive.ns != 0 && pause.ns <= 0) {
                job->forgive.ns = 0;
                core->want_round = true;
            }
            if (left.ns < wait.ns)
                wait = left;
        }
        job = next;
    }
    unanswered_sweep(core, now);
    return wait;
}

void
job_transitions_print(struct buf *out)
{
    buf_append_text(out, "| from | event | to | what happens |\n"
                         "|---|---|---|---|\n");
    for (size_t i = 0; i < job_transition_count; i++) {
        const struct job_transition *row = &job_transitions[i];

        buf_printf(out, "| %s | %s | %s | %s |\n", job_state_name(row->from),
                   job_event_name(row->event), job_state_name(row->to),
                   row->meaning);
    }
}
