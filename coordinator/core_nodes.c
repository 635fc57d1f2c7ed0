/* core_nodes.c - what agents say: hello, state, models, ends of attempts. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/fault.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/options.h"
#include "coordinator/core_private.h"
#include "coordinator/links.h"
#include "coordinator/store_fleet.h"

#include "common/banned.h"

enum { CERTIFICATE_DAYS = 90 };

void
node_send(struct core *core, uint64_t link, enum wire_type type,
          const void *body)
{
    struct buf frame;
    struct error err = {0};

    buf_init(&frame, WIRE_FRAME_MAX_BYTES + WIRE_HEAD_BYTES);
    if (wire_encode(type, body, &frame, &err) == STATUS_OK)
        links_send(core->app->links, link, &frame);
    else
        log_error("wire.encode", "type=%s detail=\"%s\"", wire_type_name(type),
                  err.text);
    buf_clear(&frame);
}

void
node_ack(struct core *core, uint64_t link, const char *job, uint32_t attempt)
{
    struct wire_job_ack message = {.attempt = attempt};

    FAULT_STEP("core.ack");
    memcpy(message.job, job, strlen(job) + 1);
    node_send(core, link, WIRE_JOB_ACK, &message);
    FAULT_STEP("core.acked");
}

static void
refuse(struct core *core, uint64_t link, const char *code, const char *text)
{
    struct wire_refuse refusal = {.code = ""};

    snprintf(refusal.code, sizeof(refusal.code), "%s", code);
    snprintf(refusal.text, sizeof(refusal.text), "%s", text);
    node_send(core, link, WIRE_REFUSE, &refusal);
    links_end(core->app->links, link, text);
    log_warn("node.refused", "link=%" PRIu64 " code=%s", link, code);
}

void
node_send_catalogue(struct core *core, uint64_t link)
{
    const struct inventory *inventory = &core->inventory;
    struct wire_catalogue *part = mem_alloc(sizeof(*part));
    size_t at = 0;

    do {
        part->entry_count = 0;
        while (at < inventory->model_count &&
               part->entry_count < WIRE_MODELS_MAX) {
            const struct catalogue_entry *entry =
                &inventory->models[at++]->entry;
            struct wire_catalogue_entry *to =
                &part->entries[part->entry_count++];

            memcpy(to->id, entry->id, sizeof(to->id));
            memcpy(to->digest, entry->digest, sizeof(to->digest));
        }
        part->more = at < inventory->model_count;
        node_send(core, link, WIRE_CATALOGUE, part);
    } while (at < inventory->model_count);
    free(part);
}

void
node_send_drain(struct core *core, const struct node *node)
{
    struct wire_drain drain = {
        .epoch = core->app->epoch,
        .on = node->draining,
    };

    if (node->link != 0)
        node_send(core, node->link, WIRE_DRAIN, &drain);
}

/* Every job that ran there goes on elsewhere. */
static void
jobs_lose_all(struct core *core, struct node *node, const char *reason)
{
    while (node->job_count > 0) {
        struct job *job = node->jobs[node->job_count - 1];

        job_leave_node(core, job);
        if (job->state == JOB_RUNNING)
            job_lose(core, job, reason);
        job_retire(core, job);
    }
}

static void
go_offline(struct core *core, struct node *node, const char *reason)
{
    char quoted[160];

    node->link = 0;
    log_info("node.offline", "node=%s reason=%s", node->id,
             log_quote(reason, quoted, sizeof(quoted)));
    jobs_lose_all(core, node, "node_lost");
    store_node_seen(core->app->writer, node->id, node->last_seen);
    core->inventory.fleet_dirty = true;
}

