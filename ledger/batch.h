/* batch.h - many writes inside one transaction. Private to ledger. */
#ifndef BERTH_LEDGER_BATCH_H
#define BERTH_LEDGER_BATCH_H

#include "ledger/write.h"

/* Run @count writes, each under a savepoint: one that fails for itself says so
 * and leaves the others alone.  Another status: the transaction has failed. */
MUST_CHECK enum status batch_run(struct db *db, struct write **batch,
                                 size_t count, struct error *err);

#endif
