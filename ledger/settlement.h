/* settlement.h - the settlement record: the coordinator's canonical account of
 * a job's end, and the legs that follow from it.
 *
 * The record is bytes with one spelling (canonical JSON: members in a fixed
 * order, integers only, no blanks); its SHA-256 is hold_end.receipt.  Anyone
 * with the record, the price revision and the catalogue entry can recompute
 * price, split and legs.  Pure; no floating point.
 *
 * Division (design: a stream that survives): the prefill term goes to the
 * attempt whose prefill led to the first delivered id, the decode term by ids
 * delivered; the fee is taken first from the whole, and out of it the later
 * attempts that delivered are paid for reading prompt and answer again; each
 * attempt's part is split over its members by weight. */
#ifndef BERTH_LEDGER_SETTLEMENT_H
#define BERTH_LEDGER_SETTLEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "common/cert.h"
#include "common/error.h"
#include "common/units.h"
#include "ledger/price.h"

enum {
    SETTLEMENT_ATTEMPTS_MAX = 32,
    SETTLEMENT_MEMBERS_MAX = 4,
    SETTLEMENT_LEGS_MAX =
        1 + 2 * SETTLEMENT_ATTEMPTS_MAX * SETTLEMENT_MEMBERS_MAX,
};

struct settlement_member {
    char node[UUID_TEXT_BYTES];
    int64_t account; /* ledger account of the node (maturing) */
    uint64_t weight;
};

struct settlement_attempt {
    uint32_t number;
    char pod[UUID_TEXT_BYTES]; /* "" for a single node */
    uint64_t done;             /* ids of the answer it was given at its start */
    uint64_t ids;              /* delivered by this attempt */
    char end_reason[24];       /* done, cancelled, node_lost, ... */
    struct settlement_member members[SETTLEMENT_MEMBERS_MAX];
    size_t member_count;
};

struct settlement {
    char job[UUID_TEXT_BYTES];
    char model[128];
    char model_digest[SHA256_HEX_BYTES];
    int64_t payer; /* ledger account: the submitter's wallet */
    uint64_t n_in, n_cached, n_out, context;
    char finish[16]; /* stop, length, cancelled, failed */
    struct price_revision revision;
    struct price_model price_model;
    struct settlement_attempt attempts[SETTLEMENT_ATTEMPTS_MAX];
    size_t attempt_count;
};

/* What the members of one attempt got together, by term. */
struct settlement_share {
    struct credits prefill;
    struct credits decode;
    struct credits reprefill; /* out of the fee */
};

struct settlement_leg {
    int16_t code;          /* 10 job earning, 11 network fee, 12 re-prefill */
    int64_t account;       /* credited */
    struct credits amount; /* > 0 */
    /* of an earning or re-prefill leg: */
    uint32_t attempt;
    char node[UUID_TEXT_BYTES];
    char pod[UUID_TEXT_BYTES];
    uint64_t weight;
};

struct settlement_result {
    struct price price;
    struct settlement_share shares[SETTLEMENT_ATTEMPTS_MAX];
    struct settlement_leg legs[SETTLEMENT_LEGS_MAX];
    size_t leg_count;             /* the legs sum to price.total exactly */
    uint8_t digest[SHA256_BYTES]; /* of the canonical bytes */
};

/* @fee_account: ledger account of the network's fee.  sum of attempts' ids
 * must equal n_out and n_out > 0 (nothing delivered is a release, not a
 * settlement), and no attempt may have been given more ids than the earlier
 * ones delivered: STATUS_INVALID else. @record: the canonical bytes, appended.
 */
MUST_CHECK enum status settlement_compute(const struct settlement *settlement,
                                          int64_t fee_account,
                                          struct settlement_result *result,
                                          struct buf *record,
                                          struct error *err);

#endif
