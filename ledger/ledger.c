/* ledger.c - the statements that move money and the reads over them. */
#include "ledger/ledger.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#include "common/banned.h"

enum {
    ARRAY_BYTES_MAX = SETTLEMENT_LEGS_MAX * 48,
    EARNINGS_ROWS_MAX = 10000,
    VIOLATIONS_SHOWN = 20,
};

/* What the functions of the migration answer. */
enum answer {
    ANSWER_DONE = 0,
    ANSWER_SAME = 1,
    ANSWER_DIFFERENT = 2,
    ANSWER_NO_FUNDS = 3,
    ANSWER_NO_HOLD = 4,
    ANSWER_ENDED = 5,
};

static enum status
answer_status(int64_t answer, const char *id, struct error *err)
{
    switch ((enum answer)answer) {
    case ANSWER_DONE:
    case ANSWER_SAME:
        return STATUS_OK;
    case ANSWER_DIFFERENT:
        return error_set(err, STATUS_CONFLICT,
                         "%s was already recorded with other content", id);
    case ANSWER_NO_FUNDS:
        return error_set(err, STATUS_NO_FUNDS,
                         "not enough credits for %s: ask an operator for a "
                         "grant",
                         id);
    case ANSWER_NO_HOLD:
        return error_set(err, STATUS_NOT_FOUND, "no hold for job %s", id);
    case ANSWER_ENDED:
        return error_set(err, STATUS_CONFLICT,
                         "the hold of job %s has ended otherwise", id);
    }
    return error_set(err, STATUS_INTERNAL, "the ledger answered %" PRId64,
                     answer);
}

/* Columns: answer, id. */
static enum status
check_answer(const struct db_rows *rows, struct error *err)
{
    return answer_status(db_i64(rows, 0, 0), db_text(rows, 0, 1), err);
}

/* Columns: answer, id, needed, available. */
static enum status
check_hold(const struct db_rows *rows, struct error *err)
{
    struct credits needed = {db_i64(rows, 0, 2)};
    struct credits available = {db_i64(rows, 0, 3)};
    char needed_text[32];
    char available_text[32];

    if (db_i64(rows, 0, 0) != ANSWER_NO_FUNDS)
        return check_answer(rows, err);
    (void)credits_text(needed, needed_text, sizeof(needed_text));
    (void)credits_text(available, available_text, sizeof(available_text));
    error_set(err, STATUS_NO_FUNDS,
              "the job needs up to %s credits and %s are available: lower "
              "max_tokens, or ask an operator for a grant",
              needed_text, available_text);
    return error_tag(err, "insufficient_credits", NULL);
}

/* --- accounts ------------------------------------------------------------- */

static const struct statement person_open_statement = {
    .name = "ledger_person_open",
    .sql = "SELECT wallet, available FROM ledger.open_person($1::bigint)",
    .shape = DB_ONE,
    .param_count = 1,
};

void
ledger_person_open(struct write *write, int64_t owner)
{
    char number[DB_NUMBER_BYTES];
    struct db_param params[] = {db_param_i64(number, owner)};

    write_add(write, &person_open_statement, params);
}

static const struct statement node_open_statement = {
    .name = "ledger_node_open",
    .sql = "SELECT ledger.open_node($1::bigint, $2::uuid)",
    .shape = DB_ONE,
    .param_count = 2,
};

void
ledger_node_open(struct write *write, int64_t owner, const char *node)
{
    char number[DB_NUMBER_BYTES];
    struct db_param params[] = {
        db_param_i64(number, owner),
        {.text = node},
    };

    write_add(write, &node_open_statement, params);
}

/* --- holds ---------------------------------------------------------------- */

/* The balance is read as it was before the statement, which is as it stayed
 * when there was not enough. */
static const struct statement hold_statement = {
    .name = "ledger_hold",
    .sql = "SELECT (ledger.reserve($1::bigint, ARRAY[$2::uuid],"
           " ARRAY[$3::bigint], ARRAY[$4::bigint], $5::integer))[1], $2::text,"
           " $4::bigint, (SELECT credits - debits - pending"
           " FROM ledger.balance WHERE account = $3::bigint)",
    .shape = DB_ONE,
    .param_count = 5,
    .check = check_hold,
};

