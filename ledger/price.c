/* price.c - the price of a job; the bounds make every step fit 128 bits. */
#include "ledger/price.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>

#include "ledger/u128.h"

#include "common/banned.h"

enum { PER_MILLE = 1000, PER_MILLE_MAX = 10000 };

#define TOKENS_MAX (UINT64_C(1) << 31)
#define FACTOR_MAX (UINT64_C(1) << 62)
#define WORK_MAX UINT64_C(2000000000000000000) /* F and D */
#define RATE_MAX UINT64_C(1000000)             /* a and b */
#define MINIMUM_MAX UINT64_C(1000000000)       /* 1,000 credits */
#define UNIT UINT64_C(1000000000000000)        /* 1000 * 10^12 */

const struct price_revision price_revision_1 = {
    .revision = 1,
    .ucr_per_tflop = 250000,
    .ucr_per_gb = 10000,
    .minimum_ucr = 1000,
    .fee_per_mille = 50,
    .class_limit_bytes = {UINT64_C(12000000000), UINT64_C(40000000000),
                          UINT64_C(96000000000), UINT64_C(192000000000),
                          UINT64_MAX},
    .class_per_mille = {1000, 1050, 1150, 1300, 1500},
};

static enum status
check_revision(const struct price_revision *revision, struct error *err)
{
    bool fits = revision->ucr_per_tflop <= RATE_MAX &&
                revision->ucr_per_gb <= RATE_MAX &&
                revision->minimum_ucr <= MINIMUM_MAX &&
                revision->fee_per_mille <= PER_MILLE &&
                revision->class_limit_bytes[PRICE_CLASSES - 1] == UINT64_MAX;

    for (int i = 0; i < PRICE_CLASSES; i++)
        fits = fits && revision->class_per_mille[i] <= PER_MILLE_MAX;
    if (fits)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "price revision %" PRIu32 " is out of bounds",
                     revision->revision);
}

static enum status
check_counts(const struct price_model *model, uint64_t n_in, uint64_t n_cached,
             uint64_t n_out, uint64_t context, struct error *err)
{
    if (n_cached > n_in)
        return error_set(err, STATUS_INVALID,
                         "%" PRIu64 " cached of %" PRIu64 " prompt tokens",
                         n_cached, n_in);
    if (n_in > TOKENS_MAX || n_out > TOKENS_MAX || context > TOKENS_MAX)
        return error_set(err, STATUS_TOO_LARGE,
                         "more than %" PRIu64 " tokens cannot be priced",
                         TOKENS_MAX);
    if (model->bytes_per_token > FACTOR_MAX ||
        model->kv_bytes_per_token > FACTOR_MAX ||
        model->flop_per_token > FACTOR_MAX ||
        model->attention_flop > FACTOR_MAX || model->weight_bytes > FACTOR_MAX)
        return error_set(err, STATUS_TOO_LARGE,
                         "the model's numbers are too large to be priced");
    return STATUS_OK;
}

/* Bytes that decoding @n_out tokens moves. */
static u128
decode_bytes(const struct price_model *model, uint64_t n_in, uint64_t n_out)
{
    u128 positions = (u128)n_out * n_in + (u128)n_out * (n_out + 1) / 2;

    return (u128)n_out * model->bytes_per_token +
           positions * model->kv_bytes_per_token;
}

static u128
prefill_flop(const struct price_model *model, uint64_t n_in, uint64_t n_cached)
{
    u128 pairs = (u128)n_in * n_in - (u128)n_cached * n_cached;

    return (u128)(n_in - n_cached) * model->flop_per_token +
           pairs * model->attention_flop;
}

static uint64_t
footprint_class(const struct price_revision *revision,
                const struct price_model *model, uint64_t context)
{
    u128 bytes =
        (u128)model->weight_bytes + (u128)model->kv_bytes_per_token * context;

    for (int i = 0; i < PRICE_CLASSES - 1; i++)
        if (bytes <= revision->class_limit_bytes[i])
            return revision->class_per_mille[i];
    return revision->class_per_mille[PRICE_CLASSES - 1];
}

static u128
divide_up(u128 dividend, u128 divisor)
{
    return dividend / divisor + (dividend % divisor != 0);
}

/* @prefill and @decode are the exact terms in 10^-15 ucr. */
static enum status
terms_price(const struct price_revision *revision, u128 prefill, u128 decode,
            struct price *price, struct error *err)
{
    u128 exact = prefill + decode;
    u128 total = divide_up(exact, UNIT);
    u128 first = divide_up(prefill, UNIT);

    if (total < revision->minimum_ucr) {
        total = revision->minimum_ucr;
        first = exact == 0 ? total : divide_up(total * prefill, exact);
    }
    if (total > (u128)CREDITS_MAX_MICRO)
        return error_set(err, STATUS_TOO_LARGE,
                         "the price is above %" PRId64 " ucr",
                         CREDITS_MAX_MICRO);
    assert(first <= total);
    price->total.micro = (int64_t)total;
    price->prefill.micro = (int64_t)first;
    price->decode.micro = (int64_t)(total - first);
    price->fee.micro = (int64_t)(total * revision->fee_per_mille / PER_MILLE);
    return STATUS_OK;
}

enum status
price_work(const struct price_model *model, uint64_t n_in, uint64_t n_cached,
           uint64_t n_out, struct price_work *work, struct error *err)
{
    enum status status = check_counts(model, n_in, n_cached, n_out, 0, err);
    u128 bytes, flop;

    if (status != STATUS_OK)
        return status;
    bytes = decode_bytes(model, n_in, n_out);
    flop = prefill_flop(model, n_in, n_cached);
    if (bytes > WORK_MAX || flop > WORK_MAX)
        return error_set(err, STATUS_TOO_LARGE,
                         "the job's work is above %" PRIu64 " bytes or FLOP",
                         WORK_MAX);
    *work = (struct price_work){(uint64_t)bytes, (uint64_t)flop};
    return STATUS_OK;
}

enum status
price_compute(const struct price_revision *revision,
              const struct price_model *model, uint64_t n_in, uint64_t n_cached,
              uint64_t n_out, uint64_t context, struct price *price,
              struct error *err)
{
    enum status status = check_revision(revision, err);
    struct price_work work;
    uint64_t class_per_mille;

    if (status == STATUS_OK)
        status = check_counts(model, n_in, n_cached, n_out, context, err);
    if (status == STATUS_OK)
        status = price_work(model, n_in, n_cached, n_out, &work, err);
    if (status != STATUS_OK)
        return status;
    class_per_mille = footprint_class(revision, model, context);
    status = terms_price(
        revision, (u128)work.flop * revision->ucr_per_tflop * class_per_mille,
        (u128)work.bytes * revision->ucr_per_gb * class_per_mille * PER_MILLE,
        price, err);
    if (status == STATUS_OK)
        price->class_per_mille = class_per_mille;
    return status;
}

struct credits
price_reprefill(const struct price_revision *revision,
                const struct price_model *model, uint64_t class_per_mille,
                uint64_t ids)
{
    u128 flop;

    assert(ids <= 2 * TOKENS_MAX);
    assert(model->flop_per_token <= FACTOR_MAX);
    assert(model->attention_flop <= FACTOR_MAX);
    flop = prefill_flop(model, ids, 0);
    if (flop > WORK_MAX)
        flop = WORK_MAX;
    return (struct credits){
        (int64_t)(flop * revision->ucr_per_tflop * class_per_mille / UNIT)};
}
