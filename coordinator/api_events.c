/* api_events.c - the events of a job, live or rebuilt from what is stored. */
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "coordinator/api.h"
#include "coordinator/api_requests.h"
#include "coordinator/core.h"
#include "coordinator/job_view.h"
#include "coordinator/sse.h"
#include "coordinator/store_jobs.h"

#include "common/banned.h"

enum { WHOLE_ATTEMPT = 1 };

static enum status
not_kept(struct error *err)
{
    (void)error_set(err, STATUS_NOT_FOUND,
                    "the events of this job are not kept (any more): GET the "
                    "job tells how it ended");
    return error_tag(err, "events_not_kept", NULL);
}

static enum status
sealed_parse(struct app *app, const struct db_rows *rows, int column,
             struct json_doc *doc, struct error *err)
{
    struct buf plain;
    enum status status;

    buf_init(&plain, JOB_CONTENT_MAX_BYTES);
    status = job_view_unseal(app, rows, 0, column, &plain, NULL);
    if (status == STATUS_OK)
        status = json_doc_parse(plain.data, plain.size, doc, NULL);
    buf_clear(&plain);
    return status == STATUS_OK ? STATUS_OK : not_kept(err);
}

/* An empty record under the rules of the stored request. */
static enum status
record_like(struct app *app, const struct db_rows *rows,
            const struct json *stored, struct record **record,
            struct error *err)
{
    struct prepared prepared = {0};
    const struct prepare from = {
        .app = app,
        .account = db_i64(rows, 0, JOB_COL_ACCOUNT),
        .key = db_text(rows, 0, JOB_COL_KEY),
        .job = db_text(rows, 0, JOB_COL_ID),
        .chat = strcmp(db_text(rows, 0, JOB_COL_KIND), "chat") == 0,
        .body = json_get(stored, "request"),
    };

    /* The model may have left the catalogue. */
    if (prepare_job(&from, &prepared, NULL) != STATUS_OK)
        return not_kept(err);
    *record = record_keep(prepared.job->record);
    job_free(prepared.job);
    return STATUS_OK;
}

/* The same ids give the same events, whenever they are asked for. */
static void
ids_replay(struct record *record, const struct json *list)
{
    record_attempt(record, WHOLE_ATTEMPT, 0);
    for (size_t i = 0; i < json_count(list); i++) {
        int64_t number;
        uint32_t id;

        if (json_as_i64(json_at(list, i), &number) != STATUS_OK || number < 0 ||
            number > UINT32_MAX)
            return;
        id = (uint32_t)number;
        if (record_push(record, WHOLE_ATTEMPT, i, &id, 1, clock_monotonic()) !=
            RECORD_TAKEN)
            return;
    }
}

static enum status
record_rebuild(struct app *app, const struct db_rows *rows,
               struct record **record, struct error *err)
{
    struct json_doc request = {0}, result = {0};
    struct record_end end;
    enum status status;

    job_view_end(rows, 0, &end);
    if (!end.ended)
        return not_kept(err); /* a /v1 job: its own connection has them */
    status = sealed_parse(app, rows, JOB_COL_REQUEST, &request, err);
    if (status == STATUS_OK)
        status = sealed_parse(app, rows, JOB_COL_RESULT, &result, err);
    if (status == STATUS_OK)
        status = record_like(app, rows, request.root, record, err);
    if (status == STATUS_OK) {
        ids_replay(*record, json_get(result.root, "ids"));
        record_finish(*record, &end);
    }
    json_doc_clear(&request);
    json_doc_clear(&result);
    return status;
}

static enum status
first_index(const struct request *request, size_t *first, struct error *err)
{
    const char *last = request_header(request, "Last-Event-ID");
    uint64_t index;

    *first = 0;
    if (last == NULL || last[0] == '\0')
        return STATUS_OK;
    if (parse_u64(last, strlen(last), RECORD_MAX_BYTES, &index) != STATUS_OK) {
        (void)error_set(err, STATUS_INVALID,
                        "Last-Event-ID must be the id of an event of this "
                        "job: leave it out to begin at the first");
        return error_tag(err, NULL, "Last-Event-ID");
    }
    *first = (size_t)index + 1;
    return STATUS_OK;
}

static enum status
record_find(struct request *request, struct record **record, struct error *err)
{
    struct app *app = request->app;
    struct db *db = NULL;
    struct db_rows *rows = NULL;
    enum status status = db_lease(app->readers, &db, err);

    if (status != STATUS_OK)
        return status;
    status = api_job_find(request, db, request->param, &rows, err);
    db_return(app->readers, db);
    if (status == STATUS_OK) {
        *record = core_record(app->core, request->param);
        if (*record == NULL)
            status = record_rebuild(app, rows, record, err);
    }
    db_rows_free(rows);
    return status;
}

enum status
api_job_events(struct request *request, struct reply *reply, struct error *err)
{
    struct sse_options options = {.events = true};
    struct record *record = NULL;
    enum status status = first_index(request, &options.first, err);

    if (status == STATUS_OK)
        status = record_find(request, &record, err);
    if (status != STATUS_OK)
        return status;
    memcpy(reply->job, request->param, sizeof(reply->job)); /* a UUID */
    reply->stream = sse_new(request, record, &options);
    record_drop(record);
    return STATUS_OK;
}
