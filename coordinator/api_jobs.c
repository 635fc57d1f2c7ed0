/* api_jobs.c - jobs that outlive their connection: make, look at, cancel. */
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/field.h"
#include "common/mem.h"
#include "coordinator/api.h"
#include "coordinator/api_requests.h"
#include "coordinator/content.h"
#include "coordinator/core.h"
#include "coordinator/job_view.h"
#include "coordinator/store_jobs.h"

#include "common/banned.h"

enum {
    LIST_DEFAULT = 20,
    LIST_MAX = 100,
    KIND_BYTES = 16,
    STATE_BYTES = 16,
    IDEMPOTENCY_MAX_BYTES = 255,
    OPTION_MAX_BYTES = 2048, /* of one of Berth's options as JSON */
};

/* --- one job --- */

static enum status
row_answer(struct request *request, struct db *db, const struct db_rows *rows,
           struct reply *reply, struct error *err)
{
    const struct job_viewer viewer = {
        .app = request->app,
        .db = db,
        .key = &request->key,
        .result = true,
    };
    struct json_out out;

    buf_reset(&reply->body);
    json_out_init(&out, &reply->body);
    snprintf(reply->job, sizeof(reply->job), "%s",
             db_text(rows, 0, JOB_COL_ID));
    return job_view_put(&viewer, rows, 0, &out, err);
}

static enum status
job_answer(struct request *request, const char *id, struct reply *reply,
           struct error *err)
{
    struct db *db = NULL;
    struct db_rows *rows = NULL;
    enum status status = db_lease(request->app->readers, &db, err);

    if (status != STATUS_OK)
        return status;
    status = api_job_find(request, db, id, &rows, err);
    if (status == STATUS_OK)
        status = row_answer(request, db, rows, reply, err);
    db_rows_free(rows);
    db_return(request->app->readers, db);
    return status;
}

enum status
api_job_get(struct request *request, struct reply *reply, struct error *err)
{
    return job_answer(request, request->param, reply, err);
}

/* --- making one --- */

struct creation {
    struct request *request;
    char job[UUID_TEXT_BYTES];
    char key[IDEMPOTENCY_MAX_BYTES + 1]; /* idempotency, "" when none */
    struct buf plain;   /* the request as it is stored, for comparison */
    struct error error; /* status STATUS_OK: admitted */
};

struct create_body {
    char kind[KIND_BYTES];
    const struct json *request;
    const struct json *berth;
    const struct json *callback_url;
};

static const struct field create_fields[] = {
    FIELD(struct create_body, kind, FIELD_TEXT, .required = true, .min = 1),
    FIELD(struct create_body, request, FIELD_TREE, .required = true),
    FIELD(struct create_body, berth, FIELD_TREE, .required = false),
    FIELD(struct create_body, callback_url, FIELD_TREE, .required = false),
};

static void
creation_free(void *state)
{
    struct creation *creation = state;

    buf_clear(&creation->plain);
    free(creation);
}

static enum status
create_decode(const struct json *root, struct create_body *body,
              struct error *err)
{
    enum status status = field_decode(
        root, create_fields, COUNT_OF(create_fields), body, sizeof(*body), err);

    if (status != STATUS_OK)
        return status;
    if (!json_is_null(body->callback_url)) {
        (void)error_set(err, STATUS_INVALID,
                        "callback_url is not supported yet: follow the job's "
                        "events instead");
        return error_tag(err, "unsupported_parameter", "callback_url");
    }
    if (strcmp(body->kind, "chat") != 0 &&
        strcmp(body->kind, "completion") != 0) {
        (void)error_set(err, STATUS_INVALID, "kind must be chat or completion");
        return error_tag(err, NULL, "kind");
    }
    return STATUS_OK;
}

static enum status
idempotency_read(const struct request *request, struct creation *creation,
                 struct error *err)
{
    const char *key = request_header(request, "Idempotency-Key");

    if (key == NULL)
        return STATUS_OK;
    if (key[0] == '\0' || strlen(key) > IDEMPOTENCY_MAX_BYTES ||
        strspn(key, " ") == strlen(key)) {
        (void)error_set(err, STATUS_INVALID,
                        "Idempotency-Key must have 1 to %d bytes",
                        IDEMPOTENCY_MAX_BYTES);
        return error_tag(err, NULL, "Idempotency-Key");
    }
    for (const char *c = key; *c != '\0'; c++) {
        if (*c < ' ' || *c > '~') {
            (void)error_set(err, STATUS_INVALID,
                            "Idempotency-Key must be printable ASCII");
            return error_tag(err, NULL, "Idempotency-Key");
        }
    }
    memcpy(creation->key, key, strlen(key) + 1);
    return STATUS_OK;
}

