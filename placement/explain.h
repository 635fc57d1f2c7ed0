/* explain.h - why a target was chosen or refused, in words.
 *
 * Private to placement.  Every number in a text is the value that decided.  No
 * text names a target: submitters may not see the ids of targets that are not
 * theirs.  Pure, no allocation; safe from any thread. */
#ifndef BERTH_PLACEMENT_EXPLAIN_H
#define BERTH_PLACEMENT_EXPLAIN_H

#include "placement/placement.h"

/* Write candidate->reason.  @best_finish_ns is the chosen target's finish and
 * is read for PLACE_SLOWER only. */
void explain_candidate(const struct place_target *target,
                       const struct place_demand *demand,
                       struct place_candidate *candidate,
                       int64_t best_finish_ns);

/* The name of a single capability bit; "unknown" for any other value. */
const char *explain_capability_name(uint32_t bit);

/* Counts by verdict, as place_summary has them.  Returns @text. */
const char *explain_counts(const struct place_candidate *candidates,
                           size_t count, char *text, size_t text_size);

/* Nothing can take the job now.  STATUS_NO_CAPACITY when waiting may help,
 * STATUS_INVALID when it cannot; then the text also has what ruled out most
 * and the cheapest change that would help, tried before it is offered. */
MUST_CHECK enum status explain_refusal(const struct place_target *targets,
                                       const struct place_candidate *candidates,
                                       size_t count,
                                       const struct place_demand *demand,
                                       struct error *err);

#endif
