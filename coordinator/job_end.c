/* job_end.c - a job's end as one write: money, attempts, row, result. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/fault.h"
#include "common/json.h"
#include "common/log.h"
#include "common/mem.h"
#include "coordinator/content.h"
#include "coordinator/core_private.h"
#include "coordinator/message.h"
#include "coordinator/store_jobs.h"
#include "ledger/ledger.h"
#include "ledger/settlement.h"

#include "common/banned.h"

enum {
    UNANSWERED_S = 30, /* an agent that does not end a job for so long loses
                        * its link, and its slots are free */
    RESULT_MAX_BYTES = 16 * 1024 * 1024,
    RECORD_JSON_MAX_BYTES = 256 * 1024,
};

static void
settlement_fill(const struct job *job, const struct record_state *state,
                const char *finish, struct settlement *settlement)
{
    const struct catalogue_entry *entry = &job->model->entry;

    memcpy(settlement->job, job->id, sizeof(settlement->job));
    memcpy(settlement->model, entry->id, sizeof(settlement->model));
    memcpy(settlement->model_digest, entry->digest,
           sizeof(settlement->model_digest));
    settlement->payer = job->wallet;
    settlement->n_in = job->prompt_count;
    settlement->n_out = state->ids;
    settlement->context = job->prompt_count + job->rules.max_tokens;
    snprintf(settlement->finish, sizeof(settlement->finish), "%s", finish);
    settlement->revision = job->revision;
    settlement->price_model = (struct price_model){
        .bytes_per_token = entry->bytes_per_token,
        .kv_bytes_per_token = entry->kv_bytes_per_token,
        .flop_per_token = entry->flop_per_token,
        .attention_flop = entry->attention_flop,
        .weight_bytes = entry->weight_bytes,
    };
    for (size_t i = 0; i < job->attempt_count; i++) {
        const struct job_attempt *attempt = &job->attempts[i];
        struct settlement_attempt *to =
            &settlement->attempts[settlement->attempt_count++];

        to->number = attempt->number;
        to->done = attempt->done;
        to->ids = attempt->ids;
        snprintf(to->end_reason, sizeof(to->end_reason), "%.23s",
                 attempt->end_reason);
        memcpy(to->members[0].node, attempt->node, UUID_TEXT_BYTES);
        to->members[0].account = attempt->account;
        to->members[0].weight = attempt->weight;
        to->member_count = 1;
    }
}

/* Settle by what was delivered, or release when that is nothing. */
static void
money_write(struct core *core, struct job *job, const char *finish,
            struct write *write)
{
    struct settlement *settlement = mem_alloc(sizeof(*settlement));
    struct settlement_result *result = mem_alloc(sizeof(*result));
    struct record_state state;
    struct buf record;
    struct error err = {0};

    buf_init(&record, RECORD_JSON_MAX_BYTES);
    record_state(job->record, &state);
    if (state.ids == 0) {
        ledger_release(write, core->app->epoch, job->id);
    } else {
        settlement_fill(job, &state, finish, settlement);
        if (settlement_compute(settlement, LEDGER_FEE_ID, result, &record,
                               &err) == STATUS_OK) {
            job->price = result->price;
            job->settled = true;
            ledger_settle(write, core->app->epoch, settlement, result, &record);
        } else {
            /* Never expected: the hold was computed by the same formula. The
             * submitter is not charged for our mistake. */
            log_error("job.unpriced", "job=%s detail=\"%s\"", job->id,
                      err.text);
            ledger_release(write, core->app->epoch, job->id);
        }
    }
    buf_clear(&record);
    free(settlement);
    free(result);
}

/* {"text":..,"ids":[..],"finish":..} and what else message_store writes: what
 * /api/v1/jobs/ID answers later. */
static void
result_seal(struct core *core, const struct job *job, const char *finish,
            struct buf *sealed)
{
    struct message message;
    struct buf plain;
    struct json_out json;
    struct error err = {0};
    uint32_t *ids;
    size_t count;

    buf_init(&plain, RESULT_MAX_BYTES);
    message_init(&message);
    message_read(&message, job->record);
    ids = record_ids(job->record, &count);
    json_out_init(&json, &plain);
    json_open_object(&json);
    message_store(&message, &json);
    json_member_text(&json, "finish", finish);
    json_key(&json, "ids");
    json_open_list(&json);
    for (size_t i = 0; i < count; i++)
        json_put_u64(&json, ids[i]);
    json_close_list(&json);
    json_close_object(&json);
    if (content_seal(core->app->content, job->content_day, job->id, plain.data,
                     plain.size, sealed, &err) != STATUS_OK)
        log_error("content.seal_failed", "job=%s detail=\"%s\"", job->id,
                  err.text);
    free(ids);
    buf_clear(&plain);
    message_clear(&message);
}

void
job_end(struct core *core, struct job *job, const char *state,
        const char *finish, const char *reason)
{
    struct write *write = job_write_new(core, job, JOB_WRITTEN, JOB_WRITTEN);
    struct buf result;

    buf_init(&result, RESULT_MAX_BYTES);
    job_queue_remove(core, job);
    if (job->attempt_count > 0)
        job_attempt_close(job, reason);
    job_attempts_clamp(job, record_close(job->record));
    FAULT_STEP("core.end_begun");
    money_write(core, job, finish, write);
    if (job->outlives && job->content_day[0] != '\0')
        result_seal(core, job, finish, &result);
    store_attempts_end(write, job);
    store_job_end(write, job, state, &result);
    writer_submit(core->app->writer, write);
    job->deadline = span_add(clock_monotonic(), span_s(UNANSWERED_S));
    buf_clear(&result);
}
