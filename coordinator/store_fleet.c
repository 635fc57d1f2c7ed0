/* store_fleet.c - people, keys, nodes, tokens and models in SQL. */
#include "coordinator/store_fleet.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/field.h"
#include "common/log.h"
#include "coordinator/models.h"
#include "ledger/ledger.h"

#include "common/banned.h"

/* Microseconds since 1970, so that instants need no parsing. */
#define MICROS(column) "(extract(epoch FROM " column ") * 1000000)::bigint"

enum { POOLS_TEXT_BYTES = POOLS_MAX * (POOL_BYTES + 4) };

/* {"a","b"}; pool names hold no quotes. */
static const char *
pools_text(char pools[][POOL_BYTES], size_t count, char *text)
{
    size_t at = 1;

    text[0] = '{';
    for (size_t i = 0; i < count; i++)
        at += (size_t)snprintf(text + at, POOLS_TEXT_BYTES - at, "%s\"%s\"",
                               i > 0 ? "," : "", pools[i]);
    snprintf(text + at, POOLS_TEXT_BYTES - at, "}");
    return text;
}

static size_t
pools_parse(const char *text, char pools[][POOL_BYTES])
{
    size_t count = 0;

    while (*text != '\0' && count < POOLS_MAX) {
        size_t size = strcspn(text, ",");

        if (size > 0 && size < POOL_BYTES) {
            memcpy(pools[count], text, size);
            pools[count++][size] = '\0';
        }
        text += size + (text[size] == ',');
    }
    return count;
}

static const struct statement account_add = {
    .name = "account_add",
    .sql = "INSERT INTO berth.account (id, name, created) VALUES ($1, $2, $3) "
           "ON CONFLICT (id) DO NOTHING",
    .shape = DB_NONE,
    .param_count = 3,
};

void
store_account_add(struct write *write, const struct account_view *account)
{
    char id[DB_NUMBER_BYTES], created[DB_NUMBER_BYTES];
    struct db_param params[] = {
        db_param_i64(id, account->id),
        db_param_text(account->name),
        db_param_instant(created, account->created),
    };

    write_add(write, &account_add, params);
}

static const struct statement key_add = {
    .name = "key_add",
    .sql = "INSERT INTO berth.api_key (id, account, digest, prefix, name, "
           "scopes, created, expires) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) "
           "ON CONFLICT (id) DO NOTHING",
    .shape = DB_NONE,
    .param_count = 8,
};

void
store_key_add(struct write *write, const struct key_view *key)
{
    char account[DB_NUMBER_BYTES], scopes[DB_NUMBER_BYTES];
    char created[DB_NUMBER_BYTES], expires[DB_NUMBER_BYTES];
    struct db_param params[] = {
        db_param_text(key->id),
        db_param_i64(account, key->account),
        {.bytes = key->digest, .size = SHA256_BYTES},
        db_param_text(key->prefix),
        db_param_text(key->name),
        db_param_i64(scopes, key->scopes),
        db_param_instant(created, key->created),
        key->expiring ? db_param_instant(expires, key->expires)
                      : db_param_text(NULL),
    };

    write_add(write, &key_add, params);
}

static const struct statement key_revoke = {
    .name = "key_revoke",
    .sql = "UPDATE berth.api_key SET revoked = coalesce(revoked, now()) "
           "WHERE id = $1",
    .shape = DB_NONE,
    .param_count = 1,
};

void
store_key_revoke(struct write *write, const char *key)
{
    struct db_param params[] = {db_param_text(key)};

    write_add(write, &key_revoke, params);
}

static const struct statement token_add = {
    .name = "token_add",
    .sql = "INSERT INTO berth.join_token (id, secret, owner, name, pools, "
           "expires) VALUES ($1, $2, $3, $4, $5, $6) "
           "ON CONFLICT (id) DO NOTHING",
    .shape = DB_NONE,
    .param_count = 6,
};

void
store_token_add(struct write *write, const struct join_token *token)
{
    char owner[DB_NUMBER_BYTES], expires[DB_NUMBER_BYTES],
        pools[POOLS_TEXT_BYTES];
    struct join_token copy = *token;
    struct db_param params[] = {
        db_param_text(token->id),
        {.bytes = token->secret, .size = SHA256_BYTES},
        db_param_i64(owner, token->owner),
        db_param_text(token->name[0] != '\0' ? token->name : NULL),
        db_param_text(pools_text(copy.pools, copy.pool_count, pools)),
        db_param_instant(expires, token->expires),
    };

    write_add(write, &token_add, params);
}