static void
on_hello(struct core *core, uint64_t link, struct node *node,
         const struct wire_hello *hello)
{
    struct wire_welcome welcome = {
        .version = WIRE_VERSION,
        .epoch = core->app->epoch,
        .beat_s = (uint32_t)core->app->config.beat_s,
        .dev = core->app->config.dev,
    };
    char text[WIRE_TEXT_BYTES];

    if (hello->version != WIRE_VERSION) {
        snprintf(text, sizeof(text),
                 "this coordinator speaks version %d of the link, the agent "
                 "%" PRIu32 ": install berth %s on both sides",
                 WIRE_VERSION, hello->version, BERTH_VERSION);
        refuse(core, link, "version", text);
        return;
    }
    if (hello->simulated && !core->app->config.dev) {
        refuse(core, link, "simulated",
               "a node with --profile is accepted only by a coordinator "
               "started with --dev: join without --profile");
        return;
    }
    if (node->link == link) {
        links_end(core->app->links, link, "a second hello");
        return;
    }
    if (node->link != 0) {
        links_end(core->app->links, node->link, "a newer link of this node");
        go_offline(core, node, "a newer link");
    }
    node->link = link;
    node->known = true;
    node->told = false;
    node->hello = *hello;
    node->simulated = hello->simulated;
    memcpy(welcome.name, node->name, sizeof(node->name));
    node_send(core, link, WIRE_WELCOME, &welcome);
    node_send_catalogue(core, link);
    if (node->draining)
        node_send_drain(core, node);
    log_info("node.online", "node=%s link=%" PRIu64 " models=%zu", node->id,
             link, hello->model_count);
    store_node_seen(core->app->writer, node->id, node->last_seen);
}

static void
on_renew(struct core *core, uint64_t link, const struct node *node,
         const struct wire_renew *renew)
{
    struct wire_renewed *renewed = mem_alloc(sizeof(*renewed));
    struct buf pem;
    struct error err = {0};

    buf_init(&pem, sizeof(renewed->certificate) - 1);
    if (cert_node_sign(core->app->ca_certificate, core->app->ca_key,
                       renew->request, node->id, CERTIFICATE_DAYS, &pem,
                       &err) == STATUS_OK) {
        memcpy(renewed->certificate, pem.data, pem.size + 1);
        node_send(core, link, WIRE_RENEWED, renewed);
        log_info("node.renewed", "node=%s", node->id);
    } else {
        log_warn("node.renew_refused", "node=%s detail=\"%s\"", node->id,
                 err.text);
    }
    buf_clear(&pem);
    free(renewed);
}

/* The job whose current attempt runs on @node under this number, or NULL. */
static struct job *
job_of(struct core *core, const struct node *node, const char *id,
       uint32_t attempt)
{
    struct job *job = idmap_get(&core->jobs, id);

    if (job == NULL || job->node != node || job->attempt_count == 0 ||
        job->attempts[job->attempt_count - 1].number != attempt)
        return NULL;
    return job;
}

/* The node is through with an attempt.  It may forget the end once that is
 * written. */
static void
attempt_over(struct core *core, uint64_t link, const struct node *node,
             struct job *job, uint32_t attempt, const char *reason)
{
    job_leave_node(core, job);
    if (job->state == JOB_RUNNING) {
        job->ack_link = link;
        job->ack_attempt = attempt;
        job_lose(core, job, reason);
    } else {
        node_end_acknowledge(core, link, node, job->id, attempt);
    }
    job_retire(core, job);
}

static void
on_done(struct core *core, uint64_t link, struct node *node,
        const struct wire_job_done *done)
{
    struct job *job = job_of(core, node, done->job, done->attempt);

    if (job == NULL)
        node_end_acknowledge(core, link, node, done->job, done->attempt);
    else
        attempt_over(core, link, node, job, done->attempt, "ended_early");
}

/* An agent's code goes into rows, records and logs: nothing but a word, and
 * none of those that say what an agent cannot. */
static const char *
code_plain(const char *code)
{
    static const char *const ours[] = {"node_lost", "node_removed",
                                       "coordinator_lost", "done"};
    size_t size = strlen(code);

    for (size_t i = 0; i < COUNT_OF(ours); i++)
        if (strcmp(code, ours[i]) == 0)
            return "failed";
    return size > 0 && size < 24 &&
                   strspn(code, "abcdefghijklmnopqrstuvwxyz0123456789_") == size
               ? code
               : "failed";
}

