/* adopt.h - the jobs that an earlier reign left without an end.
 *
 * A job of a lost /v1 connection is cancelled and its hold released, reason
 * network_fault.  A job of /api/v1/jobs is prepared again from its stored
 * request and waits for a target under its old hold. */
#ifndef BERTH_COORDINATOR_ADOPT_H
#define BERTH_COORDINATOR_ADOPT_H

#include "common/attrs.h"
#include "common/error.h"
#include "coordinator/app.h"
#include "ledger/db.h"

/* Before the core runs; the jobs are submitted to it. */
MUST_CHECK enum status adopt_jobs(struct app *app, struct db *db,
                                  struct error *err);

#endif
