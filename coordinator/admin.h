/* admin.h - changes to people, keys, nodes, tokens and the catalogue.
 *
 * Each is one write; when it is committed the core's inventory changes, the
 * view is published, and only then @done is called (on the core thread, once,
 * @err NULL on success).  Things passed by pointer are kept until then.  Called
 * from any thread. */
#ifndef BERTH_COORDINATOR_ADMIN_H
#define BERTH_COORDINATOR_ADMIN_H

#include "common/error.h"
#include "common/units.h"
#include "coordinator/app.h"
#include "coordinator/models.h"
#include "coordinator/snapshot.h"
#include "coordinator/store_fleet.h"

typedef void admin_done(void *arg, const struct error *err);

/* Fills id and wallet of @account. STATUS_CONFLICT when the name is taken. */
void admin_account_add(struct app *app, struct account_view *account,
                       admin_done *done, void *arg);
void admin_key_add(struct app *app, const struct key_view *key,
                   admin_done *done, void *arg);
void admin_key_revoke(struct app *app, const char *id, admin_done *done,
                      void *arg);
/* @id (a UUID) is the idempotency key. */
void admin_grant(struct app *app, const char *id, int64_t wallet,
                 struct credits amount, admin_done *done, void *arg);
void admin_token_add(struct app *app, const struct join_token *token,
                     admin_done *done, void *arg);
/* Uses up @token; fills @node's maturing account. */
void admin_node_join(struct app *app, const struct join_token *token,
                     struct node *node, admin_done *done, void *arg);
/* STATUS_NOT_FOUND when there is no such node. */
void admin_node_drain(struct app *app, const char *id, bool draining,
                      admin_done *done, void *arg);
void admin_node_remove(struct app *app, const char *id, admin_done *done,
                       void *arg);
void admin_model_add(struct app *app, struct model *model,
                     struct model_files *files, admin_done *done, void *arg);
void admin_model_remove(struct app *app, const char *id, admin_done *done,
                        void *arg);

#endif
