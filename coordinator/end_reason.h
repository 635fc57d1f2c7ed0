/* end_reason.h - why an attempt ended, as a code and in words.
 *
 * Codes come from the coordinator, agents and engines; the words are for
 * whoever reads about the job and name nobody's machine. */
#ifndef BERTH_COORDINATOR_END_REASON_H
#define BERTH_COORDINATOR_END_REASON_H

#include "common/buf.h"

/* The words for @code; NULL when nobody here knows it. */
const char *end_reason_text(const char *code);
/* The whole table as docs/api.md shows it. */
void end_reasons_print(struct buf *out);

#endif
