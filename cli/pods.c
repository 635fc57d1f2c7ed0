/* pods.c - `berth pods`. */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/commands.h"

#include "common/banned.h"

static const char usage[] = "usage: berth pods";

static const struct cli_column columns[] = {
    {"POD", CLI_LEFT},   {"OWNER", CLI_LEFT},   {"SHAPE", CLI_LEFT},
    {"STATE", CLI_LEFT}, {"MEMBERS", CLI_LEFT},
};

static void
on_pod(struct cli_table *table, const struct json *pod)
{
    cli_table_id(table, json_get(pod, "id"));
    cli_table_json(table, json_get(pod, "owner"));
    cli_table_json(table, json_get(pod, "shape"));
    cli_table_json(table, json_get(pod, "state"));
    cli_table_json(table, json_get(pod, "members"));
}

static enum status
list(struct cli *cli)
{
    return cli_show_list(
        cli, "/api/v1/pods", columns, COUNT_OF(columns), on_pod,
        "No pods yet: a pod is 2 to 4 Macs of one owner joined "
        "by Thunderbolt cables that both ends confirm; until "
        "then every job runs whole on one node.");
}

int
cli_pods(int argc, char **argv)
{
    struct cli cli = {.json = false};
    const struct option_spec specs[] = {CLI_JSON_OPTION(cli)};
    enum status status =
        cli_open(&cli, argc, argv, usage, specs, COUNT_OF(specs), 0, 0);

    if (status == STATUS_OK)
        status = list(&cli);
    return cli_close(&cli, status);
}
