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
#include "common/fault.h"
#include "common/log.h"
#include "common/mem.h"
#include "coordinator/content.h"
#include "coordinator/core_private.h"
#include "coordinator/links.h"
#include "coordinator/store_jobs.h"
#include "ledger/ledger.h"
#include "ledger/settlement.h"

#include "common/banned.h"

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

/* --- admission --- */

enum { ADMISSION_S = 10 }; /* without a word from the database */

void
job_admitted(struct job *job, const struct error *err)
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

    job->state = job->adrift    ? JOB_ADRIFT
                 : job->adopted ? JOB_QUEUED
                                : JOB_ADMITTING;
    idmap_put(&core->jobs, job->id, job);
    if (job->adrift) {
        job->deadline = span_add(clock_monotonic(),
                                 span_s((int64_t)core->app->config.adrift_s));
        return;
    }
    if (job->adopted) {
        job_queue_append(core, job);
        core->want_round = true;
        return;
    }
    job->deadline = span_add(clock_monotonic(), span_s(ADMISSION_S));
    buf_init(&why, JOB_WHY_MAX_BYTES);
    if (core->stopping) {
        (void)error_set(&job->error, STATUS_RETRY,
                        "the coordinator is stopping: try again");
        status = error_tag(&job->error, "stopping", NULL);
    } else if (!atomic_load(&core->app->reachable)) {
        (void)error_set(&job->error, STATUS_RETRY,
                        "the database does not answer: try again");
        status = error_tag(&job->error, "database_unreachable", NULL);
    } else if (core->queue_first == NULL) {
        status = job_place(core, job, &why, &job->error);
    }
    if (status == STATUS_OK || status == STATUS_NO_CAPACITY)
        hold_write(core, job, why.data);
    else
        job_step(core, job, JOB_REFUSED);
    buf_clear(&why);
}

/* The write cannot be taken back and may yet land.  Who waits for it is told
 * now.  A job with an idempotency key is found by repeating its request and
 * goes on if it lands; any other, which nobody can name, ends as cancelled. */
void
job_admission_expire(struct core *core, struct job *job)
{
    struct record_end end = {.failed = true};
    bool keyed = job->idempotency_key[0] != '\0';

    if (keyed && job->on_admitted == NULL)
        return; /* told before */
    (void)error_set(&end.error, STATUS_RETRY,
                    "the database did not answer within %d s: try again",
                    ADMISSION_S);
    (void)error_tag(&end.error, "database_unreachable", NULL);
    job->answered = job->on_admitted == NULL;
    job_admitted(job, &end.error);
    if (job->answered) {
        record_finish(job->record, &end);
        links_unwatch(core->app->links, job->id);
    }
    if (!keyed)
        (void)job_cancel(core, job, "database_unreachable");
}

static void
enqueue(struct core *core, struct job *job)
{
    job_admitted(job, NULL);
    job_queue_append(core, job);
    core->want_round = true;
    if (job->cancelled)
        job_step(core, job, JOB_CANCEL);
}

/* --- the end --- */

static void
end_done(struct core *core, struct job *job)
{
    struct record_state state;

    record_state(job->record, &state);
    /* The engine does not know where the first call ends. */
    if (job->rules.one_call && state.finish == OUTPUT_CALLS &&
        job->node != NULL)
        links_cancel(core->app->links, job->id, "done");
    job_end(core, job, "done", output_finish_name(state.finish), "done");
}

static void
end_cancelled(struct core *core, struct job *job)
{
    if (job->node != NULL)
        links_cancel(core->app->links, job->id, job->cancel_reason);
    job->failed = true;
    if (strcmp(job->cancel_reason, "shutdown") == 0) {
        (void)error_set(&job->error, STATUS_RETRY,
                        "the coordinator is stopping: try again");
        (void)error_tag(&job->error, "stopping", NULL);
    } else {
        (void)error_set(&job->error, STATUS_CONFLICT,
                        "the job was cancelled: %s; send it again if it is "
                        "still wanted",
                        job->cancel_reason);
        (void)error_tag(&job->error, "cancelled", NULL);
    }
    job_end(core, job, "cancelled", "cancelled", job->cancel_reason);
}

static void
end_failed(struct core *core, struct job *job)
{
    job->failed = true;
    job_end(core, job, "failed", "failed", "failed");
}

static void
end_poisoned(struct core *core, struct job *job)
{
    job->failed = true;
    (void)error_set(&job->error, STATUS_INVALID,
                    "the engines of 2 nodes crashed under this job within "
                    "%" PRIu64 " s, so it is not tried again: change the "
                    "request, or give the operator this job's id",
                    core->app->config.poison_s);
    (void)error_tag(&job->error, "job_quarantined", NULL);
    job_end(core, job, "quarantined", "failed", "engine_lost");
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
                    span_as_ms(job_patience(job)), reason);
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
    FAULT_STEP("core.end_written");
    if (!job->answered)
        record_finish(job->record, &last);
    if (job->ack_link != 0)
        node_ack(core, job->ack_link, job->id, job->ack_attempt);
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
    job_admitted(job, &job->error);
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
    {JOB_ADMITTING, JOB_COMMITTED, JOB_RUNNING, job_dispatch,
     "placed at once: hold, row and attempt were one write"},
    {JOB_ADMITTING, JOB_REFUSED, JOB_ENDED, refuse,
     "no funds, never placeable, or not written"},
    {JOB_ADMITTING, JOB_CANCEL, JOB_ADMITTING, note,
     "acted on when the write is back"},
    {JOB_ADRIFT, JOB_CLAIMED, JOB_RUNNING, job_resume,
     "its node still has the attempt: ids are sent again"},
    {JOB_ADRIFT, JOB_LOST, JOB_QUEUED, job_forsake,
     "its node came without the attempt, or did not come"},
    {JOB_ADRIFT, JOB_CANCEL, JOB_ENDING, end_cancelled, "released"},
    {JOB_QUEUED, JOB_CLAIMED, JOB_RUNNING, job_resume,
     "the lost node came back with the attempt"},
    {JOB_QUEUED, JOB_PLACED, JOB_STARTING, note, "the attempt is written"},
    {JOB_QUEUED, JOB_CANCEL, JOB_ENDING, end_cancelled,
     "settled by what was delivered, else released"},
    {JOB_QUEUED, JOB_EXPIRED, JOB_ENDING, end_expired,
     "no capacity within the patience"},
    {JOB_QUEUED, JOB_GIVEN_UP, JOB_ENDING, end_failed, "tried often enough"},
    {JOB_STARTING, JOB_COMMITTED, JOB_RUNNING, job_dispatch,
     "input and run are sent"},
    {JOB_STARTING, JOB_UNWRITTEN, JOB_ENDING, unwritten,
     "the attempt could not be written"},
    {JOB_STARTING, JOB_CANCEL, JOB_STARTING, note,
     "acted on when the write is back"},
    {JOB_RUNNING, JOB_FULL, JOB_ENDING, end_done, "settled"},
    {JOB_RUNNING, JOB_LOST, JOB_QUEUED, job_retry,
     "goes on as the next attempt"},
    {JOB_RUNNING, JOB_POISONED, JOB_ENDING, end_poisoned,
     "engines of two nodes crashed under it: never a third"},
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
        if (event == JOB_PLACED || event == JOB_CLAIMED)
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
