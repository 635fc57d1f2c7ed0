/* config.c - the file and the environment. */
#include "cli/config.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

#include "cli/url.h"
#include "common/buf.h"
#include "common/conf.h"

#include "common/banned.h"

enum { CONFIG_MAX_BYTES = 4096 };

static const struct conf_key config_keys[] = {
    CONF_KEY(struct cli_config, url, CONF_TEXT,
             .meaning = "address of the coordinator"),
    CONF_KEY(struct cli_config, ca_file, CONF_TEXT,
             .meaning = "certificate to trust instead of the system's"),
    CONF_KEY(struct cli_config, api_key, CONF_TEXT,
             .meaning = "the key that berth sends"),
};

enum status
cli_config_path(char path[static CLI_PATH_BYTES], struct error *err)
{
    const char *home = getenv("HOME");
    int size;

    if (home == NULL || home[0] == '\0')
        return error_set(err, STATUS_INVALID,
                         "HOME is not set, so there is no place for the "
                         "configuration; set BERTH_URL and BERTH_API_KEY");
    size = snprintf(path, CLI_PATH_BYTES, "%s/.config/berth/config", home);
    if (size < 0 || size >= CLI_PATH_BYTES)
        return error_set(err, STATUS_INVALID, "HOME is too long");
    return STATUS_OK;
}

static enum status
make_folder_of(const char *path, struct error *err)
{
    const char *slash = strrchr(path, '/');
    char folder[CLI_PATH_BYTES];

    if (slash == NULL || slash == path)
        return STATUS_OK;
    (void)snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path);
    return folder_make(folder, 0700, err);
}

enum status
cli_config_write(const char *path, const struct cli_config *config,
                 struct error *err)
{
    enum status status;
    struct buf text;

    buf_init(&text, CONFIG_MAX_BYTES);
    buf_append_text(&text, "# Written by `berth login`. Holds a key: 0600.\n");
    conf_print(config_keys, COUNT_OF(config_keys), config, &text);
    status = buf_status(&text, err);
    if (status == STATUS_OK)
        status = make_folder_of(path, err);
    if (status == STATUS_OK)
        status = file_write_whole(path, text.data, text.size, 0600, err);
    buf_clear(&text);
    return status;
}

/* A key that others can read is no secret. */
static enum status
read_file(const char *path, struct cli_config *config, struct error *err)
{
    struct stat info;

    if (stat(path, &info) != 0)
        return STATUS_OK; /* never logged in: the environment may do */
    if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return error_set(err, STATUS_INVALID,
                         "%.300s holds a key and others may read it; run "
                         "chmod 600 on it",
                         path);
    return conf_read(path, config_keys, COUNT_OF(config_keys), config, err);
}

static enum status
take_environment(const char *name, char *value, size_t value_size,
                 struct error *err)
{
    const char *text = getenv(name);

    if (text == NULL || text[0] == '\0')
        return STATUS_OK;
    if (strlen(text) >= value_size)
        return error_set(err, STATUS_INVALID, "%s is longer than %zu bytes",
                         name, value_size - 1);
    (void)snprintf(value, value_size, "%s", text);
    return STATUS_OK;
}

enum status
cli_config_check_key(const char *key, struct error *err)
{
    bool is_visible = key[0] != '\0';

    for (const char *c = key; *c != '\0'; c++)
        is_visible = is_visible && *c > 0x20 && *c < 0x7f;
    if (!is_visible || strlen(key) >= CLI_KEY_BYTES)
        return error_set(err, STATUS_INVALID,
                         "that is no key: keys look like sk-berth- and 64 "
                         "hexadecimal digits");
    return STATUS_OK;
}

static enum status
check(struct cli_config *config, struct error *err)
{
    char given[CLI_URL_BYTES];
    enum status status;

    if (config->url[0] == '\0')
        return error_set(err, STATUS_INVALID,
                         "no coordinator is known; run `berth login URL` or "
                         "set BERTH_URL");
    if (config->api_key[0] == '\0')
        return error_set(err, STATUS_INVALID,
                         "no API key is known; run `berth login` or set "
                         "BERTH_API_KEY");
    (void)snprintf(given, sizeof(given), "%s", config->url);
    status = cli_url_check(given, config->url, sizeof(config->url),
                           &config->is_plain, err);
    if (status == STATUS_OK)
        status = cli_config_check_key(config->api_key, err);
    return status;
}

enum status
cli_config_read(const char *path, struct cli_config *config, struct error *err)
{
    struct cli_config found = {.is_plain = false};
    enum status status = read_file(path, &found, err);

    if (status == STATUS_OK)
        status =
            take_environment("BERTH_URL", found.url, sizeof(found.url), err);
    if (status == STATUS_OK)
        status = take_environment("BERTH_CA_FILE", found.ca_file,
                                  sizeof(found.ca_file), err);
    if (status == STATUS_OK)
        status = take_environment("BERTH_API_KEY", found.api_key,
                                  sizeof(found.api_key), err);
    if (status == STATUS_OK)
        status = check(&found, err);
    if (status == STATUS_OK)
        *config = found;
    return status;
}
