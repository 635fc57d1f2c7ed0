/* cli.h - what every command of `berth` does alike: options, configuration,
 * requests, the way it ends.
 *
 *   struct cli cli = {0};
 *   const struct option_spec specs[] = {CLI_JSON_OPTION(cli)};
 *   enum status status = cli_open(&cli, argc, argv, usage, specs, ...);
 *
 *   if (status == STATUS_OK)
 *       status = work(&cli);
 *   return cli_close(&cli, status);
 */
#ifndef BERTH_CLI_CLI_H
#define BERTH_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/config.h"
#include "cli/http.h"
#include "cli/table.h"
#include "common/attrs.h"
#include "common/buf.h"
#include "common/error.h"
#include "common/json.h"
#include "common/options.h"

enum {
    CLI_WORDS_MAX = 8,
    CLI_PATH_MAX_BYTES = 4096,
    CLI_OUTPUT_MAX_BYTES = 64 * 1024 * 1024,
    CLI_ID_BYTES = 160, /* an id of any kind, with the NUL */
};

struct cli {
    struct cli_config config;
    struct cli_http *http;
    const char *words[CLI_WORDS_MAX]; /* borrowed from argv */
    size_t word_count;
    bool json;
    bool is_terminal; /* standard output is one */
    bool is_misuse;   /* what failed is the command line or configuration */
    struct error err;
};

#define CLI_JSON_OPTION(cli_)                                                  \
    {                                                                          \
        .name = "--json", .type = OPTION_FLAG, .flag = &(cli_).json,           \
        .help = "print the API's JSON"                                         \
    }

/* An answer and its tree. */
struct cli_answer {
    struct buf text;
    struct json_doc doc;
};

/* Options and words only: for commands that need no coordinator. */
MUST_CHECK enum status cli_parse(struct cli *cli, int argc, char **argv,
                                 const char *usage,
                                 const struct option_spec *specs,
                                 size_t spec_count, size_t word_min,
                                 size_t word_max);
/* The same, then configuration and client. */
MUST_CHECK enum status cli_open(struct cli *cli, int argc, char **argv,
                                const char *usage,
                                const struct option_spec *specs,
                                size_t spec_count, size_t word_min,
                                size_t word_max);
/* cli->err as one line on standard error, with its code. */
void cli_complain(const struct cli *cli);
/* Say what failed, free everything; the exit status of the process. */
int cli_close(struct cli *cli, enum status status);

/* A failure of usage: sets cli->err and is_misuse, returns STATUS_INVALID. */
enum status cli_misuse(struct cli *cli, const char *format, ...)
    PRINTF_LIKE(2, 3);

void cli_answer_init(struct cli_answer *answer);
void cli_answer_clear(struct cli_answer *answer);

/* Send, and parse the answer over what @answer held. */
MUST_CHECK enum status cli_call(struct cli *cli,
                                const struct cli_request *request,
                                struct cli_answer *answer);
MUST_CHECK enum status cli_get(struct cli *cli, const char *path,
                               struct cli_answer *answer);
/* POST of the JSON in @body; an overflowed body is STATUS_TOO_LARGE. */
MUST_CHECK enum status cli_post(struct cli *cli, const char *path,
                                const struct buf *body,
                                const char *idempotency_key,
                                struct cli_answer *answer);
/* @method on "<prefix><id escaped><suffix>"; slashes of the id stay. */
MUST_CHECK enum status cli_call_on(struct cli *cli, const char *method,
                                   const char *prefix, const char *id,
                                   const char *suffix,
                                   struct cli_answer *answer);

/* The "data" of a list. */
const struct json *cli_list(const struct cli_answer *answer);
/* Text of a member as a terminal may show it, "" when it is none; @text holds
 * @size bytes. Returns @text. */
const char *cli_member(const struct json *object, const char *name, char *text,
                       size_t size);

/* The answer as the API gave it. */
void cli_print_json(const struct cli_answer *answer);
void cli_print_table(const struct cli_table *table);
/* The rows of @list, one call of @on_row each, or @when_empty as a line. */
void cli_print_list(const struct cli *cli, const struct json *list,
                    const struct cli_column *columns, size_t column_count,
                    void (*on_row)(struct cli_table *, const struct json *),
                    const char *when_empty);
/* Get the list at @path and print it: as JSON when asked, else as above. */
MUST_CHECK enum status cli_show_list(struct cli *cli, const char *path,
                                     const struct cli_column *columns,
                                     size_t column_count,
                                     void (*on_row)(struct cli_table *,
                                                    const struct json *),
                                     const char *when_empty);

/* The id that @word means among the items of the list at @path: the id itself
 * or the name, or the beginning or end (4 characters at least) of one id only.
 * A whole UUID is taken without asking. @noun is for messages. */
MUST_CHECK enum status cli_resolve(struct cli *cli, const char *path,
                                   const char *noun, const char *word,
                                   char id[static CLI_ID_BYTES]);
/* The first model that can be served now, or @wanted when it is not NULL. */
MUST_CHECK enum status cli_model(struct cli *cli, const char *wanted,
                                 char id[static CLI_ID_BYTES]);

/* A whole file, or standard input for "-", appended. */
MUST_CHECK enum status cli_read(struct cli *cli, const char *path,
                                struct buf *text);

#endif
