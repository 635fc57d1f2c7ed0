/* api_ledger.c - earnings, balances and the check of the books. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/mem.h"
#include "common/units.h"
#include "coordinator/api.h"
#include "coordinator/api_people.h"
#include "coordinator/view_json.h"
#include "ledger/ledger.h"

#include "common/banned.h"

enum { DETAILS_MAX_BYTES = 64 * 1024, DAY_BYTES = 10 };

/* --- earnings --- */

static const struct {
    const char *name;
    enum earnings_by by;
} groupings[] = {
    {"node", EARNINGS_BY_NODE},   {"pod", EARNINGS_BY_POD},
    {"owner", EARNINGS_BY_OWNER}, {"model", EARNINGS_BY_MODEL},
    {"day", EARNINGS_BY_DAY},
};

static enum status
grouping_parse(const struct request *request, size_t *grouping,
               struct error *err)
{
    const char *by = request_query(request, "by");

    *grouping = 0;
    for (size_t i = 0; by != NULL && i <= COUNT_OF(groupings); i++) {
        if (i == COUNT_OF(groupings)) {
            (void)error_set(err, STATUS_INVALID,
                            "by must be node, pod, owner, model or day");
            return error_tag(err, "invalid_value", "by");
        }
        *grouping = i;
        if (strcmp(groupings[i].name, by) == 0)
            break;
    }
    return STATUS_OK;
}

