/* store_jobs.c - jobs and attempts in SQL.
 *
 * Every change is idempotent: a batch whose commit was lost runs again. */
#include "coordinator/store_jobs.h"

#include <inttypes.h>
#include <string.h>

#include "common/clock.h"

#include "common/banned.h"

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

static const struct statement attempt_end = {
    .name = "attempt_end",
    .sql = "UPDATE berth.attempt SET ended = now(), end_reason = $3, ids = $4, "
           "observed_ttft_ms = $5, observed_tok_s = $6 "
           "WHERE job = $1 AND number = $2 AND ended IS NULL",
    .shape = DB_NONE,
    .param_count = 6,
};

void
store_attempt_end(struct write *write, const char *job,
                  const struct job_attempt *attempt)
{
    char number[DB_NUMBER_BYTES], ids[DB_NUMBER_BYTES];
    char ttft[DB_NUMBER_BYTES], rate[DB_NUMBER_BYTES];
    struct db_param params[] = {
        db_param_text(job),
        db_param_i64(number, attempt->number),
        db_param_text(attempt->end_reason),
        db_param_i64(ids, (int64_t)attempt->ids),
        attempt->observed ? db_param_real(ttft, attempt->observed_ttft_ms)
                          : db_param_text(NULL),
        attempt->observed && attempt->observed_tok_s > 0
            ? db_param_real(rate, attempt->observed_tok_s)
            : db_param_text(NULL),
    };

    write_add(write, &attempt_end, params);
}

static const struct statement attempts_lost = {
    .name = "attempts_lost",
    .sql = "UPDATE berth.attempt SET ended = now(), "
           "end_reason = 'coordinator_lost' WHERE job = $1 AND ended IS NULL",
    .shape = DB_NONE,
    .param_count = 1,
};

void
store_attempts_lost(struct write *write, const char *job)
{
    struct db_param params[] = {db_param_text(job)};

    write_add(write, &attempts_lost, params);
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

static const struct statement attempt_last = {
    .name = "attempt_last",
    .sql = "SELECT coalesce(max(number), 0) FROM berth.attempt WHERE job = $1",
    .shape = DB_ONE,
    .param_count = 1,
};

enum status
store_attempt_last(struct db *db, const char *job, uint32_t *number,
                   struct error *err)
{
    struct db_param params[] = {db_param_text(job)};
    struct db_rows *rows = NULL;
    enum status status = db_run(db, &attempt_last, params, &rows, err);

    if (status == STATUS_OK)
        *number = (uint32_t)db_i64(rows, 0, 0);
    db_rows_free(rows);
    return status;
}
