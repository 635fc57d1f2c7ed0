/* models.c - `berth models` and `berth models remove`. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"

#include "common/banned.h"

static const char list_usage[] =
    "usage: berth models [--catalogue]\n\n"
    "The catalogue, and which of it is served now. --json prints /v1/models "
    "(what is\nserved), with --catalogue the catalogue.";
static const char remove_usage[] = "usage: berth models remove ID";

static const struct cli_column columns[] = {
    {"MODEL", CLI_LEFT},    {"SERVED", CLI_LEFT},      {"KIND", CLI_LEFT},
    {"WEIGHTS", CLI_LEFT},  {"PARAMETERS", CLI_RIGHT}, {"SIZE", CLI_RIGHT},
    {"CONTEXT", CLI_RIGHT}, {"NODES", CLI_RIGHT},
};

static bool
is_served(const struct json *served, const char *id)
{
    for (size_t i = 0; i < json_count(served); i++) {
        const char *other =
            json_as_text(json_get(json_at(served, i), "id"), NULL);

        if (id != NULL && other != NULL && strcmp(id, other) == 0)
            return true;
    }
    return false;
}

/* 596049920 -> "596.0M": what people call a model by. */
static void
add_parameters(struct cli_table *table, const struct json *value)
{
    static const char units[] = "\0kMBT";
    double count;
    size_t unit = 0;

    if (json_as_double(value, &count) != STATUS_OK) {
        cli_table_text(table, NULL);
        return;
    }
    while (count >= 999.95 && unit + 2 < sizeof(units)) {
        count /= 1000;
        unit++;
    }
    if (unit == 0)
        cli_table_format(table, "%.0f", count);
    else
        cli_table_format(table, "%.1f%c", count, units[unit]);
}

static void
print_models(const struct cli *cli, const struct json *catalogue,
             const struct json *served)
{
    struct cli_table table;

    if (json_count(catalogue) == 0) {
        printf("No models yet: `berth models add DIR` adds one that a node "
               "holds.\n");
        return;
    }
    cli_table_init(&table, columns, COUNT_OF(columns), cli->is_terminal);
    for (size_t i = 0; i < json_count(catalogue); i++) {
        const struct json *entry = json_at(catalogue, i);
        const char *id = json_as_text(json_get(entry, "id"), NULL);

        cli_table_json(&table, json_get(entry, "id"));
        cli_table_text(&table, is_served(served, id) ? "yes" : "no");
        cli_table_json(&table, json_get(entry, "architecture"));
        cli_table_json(&table, json_get(entry, "quantisation"));
        add_parameters(&table, json_get(entry, "parameters"));
        cli_table_bytes(&table, json_get(entry, "weight_bytes"));
        cli_table_json(&table, json_get(entry, "context"));
        cli_table_json(&table, json_get(entry, "nodes"));
    }
    cli_print_table(&table);
    cli_table_clear(&table);
}

static enum status
list(struct cli *cli, bool is_catalogue)
{
    struct cli_answer served, catalogue;
    enum status status = STATUS_OK;

    cli_answer_init(&served);
    cli_answer_init(&catalogue);
    if (!cli->json || !is_catalogue)
        status = cli_get(cli, "/v1/models", &served);
    if (status == STATUS_OK && (!cli->json || is_catalogue))
        status = cli_get(cli, "/api/v1/catalogue", &catalogue);
    if (status == STATUS_OK && cli->json)
        cli_print_json(is_catalogue ? &catalogue : &served);
    else if (status == STATUS_OK)
        print_models(cli, cli_list(&catalogue), cli_list(&served));
    cli_answer_clear(&catalogue);
    cli_answer_clear(&served);
    return status;
}

int
cli_models(int argc, char **argv)
{
    struct cli cli = {.json = false};
    bool is_catalogue = false;
    const struct option_spec specs[] = {
        {.name = "--catalogue",
         .type = OPTION_FLAG,
         .flag = &is_catalogue,
         .help = "with --json: the catalogue"},
        CLI_JSON_OPTION(cli),
    };
    enum status status =
        cli_open(&cli, argc, argv, list_usage, specs, COUNT_OF(specs), 0, 0);

    if (status == STATUS_OK)
        status = list(&cli, is_catalogue);
    return cli_close(&cli, status);
}

static enum status
remove_model(struct cli *cli)
{
    struct cli_answer answer;
    enum status status;

    cli_answer_init(&answer);
    status = cli_call_on(cli, "DELETE", "/api/v1/catalogue/", cli->words[0], "",
                         &answer);
    if (status == STATUS_OK && cli->json)
        cli_print_json(&answer);
    else if (status == STATUS_OK)
        printf("%s is out of the catalogue; its files on nodes stay.\n",
               cli->words[0]);
    cli_answer_clear(&answer);
    return status;
}

int
cli_models_remove(int argc, char **argv)
{
    struct cli cli = {.json = false};
    const struct option_spec specs[] = {CLI_JSON_OPTION(cli)};
    enum status status =
        cli_open(&cli, argc, argv, remove_usage, specs, COUNT_OF(specs), 1, 1);

    if (status == STATUS_OK)
        status = remove_model(&cli);
    return cli_close(&cli, status);
}
