/* store_jobs.c - jobs and attempts in SQL.
 *
 * Every change is idempotent: a batch whose commit was lost runs again. */
#include "coordinator/store_jobs.h"

#include <inttypes.h>
#include <string.h>

#include "common/clock.h"
#include "common/json.h"

#include "common/banned.h"

enum { ATTEMPTS_MAX_BYTES = 16 * 1024 };

#define JOB_COLUMNS JOB_COLUMNS_WITH("request, result")
/* A list shows neither, and they are large. */
#define JOB_COLUMNS_LISTED JOB_COLUMNS_WITH("NULL::bytea, NULL::bytea")
#define JOB_COLUMNS_WITH(content)                                              \
    "id, account, kind, model, state, "                                        \
    "to_char(created at time zone 'utc', "                                     \
    "'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), "                                   \
    "to_char(started at time zone 'utc', "                                     \
    "'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), "                                   \
    "to_char(ended at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), " \
    "prompt_tokens, completion_tokens, finish, error_status, error_code, "     \
    "error_text, hold_ucr, price_revision, price_ucr, prefill_ucr, "           \
    "decode_ucr, fee_ucr, outlives, content_day, " content ", api_key "        \
    "FROM berth.job "

static const struct statement job_add = {
    .name = "job_add",
    .sql = "INSERT INTO berth.job (id, account, api_key, kind, model, state, "
           "outlives, idempotency_key, created, content_day, request, "
           "prompt_tokens, hold_ucr, price_revision) VALUES ($1, $2, $3, $4, "
           "$5, 'queued', $6, $7, $8, $9, $10, $11, $12, $13) "
           "ON CONFLICT (id) DO NOTHING",
    .shape = DB_NONE,
    .param_count = 13,
};

void
store_job_add(struct write *write, const struct job *job)
{
    char account[DB_NUMBER_BYTES], prompt[DB_NUMBER_BYTES],
        hold[DB_NUMBER_BYTES];
    char revision[DB_NUMBER_BYTES], created[DB_NUMBER_BYTES];
    struct db_param params[] = {
        db_param_text(job->id),
        db_param_i64(account, job->account),
        db_param_text(job->key),
        db_param_text(job->chat ? "chat" : "completion"),
        db_param_text(job->model->entry.id),
        db_param_text(job->outlives ? "t" : "f"),
        db_param_text_or_null(job->idempotency_key),
        db_param_text(instant_text(job->created, created, sizeof(created))),
        db_param_text_or_null(job->content_day),
        db_param_bytes(&job->request),
        db_param_i64(prompt, (int64_t)job->prompt_count),
        db_param_i64(hold, job->hold.micro),
        db_param_i64(revision, job->revision.revision),
    };

    write_add(write, &job_add, params);
}

static const struct statement attempt_add = {
    .name = "attempt_add",
    .sql = "WITH moved AS (UPDATE berth.job SET state = 'running', "
           "started = coalesce(started, now()) WHERE id = $1 AND ended IS NULL)"
           " INSERT INTO berth.attempt (job, number, epoch, node, why, "
           "predicted_ttft_ms, predicted_tok_s) VALUES ($1, $2, $3, $4, $5, "
           "$6, $7) ON CONFLICT (job, number) DO NOTHING",
    .shape = DB_NONE,
    .param_count = 7,
};

void
store_attempt_add(struct write *write, uint64_t epoch, const struct job *job,
                  const struct job_attempt *attempt, const char *why)
{
    char number[DB_NUMBER_BYTES], reign[DB_NUMBER_BYTES];
    char ttft[DB_NUMBER_BYTES], rate[DB_NUMBER_BYTES];
    struct db_param params[] = {
        db_param_text(job->id),
        db_param_i64(number, attempt->number),
        db_param_i64(reign, (int64_t)epoch),
        db_param_text(attempt->node),
        db_param_text(why),
        db_param_real(ttft, attempt->predicted_ttft_ms),
        db_param_real(rate, attempt->predicted_tok_s),
    };

    write_add(write, &attempt_add, params);
}

static const struct statement attempts_end = {
    .name = "attempts_end",
    .sql = "UPDATE berth.attempt a SET ended = coalesce(a.ended, now()), "
           "end_reason = coalesce(a.end_reason, e.reason), ids = e.ids, "
           "observed_ttft_ms = coalesce(a.observed_ttft_ms, e.ttft_ms), "
           "observed_tok_s = coalesce(a.observed_tok_s, e.tok_s) "
           "FROM jsonb_to_recordset($2::jsonb) AS e(number integer, "
           "reason text, ids bigint, ttft_ms double precision, "
           "tok_s double precision) WHERE a.job = $1 AND a.number = e.number",
    .shape = DB_NONE,
    .param_count = 2,
};

static void
attempt_describe(const struct job_attempt *attempt, struct json_out *json)
{
    json_open_object(json);
    json_member_u64(json, "number", attempt->number);
    json_member_text(json, "reason", attempt->end_reason);
    json_member_u64(json, "ids", attempt->ids);
    if (attempt->observed)
        json_member_double(json, "ttft_ms", attempt->observed_ttft_ms);
    if (attempt->observed && attempt->observed_tok_s > 0)
        json_member_double(json, "tok_s", attempt->observed_tok_s);
    json_close_object(json);
}

