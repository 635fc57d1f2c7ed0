/* api_fleet.c - nodes, pods, links, and how a machine joins. */
#include <stdlib.h>
#include <string.h>

#include "common/cert.h"
#include "common/clock.h"
#include "common/field.h"
#include "common/log.h"
#include "common/mem.h"
#include "coordinator/admin.h"
#include "coordinator/api.h"
#include "coordinator/inventory.h"
#include "coordinator/links.h"
#include "coordinator/names.h"
#include "coordinator/view_json.h"

#include "common/banned.h"

enum { CERTIFICATE_DAYS = 90, TOKEN_BYTES = 200 };

static bool
may_see(const struct request *request, const struct node_view *node)
{
    return (request->key.scopes & SCOPE_OPERATOR) != 0 ||
           ((request->key.scopes & SCOPE_OWNER) != 0 &&
            node->owner == request->key.account);
}

/* What a submitter may know of machines that are not its own. */
static void
counts_write(const struct fleet_view *fleet, struct json_out *out)
{
    static const char *const states[] = {"lending",  "busy",    "paused",
                                         "draining", "offline", "quarantined"};

    json_open_object(out);
    json_member_text(out, "object", "counts");
    json_key(out, "nodes");
    json_open_object(out);
    for (size_t i = 0; i < COUNT_OF(states); i++) {
        uint64_t count = 0;

        for (size_t j = 0; j < fleet->node_count; j++)
            count += strcmp(fleet->nodes[j].state, states[i]) == 0;
        json_member_u64(out, states[i], count);
    }
    json_close_object(out);
    json_member_u64(out, "jobs_queued", fleet->jobs_queued);
    json_member_u64(out, "jobs_running", fleet->jobs_running);
    json_close_object(out);
}

enum status
api_nodes_list(struct request *request, struct reply *reply, struct error *err)
{
    const struct fleet_view *fleet = fleet_take(request->app->snapshots);
    struct json_out out;

    (void)err;
    json_out_init(&out, &reply->body);
    if ((request->key.scopes & (SCOPE_OPERATOR | SCOPE_OWNER)) == 0) {
        counts_write(fleet, &out);
    } else {
        json_list_open(&out);
        for (size_t i = 0; i < fleet->node_count; i++)
            if (may_see(request, &fleet->nodes[i]))
                json_node(&out, &fleet->nodes[i]);
        json_list_close(&out, NULL);
    }
    fleet_drop(fleet);
    return STATUS_OK;
}

static enum status
node_write(const struct request *request, struct reply *reply,
           struct error *err)
{
    const struct fleet_view *fleet = fleet_take(request->app->snapshots);
    const struct node_view *node = fleet_node(fleet, request->param);
    enum status status = STATUS_OK;
    struct json_out out;

    if (node == NULL || !may_see(request, node)) {
        status = error_set(err, STATUS_NOT_FOUND,
                           "no node %.40s of yours: list them with GET "
                           "/api/v1/nodes",
                           request->param);
        (void)error_tag(err, "node_not_found", NULL);
    } else {
        buf_reset(&reply->body);
        json_out_init(&out, &reply->body);
        json_node(&out, node);
    }
    fleet_drop(fleet);
    return status;
}

enum status
api_node_get(struct request *request, struct reply *reply, struct error *err)
{
    return node_write(request, reply, err);
}

/* The core thread has published the change: answer from the new view. */
static void
on_node_changed(void *arg, const struct error *err)
{
    struct request *request = arg;
    struct error gone = {0};

    if (err != NULL)
        request_fail(request, err);
    else if (node_write(request, &request->reply, &gone) != STATUS_OK)
        request_fail(request, &gone);
    else
        request_resume(request);
}

/* After a removal the body was written before the node went. */
static void
on_node_removed(void *arg, const struct error *err)
{
    struct request *request = arg;

    if (err != NULL)
        request_fail(request, err);
    else
        request_resume(request);
}

static enum status
node_change(struct request *request, struct reply *reply, struct error *err,
            bool draining)
{
    enum status status = node_write(request, reply, err);

    if (status != STATUS_OK)
        return status;
    request_suspend(request);
    admin_node_drain(request->app, request->param, draining, on_node_changed,
                     request);
    return STATUS_OK;
}

