/* config.h - which coordinator, which key: ~/.config/berth/config, written by
 * `berth login` with mode 0600, and the environment, which wins. */
#ifndef BERTH_CLI_CONFIG_H
#define BERTH_CLI_CONFIG_H

#include <stdbool.h>

#include "common/attrs.h"
#include "common/error.h"

enum {
    CLI_URL_BYTES = 512,
    CLI_PATH_BYTES = 1024,
    CLI_KEY_BYTES = 256,
};

struct cli_config {
    char url[CLI_URL_BYTES];      /* without a slash at the end */
    char ca_file[CLI_PATH_BYTES]; /* "": the system's certificates */
    char api_key[CLI_KEY_BYTES];
    bool is_plain; /* http on loopback; not stored */
};

/* "$HOME/.config/berth/config". STATUS_INVALID without HOME. */
MUST_CHECK enum status cli_config_path(char path[static CLI_PATH_BYTES],
                                       struct error *err);
/* Write url, ca_file and api_key to @path, making its folder. */
MUST_CHECK enum status cli_config_write(const char *path,
                                        const struct cli_config *config,
                                        struct error *err);
/* The file at @path when there is one, then BERTH_URL, BERTH_CA_FILE and
 * BERTH_API_KEY over it.  STATUS_INVALID, with what to do, when the address or
 * the key is missing or wrong, or others may read the file. */
MUST_CHECK enum status cli_config_read(const char *path,
                                       struct cli_config *config,
                                       struct error *err);
/* Check a key's form: visible ASCII without blanks (it goes into a header). */
MUST_CHECK enum status cli_config_check_key(const char *key, struct error *err);

#endif
