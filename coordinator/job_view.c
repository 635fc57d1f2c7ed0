/* job_view.c - rows of jobs and attempts as JSON. */
#include "coordinator/job_view.h"

#include <stdio.h>
#include <string.h>

#include "coordinator/answer.h"
#include "coordinator/content.h"
#include "coordinator/end_reason.h"
#include "coordinator/reply.h"
#include "coordinator/store_jobs.h"
#include "ledger/price.h"

#include "common/banned.h"

/* Columns of store_attempts_read. */
enum {
    ATTEMPT_NUMBER,
    ATTEMPT_NODE,
    ATTEMPT_OWNER,
    ATTEMPT_WHY,
    ATTEMPT_PREDICTED_TTFT,
    ATTEMPT_PREDICTED_RATE,
    ATTEMPT_STARTED,
    ATTEMPT_ENDED,
    ATTEMPT_END_REASON,
    ATTEMPT_IDS,
    ATTEMPT_OBSERVED_TTFT,
    ATTEMPT_OBSERVED_RATE,
    ATTEMPT_RAN_MS,
    ATTEMPT_DONE,
    ATTEMPT_PREFILL,
    ATTEMPT_DECODE,
    ATTEMPT_REPREFILL,
};

/* Columns of store_working_read. */
enum {
    WORKING_CACHED,
    WORKING_CLASS,
    WORKING_UCR_PER_TFLOP,
    WORKING_UCR_PER_GB,
    WORKING_MINIMUM,
    WORKING_FEE_PER_MILLE,
    WORKING_REPREFILL,
    WORKING_BYTES_PER_TOKEN,
    WORKING_KV_BYTES_PER_TOKEN,
    WORKING_FLOP_PER_TOKEN,
    WORKING_ATTENTION_FLOP,
};

/* --- members --- */

static void
text_put(struct json_out *out, const char *name, const struct db_rows *rows,
         size_t row, int column)
{
    json_member_text(
        out, name,
        db_is_null(rows, row, column) ? NULL : db_text(rows, row, column));
}

static void
number_put(struct json_out *out, const char *name, const struct db_rows *rows,
           size_t row, int column)
{
    if (db_is_null(rows, row, column))
        json_member_null(out, name);
    else
        json_member_i64(out, name, db_i64(rows, row, column));
}

static void
real_put(struct json_out *out, const char *name, const struct db_rows *rows,
         size_t row, int column)
{
    if (db_is_null(rows, row, column))
        json_member_null(out, name);
    else
        json_member_double(out, name, db_double(rows, row, column));
}

/* --- attempts --- */

static bool
sees_node(const struct key_view *key, const struct db_rows *rows, size_t row)
{
    return (key->scopes & SCOPE_OPERATOR) != 0 ||
           ((key->scopes & SCOPE_OWNER) != 0 &&
            db_i64(rows, row, ATTEMPT_OWNER) == key->account);
}

static void
target_put(const struct job_viewer *viewer, const struct db_rows *rows,
           size_t row, bool open, struct json_out *out)
{
    const char *id = db_text(rows, row, ATTEMPT_NODE);
    const struct fleet_view *fleet;
    const struct node_view *node;

    fleet = fleet_take(viewer->app->snapshots);
    node = fleet_node(fleet, id);
    json_open_object(out);
    json_member_text(out, "kind", "node");
    if (open) {
        json_member_text(out, "id", id);
        json_member_text(out, "name", node != NULL ? node->name : NULL);
        json_key(out, "members");
        json_open_list(out);
        json_put_text(out, id);
        json_close_list(out);
    }
    json_member_null(out, "seat"); /* until bandwidths are verified */
    json_member_text(out, "chip",
                     node != NULL && node->known ? node->facts.chip : NULL);
    if (node != NULL && node->known && node->facts.has_memory_bytes)
        json_member_u64(out, "memory_bytes", node->facts.memory_bytes);
    else
        json_member_null(out, "memory_bytes");
    fleet_drop(fleet);
    json_close_object(out);
}

static bool
same_verdict(const struct json *a, const struct json *b)
{
    size_t size;
    const char *left = json_as_text(json_get(a, "verdict"), &size);
    const char *right = json_as_text(json_get(b, "verdict"), &size);

    return left != NULL && right != NULL && strcmp(left, right) == 0;
}

