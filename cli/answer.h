/* answer.h - a streamed answer on its way to standard output. */
#ifndef BERTH_CLI_ANSWER_H
#define BERTH_CLI_ANSWER_H

#include <stdbool.h>

#include "cli/cli.h"
#include "common/attrs.h"
#include "common/buf.h"
#include "common/json.h"

enum { CLI_ANSWER_MAX_BYTES = 16 * 1024 * 1024 };

/* Write text at once: as it is to a file or pipe, without control characters
 * to a terminal. */
void cli_answer_write(const struct cli *cli, const char *text, size_t size);
/* An error object of the API ({message, code, ...}) into cli->err. */
enum status cli_answer_fail(struct cli *cli, const struct json *error);

/* One request of /v1/chat/completions; its answer is written as it comes and
 * appended to @text.  @request is the JSON body, with or without "stream". */
MUST_CHECK enum status cli_answer_stream(struct cli *cli,
                                         const struct buf *request,
                                         struct buf *text);
MUST_CHECK enum status cli_answer_whole(struct cli *cli,
                                        const struct buf *request,
                                        struct buf *text);

#endif
