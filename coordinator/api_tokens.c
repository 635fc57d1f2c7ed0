/* api_tokens.c - join tokens: how an owner lets a machine in. */
#include <stdlib.h>
#include <string.h>

#include "common/cert.h"
#include "common/clock.h"
#include "common/field.h"
#include "common/mem.h"
#include "coordinator/admin.h"
#include "coordinator/api_requests.h"
#include "coordinator/api.h"
#include "coordinator/api_people.h"
#include "coordinator/names.h"
#include "coordinator/view_json.h"

#include "common/banned.h"

enum {
    TOKEN_LIFE_S = 86400,
    LIFE_MAX_S = 10 * 365 * 86400,
    SECRET_BYTES = 32,
};

struct token_body {
    const struct json *owner;
    char pools[POOLS_MAX][POOL_BYTES];
    size_t pool_count;
    char name[NAME_BYTES];
    uint64_t expires_s;
};

static const struct field token_fields[] = {
    FIELD(struct token_body, owner, FIELD_TREE),
    FIELD_LIST(struct token_body, pools, pool_count, FIELD_TEXT, .min = 1),
    FIELD(struct token_body, name, FIELD_TEXT),
    FIELD(struct token_body, expires_s, FIELD_U64, .max = LIFE_MAX_S),
};

struct token_call {
    struct request *request;
    struct join_token token;
    char text[UUID_TEXT_BYTES + 2 * SECRET_BYTES + 1 + SHA256_HEX_BYTES];
};

static void
on_token(void *arg, const struct error *err)
{
    struct token_call *call = arg;
    struct json_out out;

    if (err != NULL) {
        request_fail(call->request, err);
    } else {
        call->request->reply.status = 201;
        json_out_init(&out, &call->request->reply.body);
        json_open_object(&out);
        json_member_text(&out, "token", call->text);
        json_member_text(&out, "id", call->token.id);
        json_member_instant(&out, "expires", true, call->token.expires);
        json_member_i64(&out, "owner", call->token.owner);
        json_close_object(&out);
        request_resume(call->request);
    }
    cert_wipe(call, sizeof(*call));
    free(call);
}

/* Pool names are lower-case letters, digits and '-'. */
static enum status
pools_check(const struct token_body *body, struct error *err)
{
    for (size_t i = 0; i < body->pool_count; i++)
        if (strspn(body->pools[i], "abcdefghijklmnopqrstuvwxyz0123456789-") !=
            strlen(body->pools[i]))
            return error_set(err, STATUS_INVALID,
                             "/pools/%zu: a pool's name is lower-case letters, "
                             "digits and -",
                             i);
    return STATUS_OK;
}

static enum status
token_make(struct app *app, const struct token_body *body, int64_t owner,
           struct token_call *call, struct error *err)
{
    struct join_token *token = &call->token;
    uint8_t secret[SECRET_BYTES], digest[SHA256_BYTES];
    char secret_hex[2 * SECRET_BYTES + 1], digest_hex[SHA256_HEX_BYTES];
    uint64_t life = body->expires_s > 0 ? body->expires_s : TOKEN_LIFE_S;
    enum status status = cert_key_digest(app->ca_certificate, digest, err);

    if (status != STATUS_OK)
        return status;
    cert_hex(digest, sizeof(digest), digest_hex);
    cert_random(secret, sizeof(secret));
    cert_hex(secret, sizeof(secret), secret_hex);
    cert_sha256(secret_hex, strlen(secret_hex), token->secret);
    token->owner = owner;
    uuid_make(clock_wall(), token->id);
    token->expires.us = clock_wall().us + (int64_t)life * 1000000;
    memcpy(token->name, body->name, sizeof(token->name));
    memcpy(token->pools, body->pools, sizeof(token->pools));
    token->pool_count = body->pool_count;
    if (token->pool_count == 0)
        snprintf(token->pools[token->pool_count++], POOL_BYTES, "public");
    snprintf(call->text, sizeof(call->text), "%s.%s.%s", token->id, secret_hex,
             digest_hex);
    return STATUS_OK;
}

enum status
api_join_tokens_add(struct request *request, struct reply *reply,
                    struct error *err)
{
    struct token_body body = {.name = ""};
    struct token_call *call = mem_alloc(sizeof(*call));
    struct account_view account;
    struct json_doc doc = {0};
    enum status status = STATUS_OK;

    (void)reply;
    call->request = request;
    if (request->body.size > 0)
        status = api_body(request, &doc, err);
    if (status == STATUS_OK && doc.root != NULL)
        status = field_decode(doc.root, token_fields, COUNT_OF(token_fields),
                              &body, sizeof(body), err);
    if (status == STATUS_OK && body.name[0] != '\0')
        status = name_check(body.name, err);
    if (status == STATUS_OK)
        status = pools_check(&body, err);
    if (status == STATUS_OK)
        status = account_named(request, body.owner, "owner", &account, err);
    if (status == STATUS_OK)
        status = token_make(request->app, &body, account.id, call, err);
    json_doc_clear(&doc);
    if (status != STATUS_OK) {
        free(call);
        return status;
    }
    request_suspend(request);
    admin_token_add(request->app, &call->token, on_token, call);
    return STATUS_OK;
}
