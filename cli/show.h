/* show.h - the parts of an answer on standard output: what the model thought,
 * what it said, and which tools it would call.
 *
 * Reasoning is for people: it is dim on a terminal and left out elsewhere. */
#ifndef BERTH_CLI_SHOW_H
#define BERTH_CLI_SHOW_H

#include <stddef.h>

#include "cli/cli.h"
#include "common/json.h"

enum cli_part { CLI_PART_NONE, CLI_REASONING, CLI_CONTENT, CLI_CALL };

struct cli_show {
    const struct cli *cli;
    enum cli_part part; /* the one that is open */
};

/* More of a text; what was open before ends with its line. */
void cli_show_text(struct cli_show *show, enum cli_part part, const char *text,
                   size_t size);
/* A call begins: NAME( ; its arguments are the texts that follow. */
void cli_show_call(struct cli_show *show, const char *name, size_t size);
void cli_show_end(struct cli_show *show);
/* A whole message of the API: reasoning_content, content, tool_calls. */
void cli_show_message(struct cli_show *show, const struct json *message);

#endif
