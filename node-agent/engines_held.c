/* engines_held.c - what outlives a link, and for how long. */
#include "node-agent/engines_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"

#include "common/banned.h"

enum {
    WATCH_S = 1,
    /* Later than that: this process did not run, so that silence says nothing
     * about the engines. */
    WATCH_LATE_S = 5,
};

static void
send_up(const struct engines *engines, enum wire_type type, const void *body)
{
    struct error err = {0};
    struct buf frame;

    buf_init(&frame, WIRE_HEAD_BYTES + WIRE_FRAME_MAX_BYTES);
    if (wire_encode(type, body, &frame, &err) == STATUS_OK)
        engines->setup.hooks.on_frame(engines->setup.hooks.arg, frame.data,
                                      frame.size);
    else
        log_error("engines.encode", "type=%s reason=%s", wire_type_name(type),
                  LOG_QUOTED(err.text));
    buf_clear(&frame);
}

/* --- a link is lost, another is there --- */

void
engines_unbind(struct engines *engines)
{
    struct job *next;

    for (struct job *job = engines->jobs.first; job != NULL; job = next) {
        next = job->next;
        if (job->engine == NULL) {
            jobs_remove(&engines->jobs, job);
        } else if (job->binding != JOB_UNBOUND) {
            job->binding = JOB_UNBOUND;
            job->lost_at = clock_monotonic();
        }
    }
    held_unbind(&engines->held);
}

struct report {
    const struct engines *engines;
    struct wire_job_held *frame;
};

static void
report_one(struct report *report, const char *job, uint32_t attempt,
           bool has_ended, uint64_t done, uint64_t ids)
{
    struct wire_job_held *frame = report->frame;
    struct wire_held *row;

    if (frame->attempt_count == WIRE_HELD_MAX) {
        frame->more = true;
        send_up(report->engines, WIRE_JOB_HELD, frame);
        *frame = (struct wire_job_held){0};
    }
    row = &frame->attempts[frame->attempt_count++];
    memcpy(row->job, job, sizeof(row->job));
    row->attempt = attempt;
    row->ended = has_ended;
    row->done = done;
    row->ids = ids;
}

void
engines_report(struct engines *engines)
{
    struct report report = {.engines = engines,
                            .frame = mem_alloc(sizeof(*report.frame))};

    for (const struct ended *each = engines->held.first; each != NULL;
         each = each->next)
        report_one(&report, each->job, each->attempt, true, each->done,
                   each->ids.count);
    for (const struct job *job = engines->jobs.first; job != NULL;
         job = job->next)
        if (job->engine != NULL)
            report_one(&report, job->id, job->attempt, false, job->done,
                       job->ids.count);
    send_up(engines, WIRE_JOB_HELD, report.frame);
    free(report.frame);
}

static void
resume_job(struct engines *engines, struct job *job, uint64_t from)
{
    struct buf frames;

    buf_init(&frames, IDS_FRAMES_MAX_BYTES);
    job->binding = JOB_BOUND;
    ids_frames(&job->ids, job->id, job->attempt, from, &frames);
    engines->setup.hooks.on_frame(engines->setup.hooks.arg, frames.data,
                                  frames.size);
    buf_clear(&frames);
}

void
engines_resume(struct engines *engines, const struct wire_job_resume *resume)
{
    struct job *job = jobs_find(&engines->jobs, resume->job, resume->attempt);
    struct ended *ended =
        held_find(&engines->held, resume->job, resume->attempt);

    log_info("job.resume",
             "job=%s attempt=%" PRIu32 " from=%" PRIu64 " known=%d",
             resume->job, resume->attempt, resume->from,
             engines_knows(engines, resume->job, resume->attempt));
    if (ended != NULL)
        held_resume(&engines->held, ended, resume->from);
    else if (job != NULL && job->engine != NULL)
        resume_job(engines, job, resume->from);
    else
        engines_refuse(engines, resume->job, resume->attempt, "unknown_attempt",
                       "this node does not hold the attempt");
}

void
engines_cancel(struct engines *engines, const struct wire_job_cancel *cancel)
{
    struct job *job = jobs_find(&engines->jobs, cancel->job, cancel->attempt);
    struct ended *ended =
        held_find(&engines->held, cancel->job, cancel->attempt);

    if (ended != NULL)
        held_send(&engines->held, ended);
    if (job == NULL)
        return; /* it ended while the cancel was on its way */
    if (job->binding == JOB_UNBOUND)
        job->binding = JOB_MUTE;
    engines_stop_job(engines, job, cancel->reason);
}

void
engines_ack(struct engines *engines, const struct wire_job_ack *ack)
{
    held_ack(&engines->held, ack->job, ack->attempt);
}

bool
engines_are_safe(const struct engines *engines)
{
    return held_is_safe(&engines->held);
}

void
engines_forget(struct engines *engines)
{
    held_forget(&engines->held);
}

/* --- once a second --- */

static bool
has_work(const struct engines *engines, const struct engine *engine)
{
    for (const struct job *job = engines->jobs.first; job != NULL;
         job = job->next)
        if (job->engine == engine && job->sent)
            return true;
    return false;
}

/* An engine that says nothing while it has work makes no progress. */
static void
watch_engine(struct engines *engines, struct engine *engine, struct span now)
{
    int64_t silence_s = (int64_t)engines->setup.silence_s;
    struct span silent = span_sub(now, engine->heard);
    char text[96];

    if (engine->state != ENGINE_READY || !has_work(engines, engine) ||
        silent.ns < span_s(silence_s).ns)
        return;
    snprintf(text, sizeof(text), "silent for %" PRId64 " s with jobs",
             silence_s);
    engine->is_stalled = true;
    engine_fail(engine, text);
}

static void
watch_engines(struct engines *engines, struct span now)
{
    bool is_late = span_sub(now, engines->watched).ns > span_s(WATCH_LATE_S).ns;

    for (struct engine *engine = engines->first; engine != NULL;
         engine = engine->next) {
        if (is_late)
            engine->heard = now;
        else
            watch_engine(engines, engine, now);
    }
}

/* Nobody has asked for it: its answer is not worth the owner's power. */
static void
end_unasked(struct engines *engines, struct span now)
{
    struct job *next;

    for (struct job *job = engines->jobs.first; job != NULL; job = next) {
        next = job->next;
        if (job->engine != NULL && job->binding == JOB_UNBOUND &&
            span_sub(now, job->lost_at).ns >= span_s(ENGINES_UNASKED_S).ns)
            engines_break_off(engines, job, "link_lost",
                              "no coordinator asked for it in five minutes "
                              "after the link was lost");
    }
}

void
engines_watch_begin(struct engines *engines)
{
    const struct timeval second = {.tv_sec = WATCH_S};

    if (event_pending(engines->watch, EV_TIMEOUT, NULL))
        return;
    engines->watched = clock_monotonic();
    event_add(engines->watch, &second);
}

void
engines_on_watch(int fd, short what, void *arg)
{
    struct engines *engines = arg;
    struct span now = clock_monotonic();

    (void)fd;
    (void)what;
    watch_engines(engines, now);
    end_unasked(engines, now);
    if (engines_job_count(engines) > 0)
        engines_watch_begin(engines);
}
