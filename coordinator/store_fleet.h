/* store_fleet.h - statements about people, keys, nodes, join tokens and models,
 * and their loading at the start.
 *
 * Functions with a struct write add to it; store_node_seen submits by itself.
 * Every change is idempotent. */
#ifndef BERTH_COORDINATOR_STORE_FLEET_H
#define BERTH_COORDINATOR_STORE_FLEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/error.h"
#include "common/units.h"
#include "coordinator/inventory.h"
#include "coordinator/snapshot.h"
#include "ledger/db.h"
#include "ledger/writer.h"

struct join_token {
    char id[UUID_TEXT_BYTES];
    uint8_t secret[SHA256_BYTES]; /* digest of the secret part */
    int64_t owner;
    char name[NAME_BYTES]; /* "" : the node gets a random one */
    char pools[POOLS_MAX][POOL_BYTES];
    size_t pool_count;
    struct instant expires;
};

void store_account_add(struct write *write, const struct account_view *account);
void store_key_add(struct write *write, const struct key_view *key);
void store_key_revoke(struct write *write, const char *key);
void store_token_add(struct write *write, const struct join_token *token);
/* Use up a token for @node and make the node's row; the write fails with
 * STATUS_DENIED when the token is unknown, used or over by now. */
void store_node_join(struct write *write, const struct join_token *token,
                     const struct node *node);
void store_node_drain(struct write *write, const char *node, bool draining);
void store_node_remove(struct write *write, const char *node);
void store_model_add(struct write *write, const char *id, const char *digest,
                     const char *entry);
void store_model_file_add(struct write *write, const char *id,
                          const char *digest, const char *name,
                          const void *body, size_t size);
void store_model_remove(struct write *write, const char *id);
/* When a node was last heard; nobody waits for it. */
void store_node_seen(struct writer *writer, const char *node,
                     struct instant seen);

/* A token by id; STATUS_NOT_FOUND when unknown, used or over. */
MUST_CHECK enum status store_token_read(struct db *db, const char *id,
                                        struct join_token *token,
                                        struct error *err);
/* Everything into @inventory, before the core runs. */
MUST_CHECK enum status store_load(struct db *db, struct inventory *inventory,
                                  struct error *err);

#endif