/* One of Berth's options: the header's value, else the body's. */
static void
option_put(struct json_out *out, const char *name, const char *header,
           bool quoted, const struct json *berth)
{
    const struct json *value = json_get(berth, name);
    struct buf text;

    if (header == NULL && json_is_null(value))
        return;
    json_key(out, name);
    if (header != NULL && quoted) {
        json_put_text(out, header);
        return;
    }
    buf_init(&text, OPTION_MAX_BYTES);
    if (header != NULL)
        buf_append_text(&text, header);
    else
        json_dump(value, &text);
    json_put_raw(out, text.data, text.size);
    buf_clear(&text);
}

/* What is stored: enough to prepare the same job again, headers included. The
 * options have been checked by then. */
static void
plain_write(const struct create_body *body,
            const struct prepare_headers *headers, struct buf *plain)
{
    struct json_out out;
    struct buf request;

    buf_init(&request, JOB_CONTENT_MAX_BYTES);
    json_dump(body->request, &request);
    json_out_init(&out, plain);
    json_open_object(&out);
    json_member_text(&out, "kind", body->kind);
    json_key(&out, "request");
    json_put_raw(&out, request.data, request.size);
    json_key(&out, "berth");
    json_open_object(&out);
    option_put(&out, "pool", headers->pool, true, body->berth);
    option_put(&out, "class", headers->class, true, body->berth);
    option_put(&out, "deadline_ms", headers->deadline_ms, false, body->berth);
    option_put(&out, "patience_ms", headers->patience_ms, false, body->berth);
    option_put(&out, "private", headers->private, false, body->berth);
    json_close_object(&out);
    json_close_object(&out);
    if (request.overflowed)
        plain->overflowed = true;
    buf_clear(&request);
}

static enum status
same_request(struct request *request, const struct creation *creation,
             const struct db_rows *rows, struct error *err)
{
    struct buf stored;
    bool differs;

    buf_init(&stored, JOB_CONTENT_MAX_BYTES);
    /* After its retention the request cannot be compared: the key decides. */
    differs = job_view_unseal(request->app, rows, 0, JOB_COL_REQUEST, &stored,
                              NULL) == STATUS_OK &&
              (stored.size != creation->plain.size ||
               memcmp(stored.data, creation->plain.data, stored.size) != 0);
    buf_clear(&stored);
    if (!differs)
        return STATUS_OK;
    (void)error_set(err, STATUS_CONFLICT,
                    "this Idempotency-Key was used for another request: use a "
                    "new key");
    return error_tag(err, "idempotency_key_reused", "Idempotency-Key");
}

/* The job that this idempotency key made before, if any. */
static enum status
repeat_answer(struct request *request, const struct creation *creation,
              struct reply *reply, bool *found, struct error *err)
{
    struct db *db = NULL;
    struct db_rows *rows = NULL;
    enum status status;

    *found = false;
    if (creation->key[0] == '\0')
        return STATUS_OK;
    status = db_lease(request->app->readers, &db, err);
    if (status != STATUS_OK)
        return status;
    status =
        store_job_repeat(db, request->key.account, creation->key, &rows, err);
    if (status == STATUS_OK && db_row_count(rows) == 1) {
        *found = true;
        status = same_request(request, creation, rows, err);
        if (status == STATUS_OK)
            status = row_answer(request, db, rows, reply, err);
        reply->status = 202;
    }
    db_rows_free(rows);
    db_return(request->app->readers, db);
    return status;
}

static enum status
on_created(struct request *request, struct reply *reply, struct error *err)
{
    const struct creation *creation = request->state;
    enum status status;
    bool found = false;

    if (creation->error.status == STATUS_CONFLICT) {
        status = repeat_answer(request, creation, reply, &found, err);
        if (found || status != STATUS_OK)
            return status;
    }
    if (creation->error.status != STATUS_OK) {
        *err = creation->error;
        return err->status;
    }
    reply->status = 202;
    return job_answer(request, creation->job, reply, err);
}

/* On the core thread: the hold is committed, or it is not. */
static void
job_admitted(void *arg, const struct error *err)
{
    struct creation *creation = arg;

    if (err != NULL)
        creation->error = *err;
    request_resume(creation->request);
}