static uint64_t
days_of(uint64_t year, uint64_t month)
{
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

    if (month == 2)
        return leap ? 29 : 28;
    return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

/* "2026-11-30" or the same with a time behind it, as UTC midnight. Days since
 * 1970 by the civil calendar (H. Hinnant, "chrono-Compatible Low-Level Date
 * Algorithms"). */
static enum status
day_parse(const struct request *request, const char *name, struct instant *at,
          struct error *err)
{
    const char *text = request_query(request, name);
    uint64_t year, month, day, era_year, day_of_year, day_of_era;

    at->us = 0;
    if (text == NULL)
        return STATUS_OK;
    if (strlen(text) < DAY_BYTES || text[4] != '-' || text[7] != '-' ||
        parse_u64(text, 4, 9999, &year) != STATUS_OK ||
        parse_u64(text + 5, 2, 12, &month) != STATUS_OK ||
        parse_u64(text + 8, 2, 31, &day) != STATUS_OK || month == 0 ||
        day == 0 || day > days_of(year, month) || year < 1970) {
        (void)error_set(err, STATUS_INVALID,
                        "%s must be a day like 2026-11-30 (UTC)", name);
        return error_tag(err, "invalid_value", name);
    }
    era_year = month <= 2 ? year - 1 : year;
    day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    day_of_era = era_year % 400 * 365 + era_year % 400 / 4 -
                 era_year % 400 / 100 + day_of_year;
    at->us = ((int64_t)(era_year / 400 * 146097 + day_of_era) - 719468) *
             86400 * 1000000;
    return STATUS_OK;
}

static void
earnings_write(struct json_out *out, const char *grouping,
               const struct earnings_row *row)
{
    json_open_object(out);
    json_member_text(out, grouping, row->id);
    if (row->name[0] != '\0')
        json_member_text(out, "name", row->name);
    json_member_i64(out, "credits_ucr", row->credits.micro);
    json_member_i64(out, "reprefill_ucr", row->reprefill.micro);
    json_member_u64(out, "jobs", row->jobs);
    json_member_u64(out, "prompt_tokens", row->prompt_tokens);
    json_member_u64(out, "completion_tokens", row->completion_tokens);
    json_close_object(out);
}

/* Names of nodes and owners stand in the views, not in the ledger. */
static void
earnings_name(struct app *app, enum earnings_by by, struct earnings_row *row)
{
    if (by == EARNINGS_BY_NODE) {
        const struct fleet_view *fleet = fleet_take(app->snapshots);
        const struct node_view *node = fleet_node(fleet, row->id);

        if (node != NULL)
            snprintf(row->name, sizeof(row->name), "%s", node->name);
        fleet_drop(fleet);
    } else if (by == EARNINGS_BY_OWNER) {
        const struct identity_view *view = identity_take(app->snapshots);
        uint64_t id = 0;

        if (parse_u64(row->id, strlen(row->id), INT64_MAX, &id) == STATUS_OK) {
            const struct account_view *account =
                identity_account(view, (int64_t)id);

            if (account != NULL)
                snprintf(row->name, sizeof(row->name), "%s", account->name);
        }
        identity_drop(view);
    }
}

enum status
api_earnings(struct request *request, struct reply *reply, struct error *err)
{
    struct earnings_row *rows = NULL;
    struct instant from, to;
    struct json_out out;
    struct db *db = NULL;
    size_t grouping = 0, count = 0;
    enum status status = grouping_parse(request, &grouping, err);

    if (status == STATUS_OK)
        status = day_parse(request, "from", &from, err);
    if (status == STATUS_OK)
        status = day_parse(request, "to", &to, err);
    if (status == STATUS_OK)
        status = db_lease(request->app->readers, &db, err);
    if (status == STATUS_OK)
        status =
            ledger_earnings(db, groupings[grouping].by,
                            is_operator(request) ? 0 : request->key.account,
                            from, to, &rows, &count, err);
    if (db != NULL)
        db_return(request->app->readers, db);
    if (status != STATUS_OK)
        return status;
    json_out_init(&out, &reply->body);
    json_list_open(&out);
    for (size_t i = 0; i < count; i++) {
        earnings_name(request->app, groupings[grouping].by, &rows[i]);
        earnings_write(&out, groupings[grouping].name, &rows[i]);
    }
    json_list_close(&out, NULL);
    free(rows);
    return STATUS_OK;
}

/* --- balance --- */

static bool
account_exists(const struct request *request, uint64_t account)
{
    const struct identity_view *view = identity_take(request->app->snapshots);
    bool exists = identity_account(view, (int64_t)account) != NULL;

    identity_drop(view);
    return exists;
}

enum status
api_balance(struct request *request, struct reply *reply, struct error *err)
{
    const char *named = request_query(request, "account");
    struct ledger_balance balance;
    uint64_t account = (uint64_t)request->key.account;
    struct json_out out;
    struct db *db = NULL;
    enum status status;

    if (named != NULL &&
        parse_u64(named, strlen(named), INT64_MAX, &account) != STATUS_OK) {
        (void)error_set(err, STATUS_INVALID,
                        "account must be a number: GET /api/v1/accounts "
                        "lists them");
        return error_tag(err, "invalid_value", "account");
    }
    if ((int64_t)account != request->key.account && !is_operator(request)) {
        (void)error_set(err, STATUS_DENIED,
                        "only a key with the scope operator sees the balance "
                        "of another account: leave account out for yours");
        return error_tag(err, "scope_missing", "account");
    }
    if (named != NULL && !account_exists(request, account)) {
        (void)error_set(err, STATUS_NOT_FOUND,
                        "there is no account %" PRIu64
                        ": list them with GET /api/v1/accounts",
                        account);
        return error_tag(err, "account_not_found", "account");
    }
    status = db_lease(request->app->readers, &db, err);
    if (status == STATUS_OK)
        status = ledger_balance_read(db, (int64_t)account, &balance, err);
    if (db != NULL)
        db_return(request->app->readers, db);
    if (status != STATUS_OK)
        return status;
    json_out_init(&out, &reply->body);
    json_open_object(&out);
    json_member_u64(&out, "account", account);
    json_member_i64(&out, "available_ucr", balance.available.micro);
    json_member_i64(&out, "held_ucr", balance.held.micro);
    json_member_i64(&out, "maturing_ucr", balance.maturing.micro);
    json_close_object(&out);
    return STATUS_OK;
}

/* --- check --- */

static void
details_write(struct json_out *out, const struct buf *text)
{
    const char *at = text->data;

    json_key(out, "details");
    json_open_list(out);
    while (*at != '\0') {
        size_t size = strcspn(at, "\n");

        if (size > 0)
            json_put_text_sized(out, at, size);
        at += size + (at[size] == '\n');
    }
    json_close_list(out);
}

enum status
api_ledger_check(struct request *request, struct reply *reply,
                 struct error *err)
{
    uint64_t violations = 0;
    struct json_out out;
    struct db *db = NULL;
    struct buf text;
    enum status status;

    buf_init(&text, DETAILS_MAX_BYTES);
    status = db_lease(request->app->readers, &db, err);
    if (status == STATUS_OK)
        status = ledger_check(db, &violations, &text, err);
    if (db != NULL)
        db_return(request->app->readers, db);
    if (status == STATUS_OK) {
        json_out_init(&out, &reply->body);
        json_open_object(&out);
        json_member_u64(&out, "violations", violations);
        json_member_bool(&out, "balance", violations == 0);
        details_write(&out, &text);
        json_close_object(&out);
    }
    buf_clear(&text);
    return status;
}
