/* router.h - which experts work on a position, and how much each counts.
 *
 * Pure; the same choice for the same scores, ties to the lower number. */
#ifndef BERTH_INFERENCE_ROUTER_H
#define BERTH_INFERENCE_ROUTER_H

#include "model/directory.h"

struct chosen {
    uint32_t expert;
    float weight;
};

/* Choose experts->used of them into @chosen, by rising number.
 *
 * @logits  what the router's matrix gave, experts->count of them
 * @bias    added to the scores for choosing alone; NULL: none
 * @room    3 x experts->count floats */
void router_choose(const struct model_experts *experts, const float *logits,
                   const float *bias, float *room, struct chosen *chosen);

#endif
