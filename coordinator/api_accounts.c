/* api_accounts.c - accounts, keysand grants. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/cert.h"
#include "common/clock.h"
#include "common/field.h"
#include "common/log.h"
#include "common/mem.h"
#include "coordinator/admin.h"
#include "coordinator/api_requests.h"
#include "coordinator/api.h"
#include "coordinator/api_key.h"
#include "coordinator/api_people.h"
#include "coordinator/names.h"
#include "coordinator/view_json.h"
#include "ledger/ledger.h"

#include "common/banned.h"

enum {
    LIFE_MAX_S = 10 * 365 * 86400,
    NOTE_BYTES = 200,
    IDEMPOTENCY_MAX_BYTES = 255,
};

bool
is_operator(const struct request *request)
{
    return (request->key.scopes & SCOPE_OPERATOR) != 0;
}

static void
balance_members(struct json_out *out, const struct ledger_balance *balance)
{
    json_member_i64(out, "available_ucr", balance->available.micro);
    json_member_i64(out, "held_ucr", balance->held.micro);
    json_member_i64(out, "maturing_ucr", balance->maturing.micro);
}

static enum status
balance_read(struct app *app, int64_t account, struct ledger_balance *balance,
             struct error *err)
{
    struct db *db = NULL;
    enum status status = db_lease(app->readers, &db, err);

    if (status != STATUS_OK)
        return status;
    status = ledger_balance_read(db, account, balance, err);
    db_return(app->readers, db);
    return status;
}

/* --- accounts --- */

enum status
api_accounts_list(struct request *request, struct reply *reply,
                  struct error *err)
{
    const struct identity_view *view = identity_take(request->app->snapshots);
    enum status status = STATUS_OK;
    struct json_out out;

    json_out_init(&out, &reply->body);
    json_list_open(&out);
    for (size_t i = 0; status == STATUS_OK && i < view->account_count; i++) {
        struct ledger_balance balance = {.held = {0}};

        status =
            balance_read(request->app, view->accounts[i].id, &balance, err);
        json_open_object(&out);
        json_account(&out, &view->accounts[i]);
        json_key(&out, "balance");
        json_open_object(&out);
        balance_members(&out, &balance);
        json_close_object(&out);
        json_close_object(&out);
    }
    json_list_close(&out, NULL);
    identity_drop(view);
    return status;
}

struct account_body {
    char name[NAME_BYTES];
};

static const struct field account_fields[] = {
    FIELD(struct account_body, name, FIELD_TEXT, .required = true, .min = 1),
};

struct account_call {
    struct request *request;
    struct account_view account;
};

static void
on_account(void *arg, const struct error *err)
{
    struct account_call *call = arg;
    struct request *request = call->request;
    struct error told;
    struct json_out out;

    if (err != NULL) {
        told = *err;
        if (told.status == STATUS_CONFLICT) {
            (void)error_set(&told, STATUS_CONFLICT,
                            "an account named %s exists: choose another name",
                            call->account.name);
            (void)error_tag(&told, "account_exists", "name");
        }
        request_fail(request, &told);
    } else {
        request->reply.status = 201;
        json_out_init(&out, &request->reply.body);
        json_open_object(&out);
        json_account(&out, &call->account);
        json_close_object(&out);
        request_resume(request);
    }
    free(call);
}

enum status
api_accounts_add(struct request *request, struct reply *reply,
                 struct error *err)
{
    struct account_body body = {.name = ""};
    struct account_call *call;
    enum status status = field_decode_text(
        request->body.data, request->body.size, account_fields,
        COUNT_OF(account_fields), &body, sizeof(body), err);

    (void)reply;
    if (status == STATUS_OK)
        status = name_check(body.name, err);
    if (status == STATUS_OK &&
        strspn(body.name, "0123456789") == strlen(body.name))
        status = error_set(err, STATUS_INVALID,
                           "/name: digits alone look like an account's number: "
                           "add a letter");
    if (status != STATUS_OK)
        return status;
    call = mem_alloc(sizeof(*call));
    call->request = request;
    memcpy(call->account.name, body.name, sizeof(body.name));
    request_suspend(request);
    admin_account_add(request->app, &call->account, on_account, call);
    return STATUS_OK;
}

