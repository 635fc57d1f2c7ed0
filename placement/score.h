/* score.h - which of the targets that can take a job should.
 *
 * Private to placement.  Pure; safe from any thread. */
#ifndef BERTH_PLACEMENT_SCORE_H
#define BERTH_PLACEMENT_SCORE_H

#include "placement/placement.h"

/* The candidate that finishes first among those marked PLACE_SLOWER; ties go
 * to the lowest id.  @count when there is none. */
size_t score_best(const struct place_target *targets,
                  const struct place_candidate *candidates, size_t count);

#endif
