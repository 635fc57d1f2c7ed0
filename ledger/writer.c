/* writer.c - one thread, one connection, many writes to a commit.
 *
 * A batch is tried until it is committed.  What failed decides what follows:
 *
 *   one write by itself    that write alone is rolled back and answered
 *   the server is away     reconnect, then the identical batch again
 *   the epoch is over      everything is answered STATUS_DENIED from now on
 *   the batch breaks the   after FAILURES_MAX times each of its writes runs
 *   server or the commit   alone; one that still does is put aside
 */
#include "ledger/writer.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "ledger/session.h"
#include "ledger/write.h"

#include "common/banned.h"

enum {
    FAILURES_MAX = 3,
    BACKOFF_FIRST_MS = 10,
    BACKOFF_MAX_MS = 2000,
    LOCK_POLL_MS = 1000,
    SLICE_MS = 50, /* how soon a pause notices that it should end */
};

struct writer {
    pthread_mutex_t mutex; /* guards the queue and closing */
    pthread_cond_t changed;
    struct write *first;
    struct write *last;
    bool closing;
    struct span give_up; /* with closing: when to stop waiting */

    /* Of the thread alone. */
    pthread_t thread;
    struct session session;
    bool fenced;
    bool reachable;
    struct writer_events events;
};

/* --- waiting -------------------------------------------------------------- */

static void
sleep_ms(int64_t ms)
{
    struct timespec pause = {.tv_sec = (time_t)(ms / 1000),
                             .tv_nsec = (long)(ms % 1000) * 1000000L};

    (void)nanosleep(&pause, NULL);
}

static bool
is_given_up(struct writer *writer)
{
    bool given_up;

    pthread_mutex_lock(&writer->mutex);
    given_up = writer->closing && clock_monotonic().ns >= writer->give_up.ns;
    pthread_mutex_unlock(&writer->mutex);
    return given_up;
}

static void
back_off(struct writer *writer, int attempt)
{
    int64_t ms = BACKOFF_FIRST_MS;

    for (int i = 0; i < attempt && ms < BACKOFF_MAX_MS; i++)
        ms *= 2;
    if (ms > BACKOFF_MAX_MS)
        ms = BACKOFF_MAX_MS;
    while (ms > 0 && !is_given_up(writer)) {
        sleep_ms(ms < SLICE_MS ? ms : SLICE_MS);
        ms -= SLICE_MS;
    }
}

static void
tell_reachable(struct writer *writer, bool reachable, const struct error *err)
{
    char text[256];

    if (writer->reachable == reachable)
        return;
    writer->reachable = reachable;
    if (reachable)
        log_info("writer.back", "epoch=%" PRIu64, writer->session.epoch);
    else
        log_warn("writer.lost", "why=%s",
                 log_quote(err->text, text, sizeof(text)));
    if (writer->events.on_reachable != NULL)
        writer->events.on_reachable(writer->events.arg, reachable);
}

static void
tell_fenced(struct writer *writer)
{
    if (writer->fenced)
        return;
    writer->fenced = true;
    log_error("writer.fenced", "epoch=%" PRIu64, writer->session.epoch);
    if (writer->events.on_fenced != NULL)
        writer->events.on_fenced(writer->events.arg);
}

/* Make the session usable after a failed try, however long that takes.
 * STATUS_DENIED: fenced; STATUS_RETRY: given up, since the writer closes. */
static enum status
recover(struct writer *writer, struct error *err)
{
    enum status status = STATUS_RETRY;

    if (writer->session.db != NULL && db_is_alive(writer->session.db) &&
        db_command(writer->session.db, "ROLLBACK", "ROLLBACK", NULL) ==
            STATUS_OK)
        return is_given_up(writer) ? STATUS_RETRY : STATUS_OK;
    session_close(&writer->session);
    tell_reachable(writer, false, err);
    for (int i = 0; status != STATUS_OK; i++) {
        if (is_given_up(writer))
            return error_set(err, STATUS_RETRY, "the database is away");
        status = session_retake(&writer->session, err);
        if (status == STATUS_DENIED)
            return status;
        if (status != STATUS_OK)
            back_off(writer, i);
    }
    tell_reachable(writer, true, err);
    return STATUS_OK;
}