enum status
account_named(const struct request *request, const struct json *value,
              const char *field, struct account_view *account,
              struct error *err)
{
    const struct identity_view *view = identity_take(request->app->snapshots);
    const struct account_view *found = NULL;
    const char *name = json_as_text(value, NULL);
    int64_t id = request->key.account;
    enum status status = STATUS_OK;

    if (name != NULL)
        found = identity_account_named(view, name);
    else if (json_is_null(value) || json_as_i64(value, &id) == STATUS_OK)
        found = identity_account(view, id);
    if (found == NULL && is_operator(request)) {
        (void)error_set(err, STATUS_NOT_FOUND,
                        "%s: no such account: list them with GET "
                        "/api/v1/accounts",
                        field);
        status = error_tag(err, "account_not_found", field);
    } else if (found == NULL ||
               (found->id != request->key.account && !is_operator(request))) {
        /* The same for names that exist and names that do not. */
        (void)error_set(err, STATUS_DENIED,
                        "%s: only a key with the scope operator may name "
                        "another account: leave it out, or use such a key",
                        field);
        status = error_tag(err, "scope_missing", field);
    } else {
        *account = *found;
    }
    identity_drop(view);
    return status;
}

/* --- keys --- */

enum status
api_keys_list(struct request *request, struct reply *reply, struct error *err)
{
    const struct identity_view *view = identity_take(request->app->snapshots);
    struct json_out out;

    (void)err;
    json_out_init(&out, &reply->body);
    json_list_open(&out);
    for (size_t i = 0; i < view->key_count; i++) {
        const struct key_view *key = &view->keys[i];

        if (key->account != request->key.account && !is_operator(request))
            continue;
        json_open_object(&out);
        json_key_members(&out, key);
        json_close_object(&out);
    }
    json_list_close(&out, NULL);
    identity_drop(view);
    return STATUS_OK;
}

struct key_body {
    char name[NAME_BYTES];
    char scopes[3][16];
    size_t scope_count;
    const struct json *account;
    uint64_t expires_s;
};

static const struct field key_fields[] = {
    FIELD(struct key_body, name, FIELD_TEXT, .required = true, .min = 1),
    FIELD_LIST(struct key_body, scopes, scope_count, FIELD_TEXT,
               .required = true, .min = 1),
    FIELD(struct key_body, account, FIELD_TREE),
    FIELD(struct key_body, expires_s, FIELD_U64, .max = LIFE_MAX_S),
};

static enum status
scopes_parse(const struct request *request, const struct key_body *body,
             uint32_t *scopes, struct error *err)
{
    *scopes = 0;
    for (size_t i = 0; i < body->scope_count; i++) {
        if (strcmp(body->scopes[i], "submitter") == 0)
            *scopes |= SCOPE_SUBMITTER;
        else if (strcmp(body->scopes[i], "owner") == 0)
            *scopes |= SCOPE_OWNER;
        else if (strcmp(body->scopes[i], "operator") == 0)
            *scopes |= SCOPE_OPERATOR;
        else
            return error_set(err, STATUS_INVALID,
                             "/scopes/%zu: a scope is submitter, owner or "
                             "operator",
                             i);
    }
    if (*scopes == 0)
        return error_set(err, STATUS_INVALID, "/scopes: name at least one");
    if (is_operator(request) || (*scopes & ~request->key.scopes) == 0)
        return STATUS_OK;
    (void)error_set(err, STATUS_DENIED,
                    "a key can only be given scopes that your own key has: "
                    "leave the others out, or use an operator's key");
    return error_tag(err, "scope_missing", "scopes");
}

struct key_call {
    struct request *request;
    struct key_view key;
    char secret[API_KEY_SECRET_BYTES];
};

