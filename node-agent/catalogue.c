/* catalogue.c - the coordinator's list, part by part. */
#include "node-agent/catalogue.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#include "common/banned.h"

void
known_models_clear(struct known_models *known)
{
    free(known->entries);
    free(known->coming);
    *known = (struct known_models){0};
}

void
known_models_take(struct known_models *known, const struct wire_catalogue *part)
{
    size_t count = part->entry_count;

    if (count > KNOWN_MODELS_MAX - known->coming_count)
        count = KNOWN_MODELS_MAX - known->coming_count;
    known->coming = mem_grow(known->coming, known->coming_count + count + 1,
                             sizeof(*known->coming));
    memcpy(known->coming + known->coming_count, part->entries,
           count * sizeof(*known->coming));
    known->coming_count += count;
    if (part->more)
        return;
    free(known->entries);
    known->entries = known->coming;
    known->count = known->coming_count;
    known->coming = NULL;
    known->coming_count = 0;
    known->told = true;
}

const char *
known_models_id(const struct known_models *known, const char *digest)
{
    for (size_t i = 0; i < known->count; i++)
        if (strcmp(known->entries[i].digest, digest) == 0)
            return known->entries[i].id;
    return NULL;
}
