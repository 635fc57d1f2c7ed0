/* db.c - libpq behind statements with a name, a shape and a check. */
#include "ledger/db.h"

#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <libpq-fe.h>

#include "common/clock.h"
#include "common/fault.h"
#include "common/log.h"
#include "common/mem.h"
#include "ledger/db_private.h"

#include "common/banned.h"

enum {
    TRANSACT_ATTEMPTS_MAX = 10,
    BACKOFF_FIRST_MS = 10,
    BACKOFF_MAX_MS = 2000,
};

struct db {
    PGconn *conn;
    const struct statement **prepared; /* on this connection, by address */
    size_t prepared_count;
    size_t prepared_capacity;
    bool broken;       /* to be closed, whatever libpq says */
    int64_t answer_ms; /* most for one answer; 0: as long as it takes */
    int64_t slow_ms;   /* 0: nobody wants to know */
    void (*on_slow)(void *arg);
    void *slow_arg;
};

/* --- errors --------------------------------------------------------------- */

static bool
state_is(const char *state, const char *prefix)
{
    return strncmp(state, prefix, strlen(prefix)) == 0;
}

/* Which errors mean that nothing happened and the same again may work. */
static bool
is_transient(const char *state)
{
    static const char *const prefixes[] = {
        "40001", /* serialization failure */
        "40P01", /* deadlock */
        "08",    /* connection */
        "57P0",  /* shutdown, crash, cannot connect now */
        "57014", /* statement timeout */
        "55P03", /* lock timeout */
        "25006", /* a standby: read only */
        "53",    /* disk, memory or connections are used up */
    };

    for (size_t i = 0; i < COUNT_OF(prefixes); i++)
        if (state_is(state, prefixes[i]))
            return true;
    return false;
}

static enum status
state_status(const char *state, const char *constraint)
{
    if (is_transient(state))
        return STATUS_RETRY;
    if (strcmp(state, "55000") == 0)
        return STATUS_DENIED;
    if (strcmp(state, "23505") == 0 || strcmp(state, "23P01") == 0)
        return STATUS_CONFLICT;
    if (strcmp(state, "23514") == 0 && constraint != NULL &&
        strcmp(constraint, "no_overdraft") == 0)
        return STATUS_NO_FUNDS;
    return STATUS_INTERNAL;
}

/* libpq's messages end in a line feed and may hold several lines. */
static int
first_line_size(const char *text)
{
    return (int)strcspn(text, "\n");
}

static enum status
connection_error(struct db *db, struct error *err)
{
    const char *text =
        db->broken ? "no answer in time" : PQerrorMessage(db->conn);

    error_set(err, STATUS_RETRY, "database: %.*s", first_line_size(text), text);
    (void)error_tag(err, "08006", NULL);
    return STATUS_RETRY;
}

static enum status
result_error(struct db *db, const PGresult *result, const char *what,
             struct error *err)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const char *constraint =
        PQresultErrorField(result, PG_DIAG_CONSTRAINT_NAME);
    enum status status;

    if (state == NULL) /* libpq's own complaint: the connection broke */
        return connection_error(db, err);
    status = state_status(state, constraint);
    error_set(err, status, "%s: %s (SQLSTATE %s%s%s)", what,
              text == NULL ? "" : text, state, constraint == NULL ? "" : ", ",
              constraint == NULL ? "" : constraint);
    (void)error_tag(err, state, NULL);
    return status;
}

/* --- connections ---------------------------------------------------------- */

static void
on_notice(void *arg, const char *message)
{
    char text[256];

    (void)arg;
    log_debug("db.notice", "text=%s", log_quote(message, text, sizeof(text)));
}

enum status
db_open(const char *conninfo, struct db **db, struct error *err)
{
    /* A later entry wins, so the caller's string overrides ours. */
    static const char *const keys[] = {
        "connect_timeout",           "keepalives_idle",  "keepalives_interval",
        "keepalives_count",          "tcp_user_timeout", "client_encoding",
        "fallback_application_name", "dbname",           NULL,
    };
    const char *const values[] = {
        "10", "10", "5", "3", "15000", "UTF8", "berth", conninfo, NULL,
    };
    struct db *opened = mem_alloc(sizeof(*opened));

    opened->conn = PQconnectdbParams(keys, values, 1);
    if (PQstatus(opened->conn) != CONNECTION_OK) {
        enum status status = connection_error(opened, err);

        db_close(opened);
        return status;
    }
    (void)PQsetNoticeProcessor(opened->conn, on_notice, NULL);
    /* A server that reads nothing must not hold a send for ever either. */
    (void)PQsetnonblocking(opened->conn, 1);
    *db = opened;
    return STATUS_OK;
}

