/* account.c - names and numbers of accounts. */
#include "cli/account.h"

#include <string.h>

#include "common/units.h"

#include "common/banned.h"

static bool
is_number(const char *word, int64_t *id)
{
    uint64_t value = 0;

    if (parse_u64(word, strlen(word), INT64_MAX, &value) != STATUS_OK)
        return false;
    *id = (int64_t)value;
    return true;
}

void
cli_account_write(struct json_out *out, const char *name, const char *word)
{
    int64_t id = 0;

    if (is_number(word, &id))
        json_member_i64(out, name, id);
    else
        json_member_text(out, name, word);
}

/* The account of that name; NULL when there is none. */
static const struct json *
find(const struct json *accounts, const char *word)
{
    for (size_t i = 0; i < json_count(accounts); i++) {
        const struct json *account = json_at(accounts, i);
        const char *name = json_as_text(json_get(account, "name"), NULL);

        if (name != NULL && strcmp(name, word) == 0)
            return account;
    }
    return NULL;
}

enum status
cli_account_resolve(struct cli *cli, const char *word, int64_t *id)
{
    struct cli_answer answer;
    enum status status;

    if (is_number(word, id))
        return STATUS_OK;
    cli_answer_init(&answer);
    status = cli_get(cli, "/api/v1/accounts", &answer);
    if (status == STATUS_OK &&
        json_as_i64(json_get(find(cli_list(&answer), word), "id"), id) !=
            STATUS_OK)
        status = error_set(&cli->err, STATUS_NOT_FOUND,
                           "there is no account \"%.64s\"; `berth accounts` "
                           "lists them",
                           word);
    cli_answer_clear(&answer);
    return status;
}
