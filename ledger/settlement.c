/* settlement.c - record and legs of a job's end. */
#include "ledger/settlement.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "ledger/split.h"

#include "common/banned.h"

enum {
    CODE_EARNING = 10,
    CODE_FEE = 11,
    CODE_REPREFILL = 12,
    RECORD_VERSION = 2,
};

/* --- what may be settled -------------------------------------------------- */

/* The record has no escapes, hence only texts that need none: one spelling. */
static bool
is_plain(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text < ' ' || *text > '~' || *text == '"' || *text == '\\')
            return false;
    return true;
}

static enum status
check_member(const struct settlement_member *member, struct error *err)
{
    if (!uuid_is_valid(member->node))
        return error_set(err, STATUS_INVALID, "a member's node is no UUID");
    if (member->account <= 0)
        return error_set(err, STATUS_INVALID, "node %s has no account",
                         member->node);
    return STATUS_OK;
}

static enum status
check_attempt(const struct settlement_attempt *attempt, uint32_t before,
              struct error *err)
{
    enum status status = STATUS_OK;

    if (attempt->number <= before)
        return error_set(err, STATUS_INVALID,
                         "attempt numbers must ascend from 1");
    if (attempt->member_count == 0 ||
        attempt->member_count > SETTLEMENT_MEMBERS_MAX)
        return error_set(err, STATUS_INVALID,
                         "attempt %" PRIu32 " has %zu members", attempt->number,
                         attempt->member_count);
    if (attempt->pod[0] != '\0' && !uuid_is_valid(attempt->pod))
        return error_set(err, STATUS_INVALID,
                         "attempt %" PRIu32 " names a pod that is no UUID",
                         attempt->number);
    if (!is_plain(attempt->end_reason))
        return error_set(err, STATUS_INVALID, "an end reason is not plain");
    for (size_t i = 0; status == STATUS_OK && i < attempt->member_count; i++)
        status = check_member(&attempt->members[i], err);
    return status;
}

static enum status
check_attempts(const struct settlement *settlement, struct error *err)
{
    enum status status = STATUS_OK;
    uint32_t before = 0;
    uint64_t left = settlement->n_out;
    bool adds_up = true;

    for (size_t i = 0; status == STATUS_OK && i < settlement->attempt_count;
         i++) {
        const struct settlement_attempt *attempt = &settlement->attempts[i];

        status = check_attempt(attempt, before, err);
        before = attempt->number;
        if (status == STATUS_OK && attempt->done > settlement->n_out - left)
            status = error_set(err, STATUS_INVALID,
                               "attempt %" PRIu32 " was given %" PRIu64
                               " ids, more than were delivered before it",
                               attempt->number, attempt->done);
        adds_up = adds_up && attempt->ids <= left;
        left -= adds_up ? attempt->ids : 0;
    }
    if (status != STATUS_OK)
        return status;
    if (!adds_up || left != 0)
        return error_set(err, STATUS_INVALID,
                         "the attempts' ids do not add up to %" PRIu64,
                         settlement->n_out);
    return STATUS_OK;
}

static enum status
check_settlement(const struct settlement *settlement, struct error *err)
{
    if (!uuid_is_valid(settlement->job))
        return error_set(err, STATUS_INVALID, "the job is no UUID");
    if (settlement->n_out == 0)
        return error_set(err, STATUS_INVALID,
                         "nothing was delivered: release the hold");
    if (settlement->attempt_count == 0 ||
        settlement->attempt_count > SETTLEMENT_ATTEMPTS_MAX)
        return error_set(err, STATUS_INVALID, "%zu attempts",
                         settlement->attempt_count);
    if (!is_plain(settlement->model) || !is_plain(settlement->model_digest) ||
        !is_plain(settlement->finish))
        return error_set(err, STATUS_INVALID,
                         "a text of the settlement is not plain");
    return check_attempts(settlement, err);
}

/* --- the record ----------------------------------------------------------- */

static void
attempt_write(const struct settlement_attempt *attempt,
              const struct settlement_share *share, struct buf *record)
{
    buf_printf(record, "{\"number\":%" PRIu32 ",\"pod\":", attempt->number);
    if (attempt->pod[0] == '\0')
        buf_append_text(record, "null");
    else
        buf_printf(record, "\"%s\"", attempt->pod);
    buf_printf(record,
               ",\"done\":%" PRIu64 ",\"ids\":%" PRIu64
               ",\"end_reason\":\"%s\"",
               attempt->done, attempt->ids, attempt->end_reason);
    buf_printf(record,
               ",\"prefill_ucr\":%" PRId64 ",\"decode_ucr\":%" PRId64
               ",\"reprefill_ucr\":%" PRId64,
               share->prefill.micro, share->decode.micro,
               share->reprefill.micro);
    buf_append_text(record, ",\"members\":[");
    for (size_t i = 0; i < attempt->member_count; i++) {
        const struct settlement_member *member = &attempt->members[i];

        buf_printf(record,
                   "%s{\"node\":\"%s\",\"account\":%" PRId64
                   ",\"weight\":%" PRIu64 "}",
                   i == 0 ? "" : ",", member->node, member->account,
                   member->weight);
    }
    buf_append_text(record, "]}");
}

