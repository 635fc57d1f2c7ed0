/* config.c - the table of the coordinator's configuration keys. */
#include "coordinator/config.h"

#include <string.h>

#include "common/conf.h"

#include "common/banned.h"

static const struct conf_key keys[] = {
    CONF_KEY(struct config, database, CONF_TEXT, .fallback = "",
             .meaning = "libpq connection string of PostgreSQL 15 or newer"),
    CONF_KEY(struct config, https_address, CONF_TEXT, .fallback = "0.0.0.0",
             .meaning = "IP address that serves the API and the console"),
    CONF_KEY(struct config, https_port, CONF_U64, .max = 65535,
             .fallback = "8443", .meaning = "its port; 0: any free one"),
    CONF_KEY(struct config, link_address, CONF_TEXT, .fallback = "0.0.0.0",
             .meaning = "IP address that agents connect to"),
    CONF_KEY(struct config, link_port, CONF_U64, .max = 65535,
             .fallback = "8444", .meaning = "its port; 0: any free one"),
    CONF_KEY(struct config, ca_certificate, CONF_TEXT, .fallback = "",
             .meaning = "PEM file of the network's CA"),
    CONF_KEY(struct config, ca_key, CONF_TEXT, .fallback = "",
             .meaning = "PEM file of its key, readable by the owner only"),
    CONF_KEY(struct config, certificate, CONF_TEXT, .fallback = "",
             .meaning = "PEM file of the server's certificate, of that CA"),
    CONF_KEY(struct config, certificate_key, CONF_TEXT, .fallback = "",
             .meaning = "PEM file of its key"),
    CONF_KEY(struct config, content_keys, CONF_TEXT, .fallback = "",
             .meaning = "folder of the day keys of stored content, outside "
                        "the database and its backups"),
    CONF_KEY(struct config, public_url, CONF_TEXT, .fallback = "",
             .meaning = "what clients call it; empty: from address and port"),
    CONF_KEY(struct config, http_threads, CONF_U64, .min = 1, .max = 256,
             .fallback = "4", .meaning = "threads that serve HTTPS"),
    CONF_KEY(struct config, http_connections_max, CONF_U64, .min = 8,
             .max = 65536, .fallback = "1024",
             .meaning = "HTTPS connections at once"),
    CONF_KEY(struct config, http_connections_per_address, CONF_U64, .min = 1,
             .max = 65536, .fallback = "256",
             .meaning = "HTTPS connections at once from one address"),
    CONF_KEY(struct config, http_timeout_s, CONF_U64, .min = 1, .max = 3600,
             .fallback = "30", .unit = "s",
             .meaning = "an HTTPS connection without progress is closed"),
    CONF_KEY(struct config, body_max_bytes, CONF_BYTES, .min = 1024,
             .max = UINT64_C(64) << 20, .fallback = "8MiB",
             .meaning = "largest request body"),
    CONF_KEY(struct config, reader_connections, CONF_U64, .min = 1, .max = 64,
             .fallback = "4", .meaning = "database connections that read"),
    CONF_KEY(struct config, retention_s, CONF_U64, .min = 60, .max = 31536000,
             .fallback = "86400", .unit = "s",
             .meaning = "stored requests and results are kept so long"),
    CONF_KEY(struct config, patience_max_ms, CONF_U64, .max = 86400000,
             .fallback = "3600000", .unit = "ms",
             .meaning = "longest patience a request may ask"),
    CONF_KEY(struct config, slots_max, CONF_U64, .min = 1, .max = 64,
             .fallback = "16", .meaning = "jobs at once on one node, at most"),
    CONF_KEY(struct config, beat_s, CONF_U64, .min = 1, .max = 60,
             .fallback = "10", .unit = "s",
             .meaning = "agents send so often; three missed close a link"),
    CONF_KEY(struct config, stall_s, CONF_U64, .min = 1, .max = 3600,
             .fallback = "60", .unit = "s",
             .meaning = "an attempt that says nothing for so long is lost"),
    CONF_KEY(struct config, adrift_s, CONF_U64, .max = 600, .fallback = "10",
             .unit = "s",
             .meaning = "how long a job waits for the node that had it before "
                        "a restart"),
    CONF_KEY(struct config, poison_s, CONF_U64, .min = 1, .max = 3600,
             .fallback = "30", .unit = "s",
             .meaning = "an engine that dies so soon after a job came counts "
                        "against the job"),
};

void
config_defaults(struct config *config)
{
    *config = (struct config){.dev = false};
    conf_defaults(keys, COUNT_OF(keys), config);
}

static enum status
required(const char *path, const char *name, const char *value,
         struct error *err)
{
    if (value[0] != '\0')
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "%s: %s is missing: add a line %s = "
                     "...",
                     path, name, name);
}

enum status
config_read(const char *path, struct config *config, struct error *err)
{
    enum status status;

    config_defaults(config);
    status = conf_read(path, keys, COUNT_OF(keys), config, err);
    if (status == STATUS_NOT_FOUND)
        status = STATUS_INVALID; /* a wrong command line, not a lack */
    if (status == STATUS_OK)
        status = required(path, "database", config->database, err);
    if (status == STATUS_OK)
        status = required(path, "ca_certificate", config->ca_certificate, err);
    if (status == STATUS_OK)
        status = required(path, "ca_key", config->ca_key, err);
    if (status == STATUS_OK)
        status = required(path, "certificate", config->certificate, err);
    if (status == STATUS_OK)
        status =
            required(path, "certificate_key", config->certificate_key, err);
    if (status == STATUS_OK)
        status = required(path, "content_keys", config->content_keys, err);
    return status;
}

/* What --dev provides: the file must leave it alone. */
static enum status
provided(const char *path, const char *name, const char *value,
         const char *fallback, struct error *err)
{
    if (strcmp(value, fallback) == 0)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "%s: %s comes from --dev: remove the line", path, name);
}

enum status
config_read_dev(const char *path, struct config *config, struct error *err)
{
    struct config plain;
    enum status status;

    config_defaults(config);
    config_defaults(&plain);
    status = conf_read(path, keys, COUNT_OF(keys), config, err);
    if (status == STATUS_NOT_FOUND)
        status = STATUS_INVALID;
    for (size_t i = 0; i < COUNT_OF(keys) && status == STATUS_OK; i++)
        if (keys[i].type == CONF_TEXT)
            status = provided(path, keys[i].name,
                              (const char *)config + keys[i].offset,
                              (const char *)&plain + keys[i].offset, err);
    return status;
}

void
config_print(const struct config *config, struct buf *out)
{
    conf_print(keys, COUNT_OF(keys), config, out);
}