void
store_attempts_end(struct write *write, const struct job *job)
{
    struct db_param params[2];
    struct json_out json;
    struct buf list;

    buf_init(&list, ATTEMPTS_MAX_BYTES);
    json_out_init(&json, &list);
    json_open_list(&json);
    for (size_t i = 0; i < job->attempt_count; i++)
        if (job->attempts[i].end_reason[0] != '\0')
            attempt_describe(&job->attempts[i], &json);
    json_close_list(&json);
    params[0] = db_param_text(job->id);
    params[1] = db_param_text(list.data);
    write_add(write, &attempts_end, params);
    buf_clear(&list);
}

static const struct statement attempt_reopen = {
    .name = "attempt_reopen",
    .sql = "WITH moved AS (UPDATE berth.job SET state = 'running' "
           "WHERE id = $1 AND ended IS NULL RETURNING id) "
           "UPDATE berth.attempt a SET ended = NULL, end_reason = NULL "
           "FROM moved WHERE a.job = moved.id AND a.number = $2",
    .shape = DB_NONE,
    .param_count = 2,
};

void
store_attempt_reopen(struct write *write, const char *job, uint32_t number)
{
    char text[DB_NUMBER_BYTES];
    struct db_param params[] = {db_param_text(job), db_param_i64(text, number)};

    write_add(write, &attempt_reopen, params);
}

static const struct statement job_requeue = {
    .name = "job_requeue",
    .sql = "UPDATE berth.job SET state = 'queued' "
           "WHERE id = $1 AND ended IS NULL",
    .shape = DB_NONE,
    .param_count = 1,
};

void
store_job_requeue(struct write *write, const char *job)
{
    struct db_param params[] = {db_param_text(job)};

    write_add(write, &job_requeue, params);
}

static const struct statement job_end = {
    .name = "job_end",
    .sql = "UPDATE berth.job SET state = $2, ended = now(), "
           "completion_tokens = $3, finish = $4, error_status = $5, "
           "error_code = $6, error_text = $7, price_ucr = $8, "
           "prefill_ucr = $9, decode_ucr = $10, fee_ucr = $11, result = $12 "
           "WHERE id = $1 AND ended IS NULL",
    .shape = DB_NONE,
    .param_count = 12,
};

void
store_job_end(struct write *write, const struct job *job, const char *state,
              const struct buf *result)
{
    char total[DB_NUMBER_BYTES], prefill[DB_NUMBER_BYTES],
        decode[DB_NUMBER_BYTES];
    char fee[DB_NUMBER_BYTES], ids[DB_NUMBER_BYTES];
    struct record_state seen;
    const char *finish;

    record_state(job->record, &seen);
    finish = output_finish_name(seen.finish);

    struct db_param params[] = {
        db_param_text(job->id),
        db_param_text(state),
        db_param_i64(ids, (int64_t)seen.ids),
        db_param_text(finish),
        db_param_text(job->failed ? status_name(job->error.status) : NULL),
        job->failed ? db_param_text_or_null(job->error.code)
                    : db_param_text(NULL),
        db_param_text(job->failed ? job->error.text : NULL),
        db_param_i64(total, job->settled ? job->price.total.micro : 0),
        db_param_i64(prefill, job->settled ? job->price.prefill.micro : 0),
        db_param_i64(decode, job->settled ? job->price.decode.micro : 0),
        db_param_i64(fee, job->settled ? job->price.fee.micro : 0),
        db_param_bytes(result),
    };

    write_add(write, &job_end, params);
}

static const struct statement job_abandon = {
    .name = "job_abandon",
    .sql = "WITH gone AS (UPDATE berth.attempt SET ended = now(), "
           "end_reason = $2 WHERE job = $1 AND ended IS NULL) "
           "UPDATE berth.job SET state = 'cancelled', ended = now(), "
           "error_status = 'retry', error_code = $2, error_text = $3, "
           "price_ucr = 0, prefill_ucr = 0, decode_ucr = 0, fee_ucr = 0 "
           "WHERE id = $1 AND ended IS NULL",
    .shape = DB_NONE,
    .param_count = 3,
};

void
store_job_abandon(struct write *write, const char *job, const char *code,
                  const char *text)
{
    struct db_param params[] = {db_param_text(job), db_param_text(code),
                                db_param_text(text)};

    write_add(write, &job_abandon, params);
}

static const struct statement content_forget = {
    .name = "content_forget",
    .sql = "UPDATE berth.job SET request = NULL, result = NULL, "
           "content_day = NULL WHERE content_day < $1 AND ended IS NOT NULL",
    .shape = DB_NONE,
    .param_count = 1,
};

void
store_content_forget(struct write *write, const char *day)
{
    struct db_param params[] = {db_param_text(day)};

    write_add(write, &content_forget, params);
}

