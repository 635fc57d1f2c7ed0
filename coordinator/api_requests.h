/* api_requests.h - what the handlers about jobs share. */
#ifndef BERTH_COORDINATOR_API_REQUESTS_H
#define BERTH_COORDINATOR_API_REQUESTS_H

#include "coordinator/http.h"
#include "coordinator/prepare.h"
#include "ledger/db.h"

/* The JSON of the body; clear @doc whatever comes back. */
MUST_CHECK enum status api_body(const struct request *request,
                                struct json_doc *doc, struct error *err);
/* The wallet of the key's account. */
MUST_CHECK enum status api_wallet(const struct request *request,
                                  int64_t *wallet, struct error *err);
/* The X-Berth-* headers, borrowed for the request. */
void api_berth_headers(const struct request *request,
                       struct prepare_headers *headers);

/* The row of job @id, when the key may see it; STATUS_NOT_FOUND otherwise.
 * @rows are the caller's to free. */
MUST_CHECK enum status api_job_find(const struct request *request,
                                    struct db *db, const char *id,
                                    struct db_rows **rows, struct error *err);

#endif
