/* admin.c - a write, then the inventory, then the answer. */
#include "coordinator/admin.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/field.h"
#include "common/log.h"
#include "common/mem.h"
#include "coordinator/core.h"
#include "coordinator/core_private.h"
#include "ledger/ledger.h"

#include "common/banned.h"

enum { ENTRY_MAX_BYTES = 8192, NO_ROWS = -1 };

struct call {
    struct app *app;
    admin_done *done;
    void *arg;
    enum status status;
    struct error error;
    /* On the core thread after the commit. */
    void (*apply)(struct core *core, struct call *call);
    int answer_at; /* statement whose first column is the answer */
    int64_t answer;
    char id[CATALOGUE_ID_BYTES];
    struct account_view *account;
    const struct key_view *key;
    struct node *node;
    struct model *model;
    bool draining;
};

static struct call *
call_new(struct app *app, void (*apply)(struct core *core, struct call *call),
         admin_done *done, void *arg)
{
    struct call *call = mem_alloc(sizeof(*call));

    call->app = app;
    call->apply = apply;
    call->done = done;
    call->arg = arg;
    call->answer_at = NO_ROWS;
    return call;
}

static void
run_call(struct core *core, void *arg)
{
    struct call *call = arg;

    if (call->status == STATUS_OK && call->apply != NULL) {
        call->apply(core, call);
        inventory_publish(core_inventory(core));
    }
    call->done(call->arg, call->status == STATUS_OK ? NULL : &call->error);
    free(call);
}

static void
on_written(void *arg, enum status status, struct db_rows *const *rows,
           size_t count, const struct error *err)
{
    struct call *call = arg;

    (void)count;
    call->status = status;
    if (status != STATUS_OK) {
        call->error = *err;
        call->error.status = status;
    } else if (call->answer_at != NO_ROWS) {
        call->answer = db_i64(rows[call->answer_at], 0, 0);
    }
    core_post(call->app->core, run_call, call);
}

/* --- people --- */

static void
apply_account(struct core *core, struct call *call)
{
    call->account->wallet = call->answer;
    inventory_account_add(core_inventory(core), call->account);
}

void
admin_account_add(struct app *app, struct account_view *account,
                  admin_done *done, void *arg)
{
    struct call *call = call_new(app, apply_account, done, arg);
    struct write *write = write_new(on_written, call);

    account->id = atomic_fetch_add(&app->next_account, 1);
    account->created = clock_wall();
    call->account = account;
    store_account_add(write, account);
    call->answer_at = (int)write_count(write);
    ledger_person_open(write, account->id);
    writer_submit(app->writer, write);
}

static void
apply_key(struct core *core, struct call *call)
{
    inventory_key_put(core_inventory(core), call->key);
}

void
admin_key_add(struct app *app, const struct key_view *key, admin_done *done,
              void *arg)
{
    struct call *call = call_new(app, apply_key, done, arg);
    struct write *write = write_new(on_written, call);

    call->key = key;
    store_key_add(write, key);
    writer_submit(app->writer, write);
}

static void
apply_revoke(struct core *core, struct call *call)
{
    struct inventory *inventory = core_inventory(core);

    for (size_t i = 0; i < inventory->key_count; i++) {
        struct key_view key = inventory->keys[i];

        if (strcmp(key.id, call->id) != 0 || key.revoked)
            continue;
        key.revoked = true;
        key.revoked_at = clock_wall();
        inventory_key_put(inventory, &key);
    }
}

static void
id_set(struct call *call, const char *id)
{
    snprintf(call->id, sizeof(call->id), "%s", id);
}

void
admin_key_revoke(struct app *app, const char *id, admin_done *done, void *arg)
{
    struct call *call = call_new(app, apply_revoke, done, arg);
    struct write *write = write_new(on_written, call);

    id_set(call, id);
    store_key_revoke(write, id);
    writer_submit(app->writer, write);
}

void
admin_grant(struct app *app, const char *id, int64_t wallet,
            struct credits amount, admin_done *done, void *arg)
{
    struct call *call = call_new(app, NULL, done, arg);
    struct write *write = write_new(on_written, call);

    ledger_grant(write, app->epoch, id, wallet, amount);
    writer_submit(app->writer, write);
}

