/* migrate.c - see migrate.h; the bookkeeping is table berth.migration. */
#include "ledger/migrate.h"

#include <assert.h>
#include <string.h>

#include "common/cert.h"
#include "common/log.h"

#include "common/banned.h"

/* The key is an arbitrary number that no other program is likely to use. */
#define LOCK_SQL "SELECT pg_advisory_lock(7090199498253199719)"
#define UNLOCK_SQL "SELECT pg_advisory_unlock(7090199498253199719)"

static const char bookkeeping_sql[] =
    "CREATE SCHEMA IF NOT EXISTS berth;"
    "CREATE TABLE IF NOT EXISTS berth.migration ("
    "    number integer PRIMARY KEY CHECK (number >= 1),"
    "    name text NOT NULL,"
    "    sha256 text NOT NULL,"
    "    at timestamptz NOT NULL DEFAULT now());"
    "COMMENT ON TABLE berth.migration IS"
    "    'Migrations that were run, with the SHA-256 of their text.'";

static const struct statement list_statement = {
    .name = "migration_list",
    .sql = "SELECT number, name, sha256 FROM berth.migration ORDER BY number",
    .shape = DB_MANY,
};

static const struct statement record_statement = {
    .name = "migration_record",
    .sql = "INSERT INTO berth.migration (number, name, sha256)"
           " VALUES ($1::integer, $2, $3)",
    .shape = DB_NONE,
    .param_count = 3,
};

static void
sql_digest(const struct migration *migration, char hex[static SHA256_HEX_BYTES])
{
    uint8_t digest[SHA256_BYTES];

    cert_sha256(migration->sql, strlen(migration->sql), digest);
    cert_hex(digest, sizeof(digest), hex);
}

/* The recorded row number @index must be migration @index, unchanged. */
static enum status
check_recorded(const struct db_rows *rows, size_t index, struct error *err)
{
    int64_t number = db_i64(rows, index, 0);
    const char *name = db_text(rows, index, 1);
    char hex[SHA256_HEX_BYTES];

    if (index >= migration_count)
        return error_set(err, STATUS_CONFLICT,
                         "the database has migration %s, which this program "
                         "does not know: use a newer program",
                         name);
    if (number != migrations[index].number)
        return error_set(err, STATUS_CONFLICT,
                         "the database lacks migration %s but has %s",
                         migrations[index].name, name);
    sql_digest(&migrations[index], hex);
    if (strcmp(hex, db_text(rows, index, 2)) != 0)
        return error_set(err, STATUS_CONFLICT,
                         "migration %s was run with another text: use the "
                         "program that made this database, or a later one",
                         name);
    return STATUS_OK;
}

static enum status
count_recorded(struct db *db, size_t *count, struct error *err)
{
    struct db_rows *rows = NULL;
    enum status status = db_run(db, &list_statement, NULL, &rows, err);

    for (size_t i = 0; status == STATUS_OK && i < db_row_count(rows); i++)
        status = check_recorded(rows, i, err);
    if (status == STATUS_OK)
        *count = db_row_count(rows);
    db_rows_free(rows);
    return status;
}

static enum status
record(struct db *db, const struct migration *migration, struct error *err)
{
    char hex[SHA256_HEX_BYTES];
    char number[16];
    struct db_param params[] = {
        {.text = number},
        {.text = migration->name},
        {.text = hex},
    };

    sql_digest(migration, hex);
    (void)snprintf(number, sizeof(number), "%d", migration->number);
    return db_run(db, &record_statement, params, NULL, err);
}

static enum status
apply(struct db *db, const struct migration *migration, struct error *err)
{
    enum status status = db_command(db, "BEGIN", "BEGIN", err);
    struct error detail = {0};

    if (status != STATUS_OK)
        return status;
    status = db_script(db, migration->sql, &detail);
    if (status == STATUS_OK)
        status = record(db, migration, &detail);
    if (status == STATUS_OK)
        status = db_command(db, "COMMIT", "COMMIT", &detail);
    if (status == STATUS_OK) {
        log_info("migration.applied", "name=%s", migration->name);
        return status;
    }
    if (db_is_alive(db))
        (void)!db_command(db, "ROLLBACK", "ROLLBACK", NULL);
    return error_set(err, status, "migration %s: %.400s", migration->name,
                     detail.text);
}

static enum status
migrate_locked(struct db *db, size_t *applied, struct error *err)
{
    size_t done = 0;
    enum status status = db_script(db, bookkeeping_sql, err);

    *applied = 0;
    if (status == STATUS_OK)
        status = count_recorded(db, &done, err);
    for (size_t i = done; status == STATUS_OK && i < migration_count; i++) {
        assert(migrations[i].number == (int)i + 1);
        status = apply(db, &migrations[i], err);
        if (status == STATUS_OK)
            (*applied)++;
    }
    return status;
}

enum status
migrate(struct db *db, size_t *applied, struct error *err)
{
    size_t count = 0;
    enum status status = db_script(db, LOCK_SQL, err);

    if (status != STATUS_OK)
        return status;
    status = migrate_locked(db, &count, err);
    if (db_is_alive(db))
        (void)!db_script(db, UNLOCK_SQL, NULL);
    if (status == STATUS_OK && applied != NULL)
        *applied = count;
    return status;
}
