/* idmap.h - a map from UUID text to a pointer: open addressing, grows by
 * itself.  Not safe between threads without a lock; pointers are borrowed. */
#ifndef BERTH_COORDINATOR_IDMAP_H
#define BERTH_COORDINATOR_IDMAP_H

#include <stddef.h>

#include "common/cert.h"

struct idmap {
    struct idmap_slot {
        char id[UUID_TEXT_BYTES]; /* "" when free */
        void *value;
    } * slots;
    size_t room; /* a power of two, or 0 */
    size_t count;
};

void idmap_clear(struct idmap *map);
/* NULL when absent. */
void *idmap_get(const struct idmap *map, const char *id);
/* Adds or replaces; @value is not NULL. */
void idmap_put(struct idmap *map, const char *id, void *value);
/* Returns what was there, or NULL. */
void *idmap_remove(struct idmap *map, const char *id);
/* The next value at or after *@at, which advances; NULL at the end. The map
 * may not be changed between calls. */
void *idmap_next(const struct idmap *map, size_t *at);

#endif
