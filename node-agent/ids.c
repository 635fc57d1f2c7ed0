/* ids.c - a growing list of ids. */
#include "node-agent/ids.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/wire.h"

#include "common/banned.h"

enum { FIRST_CAPACITY = 64 };

void
ids_clear(struct ids *ids)
{
    free(ids->at);
    *ids = (struct ids){0};
}

void
ids_append(struct ids *ids, const uint32_t *more, size_t count)
{
    size_t capacity = ids->capacity == 0 ? FIRST_CAPACITY : ids->capacity;

    if (count == 0)
        return;
    assert(count <= IDS_MAX - ids->count);
    while (capacity < ids->count + count)
        capacity *= 2;
    if (capacity > ids->capacity)
        ids->at = mem_grow(ids->at, capacity, sizeof(ids->at[0]));
    ids->capacity = capacity;
    memcpy(ids->at + ids->count, more, count * sizeof(more[0]));
    ids->count += count;
}

void
ids_frames(const struct ids *ids, const char *job, uint32_t attempt,
           uint64_t from, struct buf *out)
{
    struct wire_job_tokens *tokens = mem_alloc(sizeof(*tokens));

    snprintf(tokens->job, sizeof(tokens->job), "%s", job);
    tokens->attempt = attempt;
    while (from < ids->count) {
        size_t left = ids->count - (size_t)from;
        enum status status;

        tokens->first = from;
        tokens->id_count = left < WIRE_IDS_MAX ? left : WIRE_IDS_MAX;
        memcpy(tokens->ids, ids->at + from,
               tokens->id_count * sizeof(tokens->ids[0]));
        status = wire_encode(WIRE_JOB_TOKENS, tokens, out, NULL);
        assert(status == STATUS_OK); /* every such frame is in bounds */
        (void)status;
        from += tokens->id_count;
    }
    free(tokens);
}