static void
verdict_put(const struct json *list, size_t first, struct json_out *out)
{
    const struct json *item = json_at(list, first);
    const char *verdict;
    double finish_ms;
    size_t size;
    uint64_t count = 0;

    for (size_t i = 0; i < first; i++)
        if (same_verdict(json_at(list, i), item))
            return; /* counted already */
    for (size_t i = first; i < json_count(list); i++)
        count += same_verdict(json_at(list, i), item) ? 1 : 0;
    verdict = json_as_text(json_get(item, "verdict"), &size);
    json_open_object(out);
    json_member_text(out, "verdict", verdict);
    json_member_u64(out, "count", count);
    if (verdict != NULL && strcmp(verdict, "chosen") == 0 &&
        json_as_double(json_get(item, "finish_ms"), &finish_ms) == STATUS_OK)
        json_member_double(out, "finish_ms", finish_ms);
    json_close_object(out);
}

/* Why there: whole for those who may know the nodes, else counts. */
static void
why_put(const char *text, bool open, struct json_out *out)
{
    struct json_doc doc = {0};

    if (json_doc_parse(text, strlen(text), &doc, NULL) != STATUS_OK) {
        json_put_null(out);
        return;
    }
    if (open) {
        json_put_raw(out, text, strlen(text));
    } else {
        json_open_list(out);
        for (size_t i = 0; i < json_count(doc.root); i++)
            verdict_put(doc.root, i, out);
        json_close_list(out);
    }
    json_doc_clear(&doc);
}

static void
attempt_put(const struct job_viewer *viewer, const struct db_rows *rows,
            size_t row, struct json_out *out)
{
    bool open = sees_node(viewer->key, rows, row);

    json_open_object(out);
    number_put(out, "number", rows, row, ATTEMPT_NUMBER);
    json_key(out, "target");
    target_put(viewer, rows, row, open, out);
    text_put(out, "started", rows, row, ATTEMPT_STARTED);
    text_put(out, "ended", rows, row, ATTEMPT_ENDED);
    real_put(out, "ran_ms", rows, row, ATTEMPT_RAN_MS);
    text_put(out, "end_reason", rows, row, ATTEMPT_END_REASON);
    json_member_text(out, "end_text",
                     end_reason_text(db_text(rows, row, ATTEMPT_END_REASON)));
    number_put(out, "done", rows, row, ATTEMPT_DONE);
    number_put(out, "ids", rows, row, ATTEMPT_IDS);
    number_put(out, "prefill_ucr", rows, row, ATTEMPT_PREFILL);
    number_put(out, "decode_ucr", rows, row, ATTEMPT_DECODE);
    number_put(out, "reprefill_ucr", rows, row, ATTEMPT_REPREFILL);
    json_key(out, "predicted");
    json_open_object(out);
    real_put(out, "ttft_ms", rows, row, ATTEMPT_PREDICTED_TTFT);
    real_put(out, "tok_s", rows, row, ATTEMPT_PREDICTED_RATE);
    json_close_object(out);
    json_key(out, "observed");
    if (db_is_null(rows, row, ATTEMPT_OBSERVED_TTFT)) {
        json_put_null(out);
    } else {
        json_open_object(out);
        real_put(out, "ttft_ms", rows, row, ATTEMPT_OBSERVED_TTFT);
        real_put(out, "tok_s", rows, row, ATTEMPT_OBSERVED_RATE);
        json_close_object(out);
    }
    json_key(out, "why");
    why_put(db_text(rows, row, ATTEMPT_WHY), open, out);
    json_close_object(out);
}

static enum status
attempts_put(const struct job_viewer *viewer, const char *job,
             struct json_out *out, struct error *err)
{
    struct db_rows *rows = NULL;
    enum status status = store_attempts_read(viewer->db, job, &rows, err);

    if (status != STATUS_OK)
        return status;
    json_key(out, "attempts");
    json_open_list(out);
    for (size_t i = 0; i < db_row_count(rows); i++)
        attempt_put(viewer, rows, i, out);
    json_close_list(out);
    db_rows_free(rows);
    return STATUS_OK;
}

/* --- result and error --- */

