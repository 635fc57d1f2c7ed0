/* filter.h - whether a target can take a job at all.
 *
 * Private to placement.  Pure; safe from any thread. */
#ifndef BERTH_PLACEMENT_FILTER_H
#define BERTH_PLACEMENT_FILTER_H

#include "placement/placement.h"

/* The first limit that @target fails, in the order of enum place_verdict:
 * lasting ones before passing ones, so that a refusal that waiting cannot cure
 * is never hidden by one that it can.  PLACE_SLOWER when it passes all.
 *
 * @candidate gets need_bytes and free_bytes.  Where the target would be too
 * small even when idle, both speak of the idle target: the whole need and the
 * limit; otherwise of now. */
enum place_verdict filter_target(const struct place_target *target,
                                 const struct place_demand *demand,
                                 struct place_candidate *candidate);

/* Neither waiting nor the end of other jobs can change this verdict. */
bool filter_is_lasting(enum place_verdict verdict);

#endif
