/* idmap.c - linear probing with backward-shift deletion. */
#include "coordinator/idmap.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#include "common/banned.h"

/* FNV-1a, Fowler, Noll, Vo. */
static size_t
id_hash(const char *id)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *id != '\0'; id++)
        hash = (hash ^ (uint8_t)*id) * UINT64_C(0x100000001b3);
    return (size_t)(hash ^ hash >> 32);
}

void
idmap_clear(struct idmap *map)
{
    free(map->slots);
    *map = (struct idmap){0};
}

static struct idmap_slot *
slot_find(const struct idmap *map, const char *id)
{
    size_t at = id_hash(id) & (map->room - 1);

    while (map->slots[at].id[0] != '\0' && strcmp(map->slots[at].id, id) != 0)
        at = (at + 1) & (map->room - 1);
    return &map->slots[at];
}

void *
idmap_get(const struct idmap *map, const char *id)
{
    return map->room == 0 ? NULL : slot_find(map, id)->value;
}

static void
map_grow(struct idmap *map)
{
    struct idmap old = *map;

    map->room = old.room == 0 ? 64 : old.room * 2;
    map->slots = mem_array(map->room, sizeof(*map->slots));
    for (size_t i = 0; i < old.room; i++)
        if (old.slots[i].id[0] != '\0')
            *slot_find(map, old.slots[i].id) = old.slots[i];
    free(old.slots);
}

void
idmap_put(struct idmap *map, const char *id, void *value)
{
    struct idmap_slot *slot;

    assert(value != NULL);
    assert(id[0] != '\0' && strlen(id) < UUID_TEXT_BYTES);
    if (map->count * 4 >= map->room * 3)
        map_grow(map);
    slot = slot_find(map, id);
    if (slot->id[0] == '\0') {
        memcpy(slot->id, id, strlen(id) + 1);
        map->count++;
    }
    slot->value = value;
}

void *
idmap_remove(struct idmap *map, const char *id)
{
    size_t mask = map->room - 1, hole, at;
    struct idmap_slot *slot;
    void *value;

    if (map->room == 0)
        return NULL;
    slot = slot_find(map, id);
    value = slot->value;
    if (slot->id[0] == '\0')
        return NULL;
    hole = (size_t)(slot - map->slots);
    for (at = (hole + 1) & mask; map->slots[at].id[0] != '\0';
         at = (at + 1) & mask) {
        size_t home = id_hash(map->slots[at].id) & mask;

        if (((at - home) & mask) < ((at - hole) & mask))
            continue;
        map->slots[hole] = map->slots[at];
        hole = at;
    }
    map->slots[hole] = (struct idmap_slot){.value = NULL};
    map->count--;
    return value;
}

void *
idmap_next(const struct idmap *map, size_t *at)
{
    for (; *at < map->room; (*at)++)
        if (map->slots[*at].id[0] != '\0')
            return map->slots[(*at)++].value;
    return NULL;
}
