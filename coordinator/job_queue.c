/* job_queue.c - jobs that wait: for a target, for a node to call, for an id. */
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "coordinator/core_private.h"
#include "coordinator/links.h"

#include "common/banned.h"

enum { SLOWNESS_MAX_MS = 3600000, BEGUN_PATIENCE_S = 60 };

struct span
job_patience(const struct job *job)
{
    struct span least = span_s(BEGUN_PATIENCE_S);

    return job->attempt_count > 0 && job->patience.ns < least.ns
               ? least
               : job->patience;
}

void
job_queue_append(struct core *core, struct job *job)
{
    job->next = NULL;
    if (core->queue_last == NULL)
        core->queue_first = job;
    else
        core->queue_last->next = job;
    core->queue_last = job;
    core->inventory.jobs_queued++;
    core->inventory.fleet_dirty = true;
    job->deadline = span_add(clock_monotonic(), job_patience(job));
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

/* Progress is ids.  The first may take ten times what was predicted more. */
static bool
is_stalled(struct core *core, struct job *job, struct span now)
{
    const struct job_attempt *attempt = job_attempt_current(job);
    double slowness = attempt->predicted_ttft_ms * 10;
    struct span limit = span_s((int64_t)core->app->config.stall_s), since;
    struct record_state state;

    record_state(job->record, &state);
    since = state.first_seen ? state.last_at : attempt->dispatched;
    if (!state.first_seen && slowness > 0)
        limit = span_add(limit,
                         span_ms(slowness < SLOWNESS_MAX_MS ? (int64_t)slowness
                                                            : SLOWNESS_MAX_MS));
    return span_sub(now, since).ns > limit.ns;
}

/* Those who wait for somebody else.  An agent that does not end a job loses its
 * link: its slots are free. */
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
        else if (job->state == JOB_RUNNING && is_stalled(core, job, now))
            job_lose(core, job, "stalled");
        else if (job->state == JOB_ADMITTING && !job->cancelled &&
                 job->deadline.ns <= now.ns)
            job_admission_expire(core, job);
        else if (job->state == JOB_ADRIFT && job->deadline.ns <= now.ns)
            job_step(core, job, JOB_LOST);
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
    if (core->round_at.ns != 0 && core->round_at.ns <= now.ns) {
        core->round_at.ns = 0;
        core->want_round = true;
    }
    return wait;
}
