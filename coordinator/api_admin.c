/* api_admin.c - open routes: health, readiness, the CA's certificate. */
#include <stdatomic.h>

#include "coordinator/api.h"

#include "common/banned.h"

static enum status
status_body(struct reply *reply, const char *text)
{
    struct json_out out;

    json_out_init(&out, &reply->body);
    json_open_object(&out);
    json_member_text(&out, "status", text);
    json_close_object(&out);
    return STATUS_OK;
}

enum status
api_healthz(struct request *request, struct reply *reply, struct error *err)
{
    (void)request;
    (void)err;
    return status_body(reply, "ok");
}

enum status
api_readyz(struct request *request, struct reply *reply, struct error *err)
{
    if (!atomic_load(&request->app->leading)) {
        (void)error_set(err, STATUS_RETRY,
                        "this coordinator is not the active one: ask another "
                        "address or try again");
        return error_tag(err, "standby", NULL);
    }
    if (!atomic_load(&request->app->reachable)) {
        (void)error_set(err, STATUS_RETRY,
                        "the database does not answer: try again");
        return error_tag(err, "database_unreachable", NULL);
    }
    return status_body(reply, "ready");
}

/* Not a secret: agents compare its key with the digest in their join token
 * before they trust it. */
enum status
api_ca(struct request *request, struct reply *reply, struct error *err)
{
    (void)err;
    reply->content_type = "application/x-pem-file";
    buf_append_text(&reply->body, request->app->ca_certificate);
    return STATUS_OK;
}