static void
record_write(const struct settlement *settlement, int64_t fee_account,
             const struct settlement_result *result, struct buf *record)
{
    const struct price *price = &result->price;

    buf_printf(record,
               "{\"v\":%d,\"job\":\"%s\",\"model\":\"%s\","
               "\"model_digest\":\"%s\",\"payer\":%" PRId64
               ",\"fee_account\":%" PRId64,
               RECORD_VERSION, settlement->job, settlement->model,
               settlement->model_digest, settlement->payer, fee_account);
    buf_printf(record,
               ",\"n_in\":%" PRIu64 ",\"n_cached\":%" PRIu64
               ",\"n_out\":%" PRIu64 ",\"context\":%" PRIu64
               ",\"finish\":\"%s\"",
               settlement->n_in, settlement->n_cached, settlement->n_out,
               settlement->context, settlement->finish);
    buf_printf(record,
               ",\"price\":{\"revision\":%" PRIu32
               ",\"class_per_mille\":%" PRIu64 ",\"prefill_ucr\":%" PRId64
               ",\"decode_ucr\":%" PRId64 ",\"fee_ucr\":%" PRId64
               ",\"total_ucr\":%" PRId64 "}",
               settlement->revision.revision, price->class_per_mille,
               price->prefill.micro, price->decode.micro, price->fee.micro,
               price->total.micro);
    buf_append_text(record, ",\"attempts\":[");
    for (size_t i = 0; i < settlement->attempt_count; i++) {
        if (i > 0)
            buf_append_char(record, ',');
        attempt_write(&settlement->attempts[i], &result->shares[i], record);
    }
    buf_append_text(record, "]}");
}

/* --- the legs ------------------------------------------------------------- */

/* The first 8 bytes of a UUID, big-endian. */
static uint64_t
uuid_tie(const char *uuid)
{
    uint64_t tie = 0;
    int digits = 0;

    for (; *uuid != '\0' && digits < 16; uuid++) {
        if (*uuid == '-')
            continue;
        tie = tie << 4 |
              (uint64_t)(*uuid <= '9' ? *uuid - '0' : *uuid - 'a' + 10);
        digits++;
    }
    return tie;
}

static uint64_t
job_tie(const char *job)
{
    uint8_t digest[SHA256_BYTES];
    uint64_t tie = 0;

    cert_sha256(job, strlen(job), digest);
    for (int i = 0; i < 8; i++)
        tie = tie << 8 | digest[i];
    return tie;
}

/* Index of the attempt whose prefill led to the first delivered id. */
static size_t
first_delivering(const struct settlement *settlement)
{
    size_t i = 0;

    while (i < settlement->attempt_count && settlement->attempts[i].ids == 0)
        i++;
    assert(i < settlement->attempt_count);
    return i;
}

/* Divide what is left after the fee: the prefill part to one attempt, the
 * decode part over all by ids. */
static enum status
terms_split(const struct settlement *settlement, const struct price *price,
            uint64_t tie, struct settlement_share *shares, struct error *err)
{
    struct split_part terms[2] = {
        {.weight = (uint64_t)price->prefill.micro, .tie = 0},
        {.weight = (uint64_t)price->decode.micro, .tie = 1},
    };
    struct split_part parts[SETTLEMENT_ATTEMPTS_MAX] = {{0}};
    struct credits net = {price->total.micro - price->fee.micro};
    enum status status = split_compute(net, tie, terms, 2, err);

    for (size_t i = 0; i < settlement->attempt_count; i++) {
        parts[i].weight = settlement->attempts[i].ids;
        parts[i].tie = settlement->attempts[i].number;
    }
    if (status == STATUS_OK)
        status = split_compute(terms[1].share, tie, parts,
                               settlement->attempt_count, err);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < settlement->attempt_count; i++)
        shares[i].decode = parts[i].share;
    shares[first_delivering(settlement)].prefill = terms[0].share;
    return STATUS_OK;
}

/* Pay what later attempts read again out of the fee: each its worth, or by
 * worth all of the fee when it is less. */
static enum status
reprefill_split(const struct settlement *settlement, const struct price *price,
                uint64_t tie, struct settlement_share *shares,
                struct error *err)
{
    struct split_part parts[SETTLEMENT_ATTEMPTS_MAX] = {{0}};
    struct credits sum = {0};
    enum status status;

