/* snapshot.h - what readers see: immutable views that the core publishes.
 *
 * HTTP threads take a reference, read, and drop it; nothing in a view ever
 * changes.  A view is replaced as a whole; a key's revocation is published
 * before it is answered.  Thread-safe. */
#ifndef BERTH_COORDINATOR_SNAPSHOT_H
#define BERTH_COORDINATOR_SNAPSHOT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cert.h"
#include "common/units.h"
#include "common/wire.h"
#include "model/catalogue.h"
#include "model/format.h"
#include "model/template.h"
#include "model/tokenizer.h"
#include "placement/placement.h"

enum { SCOPE_SUBMITTER = 1, SCOPE_OWNER = 2, SCOPE_OPERATOR = 4 };
enum {
    NAME_BYTES = 101,
    KEY_PREFIX_BYTES = 25,
    POOL_BYTES = 64,
    POOLS_MAX = 8
};

struct account_view {
    int64_t id;
    char name[NAME_BYTES];
    struct instant created;
    int64_t wallet; /* ledger account */
};

struct key_view {
    char id[UUID_TEXT_BYTES];
    int64_t account;
    uint8_t digest[SHA256_BYTES];
    char prefix[KEY_PREFIX_BYTES];
    char name[NAME_BYTES];
    uint32_t scopes;
    struct instant created;
    bool expiring;
    struct instant expires;
    bool revoked;
    struct instant revoked_at;
};

struct identity_view {
    atomic_size_t references;
    struct account_view *accounts; /* by id */
    size_t account_count;
    struct key_view *keys; /* by digest */
    size_t key_count;
};

/* A catalogue model, loaded: shared by views and jobs. */
struct model {
    atomic_size_t references;
    struct catalogue_entry entry;
    struct instant created;
    struct tokenizer *tokenizer;
    size_t token_bytes_max;      /* of the longest token */
    struct template *template;   /* NULL: no chat template, chat is refused */
    const struct format *format; /* of its answers; NULL: content alone */
    bool knows_tools;            /* its template lists tools */
    bool knows_calls;            /* and writes calls and their results */
    uint32_t end_ids[16];
    size_t end_id_count;
};

struct catalogue_view {
    atomic_size_t references;
    struct model **models; /* by id; each holds a reference */
    size_t model_count;
};

struct residency_view {
    char model[CATALOGUE_ID_BYTES];
    uint64_t kv_bytes;
};

struct node_view {
    char id[UUID_TEXT_BYTES];
    char name[NAME_BYTES];
    int64_t owner;
    char owner_name[NAME_BYTES];
    char state[16];
    bool simulated;
    bool online;
    char agent[32];
    struct wire_facts facts; /* as of the last hello; zero before one */
    bool known;              /* a hello was ever seen since the start */
    char backend[16];
    uint32_t slots;
    uint32_t jobs;
    uint64_t in_use_bytes;
    char pools[POOLS_MAX][POOL_BYTES];
    size_t pool_count;
    char (*models)[CATALOGUE_ID_BYTES]; /* catalogue models on its disk */
    bool *serves; /* for each of them: it could hold it, if idle */
    size_t model_count;
    struct residency_view *residencies;
    size_t residency_count;
    bool seen;
    struct instant last_seen;
    struct instant joined;
    struct wire_reason reasons[WIRE_REASONS_MAX];
    size_t reason_count;
};

struct fleet_view {
    atomic_size_t references;
    struct node_view *nodes; /* by id */
    size_t node_count;
    uint64_t jobs_queued;
    uint64_t jobs_running;
};

struct snapshots;

struct snapshots *snapshots_new(void);
void snapshots_free(struct snapshots *snapshots);

/* Publish: takes the view. */
void snapshots_set_identity(struct snapshots *all, struct identity_view *view);
void snapshots_set_catalogue(struct snapshots *all,
                             struct catalogue_view *view);
void snapshots_set_fleet(struct snapshots *all, struct fleet_view *view);

/* Take a reference; never NULL. */
const struct identity_view *identity_take(struct snapshots *all);
const struct catalogue_view *catalogue_take(struct snapshots *all);
const struct fleet_view *fleet_take(struct snapshots *all);
void identity_drop(const struct identity_view *view);
void catalogue_drop(const struct catalogue_view *view);
void fleet_drop(const struct fleet_view *view);

struct model *model_keep(struct model *model);
void model_drop(struct model *model);

/* Look-ups inside a view; NULL when absent. */
const struct account_view *identity_account(const struct identity_view *view,
                                            int64_t id);
const struct account_view *
identity_account_named(const struct identity_view *view, const char *name);
const struct key_view *identity_key(const struct identity_view *view,
                                    const uint8_t digest[SHA256_BYTES]);
const struct key_view *identity_key_by_id(const struct identity_view *view,
                                          const char *id);
struct model *catalogue_model(const struct catalogue_view *view,
                              const char *id);
const struct node_view *fleet_node(const struct fleet_view *view,
                                   const char *id);
/* Nodes online and lending that hold the model and could take it. */
size_t fleet_serving(const struct fleet_view *view, const char *model);

#endif
