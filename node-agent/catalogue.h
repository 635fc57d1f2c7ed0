/* catalogue.h - what the coordinator's catalogue holds, for the owner to see
 * which of the models on disk are lent.  For the agent's loop. */
#ifndef BERTH_NODE_AGENT_CATALOGUE_H
#define BERTH_NODE_AGENT_CATALOGUE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/wire.h"

enum { KNOWN_MODELS_MAX = 65536 }; /* more are not kept */

struct known_models {
    struct wire_catalogue_entry *entries; /* the last whole list */
    size_t count;
    struct wire_catalogue_entry *coming; /* parts of the next one */
    size_t coming_count;
    bool told; /* a whole list has come */
};

void known_models_clear(struct known_models *known);
/* One part; the list is taken over with its last. */
void known_models_take(struct known_models *known,
                       const struct wire_catalogue *part);
/* The catalogue's id of a digest; NULL when it has none. */
const char *known_models_id(const struct known_models *known,
                            const char *digest);

#endif