static void
on_fail(struct core *core, uint64_t link, struct node *node,
        const struct wire_job_fail *fail)
{
    struct job *job = job_of(core, node, fail->job, fail->attempt);
    const char *code = code_plain(fail->code);
    char quoted[WIRE_TEXT_BYTES + 16];

    if (job == NULL) {
        node_end_acknowledge(core, link, node, fail->job, fail->attempt);
        return;
    }
    log_info("job.attempt_failed",
             "job=%s attempt=%" PRIu32 " node=%s code=%s ids=%" PRIu64
             " passes=%" PRIu64 " passes_after_cancel=%" PRIu64 " detail=%s",
             job->id, fail->attempt, node->id, code, fail->ids, fail->passes,
             fail->passes_after_cancel,
             log_quote(fail->text, quoted, sizeof(quoted)));
    attempt_over(core, link, node, job, fail->attempt, code);
}

static void
on_state(struct node *node, const struct wire_state *state)
{
    memcpy(node->hello.state, state->state, sizeof(node->hello.state));
    memcpy(node->hello.reasons, state->reasons, sizeof(node->hello.reasons));
    node->hello.reason_count = state->reason_count;
}

static void
on_models(struct node *node, const struct wire_models *models)
{
    memcpy(node->hello.models, models->models, sizeof(node->hello.models));
    node->hello.model_count = models->model_count;
}

static void
dispatch_message(struct core *core, uint64_t link, struct node *node,
                 const struct wire_message *message)
{
    switch (message->type) {
    case WIRE_HELLO:
        on_hello(core, link, node, &message->hello);
        break;
    case WIRE_STATE:
        on_state(node, &message->state);
        break;
    case WIRE_MODELS:
        on_models(node, &message->models);
        break;
    case WIRE_RENEW:
        on_renew(core, link, node, &message->renew);
        break;
    case WIRE_JOB_DONE:
        on_done(core, link, node, &message->job_done);
        break;
    case WIRE_JOB_FAIL:
        on_fail(core, link, node, &message->job_fail);
        break;
    case WIRE_BEAT:
        node_send(core, link, WIRE_BEAT, &(struct wire_beat){0});
        core->inventory.fleet_stale = true;
        return;
    case WIRE_JOB_HELD:
        node_held(core, link, node, &message->job_held);
        break;
    case WIRE_JOB_STARTED:
        return;           /* last_seen is all it changes here */
    case WIRE_JOB_TOKENS: /* went to the record */
    case WIRE_WELCOME:
    case WIRE_REFUSE:
    case WIRE_CATALOGUE:
    case WIRE_DRAIN:
    case WIRE_RENEWED:
    case WIRE_JOB_ACK:
    case WIRE_JOB_RESUME:
    case WIRE_JOB_INPUT:
    case WIRE_JOB_RUN:
    case WIRE_JOB_CANCEL:
    case WIRE_ENGINE_READY:
    case WIRE_ENGINE_BROKEN:
    case WIRE_ENGINE_BEAT:
    case WIRE_TYPE_COUNT:
        links_end(core->app->links, link, "a message agents do not send");
        return;
    }
    core->inventory.fleet_dirty = true;
    core->want_round = true;
}

void
node_message(struct core *core, uint64_t link, const char *id,
             const struct wire_message *message)
{
    struct node *node = inventory_node(&core->inventory, id);

    if (node == NULL) {
        refuse(core, link, "revoked",
               "this node was removed from the network: ask for a new join "
               "token and join again");
        return;
    }
    if (message->type != WIRE_HELLO && node->link != link)
        return; /* of a link that was replaced, or before its hello */
    node->seen = true;
    node->last_seen = clock_wall();
    dispatch_message(core, link, node, message);
}

void
node_link_down(struct core *core, uint64_t link, const char *id,
               const char *reason)
{
    struct node *node = inventory_node(&core->inventory, id);

    if (node != NULL && node->link == link)
        go_offline(core, node, reason);
}

void
node_remove(struct core *core, struct node *node)
{
    if (node->link != 0) {
        uint64_t link = node->link;

        node->link = 0;
        jobs_lose_all(core, node, "node_removed");
        refuse(core, link, "revoked",
               "this node was removed from the network by its operator");
    }
    inventory_node_remove(&core->inventory, node);
}
