/* follow.h - a job's events as they come, through lost connections. */
#ifndef BERTH_CLI_FOLLOW_H
#define BERTH_CLI_FOLLOW_H

#include <stdbool.h>

#include "cli/cli.h"
#include "common/attrs.h"

/* Read the events of @job until it ends, writing its text to standard output
 * when @is_shown.  A lost connection is opened again after the last event seen
 * (Last-Event-ID), at once when it had brought any, else with growing waits;
 * after a minute without any it gives up, saying how to go on.  A job that
 * failed or was cancelled is a failure here. */
MUST_CHECK enum status cli_follow(struct cli *cli, const char *job,
                                  bool is_shown);

#endif
