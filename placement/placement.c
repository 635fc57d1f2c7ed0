/* placement.c - the passes in order: filter, score, choose, explain. */
#include "placement/placement.h"

#include <assert.h>
#include <string.h>

#include "placement/cost.h"
#include "placement/explain.h"
#include "placement/filter.h"
#include "placement/score.h"

#include "common/banned.h"

static const char *const verdict_names[PLACE_VERDICT_COUNT] = {
    [PLACE_CHOSEN] = "chosen",
    [PLACE_SLOWER] = "slower",
    [PLACE_NOT_IN_POOL] = "not_in_pool",
    [PLACE_NO_MODEL] = "no_model",
    [PLACE_NO_CAPABILITY] = "no_capability",
    [PLACE_TOO_SMALL] = "too_small",
    [PLACE_UNVERIFIED] = "unverified",
    [PLACE_EXCLUDED] = "excluded",
    [PLACE_OFFLINE] = "offline",
    [PLACE_NOT_LENDING] = "not_lending",
    [PLACE_NO_SLOT] = "no_slot",
    [PLACE_NO_MEMORY_NOW] = "no_memory_now",
};

uint32_t
place_capability_bit(const char *name)
{
    for (uint32_t bit = PLACE_CAN_IDS; bit <= PLACE_CAN_BATCH; bit <<= 1) {
        if (strcmp(name, explain_capability_name(bit)) == 0)
            return bit;
    }
    return 0;
}

const char *
place_verdict_name(enum place_verdict verdict)
{
    assert(verdict < PLACE_VERDICT_COUNT);
    return verdict_names[verdict];
}

static void
judge(const struct place_target *targets, size_t count,
      const struct place_demand *demand, struct place_candidate *candidates)
{
    for (size_t i = 0; i < count; i++) {
        candidates[i] = (struct place_candidate){0};
        candidates[i].verdict =
            filter_target(&targets[i], demand, &candidates[i]);
        cost_time(&targets[i], demand, &candidates[i]);
    }
}

static void
explain_all(const struct place_target *targets, size_t count,
            const struct place_demand *demand,
            struct place_candidate *candidates, int64_t best_finish_ns)
{
    for (size_t i = 0; i < count; i++)
        explain_candidate(&targets[i], demand, &candidates[i], best_finish_ns);
}

enum status
place_choose(const struct place_target *targets, size_t count,
             const struct place_demand *demand,
             struct place_candidate *candidates, size_t *chosen,
             struct error *err)
{
    size_t best;

    assert(count == 0 || (targets != NULL && candidates != NULL));
    judge(targets, count, demand, candidates);
    best = score_best(targets, candidates, count);
    if (best == count) {
        explain_all(targets, count, demand, candidates, 0);
        return explain_refusal(targets, candidates, count, demand, err);
    }
    candidates[best].verdict = PLACE_CHOSEN;
    explain_all(targets, count, demand, candidates, candidates[best].finish_ns);
    *chosen = best;
    return STATUS_OK;
}

void
place_summary(const struct place_candidate *candidates, size_t count,
              struct buf *out)
{
    char text[ERROR_TEXT_BYTES];

    buf_append_text(out, explain_counts(candidates, count, text, sizeof(text)));
}
