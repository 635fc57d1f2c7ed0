/* core_held.c - what an agent still holds after its link was lost, against what
 * the core knows: claimed, cancelled or acknowledged. */
#include <inttypes.h>
#include <string.h>

#include "common/fault.h"
#include "common/log.h"
#include "coordinator/core_private.h"
#include "coordinator/links.h"

#include "common/banned.h"

static void
send_cancel(struct core *core, uint64_t link, const struct wire_held *held)
{
    struct wire_job_cancel cancel = {
        .attempt = held->attempt,
        .epoch = core->app->epoch,
        .reason = "attempt_over",
    };

    memcpy(cancel.job, held->job, sizeof(cancel.job));
    node_send(core, link, WIRE_JOB_CANCEL, &cancel);
}

/* Is it the latest attempt of a job that waits, for this node or for any? */
static bool
is_claimable(struct job *job, const struct node *node,
             const struct wire_held *held)
{
    const struct job_attempt *attempt;

    if (job == NULL || job->attempt_count == 0 ||
        (job->state != JOB_ADRIFT && job->state != JOB_QUEUED))
        return false;
    attempt = job_attempt_current(job);
    return attempt->number == held->attempt &&
           strcmp(attempt->node, node->id) == 0 &&
           (job->state == JOB_ADRIFT || attempt->unreachable);
}

static void
held_take(struct core *core, uint64_t link, struct node *node,
          const struct wire_held *held)
{
    struct job *job = idmap_get(&core->jobs, held->job);

    FAULT_STEP("core.held");
    if (is_claimable(job, node, held) &&
        node->job_count < COUNT_OF(node->jobs)) {
        job_claim(core, job, node, held->done);
        return;
    }
    log_info("job.fenced", "job=%s attempt=%" PRIu32 " node=%s ended=%s",
             held->job, held->attempt, node->id, held->ended ? "yes" : "no");
    if (held->ended)
        node_end_acknowledge(core, link, node, held->job, held->attempt);
    else
        send_cancel(core, link, held);
}

/* Jobs that waited for this node and are not on it any more. */
static void
others_forsake(struct core *core, const struct node *node)
{
    struct job *job;
    size_t at = 0;

    while ((job = idmap_next(&core->jobs, &at)) != NULL)
        if (job->state == JOB_ADRIFT &&
            strcmp(job_attempt_current(job)->node, node->id) == 0)
            job_step(core, job, JOB_LOST);
}

void
node_held(struct core *core, uint64_t link, struct node *node,
          const struct wire_job_held *held)
{
    if (node->told) {
        links_end(core->app->links, link, "a second job.held after the last");
        return;
    }
    for (size_t i = 0; i < held->attempt_count; i++)
        held_take(core, link, node, &held->attempts[i]);
    if (held->more)
        return;
    node->told = true;
    others_forsake(core, node);
}

/* At once when nothing more is to be written about it, else with the write. */
void
node_end_acknowledge(struct core *core, uint64_t link, const struct node *node,
                     const char *id, uint32_t number)
{
    struct job *job = idmap_get(&core->jobs, id);

    if (job != NULL && job->state == JOB_ENDING && job->attempt_count > 0 &&
        job_attempt_current(job)->number == number &&
        strcmp(job_attempt_current(job)->node, node->id) == 0) {
        job->ack_link = link;
        job->ack_attempt = number;
    } else {
        node_ack(core, link, id, number);
    }
}
