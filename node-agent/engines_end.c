/* engines_end.c - how attempts end: told, kept, stopped at their engine. */
#include "node-agent/engines_private.h"

#include <inttypes.h>
#include <stdio.h>

#include <event2/event.h>

#include "common/clock.h"
#include "common/log.h"

#include "common/banned.h"

static enum status
encode_fail(const char *job, uint32_t attempt, uint64_t ids, const char *code,
            const char *text, struct buf *frame)
{
    struct wire_job_fail fail = {.attempt = attempt, .ids = ids};
    struct error err = {0};
    enum status status;

    snprintf(fail.job, sizeof(fail.job), "%s", job);
    snprintf(fail.code, sizeof(fail.code), "%s", code);
    snprintf(fail.text, sizeof(fail.text), "%s", text);
    log_info("job.failed", "job=%s attempt=%" PRIu32 " code=%s", job, attempt,
             code);
    buf_init(frame, WIRE_HEAD_BYTES + WIRE_FRAME_MAX_BYTES);
    status = wire_encode(WIRE_JOB_FAIL, &fail, frame, &err);
    if (status != STATUS_OK)
        log_error("engines.encode", "type=job.fail reason=%s",
                  LOG_QUOTED(err.text));
    return status;
}

static void
pass_up(const struct engines *engines, const void *frame, size_t size)
{
    engines->setup.hooks.on_frame(engines->setup.hooks.arg, frame, size);
}

void
engines_answer_fail(struct engines *engines, const char *job, uint32_t attempt,
                    uint64_t ids, const char *code, const char *text)
{
    struct buf frame;

    if (encode_fail(job, attempt, ids, code, text, &frame) == STATUS_OK)
        pass_up(engines, frame.data, frame.size);
    buf_clear(&frame);
}

/* Hand the attempt over to those that wait for a job.ack, with its ids. */
static void
hold(struct engines *engines, struct job *job, const void *frame, size_t size)
{
    struct ended *ended = ended_new(job->id, job->attempt);

    ended->done = job->done;
    ended->ids = job->ids;
    job->ids = (struct ids){0};
    buf_append(&ended->frame, frame, size);
    held_take(&engines->held, ended, job->binding != JOB_UNBOUND);
}

void
engines_end_with(struct engines *engines, struct job *job, const void *frame,
                 size_t size)
{
    struct engine *engine = job->engine;

    if (engine == NULL)
        pass_up(engines, frame, size);
    else
        hold(engines, job, frame, size);
    jobs_remove(&engines->jobs, job);
    if (engine == NULL)
        return;
    engine->last_used = clock_monotonic();
    engines->setup.hooks.on_jobs(engines->setup.hooks.arg);
}

void
engines_end(struct engines *engines, struct job *job, const char *code,
            const char *text)
{
    struct buf frame;

    if (encode_fail(job->id, job->attempt, job->ids.count - job->done, code,
                    text, &frame) == STATUS_OK)
        engines_end_with(engines, job, frame.data, frame.size);
    buf_clear(&frame);
}

void
engines_refuse(struct engines *engines, const char *id, uint32_t attempt,
               const char *code, const char *text)
{
    struct job *job = jobs_find(&engines->jobs, id, attempt);

    if (job != NULL && job->engine != NULL)
        return; /* it runs already, and goes on */
    if (held_find(&engines->held, id, attempt) != NULL)
        return; /* it has another end */
    if (job != NULL)
        engines_end(engines, job, code, text);
    else
        engines_answer_fail(engines, id, attempt, 0, code, text);
}

static void
cancel_at_engine(const struct job *job, const char *reason)
{
    struct wire_job_cancel cancel = {.attempt = job->attempt,
                                     .epoch = job->epoch};

    if (!job->sent || job->engine->channel == NULL)
        return;
    snprintf(cancel.job, sizeof(cancel.job), "%s", job->id);
    snprintf(cancel.reason, sizeof(cancel.reason), "%s", reason);
    channel_send(job->engine->channel, WIRE_JOB_CANCEL, &cancel);
}

void
engines_stop_job(struct engines *engines, struct job *job, const char *reason)
{
    if (job->sent)
        cancel_at_engine(job, reason);
    else /* no pass was made for it */
        engines_end(engines, job, "cancelled", reason);
}

void
engines_break_off(struct engines *engines, struct job *job, const char *code,
                  const char *text)
{
    cancel_at_engine(job, code);
    engines_end(engines, job, code, text);
}

void
engines_end_jobs(struct engines *engines, const char *code, const char *text)
{
    while (engines->jobs.first != NULL)
        engines_break_off(engines, engines->jobs.first, code, text);
    event_active(engines->advance, 0, 0);
}