void
db_close(struct db *db)
{
    if (db == NULL)
        return;
    PQfinish(db->conn);
    free(db->prepared);
    free(db);
}

bool
db_is_alive(const struct db *db)
{
    return !db->broken && PQstatus(db->conn) == CONNECTION_OK;
}

/* First come the server's last words, then the end: two reads. */
bool
db_is_usable(struct db *db)
{
    return PQconsumeInput(db->conn) == 1 && PQconsumeInput(db->conn) == 1 &&
           db_is_alive(db);
}

/* --- statements ----------------------------------------------------------- */

void
db_set_deadline(struct db *db, int64_t ms)
{
    assert(ms >= 0);
    db->answer_ms = ms;
}

void
db_set_slow(struct db *db, int64_t ms, void (*on_slow)(void *arg), void *arg)
{
    db->slow_ms = ms;
    db->on_slow = on_slow;
    db->slow_arg = arg;
}

/* How one wait for an answer goes. */
struct patience {
    struct span began;
    bool told; /* that it is slow */
};

/* For poll: -1 without a bound, 0 when the time is over. */
static int
wait_left_ms(struct db *db, struct patience *wait)
{
    int64_t waited = span_as_ms(span_sub(clock_monotonic(), wait->began));
    int64_t left = -1;

    if (db->slow_ms != 0 && !wait->told && waited >= db->slow_ms) {
        wait->told = true;
        db->on_slow(db->slow_arg);
    }
    if (db->answer_ms != 0)
        left = waited < db->answer_ms ? db->answer_ms - waited : 0;
    if (db->slow_ms != 0 && !wait->told &&
        (left < 0 || left > db->slow_ms - waited))
        left = db->slow_ms - waited;
    return (int)left;
}

/* False when the server has said nothing in time: one that hangs (it was
 * stopped, or its disk is) must not hold the caller for ever. */
static bool
answer_is_there(struct db *db, struct patience *wait)
{
    while (PQisBusy(db->conn) == 1) {
        struct pollfd server = {.fd = PQsocket(db->conn), .events = POLLIN};
        int left;

        if (PQflush(db->conn) == 1)
            server.events |= POLLOUT;
        left = wait_left_ms(db, wait);
        if (left == 0)
            return false;
        (void)poll(&server, 1, left);
        if (PQconsumeInput(db->conn) != 1)
            return true; /* it broke: libpq has that as the result */
    }
    return true;
}

/* The next result, NULL when there is none, or none in time. */
static PGresult *
result_await(struct db *db, struct patience *wait)
{
    if (answer_is_there(db, wait))
        return PQgetResult(db->conn);
    db->broken = true; /* an answer may still come: never read it */
    return NULL;
}

/* The last result of what was @sent; NULL when there is none. */
static PGresult *
answer_await(struct db *db, int sent)
{
    struct patience wait = {.began = clock_monotonic()};
    PGresult *last = NULL, *next;

    if (sent != 1)
        return NULL;
    while ((next = result_await(db, &wait)) != NULL) {
        PQclear(last);
        last = next;
    }
    if (db->broken) {
        PQclear(last);
        last = NULL;
    }
    return last;
}

static bool
is_prepared(const struct db *db, const struct statement *statement)
{
    for (size_t i = 0; i < db->prepared_count; i++)
        if (db->prepared[i] == statement)
            return true;
    return false;
}

static enum status
prepare(struct db *db, const struct statement *statement, struct error *err)
{
    enum status status = STATUS_OK;
    PGresult *result;

    if (is_prepared(db, statement))
        return STATUS_OK;
    result = answer_await(db, PQsendPrepare(db->conn, statement->name,
                                            statement->sql,
                                            statement->param_count, NULL));
    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        status = result_error(db, result, statement->name, err);
        goto out;
    }
    if (db->prepared_count == db->prepared_capacity) {
        db->prepared_capacity = db->prepared_capacity * 2 + 16;
        db->prepared = mem_grow(db->prepared, db->prepared_capacity,
                                sizeof(*db->prepared));
    }
    db->prepared[db->prepared_count++] = statement;

