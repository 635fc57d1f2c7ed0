/* inventory.h - the fleet, the people and the catalogue as the core sees them.
 *
 * Touched by the core thread alone (and by the start before it runs).  Views
 * for readers are made here and published when something changed. */
#ifndef BERTH_COORDINATOR_INVENTORY_H
#define BERTH_COORDINATOR_INVENTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire.h"
#include "coordinator/idmap.h"
#include "coordinator/snapshot.h"
#include "placement/placement.h"

struct job;

/* A node's row and what its agent last said. */
struct node {
    char id[UUID_TEXT_BYTES];
    char name[NAME_BYTES];
    int64_t owner;
    int64_t maturing; /* ledger account */
    char pools[POOLS_MAX][POOL_BYTES];
    size_t pool_count;
    bool simulated;
    bool draining; /* asked by operator or owner through the API */
    struct instant joined;
    bool seen;
    struct instant last_seen;
    /* while connected */
    uint64_t link; /* 0: offline */
    bool known;    /* hello holds something */
    bool told;     /* on this link it has said what it holds */
    struct wire_hello hello;
    struct job *jobs[64]; /* running here */
    size_t job_count;
};

struct inventory {
    struct snapshots *snapshots; /* kept */
    struct account_view *accounts;
    size_t account_count;
    struct key_view *keys;
    size_t key_count;
    struct model **models; /* each a reference */
    size_t model_count;
    struct idmap nodes; /* struct node, owned */
    uint64_t jobs_queued, jobs_running;
    bool identity_dirty, catalogue_dirty, fleet_dirty;
    bool fleet_stale; /* only last_seen moved: soon is soon enough */
};

void inventory_init(struct inventory *inventory, struct snapshots *snapshots);
void inventory_clear(struct inventory *inventory);

/* All of these copy what they are given and mark the view. */
void inventory_account_add(struct inventory *inventory,
                           const struct account_view *account);
void inventory_key_put(struct inventory *inventory,
                       const struct key_view *key); /* adds or replaces by id */
void inventory_model_add(struct inventory *inventory, struct model *model);
void inventory_model_remove(struct inventory *inventory, const char *id);
struct node *inventory_node_add(struct inventory *inventory,
                                const struct node *node);
struct node *inventory_node(struct inventory *inventory, const char *id);
void inventory_node_remove(struct inventory *inventory, struct node *node);
struct model *inventory_model(struct inventory *inventory, const char *id);

/* Bytes pinned by running jobs; @model's weights counted too when one of its
 * jobs runs (then *pinned). @model may be NULL. */
uint64_t node_in_use(const struct node *node, const struct model *model,
                     bool *pinned);
/* What placement sees of the node for a job. */
void node_target(const struct node *node, const struct job *job,
                 struct place_target *target);

/* Publish the views that changed. */
void inventory_publish(struct inventory *inventory);

#endif
