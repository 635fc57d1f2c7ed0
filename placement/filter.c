/* filter.c - every limit of placement, each tested once, in a fixed order. */
#include "placement/filter.h"

#include "placement/cost.h"

#include "common/banned.h"

static uint64_t
free_now(const struct place_target *target)
{
    if (target->in_use_bytes >= target->limit_bytes)
        return 0;
    return target->limit_bytes - target->in_use_bytes;
}

/* Limits that hold however long the job waits. */
static enum place_verdict
lasting(const struct place_target *target, const struct place_demand *demand,
        uint64_t idle_need)
{
    if (!target->in_pool)
        return PLACE_NOT_IN_POOL;
    if (!target->holds_model)
        return PLACE_NO_MODEL;
    if ((demand->capabilities & ~target->capabilities) != 0)
        return PLACE_NO_CAPABILITY;
    if (idle_need > target->limit_bytes)
        return PLACE_TOO_SMALL;
    if (!target->verified && idle_need > PLACE_UNVERIFIED_BYTES)
        return PLACE_UNVERIFIED;
    return PLACE_SLOWER;
}

/* Limits that may be gone at the next round. */
static enum place_verdict
passing(const struct place_target *target, uint64_t need, uint64_t available)
{
    if (target->excluded)
        return PLACE_EXCLUDED;
    if (!target->online)
        return PLACE_OFFLINE;
    if (!target->lending)
        return PLACE_NOT_LENDING;
    if (target->jobs >= target->slots)
        return PLACE_NO_SLOT;
    if (need > available)
        return PLACE_NO_MEMORY_NOW;
    return PLACE_SLOWER;
}

enum place_verdict
filter_target(const struct place_target *target,
              const struct place_demand *demand,
              struct place_candidate *candidate)
{
    uint64_t idle_need = cost_memory(demand, false).total_bytes;
    enum place_verdict verdict = lasting(target, demand, idle_need);

    if (idle_need > target->limit_bytes) {
        candidate->need_bytes = idle_need;
        candidate->free_bytes = target->limit_bytes;
    } else {
        candidate->need_bytes =
            cost_memory(demand, target->model_pinned).total_bytes;
        candidate->free_bytes = free_now(target);
    }
    if (verdict != PLACE_SLOWER)
        return verdict;
    return passing(target, candidate->need_bytes, candidate->free_bytes);
}

bool
filter_is_lasting(enum place_verdict verdict)
{
    switch (verdict) {
    case PLACE_NOT_IN_POOL:
    case PLACE_NO_MODEL:
    case PLACE_NO_CAPABILITY:
    case PLACE_TOO_SMALL:
    case PLACE_UNVERIFIED:
        return true;
    case PLACE_CHOSEN:
    case PLACE_SLOWER:
    case PLACE_EXCLUDED:
    case PLACE_OFFLINE:
    case PLACE_NOT_LENDING:
    case PLACE_NO_SLOT:
    case PLACE_NO_MEMORY_NOW:
    case PLACE_VERDICT_COUNT:
        return false;
    }
    return false;
}
