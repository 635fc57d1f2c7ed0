/* job_place.c - a job finds its node, and leaves it. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "common/mem.h"
#include "coordinator/core_private.h"
#include "coordinator/links.h"
#include "coordinator/store_jobs.h"

#include "common/banned.h"

enum {
    WHY_TARGETS_MAX = 16, /* candidates kept in an attempt's row */
};

static void
join_node(struct core *core, struct job *job, struct node *node)
{
    assert(node->job_count < COUNT_OF(node->jobs));
    node->jobs[node->job_count++] = job;
    job->node = node;
    core->inventory.jobs_running++;
    core->inventory.fleet_dirty = true;
}

void
job_leave_node(struct core *core, struct job *job)
{
    struct node *node = job->node;

    if (node == NULL)
        return;
    for (size_t i = 0; i < node->job_count; i++) {
        if (node->jobs[i] == job) {
            node->jobs[i] = node->jobs[--node->job_count];
            break;
        }
    }
    job->node = NULL;
    core->inventory.jobs_running--;
    core->inventory.fleet_dirty = true;
    core->want_round = true;
    links_forget(core->app->links, job->id);
}

void
job_retire(struct core *core, struct job *job)
{
    if (job->state != JOB_ENDED || job->node != NULL)
        return; /* it still takes room on a node that has not let go of it */
    (void)idmap_remove(&core->jobs, job->id);
    job_free(job);
}

static void
demand_of(const struct job *job, struct place_demand *demand)
{
    const struct catalogue_entry *entry = &job->model->entry;

    *demand = (struct place_demand){
        .weight_bytes = entry->weight_bytes,
        .bytes_per_token = entry->bytes_per_token,
        .kv_bytes_per_token = entry->kv_bytes_per_token,
        .flop_per_token = entry->flop_per_token,
        .attention_flop = entry->attention_flop,
        .hidden = entry->hidden,
        .prompt_tokens = job->prompt_count,
        .output_tokens = job->rules.max_tokens,
        .capabilities = job->capabilities,
    };
}

static enum status
choose(struct core *core, const struct job *job, bool forgive,
       struct node ***nodes, struct place_candidate **candidates, size_t *count,
       size_t *chosen, struct error *err)
{
    struct place_demand demand;
    size_t room = core->inventory.nodes.count + 1, at = 0;
    struct place_target *targets = mem_array(room, sizeof(*targets));
    struct node *node;
    bool awaited = false;
    enum status status;

    demand_of(job, &demand);
    *nodes = mem_array(room, sizeof(struct node *));
    *candidates = mem_array(room, sizeof(**candidates));
    *count = 0;
    while ((node = idmap_next(&core->inventory.nodes, &at)) != NULL) {
        struct place_target *target = &targets[*count];

        if (!node->known) {
            awaited = true; /* has not called since the start, but may yet */
            continue;
        }
        node_target(node, job, target);
        if (target->slots > COUNT_OF(node->jobs))
            target->slots = COUNT_OF(node->jobs);
        if (target->slots > core->app->config.slots_max)
            target->slots = (uint32_t)core->app->config.slots_max;
        target->excluded = target->excluded && !forgive;
        (*nodes)[(*count)++] = node;
    }
    status = place_choose(targets, *count, &demand, *candidates, chosen, err);
    free(targets);
    if (status == STATUS_INVALID && awaited) {
        status = error_set(err, STATUS_NO_CAPACITY,
                           "nodes that may hold it have not called yet: try "
                           "again in a few seconds");
        (void)error_tag(err, "no_capacity", NULL);
    }
    return status;
}

