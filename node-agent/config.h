/* config.h - the agent's configuration file: one table of keys. */
#ifndef BERTH_NODE_AGENT_CONFIG_H
#define BERTH_NODE_AGENT_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "common/conf.h"
#include "common/error.h"

enum {
    CONFIG_PATH_BYTES = 1024,
    CONFIG_MODEL_FOLDERS_MAX = 32,
    CONFIG_LINK_BYTES = 300,
};

struct agent_config {
    char models[CONFIG_MODEL_FOLDERS_MAX][CONFIG_PATH_BYTES];
    size_t model_count;
    uint64_t memory_cap;            /* bytes, 0: none */
    uint64_t threads;               /* per engine, 0: all cores */
    uint64_t slots;                 /* jobs run at once per engine */
    char engine[CONFIG_PATH_BYTES]; /* "": beside this program */
    uint64_t engine_silence_s;      /* of an engine with jobs */
    uint64_t rescan_s;
    uint64_t reconnect_max_s;     /* longest wait between two tries */
    char link[CONFIG_LINK_BYTES]; /* "host:port", "": as join stored it */
};

extern const struct conf_key agent_config_keys[];
extern const size_t agent_config_key_count;

/* Defaults, then @path over them; NULL @path: defaults only. */
MUST_CHECK enum status agent_config_read(const char *path,
                                         struct agent_config *config,
                                         struct error *err);

#endif
