/* api_catalogue.c - catalogue entries and their kept files. */
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/field.h"
#include "common/log.h"
#include "common/mem.h"
#include "coordinator/admin.h"
#include "coordinator/api_requests.h"
#include "coordinator/api.h"
#include "coordinator/models.h"
#include "coordinator/view_json.h"

#include "common/banned.h"

enum status
api_catalogue_list(struct request *request, struct reply *reply,
                   struct error *err)
{
    const struct catalogue_view *view = catalogue_take(request->app->snapshots);
    const struct fleet_view *fleet = fleet_take(request->app->snapshots);
    struct json_out out;

    (void)err;
    json_out_init(&out, &reply->body);
    json_list_open(&out);
    for (size_t i = 0; i < view->model_count; i++)
        json_catalogue_entry(&out, view->models[i],
                             fleet_serving(fleet, view->models[i]->entry.id));
    json_list_close(&out, NULL);
    fleet_drop(fleet);
    catalogue_drop(view);
    return STATUS_OK;
}

static enum status
entry_write(const struct request *request, const char *id, struct reply *reply,
            struct error *err)
{
    const struct catalogue_view *view = catalogue_take(request->app->snapshots);
    const struct fleet_view *fleet = fleet_take(request->app->snapshots);
    const struct model *model = catalogue_model(view, id);
    enum status status = STATUS_OK;
    struct json_out out;

    if (model == NULL) {
        (void)error_set(err, STATUS_NOT_FOUND,
                        "%.100s is not in the catalogue: see GET "
                        "/api/v1/catalogue, or add it with `berth models add`",
                        id);
        status = error_tag(err, "model_not_found", NULL);
    } else {
        buf_reset(&reply->body);
        json_out_init(&out, &reply->body);
        json_catalogue_entry(&out, model, fleet_serving(fleet, id));
    }
    fleet_drop(fleet);
    catalogue_drop(view);
    return status;
}

enum status
api_catalogue_get(struct request *request, struct reply *reply,
                  struct error *err)
{
    return entry_write(request, request->param, reply, err);
}

struct add_body {
    const struct json *entry;
    const struct json *files;
};

static const struct field add_fields[] = {
    FIELD(struct add_body, entry, FIELD_TREE, .required = true),
    FIELD(struct add_body, files, FIELD_TREE, .required = true),
};

struct add_call {
    struct request *request;
    struct model *model;
    struct model_files files;
};

static void
add_free(struct add_call *call)
{
    model_drop(call->model);
    model_files_clear(&call->files);
    free(call);
}

static void
on_added(void *arg, const struct error *err)
{
    struct add_call *call = arg;
    struct request *request = call->request;
    struct error lost = {0};

    if (err != NULL) {
        request_fail(request, err);
    } else if (entry_write(request, call->model->entry.id, &request->reply,
                           &lost) != STATUS_OK) {
        request_fail(request, &lost);
    } else {
        request->reply.status = 201;
        log_info("model.added", "model=%s digest=%s", call->model->entry.id,
                 call->model->entry.digest);
        request_resume(request);
    }
    add_free(call);
}

static enum status
files_read(const struct json *files, struct model_files *to, struct error *err)
{
    if (json_kind(files) != JSON_KIND_OBJECT)
        return error_set(err, STATUS_INVALID,
                         "/files: must be an object of file names and their "
                         "texts");
    for (size_t i = 0; i < MODEL_FILES; i++) {
        const char *name = model_file_name(i);
        const struct json *value = json_get(files, name);
        size_t size = 0;
        const char *text = json_as_text(value, &size);

        if (json_is_null(value))
            continue;
        if (text == NULL)
            return error_set(err, STATUS_INVALID, "/files/%s: must be a text",
                             name);
        buf_append(model_file(to, i), text, size);
        if (buf_status(model_file(to, i), NULL) != STATUS_OK)
            return error_set(
                err, STATUS_TOO_LARGE,
                "/files/%s: %zu bytes, and at most %zu are kept: choose "
                "a model with a smaller one",
                name, size, model_file(to, i)->max);
    }
    return STATUS_OK;
}

static enum status
add_decode(const struct json *root, struct add_call *call, struct error *err)
{
    struct add_body body = {.entry = NULL};
    struct catalogue_entry entry = {.id = ""};
    enum status status = field_decode(root, add_fields, COUNT_OF(add_fields),
                                      &body, sizeof(body), err);

    if (status == STATUS_OK)
        status =
            field_decode(body.entry, catalogue_fields, catalogue_field_count,
                         &entry, sizeof(entry), err);
    if (status == STATUS_OK && !catalogue_id_is_valid(entry.id))
        status =
            error_set(err, STATUS_INVALID,
                      "/entry/id: must be of letters, digits and . _ - / :");
    if (status == STATUS_OK)
        status = files_read(body.files, &call->files, err);
    if (status == STATUS_OK)
        status =
            model_make(&entry, clock_wall(), &call->files, &call->model, err);
    return status;
}

/* Already there: *same with the same files, STATUS_CONFLICT with others. */
static enum status
present(const struct request *request, const struct catalogue_entry *entry,
        bool *same, struct error *err)
{
    const struct catalogue_view *view = catalogue_take(request->app->snapshots);
    const struct model *model = catalogue_model(view, entry->id);
    enum status status = STATUS_OK;

    *same = model != NULL && strcmp(model->entry.digest, entry->digest) == 0;
    if (model != NULL && !*same) {
        (void)error_set(err, STATUS_CONFLICT,
                        "%s is in the catalogue with other files (digest "
                        "%.12s...): remove it first, or choose another --id",
                        entry->id, model->entry.digest);
        status = error_tag(err, "model_exists", "id");
    }
    catalogue_drop(view);
    return status;
}

enum status
api_catalogue_add(struct request *request, struct reply *reply,
                  struct error *err)
{
    struct add_call *call = mem_alloc(sizeof(*call));
    struct json_doc doc = {0};
    bool same = false;
    enum status status = api_body(request, &doc, err);

    call->request = request;
    model_files_init(&call->files);
    if (status == STATUS_OK)
        status = add_decode(doc.root, call, err);
    json_doc_clear(&doc);
    if (status == STATUS_OK)
        status = present(request, &call->model->entry, &same, err);
    if (status == STATUS_OK && same)
        status = entry_write(request, call->model->entry.id, reply, err);
    if (status != STATUS_OK || same) {
        add_free(call);
        return status;
    }
    request_suspend(request);
    admin_model_add(request->app, call->model, &call->files, on_added, call);
    return STATUS_OK;
}

static void
on_removed(void *arg, const struct error *err)
{
    struct request *request = arg;

    if (err != NULL)
        request_fail(request, err);
    else
        request_resume(request); /* the body was written before */
}

enum status
api_catalogue_remove(struct request *request, struct reply *reply,
                     struct error *err)
{
    enum status status = entry_write(request, request->param, reply, err);

    if (status != STATUS_OK)
        return status;
    request_suspend(request);
    admin_model_remove(request->app, request->param, on_removed, request);
    return STATUS_OK;
}
