/* keys.c - `berth keys`, `berth keys add`, `berth keys revoke`. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/account.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "common/units.h"

#include "common/banned.h"

static const char list_usage[] = "usage: berth keys";
static const char add_usage[] =
    "usage: berth keys add NAME [--scopes A,B] [--account X] [--expires-s "
    "N]\n\n"
    "Scopes are submitter (the default), owner and operator. The key is shown "
    "once.";
static const char revoke_usage[] = "usage: berth keys revoke ID";

enum {
    BODY_MAX_BYTES = 16384,
    EXPIRES_MAX_S = 10 * 366 * 86400,
};

struct wish {
    const char *scopes;
    const char *account;
    const char *expires_s;
};

static const struct cli_column columns[] = {
    {"KEY", CLI_LEFT},           {"NAME", CLI_LEFT},
    {"ACCOUNT", CLI_RIGHT},      {"BEGINS WITH", CLI_LEFT},
    {"SCOPES", CLI_LEFT},        {"CREATED (UTC)", CLI_LEFT},
    {"EXPIRES (UTC)", CLI_LEFT}, {"REVOKED (UTC)", CLI_LEFT},
};

static void
on_key(struct cli_table *table, const struct json *key)
{
    cli_table_id(table, json_get(key, "id"));
    cli_table_json(table, json_get(key, "name"));
    cli_table_json(table, json_get(key, "account"));
    cli_table_json(table, json_get(key, "prefix"));
    cli_table_json(table, json_get(key, "scopes"));
    cli_table_time(table, json_get(key, "created"));
    cli_table_time(table, json_get(key, "expires"));
    cli_table_time(table, json_get(key, "revoked"));
}

static enum status
list(struct cli *cli)
{
    return cli_show_list(cli, "/api/v1/keys", columns, COUNT_OF(columns),
                         on_key, "No keys: `berth keys add NAME` makes one.");
}

int
cli_keys(int argc, char **argv)
{
    struct cli cli = {.json = false};
    const struct option_spec specs[] = {CLI_JSON_OPTION(cli)};
    enum status status =
        cli_open(&cli, argc, argv, list_usage, specs, COUNT_OF(specs), 0, 0);

    if (status == STATUS_OK)
        status = list(&cli);
    return cli_close(&cli, status);
}

/* "a,b" as a list; the coordinator knows which scopes there are. */
static void
write_scopes(struct json_out *out, const char *scopes)
{
    json_key(out, "scopes");
    json_open_list(out);
    for (;;) {
        size_t size = strcspn(scopes, ",");

        json_put_text_sized(out, scopes, size);
        if (scopes[size] == '\0')
            break;
        scopes += size + 1;
    }
    json_close_list(out);
}

static enum status
write_key(struct cli *cli, const struct wish *wish, struct json_out *out)
{
    enum status status = STATUS_OK;
    uint64_t expires_s = 0;
    int64_t account = 0;

    if (wish->expires_s != NULL &&
        (parse_u64(wish->expires_s, strlen(wish->expires_s), EXPIRES_MAX_S,
                   &expires_s) != STATUS_OK ||
         expires_s == 0))
        return cli_misuse(cli, "--expires-s takes 1 to %d seconds",
                          EXPIRES_MAX_S);
    if (wish->account != NULL)
        status = cli_account_resolve(cli, wish->account, &account);
    if (status != STATUS_OK)
        return status;
    json_open_object(out);
    json_member_text(out, "name", cli->words[0]);
    write_scopes(out, wish->scopes);
    if (wish->account != NULL)
        json_member_i64(out, "account", account);
    if (wish->expires_s != NULL)
        json_member_u64(out, "expires_s", expires_s);
    json_close_object(out);
    return STATUS_OK;
}

/* The secret alone on standard output, so that it can go into a file. */
static enum status
print_secret(struct cli *cli, const struct json *key)
{
    char secret[CLI_KEY_BYTES];

    (void)cli_member(key, "key", secret, sizeof(secret));
    if (secret[0] == '\0')
        return error_set(&cli->err, STATUS_INTERNAL,
                         "the coordinator's answer holds no key");
    (void)fprintf(stderr, "Keep it now; it is not shown again:\n");
    printf("%s\n", secret);
    return STATUS_OK;
}

static enum status
add(struct cli *cli, const struct wish *wish)
{
    struct cli_answer answer;
    enum status status;
    struct buf body;
    struct json_out out;

    buf_init(&body, BODY_MAX_BYTES);
    cli_answer_init(&answer);
    json_out_init(&out, &body);
    status = write_key(cli, wish, &out);
    if (status == STATUS_OK)
        status = cli_post(cli, "/api/v1/keys", &body, NULL, &answer);
    if (status == STATUS_OK && cli->json)
        cli_print_json(&answer);
    else if (status == STATUS_OK)
        status = print_secret(cli, answer.doc.root);
    cli_answer_clear(&answer);
    buf_clear(&body);
    return status;
}

int
cli_keys_add(int argc, char **argv)
{
    struct cli cli = {.json = false};
    struct wish wish = {.scopes = "submitter"};
    const struct option_spec specs[] = {
        {.name = "--scopes",
         .type = OPTION_TEXT,
         .text = &wish.scopes,
         .value = "A,B",
         .help = "what the key may do"},
        {.name = "--account",
         .type = OPTION_TEXT,
         .text = &wish.account,
         .value = "X",
         .help = "number or name; default: your own"},
        {.name = "--expires-s",
         .type = OPTION_TEXT,
         .text = &wish.expires_s,
         .value = "N",
         .help = "ends after N seconds"},
        CLI_JSON_OPTION(cli),
    };
    enum status status =
        cli_open(&cli, argc, argv, add_usage, specs, COUNT_OF(specs), 1, 1);

    if (status == STATUS_OK)
        status = add(&cli, &wish);
    return cli_close(&cli, status);
}

static enum status
revoke(struct cli *cli)
{
    char id[CLI_ID_BYTES];
    struct cli_answer answer;
    enum status status;

    cli_answer_init(&answer);
    status = cli_resolve(cli, "/api/v1/keys", "key", cli->words[0], id);
    if (status == STATUS_OK)
        status = cli_call_on(cli, "DELETE", "/api/v1/keys/", id, "", &answer);
    if (status == STATUS_OK && cli->json)
        cli_print_json(&answer);
    else if (status == STATUS_OK)
        printf("Key %s is revoked.\n", id);
    cli_answer_clear(&answer);
    return status;
}

int
cli_keys_revoke(int argc, char **argv)
{
    struct cli cli = {.json = false};
    const struct option_spec specs[] = {CLI_JSON_OPTION(cli)};
    enum status status =
        cli_open(&cli, argc, argv, revoke_usage, specs, COUNT_OF(specs), 1, 1);

    if (status == STATUS_OK)
        status = revoke(&cli);
    return cli_close(&cli, status);
}
