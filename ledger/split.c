/* split.c - largest remainders, with ties that favour nobody for ever. */
#include "ledger/split.h"

#include <assert.h>
#include <stdbool.h>

#include "ledger/u128.h"

#include "common/banned.h"

#define WEIGHT_MAX (UINT64_C(1) << 63)

static enum status
weights_sum(const struct split_part *parts, size_t count, u128 *sum,
            struct error *err)
{
    u128 total = 0;

    if (count == 0 || count > SPLIT_PARTS_MAX)
        return error_set(err, STATUS_INVALID, "a split into %zu parts", count);
    for (size_t i = 0; i < count; i++) {
        if (parts[i].weight > WEIGHT_MAX)
            return error_set(err, STATUS_INVALID, "a weight is above 2^63");
        total += parts[i].weight;
    }
    if (total == 0)
        return error_set(err, STATUS_INVALID, "all weights are 0");
    *sum = total;
    return STATUS_OK;
}

/* The part that is next in line for a left-over ucr. */
static size_t
largest_remainder(const struct split_part *parts, const u128 *remainders,
                  const bool *served, size_t count, uint64_t job_tie)
{
    size_t best = count;

    for (size_t i = 0; i < count; i++) {
        if (served[i])
            continue;
        if (best == count || remainders[i] > remainders[best] ||
            (remainders[i] == remainders[best] &&
             (parts[i].tie ^ job_tie) < (parts[best].tie ^ job_tie)))
            best = i;
    }
    return best;
}

enum status
split_compute(struct credits amount, uint64_t job_tie, struct split_part *parts,
              size_t count, struct error *err)
{
    u128 remainders[SPLIT_PARTS_MAX];
    bool served[SPLIT_PARTS_MAX] = {false};
    u128 sum = 0;
    int64_t left = amount.micro;
    enum status status = weights_sum(parts, count, &sum, err);

    assert(amount.micro >= 0);
    assert(amount.micro <= CREDITS_MAX_MICRO);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < count; i++) {
        u128 product = (u128)amount.micro * parts[i].weight;

        parts[i].share.micro = (int64_t)(product / sum);
        remainders[i] = product % sum;
        left -= parts[i].share.micro;
    }
    assert(left >= 0);
    assert(left < (int64_t)count);
    for (; left > 0; left--) {
        size_t next =
            largest_remainder(parts, remainders, served, count, job_tie);

        assert(remainders[next] > 0);
        served[next] = true;
        parts[next].share.micro++;
    }
    return STATUS_OK;
}