static enum status
check_joined(const struct db_rows *rows, struct error *err)
{
    if (db_row_count(rows) == 1)
        return STATUS_OK;
    return error_set(err, STATUS_DENIED,
                     "this join token was used or is over: ask the network's "
                     "operator or your account for a new one");
}

/* A second run of the same batch finds the token used by this very node. */
static const struct statement token_use = {
    .name = "token_use",
    .sql = "UPDATE berth.join_token SET used = coalesce(used, now()), "
           "node = $2 WHERE id = $1 AND (node = $2 OR (used IS NULL AND "
           "expires > now())) RETURNING id",
    .shape = DB_MAYBE,
    .param_count = 2,
    .check = check_joined,
};

static const struct statement node_add = {
    .name = "node_add",
    .sql = "INSERT INTO berth.node (id, owner, name, pools, simulated, joined) "
           "VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (id) DO NOTHING",
    .shape = DB_NONE,
    .param_count = 6,
};

void
store_node_join(struct write *write, const struct join_token *token,
                const struct node *node)
{
    char owner[DB_NUMBER_BYTES], joined[DB_NUMBER_BYTES],
        pools[POOLS_TEXT_BYTES];
    struct node copy = *node;
    struct db_param row[] = {
        db_param_text(node->id),
        db_param_i64(owner, node->owner),
        db_param_text(node->name),
        db_param_text(pools_text(copy.pools, copy.pool_count, pools)),
        db_param_text(node->simulated ? "t" : "f"),
        db_param_instant(joined, node->joined),
    };
    struct db_param use[] = {db_param_text(token->id), db_param_text(node->id)};

    write_add(write, &node_add, row);
    write_add(write, &token_use, use);
}

static const struct statement node_drain = {
    .name = "node_drain",
    .sql = "UPDATE berth.node SET draining = $2 WHERE id = $1",
    .shape = DB_NONE,
    .param_count = 2,
};

void
store_node_drain(struct write *write, const char *node, bool draining)
{
    struct db_param params[] = {db_param_text(node),
                                db_param_text(draining ? "t" : "f")};

    write_add(write, &node_drain, params);
}

static const struct statement node_remove_row = {
    .name = "node_remove",
    .sql = "UPDATE berth.node SET removed = coalesce(removed, now()), "
           "name = left(name, 12) || ' (removed ' || id || ')' "
           "WHERE id = $1 AND removed IS NULL",
    .shape = DB_NONE,
    .param_count = 1,
};

void
store_node_remove(struct write *write, const char *node)
{
    struct db_param params[] = {db_param_text(node)};

    write_add(write, &node_remove_row, params);
}

static const struct statement model_add = {
    .name = "model_add",
    .sql = "INSERT INTO berth.model (id, digest, entry) VALUES ($1, $2, $3) "
           "ON CONFLICT (id, digest) DO UPDATE SET removed = NULL, "
           "entry = excluded.entry",
    .shape = DB_NONE,
    .param_count = 3,
};

void
store_model_add(struct write *write, const char *id, const char *digest,
                const char *entry)
{
    struct db_param params[] = {db_param_text(id), db_param_text(digest),
                                db_param_text(entry)};

    write_add(write, &model_add, params);
}

static const struct statement model_file_add = {
    .name = "model_file_add",
    .sql = "INSERT INTO berth.model_file (model, digest, name, body) "
           "VALUES ($1, $2, $3, $4) ON CONFLICT (model, digest, name) "
           "DO UPDATE SET body = excluded.body",
    .shape = DB_NONE,
    .param_count = 4,
};

void
store_model_file_add(struct write *write, const char *id, const char *digest,
                     const char *name, const void *body, size_t size)
{
    struct db_param params[] = {
        db_param_text(id),
        db_param_text(digest),
        db_param_text(name),
        {.bytes = body, .size = size},
    };

    write_add(write, &model_file_add, params);
}

static const struct statement model_remove = {
    .name = "model_remove",
    .sql = "UPDATE berth.model SET removed = now() "
           "WHERE id = $1 AND removed IS NULL",
    .shape = DB_NONE,
    .param_count = 1,
};

void
store_model_remove(struct write *write, const char *id)
{
    struct db_param params[] = {db_param_text(id)};

    write_add(write, &model_remove, params);
}

static const struct statement node_seen = {
    .name = "node_seen",
    .sql = "UPDATE berth.node SET last_seen = $2 WHERE id = $1",
    .shape = DB_NONE,
    .param_count = 2,
};

static void
on_seen(void *arg, enum status status, struct db_rows *const *rows,
        size_t count, const struct error *err)
{
    (void)arg;
    (void)rows;
    (void)count;
    if (status != STATUS_OK)
        log_warn("node.seen_unwritten", "detail=\"%s\"", err->text);
}