    for (size_t i = 0; i < settlement->attempt_count; i++)
        parts[i].tie = settlement->attempts[i].number;
    for (size_t i = first_delivering(settlement) + 1;
         i < settlement->attempt_count; i++) {
        const struct settlement_attempt *attempt = &settlement->attempts[i];

        if (attempt->ids == 0)
            continue;
        shares[i].reprefill = price_reprefill(
            &settlement->revision, &settlement->price_model,
            price->class_per_mille, settlement->n_in + attempt->done);
        parts[i].weight = (uint64_t)shares[i].reprefill.micro;
        sum.micro += shares[i].reprefill.micro;
    }
    if (sum.micro <= price->fee.micro)
        return STATUS_OK;
    status =
        split_compute(price->fee, tie, parts, settlement->attempt_count, err);
    for (size_t i = 0; status == STATUS_OK && i < settlement->attempt_count;
         i++)
        shares[i].reprefill = parts[i].share;
    return status;
}

static void
earning_add(struct settlement_result *result, int16_t code,
            const struct settlement_attempt *attempt,
            const struct settlement_member *member, struct credits share)
{
    struct settlement_leg *leg = &result->legs[result->leg_count];

    if (share.micro == 0)
        return;
    assert(result->leg_count < SETTLEMENT_LEGS_MAX);
    *leg = (struct settlement_leg){
        .code = code,
        .account = member->account,
        .amount = share,
        .attempt = attempt->number,
        .weight = member->weight,
    };
    memcpy(leg->node, member->node, sizeof(leg->node));
    memcpy(leg->pod, attempt->pod, sizeof(leg->pod));
    result->leg_count++;
}

static enum status
members_split(const struct settlement_attempt *attempt, int16_t code,
              uint64_t tie, struct credits amount,
              struct settlement_result *result, struct error *err)
{
    struct split_part parts[SETTLEMENT_MEMBERS_MAX] = {{0}};
    enum status status;

    if (amount.micro == 0)
        return STATUS_OK;
    for (size_t i = 0; i < attempt->member_count; i++) {
        parts[i].weight = attempt->members[i].weight;
        parts[i].tie = uuid_tie(attempt->members[i].node);
    }
    status = split_compute(amount, tie, parts, attempt->member_count, err);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < attempt->member_count; i++)
        earning_add(result, code, attempt, &attempt->members[i],
                    parts[i].share);
    return STATUS_OK;
}

/* What is left of the fee is the network's. */
static void
fee_add(struct settlement_result *result, int64_t fee_account)
{
    struct credits fee = result->price.fee;

    for (size_t i = 0; i < SETTLEMENT_ATTEMPTS_MAX; i++)
        fee.micro -= result->shares[i].reprefill.micro;
    assert(fee.micro >= 0);
    if (fee.micro > 0)
        result->legs[result->leg_count++] = (struct settlement_leg){
            .code = CODE_FEE,
            .account = fee_account,
            .amount = fee,
        };
}

static enum status
legs_make(const struct settlement *settlement, int64_t fee_account,
          struct settlement_result *result, struct error *err)
{
    const struct settlement_share *shares = result->shares;
    uint64_t tie = job_tie(settlement->job);
    enum status status =
        terms_split(settlement, &result->price, tie, result->shares, err);

    if (status == STATUS_OK)
        status = reprefill_split(settlement, &result->price, tie,
                                 result->shares, err);
    if (status != STATUS_OK)
        return status;
    fee_add(result, fee_account);
    for (size_t i = 0; status == STATUS_OK && i < settlement->attempt_count;
         i++)
        status = members_split(
            &settlement->attempts[i], CODE_EARNING, tie,
            (struct credits){shares[i].prefill.micro + shares[i].decode.micro},
            result, err);
    for (size_t i = 0; status == STATUS_OK && i < settlement->attempt_count;
         i++)
        status = members_split(&settlement->attempts[i], CODE_REPREFILL, tie,
                               shares[i].reprefill, result, err);
    return status;
}

static void
assert_sums(const struct settlement_result *result)
{
    int64_t sum = 0;

    for (size_t i = 0; i < result->leg_count; i++)
        sum += result->legs[i].amount.micro;
    assert(sum == result->price.total.micro);
}

enum status
settlement_compute(const struct settlement *settlement, int64_t fee_account,
                   struct settlement_result *result, struct buf *record,
                   struct error *err)
{
    struct settlement_result made = {0};
    size_t before = record->size;
    enum status status = check_settlement(settlement, err);

    if (status == STATUS_OK)
        status = price_compute(&settlement->revision, &settlement->price_model,
                               settlement->n_in, settlement->n_cached,
                               settlement->n_out, settlement->context,
                               &made.price, err);
    if (status == STATUS_OK && made.price.total.micro == 0)
        status = error_set(err, STATUS_INVALID, "a price of 0");
    if (status == STATUS_OK)
        status = legs_make(settlement, fee_account, &made, err);
    if (status != STATUS_OK)
        return status;
    assert_sums(&made);
    record_write(settlement, fee_account, &made, record);
    status = buf_status(record, err);
    if (status != STATUS_OK)
        return status;
    cert_sha256(record->data + before, record->size - before, made.digest);
    *result = made;
    return STATUS_OK;
}
