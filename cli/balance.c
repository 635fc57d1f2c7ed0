/* balance.c - `berth balance`. */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/url.h"

#include "common/banned.h"

static const char usage[] =
    "usage: berth balance [--account ID]\n\n"
    "Credits free to spend, held for jobs, and earned but still maturing.";

static const struct cli_column columns[] = {
    {"ACCOUNT", CLI_RIGHT},
    {"AVAILABLE", CLI_RIGHT},
    {"HELD", CLI_RIGHT},
    {"MATURING", CLI_RIGHT},
};

static void
print_balance(const struct json *balance)
{
    struct cli_table table;

    cli_table_init(&table, columns, COUNT_OF(columns), false);
    cli_table_json(&table, json_get(balance, "account"));
    cli_table_credits(&table, json_get(balance, "available_ucr"));
    cli_table_credits(&table, json_get(balance, "held_ucr"));
    cli_table_credits(&table, json_get(balance, "maturing_ucr"));
    cli_print_table(&table);
    cli_table_clear(&table);
}

static enum status
show(struct cli *cli, const char *account)
{
    struct cli_answer answer;
    enum status status;
    struct buf path;

    buf_init(&path, CLI_PATH_MAX_BYTES);
    cli_answer_init(&answer);
    buf_append_text(&path, "/api/v1/balance");
    cli_url_query(&path, "account", account);
    status = buf_status(&path, &cli->err);
    if (status == STATUS_OK)
        status = cli_get(cli, path.data, &answer);
    if (status == STATUS_OK && cli->json)
        cli_print_json(&answer);
    else if (status == STATUS_OK)
        print_balance(answer.doc.root);
    cli_answer_clear(&answer);
    buf_clear(&path);
    return status;
}

int
cli_balance(int argc, char **argv)
{
    struct cli cli = {.json = false};
    const char *account = NULL;
    const struct option_spec specs[] = {
        {.name = "--account",
         .type = OPTION_TEXT,
         .text = &account,
         .value = "ID",
         .help = "of another account (operators)"},
        CLI_JSON_OPTION(cli),
    };
    enum status status =
        cli_open(&cli, argc, argv, usage, specs, COUNT_OF(specs), 0, 0);

    if (status == STATUS_OK)
        status = show(&cli, account);
    return cli_close(&cli, status);
}
