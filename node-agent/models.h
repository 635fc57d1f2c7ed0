/* models.h - which models lie on this machine's disk.
 *
 * A helper process reads the folders, so that hashing gigabytes never holds up
 * the loop; digests are kept in home/digests and computed again only where a
 * file's size, time or number has changed.  Belongs to the loop's thread. */
#ifndef BERTH_NODE_AGENT_MODELS_H
#define BERTH_NODE_AGENT_MODELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/cert.h"
#include "common/error.h"
#include "common/wire.h"
#include "node-agent/config.h"
#include "node-agent/home.h"

struct event_base;

struct model_found {
    char path[CONFIG_PATH_BYTES];
    char digest[SHA256_HEX_BYTES];
    uint64_t weight_bytes;
    /* Of 32-bit keys and values: what our cpu engine takes at most. */
    uint64_t kv_bytes_per_token;
    uint64_t context; /* tokens */
};

struct model_trouble {
    char path[CONFIG_PATH_BYTES];
    char reason[ERROR_TEXT_BYTES];
};

struct models_scan {
    struct model_found models[WIRE_MODELS_MAX];
    size_t model_count;
    struct model_trouble troubles[WIRE_MODELS_MAX];
    size_t trouble_count;
    uint64_t read_bytes; /* hashed by this scan */
    uint64_t read_us;
};

/* Read the folders now, in this process. @digests_path is the cache file. */
void models_scan_folders(const struct agent_config *config,
                         const char *digests_path, struct models_scan *scan);

struct models;

/* @config and @home are kept.  @on_change is called when the list differs from
 * the one before. */
struct models *models_new(struct event_base *base,
                          const struct agent_config *config,
                          const struct home *home, void (*on_change)(void *arg),
                          void *arg);
void models_free(struct models *models);
/* Start a scan now (nothing when one is under way) and one every rescan_s. */
void models_start(struct models *models);
/* A child ended: was it the helper? */
void models_reap(struct models *models);

/* The latest list; borrowed until the loop's next turn. */
const struct models_scan *models_latest(const struct models *models);
/* NULL when there is none. */
const struct model_found *models_find(const struct models *models,
                                      const char *digest);
/* Bytes per second of the largest reading so far; false before one. */
MUST_CHECK bool models_read_rate(const struct models *models,
                                 double *bytes_per_s);

#endif