void
ledger_hold(struct write *write, uint64_t epoch, const char *job,
            int64_t wallet, struct credits amount, uint32_t price_revision)
{
    char numbers[4][DB_NUMBER_BYTES];
    struct db_param params[] = {
        db_param_i64(numbers[0], (int64_t)epoch),
        {.text = job},
        db_param_i64(numbers[1], wallet),
        db_param_i64(numbers[2], amount.micro),
        db_param_i64(numbers[3], price_revision),
    };

    assert(amount.micro > 0);
    write_add(write, &hold_statement, params);
}

static const struct statement release_statement = {
    .name = "ledger_release",
    .sql = "SELECT (ledger.release($1::bigint, ARRAY[$2::uuid]))[1], $2::text",
    .shape = DB_ONE,
    .param_count = 2,
    .check = check_answer,
};

void
ledger_release(struct write *write, uint64_t epoch, const char *job)
{
    char number[DB_NUMBER_BYTES];
    struct db_param params[] = {
        db_param_i64(number, (int64_t)epoch),
        {.text = job},
    };

    write_add(write, &release_statement, params);
}

static const struct statement grant_statement = {
    .name = "ledger_grant",
    .sql = "SELECT ledger.post($1::bigint, $2::uuid, '{1}', '{1}',"
           " ARRAY[$3::bigint], ARRAY[$4::bigint]), $2::text",
    .shape = DB_ONE,
    .param_count = 4,
    .check = check_answer,
};

void
ledger_grant(struct write *write, uint64_t epoch, const char *id,
             int64_t wallet, struct credits amount)
{
    char numbers[3][DB_NUMBER_BYTES];
    struct db_param params[] = {
        db_param_i64(numbers[0], (int64_t)epoch),
        {.text = id},
        db_param_i64(numbers[1], wallet),
        db_param_i64(numbers[2], amount.micro),
    };

    _Static_assert(LEDGER_TREASURY_ID == 1, "named in the statement");
    assert(amount.micro > 0);
    write_add(write, &grant_statement, params);
}

/* --- settlement ----------------------------------------------------------- */

/* The job's id is given to each leg by the statement. */
static const struct statement settle_statement = {
    .name = "ledger_settle",
    .sql = "SELECT (ledger.settle($1::bigint, ARRAY[$2::uuid],"
           " ARRAY[$3::bigint], ARRAY[$4::bytea], ARRAY[$5::text],"
           " array_fill($2::uuid, ARRAY[cardinality($6::smallint[])]),"
           " $6::smallint[], $7::smallint[], $8::bigint[], $9::bigint[],"
           " $10::integer[], $11::uuid[], $12::uuid[], $13::numeric[],"
           " $14::bigint[], $15::bigint[]))[1], $2::text",
    .shape = DB_ONE,
    .param_count = 15,
    .check = check_answer,
};

enum leg_column {
    LEG_NUMBER,
    LEG_CODE,
    LEG_ACCOUNT,
    LEG_AMOUNT,
    LEG_ATTEMPT,
    LEG_NODE,
    LEG_POD,
    LEG_WEIGHT,
    LEG_PROMPT,
    LEG_COMPLETION,
    LEG_COLUMNS
};

/* Elements of an array's text; "" is null. */
static void
array_add(struct buf *array, const char *element)
{
    buf_append_char(array, array->size == 0 ? '{' : ',');
    buf_append_text(array, element[0] == '\0' ? "NULL" : element);
}

static void
array_add_i64(struct buf *array, int64_t value)
{
    char number[DB_NUMBER_BYTES];

    array_add(array, db_param_i64(number, value).text);
}

static void
array_add_u64(struct buf *array, uint64_t value)
{
    char number[DB_NUMBER_BYTES];

    (void)snprintf(number, sizeof(number), "%" PRIu64, value);
    array_add(array, number);
}

/* Tokens of @attempt: prompt tokens belong to the first that delivered. */
static void
attempt_tokens(const struct settlement *settlement, uint32_t attempt,
               uint64_t *prompt, uint64_t *completion)
{
    bool is_first = true;

    *prompt = 0;
    *completion = 0;
    for (size_t i = 0; i < settlement->attempt_count; i++) {
        const struct settlement_attempt *at = &settlement->attempts[i];

        if (at->number == attempt) {
            *completion = at->ids;
            *prompt = is_first && at->ids > 0 ? settlement->n_in : 0;
        }
        if (at->ids > 0)
            is_first = false;
    }
}

