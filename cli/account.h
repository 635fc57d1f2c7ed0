/* account.h - accounts by number or by name on the command line. */
#ifndef BERTH_CLI_ACCOUNT_H
#define BERTH_CLI_ACCOUNT_H

#include <stdint.h>

#include "cli/cli.h"
#include "common/attrs.h"
#include "common/json.h"

/* Write member @name: a number when @word is one, else its text, which the
 * coordinator looks up. */
void cli_account_write(struct json_out *out, const char *name,
                       const char *word);
/* The number of the account that @word is the number or the name of; names
 * need an operator's key. */
MUST_CHECK enum status cli_account_resolve(struct cli *cli, const char *word,
                                           int64_t *id);

#endif
