/* job_view.h - a job as /api/v1 shows it, from its rows.
 *
 * What a reader sees of targets depends on the key: names and ids of nodes are
 * for operators and the nodes' owners. On HTTP threads. */
#ifndef BERTH_COORDINATOR_JOB_VIEW_H
#define BERTH_COORDINATOR_JOB_VIEW_H

#include <stdbool.h>
#include <stddef.h>

#include "common/attrs.h"
#include "common/error.h"
#include "common/json.h"
#include "coordinator/app.h"
#include "coordinator/record.h"
#include "coordinator/snapshot.h"
#include "ledger/db.h"

enum { JOB_CONTENT_MAX_BYTES = 16 * 1024 * 1024 };

struct job_viewer {
    struct app *app;
    struct db *db;              /* leased, for the attempts */
    const struct key_view *key; /* who looks */
    bool result;                /* with the stored result */
};

/* Write row @row of @rows (columns of enum job_column) as a JSON object. */
MUST_CHECK enum status job_view_put(const struct job_viewer *viewer,
                                    const struct db_rows *rows, size_t row,
                                    struct json_out *out, struct error *err);

/* A sealed column (JOB_COL_REQUEST or JOB_COL_RESULT) as text, appended.
 * STATUS_NOT_FOUND when it is not kept (any more). */
MUST_CHECK enum status job_view_unseal(struct app *app,
                                       const struct db_rows *rows, size_t row,
                                       int column, struct buf *out,
                                       struct error *err);

/* How an ended job's row says that it ended. */
void job_view_end(const struct db_rows *rows, size_t row,
                  struct record_end *end);

#endif