enum status
api_node_drain(struct request *request, struct reply *reply, struct error *err)
{
    return node_change(request, reply, err, true);
}

enum status
api_node_resume(struct request *request, struct reply *reply, struct error *err)
{
    return node_change(request, reply, err, false);
}

enum status
api_node_remove(struct request *request, struct reply *reply, struct error *err)
{
    enum status status = node_write(request, reply, err);

    if (status != STATUS_OK)
        return status;
    request_suspend(request);
    admin_node_remove(request->app, request->param, on_node_removed, request);
    return STATUS_OK;
}

/* Pods and links are made from cables that agents report; no agent reports
 * cables before the Mac probe does, so both lists are truly empty. */
static enum status
empty_list(struct reply *reply, const char *note)
{
    struct json_out out;

    json_out_init(&out, &reply->body);
    json_open_object(&out);
    json_member_text(&out, "object", "list");
    json_key(&out, "data");
    json_open_list(&out);
    json_close_list(&out);
    json_member_null(&out, "next");
    json_member_text(&out, "note", note);
    json_close_object(&out);
    return STATUS_OK;
}

enum status
api_pods_list(struct request *request, struct reply *reply, struct error *err)
{
    (void)request;
    (void)err;
    return empty_list(reply, "no two nodes report a cable between them");
}

enum status
api_links_list(struct request *request, struct reply *reply, struct error *err)
{
    (void)request;
    (void)err;
    return empty_list(reply, "no link between two nodes has been measured");
}

enum status
api_pod_get(struct request *request, struct reply *reply, struct error *err)
{
    (void)reply;
    (void)error_set(err, STATUS_NOT_FOUND,
                    "no pod %.40s: list them with GET /api/v1/pods",
                    request->param);
    return error_tag(err, "pod_not_found", NULL);
}

/* --- join --- */

struct join_body {
    char token[TOKEN_BYTES];
    char request[CERT_PEM_MAX_BYTES];
    bool has_name;
    char name[NAME_BYTES];
    bool simulated;
};

static const struct field join_fields[] = {
    FIELD(struct join_body, token, FIELD_TEXT, .required = true, .min = 1),
    FIELD(struct join_body, request, FIELD_TEXT, .required = true, .min = 1),
    FIELD_NULLABLE(struct join_body, name, has_name, FIELD_TEXT, .min = 1),
    FIELD(struct join_body, simulated, FIELD_BOOL),
};

struct join {
    struct request *request;
    struct join_token token;
    struct node node;
    struct buf certificate;
};

static void
join_free(struct join *join)
{
    buf_clear(&join->certificate);
    free(join);
}

static void
on_joined(void *arg, const struct error *err)
{
    struct join *join = arg;
    struct request *request = join->request;
    struct json_out out;

    if (err != NULL) {
        struct error told = *err;

        if (told.status == STATUS_CONFLICT)
            (void)error_set(&told, STATUS_CONFLICT,
                            "a node named %s exists: choose another --name",
                            join->node.name);
        request_fail(request, &told);
        join_free(join);
        return;
    }
    request->reply.status = 201;
    json_out_init(&out, &request->reply.body);
    json_open_object(&out);
    json_member_text(&out, "node", join->node.id);
    json_member_text(&out, "name", join->node.name);
    json_member_text(&out, "certificate", join->certificate.data);
    json_member_u64(&out, "link_port", links_port(request->app->links));
    json_close_object(&out);
    log_info("node.joined", "node=%s owner=%lld simulated=%d", join->node.id,
             (long long)join->node.owner, join->node.simulated);
    request_resume(request);
    join_free(join);
}

