/* api_requests.c - wallet, headers and visible row of a job's request. */
#include "coordinator/api_requests.h"

#include <inttypes.h>

#include "coordinator/store_jobs.h"

#include "common/banned.h"

enum status
api_body(const struct request *request, struct json_doc *doc, struct error *err)
{
    struct error inner = {0};

    if (json_doc_parse(request->body.data, request->body.size, doc, &inner) ==
        STATUS_OK)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "the body is no JSON (%.400s): send one object in UTF-8",
                     inner.text);
}

enum status
api_wallet(const struct request *request, int64_t *wallet, struct error *err)
{
    const struct identity_view *view = identity_take(request->app->snapshots);
    const struct account_view *account =
        identity_account(view, request->key.account);
    enum status status = STATUS_OK;

    if (account != NULL)
        *wallet = account->wallet;
    else
        status =
            error_set(err, STATUS_INTERNAL, "key %s has no account %" PRId64,
                      request->key.id, request->key.account);
    identity_drop(view);
    return status;
}

void
api_berth_headers(const struct request *request,
                  struct prepare_headers *headers)
{
    *headers = (struct prepare_headers){
        .pool = request_header(request, "X-Berth-Pool"),
        .class = request_header(request, "X-Berth-Class"),
        .deadline_ms = request_header(request, "X-Berth-Deadline-Ms"),
        .patience_ms = request_header(request, "X-Berth-Patience-Ms"),
        .private = request_header(request, "X-Berth-Private"),
    };
}

enum status
api_job_find(const struct request *request, struct db *db, const char *id,
             struct db_rows **rows, struct error *err)
{
    struct db_rows *found = NULL;
    enum status status = STATUS_OK;

    if (uuid_is_valid(id))
        status = store_job_read(db, id, &found, err);
    if (status != STATUS_OK)
        return status;
    if (found != NULL && db_row_count(found) == 1 &&
        ((request->key.scopes & SCOPE_OPERATOR) != 0 ||
         db_i64(found, 0, JOB_COL_ACCOUNT) == request->key.account)) {
        *rows = found;
        return STATUS_OK;
    }
    db_rows_free(found);
    (void)error_set(err, STATUS_NOT_FOUND,
                    "there is no job %.64s of yours: list them with GET "
                    "/api/v1/jobs",
                    id);
    return error_tag(err, "job_not_found", NULL);
}
