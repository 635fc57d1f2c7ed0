/* reply.c - answers in the shape that OpenAI's clients read. */
#include "coordinator/reply.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <microhttpd.h>

#include "common/clock.h"
#include "coordinator/sse.h"

#include "common/banned.h"

enum {
    STREAM_BLOCK_BYTES = 16 * 1024,
    RETRY_CAPACITY_S = 5,
    RETRY_FAULT_S = 2,
    SQLSTATE_SIZE = 5,
};

static const char *
error_type(enum status status)
{
    switch (status) {
    case STATUS_INVALID:
    case STATUS_TOO_LARGE:
        return "invalid_request_error";
    case STATUS_UNKNOWN_CALLER:
        return "authentication_error";
    case STATUS_NO_FUNDS:
        return "insufficient_quota";
    case STATUS_DENIED:
        return "permission_error";
    case STATUS_NOT_FOUND:
        return "not_found_error";
    case STATUS_CONFLICT:
        return "conflict_error";
    case STATUS_NO_CAPACITY:
        return "rate_limit_error";
    case STATUS_OK:
    case STATUS_RETRY:
    case STATUS_INTERNAL:
        break;
    }
    return "server_error";
}

/* The database's own codes are no business of a client. */
static bool
is_sqlstate(const char *code)
{
    return strlen(code) == SQLSTATE_SIZE &&
           strspn(code, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") ==
               SQLSTATE_SIZE;
}

static const char *
error_code(const struct error *err)
{
    if (err->status == STATUS_NO_FUNDS)
        return "insufficient_quota";
    if (err->status == STATUS_INTERNAL)
        return "internal";
    if (err->code[0] != '\0' && !is_sqlstate(err->code))
        return err->code;
    /* Readers of the database are the only ones that leave it untagged. */
    return err->status == STATUS_RETRY ? "database_unreachable" : NULL;
}

void
reply_error_put(struct json_out *out, const struct error *err)
{
    const char *text = err->text;

    if (is_sqlstate(err->code))
        text = "the database could not do that now: try again";
    if (err->status == STATUS_INTERNAL)
        text = "the coordinator made a mistake, which is in its log: tell its "
               "operator the x-request-id of this answer";
    json_open_object(out);
    json_member_text(out, "message", text);
    json_member_text(out, "type", error_type(err->status));
    json_member_text(out, "param", err->param[0] != '\0' ? err->param : NULL);
    json_member_text(out, "code", error_code(err));
    json_close_object(out);
}

void
reply_error(struct reply *reply, const struct error *err)
{
    struct json_out out;

    buf_reset(&reply->body);
    json_out_init(&out, &reply->body);
    json_open_object(&out);
    json_key(&out, "error");
    reply_error_put(&out, err);
    json_close_object(&out);
    reply->status = status_http(err->status);
    reply->content_type = NULL;
    if (reply->retry_after[0] != '\0')
        return;
    if (err->status == STATUS_NO_CAPACITY)
        snprintf(reply->retry_after, sizeof(reply->retry_after), "%d",
                 RETRY_CAPACITY_S);
    else if (err->status == STATUS_RETRY)
        snprintf(reply->retry_after, sizeof(reply->retry_after), "%d",
                 RETRY_FAULT_S);
}

static ssize_t
on_read(void *arg, uint64_t at, char *bytes, size_t max)
{
    ssize_t size = sse_read(arg, bytes, max);

    (void)at;
    return size == SSE_OVER ? MHD_CONTENT_READER_END_OF_STREAM : size;
}

static void
on_read_over(void *arg)
{
    sse_free(arg);
}

static struct MHD_Response *
stream_response(struct reply *reply)
{
    struct sse *stream = reply->stream;
    struct MHD_Response *response;

    response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES, on_read, stream, on_read_over);
    if (response == NULL)
        return NULL;
    reply->stream = NULL;
    (void)MHD_add_response_header(response, "content-type",
                                  "text/event-stream; charset=utf-8");
    (void)MHD_add_response_header(response, "cache-control", "no-cache");
    (void)MHD_add_response_header(response, "x-accel-buffering", "no");
    return response;
}

static struct MHD_Response *
body_response(struct reply *reply)
{
    struct MHD_Response *response;
    size_t size;
    char *body = buf_take(&reply->body, &size);

    response =
        MHD_create_response_from_buffer(size, body, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        free(body);
        return NULL;
    }
    (void)MHD_add_response_header(
        response, "content-type",
        reply->content_type != NULL ? reply->content_type : "application/json");
    return response;
}

static void
header_add(struct MHD_Response *response, const char *name, const char *value)
{
    if (value[0] != '\0')
        (void)MHD_add_response_header(response, name, value);
}

bool
reply_queue(struct request *request, struct MHD_Connection *connection,
            bool last)
{
    struct reply *reply = &request->reply;
    struct span took = span_sub(clock_monotonic(), request->began);
    struct MHD_Response *response;
    enum MHD_Result queued;
    char ms[32];

    if (reply->body.overflowed) {
        struct error err = {.status = STATUS_INTERNAL};

        reply_error(reply, &err);
    }
    response =
        reply->stream != NULL ? stream_response(reply) : body_response(reply);
    if (response == NULL)
        return false;
    snprintf(ms, sizeof(ms), "%" PRId64, span_as_ms(took));
    header_add(response, "x-request-id", request->id);
    header_add(response, "openai-processing-ms", ms);
    header_add(response, "x-berth-job", reply->job);
    header_add(response, "retry-after", reply->retry_after);
    header_add(response, "allow", reply->allow);
    header_add(response, "connection", last ? "close" : "");
    queued = MHD_queue_response(
        connection, reply->status == 0 ? MHD_HTTP_OK : (unsigned)reply->status,
        response);
    MHD_destroy_response(response);
    return queued == MHD_YES;
}