static void
leg_add(struct buf columns[static LEG_COLUMNS], size_t index,
        const struct settlement *settlement, const struct settlement_leg *leg)
{
    uint64_t prompt = 0;
    uint64_t completion = 0;

    array_add_u64(&columns[LEG_NUMBER], index);
    array_add_i64(&columns[LEG_CODE], leg->code);
    array_add_i64(&columns[LEG_ACCOUNT], leg->account);
    array_add_i64(&columns[LEG_AMOUNT], leg->amount.micro);
    attempt_tokens(settlement, leg->attempt, &prompt, &completion);
    array_add_u64(&columns[LEG_ATTEMPT], leg->attempt);
    array_add(&columns[LEG_NODE], leg->node);
    array_add(&columns[LEG_POD], leg->pod);
    array_add_u64(&columns[LEG_WEIGHT], leg->weight);
    array_add_u64(&columns[LEG_PROMPT], prompt);
    array_add_u64(&columns[LEG_COMPLETION], completion);
}

void
ledger_settle(struct write *write, uint64_t epoch,
              const struct settlement *settlement,
              const struct settlement_result *result, const struct buf *record)
{
    char numbers[2][DB_NUMBER_BYTES];
    struct buf columns[LEG_COLUMNS];
    struct db_param params[5 + LEG_COLUMNS] = {
        db_param_i64(numbers[0], (int64_t)epoch),
        {.text = settlement->job},
        db_param_i64(numbers[1], result->price.total.micro),
        {.bytes = record->data, .size = record->size},
        {.text = settlement->model},
    };

    assert(result->leg_count > 0);
    for (int i = 0; i < LEG_COLUMNS; i++)
        buf_init(&columns[i], ARRAY_BYTES_MAX);
    for (size_t i = 0; i < result->leg_count; i++)
        leg_add(columns, i, settlement, &result->legs[i]);
    for (int i = 0; i < LEG_COLUMNS; i++) {
        buf_append_char(&columns[i], '}');
        assert(!columns[i].overflowed);
        params[5 + i].text = columns[i].data;
    }
    write_add(write, &settle_statement, params);
    for (int i = 0; i < LEG_COLUMNS; i++)
        buf_clear(&columns[i]);
}

/* --- reads ---------------------------------------------------------------- */

static const struct statement balance_statement = {
    .name = "ledger_balance",
    .sql =
        "SELECT"
        " coalesce(sum(b.credits - b.debits - b.pending)"
        "     FILTER (WHERE a.kind IN (1, 2)), 0)::bigint,"
        " coalesce(sum(b.pending) FILTER (WHERE a.kind IN (1, 2)), 0)::bigint,"
        " coalesce(sum(b.credits - b.debits - b.pending)"
        "     FILTER (WHERE a.kind = 3), 0)::bigint"
        " FROM ledger.account a JOIN ledger.balance b ON b.account = a.id"
        " WHERE a.owner = $1::bigint",
    .shape = DB_ONE,
    .param_count = 1,
};

enum status
ledger_balance_read(struct db *db, int64_t owner,
                    struct ledger_balance *balance, struct error *err)
{
    char number[DB_NUMBER_BYTES];
    struct db_param params[] = {db_param_i64(number, owner)};
    struct db_rows *rows = NULL;
    enum status status = db_run(db, &balance_statement, params, &rows, err);

    if (status == STATUS_OK) {
        balance->available.micro = db_i64(rows, 0, 0);
        balance->held.micro = db_i64(rows, 0, 1);
        balance->maturing.micro = db_i64(rows, 0, 2);
    }
    db_rows_free(rows);
    return status;
}

/* The inner query has one row for each attempt in each group, so that tokens
 * are counted once however many members of a group worked on it, and however
 * many legs each of them has. */