enum status
job_view_unseal(struct app *app, const struct db_rows *rows, size_t row,
                int column, struct buf *out, struct error *err)
{
    struct buf sealed;
    enum status status;

    if (db_is_null(rows, row, column) ||
        db_is_null(rows, row, JOB_COL_CONTENT_DAY))
        return error_set(err, STATUS_NOT_FOUND, "it is not kept (any more)");
    buf_init(&sealed, JOB_CONTENT_MAX_BYTES);
    db_bytes(rows, row, column, &sealed);
    status = buf_status(&sealed, err);
    if (status == STATUS_OK)
        status = content_unseal(
            app->content, db_text(rows, row, JOB_COL_CONTENT_DAY),
            db_text(rows, row, JOB_COL_ID), sealed.data, sealed.size, out, err);
    buf_clear(&sealed);
    return status;
}

static enum status
status_named(const char *name)
{
    for (int i = STATUS_INVALID; i <= STATUS_INTERNAL; i++)
        if (strcmp(status_name((enum status)i), name) == 0)
            return (enum status)i;
    return STATUS_INTERNAL;
}

void
job_view_end(const struct db_rows *rows, size_t row, struct record_end *end)
{
    *end = (struct record_end){
        .ended = !db_is_null(rows, row, JOB_COL_ENDED),
        .failed = !db_is_null(rows, row, JOB_COL_ERROR_STATUS),
        .prompt_tokens = (uint64_t)db_i64(rows, row, JOB_COL_PROMPT_TOKENS),
        .completion_tokens =
            (uint64_t)db_i64(rows, row, JOB_COL_COMPLETION_TOKENS),
    };
    if (!end->failed) {
        snprintf(end->finish, sizeof(end->finish), "%s",
                 db_text(rows, row, JOB_COL_FINISH));
        return;
    }
    (void)error_set(&end->error,
                    status_named(db_text(rows, row, JOB_COL_ERROR_STATUS)),
                    "%s", db_text(rows, row, JOB_COL_ERROR_TEXT));
    (void)error_tag(&end->error, db_text(rows, row, JOB_COL_ERROR_CODE), NULL);
}

static void
result_put(const struct job_viewer *viewer, const struct db_rows *rows,
           size_t row, const struct record_end *end, struct json_out *out)
{
    struct json_doc doc = {0};
    struct answer answer;
    struct message message;
    struct record_end whole = *end;
    struct buf plain, body;
    bool kept = false;

    buf_init(&plain, JOB_CONTENT_MAX_BYTES);
    buf_init(&body, REPLY_MAX_BYTES);
    message_init(&message);
    if (viewer->result &&
        job_view_unseal(viewer->app, rows, row, JOB_COL_RESULT, &plain, NULL) ==
            STATUS_OK &&
        json_doc_parse(plain.data, plain.size, &doc, NULL) == STATUS_OK)
        kept = message_restore(&message, doc.root);
    whole.reasoning_tokens = message.reasoning_tokens;
    if (!kept || (message_is_empty(&message) && end->failed)) {
        json_member_null(out, "result");
    } else {
        answer_init(&answer, db_text(rows, row, JOB_COL_ID),
                    strcmp(db_text(rows, row, JOB_COL_KIND), "chat") == 0,
                    db_text(rows, row, JOB_COL_MODEL));
        answer_body(&answer, &message, &whole, &body);
        json_key(out, "result");
        json_put_raw(out, body.data, body.size);
    }
    json_doc_clear(&doc);
    message_clear(&message);
    buf_clear(&plain);
    buf_clear(&body);
}

/* --- price --- */

/* Bytes moved and FLOP, when the model's numbers are still known. */
static void
work_put(const struct db_rows *job, size_t row, const struct db_rows *working,
         struct json_out *out)
{
    struct price_work work;
    struct price_model model = {
        .bytes_per_token =
            (uint64_t)db_i64(working, 0, WORKING_BYTES_PER_TOKEN),
        .kv_bytes_per_token =
            (uint64_t)db_i64(working, 0, WORKING_KV_BYTES_PER_TOKEN),
        .flop_per_token = (uint64_t)db_i64(working, 0, WORKING_FLOP_PER_TOKEN),
        .attention_flop = (uint64_t)db_i64(working, 0, WORKING_ATTENTION_FLOP),
    };

