/* ids.h - the ids of one answer, in order, from its first one on.
 *
 * Belongs to the loop's thread. */
#ifndef BERTH_NODE_AGENT_IDS_H
#define BERTH_NODE_AGENT_IDS_H

#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"

enum {
    IDS_MAX = 1024 * 1024, /* of one answer: more than any context */
    IDS_FRAMES_MAX_BYTES = 16 * IDS_MAX, /* ten digits and a comma each */
};

struct ids {
    uint32_t *at;
    size_t count;
    size_t capacity;
};

void ids_clear(struct ids *ids);
/* At most IDS_MAX in all: the caller checks. */
void ids_append(struct ids *ids, const uint32_t *more, size_t count);
/* The ids from index @from on as frames of job.tokens, appended. */
void ids_frames(const struct ids *ids, const char *job, uint32_t attempt,
                uint64_t from, struct buf *out);

#endif