static void
on_key(void *arg, const struct error *err)
{
    struct key_call *call = arg;
    struct json_out out;

    if (err != NULL) {
        request_fail(call->request, err);
    } else {
        call->request->reply.status = 201;
        json_out_init(&out, &call->request->reply.body);
        json_open_object(&out);
        json_member_text(&out, "key", call->secret);
        json_key_members(&out, &call->key);
        json_close_object(&out);
        request_resume(call->request);
    }
    cert_wipe(call, sizeof(*call));
    free(call);
}

enum status
api_keys_add(struct request *request, struct reply *reply, struct error *err)
{
    struct key_body body = {.name = ""};
    struct account_view account;
    struct json_doc doc = {0};
    struct key_call *call;
    uint32_t scopes = 0;
    enum status status = api_body(request, &doc, err);

    (void)reply;
    if (status == STATUS_OK)
        status = field_decode(doc.root, key_fields, COUNT_OF(key_fields), &body,
                              sizeof(body), err);
    if (status == STATUS_OK)
        status = account_named(request, body.account, "account", &account, err);
    if (status == STATUS_OK)
        status = name_check(body.name, err);
    if (status == STATUS_OK)
        status = scopes_parse(request, &body, &scopes, err);
    json_doc_clear(&doc);
    if (status != STATUS_OK)
        return status;
    call = mem_alloc(sizeof(*call));
    call->request = request;
    api_key_make(account.id, body.name, scopes, &call->key, call->secret);
    call->key.expiring = body.expires_s > 0;
    call->key.expires.us =
        call->key.created.us + (int64_t)body.expires_s * 1000000;
    request_suspend(request);
    admin_key_add(request->app, &call->key, on_key, call);
    return STATUS_OK;
}

static enum status
key_write(const struct request *request, struct reply *reply, struct error *err)
{
    const struct identity_view *view = identity_take(request->app->snapshots);
    const struct key_view *key = identity_key_by_id(view, request->param);
    enum status status = STATUS_OK;
    struct json_out out;

    if (key == NULL ||
        (key->account != request->key.account && !is_operator(request))) {
        (void)error_set(err, STATUS_NOT_FOUND,
                        "no key %.40s of yours: list them with GET "
                        "/api/v1/keys",
                        request->param);
        status = error_tag(err, "key_not_found", NULL);
    } else {
        buf_reset(&reply->body);
        json_out_init(&out, &reply->body);
        json_open_object(&out);
        json_key_members(&out, key);
        json_close_object(&out);
    }
    identity_drop(view);
    return status;
}

static void
on_key_revoked(void *arg, const struct error *err)
{
    struct request *request = arg;
    struct error gone = {0};

    if (err != NULL)
        request_fail(request, err);
    else if (key_write(request, &request->reply, &gone) != STATUS_OK)
        request_fail(request, &gone);
    else
        request_resume(request);
}

/* Nobody takes away what they could not have given. */
static enum status
revoke_check(const struct request *request, struct error *err)
{
    const struct identity_view *view = identity_take(request->app->snapshots);
    const struct key_view *key = identity_key_by_id(view, request->param);
    bool more = key != NULL && (key->scopes & ~request->key.scopes) != 0;

    identity_drop(view);
    if (!more || is_operator(request))
        return STATUS_OK;
    (void)error_set(err, STATUS_DENIED,
                    "that key has scopes that your own key has not: revoke it "
                    "with itself or with an operator's key");
    return error_tag(err, "scope_missing", NULL);
}

enum status
api_key_revoke(struct request *request, struct reply *reply, struct error *err)
{
    enum status status = key_write(request, reply, err);

    if (status == STATUS_OK)
        status = revoke_check(request, err);

    if (status != STATUS_OK)
        return status;
    request_suspend(request);
    admin_key_revoke(request->app, request->param, on_key_revoked, request);
    return STATUS_OK;
}

/* --- grants --- */

struct grant_body {
    const struct json *account;
    uint64_t amount_ucr;
    char note[NOTE_BYTES];
};

