/* ledger.c - `berth ledger check`. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/text.h"

#include "common/banned.h"

static const char usage[] =
    "usage: berth ledger check\n\n"
    "Asks the coordinator to prove its books; exit status 1 when they do not "
    "balance.";

static void
print_details(const struct json *details)
{
    for (size_t i = 0; i < json_count(details); i++) {
        size_t size = 0;
        const char *text = json_as_text(json_at(details, i), &size);
        struct buf safe;

        buf_init(&safe, CLI_OUTPUT_MAX_BYTES);
        if (text != NULL)
            cli_text_append_safe(&safe, text, size, false);
        printf("  %s\n", safe.data);
        buf_clear(&safe);
    }
}

/* Balanced only when the answer says so and counts no violation: a check that
 * cannot be read is no good news. */
static enum status
judge(struct cli *cli, const struct cli_answer *answer)
{
    const struct json *check = answer->doc.root;
    int64_t violations = -1;
    bool is_balanced = json_as_bool(json_get(check, "balance"));

    if (json_as_i64(json_get(check, "violations"), &violations) != STATUS_OK)
        return error_set(&cli->err, STATUS_INTERNAL,
                         "the coordinator's answer counts no violations");
    is_balanced = is_balanced && violations == 0;
    if (cli->json) {
        cli_print_json(answer);
    } else {
        printf("books balance: %s\n", is_balanced ? "yes" : "no");
        print_details(json_get(check, "details"));
    }
    if (is_balanced)
        return STATUS_OK;
    return error_set(&cli->err, STATUS_CONFLICT,
                     "the books do not balance: %" PRId64
                     " violations; stop payouts and keep a copy of the "
                     "database",
                     violations);
}

int
cli_ledger_check(int argc, char **argv)
{
    struct cli cli = {.json = false};
    const struct option_spec specs[] = {CLI_JSON_OPTION(cli)};
    enum status status =
        cli_open(&cli, argc, argv, usage, specs, COUNT_OF(specs), 0, 0);
    struct cli_answer answer;

    cli_answer_init(&answer);
    if (status == STATUS_OK)
        status = cli_get(&cli, "/api/v1/ledger/check", &answer);
    if (status == STATUS_OK)
        status = judge(&cli, &answer);
    cli_answer_clear(&answer);
    return cli_close(&cli, status);
}