out:
    PQclear(result);
    return status;
}

struct bound {
    const char *values[DB_PARAMS_MAX];
    int sizes[DB_PARAMS_MAX];
    int formats[DB_PARAMS_MAX];
};

static void
bind(struct bound *bound, const struct statement *statement,
     const struct db_param *params)
{
    assert(statement->param_count >= 0);
    assert(statement->param_count <= DB_PARAMS_MAX);
    for (int i = 0; i < statement->param_count; i++) {
        bool binary = params[i].bytes != NULL;

        assert(params[i].size <= INT32_MAX);
        bound->values[i] = binary ? params[i].bytes : params[i].text;
        bound->sizes[i] = binary ? (int)params[i].size : 0;
        bound->formats[i] = binary ? 1 : 0;
    }
}

static enum status
check_shape(const struct statement *statement, const PGresult *result,
            struct error *err)
{
    int count = PQntuples(result);
    int columns = PQnfields(result);
    bool fits = false;

    switch (statement->shape) {
    case DB_NONE:
        fits = columns == 0;
        break;
    case DB_ONE:
        if (count == 0 && columns > 0)
            return error_set(err, STATUS_NOT_FOUND, "%s: no such row",
                             statement->name);
        fits = count == 1;
        break;
    case DB_MAYBE:
        fits = columns > 0 && count <= 1;
        break;
    case DB_MANY:
        fits = columns > 0;
        break;
    }
    if (fits)
        return STATUS_OK;
    return error_set(err, STATUS_INTERNAL,
                     "%s: %d rows of %d columns are not what was expected",
                     statement->name, count, columns);
}

/* Judge @result, which is taken; @rows may be NULL. */
static enum status
accept_result(struct db *db, const struct statement *statement,
              PGresult *result, struct db_rows **rows, struct error *err)
{
    struct db_rows *got = mem_alloc(sizeof(*got));
    ExecStatusType kind = PQresultStatus(result);
    enum status status = STATUS_OK;

    got->result = result;
    if (kind != PGRES_TUPLES_OK && kind != PGRES_COMMAND_OK)
        status = result_error(db, result, statement->name, err);
    if (status == STATUS_OK)
        status = check_shape(statement, result, err);
    if (status == STATUS_OK && statement->check != NULL)
        status = statement->check(got, err);
    if (status == STATUS_OK && rows != NULL)
        *rows = got;
    else
        db_rows_free(got);
    return status;
}

enum status
db_run(struct db *db, const struct statement *statement,
       const struct db_param *params, struct db_rows **rows, struct error *err)
{
    struct bound bound;
    enum status status = prepare(db, statement, err);

    if (status != STATUS_OK)
        return status;
    bind(&bound, statement, params);
    return accept_result(
        db, statement,
        answer_await(db, PQsendQueryPrepared(
                             db->conn, statement->name, statement->param_count,
                             bound.values, bound.sizes, bound.formats, 0)),
        rows, err);
}

/* Queue every call; the server works on the first meanwhile. */
static enum status
calls_send(struct db *db, const struct db_call *calls, size_t count,
           struct error *err)
{
    struct bound bound;

    for (size_t i = 0; i < count; i++) {
        const struct statement *statement = calls[i].statement;

        bind(&bound, statement, calls[i].params);
        if (PQsendQueryPrepared(db->conn, statement->name,
                                statement->param_count, bound.values,
                                bound.sizes, bound.formats, 0) != 1)
            return connection_error(db, err);
    }
    if (PQpipelineSync(db->conn) != 1)
        return connection_error(db, err);
    return STATUS_OK;
}

/* One result for each call, the mark of the end, each followed by NULL. */
static enum status
calls_receive(struct db *db, const struct db_call *calls, size_t count,
              struct error *err)
{
    struct patience wait = {.began = clock_monotonic()};
    enum status status = STATUS_OK;
    PGresult *result;

