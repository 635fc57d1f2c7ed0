/* store_jobs.h - statements about jobs and attempts, and their rows.
 *
 * The functions with a struct write add to it (core thread); the others read
 * on a leased connection (HTTP threads, start). */
#ifndef BERTH_COORDINATOR_STORE_JOBS_H
#define BERTH_COORDINATOR_STORE_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "common/error.h"
#include "coordinator/job.h"
#include "ledger/db.h"
#include "ledger/writer.h"

void store_job_add(struct write *write, const struct job *job);
/* @why is a JSON list: what placement found about each target. */
void store_attempt_add(struct write *write, uint64_t epoch,
                       const struct job *job, const struct job_attempt *attempt,
                       const char *why);
/* The attempts of @job that have ended, and the ids that each delivered. */
void store_attempts_end(struct write *write, const struct job *job);
/* An attempt whose node came back has not ended after all. */
void store_attempt_reopen(struct write *write, const char *job,
                          uint32_t number);
void store_job_requeue(struct write *write, const char *job);
/* @state is done, failed, cancelled or quarantined; @result the sealed result,
 * empty when none is kept. */
void store_job_end(struct write *write, const struct job *job,
                   const char *state, const struct buf *result);
/* A live job of an earlier reign ends, @code and @text say why. */
void store_job_abandon(struct write *write, const char *job, const char *code,
                       const char *text);
/* Requests and results of days before @day are forgotten. */
void store_content_forget(struct write *write, const char *day);

/* Columns of a job row as the reads below return it. */
enum job_column {
    JOB_COL_ID,
    JOB_COL_ACCOUNT,
    JOB_COL_KIND,
    JOB_COL_MODEL,
    JOB_COL_STATE,
    JOB_COL_CREATED,
    JOB_COL_STARTED,
    JOB_COL_ENDED,
    JOB_COL_PROMPT_TOKENS,
    JOB_COL_COMPLETION_TOKENS,
    JOB_COL_FINISH,
    JOB_COL_ERROR_STATUS,
    JOB_COL_ERROR_CODE,
    JOB_COL_ERROR_TEXT,
    JOB_COL_HOLD_UCR,
    JOB_COL_PRICE_REVISION,
    JOB_COL_PRICE_UCR,
    JOB_COL_PREFILL_UCR,
    JOB_COL_DECODE_UCR,
    JOB_COL_FEE_UCR,
    JOB_COL_OUTLIVES,
    JOB_COL_CONTENT_DAY,
    JOB_COL_REQUEST, /* sealed */
    JOB_COL_RESULT,  /* sealed */
    JOB_COL_KEY,
};

/* One job; no rows when there is none. */
MUST_CHECK enum status store_job_read(struct db *db, const char *job,
                                      struct db_rows **rows, struct error *err);
/* By idempotency key of an account. */
MUST_CHECK enum status store_job_repeat(struct db *db, int64_t account,
                                        const char *idempotency_key,
                                        struct db_rows **rows,
                                        struct error *err);
/* Newest first, at most @limit, ids below @cursor ("" from the top); @account
 * 0: all; @state and @model "": any. */
MUST_CHECK enum status store_jobs_list(struct db *db, int64_t account,
                                       const char *state, const char *model,
                                       const char *cursor, uint64_t limit,
                                       struct db_rows **rows,
                                       struct error *err);
/* number, node, owner of the node, why, predicted_ttft_ms, predicted_tok_s,
 * started, ended, end_reason, ids, observed_ttft_ms, observed_tok_s, how many
 * ms it ran; of the settlement done, prefill_ucr, decode_ucr, reprefill_ucr */
MUST_CHECK enum status store_attempts_read(struct db *db, const char *job,
                                           struct db_rows **rows,
                                           struct error *err);
/* From what the price of a settled job came: ids of the prompt not charged,
 * class_per_mille, ucr_per_tflop, ucr_per_gb, minimum_ucr, fee_per_mille, what
 * re-prefills took of the fee (null in settlements of version 1); of the model
 * bytes_per_token, kv_bytes_per_token, flop_per_token, attention_flop.  No rows
 * when nothing was charged. */
MUST_CHECK enum status store_working_read(struct db *db, const char *job,
                                          struct db_rows **rows,
                                          struct error *err);
/* Jobs without an end, as job rows. */
MUST_CHECK enum status store_jobs_live(struct db *db, struct db_rows **rows,
                                       struct error *err);
/* The latest attempts of an adopted job, into it; those without an end have
 * end_reason "". */
MUST_CHECK enum status store_attempts_adopt(struct db *db, struct job *job,
                                            struct error *err);

#endif