static const struct field grant_fields[] = {
    FIELD(struct grant_body, account, FIELD_TREE, .required = true),
    FIELD(struct grant_body, amount_ucr, FIELD_U64, .required = true, .min = 1,
          .max = CREDITS_MAX_MICRO),
    FIELD(struct grant_body, note, FIELD_TEXT),
};

struct grant_call {
    struct request *request;
    char id[UUID_TEXT_BYTES];
    int64_t account;
    uint64_t amount;
    char note[NOTE_BYTES];
};

static void
on_granted(void *arg, const struct error *err)
{
    struct grant_call *call = arg;
    struct request *request = call->request;
    struct json_out out;
    char quoted[2 * NOTE_BYTES];

    if (err != NULL) {
        request_fail(request, err);
    } else {
        log_info("grant.made",
                 "id=%s account=%" PRId64 " amount_ucr=%" PRIu64 " note=%s",
                 call->id, call->account, call->amount,
                 log_quote(call->note, quoted, sizeof(quoted)));
        request->reply.status = 201;
        json_out_init(&out, &request->reply.body);
        json_open_object(&out);
        json_member_text(&out, "id", call->id);
        json_member_i64(&out, "account", call->account);
        json_member_u64(&out, "amount_ucr", call->amount);
        json_close_object(&out);
        request_resume(request);
    }
    free(call);
}

static enum status
idempotency_check(const struct request *request, struct error *err)
{
    const char *key = request_header(request, "Idempotency-Key");

    if (key == NULL || (key[0] != '\0' && strlen(key) <= IDEMPOTENCY_MAX_BYTES))
        return STATUS_OK;
    (void)error_set(err, STATUS_INVALID,
                    "Idempotency-Key has 1 to %d bytes, or leave it out",
                    IDEMPOTENCY_MAX_BYTES);
    return error_tag(err, "invalid_value", "Idempotency-Key");
}

/* The UUID that stands for an Idempotency-Key of this account: version 8 of
 * RFC 9562 over its SHA-256, so that the same key makes the same grant. */
static void
grant_id(const struct request *request, char id[static UUID_TEXT_BYTES])
{
    const char *key = request_header(request, "Idempotency-Key");
    uint8_t digest[SHA256_BYTES];
    char hex[SHA256_HEX_BYTES], text[400];

    if (key == NULL) {
        uuid_make(clock_wall(), id);
        return;
    }
    snprintf(text, sizeof(text), "grant %" PRId64 " %.300s",
             request->key.account, key);
    cert_sha256(text, strlen(text), digest);
    digest[6] = (uint8_t)(0x80 | (digest[6] & 0x0f));
    digest[8] = (uint8_t)(0x80 | (digest[8] & 0x3f));
    cert_hex(digest, SHA256_BYTES, hex);
    snprintf(id, UUID_TEXT_BYTES, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8,
             hex + 12, hex + 16, hex + 20);
}

enum status
api_grants_add(struct request *request, struct reply *reply, struct error *err)
{
    struct grant_body body = {.note = ""};
    struct account_view account;
    struct json_doc doc = {0};
    struct grant_call *call;
    enum status status = api_body(request, &doc, err);

    (void)reply;
    if (status == STATUS_OK)
        status = field_decode(doc.root, grant_fields, COUNT_OF(grant_fields),
                              &body, sizeof(body), err);
    if (status == STATUS_OK)
        status = idempotency_check(request, err);
    if (status == STATUS_OK && json_is_null(body.account))
        status =
            error_set(err, STATUS_INVALID,
                      "/account: must be the number or name of an account");
    if (status == STATUS_OK)
        status = account_named(request, body.account, "account", &account, err);
    json_doc_clear(&doc);
    if (status != STATUS_OK)
        return status;
    call = mem_alloc(sizeof(*call));
    call->request = request;
    call->account = account.id;
    call->amount = body.amount_ucr;
    memcpy(call->note, body.note, sizeof(call->note));
    grant_id(request, call->id);
    request_suspend(request);
    admin_grant(request->app, call->id, account.wallet,
                (struct credits){.micro = (int64_t)body.amount_ucr}, on_granted,
                call);
    return STATUS_OK;
}