/* --- nodes --- */

void
admin_token_add(struct app *app, const struct join_token *token,
                admin_done *done, void *arg)
{
    struct call *call = call_new(app, NULL, done, arg);
    struct write *write = write_new(on_written, call);

    store_token_add(write, token);
    writer_submit(app->writer, write);
}

static void
apply_join(struct core *core, struct call *call)
{
    call->node->maturing = call->answer;
    (void)inventory_node_add(core_inventory(core), call->node);
}

void
admin_node_join(struct app *app, const struct join_token *token,
                struct node *node, admin_done *done, void *arg)
{
    struct call *call = call_new(app, apply_join, done, arg);
    struct write *write = write_new(on_written, call);

    call->node = node;
    store_node_join(write, token, node);
    call->answer_at = (int)write_count(write);
    ledger_node_open(write, node->owner, node->id);
    writer_submit(app->writer, write);
}

static void
apply_drain(struct core *core, struct call *call)
{
    struct inventory *inventory = core_inventory(core);
    struct node *node = inventory_node(inventory, call->id);

    if (node == NULL)
        return; /* removed meanwhile */
    node->draining = call->draining;
    inventory->fleet_dirty = true;
    node_send_drain(core, node);
    core_want_round(core);
}

void
admin_node_drain(struct app *app, const char *id, bool draining,
                 admin_done *done, void *arg)
{
    struct call *call = call_new(app, apply_drain, done, arg);
    struct write *write = write_new(on_written, call);

    id_set(call, id);
    call->draining = draining;
    store_node_drain(write, id, draining);
    writer_submit(app->writer, write);
}

static void
apply_remove(struct core *core, struct call *call)
{
    struct node *node = inventory_node(core_inventory(core), call->id);

    if (node != NULL)
        node_remove(core, node);
}

void
admin_node_remove(struct app *app, const char *id, admin_done *done, void *arg)
{
    struct call *call = call_new(app, apply_remove, done, arg);
    struct write *write = write_new(on_written, call);

    id_set(call, id);
    store_node_remove(write, id);
    writer_submit(app->writer, write);
}

/* --- catalogue --- */

static void
catalogue_tell(struct core *core)
{
    struct inventory *inventory = core_inventory(core);
    struct node *node;
    size_t at = 0;

    while ((node = idmap_next(&inventory->nodes, &at)) != NULL)
        if (node->link != 0)
            node_send_catalogue(core, node->link);
    core_want_round(core);
}

static void
apply_model(struct core *core, struct call *call)
{
    struct inventory *inventory = core_inventory(core);

    if (inventory_model(inventory, call->model->entry.id) == NULL)
        inventory_model_add(inventory, call->model);
    catalogue_tell(core);
}

void
admin_model_add(struct app *app, struct model *model, struct model_files *files,
                admin_done *done, void *arg)
{
    struct call *call = call_new(app, apply_model, done, arg);
    struct write *write = write_new(on_written, call);
    const struct catalogue_entry *entry = &model->entry;
    struct json_out json;
    struct buf text;

    call->model = model;
    buf_init(&text, ENTRY_MAX_BYTES);
    json_out_init(&json, &text);
    json_open_object(&json);
    field_encode(&json, catalogue_fields, catalogue_field_count, entry);
    json_close_object(&json);
    store_model_add(write, entry->id, entry->digest, text.data);
    for (size_t i = 0; i < MODEL_FILES; i++) {
        const struct buf *file = model_file(files, i);

        if (file->size > 0)
            store_model_file_add(write, entry->id, entry->digest,
                                 model_file_name(i), file->data, file->size);
    }
    writer_submit(app->writer, write);
    buf_clear(&text);
}

static void
apply_model_remove(struct core *core, struct call *call)
{
    inventory_model_remove(core_inventory(core), call->id);
    catalogue_tell(core);
}

void
admin_model_remove(struct app *app, const char *id, admin_done *done, void *arg)
{
    struct call *call = call_new(app, apply_model_remove, done, arg);
    struct write *write = write_new(on_written, call);

    id_set(call, id);
    store_model_remove(write, id);
    writer_submit(app->writer, write);
}