static enum status
job_prepare(struct request *request, const struct create_body *body,
            struct creation *creation, struct job **job, struct error *err)
{
    struct prepared prepared = {0};
    struct prepare from = {
        .app = request->app,
        .account = request->key.account,
        .key = request->key.id,
        .chat = strcmp(body->kind, "chat") == 0,
        .body = body->request,
        .berth = body->berth,
    };
    enum status status = api_wallet(request, &from.wallet, err);

    api_berth_headers(request, &from.headers);
    if (status == STATUS_OK)
        status = prepare_job(&from, &prepared, err);
    if (status != STATUS_OK)
        return status;
    plain_write(body, &from.headers, &creation->plain);
    status = buf_status(&creation->plain, err);
    if (status != STATUS_OK) {
        job_free(prepared.job);
        return status;
    }
    *job = prepared.job;
    return STATUS_OK;
}

static enum status
job_seal(struct request *request, struct creation *creation, struct job *job,
         struct error *err)
{
    job->outlives = true;
    memcpy(job->idempotency_key, creation->key, sizeof(creation->key));
    content_day(job->created, job->content_day);
    memcpy(creation->job, job->id, sizeof(creation->job));
    job->on_admitted = job_admitted;
    job->arg = creation;
    return content_seal(request->app->content, job->content_day, job->id,
                        creation->plain.data, creation->plain.size,
                        &job->request, err);
}

static enum status
create(struct request *request, const struct create_body *body,
       struct reply *reply, struct error *err)
{
    struct creation *creation = request->state;
    struct job *job = NULL;
    bool found = false;
    enum status status = idempotency_read(request, creation, err);

    if (status == STATUS_OK)
        status = job_prepare(request, body, creation, &job, err);
    if (status == STATUS_OK)
        status = repeat_answer(request, creation, reply, &found, err);
    if (status == STATUS_OK && !found)
        status = job_seal(request, creation, job, err);
    if (status != STATUS_OK || found) {
        job_free(job);
        return status;
    }
    request->on_resumed = on_created;
    request_suspend(request);
    core_submit(request->app->core, job);
    return STATUS_OK;
}

enum status
api_jobs_create(struct request *request, struct reply *reply, struct error *err)
{
    struct creation *creation = mem_alloc(sizeof(*creation));
    struct create_body body = {0};
    struct json_doc doc = {0};
    enum status status;

    creation->request = request;
    buf_init(&creation->plain, JOB_CONTENT_MAX_BYTES);
    request->state = creation;
    request->state_free = creation_free;
    status = api_body(request, &doc, err);
    if (status == STATUS_OK)
        status = create_decode(doc.root, &body, err);
    if (status == STATUS_OK)
        status = create(request, &body, reply, err);
    json_doc_clear(&doc);
    return status;
}

/* --- cancelling --- */

struct cancelling {
    struct request *request;
    enum status status;
};

static void
on_cancelled(void *arg, enum status status)
{
    struct cancelling *cancelling = arg;

    cancelling->status = status;
    request_resume(cancelling->request);
}

static enum status
already_ended(struct error *err)
{
    (void)error_set(err, STATUS_CONFLICT,
                    "the job has ended already, or is just ending: GET it "
                    "to see how");
    return error_tag(err, "job_ended", NULL);
}

static enum status
on_cancel_over(struct request *request, struct reply *reply, struct error *err)
{
    const struct cancelling *cancelling = request->state;

    if (cancelling->status == STATUS_CONFLICT)
        return already_ended(err);
    return job_answer(request, request->param, reply, err);
}

static enum status
is_cancellable(struct request *request, struct error *err)
{
    struct db *db = NULL;
    struct db_rows *rows = NULL;
    enum status status = db_lease(request->app->readers, &db, err);

    if (status != STATUS_OK)
        return status;
    status = api_job_find(request, db, request->param, &rows, err);
    if (status == STATUS_OK && !db_is_null(rows, 0, JOB_COL_ENDED))
        status = already_ended(err);
    db_rows_free(rows);
    db_return(request->app->readers, db);
    return status;
}