static const struct statement earnings_statement = {
    .name = "ledger_earnings",
    .sql = "SELECT id, sum(amount)::bigint, count(DISTINCT grp),"
           " sum(prompt)::bigint, sum(completion)::bigint,"
           " sum(reprefill)::bigint"
           " FROM (SELECT CASE $1::integer"
           "         WHEN 0 THEN node::text WHEN 1 THEN pod::text"
           "         WHEN 2 THEN owner::text WHEN 3 THEN model"
           "         WHEN 4 THEN day::text END AS id,"
           "       grp, attempt, sum(amount) AS amount,"
           "       coalesce(sum(amount) FILTER (WHERE code = 12), 0)"
           "         AS reprefill,"
           "       max(prompt_tokens) AS prompt,"
           "       max(completion_tokens) AS completion"
           "     FROM ledger.earned"
           "     WHERE ($2::bigint = 0 OR owner = $2::bigint)"
           "       AND ($3::bigint = 0 OR at >= 'epoch'::timestamptz"
           "            + $3::bigint * interval '1 microsecond')"
           "       AND ($4::bigint = 0 OR at < 'epoch'::timestamptz"
           "            + $4::bigint * interval '1 microsecond')"
           "     GROUP BY 1, grp, attempt) attempts"
           " WHERE id IS NOT NULL GROUP BY id"
           " ORDER BY CASE WHEN $1::integer = 4 THEN id END,"
           "          sum(amount) DESC, id LIMIT $5::bigint",
    .shape = DB_MANY,
    .param_count = 5,
};

static int
grouping_number(enum earnings_by by)
{
    switch (by) {
    case EARNINGS_BY_NODE:
        return 0;
    case EARNINGS_BY_POD:
        return 1;
    case EARNINGS_BY_OWNER:
        return 2;
    case EARNINGS_BY_MODEL:
        return 3;
    case EARNINGS_BY_DAY:
        return 4;
    }
    return -1;
}

static void
earnings_row_read(const struct db_rows *rows, size_t index,
                  struct earnings_row *row)
{
    (void)snprintf(row->id, sizeof(row->id), "%s", db_text(rows, index, 0));
    row->credits.micro = db_i64(rows, index, 1);
    row->jobs = (uint64_t)db_i64(rows, index, 2);
    row->prompt_tokens = (uint64_t)db_i64(rows, index, 3);
    row->completion_tokens = (uint64_t)db_i64(rows, index, 4);
    row->reprefill.micro = db_i64(rows, index, 5);
}

enum status
ledger_earnings(struct db *db, enum earnings_by by, int64_t owner,
                struct instant from, struct instant to,
                struct earnings_row **rows, size_t *count, struct error *err)
{
    char numbers[5][DB_NUMBER_BYTES];
    struct db_param params[] = {
        db_param_i64(numbers[0], grouping_number(by)),
        db_param_i64(numbers[1], owner),
        db_param_i64(numbers[2], from.us),
        db_param_i64(numbers[3], to.us),
        db_param_i64(numbers[4], EARNINGS_ROWS_MAX),
    };
    struct db_rows *found = NULL;
    enum status status = db_run(db, &earnings_statement, params, &found, err);

    if (status != STATUS_OK)
        return status;
    *count = db_row_count(found);
    *rows = mem_array(*count, sizeof(**rows));
    for (size_t i = 0; i < *count; i++)
        earnings_row_read(found, i, &(*rows)[i]);
    db_rows_free(found);
    return STATUS_OK;
}

static const struct statement check_statement = {
    .name = "ledger_check",
    .sql = "SELECT what, which, count(*) OVER () FROM ledger.violation"
           " ORDER BY what, which LIMIT $1::bigint",
    .shape = DB_MANY,
    .param_count = 1,
};

enum status
ledger_check(struct db *db, uint64_t *violations, struct buf *text,
             struct error *err)
{
    char number[DB_NUMBER_BYTES];
    struct db_param params[] = {
        db_param_i64(number, VIOLATIONS_SHOWN),
    };
    struct db_rows *rows = NULL;
    enum status status = db_run(db, &check_statement, params, &rows, err);

    if (status != STATUS_OK)
        return status;
    *violations = 0;
    if (db_row_count(rows) > 0)
        *violations = (uint64_t)db_i64(rows, 0, 2);
    for (size_t i = 0; text != NULL && i < db_row_count(rows); i++)
        buf_printf(text, "%s: %s\n", db_text(rows, i, 0), db_text(rows, i, 1));
    db_rows_free(rows);
    return STATUS_OK;
}

static const struct statement open_holds_statement = {
    .name = "ledger_open_holds",
    .sql = "SELECT h.id FROM ledger.hold h WHERE NOT EXISTS"
           " (SELECT FROM ledger.hold_end e WHERE e.hold = h.id)"
           " ORDER BY h.made_at, h.id",
    .shape = DB_MANY,
};

enum status
ledger_open_holds(struct db *db, struct db_rows **rows, struct error *err)
{
    return db_run(db, &open_holds_statement, NULL, rows, err);
}
