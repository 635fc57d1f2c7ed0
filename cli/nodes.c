/* nodes.c - `berth nodes`, `berth node drain|resume|remove`. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"

#include "common/banned.h"

static const char list_usage[] =
    "usage: berth nodes\n\n"
    "The lent machines: all for operators, their own for owners, counts for "
    "submitters.";
static const char drain_usage[] =
    "usage: berth node drain ID\n\nID may be a node's name.";
static const char resume_usage[] =
    "usage: berth node resume ID\n\nID may be a node's name.";
static const char remove_usage[] =
    "usage: berth node remove ID\n\n"
    "Revokes the node's certificate and closes its link. ID may be a node's "
    "name.";

static const struct cli_column columns[] = {
    {"NODE", CLI_LEFT},   {"NAME", CLI_LEFT},    {"OWNER", CLI_LEFT},
    {"STATE", CLI_LEFT},  {"CHIP", CLI_LEFT},    {"MEMORY", CLI_RIGHT},
    {"LENDS", CLI_RIGHT}, {"IN USE", CLI_RIGHT}, {"GB/S", CLI_RIGHT},
    {"JOBS", CLI_RIGHT},  {"MODELS", CLI_LEFT},  {"LAST SEEN (UTC)", CLI_LEFT},
};

static const struct cli_column count_columns[] = {
    {"STATE", CLI_LEFT},
    {"NODES", CLI_RIGHT},
};

static void
add_chip(struct cli_table *table, const struct json *node)
{
    char chip[128];
    bool is_simulated = json_as_bool(json_get(node, "simulated"));

    (void)cli_member(node, "chip", chip, sizeof(chip));
    if (chip[0] == '\0')
        (void)cli_member(node, "os", chip, sizeof(chip));
    cli_table_format(table, "%s%s", chip, is_simulated ? " (simulated)" : "");
}

static void
add_rate(struct cli_table *table, const struct json *rate)
{
    double value;

    if (json_as_double(rate, &value) == STATUS_OK)
        cli_table_format(table, "%.1f", value);
    else
        cli_table_text(table, NULL);
}

static void
on_node(struct cli_table *table, const struct json *node)
{
    cli_table_id(table, json_get(node, "id"));
    cli_table_json(table, json_get(node, "name"));
    if (json_is_null(json_get(node, "owner_name")))
        cli_table_json(table, json_get(node, "owner"));
    else
        cli_table_json(table, json_get(node, "owner_name"));
    cli_table_json(table, json_get(node, "state"));
    add_chip(table, node);
    cli_table_bytes(table, json_get(node, "memory_bytes"));
    cli_table_bytes(table, json_get(node, "limit_bytes"));
    cli_table_bytes(table, json_get(node, "in_use_bytes"));
    add_rate(table, json_get(node, "bandwidth_gb_s"));
    cli_table_json(table, json_get(node, "jobs"));
    cli_table_json(table, json_get(node, "models"));
    cli_table_time(table, json_get(node, "last_seen"));
}

/* Under the table: why a node takes no jobs, and what to do. */
static void
print_reasons(const struct json *node)
{
    const struct json *reasons = json_get(node, "reasons");
    char name[128], text[512], step[512];

    for (size_t i = 0; i < json_count(reasons); i++) {
        const struct json *reason = json_at(reasons, i);

        (void)cli_member(node, "name", name, sizeof(name));
        (void)cli_member(reason, "text", text, sizeof(text));
        (void)cli_member(reason, "step", step, sizeof(step));
        printf("%s: %s%s%s\n", name, text, step[0] != '\0' ? "; " : "", step);
    }
}

static void
print_counts(const struct json *counts)
{
    const struct json_member *member = json_member_first(counts);
    struct cli_table table;

    if (member == NULL) {
        printf("No nodes yet.\n");
        return;
    }
    cli_table_init(&table, count_columns, COUNT_OF(count_columns), false);
    for (; member != NULL; member = json_member_next(counts, member)) {
        cli_table_text(&table, json_member_name(member));
        cli_table_json(&table, json_member_value(member));
    }
    cli_print_table(&table);
    cli_table_clear(&table);
}

static void
print_nodes(const struct cli *cli, const struct cli_answer *answer)
{
    const struct json *nodes = cli_list(answer);

    if (nodes == NULL) { /* a submitter's key */
        print_counts(json_get(answer->doc.root, "nodes"));
        return;
    }
    cli_print_list(cli, nodes, columns, COUNT_OF(columns), on_node,
                   "No nodes yet: `berth join-token` makes a token for a "
                   "machine, `berth-node join URL` lends it.");
    for (size_t i = 0; i < json_count(nodes); i++)
        print_reasons(json_at(nodes, i));
}

static enum status
list(struct cli *cli)
{
    struct cli_answer answer;
    enum status status;

    cli_answer_init(&answer);
    status = cli_get(cli, "/api/v1/nodes", &answer);
    if (status == STATUS_OK && cli->json)
        cli_print_json(&answer);
    else if (status == STATUS_OK)
        print_nodes(cli, &answer);
    cli_answer_clear(&answer);
    return status;
}

int
cli_nodes(int argc, char **argv)
{
    struct cli cli = {.json = false};
    const struct option_spec specs[] = {CLI_JSON_OPTION(cli)};
    enum status status =
        cli_open(&cli, argc, argv, list_usage, specs, COUNT_OF(specs), 0, 0);

    if (status == STATUS_OK)
        status = list(&cli);
    return cli_close(&cli, status);
}

/* What the three verbs differ in. */
struct verb {
    const char *usage;
    const char *method;
    const char *suffix;
    const char *done; /* "<node> ..." */
};

static enum status
apply(struct cli *cli, const struct verb *verb)
{
    char id[CLI_ID_BYTES];
    struct cli_answer answer;
    enum status status;

    cli_answer_init(&answer);
    status = cli_resolve(cli, "/api/v1/nodes", "node", cli->words[0], id);
    if (status == STATUS_OK)
        status = cli_call_on(cli, verb->method, "/api/v1/nodes/", id,
                             verb->suffix, &answer);
    if (status == STATUS_OK && cli->json)
        cli_print_json(&answer);
    else if (status == STATUS_OK)
        printf("%s %s\n", id, verb->done);
    cli_answer_clear(&answer);
    return status;
}

static int
run_verb(int argc, char **argv, const struct verb *verb)
{
    struct cli cli = {.json = false};
    const struct option_spec specs[] = {CLI_JSON_OPTION(cli)};
    enum status status =
        cli_open(&cli, argc, argv, verb->usage, specs, COUNT_OF(specs), 1, 1);

    if (status == STATUS_OK)
        status = apply(&cli, verb);
    return cli_close(&cli, status);
}

int
cli_node_drain(int argc, char **argv)
{
    static const struct verb verb = {drain_usage, "POST", "/drain",
                                     "finishes its jobs and takes no more."};

    return run_verb(argc, argv, &verb);
}

int
cli_node_resume(int argc, char **argv)
{
    static const struct verb verb = {resume_usage, "POST", "/resume",
                                     "takes jobs again."};

    return run_verb(argc, argv, &verb);
}

int
cli_node_remove(int argc, char **argv)
{
    static const struct verb verb = {remove_usage, "DELETE", "",
                                     "is revoked; it needs a new token to "
                                     "join again."};

    return run_verb(argc, argv, &verb);
}