enum status
api_job_cancel(struct request *request, struct reply *reply, struct error *err)
{
    struct cancelling *cancelling;
    enum status status = is_cancellable(request, err);

    (void)reply;
    if (status != STATUS_OK)
        return status;
    cancelling = mem_alloc(sizeof(*cancelling));
    cancelling->request = request;
    request->state = cancelling;
    request->state_free = free;
    request->on_resumed = on_cancel_over;
    request_suspend(request);
    core_cancel_answer(request->app->core, request->param, "asked",
                       on_cancelled, cancelling);
    return STATUS_OK;
}

/* --- the list --- */

struct list_query {
    int64_t account; /* 0: all */
    char state[STATE_BYTES];
    char model[CATALOGUE_ID_BYTES];
    char cursor[UUID_TEXT_BYTES];
    uint64_t limit;
};

static enum status
query_refuse(struct error *err, const char *name, const char *what)
{
    (void)error_set(err, STATUS_INVALID, "%s must be %s", name, what);
    return error_tag(err, NULL, name);
}

static bool
is_state(const char *text)
{
    static const char *const states[] = {"queued", "running",   "done",
                                         "failed", "cancelled", "quarantined"};

    for (size_t i = 0; i < COUNT_OF(states); i++)
        if (strcmp(states[i], text) == 0)
            return true;
    return false;
}

static enum status
query_read(const struct request *request, struct list_query *query,
           struct error *err)
{
    const char *state = request_query(request, "state");
    const char *model = request_query(request, "model");
    const char *cursor = request_query(request, "cursor");
    const char *limit = request_query(request, "limit");
    const char *all = request_query(request, "all");

    *query = (struct list_query){
        .account = request->key.account,
        .limit = LIST_DEFAULT,
    };
    if (state != NULL && !is_state(state))
        return query_refuse(err, "state",
                            "queued, running, done, failed, cancelled or "
                            "quarantined");
    if (model != NULL && !catalogue_id_is_valid(model))
        return query_refuse(err, "model", "the id of a model");
    if (cursor != NULL && !uuid_is_valid(cursor))
        return query_refuse(err, "cursor", "the \"next\" of a list before it");
    if (limit != NULL && (parse_u64(limit, strlen(limit), LIST_MAX,
                                    &query->limit) != STATUS_OK ||
                          query->limit == 0))
        return query_refuse(err, "limit", "a number from 1 to 100");
    if (all != NULL && strcmp(all, "1") == 0) {
        if ((request->key.scopes & SCOPE_OPERATOR) == 0) {
            (void)error_set(err, STATUS_DENIED,
                            "the jobs of all accounts need a key with the "
                            "scope operator: leave all out for your own");
            return error_tag(err, "scope_missing", "all");
        }
        query->account = 0;
    }
    snprintf(query->state, sizeof(query->state), "%s", state ? state : "");
    snprintf(query->model, sizeof(query->model), "%s", model ? model : "");
    snprintf(query->cursor, sizeof(query->cursor), "%s", cursor ? cursor : "");
    return STATUS_OK;
}

static enum status
list_put(const struct job_viewer *viewer, const struct db_rows *rows,
         uint64_t limit, struct reply *reply, struct error *err)
{
    size_t count = db_row_count(rows);
    bool more = count > limit;
    enum status status = STATUS_OK;
    struct json_out out;

    if (more)
        count = (size_t)limit;
    json_out_init(&out, &reply->body);
    json_open_object(&out);
    json_member_text(&out, "object", "list");
    json_key(&out, "data");
    json_open_list(&out);
    for (size_t i = 0; status == STATUS_OK && i < count; i++)
        status = job_view_put(viewer, rows, i, &out, err);
    if (status != STATUS_OK)
        return status;
    json_close_list(&out);
    json_member_text(&out, "next",
                     more ? db_text(rows, count - 1, JOB_COL_ID) : NULL);
    json_close_object(&out);
    return STATUS_OK;
}

enum status
api_jobs_list(struct request *request, struct reply *reply, struct error *err)
{
    struct job_viewer viewer = {.app = request->app, .key = &request->key};
    struct list_query query;
    struct db_rows *rows = NULL;
    enum status status = query_read(request, &query, err);

    if (status == STATUS_OK)
        status = db_lease(request->app->readers, &viewer.db, err);
    if (status != STATUS_OK)
        return status;
    status = store_jobs_list(viewer.db, query.account, query.state, query.model,
                             query.cursor, query.limit + 1, &rows, err);
    if (status == STATUS_OK)
        status = list_put(&viewer, rows, query.limit, reply, err);
    db_rows_free(rows);
    db_return(request->app->readers, viewer.db);
    return status;
}
