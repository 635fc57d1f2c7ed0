/* request.h - an OpenAI chat request out of options, for `chat` and `run`. */
#ifndef BERTH_CLI_REQUEST_H
#define BERTH_CLI_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/cli.h"
#include "common/attrs.h"
#include "common/buf.h"
#include "common/json.h"

enum { CLI_PROMPT_MAX_BYTES = 4 * 1024 * 1024 };

/* The options as given, NULL where not. */
struct cli_sampling {
    const char *model;
    const char *system;
    const char *temperature;
    const char *top_p;
    const char *max_tokens;
    const char *seed;
};

#define CLI_SAMPLING_OPTION(name_, member_, value_, help_)                     \
    {                                                                          \
        .name = (name_), .type = OPTION_TEXT, .text = &(member_),              \
        .value = (value_), .help = (help_)                                     \
    }
/* The rows of an option table. */
#define CLI_SAMPLING_OPTIONS(sampling_)                                        \
    CLI_SAMPLING_OPTION("--model", (sampling_).model, "M",                     \
                        "default: the first that is served"),                  \
        CLI_SAMPLING_OPTION("--system", (sampling_).system, "TEXT",            \
                            "how the model shall behave"),                     \
        CLI_SAMPLING_OPTION("--temp", (sampling_).temperature, "X",            \
                            "0: always the likeliest token"),                  \
        CLI_SAMPLING_OPTION("--top-p", (sampling_).top_p, "X",                 \
                            "sample from this share only"),                    \
        CLI_SAMPLING_OPTION("--max-tokens", (sampling_).max_tokens, "N",       \
                            "longest answer"),                                 \
        CLI_SAMPLING_OPTION("--seed", (sampling_).seed, "S",                   \
                            "equal seeds, equal answers")

/* Append {"role":..,"content":..} to @messages, after a comma if needed. */
void cli_message_add(struct buf *messages, const char *role, const char *text,
                     size_t size);

/* Write the request object; @messages as cli_message_add made them.  A number
 * that is none is a misuse. */
MUST_CHECK enum status cli_request_write(struct cli *cli,
                                         const struct cli_sampling *sampling,
                                         const char *model,
                                         const struct buf *messages,
                                         bool is_stream, struct json_out *out);

#endif