/* A node's default name is random, never its host name. */
static void
name_make(char name[NAME_BYTES])
{
    static const char *const first[] = {
        "amber", "brisk", "calm", "deep",  "eager", "fair",  "green", "hazel",
        "ivory", "jolly", "keen", "lucid", "mild",  "noble", "ochre", "plain"};
    static const char *const second[] = {
        "anchor", "bay",  "cove",   "dock", "ferry", "gull", "harbour", "isle",
        "jetty",  "keel", "lagoon", "mast", "oar",   "pier", "quay",    "reef"};
    uint32_t draw;

    cert_random(&draw, sizeof(draw));
    snprintf(name, NAME_BYTES, "%s-%s-%04u", first[draw & 15],
             second[draw >> 4 & 15], (draw >> 8) % 10000);
}

static enum status
token_refused(struct error *err)
{
    (void)error_set(err, STATUS_DENIED,
                    "this join token is unknown, used or over: ask for a new "
                    "one (berth join-token)");
    return error_tag(err, "join_token_invalid", "token");
}

/* "id.secret.digest": the row of the id, if the secret is its own. */
static enum status
token_check(struct app *app, const char *text, struct join_token *token,
            struct error *err)
{
    char id[UUID_TEXT_BYTES];
    uint8_t digest[SHA256_BYTES];
    const char *secret, *end;
    struct db *db = NULL;
    enum status status;

    if (strlen(text) < UUID_TEXT_BYTES || text[UUID_TEXT_BYTES - 1] != '.')
        return token_refused(err);
    memcpy(id, text, UUID_TEXT_BYTES - 1);
    id[UUID_TEXT_BYTES - 1] = '\0';
    secret = text + UUID_TEXT_BYTES;
    end = strchr(secret, '.');
    if (!uuid_is_valid(id) || end == NULL)
        return token_refused(err);
    status = db_lease(app->readers, &db, err);
    if (status == STATUS_OK)
        status = store_token_read(db, id, token, err);
    if (db != NULL)
        db_return(app->readers, db);
    if (status == STATUS_NOT_FOUND)
        return token_refused(err);
    if (status != STATUS_OK)
        return status;
    cert_sha256(secret, (size_t)(end - secret), digest);
    return cert_equal(digest, token->secret, SHA256_BYTES) ? STATUS_OK
                                                           : token_refused(err);
}

static enum status
join_prepare(struct app *app, const struct join_body *body, struct join *join,
             struct error *err)
{
    struct node *node = &join->node;
    enum status status = token_check(app, body->token, &join->token, err);

    if (status == STATUS_OK && body->simulated && !app->config.dev) {
        (void)error_set(err, STATUS_DENIED,
                        "simulated nodes are accepted only by a coordinator "
                        "started with --dev: join without --profile");
        status = error_tag(err, "simulated_refused", "simulated");
    }
    if (status != STATUS_OK)
        return status;
    node->joined = clock_wall();
    uuid_make(node->joined, node->id);
    node->owner = join->token.owner;
    node->simulated = body->simulated;
    memcpy(node->pools, join->token.pools, sizeof(node->pools));
    node->pool_count = join->token.pool_count;
    if (body->has_name)
        memcpy(node->name, body->name, sizeof(node->name));
    else if (join->token.name[0] != '\0')
        memcpy(node->name, join->token.name, sizeof(node->name));
    else
        name_make(node->name);
    return cert_node_sign(app->ca_certificate, app->ca_key, body->request,
                          node->id, CERTIFICATE_DAYS, &join->certificate, err);
}

enum status
api_join(struct request *request, struct reply *reply, struct error *err)
{
    struct join_body *body = mem_alloc(sizeof(*body));
    struct join *join = mem_alloc(sizeof(*join));
    enum status status;

    (void)reply;
    join->request = request;
    buf_init(&join->certificate, CERT_PEM_MAX_BYTES);
    status =
        field_decode_text(request->body.data, request->body.size, join_fields,
                          COUNT_OF(join_fields), body, sizeof(*body), err);
    if (status == STATUS_OK && body->has_name)
        status = name_check(body->name, err);
    if (status == STATUS_OK)
        status = join_prepare(request->app, body, join, err);
    free(body);
    if (status != STATUS_OK) {
        join_free(join);
        return status;
    }
    request_suspend(request);
    admin_node_join(request->app, &join->token, &join->node, on_joined, join);
    return STATUS_OK;
}