    for (size_t i = 0; i < count; i++) {
        result = result_await(db, &wait);
        if (result == NULL)
            return connection_error(db, err);
        if (status == STATUS_OK) /* after the first failure all others fail */
            status = accept_result(db, calls[i].statement, result,
                                   calls[i].rows, err);
        else
            PQclear(result);
        PQclear(result_await(db, &wait));
    }
    result = result_await(db, &wait);
    if (status == STATUS_OK && PQresultStatus(result) != PGRES_PIPELINE_SYNC)
        status = connection_error(db, err);
    PQclear(result);
    return status;
}

enum status
db_run_all(struct db *db, const struct db_call *calls, size_t count,
           struct error *err)
{
    enum status status = STATUS_OK;

    assert(count <= DB_CALLS_MAX);
    for (size_t i = 0; status == STATUS_OK && i < count; i++)
        status = prepare(db, calls[i].statement, err);
    if (status != STATUS_OK)
        return status;
    if (PQenterPipelineMode(db->conn) != 1)
        return connection_error(db, err);
    status = calls_send(db, calls, count, err);
    if (status == STATUS_OK)
        status = calls_receive(db, calls, count, err);
    if (PQexitPipelineMode(db->conn) != 1 && status != STATUS_RETRY) {
        /* Results are left over: this connection cannot be trusted. */
        db->broken = true;
        return error_set(err, STATUS_RETRY, "database: out of step");
    }
    return status;
}

enum status
db_command(struct db *db, const char *sql, const char *tag, struct error *err)
{
    enum status status = STATUS_OK;
    int sent = PQsendQuery(db->conn, sql);
    PGresult *result;

    FAULT_STEP("db.command.sent");
    result = answer_await(db, sent);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        status = result_error(db, result, sql, err);
    else if (strcmp(PQcmdStatus(result), tag) != 0)
        status = error_set(err, STATUS_INTERNAL, "%s answered %s", sql,
                           PQcmdStatus(result));
    PQclear(result);
    return status;
}

enum status
db_script(struct db *db, const char *sql, struct error *err)
{
    enum status status = STATUS_OK;
    PGresult *result = answer_await(db, PQsendQuery(db->conn, sql));
    ExecStatusType kind = PQresultStatus(result);

    if (kind != PGRES_COMMAND_OK && kind != PGRES_TUPLES_OK)
        status = result_error(db, result, "script", err);
    PQclear(result);
    return status;
}

/* --- transactions --------------------------------------------------------- */

void
db_rollback(struct db *db)
{
    PGTransactionStatusType state = PQtransactionStatus(db->conn);

    if (db->broken)
        return;
    if (state == PQTRANS_INTRANS || state == PQTRANS_INERROR)
        PQclear(answer_await(db, PQsendQuery(db->conn, "ROLLBACK")));
}

static void
back_off(int attempt)
{
    int64_t ms = BACKOFF_FIRST_MS;
    struct timespec pause;

    for (int i = 0; i < attempt && ms < BACKOFF_MAX_MS; i++)
        ms *= 2;
    pause.tv_sec = (time_t)(ms / 1000);
    pause.tv_nsec = (long)(ms % 1000) * 1000000L;
    (void)nanosleep(&pause, NULL);
}

static enum status
transact_once(struct db *db, db_body *body, void *arg, struct error *err)
{
    enum status status =
        db_command(db, "BEGIN ISOLATION LEVEL SERIALIZABLE", "BEGIN", err);

    if (status == STATUS_OK)
        status = body(db, arg, err);
    if (status == STATUS_OK)
        status = db_command(db, "COMMIT", "COMMIT", err);
    return status;
}

enum status
db_transact(struct db *db, db_body *body, void *arg, struct error *err)
{
    enum status status = STATUS_OK;

    assert(PQtransactionStatus(db->conn) != PQTRANS_INTRANS);
    for (int attempt = 0; attempt < TRANSACT_ATTEMPTS_MAX; attempt++) {
        status = transact_once(db, body, arg, err);
        if (status == STATUS_OK)
            return status;
        db_rollback(db);
        if (status != STATUS_RETRY || !db_is_alive(db))
            return status;
        back_off(attempt);
    }
    return status;
}
