/* score.c - the least estimated finish wins, compared as integers. */
#include "placement/score.h"

#include <string.h>

#include "common/banned.h"

static bool
is_better(const struct place_target *targets,
          const struct place_candidate *candidates, size_t a, size_t b)
{
    if (candidates[a].finish_ns != candidates[b].finish_ns)
        return candidates[a].finish_ns < candidates[b].finish_ns;
    return strncmp(targets[a].id, targets[b].id, PLACE_ID_BYTES) < 0;
}

size_t
score_best(const struct place_target *targets,
           const struct place_candidate *candidates, size_t count)
{
    size_t best = count;

    for (size_t i = 0; i < count; i++) {
        if (candidates[i].verdict != PLACE_SLOWER)
            continue;
        if (best == count || is_better(targets, candidates, i, best))
            best = i;
    }
    return best;
}