void
store_node_seen(struct writer *writer, const char *node, struct instant seen)
{
    char at[DB_NUMBER_BYTES];
    struct db_param params[] = {db_param_text(node),
                                db_param_instant(at, seen)};
    struct write *write = write_new(on_seen, NULL);

    write_add(write, &node_seen, params);
    writer_submit(writer, write);
}

static const struct statement token_read = {
    .name = "token_read",
    .sql = "SELECT secret, owner, coalesce(name, ''), "
           "array_to_string(pools, ','), " MICROS(
               "expires") " FROM berth.join_token "
                          "WHERE id = $1 AND used IS NULL AND expires > now()",
    .shape = DB_MAYBE,
    .param_count = 1,
};

enum status
store_token_read(struct db *db, const char *id, struct join_token *token,
                 struct error *err)
{
    struct db_param params[] = {db_param_text(id)};
    struct db_rows *rows = NULL;
    struct buf secret;
    enum status status = db_run(db, &token_read, params, &rows, err);

    buf_init(&secret, SHA256_BYTES);
    if (status == STATUS_OK && db_row_count(rows) == 0)
        status = error_set(err, STATUS_NOT_FOUND,
                           "this join token is unknown, used or over: ask for "
                           "a new one");
    if (status == STATUS_OK) {
        *token = (struct join_token){.owner = db_i64(rows, 0, 1)};
        snprintf(token->id, sizeof(token->id), "%s", id);
        db_bytes(rows, 0, 0, &secret);
        memcpy(token->secret, secret.data, secret.size);
        snprintf(token->name, sizeof(token->name), "%s", db_text(rows, 0, 2));
        token->pool_count = pools_parse(db_text(rows, 0, 3), token->pools);
        token->expires.us = db_i64(rows, 0, 4);
    }
    buf_clear(&secret);
    db_rows_free(rows);
    return status;
}

static const struct statement model_file_read = {
    .name = "model_file_read",
    .sql = "SELECT body FROM berth.model_file "
           "WHERE model = $1 AND digest = $2 AND name = $3",
    .shape = DB_MAYBE,
    .param_count = 3,
};

static enum status
model_file_load(struct db *db, const char *id, const char *digest,
                const char *name, struct buf *out, struct error *err)
{
    struct db_param params[] = {db_param_text(id), db_param_text(digest),
                                db_param_text(name)};
    struct db_rows *rows = NULL;
    enum status status = db_run(db, &model_file_read, params, &rows, err);

    if (status == STATUS_OK && db_row_count(rows) == 0)
        status =
            error_set(err, STATUS_NOT_FOUND, "%s of %s is not kept", name, id);
    if (status == STATUS_OK)
        db_bytes(rows, 0, 0, out);
    db_rows_free(rows);
    return status;
}

/* --- loading --- */

static const struct statement accounts_load = {
    .name = "accounts_load",
    .sql = "SELECT a.id, a.name, " MICROS(
        "a.created") ", l.id FROM berth.account a "
                     "JOIN ledger.account l ON l.owner = a.id AND l.kind = 1",
    .shape = DB_MANY,
    .param_count = 0,
};

static enum status
load_accounts(struct db *db, struct inventory *inventory, struct error *err)
{
    struct db_rows *rows = NULL;
    enum status status = db_run(db, &accounts_load, NULL, &rows, err);

    for (size_t i = 0; status == STATUS_OK && i < db_row_count(rows); i++) {
        struct account_view account = {
            .id = db_i64(rows, i, 0),
            .created.us = db_i64(rows, i, 2),
            .wallet = db_i64(rows, i, 3),
        };

        snprintf(account.name, sizeof(account.name), "%s", db_text(rows, i, 1));
        inventory_account_add(inventory, &account);
    }
    db_rows_free(rows);
    return status;
}

static const struct statement keys_load = {
    .name = "keys_load",
    .sql = "SELECT id, account, digest, prefix, name, scopes, " MICROS(
        "created") ", " MICROS("expires") ", " MICROS("revoked") " FROM "
                                                                 "berth.api_"
                                                                 "key",
    .shape = DB_MANY,
    .param_count = 0,
};