    if (db_is_null(working, 0, WORKING_BYTES_PER_TOKEN) ||
        price_work(&model, (uint64_t)db_i64(job, row, JOB_COL_PROMPT_TOKENS),
                   (uint64_t)db_i64(working, 0, WORKING_CACHED),
                   (uint64_t)db_i64(job, row, JOB_COL_COMPLETION_TOKENS), &work,
                   NULL) != STATUS_OK) {
        json_member_null(out, "flop");
        json_member_null(out, "bytes_moved");
    } else {
        json_member_u64(out, "flop", work.flop);
        json_member_u64(out, "bytes_moved", work.bytes);
    }
}

static void
working_put(const struct db_rows *job, size_t row,
            const struct db_rows *working, struct json_out *out)
{
    static const struct {
        const char *name;
        int column;
    } members[] = {
        {"reprefill_ucr", WORKING_REPREFILL},
        {"cached_tokens", WORKING_CACHED},
        {"ucr_per_tflop", WORKING_UCR_PER_TFLOP},
        {"ucr_per_gb", WORKING_UCR_PER_GB},
        {"class_per_mille", WORKING_CLASS},
        {"minimum_ucr", WORKING_MINIMUM},
        {"fee_per_mille", WORKING_FEE_PER_MILLE},
    };

    if (db_row_count(working) == 0)
        return;
    for (size_t i = 0; i < COUNT_OF(members); i++)
        number_put(out, members[i].name, working, 0, members[i].column);
    work_put(job, row, working, out);
}

static enum status
price_put(const struct job_viewer *viewer, const struct db_rows *rows,
          size_t row, struct json_out *out, struct error *err)
{
    struct db_rows *working = NULL;
    enum status status;

    number_put(out, "price_ucr", rows, row, JOB_COL_PRICE_UCR);
    number_put(out, "hold_ucr", rows, row, JOB_COL_HOLD_UCR);
    json_key(out, "price");
    if (db_is_null(rows, row, JOB_COL_PRICE_UCR)) {
        json_put_null(out);
        return STATUS_OK;
    }
    status = store_working_read(viewer->db, db_text(rows, row, JOB_COL_ID),
                                &working, err);
    if (status != STATUS_OK)
        return status;
    json_open_object(out);
    number_put(out, "prefill_ucr", rows, row, JOB_COL_PREFILL_UCR);
    number_put(out, "decode_ucr", rows, row, JOB_COL_DECODE_UCR);
    number_put(out, "fee_ucr", rows, row, JOB_COL_FEE_UCR);
    number_put(out, "revision", rows, row, JOB_COL_PRICE_REVISION);
    working_put(rows, row, working, out);
    json_close_object(out);
    db_rows_free(working);
    return STATUS_OK;
}

enum status
job_view_put(const struct job_viewer *viewer, const struct db_rows *rows,
             size_t row, struct json_out *out, struct error *err)
{
    struct record_end end;
    enum status status;

    job_view_end(rows, row, &end);
    json_open_object(out);
    text_put(out, "id", rows, row, JOB_COL_ID);
    json_member_text(out, "object", "job");
    text_put(out, "kind", rows, row, JOB_COL_KIND);
    text_put(out, "model", rows, row, JOB_COL_MODEL);
    text_put(out, "state", rows, row, JOB_COL_STATE);
    text_put(out, "created", rows, row, JOB_COL_CREATED);
    text_put(out, "started", rows, row, JOB_COL_STARTED);
    text_put(out, "ended", rows, row, JOB_COL_ENDED);
    number_put(out, "account", rows, row, JOB_COL_ACCOUNT);
    json_key(out, "usage");
    answer_usage_put(out, &end);
    status = price_put(viewer, rows, row, out, err);
    if (status == STATUS_OK)
        status = attempts_put(viewer, db_text(rows, row, JOB_COL_ID), out, err);
    if (status != STATUS_OK)
        return status;
    result_put(viewer, rows, row, &end, out);
    json_key(out, "error");
    if (end.failed)
        reply_error_put(out, &end.error);
    else
        json_put_null(out);
    json_close_object(out);
    return STATUS_OK;
}
