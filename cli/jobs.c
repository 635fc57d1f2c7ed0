/* jobs.c - `berth jobs` and `berth cancel`. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/url.h"
#include "common/units.h"

#include "common/banned.h"

static const char list_usage[] =
    "usage: berth jobs [--state S] [--model M] [--limit N] [--all]\n\n"
    "Your jobs, newest first. S is queued, running, done, failed, cancelled or "
    "quarantined.";
static const char cancel_usage[] = "usage: berth cancel ID";

static const struct cli_column columns[] = {
    {"JOB", CLI_LEFT},           {"MODEL", CLI_LEFT},      {"STATE", CLI_LEFT},
    {"CREATED (UTC)", CLI_LEFT}, {"TOKENS IN", CLI_RIGHT}, {"OUT", CLI_RIGHT},
    {"CREDITS", CLI_RIGHT},
};

struct filter {
    const char *state;
    const char *model;
    const char *limit;
    const char *cursor;
    bool all;
};

static void
on_job(struct cli_table *table, const struct json *job)
{
    const struct json *usage = json_get(job, "usage");

    cli_table_id(table, json_get(job, "id"));
    cli_table_json(table, json_get(job, "model"));
    cli_table_json(table, json_get(job, "state"));
    cli_table_time(table, json_get(job, "created"));
    cli_table_json(table, json_get(usage, "prompt_tokens"));
    cli_table_json(table, json_get(usage, "completion_tokens"));
    cli_table_credits(table, json_get(job, "price_ucr"));
}

static void
print_jobs(const struct cli *cli, const struct cli_answer *answer)
{
    char next[512];

    cli_print_list(cli, cli_list(answer), columns, COUNT_OF(columns), on_job,
                   "No jobs here: `berth run PROMPT` submits one.");
    (void)cli_member(answer->doc.root, "next", next, sizeof(next));
    if (next[0] != '\0')
        printf("Older ones: the same command with --cursor %s\n", next);
}

static enum status
list(struct cli *cli, const struct filter *filter)
{
    struct cli_answer answer;
    enum status status;
    struct buf path;

    buf_init(&path, CLI_PATH_MAX_BYTES);
    cli_answer_init(&answer);
    buf_append_text(&path, "/api/v1/jobs");
    cli_url_query(&path, "state", filter->state);
    cli_url_query(&path, "model", filter->model);
    cli_url_query(&path, "limit", filter->limit);
    cli_url_query(&path, "cursor", filter->cursor);
    cli_url_query(&path, "all", filter->all ? "1" : NULL);
    status = buf_status(&path, &cli->err);
    if (status == STATUS_OK)
        status = cli_get(cli, path.data, &answer);
    if (status == STATUS_OK && cli->json)
        cli_print_json(&answer);
    else if (status == STATUS_OK)
        print_jobs(cli, &answer);
    cli_answer_clear(&answer);
    buf_clear(&path);
    return status;
}

int
cli_jobs(int argc, char **argv)
{
    struct cli cli = {.json = false};
    struct filter filter = {.all = false};
    const struct option_spec specs[] = {
        {.name = "--state",
         .type = OPTION_TEXT,
         .text = &filter.state,
         .value = "S",
         .help = "only jobs in this state"},
        {.name = "--model",
         .type = OPTION_TEXT,
         .text = &filter.model,
         .value = "M",
         .help = "only jobs for this model"},
        {.name = "--limit",
         .type = OPTION_TEXT,
         .text = &filter.limit,
         .value = "N",
         .help = "1 to 100, default 20"},
        {.name = "--cursor",
         .type = OPTION_TEXT,
         .text = &filter.cursor,
         .value = "C",
         .help = "go on where a list ended"},
        {.name = "--all",
         .type = OPTION_FLAG,
         .flag = &filter.all,
         .help = "of all accounts (operators)"},
        CLI_JSON_OPTION(cli),
    };
    enum status status =
        cli_open(&cli, argc, argv, list_usage, specs, COUNT_OF(specs), 0, 0);

    if (status == STATUS_OK)
        status = list(&cli, &filter);
    return cli_close(&cli, status);
}

static enum status
cancel(struct cli *cli)
{
    char id[CLI_ID_BYTES];
    struct cli_answer answer;
    enum status status;

    cli_answer_init(&answer);
    status =
        cli_resolve(cli, "/api/v1/jobs?limit=100", "job", cli->words[0], id);
    if (status == STATUS_OK)
        status = cli_call_on(cli, "DELETE", "/api/v1/jobs/", id, "", &answer);
    if (status == STATUS_OK && cli->json)
        cli_print_json(&answer);
    else if (status == STATUS_OK)
        printf("Job %s is cancelled.\n", id);
    cli_answer_clear(&answer);
    return status;
}

int
cli_cancel(int argc, char **argv)
{
    struct cli cli = {.json = false};
    const struct option_spec specs[] = {CLI_JSON_OPTION(cli)};
    enum status status =
        cli_open(&cli, argc, argv, cancel_usage, specs, COUNT_OF(specs), 1, 1);

    if (status == STATUS_OK)
        status = cancel(&cli);
    return cli_close(&cli, status);
}
