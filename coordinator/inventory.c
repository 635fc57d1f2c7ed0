/* inventory.c - rows in memory, and the views made of them. */
#include "coordinator/inventory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/mem.h"
#include "coordinator/job.h"

#include "common/banned.h"

void
inventory_init(struct inventory *inventory, struct snapshots *snapshots)
{
    *inventory = (struct inventory){.snapshots = snapshots};
}

void
inventory_clear(struct inventory *inventory)
{
    struct node *node;
    size_t at = 0;

    while ((node = idmap_next(&inventory->nodes, &at)) != NULL)
        free(node);
    idmap_clear(&inventory->nodes);
    for (size_t i = 0; i < inventory->model_count; i++)
        model_drop(inventory->models[i]);
    free(inventory->models);
    free(inventory->accounts);
    free(inventory->keys);
}

void
inventory_account_add(struct inventory *inventory,
                      const struct account_view *account)
{
    inventory->accounts =
        mem_grow(inventory->accounts, inventory->account_count + 1,
                 sizeof(*inventory->accounts));
    inventory->accounts[inventory->account_count++] = *account;
    inventory->identity_dirty = true;
}

void
inventory_key_put(struct inventory *inventory, const struct key_view *key)
{
    inventory->identity_dirty = true;
    for (size_t i = 0; i < inventory->key_count; i++) {
        if (strcmp(inventory->keys[i].id, key->id) == 0) {
            inventory->keys[i] = *key;
            return;
        }
    }
    inventory->keys = mem_grow(inventory->keys, inventory->key_count + 1,
                               sizeof(*inventory->keys));
    inventory->keys[inventory->key_count++] = *key;
}

void
inventory_model_add(struct inventory *inventory, struct model *model)
{
    inventory->models = mem_grow(inventory->models, inventory->model_count + 1,
                                 sizeof(struct model *));
    inventory->models[inventory->model_count++] = model_keep(model);
    inventory->catalogue_dirty = true;
    inventory->fleet_dirty = true;
}

void
inventory_model_remove(struct inventory *inventory, const char *id)
{
    for (size_t i = 0; i < inventory->model_count; i++) {
        if (strcmp(inventory->models[i]->entry.id, id) != 0)
            continue;
        model_drop(inventory->models[i]);
        inventory->models[i] = inventory->models[--inventory->model_count];
        inventory->catalogue_dirty = true;
        inventory->fleet_dirty = true;
        return;
    }
}

struct node *
inventory_node_add(struct inventory *inventory, const struct node *node)
{
    struct node *copy = mem_copy(node, sizeof(*node));

    assert(idmap_get(&inventory->nodes, node->id) == NULL);
    idmap_put(&inventory->nodes, copy->id, copy);
    inventory->fleet_dirty = true;
    return copy;
}

struct node *
inventory_node(struct inventory *inventory, const char *id)
{
    return idmap_get(&inventory->nodes, id);
}

void
inventory_node_remove(struct inventory *inventory, struct node *node)
{
    assert(node->job_count == 0);
    (void)idmap_remove(&inventory->nodes, node->id);
    free(node);
    inventory->fleet_dirty = true;
}

struct model *
inventory_model(struct inventory *inventory, const char *id)
{
    for (size_t i = 0; i < inventory->model_count; i++)
        if (strcmp(inventory->models[i]->entry.id, id) == 0)
            return inventory->models[i];
    return NULL;
}

static const char *
node_state(const struct node *node)
{
    if (node->link == 0)
        return "offline";
    if (strcmp(node->hello.state, "paused") == 0)
        return "paused";
    if (node->draining || strcmp(node->hello.state, "draining") == 0)
        return "draining";
    return node->job_count > 0 ? "busy" : "lending";
}

