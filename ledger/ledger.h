/* ledger.h - accounts, holds, settlement: statements to add to a write.
 *
 * Everything that moves money is one of these; each is idempotent by id.  They
 * only add to a struct write (ledger/writer.h), so that a job's row and its
 * hold are one write.  What can fail is answered to the write's on_done:
 * STATUS_NO_FUNDS (with needed and available amounts in the text),
 * STATUS_CONFLICT (same id, other content).  Reads take a leased connection. */
#ifndef BERTH_LEDGER_LEDGER_H
#define BERTH_LEDGER_LEDGER_H

#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/error.h"
#include "common/units.h"
#include "ledger/db.h"
#include "ledger/price.h"
#include "ledger/settlement.h"
#include "ledger/writer.h"

/* Kinds of ledger account (docs/ledger.md). */
enum ledger_kind {
    LEDGER_WALLET = 1,    /* of a submitter, floor 0 */
    LEDGER_AVAILABLE = 2, /* of an owner, floor 0 */
    LEDGER_MATURING = 3,  /* of a node, floor 0 */
    LEDGER_TREASURY = 4,  /* may go below 0 */
    LEDGER_FEE = 5,
};

/* Treasury and fee account have fixed ids, made by the migration. */
enum { LEDGER_TREASURY_ID = 1, LEDGER_FEE_ID = 2 };

/* The wallet and available account of person @owner (berth.account.id), made
 * when missing. The row answers (wallet id, available id). */
void ledger_person_open(struct write *write, int64_t owner);
/* The maturing account of node @node of @owner, made when missing; the row
 * answers its id. */
void ledger_node_open(struct write *write, int64_t owner, const char *node);

/* Reserve @amount of @wallet under id @job; the answer is checked. */
void ledger_hold(struct write *write, uint64_t epoch, const char *job,
                 int64_t wallet, struct credits amount,
                 uint32_t price_revision);
/* End a hold by charge with the legs and earnings of @result; stores the
 * record bytes. */
void ledger_settle(struct write *write, uint64_t epoch,
                   const struct settlement *settlement,
                   const struct settlement_result *result,
                   const struct buf *record);
/* End a hold without a charge. */
void ledger_release(struct write *write, uint64_t epoch, const char *job);
/* Treasury to a person's wallet under the idempotency key @id (a UUID). */
void ledger_grant(struct write *write, uint64_t epoch, const char *id,
                  int64_t wallet, struct credits amount);

struct ledger_balance {
    struct credits available; /* wallet and available accounts, free to spend */
    struct credits held;
    struct credits maturing; /* of all nodes of the person */
};
MUST_CHECK enum status ledger_balance_read(struct db *db, int64_t owner,
                                           struct ledger_balance *balance,
                                           struct error *err);

/* One row of an earnings page. */
enum earnings_by {
    EARNINGS_BY_NODE,
    EARNINGS_BY_POD,
    EARNINGS_BY_OWNER,
    EARNINGS_BY_MODEL,
    EARNINGS_BY_DAY,
};
struct earnings_row {
    char id[160];   /* node or pod id, owner's number, model id, day */
    char name[160]; /* of the node or owner, "" else */
    struct credits credits;
    struct credits reprefill; /* of credits: paid out of fees */
    uint64_t jobs;
    uint64_t prompt_tokens;
    uint64_t completion_tokens;
};
/* Rows of one grouping, largest credits first (days: ascending), for @owner or
 * for all when 0, earned in [from, to) (0: open). A job's tokens are counted
 * once per grouping row: prompt tokens with the attempt that prefilled. @rows
 * is heap, free(). */
MUST_CHECK enum status ledger_earnings(struct db *db, enum earnings_by by,
                                       int64_t owner, struct instant from,
                                       struct instant to,
                                       struct earnings_row **rows,
                                       size_t *count, struct error *err);

/* Rows of the violation view: how many, and the first few as text. */
MUST_CHECK enum status ledger_check(struct db *db, uint64_t *violations,
                                    struct buf *text, struct error *err);
/* Holds that are open: job ids, for the coordinator's start. */
MUST_CHECK enum status ledger_open_holds(struct db *db, struct db_rows **rows,
                                         struct error *err);

#endif
