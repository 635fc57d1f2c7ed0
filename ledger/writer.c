/* writer.c - one thread, one connection, many writes to a commit.
 *
 * A batch is tried until it is committed.  What failed decides what follows:
 *
 *   one write by itself    that write alone is rolled back and answered
 *   the server is away,    reconnect, then the identical batch again, as
 *   its disk full          often as it takes
 *   the epoch is over      everything is answered STATUS_DENIED from now on
 *   the batch breaks the   after FAILURES_MAX times each of its writes runs
 *   server or the commit   alone; one that does so ALONE_MAX times is put aside
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
#include "common/fault.h"
#include "common/log.h"
#include "common/mem.h"
#include "ledger/batch.h"
#include "ledger/session.h"
#include "ledger/write.h"

#include "common/banned.h"

enum {
    FAILURES_MAX = 3,
    ALONE_MAX = 8, /* over several seconds: what is killed beside it does so
                       by accident, but not that often */
    BACKOFF_FIRST_MS = 10,
    BACKOFF_MAX_MS = 2000,
    LOCK_POLL_MS = 1000,
    IDLE_CHECK_US = 1000000, /* a lost session is noticed without a write */
    SLICE_MS = 50,           /* how soon a pause notices that it should end */
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
    bool idle; /* recovering with nothing to write */
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
    given_up = writer->closing && (clock_monotonic().ns >= writer->give_up.ns ||
                                   (writer->idle && writer->first == NULL));
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

/* The session's: it has waited for an answer for a while. */
static void
on_slow(void *arg)
{
    struct writer *writer = arg;
    struct error err = {0};

    (void)error_set(&err, STATUS_RETRY, "the database is slow to answer");
    tell_reachable(writer, false, &err);
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
    return STATUS_OK;
}

/* Take a session up again that was lost with nothing to write: new jobs are
 * refused meanwhile, and a reign that has ended is noticed. */
static void
idle_check(struct writer *writer)
{
    struct error err = {0};
    enum status status;

    if (writer->fenced ||
        (writer->session.db != NULL && db_is_usable(writer->session.db)))
        return;
    (void)error_set(&err, STATUS_RETRY, "the connection was lost");
    session_close(&writer->session);
    writer->idle = true;
    status = recover(writer, &err);
    writer->idle = false;
    if (status == STATUS_OK)
        tell_reachable(writer, true, NULL);
    else if (status == STATUS_DENIED)
        tell_fenced(writer);
}

/* --- batches -------------------------------------------------------------- */

enum outcome {
    OUTCOME_COMMITTED,
    OUTCOME_FENCED,
    OUTCOME_AWAY,    /* no fault of the batch: wait and repeat */
    OUTCOME_BROKEN,  /* perhaps a fault of the batch: repeat a few times */
    OUTCOME_REFUSED, /* the commit fails: repeating cannot help */
};

/* Disk, memory or connections are used up; read only; starting: nothing can be
 * written now, and it is not a statement's fault. */
static bool
is_outage(const struct error *err)
{
    return strncmp(err->code, "53", 2) == 0 ||
           strcmp(err->code, "25006") == 0 || strcmp(err->code, "57P03") == 0;
}

/* The other side of a conflict made this one fail. */
static bool
is_conflict(const struct error *err)
{
    return strncmp(err->code, "40", 2) == 0 || strcmp(err->code, "55P03") == 0;
}

static enum outcome
outcome_of(enum status status, const struct error *err)
{
    if (status == STATUS_OK)
        return OUTCOME_COMMITTED;
    if (status != STATUS_RETRY)
        return OUTCOME_REFUSED;
    return is_outage(err) || is_conflict(err) ? OUTCOME_AWAY : OUTCOME_BROKEN;
}

/* What a fault point stands for: the connection breaks here. */
static enum status
break_off(struct writer *writer, struct error *err)
{
    session_close(&writer->session);
    return error_set(err, STATUS_RETRY, "broken at a fault point");
}

static enum outcome
batch_try(struct writer *writer, struct write **batch, size_t count,
          struct error *err)
{
    enum status status;

    if (writer->session.db == NULL)
        return OUTCOME_AWAY;
    FAULT_STEP("writer.begin");
    status = session_begin(&writer->session, err);
    if (status == STATUS_DENIED)
        return OUTCOME_FENCED;
    if (status == STATUS_OK && FAULT_POINT("writer.begun"))
        status = break_off(writer, err);
    if (status == STATUS_RETRY)
        return OUTCOME_AWAY;
    if (status == STATUS_OK)
        status = batch_run(writer->session.db, batch, count, err);
    if (status == STATUS_OK && FAULT_POINT("writer.run"))
        status = break_off(writer, err);
    if (status == STATUS_OK)
        status = db_command(writer->session.db, "COMMIT", "COMMIT", err);
    if (status == STATUS_OK && FAULT_POINT("writer.committed"))
        status = break_off(writer, err);
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
    int failures_max = count > 1 ? FAILURES_MAX : ALONE_MAX;
    int failures = 0;

    for (int tries = 0; failures < failures_max; tries++) {
        struct error away;
        enum status status;

        outcome = batch_try(writer, batch, count, err);
        if (outcome == OUTCOME_COMMITTED || outcome == OUTCOME_FENCED)
            return outcome;
        if (outcome != OUTCOME_AWAY)
            failures++;
        else if (is_outage(err))
            tell_reachable(writer, false, err);
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

/* Wait for work, but not long.  The mutex is held. */
static void
work_wait(struct writer *writer)
{
    int64_t until_us = clock_wall().us + IDLE_CHECK_US;
    struct timespec until = {.tv_sec = (time_t)(until_us / 1000000),
                             .tv_nsec = (long)(until_us % 1000000) * 1000};

    (void)pthread_cond_timedwait(&writer->changed, &writer->mutex, &until);
}

/* The next writes, perhaps none; false when the writer is closing and nothing
 * is left. */
static bool
batch_take(struct writer *writer, struct write **batch, size_t *count)
{
    bool goes_on;

    *count = 0;
    pthread_mutex_lock(&writer->mutex);
    if (writer->first == NULL && !writer->closing)
        work_wait(writer);
    while (writer->first != NULL && *count < WRITER_BATCH_MAX) {
        batch[(*count)++] = writer->first;
        writer->first = writer->first->next;
    }
    goes_on = *count > 0 || !writer->closing;
    pthread_mutex_unlock(&writer->mutex);
    return goes_on;
}

static void *
on_thread(void *arg)
{
    struct writer *writer = arg;
    struct write *batch[WRITER_BATCH_MAX];
    size_t count;

    while (batch_take(writer, batch, &count)) {
        if (count == 0) {
            idle_check(writer);
            continue;
        }
        batch_commit(writer, batch, count);
        if (!writer->fenced && writer->session.db != NULL)
            tell_reachable(writer, true, NULL);
        FAULT_STEP("writer.answer");
        for (size_t i = 0; i < count; i++) {
            write_finish(batch[i]);
            FAULT_STEP("writer.answered");
        }
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
    writer->session.on_slow = on_slow;
    writer->session.slow_arg = writer;
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