/* --- batches -------------------------------------------------------------- */

enum outcome {
    OUTCOME_COMMITTED,
    OUTCOME_FENCED,
    OUTCOME_AWAY,    /* no fault of the batch: wait and repeat */
    OUTCOME_BROKEN,  /* perhaps a fault of the batch: repeat a few times */
    OUTCOME_REFUSED, /* the commit fails: repeating cannot help */
};

/* Full disk, too many connections, a standby: never a statement's fault. */
static bool
is_outage(const struct error *err)
{
    return strcmp(err->code, "53100") == 0 || strcmp(err->code, "53300") == 0 ||
           strcmp(err->code, "25006") == 0;
}

static enum outcome
outcome_of(enum status status, const struct error *err)
{
    if (status == STATUS_OK)
        return OUTCOME_COMMITTED;
    if (status != STATUS_RETRY)
        return OUTCOME_REFUSED;
    return is_outage(err) ? OUTCOME_AWAY : OUTCOME_BROKEN;
}

/* Run @write under its savepoint.  STATUS_OK: it is done, or it failed for
 * itself and says so; else the batch has failed. */
static enum status
write_run(struct writer *writer, struct write *write, struct error *err)
{
    enum status status =
        db_command(writer->session.db, "SAVEPOINT one", "SAVEPOINT", err);

    if (status != STATUS_OK)
        return status;
    write_reset(write);
    for (size_t i = 0; status == STATUS_OK && i < write->count; i++)
        status = db_run(writer->session.db, write->items[i]->statement,
                        write->items[i]->params, &write->rows[i], err);
    if (status == STATUS_RETRY)
        return status;
    if (status != STATUS_OK) {
        write_reset(write);
        write->status = status;
        write->err = *err;
        status = db_command(writer->session.db, "ROLLBACK TO SAVEPOINT one",
                            "ROLLBACK", err);
    }
    if (status == STATUS_OK)
        status = db_command(writer->session.db, "RELEASE SAVEPOINT one",
                            "RELEASE", err);
    return status;
}

/* As many of the next writes as fit one exchange with the server. */
static size_t
group_fill(struct write **writes, size_t count, struct db_call *calls,
           size_t *call_count)
{
    size_t used = 0;
    size_t total = 0;

    for (; used < count && total + writes[used]->count <= DB_CALLS_MAX;
         used++) {
        struct write *write = writes[used];

        write_reset(write);
        for (size_t i = 0; i < write->count; i++)
            calls[total++] = (struct db_call){
                .statement = write->items[i]->statement,
                .params = write->items[i]->params,
                .rows = &write->rows[i],
            };
    }
    *call_count = total;
    return used;
}

/* Writes seldom fail, so a group is first run as if none did: in one exchange,
 * under one savepoint.  If one fails the group is undone and each of its writes
 * runs under a savepoint of its own. */
static enum status
group_run(struct writer *writer, struct write **writes, size_t count,
          size_t *used, struct error *err)
{
    struct db_call calls[DB_CALLS_MAX];
    size_t call_count = 0;
    enum status status =
        db_command(writer->session.db, "SAVEPOINT many", "SAVEPOINT", err);

    *used = group_fill(writes, count, calls, &call_count);
    if (status != STATUS_OK)
        return status;
    status = db_run_all(writer->session.db, calls, call_count, err);
    if (status == STATUS_OK)
        return db_command(writer->session.db, "RELEASE SAVEPOINT many",
                          "RELEASE", err);
    if (status == STATUS_RETRY)
        return status;
    status = db_command(writer->session.db, "ROLLBACK TO SAVEPOINT many",
                        "ROLLBACK", err);
    for (size_t i = 0; status == STATUS_OK && i < *used; i++)
        status = write_run(writer, writes[i], err);
    if (status == STATUS_OK)
        status = db_command(writer->session.db, "RELEASE SAVEPOINT many",
                            "RELEASE", err);
    return status;
}

