/* adopt.c - live rows of an earlier reign: released, or taken up again. */
#include "coordinator/adopt.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/fault.h"
#include "common/json.h"
#include "common/log.h"
#include "common/mem.h"
#include "coordinator/content.h"
#include "coordinator/core.h"
#include "coordinator/inventory.h"
#include "coordinator/prepare.h"
#include "coordinator/store_jobs.h"
#include "ledger/ledger.h"

#include "common/banned.h"

enum { STORED_MAX_BYTES = 64 * 1024 * 1024 };

static void
on_abandoned(void *arg, enum status status, struct db_rows *const *rows,
             size_t count, const struct error *err)
{
    char *job = arg;

    (void)rows;
    (void)count;
    if (status != STATUS_OK)
        log_error("job.unreleased", "job=%s detail=\"%s\"", job, err->text);
    free(job);
}

static void
abandon(struct app *app, const char *job, const char *code, const char *text)
{
    struct write *write = write_new(on_abandoned, mem_text(job));

    ledger_release(write, app->epoch, job);
    store_job_abandon(write, job, code, text);
    writer_submit(app->writer, write);
    log_warn("job.abandoned", "job=%s code=%s why=%s", job, code,
             LOG_QUOTED(text));
}

/* The stored request of a row as JSON. */
static enum status
request_read(struct app *app, const struct db_rows *rows, size_t row,
             struct json_doc *doc, struct error *err)
{
    const char *day = db_text(rows, row, JOB_COL_CONTENT_DAY);
    struct buf sealed, plain;
    enum status status;

    buf_init(&sealed, STORED_MAX_BYTES);
    buf_init(&plain, STORED_MAX_BYTES);
    db_bytes(rows, row, JOB_COL_REQUEST, &sealed);
    status = content_unseal(app->content, day, db_text(rows, row, JOB_COL_ID),
                            sealed.data, sealed.size, &plain, err);
    if (status == STATUS_OK)
        status = json_doc_parse(plain.data, plain.size, doc, err);
    buf_clear(&sealed);
    buf_clear(&plain);
    return status;
}

static void
row_apply(const struct db_rows *rows, size_t row, struct job *job)
{
    snprintf(job->key, sizeof(job->key), "%s", db_text(rows, row, JOB_COL_KEY));
    snprintf(job->content_day, sizeof(job->content_day), "%s",
             db_text(rows, row, JOB_COL_CONTENT_DAY));
    job->hold.micro = db_i64(rows, row, JOB_COL_HOLD_UCR);
    job->outlives = true;
    job->adopted = true;
}

static enum status
wallet_find(struct app *app, int64_t account, int64_t *wallet,
            struct error *err)
{
    const struct identity_view *view = identity_take(app->snapshots);
    const struct account_view *found = identity_account(view, account);
    enum status status = STATUS_OK;

    if (found == NULL)
        status = error_set(err, STATUS_NOT_FOUND, "its account is gone");
    else
        *wallet = found->wallet;
    identity_drop(view);
    return status;
}

/* Back to the queue, whatever ran it is lost. */
static void
requeue(struct app *app, struct job *job)
{
    struct write *write = write_new(on_abandoned, mem_text(job->id));

    store_attempts_end(write, job);
    store_job_requeue(write, job->id);
    writer_submit(app->writer, write);
}

/* Its latest attempt may still run, or wait with its end, on a node that will
 * call. */
static void
take_up(struct app *app, struct job *job)
{
    struct job_attempt *last =
        job->attempt_count == 0 ? NULL : &job->attempts[job->attempt_count - 1];
    bool open = last != NULL && last->end_reason[0] == '\0';

    job->adrift =
        open && inventory_node(core_inventory(app->core), last->node) != NULL;
    if (open && !job->adrift)
        snprintf(last->end_reason, sizeof(last->end_reason), "%s",
                 "coordinator_lost");
    FAULT_STEP("app.adopts");
    if (!job->adrift)
        requeue(app, job);
    log_info("job.adopted", "job=%s adrift=%s", job->id,
             job->adrift ? "yes" : "no");
    core_submit(app->core, job);
}

