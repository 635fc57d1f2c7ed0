/* config.c - the keys of the agent's configuration file. */
#include "node-agent/config.h"

#include "common/banned.h"

const struct conf_key agent_config_keys[] = {
    {.name = "models",
     .type = CONF_TEXTS,
     .offset = offsetof(struct agent_config, models),
     .size = CONFIG_PATH_BYTES,
     .capacity = CONFIG_MODEL_FOLDERS_MAX,
     .count_at = offsetof(struct agent_config, model_count),
     .meaning = "a model folder, or a folder of model folders; repeatable"},
    CONF_KEY(struct agent_config, memory_cap, CONF_BYTES, .fallback = "0",
             .max = INT64_MAX, .unit = "bytes",
             .meaning = "most memory the engines may hold together; 0: the "
                        "machine's own limit"),
    CONF_KEY(struct agent_config, threads, CONF_U64, .fallback = "0",
             .max = 256, .unit = "threads",
             .meaning = "compute threads of an engine; 0: one per core"),
    CONF_KEY(struct agent_config, slots, CONF_U64, .fallback = "4", .min = 1,
             .max = 64, .unit = "jobs",
             .meaning = "jobs that an engine runs at once"),
    CONF_KEY(struct agent_config, engine, CONF_TEXT, .fallback = "",
             .meaning = "path of the engine program; empty: berth-engine "
                        "beside berth-node"),
    CONF_KEY(struct agent_config, engine_silence_s, CONF_U64, .fallback = "30",
             .min = 1, .max = 3600, .unit = "s",
             .meaning = "an engine with jobs that says nothing for so long is "
                        "killed and started anew"),
    CONF_KEY(struct agent_config, rescan_s, CONF_U64, .fallback = "30",
             .min = 1, .max = 86400, .unit = "s",
             .meaning = "how often the model folders are looked at again"),
    CONF_KEY(struct agent_config, reconnect_max_s, CONF_U64, .fallback = "30",
             .min = 1, .max = 300, .unit = "s",
             .meaning = "longest wait between two tries to connect"),
    CONF_KEY(struct agent_config, link, CONF_TEXT, .fallback = "",
             .meaning = "host:port of the coordinator's link; empty: as "
                        "stored by join"),
};

const size_t agent_config_key_count = COUNT_OF(agent_config_keys);

enum status
agent_config_read(const char *path, struct agent_config *config,
                  struct error *err)
{
    struct agent_config read = {0};
    enum status status = STATUS_OK;

    conf_defaults(agent_config_keys, agent_config_key_count, &read);
    if (path != NULL)
        status = conf_read(path, agent_config_keys, agent_config_key_count,
                           &read, err);
    if (status == STATUS_OK)
        *config = read;
    return status;
}
