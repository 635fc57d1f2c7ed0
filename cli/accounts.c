/* accounts.c - `berth accounts`, `berth accounts add`, `berth grant`. */
#include <stdio.h>
#include <string.h>

#include "cli/account.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "common/cert.h"
#include "common/clock.h"
#include "common/units.h"

#include "common/banned.h"

static const char list_usage[] = "usage: berth accounts";
static const char add_usage[] = "usage: berth accounts add NAME";
static const char grant_usage[] =
    "usage: berth grant ACCOUNT CREDITS [--note TEXT]\n\n"
    "Gives credits from the treasury. ACCOUNT is a number or a name, CREDITS "
    "like 100 or\n0.25.";

enum { BODY_MAX_BYTES = 16384 };

static const struct cli_column columns[] = {
    {"ACCOUNT", CLI_RIGHT},   {"NAME", CLI_LEFT},  {"CREATED (UTC)", CLI_LEFT},
    {"AVAILABLE", CLI_RIGHT}, {"HELD", CLI_RIGHT}, {"MATURING", CLI_RIGHT},
};

static void
on_account(struct cli_table *table, const struct json *account)
{
    const struct json *balance = json_get(account, "balance");

    cli_table_json(table, json_get(account, "id"));
    cli_table_json(table, json_get(account, "name"));
    cli_table_time(table, json_get(account, "created"));
    cli_table_credits(table, json_get(balance, "available_ucr"));
    cli_table_credits(table, json_get(balance, "held_ucr"));
    cli_table_credits(table, json_get(balance, "maturing_ucr"));
}

static enum status
list(struct cli *cli)
{
    return cli_show_list(
        cli, "/api/v1/accounts", columns, COUNT_OF(columns), on_account,
        "No accounts yet: `berth accounts add NAME` makes one.");
}

int
cli_accounts(int argc, char **argv)
{
    struct cli cli = {.json = false};
    const struct option_spec specs[] = {CLI_JSON_OPTION(cli)};
    enum status status =
        cli_open(&cli, argc, argv, list_usage, specs, COUNT_OF(specs), 0, 0);

    if (status == STATUS_OK)
        status = list(&cli);
    return cli_close(&cli, status);
}

static enum status
add(struct cli *cli)
{
    struct cli_answer answer;
    enum status status;
    struct buf body;
    struct json_out out;
    int64_t id = 0;

    buf_init(&body, BODY_MAX_BYTES);
    cli_answer_init(&answer);
    json_out_init(&out, &body);
    json_open_object(&out);
    json_member_text(&out, "name", cli->words[0]);
    json_close_object(&out);
    status = cli_post(cli, "/api/v1/accounts", &body, NULL, &answer);
    if (status == STATUS_OK && cli->json)
        cli_print_json(&answer);
    else if (status == STATUS_OK &&
             json_as_i64(json_get(answer.doc.root, "id"), &id) == STATUS_OK)
        printf("Account %lld is %s.\n", (long long)id, cli->words[0]);
    cli_answer_clear(&answer);
    buf_clear(&body);
    return status;
}

int
cli_accounts_add(int argc, char **argv)
{
    struct cli cli = {.json = false};
    const struct option_spec specs[] = {CLI_JSON_OPTION(cli)};
    enum status status =
        cli_open(&cli, argc, argv, add_usage, specs, COUNT_OF(specs), 1, 1);

    if (status == STATUS_OK)
        status = add(&cli);
    return cli_close(&cli, status);
}

/* The key makes a repeated request one grant. */
static enum status
send_grant(struct cli *cli, struct credits amount, const char *note,
           struct cli_answer *answer)
{
    char key[UUID_TEXT_BYTES];
    enum status status;
    struct buf body;
    struct json_out out;

    uuid_make(clock_wall(), key);
    buf_init(&body, BODY_MAX_BYTES);
    json_out_init(&out, &body);
    json_open_object(&out);
    cli_account_write(&out, "account", cli->words[0]);
    json_member_i64(&out, "amount_ucr", amount.micro);
    if (note != NULL)
        json_member_text(&out, "note", note);
    json_close_object(&out);
    status = cli_post(cli, "/api/v1/grants", &body, key, answer);
    buf_clear(&body);
    return status;
}

static enum status
grant(struct cli *cli, const char *note)
{
    const char *text = cli->words[1];
    struct credits amount = {0}, available = {0};
    struct cli_answer answer;
    enum status status;
    char given[32], now[32];

    if (parse_credits(text, strlen(text), &amount) != STATUS_OK ||
        amount.micro == 0)
        return cli_misuse(cli,
                          "\"%.40s\" is no amount of credits; write it like "
                          "100 or 0.25",
                          text);
    cli_answer_init(&answer);
    status = send_grant(cli, amount, note, &answer);
    if (status == STATUS_OK && cli->json)
        cli_print_json(&answer);
    else if (status == STATUS_OK) {
        printf("Gave %s credits to account %s",
               credits_text(amount, given, sizeof(given)), cli->words[0]);
        if (json_as_i64(
                json_get(json_get(answer.doc.root, "balance"), "available_ucr"),
                &available.micro) == STATUS_OK)
            printf("; it has %s available",
                   credits_text(available, now, sizeof(now)));
        printf(".\n");
    }
    cli_answer_clear(&answer);
    return status;
}

int
cli_grant(int argc, char **argv)
{
    struct cli cli = {.json = false};
    const char *note = NULL;
    const struct option_spec specs[] = {
        {.name = "--note",
         .type = OPTION_TEXT,
         .text = &note,
         .value = "TEXT",
         .help = "why, for the books"},
        CLI_JSON_OPTION(cli),
    };
    enum status status =
        cli_open(&cli, argc, argv, grant_usage, specs, COUNT_OF(specs), 2, 2);

    if (status == STATUS_OK)
        status = grant(&cli, note);
    return cli_close(&cli, status);
}