static enum status
batch_run(struct writer *writer, struct write **batch, size_t count,
          struct error *err)
{
    enum status status = STATUS_OK;
    size_t used = 0;

    for (size_t done = 0; status == STATUS_OK && done < count; done += used)
        status = group_run(writer, batch + done, count - done, &used, err);
    return status;
}

static enum outcome
batch_try(struct writer *writer, struct write **batch, size_t count,
          struct error *err)
{
    enum status status;

    if (writer->session.db == NULL)
        return OUTCOME_AWAY;
    status = session_begin(&writer->session, err);
    if (status == STATUS_DENIED)
        return OUTCOME_FENCED;
    if (status == STATUS_RETRY)
        return OUTCOME_AWAY;
    if (status == STATUS_OK)
        status = batch_run(writer, batch, count, err);
    if (status == STATUS_OK)
        status = db_command(writer->session.db, "COMMIT", "COMMIT", err);
    return outcome_of(status, err);
}

static void
batch_fail(struct write **batch, size_t count, const struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        write_reset(batch[i]);
        batch[i]->status = err->status;
        batch[i]->err = *err;
    }
}

/* @write broke the server or its connection alone and again: answer it, so
 * that the others can go on. */
static void
put_aside(struct write *write, struct error *err)
{
    char text[256];

    log_error("writer.put_aside", "statement=%s why=%s",
              write->count > 0 ? write->items[0]->statement->name : "none",
              log_quote(err->text, text, sizeof(text)));
    err->status = STATUS_INTERNAL;
    batch_fail(&write, 1, err);
}

/* Try @batch until its outcome is known; OUTCOME_AWAY means given up. */
static enum outcome
batch_decide(struct writer *writer, struct write **batch, size_t count,
             struct error *err)
{
    enum outcome outcome = OUTCOME_AWAY;
    int failures = 0;

    for (int tries = 0; failures < FAILURES_MAX; tries++) {
        struct error away;
        enum status status;

        outcome = batch_try(writer, batch, count, err);
        if (outcome == OUTCOME_COMMITTED || outcome == OUTCOME_FENCED)
            return outcome;
        if (outcome != OUTCOME_AWAY)
            failures++;
        if (outcome != OUTCOME_REFUSED)
            back_off(writer, tries);
        away = *err;
        status = recover(writer, &away);
        if (status == STATUS_OK && outcome == OUTCOME_REFUSED)
            return outcome;
        if (status != STATUS_OK) {
            *err = away;
            return status == STATUS_DENIED ? OUTCOME_FENCED : OUTCOME_AWAY;
        }
    }
    return outcome;
}

/* Afterwards every write of @batch has its status.  Calls itself once more, for
 * each write of a batch that cannot be committed as a whole. */
static void
batch_commit(struct writer *writer, struct write **batch, size_t count)
{
    struct error err = {0};
    enum outcome outcome = OUTCOME_FENCED;

    if (!writer->fenced)
        outcome = batch_decide(writer, batch, count, &err);
    switch (outcome) {
    case OUTCOME_COMMITTED:
        break;
    case OUTCOME_FENCED:
        error_set(&err, STATUS_DENIED,
                  "another coordinator has taken over from epoch %" PRIu64,
                  writer->session.epoch);
        batch_fail(batch, count, &err);
        tell_fenced(writer);
        break;
    case OUTCOME_AWAY:
        batch_fail(batch, count, &err);
        break;
    case OUTCOME_BROKEN:
    case OUTCOME_REFUSED:
        if (count > 1) {
            for (size_t i = 0; i < count; i++)
                batch_commit(writer, &batch[i], 1);
        } else if (outcome == OUTCOME_BROKEN) {
            put_aside(batch[0], &err);
        } else {
            batch_fail(batch, 1, &err);
        }
        break;
    }
}

/* --- the thread ----------------------------------------------------------- */

static void
write_finish(struct write *write)
{
    write->on_done(write->arg, write->status, write->rows, write->count,
                   &write->err);
    write_free(write);
}