/* What placement found, for the attempt's row: the chosen one first. */
static void
why_write(const struct place_candidate *candidates, struct node *const *nodes,
          size_t count, size_t chosen, struct buf *out)
{
    struct json_out json;
    size_t written = 0;

    json_out_init(&json, out);
    json_open_list(&json);
    for (size_t i = 0; i <= count && written < WHY_TARGETS_MAX; i++) {
        size_t at = i == 0 ? chosen : i - 1;
        const struct place_candidate *candidate = &candidates[at];

        if (i > 0 && at == chosen)
            continue;
        json_open_object(&json);
        json_member_text(&json, "target", nodes[at]->id);
        json_member_text(&json, "verdict",
                         place_verdict_name(candidate->verdict));
        if (candidate->verdict == PLACE_CHOSEN ||
            candidate->verdict == PLACE_SLOWER)
            json_member_double(&json, "finish_ms",
                               (double)candidate->finish_ns / 1e6);
        else
            json_member_null(&json, "finish_ms");
        json_member_text(&json, "reason", candidate->reason);
        json_close_object(&json);
        written++;
    }
    json_close_list(&json);
}

void
job_join_node(struct core *core, struct job *job, struct node *node)
{
    struct place_demand demand;
    struct place_target target;
    struct place_candidate candidate;
    struct error ignored = {0};
    size_t chosen;

    demand_of(job, &demand);
    node_target(node, job, &target);
    /* Whatever the answer, the candidate tells what it needs there. */
    (void)!place_choose(&target, 1, &demand, &candidate, &chosen, &ignored);
    (void)node_in_use(node, job->model, &job->beside);
    job->need_bytes = candidate.need_bytes;
    join_node(core, job, node);
}

static void
attempt_begin(struct core *core, struct job *job, struct node *node,
              const struct place_candidate *candidate)
{
    struct job_attempt *attempt;

    assert(job->attempt_count < JOB_ATTEMPTS_MAX);
    attempt = &job->attempts[job->attempt_count];
    *attempt = (struct job_attempt){
        .number =
            job->attempt_count == 0 ? 1 : job_attempt_current(job)->number + 1,
        .account = node->maturing,
        .weight = job->model->entry.bytes_per_token,
        .predicted_ttft_ms = candidate->ttft_ms,
        .predicted_tok_s = candidate->tok_s,
    };
    memcpy(attempt->node, node->id, sizeof(attempt->node));
    job->attempt_count++;
    (void)node_in_use(node, job->model, &job->beside);
    job->need_bytes = candidate->need_bytes;
    join_node(core, job, node);
    log_info("job.placed",
             "job=%s attempt=%" PRIu32 " node=%s predicted_ttft_ms=%.1f "
             "predicted_tok_s=%.1f",
             job->id, attempt->number, node->id, candidate->ttft_ms,
             candidate->tok_s);
}

/* Try to place a job now. On success its attempt is begun (not written) and
 * @why holds the reasons. */
enum status
job_place(struct core *core, struct job *job, struct buf *why,
          struct error *err)
{
    struct node **nodes = NULL;
    struct place_candidate *candidates = NULL;
    size_t count = 0, chosen = 0;
    enum status status =
        choose(core, job, false, &nodes, &candidates, &count, &chosen, err);

    if (status != STATUS_OK && job->failed_node_count > 0 &&
        job->forgive.ns <= clock_monotonic().ns) {
        free(nodes);
        free(candidates);
        status =
            choose(core, job, true, &nodes, &candidates, &count, &chosen, err);
    }
    if (status == STATUS_OK) {
        why_write(candidates, nodes, count, chosen, why);
        attempt_begin(core, job, nodes[chosen], &candidates[chosen]);
    }
    free(nodes);
    free(candidates);
    return status;
}

void
jobs_round(struct core *core)
{
    struct job *job = core->queue_first;

    while (job != NULL) {
        struct job *next = job->next;
        struct buf why;

        buf_init(&why, JOB_WHY_MAX_BYTES);
        /* Also what could never run waits: a target may yet join. */
        if (job_place(core, job, &why, &job->error) == STATUS_OK) {
            struct write *write =
                job_write_new(core, job, JOB_COMMITTED, JOB_UNWRITTEN);

            store_attempt_add(write, core->app->epoch, job,
                              job_attempt_current(job), why.data);
            job_step(core, job, JOB_PLACED);
            writer_submit(core->app->writer, write);
        }
        buf_clear(&why);
        job = next;
    }
}