static const struct statement job_read = {
    .name = "job_read",
    .sql = "SELECT " JOB_COLUMNS "WHERE id = $1",
    .shape = DB_MAYBE,
    .param_count = 1,
};

enum status
store_job_read(struct db *db, const char *job, struct db_rows **rows,
               struct error *err)
{
    struct db_param params[] = {db_param_text(job)};

    return db_run(db, &job_read, params, rows, err);
}

static const struct statement job_repeat = {
    .name = "job_repeat",
    .sql = "SELECT " JOB_COLUMNS "WHERE account = $1 AND idempotency_key = $2",
    .shape = DB_MAYBE,
    .param_count = 2,
};

enum status
store_job_repeat(struct db *db, int64_t account, const char *idempotency_key,
                 struct db_rows **rows, struct error *err)
{
    char number[DB_NUMBER_BYTES];
    struct db_param params[] = {db_param_i64(number, account),
                                db_param_text(idempotency_key)};

    return db_run(db, &job_repeat, params, rows, err);
}

static const struct statement jobs_list = {
    .name = "jobs_list",
    .sql =
        "SELECT " JOB_COLUMNS_LISTED "WHERE ($1::bigint = 0 OR account = $1) "
        "AND ($2::text IS NULL OR state = $2) "
        "AND ($3::text IS NULL OR model = $3) "
        "AND ($4::uuid IS NULL OR id < $4) ORDER BY id DESC LIMIT $5",
    .shape = DB_MANY,
    .param_count = 5,
};

enum status
store_jobs_list(struct db *db, int64_t account, const char *state,
                const char *model, const char *cursor, uint64_t limit,
                struct db_rows **rows, struct error *err)
{
    char number[DB_NUMBER_BYTES], most[DB_NUMBER_BYTES];
    struct db_param params[] = {
        db_param_i64(number, account),      db_param_text_or_null(state),
        db_param_text_or_null(model),       db_param_text_or_null(cursor),
        db_param_i64(most, (int64_t)limit),
    };

    return db_run(db, &jobs_list, params, rows, err);
}

static const struct statement attempts_read = {
    .name = "attempts_read",
    .sql = "SELECT a.number, a.node, n.owner, a.why, a.predicted_ttft_ms, "
           "a.predicted_tok_s, "
           "to_char(a.started at time zone 'utc', "
           "'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), "
           "to_char(a.ended at time zone 'utc', "
           "'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), "
           "a.end_reason, a.ids, a.observed_ttft_ms, a.observed_tok_s "
           "FROM berth.attempt a JOIN berth.node n ON n.id = a.node "
           "WHERE a.job = $1 ORDER BY a.number",
    .shape = DB_MANY,
    .param_count = 1,
};

enum status
store_attempts_read(struct db *db, const char *job, struct db_rows **rows,
                    struct error *err)
{
    struct db_param params[] = {db_param_text(job)};

    return db_run(db, &attempts_read, params, rows, err);
}

static const struct statement jobs_live = {
    .name = "jobs_live",
    .sql = "SELECT " JOB_COLUMNS "WHERE ended IS NULL ORDER BY id",
    .shape = DB_MANY,
    .param_count = 0,
};

enum status
store_jobs_live(struct db *db, struct db_rows **rows, struct error *err)
{
    return db_run(db, &jobs_live, NULL, rows, err);
}

static const struct statement attempts_adopt = {
    .name = "attempts_adopt",
    .sql = "SELECT a.number, a.node, l.id, a.ids, a.end_reason "
           "FROM berth.attempt a "
           "JOIN ledger.account l ON l.node = a.node AND l.kind = 3 "
           "WHERE a.job = $1 ORDER BY a.number DESC LIMIT $2",
    .shape = DB_MANY,
    .param_count = 2,
};

enum status
store_attempts_adopt(struct db *db, struct job *job, struct error *err)
{
    char most[DB_NUMBER_BYTES];
    struct db_param params[] = {db_param_text(job->id),
                                db_param_i64(most, JOB_ATTEMPTS_MAX / 2)};
    struct db_rows *rows = NULL;
    enum status status = db_run(db, &attempts_adopt, params, &rows, err);
    size_t count = status == STATUS_OK ? db_row_count(rows) : 0;

    for (size_t i = 0; i < count; i++) {
        struct job_attempt *attempt = &job->attempts[count - 1 - i];
        const char *reason = db_text(rows, i, 4);

        attempt->number = (uint32_t)db_i64(rows, i, 0);
        snprintf(attempt->node, sizeof(attempt->node), "%s",
                 db_text(rows, i, 1));
        attempt->account = db_i64(rows, i, 2);
        attempt->ids = (uint64_t)db_i64(rows, i, 3);
        attempt->weight = job->model->entry.bytes_per_token;
        if (reason != NULL)
            snprintf(attempt->end_reason, sizeof(attempt->end_reason), "%s",
                     reason);
        attempt->unreachable = true;
    }
    if (status == STATUS_OK)
        job->attempt_count = count;
    db_rows_free(rows);
    return status;
}