static uint64_t
sum_saturated(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* A job's need was reckoned by placement: with the weights for the first of
 * its model, without for those that came beside it. When the first is gone the
 * weights are still there. */
uint64_t
node_in_use(const struct node *node, const struct model *model, bool *pinned)
{
    uint64_t bytes = 0;

    *pinned = false;
    for (size_t i = 0; i < node->job_count; i++) {
        const struct job *job = node->jobs[i];
        bool counted = false;

        for (size_t j = 0; j < node->job_count; j++)
            if (node->jobs[j]->model == job->model &&
                (!node->jobs[j]->beside || j < i))
                counted = true;
        if (!counted)
            bytes = sum_saturated(bytes, job->model->entry.weight_bytes);
        bytes = sum_saturated(bytes, job->need_bytes);
        if (job->model == model)
            *pinned = true;
    }
    return bytes;
}

/* What is left of the running jobs' output, at the node's own bandwidth. */
static int64_t
queued_work_ns(const struct node *node)
{
    double bandwidth = node->hello.facts.bandwidth_gb_s;
    double ns = 0;

    if (bandwidth <= 0)
        bandwidth = 50;
    for (size_t i = 0; i < node->job_count; i++) {
        struct record_state state;
        const struct job *job = node->jobs[i];
        uint64_t left;

        record_state(job->record, &state);
        left = job->rules.max_tokens > state.ids
                   ? job->rules.max_tokens - state.ids
                   : 0;
        ns += (double)left * (double)job->model->entry.bytes_per_token /
              bandwidth;
    }
    return ns < 9e18 ? (int64_t)ns : INT64_MAX;
}

static const struct wire_model *
model_on_disk(const struct wire_hello *hello, const char *digest)
{
    for (size_t i = 0; i < hello->model_count; i++)
        if (strcmp(hello->models[i].digest, digest) == 0)
            return &hello->models[i];
    return NULL;
}

/* A private pool serves its owner: its name alone opens nothing. */
static bool
in_pool(const struct node *node, const char *pool, int64_t account)
{
    if (strcmp(pool, "public") != 0 && node->owner != account)
        return false;
    for (size_t i = 0; i < node->pool_count; i++)
        if (strcmp(node->pools[i], pool) == 0)
            return true;
    return false;
}

static uint32_t
capabilities_of(const struct wire_engine *engine)
{
    uint32_t bits = 0;

    for (size_t i = 0; i < engine->capability_count; i++)
        bits |= place_capability_bit(engine->capabilities[i]);
    return bits;
}

static bool
failed_there(const struct job *job, const char *node)
{
    for (size_t i = 0; i < job->failed_node_count; i++)
        if (strcmp(job->failed_nodes[i], node) == 0)
            return true;
    return false;
}

/* A job under which an engine died a moment ago runs alone: the next crash is
 * its own, and nobody else's answer goes with it. */
static bool
is_kept_apart(const struct node *node, const struct job *job)
{
    int64_t now_ns = clock_monotonic().ns;

    for (size_t i = 0; i < node->job_count; i++)
        if (job->suspect_until.ns > now_ns ||
            node->jobs[i]->suspect_until.ns > now_ns)
            return true;
    return false;
}

void
node_target(const struct node *node, const struct job *job,
            struct place_target *target)
{
    const struct wire_hello *hello = &node->hello;
    const struct wire_model *held;
    const char *state = node_state(node);

    *target = (struct place_target){
        .online = node->link != 0 && node->told,
        .lending = strcmp(state, "lending") == 0 || strcmp(state, "busy") == 0,
        .in_pool = in_pool(node, job->pool, job->account),
        .excluded = failed_there(job, node->id),
        .capabilities = capabilities_of(&hello->engine),
        .limit_bytes = hello->facts.limit_bytes,
        .slots = is_kept_apart(node, job) ? (uint32_t)node->job_count
                                          : hello->engine.slots,
        .jobs = (uint32_t)node->job_count,
        .queued_ns = queued_work_ns(node),
        .bandwidth_gb_s = hello->facts.bandwidth_gb_s,
        .prefill_tflop_s = hello->facts.prefill_tflop_s,
        .read_gb_s = hello->facts.read_gb_s,
    };
    memcpy(target->id, node->id, sizeof(node->id));
    target->in_use_bytes = node_in_use(node, job->model, &target->model_pinned);
    held = model_on_disk(hello, job->model->entry.digest);
    target->holds_model = held != NULL;
    target->warm = held != NULL && held->loaded;
}

/* Could the node, when idle, hold the model and the shortest of jobs? */
static bool
could_serve(const struct node *node, const struct catalogue_entry *entry)
{
    struct place_target target = {
        .id = "node",
        .online = true,
        .lending = true,
        .in_pool = true,
        .holds_model = true,
        .capabilities = capabilities_of(&node->hello.engine),
        .limit_bytes = node->hello.facts.limit_bytes,
        .slots = node->hello.engine.slots,
    };
    struct place_demand demand = {
        .weight_bytes = entry->weight_bytes,
        .bytes_per_token = entry->bytes_per_token,
        .kv_bytes_per_token = entry->kv_bytes_per_token,
        .flop_per_token = entry->flop_per_token,
        .attention_flop = entry->attention_flop,
        .hidden = entry->hidden,
        .prompt_tokens = 1,
        .output_tokens = 1,
        .capabilities = PLACE_CAN_IDS,
    };
    struct place_candidate candidate;
    size_t chosen;

    return place_choose(&target, 1, &demand, &candidate, &chosen, NULL) ==
           STATUS_OK;
}

/* Two entries may name the same files: both are on the node then. */
static void
view_models(const struct inventory *inventory, const struct node *node,
            struct node_view *view)
{
    size_t room = inventory->model_count + 1;

    view->models = mem_array(room, CATALOGUE_ID_BYTES);
    view->serves = mem_array(room, sizeof(*view->serves));
    view->residencies = mem_array(room, sizeof(*view->residencies));
    for (size_t i = 0; i < inventory->model_count; i++) {
        const struct catalogue_entry *entry = &inventory->models[i]->entry;
        const struct wire_model *held =
            model_on_disk(&node->hello, entry->digest);

        if (held == NULL)
            continue;
        view->serves[view->model_count] = could_serve(node, entry);
        memcpy(view->models[view->model_count++], entry->id,
               CATALOGUE_ID_BYTES);
        if (held->loaded) {
            struct residency_view *residency =
                &view->residencies[view->residency_count++];

            memcpy(residency->model, entry->id, CATALOGUE_ID_BYTES);
            residency->kv_bytes = held->kv_bytes;
        }
    }
}

static void
view_node(const struct inventory *inventory, const struct node *node,
          struct node_view *view)
{
    const struct wire_hello *hello = &node->hello;
    bool pinned;

    *view = (struct node_view){
        .owner = node->owner,
        .simulated = node->simulated,
        .online = node->link != 0,
        .facts = hello->facts,
        .known = node->known,
        .slots = hello->engine.slots,
        .jobs = (uint32_t)node->job_count,
        .in_use_bytes = node_in_use(node, NULL, &pinned),
        .pool_count = node->pool_count,
        .seen = node->seen,
        .last_seen = node->last_seen,
        .joined = node->joined,
        .reason_count = hello->reason_count,
    };
    memcpy(view->id, node->id, sizeof(view->id));
    memcpy(view->name, node->name, sizeof(view->name));
    memcpy(view->agent, hello->agent, sizeof(view->agent));
    memcpy(view->backend, hello->engine.backend, sizeof(view->backend));
    memcpy(view->pools, node->pools, sizeof(view->pools));
    memcpy(view->reasons, hello->reasons, sizeof(view->reasons));
    memcpy(view->state, node_state(node), strlen(node_state(node)) + 1);
    for (size_t i = 0; i < inventory->account_count; i++)
        if (inventory->accounts[i].id == node->owner)
            memcpy(view->owner_name, inventory->accounts[i].name, NAME_BYTES);
    if (node->link == 0)
        view->reason_count = 0;
    view_models(inventory, node, view);
}

static int
view_order(const void *a, const void *b)
{
    const struct node_view *left = a, *right = b;

    return strcmp(left->id, right->id);
}

static void
publish_fleet(struct inventory *inventory)
{
    struct fleet_view *view = mem_alloc(sizeof(*view));
    struct node *node;
    size_t at = 0;

    view->nodes = mem_array(inventory->nodes.count + 1, sizeof(*view->nodes));
    while ((node = idmap_next(&inventory->nodes, &at)) != NULL)
        view_node(inventory, node, &view->nodes[view->node_count++]);
    qsort(view->nodes, view->node_count, sizeof(*view->nodes), view_order);
    view->jobs_queued = inventory->jobs_queued;
    view->jobs_running = inventory->jobs_running;
    snapshots_set_fleet(inventory->snapshots, view);
    inventory->fleet_dirty = false;
    inventory->fleet_stale = false;
}

static void
publish_identity(struct inventory *inventory)
{
    struct identity_view *view = mem_alloc(sizeof(*view));

    view->account_count = inventory->account_count;
    view->accounts = mem_copy(inventory->accounts, inventory->account_count *
                                                       sizeof(*view->accounts));
    view->key_count = inventory->key_count;
    view->keys =
        mem_copy(inventory->keys, inventory->key_count * sizeof(*view->keys));
    snapshots_set_identity(inventory->snapshots, view);
    inventory->identity_dirty = false;
}

static void
publish_catalogue(struct inventory *inventory)
{
    struct catalogue_view *view = mem_alloc(sizeof(*view));

    view->models =
        mem_array(inventory->model_count + 1, sizeof(struct model *));
    for (size_t i = 0; i < inventory->model_count; i++)
        view->models[view->model_count++] = model_keep(inventory->models[i]);
    snapshots_set_catalogue(inventory->snapshots, view);
    inventory->catalogue_dirty = false;
}

void
inventory_publish(struct inventory *inventory)
{
    if (inventory->identity_dirty)
        publish_identity(inventory);
    if (inventory->catalogue_dirty)
        publish_catalogue(inventory);
    if (inventory->fleet_dirty)
        publish_fleet(inventory);
}
