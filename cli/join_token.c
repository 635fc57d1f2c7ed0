/* join_token.c - `berth join-token`. */
#include <stdio.h>
#include <string.h>

#include "cli/account.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "common/units.h"

#include "common/banned.h"

static const char usage[] =
    "usage: berth join-token [--owner ACCOUNT] [--name NAME] [--expires-s "
    "N]\n\n"
    "Makes a token with which one machine may join, once. The earnings of "
    "the machine go\nto ACCOUNT, a number or a name; default: your own.";

enum { BODY_MAX_BYTES = 16384, TOKEN_BYTES = 512, EXPIRES_MAX_S = 30 * 86400 };

struct wish {
    const char *owner;
    const char *name;
    const char *expires_s;
};

static enum status
write_token(struct cli *cli, const struct wish *wish, struct json_out *out)
{
    uint64_t expires_s = 0;

    if (wish->expires_s != NULL &&
        (parse_u64(wish->expires_s, strlen(wish->expires_s), EXPIRES_MAX_S,
                   &expires_s) != STATUS_OK ||
         expires_s == 0))
        return cli_misuse(cli, "--expires-s takes 1 to %d seconds",
                          EXPIRES_MAX_S);
    json_open_object(out);
    if (wish->owner != NULL)
        cli_account_write(out, "owner", wish->owner);
    if (wish->name != NULL)
        json_member_text(out, "name", wish->name);
    if (wish->expires_s != NULL)
        json_member_u64(out, "expires_s", expires_s);
    json_close_object(out);
    return STATUS_OK;
}

/* The token alone on standard output, so that it can go into a file. */
static enum status
print_token(struct cli *cli, const struct json *answer)
{
    char token[TOKEN_BYTES], expires[64];

    (void)cli_member(answer, "token", token, sizeof(token));
    (void)cli_member(answer, "expires", expires, sizeof(expires));
    if (token[0] == '\0')
        return error_set(&cli->err, STATUS_INTERNAL,
                         "the coordinator's answer holds no token");
    (void)fprintf(stderr,
                  "For one machine, until %s; there: berth-node join %s "
                  "--token-file FILE\n",
                  expires, cli->config.url);
    printf("%s\n", token);
    return STATUS_OK;
}

static enum status
make_token(struct cli *cli, const struct wish *wish)
{
    struct cli_answer answer;
    enum status status;
    struct buf body;
    struct json_out out;

    buf_init(&body, BODY_MAX_BYTES);
    cli_answer_init(&answer);
    json_out_init(&out, &body);
    status = write_token(cli, wish, &out);
    if (status == STATUS_OK)
        status = cli_post(cli, "/api/v1/join-tokens", &body, NULL, &answer);
    if (status == STATUS_OK && cli->json)
        cli_print_json(&answer);
    else if (status == STATUS_OK)
        status = print_token(cli, answer.doc.root);
    cli_answer_clear(&answer);
    buf_clear(&body);
    return status;
}

int
cli_join_token(int argc, char **argv)
{
    struct cli cli = {.json = false};
    struct wish wish = {.owner = NULL};
    const struct option_spec specs[] = {
        {.name = "--owner",
         .type = OPTION_TEXT,
         .text = &wish.owner,
         .value = "ACCOUNT",
         .help = "who earns"},
        {.name = "--name",
         .type = OPTION_TEXT,
         .text = &wish.name,
         .value = "NAME",
         .help = "what the node shall be called"},
        {.name = "--expires-s",
         .type = OPTION_TEXT,
         .text = &wish.expires_s,
         .value = "N",
         .help = "default: a day"},
        CLI_JSON_OPTION(cli),
    };
    enum status status =
        cli_open(&cli, argc, argv, usage, specs, COUNT_OF(specs), 0, 0);

    if (status == STATUS_OK)
        status = make_token(&cli, &wish);
    return cli_close(&cli, status);
}
