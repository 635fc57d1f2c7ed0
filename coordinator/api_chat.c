/* api_chat.c - OpenAI's completions and models.
 *
 * No byte is sent before the job's first event: until then it may still be
 * refused, and the client gets that as an HTTP error. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/mem.h"
#include "coordinator/answer.h"
#include "coordinator/api.h"
#include "coordinator/api_requests.h"
#include "coordinator/core.h"
#include "coordinator/prepare.h"
#include "coordinator/sse.h"

#include "common/banned.h"

/* A request between its admission and its answer. */
struct completion {
    struct request *request;
    struct record *record;
    char job[UUID_TEXT_BYTES];
    bool stream;
    struct answer answer;
};

/* --- waiting for the record --- */

static bool
is_ready(const struct completion *completion)
{
    struct record_end end;

    if (completion->stream)
        return record_event_count(completion->record) > 0;
    record_read_end(completion->record, &end);
    return end.ended;
}

/* Also the wake of the record: on whichever thread feeds it. */
static void
wait_for_record(void *arg)
{
    struct completion *completion = arg;
    struct record *record = completion->record;

    while (!is_ready(completion)) {
        size_t index = completion->stream ? 0 : record_event_count(record);

        if (is_ready(completion))
            break;
        if (record_wait(record, index, wait_for_record, completion))
            return; /* from here on it is the record's */
    }
    request_resume(completion->request);
}

static void
completion_free(void *state)
{
    struct completion *completion = state;

    (void)record_unwait(completion->record, wait_for_record, completion);
    record_drop(completion->record);
    free(completion);
}

/* --- the answer --- */

static enum status
whole_answer(const struct completion *completion, struct reply *reply,
             struct error *err)
{
    struct record_end end;
    struct message message;

    record_read_end(completion->record, &end);
    if (end.failed) {
        *err = end.error;
        return err->status;
    }
    message_init(&message);
    message_read(&message, completion->record);
    answer_body(&completion->answer, &message, &end, &reply->body);
    message_clear(&message);
    return STATUS_OK;
}

static enum status
stream_answer(const struct completion *completion, struct request *request,
              struct reply *reply, struct error *err)
{
    struct sse_options options = {.answer = completion->answer};
    struct record_event first = {.kind = RECORD_CONTENT};
    struct buf text;
    struct record_end end;

    buf_init(&text, RECORD_MAX_BYTES);
    (void)record_read(completion->record, 0, 1, &first, &text);
    buf_clear(&text);
    if (first.kind == RECORD_ERROR) { /* before anything was delivered */
        record_read_end(completion->record, &end);
        *err = end.error;
        return err->status;
    }
    memcpy(options.job, completion->job, sizeof(options.job));
    reply->stream = sse_new(request, completion->record, &options);
    return STATUS_OK;
}

static enum status
on_ready(struct request *request, struct reply *reply, struct error *err)
{
    const struct completion *completion = request->state;

    return completion->stream ? stream_answer(completion, request, reply, err)
                              : whole_answer(completion, reply, err);
}

/* --- the job --- */

static struct completion *
completion_new(struct request *request, const struct prepared *prepared)
{
    struct completion *completion = mem_alloc(sizeof(*completion));
    const struct job *job = prepared->job;

    completion->request = request;
    completion->record = record_keep(job->record);
    completion->stream = prepared->stream;
    memcpy(completion->job, job->id, sizeof(completion->job));
    answer_init(&completion->answer, job->id, job->chat, job->model->entry.id);
    completion->answer.usage = prepared->include_usage;
    return completion;
}

static enum status
prepare(struct request *request, bool chat, struct prepared *prepared,
        struct error *err)
{
    struct json_doc doc = {0};
    enum status status;

    status = api_body(request, &doc, err);
    if (status != STATUS_OK)
        return status;
    struct prepare from = {
        .app = request->app,
        .account = request->key.account,
        .key = request->key.id,
        .chat = chat,
        .body = doc.root,
        .berth = json_get(doc.root, "berth"),
    };

    status = api_wallet(request, &from.wallet, err);
    if (status == STATUS_OK) {
        api_berth_headers(request, &from.headers);
        status = prepare_job(&from, prepared, err);
    }
    json_doc_clear(&doc);
    return status;
}

static enum status
complete(struct request *request, struct reply *reply, bool chat,
         struct error *err)
{
    struct prepared prepared = {0};
    struct completion *completion;
    enum status status = prepare(request, chat, &prepared, err);

    if (status != STATUS_OK)
        return status;
    buf_clear(&request->body); /* it may be large, and the wait long */
    completion = completion_new(request, &prepared);
    memcpy(reply->job, completion->job, sizeof(reply->job));
    request->state = completion;
    request->state_free = completion_free;
    request->on_resumed = on_ready;
    request_suspend(request);
    core_submit_watched(request->app->core, prepared.job,
                        request_socket(request));
    wait_for_record(completion);
    return STATUS_OK;
}

enum status
api_chat_completions(struct request *request, struct reply *reply,
                     struct error *err)
{
    return complete(request, reply, true, err);
}

enum status
api_completions(struct request *request, struct reply *reply, struct error *err)
{
    return complete(request, reply, false, err);
}

/* --- models --- */

static void
model_put(struct json_out *out, const struct model *model)
{
    json_open_object(out);
    json_member_text(out, "id", model->entry.id);
    json_member_text(out, "object", "model");
    json_member_i64(out, "created", instant_unix_s(model->created));
    json_member_text(out, "owned_by", "berth");
    json_member_u64(out, "context_length", model->entry.context);
    json_close_object(out);
}

enum status
api_models_list(struct request *request, struct reply *reply, struct error *err)
{
    const struct catalogue_view *catalogue =
        catalogue_take(request->app->snapshots);
    const struct fleet_view *fleet = fleet_take(request->app->snapshots);
    struct json_out out;

    (void)err;
    json_out_init(&out, &reply->body);
    json_open_object(&out);
    json_member_text(&out, "object", "list");
    json_key(&out, "data");
    json_open_list(&out);
    for (size_t i = 0; i < catalogue->model_count; i++)
        if (fleet_serving(fleet, catalogue->models[i]->entry.id) > 0)
            model_put(&out, catalogue->models[i]);
    json_close_list(&out);
    json_close_object(&out);
    fleet_drop(fleet);
    catalogue_drop(catalogue);
    return STATUS_OK;
}

enum status
api_model_get(struct request *request, struct reply *reply, struct error *err)
{
    const struct catalogue_view *catalogue =
        catalogue_take(request->app->snapshots);
    const struct fleet_view *fleet = fleet_take(request->app->snapshots);
    const struct model *model = catalogue_model(catalogue, request->param);
    enum status status = STATUS_OK;
    struct json_out out;

    if (model != NULL && fleet_serving(fleet, request->param) > 0) {
        json_out_init(&out, &reply->body);
        model_put(&out, model);
    } else {
        (void)error_set(err, STATUS_NOT_FOUND,
                        "%s \"%.200s\": GET /v1/models lists those that can "
                        "be served now",
                        model != NULL ? "no node serves the model now:"
                                      : "there is no model",
                        request->param);
        status = error_tag(err, "model_not_found", "model");
    }
    fleet_drop(fleet);
    catalogue_drop(catalogue);
    return status;
}