static enum status
load_keys(struct db *db, struct inventory *inventory, struct error *err)
{
    struct db_rows *rows = NULL;
    enum status status = db_run(db, &keys_load, NULL, &rows, err);

    for (size_t i = 0; status == STATUS_OK && i < db_row_count(rows); i++) {
        struct key_view key = {
            .account = db_i64(rows, i, 1),
            .scopes = (uint32_t)db_i64(rows, i, 5),
            .created.us = db_i64(rows, i, 6),
            .expiring = !db_is_null(rows, i, 7),
            .expires.us = db_i64(rows, i, 7),
            .revoked = !db_is_null(rows, i, 8),
            .revoked_at.us = db_i64(rows, i, 8),
        };
        struct buf digest;

        buf_init(&digest, SHA256_BYTES);
        db_bytes(rows, i, 2, &digest);
        memcpy(key.digest, digest.data, digest.size);
        buf_clear(&digest);
        snprintf(key.id, sizeof(key.id), "%s", db_text(rows, i, 0));
        snprintf(key.prefix, sizeof(key.prefix), "%s", db_text(rows, i, 3));
        snprintf(key.name, sizeof(key.name), "%s", db_text(rows, i, 4));
        inventory_key_put(inventory, &key);
    }
    db_rows_free(rows);
    return status;
}

static const struct statement nodes_load = {
    .name = "nodes_load",
    .sql = "SELECT n.id, n.owner, n.name, array_to_string(n.pools, ','), "
           "n.simulated, n.draining, " MICROS("n.joined") ", " MICROS(
               "n.last_seen") ", l.id FROM berth.node n "
                              "JOIN ledger.account l ON l.node = n.id AND "
                              "l.kind = 3 "
                              "WHERE n.removed IS NULL",
    .shape = DB_MANY,
    .param_count = 0,
};

static enum status
load_nodes(struct db *db, struct inventory *inventory, struct error *err)
{
    struct db_rows *rows = NULL;
    enum status status = db_run(db, &nodes_load, NULL, &rows, err);

    for (size_t i = 0; status == STATUS_OK && i < db_row_count(rows); i++) {
        static const struct node empty;
        struct node node = empty;

        snprintf(node.id, sizeof(node.id), "%s", db_text(rows, i, 0));
        node.owner = db_i64(rows, i, 1);
        snprintf(node.name, sizeof(node.name), "%s", db_text(rows, i, 2));
        node.pool_count = pools_parse(db_text(rows, i, 3), node.pools);
        node.simulated = db_bool(rows, i, 4);
        node.draining = db_bool(rows, i, 5);
        node.joined.us = db_i64(rows, i, 6);
        node.seen = !db_is_null(rows, i, 7);
        node.last_seen.us = db_i64(rows, i, 7);
        node.maturing = db_i64(rows, i, 8);
        (void)inventory_node_add(inventory, &node);
    }
    db_rows_free(rows);
    return status;
}

static const struct statement models_load = {
    .name = "models_load",
    .sql = "SELECT id, digest, entry::text, " MICROS(
        "created") " FROM berth.model WHERE removed IS NULL",
    .shape = DB_MANY,
    .param_count = 0,
};

static enum status
load_model(struct db *db, const struct db_rows *rows, size_t row,
           struct inventory *inventory, struct error *err)
{
    struct instant created = {.us = db_i64(rows, row, 3)};
    const char *entry_text = db_text(rows, row, 2);
    struct catalogue_entry entry = {.id = ""};
    struct model_files files;
    struct model *model = NULL;
    enum status status;

    model_files_init(&files);
    status =
        field_decode_text(entry_text, strlen(entry_text), catalogue_fields,
                          catalogue_field_count, &entry, sizeof(entry), err);
    for (size_t i = 0; status == STATUS_OK && i < MODEL_FILES; i++) {
        status = model_file_load(db, entry.id, entry.digest, model_file_name(i),
                                 model_file(&files, i), err);
        if (status == STATUS_NOT_FOUND)
            status = STATUS_OK;
    }
    if (status == STATUS_OK)
        status = model_make(&entry, created, &files, &model, err);
    if (status == STATUS_OK)
        inventory_model_add(inventory, model);
    model_drop(model);
    model_files_clear(&files);
    return status;
}

static enum status
load_models(struct db *db, struct inventory *inventory, struct error *err)
{
    struct db_rows *rows = NULL;
    enum status status = db_run(db, &models_load, NULL, &rows, err);

    for (size_t i = 0; status == STATUS_OK && i < db_row_count(rows); i++) {
        enum status loaded = load_model(db, rows, i, inventory, err);

        if (loaded == STATUS_INVALID)
            log_error("model.unusable", "model=%s detail=\"%s\"",
                      db_text(rows, i, 0), err->text);
        else
            status = loaded;
    }
    db_rows_free(rows);
    return status;
}

enum status
store_load(struct db *db, struct inventory *inventory, struct error *err)
{
    enum status status = load_accounts(db, inventory, err);

    if (status == STATUS_OK)
        status = load_keys(db, inventory, err);
    if (status == STATUS_OK)
        status = load_nodes(db, inventory, err);
    if (status == STATUS_OK)
        status = load_models(db, inventory, err);
    return status;
}
