/* session.c - see session.h. */
#include "ledger/session.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/cert.h"
#include "common/mem.h"

#include "common/banned.h"

enum {
    INSTANCE_BYTES = 8,
    SLOW_MS = 5000,
    /* Over the statement_timeout below: only a server that hangs as a whole
     * takes longer. */
    ANSWER_MS = 75000,
};

static const struct statement name_statement = {
    .name = "writer_name",
    .sql = "SELECT set_config('application_name', $1, false)",
    .shape = DB_ONE,
    .param_count = 1,
};

/* The key is an arbitrary number that no other program is likely to use. */
static const struct statement lock_statement = {
    .name = "writer_lock",
    .sql = "SELECT pg_try_advisory_lock(7090199498253199720)",
    .shape = DB_ONE,
};

static const struct statement evict_statement = {
    .name = "writer_evict",
    .sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
           " WHERE application_name = $1 AND datname = current_database()"
           " AND pid <> pg_backend_pid()",
    .shape = DB_ONE,
    .param_count = 1,
};

static const struct statement reign_statement = {
    .name = "writer_reign",
    .sql = "SELECT ledger.reign()",
    .shape = DB_ONE,
};

static const struct statement epoch_statement = {
    .name = "writer_epoch",
    .sql = "SELECT epoch FROM ledger.head",
    .shape = DB_ONE,
};

static const struct statement fence_statement = {
    .name = "writer_fence",
    .sql = "SELECT ledger.fence($1::bigint)",
    .shape = DB_ONE,
    .param_count = 1,
};

/* The server, too, must notice soon that this machine is gone: the lock and
 * the epoch row are free for another coordinator only then.  Everything that is
 * written here finds its rows by key; plans that were made and kept while the
 * tables were still empty would read them whole. */
static const char session_sql[] =
    "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5;"
    "SET tcp_keepalives_count = 3; SET statement_timeout = '60s';"
    "SET idle_in_transaction_session_timeout = '60s';"
    "SET synchronous_commit = on;"
    "SET enable_seqscan = off; SET enable_hashjoin = off;"
    "SET enable_mergejoin = off; SET jit = off;"
    "SET plan_cache_mode = force_generic_plan";

enum status
session_open(struct session *session, struct error *err)
{
    struct db_param name = {.text = session->instance};
    enum status status;

    assert(session->db == NULL);
    status = db_open(session->conninfo, &session->db, err);
    if (status != STATUS_OK)
        return status;
    db_set_deadline(session->db, ANSWER_MS);
    if (session->on_slow != NULL)
        db_set_slow(session->db, SLOW_MS, session->on_slow, session->slow_arg);
    status = db_script(session->db, session_sql, err);
    if (status == STATUS_OK)
        status = db_run(session->db, &name_statement, &name, NULL, err);
    return status;
}

void
session_close(struct session *session)
{
    db_close(session->db);
    session->db = NULL;
}

enum status
session_lock_try(struct session *session, bool *locked, struct error *err)
{
    struct db_rows *rows = NULL;
    enum status status = db_run(session->db, &lock_statement, NULL, &rows, err);

    if (status == STATUS_OK)
        *locked = db_bool(rows, 0, 0);
    db_rows_free(rows);
    return status;
}

static enum status
epoch_check(struct session *session, struct error *err)
{
    struct db_rows *rows = NULL;
    enum status status =
        db_run(session->db, &epoch_statement, NULL, &rows, err);

    if (status == STATUS_OK && (uint64_t)db_i64(rows, 0, 0) != session->epoch)
        status = error_set(err, STATUS_DENIED,
                           "fenced: epoch %" PRIu64 " is over", session->epoch);
    db_rows_free(rows);
    return status;
}

enum status
session_retake(struct session *session, struct error *err)
{
    struct db_param name = {.text = session->instance};
    bool locked = false;
    enum status status = session_open(session, err);

    if (status == STATUS_OK)
        status = epoch_check(session, err);
    if (status == STATUS_OK)
        status = db_run(session->db, &evict_statement, &name, NULL, err);
    if (status == STATUS_OK)
        status = session_lock_try(session, &locked, err);
    if (status == STATUS_OK && !locked)
        status = error_set(err, STATUS_RETRY,
                           "the lock of the active coordinator is taken");
    if (status == STATUS_OK) /* again, now that nobody else can raise it */
        status = epoch_check(session, err);
    if (status != STATUS_OK)
        session_close(session);
    return status;
}

enum status
session_reign(struct session *session, struct error *err)
{
    struct db_rows *rows = NULL;
    enum status status =
        db_run(session->db, &reign_statement, NULL, &rows, err);

    if (status == STATUS_OK)
        session->epoch = (uint64_t)db_i64(rows, 0, 0);
    db_rows_free(rows);
    return status;
}

enum status
session_begin(struct session *session, struct error *err)
{
    char epoch[24];
    struct db_param param = {.text = epoch};
    enum status status;

    (void)snprintf(epoch, sizeof(epoch), "%" PRIu64, session->epoch);
    status = db_command(session->db, "BEGIN ISOLATION LEVEL READ COMMITTED",
                        "BEGIN", err);
    if (status == STATUS_OK)
        status = db_run(session->db, &fence_statement, &param, NULL, err);
    return status;
}

void
session_init(struct session *session, const char *conninfo)
{
    static const char prefix[] = "berth-writer-";
    uint8_t id[INSTANCE_BYTES];

    memset(session, 0, sizeof(*session));
    session->conninfo = mem_text(conninfo);
    cert_random(id, sizeof(id));
    memcpy(session->instance, prefix, sizeof(prefix));
    cert_hex(id, sizeof(id), session->instance + sizeof(prefix) - 1);
}

void
session_clear(struct session *session)
{
    session_close(session);
    free(session->conninfo);
}