/* Waits for work; 0 when the writer is closing and nothing is left. */
static size_t
batch_take(struct writer *writer, struct write **batch)
{
    size_t count = 0;

    pthread_mutex_lock(&writer->mutex);
    while (writer->first == NULL && !writer->closing)
        pthread_cond_wait(&writer->changed, &writer->mutex);
    while (writer->first != NULL && count < WRITER_BATCH_MAX) {
        batch[count++] = writer->first;
        writer->first = writer->first->next;
    }
    pthread_mutex_unlock(&writer->mutex);
    return count;
}

static void *
on_thread(void *arg)
{
    struct writer *writer = arg;
    struct write *batch[WRITER_BATCH_MAX];
    size_t count;

    while ((count = batch_take(writer, batch)) > 0) {
        batch_commit(writer, batch, count);
        for (size_t i = 0; i < count; i++)
            write_finish(batch[i]);
    }
    return NULL;
}

/* Signals are for the main thread. */
static void
thread_start(struct writer *writer)
{
    sigset_t all;
    sigset_t before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&writer->thread, NULL, on_thread, writer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    assert(error == 0);
    (void)error;
}

/* --- opening and closing -------------------------------------------------- */

static struct writer *
writer_new(const char *conninfo, const struct writer_events *events)
{
    struct writer *writer = mem_alloc(sizeof(*writer));

    pthread_mutex_init(&writer->mutex, NULL);
    pthread_cond_init(&writer->changed, NULL);
    session_init(&writer->session, conninfo);
    if (events != NULL)
        writer->events = *events;
    writer->reachable = true;
    return writer;
}

static void
writer_free(struct writer *writer)
{
    session_clear(&writer->session);
    pthread_mutex_destroy(&writer->mutex);
    pthread_cond_destroy(&writer->changed);
    free(writer);
}

static enum status
lock_wait(struct writer *writer, const volatile int *stop, struct error *err)
{
    bool locked = false;
    enum status status = session_lock_try(&writer->session, &locked, err);

    if (status == STATUS_OK && !locked)
        log_info("writer.standby", "why=another_coordinator_is_active");
    while (status == STATUS_OK && !locked) {
        for (int ms = 0; ms < LOCK_POLL_MS; ms += SLICE_MS) {
            if (stop != NULL && *stop != 0)
                return error_set(err, STATUS_RETRY,
                                 "stopped while another coordinator is active");
            sleep_ms(SLICE_MS);
        }
        status = session_lock_try(&writer->session, &locked, err);
    }
    return status;
}

enum status
writer_open(const char *conninfo, const struct writer_events *events,
            const volatile int *stop, struct writer **writer, uint64_t *epoch,
            struct error *err)
{
    struct writer *opened = writer_new(conninfo, events);
    enum status status = session_open(&opened->session, err);

    if (status == STATUS_OK)
        status = lock_wait(opened, stop, err);
    if (status == STATUS_OK)
        status = session_reign(&opened->session, err);
    if (status != STATUS_OK) {
        writer_free(opened);
        return status;
    }
    *epoch = opened->session.epoch;
    *writer = opened;
    log_info("writer.reign", "epoch=%" PRIu64, opened->session.epoch);
    thread_start(opened);
    return STATUS_OK;
}

void
writer_submit(struct writer *writer, struct write *write)
{
    assert(write->next == NULL);
    pthread_mutex_lock(&writer->mutex);
    assert(!writer->closing);
    if (writer->first == NULL)
        writer->first = write;
    else
        writer->last->next = write;
    writer->last = write;
    pthread_cond_signal(&writer->changed);
    pthread_mutex_unlock(&writer->mutex);
}

void
writer_close(struct writer *writer, int limit_ms)
{
    if (writer == NULL)
        return;
    pthread_mutex_lock(&writer->mutex);
    writer->closing = true;
    writer->give_up = span_add(clock_monotonic(), span_ms(limit_ms));
    pthread_cond_signal(&writer->changed);
    pthread_mutex_unlock(&writer->mutex);
    pthread_join(writer->thread, NULL);
    writer_free(writer);
}
