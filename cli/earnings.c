/* earnings.c - `berth earnings`. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/url.h"
#include "common/units.h"

#include "common/banned.h"

static const char usage[] =
    "usage: berth earnings [--by node|pod|owner|model|day] [--from T] [--to T]"
    "\n\nT is a date (2026-11-30) or RFC 3339 time in UTC.";

/* The first two titles depend on the grouping. */
enum { COLUMN_COUNT = 6 };

static const struct grouping {
    const char *by;
    const char *title;
} groupings[] = {
    {"node", "NODE"},   {"pod", "POD"}, {"owner", "OWNER"},
    {"model", "MODEL"}, {"day", "DAY"},
};

struct sums {
    int64_t credits, jobs, prompt, completion;
};

/* Sums of what was shown; a sum that does not fit is not shown. */
static bool
sum(int64_t *total, const struct json *value)
{
    int64_t more = 0;

    if (json_as_i64(value, &more) != STATUS_OK ||
        (more > 0 && *total > INT64_MAX - more) ||
        (more < 0 && *total < INT64_MIN - more))
        return false;
    *total += more;
    return true;
}

static bool
sum_row(struct sums *sums, const struct json *row)
{
    return sum(&sums->credits, json_get(row, "credits_ucr")) &&
           sum(&sums->jobs, json_get(row, "jobs")) &&
           sum(&sums->prompt, json_get(row, "prompt_tokens")) &&
           sum(&sums->completion, json_get(row, "completion_tokens"));
}

static void
add_row(struct cli_table *table, const struct json *row, const char *by)
{
    cli_table_id(table, json_get(row, by));
    cli_table_json(table, json_get(row, "name"));
    cli_table_credits(table, json_get(row, "credits_ucr"));
    cli_table_json(table, json_get(row, "jobs"));
    cli_table_json(table, json_get(row, "prompt_tokens"));
    cli_table_json(table, json_get(row, "completion_tokens"));
}

static void
add_sums(struct cli_table *table, const struct sums *sums)
{
    struct credits credits = {.micro = sums->credits};
    char text[32];

    cli_table_text(table, "total");
    cli_table_text(table, NULL);
    cli_table_text(table, credits_text(credits, text, sizeof(text)));
    cli_table_format(table, "%" PRId64, sums->jobs);
    cli_table_format(table, "%" PRId64, sums->prompt);
    cli_table_format(table, "%" PRId64, sums->completion);
}

static void
print_earnings(const struct cli *cli, const struct json *rows,
               const struct grouping *grouping)
{
    const struct cli_column columns[COLUMN_COUNT] = {
        {grouping->title, CLI_LEFT}, {"NAME", CLI_LEFT},
        {"CREDITS", CLI_RIGHT},      {"JOBS", CLI_RIGHT},
        {"TOKENS IN", CLI_RIGHT},    {"OUT", CLI_RIGHT},
    };
    struct sums sums = {0};
    bool is_summed = true;
    struct cli_table table;

    if (json_count(rows) == 0) {
        printf("No earnings here (--to is not included): a node earns when "
               "it has answered a paid job.\n");
        return;
    }
    cli_table_init(&table, columns, COLUMN_COUNT, cli->is_terminal);
    for (size_t i = 0; i < json_count(rows); i++) {
        add_row(&table, json_at(rows, i), grouping->by);
        is_summed = is_summed && sum_row(&sums, json_at(rows, i));
    }
    if (is_summed)
        add_sums(&table, &sums);
    cli_print_table(&table);
    cli_table_clear(&table);
}

static enum status
list(struct cli *cli, const struct grouping *grouping, const char *from,
     const char *to)
{
    struct cli_answer answer;
    enum status status;
    struct buf path;

    buf_init(&path, CLI_PATH_MAX_BYTES);
    cli_answer_init(&answer);
    buf_append_text(&path, "/api/v1/earnings");
    cli_url_query(&path, "by", grouping->by);
    cli_url_query(&path, "from", from);
    cli_url_query(&path, "to", to);
    status = buf_status(&path, &cli->err);
    if (status == STATUS_OK)
        status = cli_get(cli, path.data, &answer);
    if (status == STATUS_OK && cli->json)
        cli_print_json(&answer);
    else if (status == STATUS_OK)
        print_earnings(cli, cli_list(&answer), grouping);
    cli_answer_clear(&answer);
    buf_clear(&path);
    return status;
}

static const struct grouping *
find_grouping(const char *by)
{
    for (size_t i = 0; i < COUNT_OF(groupings); i++) {
        if (strcmp(groupings[i].by, by) == 0)
            return &groupings[i];
    }
    return NULL;
}

int
cli_earnings(int argc, char **argv)
{
    struct cli cli = {.json = false};
    const char *by = "node", *from = NULL, *to = NULL;
    const struct option_spec specs[] = {
        {.name = "--by",
         .type = OPTION_TEXT,
         .text = &by,
         .value = "WHAT",
         .help = "node, pod, owner, model or day"},
        {.name = "--from",
         .type = OPTION_TEXT,
         .text = &from,
         .value = "T",
         .help = "from this time on"},
        {.name = "--to",
         .type = OPTION_TEXT,
         .text = &to,
         .value = "T",
         .help = "up to this time"},
        CLI_JSON_OPTION(cli),
    };
    enum status status =
        cli_open(&cli, argc, argv, usage, specs, COUNT_OF(specs), 0, 0);

    if (status == STATUS_OK && find_grouping(by) == NULL)
        status = cli_misuse(&cli,
                            "--by takes node, pod, owner, model or day, "
                            "not \"%.40s\"",
                            by);
    if (status == STATUS_OK)
        status = list(&cli, find_grouping(by), from, to);
    return cli_close(&cli, status);
}