static enum status
adopt(struct app *app, struct db *db, const struct db_rows *rows, size_t row,
      struct error *err)
{
    struct prepared prepared = {.job = NULL};
    struct json_doc doc = {0};
    struct prepare from = {
        .app = app,
        .account = db_i64(rows, row, JOB_COL_ACCOUNT),
        .key = db_text(rows, row, JOB_COL_KEY),
        .job = db_text(rows, row, JOB_COL_ID),
        .chat = strcmp(db_text(rows, row, JOB_COL_KIND), "chat") == 0,
    };
    struct error unread = {0};
    enum status status = request_read(app, rows, row, &doc, &unread);

    if (status != STATUS_OK) /* a key that is gone or damaged stays so */
        status =
            error_set(err, STATUS_NOT_FOUND,
                      "its stored request cannot be read (%.200s): send it "
                      "again",
                      unread.text);
    from.body = json_get(doc.root, "request");
    from.berth = json_get(doc.root, "berth");
    if (json_is_null(from.berth))
        from.berth = NULL;
    if (status == STATUS_OK)
        status = wallet_find(app, from.account, &from.wallet, err);
    if (status == STATUS_OK)
        status = prepare_job(&from, &prepared, err);
    if (status == STATUS_OK &&
        prepared.job->hold.micro > db_i64(rows, row, JOB_COL_HOLD_UCR))
        status = error_set(err, STATUS_CONFLICT,
                           "its model has changed, and the hold does not cover "
                           "it any more: send it again");
    if (status == STATUS_OK) {
        row_apply(rows, row, prepared.job);
        status = store_attempts_adopt(db, prepared.job, err);
    }
    if (status == STATUS_OK) {
        take_up(app, prepared.job);
    } else {
        job_free(prepared.job);
    }
    json_doc_clear(&doc);
    return status;
}

/* A hold whose job has no live row: never left by one write, but money that
 * nobody would ever free is worth a look at each start. */
static enum status
orphans_release(struct app *app, struct db *db, const struct db_rows *live,
                struct error *err)
{
    struct db_rows *holds = NULL;
    enum status status = ledger_open_holds(db, &holds, err);

    for (size_t i = 0; status == STATUS_OK && i < db_row_count(holds); i++) {
        const char *job = db_text(holds, i, 0);
        bool lives = false;

        for (size_t j = 0; j < db_row_count(live) && !lives; j++)
            lives = strcmp(db_text(live, j, JOB_COL_ID), job) == 0;
        if (!lives)
            abandon(app, job, "network_fault", "its hold had no live job");
    }
    db_rows_free(holds);
    return status;
}

enum status
adopt_jobs(struct app *app, struct db *db, struct error *err)
{
    struct db_rows *rows = NULL;
    enum status status = store_jobs_live(db, &rows, err);

    if (status == STATUS_OK)
        status = orphans_release(app, db, rows, err);
    for (size_t i = 0; status == STATUS_OK && i < db_row_count(rows); i++) {
        const char *job = db_text(rows, i, JOB_COL_ID);
        enum status adopted = STATUS_OK;
        struct error inner = {0};

        if (!db_bool(rows, i, JOB_COL_OUTLIVES))
            abandon(app, job, "network_fault",
                    "the coordinator was restarted while the job's connection "
                    "was open: send it again");
        else
            adopted = adopt(app, db, rows, i, &inner);
        /* What is not the job's fault is no reason to give it up. */
        if (adopted == STATUS_RETRY || adopted == STATUS_INTERNAL)
            status = error_set(err, adopted, "%s", inner.text);
        else if (adopted != STATUS_OK)
            abandon(app, job, "network_fault", inner.text);
    }
    db_rows_free(rows);
    return status;
}
