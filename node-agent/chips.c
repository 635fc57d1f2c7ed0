/* chips.c - a row per variant of each chip: published memory bandwidth, memory
 * sizes sold with it, GPU cores. */
#include "node-agent/chips.h"

#include <stddef.h>
#include <string.h>

#include "common/banned.h"

enum { MEMORY_SIZES_MAX = 4 };

struct variant {
    const char *chip;
    uint64_t bandwidth_gb_s;
    uint64_t memory_gib[MEMORY_SIZES_MAX]; /* 0: no more */
    uint64_t gpu_cores_least;
    uint64_t gpu_cores_most;
};

static const struct variant variants[] = {
    {"Apple M1", 68, {8, 16}, 7, 8},
    {"Apple M1 Pro", 200, {16, 32}, 14, 16},
    {"Apple M1 Max", 400, {32, 64}, 24, 32},
    {"Apple M1 Ultra", 800, {64, 128}, 48, 64},
    {"Apple M2", 100, {8, 16, 24}, 8, 10},
    {"Apple M2 Pro", 200, {16, 32}, 16, 19},
    {"Apple M2 Max", 400, {32, 64, 96}, 30, 38},
    {"Apple M2 Ultra", 800, {64, 128, 192}, 60, 76},
    {"Apple M3", 100, {8, 16, 24}, 8, 10},
    {"Apple M3 Pro", 150, {18, 36}, 14, 18},
    {"Apple M3 Max", 300, {36, 96}, 30, 30},
    {"Apple M3 Max", 400, {48, 64, 128}, 40, 40},
    {"Apple M3 Ultra", 819, {96, 256}, 60, 60},
    {"Apple M3 Ultra", 819, {96, 256, 512}, 80, 80},
    {"Apple M4", 120, {16, 24, 32}, 8, 10},
    {"Apple M4 Pro", 273, {24, 48, 64}, 16, 20},
    {"Apple M4 Max", 410, {36}, 32, 32},
    {"Apple M4 Max", 546, {48, 64, 128}, 40, 40},
    {"Apple M5", 153, {16, 24, 32}, 8, 10},
    {"Apple M5 Pro", 307, {24, 48, 64}, 16, 20},
    {"Apple M5 Max", 460, {36}, 32, 32},
    {"Apple M5 Max", 614, {48, 64, 128}, 40, 40},
    {"Apple M5 Ultra", 1200, {96}, 64, 64},
    {"Apple M5 Ultra", 1200, {256, 512}, 80, 80},
    {"Apple M6", 153, {16}, 12, 12},
    {"Apple M6", 170, {24, 32}, 12, 12},
    {"Apple A18 Pro", 60, {8}, 5, 5},
};

static bool
is_sold_with(const struct variant *variant, uint64_t memory_bytes)
{
    for (size_t i = 0; i < MEMORY_SIZES_MAX; i++)
        if (variant->memory_gib[i] != 0 &&
            variant->memory_gib[i] * GIB == memory_bytes)
            return true;
    return false;
}

/* Take @value into a fact that holds only while all agree. */
static void
agree(uint64_t value, bool is_first, bool *has, uint64_t *known)
{
    if (is_first) {
        *has = true;
        *known = value;
    } else if (*known != value) {
        *has = false;
    }
}

/* What all variants of the chip, or all sold with that memory, have in common.
 * Returns how many there are. */
static size_t
common_facts(const char *chip, uint64_t memory_bytes, bool any_memory,
             struct chip_facts *facts)
{
    struct chip_facts common = {0};
    bool cores_vary = false;
    size_t count = 0;

    for (size_t i = 0; i < COUNT_OF(variants); i++) {
        const struct variant *variant = &variants[i];

        if (strcmp(variant->chip, chip) != 0 ||
            (!any_memory && !is_sold_with(variant, memory_bytes)))
            continue;
        agree(variant->bandwidth_gb_s, count == 0, &common.has_bandwidth_gb_s,
              &common.bandwidth_gb_s);
        agree(variant->gpu_cores_most, count == 0, &common.has_gpu_cores,
              &common.gpu_cores);
        if (variant->gpu_cores_least != variant->gpu_cores_most)
            cores_vary = true;
        count++;
    }
    if (cores_vary)
        common.has_gpu_cores = false;
    *facts = common;
    return count;
}

bool
chip_find(const char *chip, uint64_t memory_bytes, struct chip_facts *facts)
{
    struct chip_facts found;

    if (common_facts(chip, memory_bytes, false, &found) == 0 &&
        common_facts(chip, memory_bytes, true, &found) == 0)
        return false;
    *facts = found;
    return true;
}

uint64_t
chip_working_set_bytes(uint64_t memory_bytes)
{
    if (memory_bytes <= 32 * GIB)
        return memory_bytes / 3 * 2;
    return memory_bytes / 4 * 3;
}
