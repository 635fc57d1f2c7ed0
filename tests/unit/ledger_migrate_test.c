/* ledger_migrate_test.c - migrations run once, in order, and unchanged. */
#include "ledger/migrate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ledger/price.h"
#include "tests/harness/pg.h"

#include "common/banned.h"

static struct pg *pg;
static struct db *db;

static int
start(void **state)
{
    (void)state;
    pg = pg_start(false);
    return pg == NULL ? -1 : 0;
}

static int
stop(void **state)
{
    (void)state;
    pg_stop(pg);
    return 0;
}

/* Every test has a database of its own. */
static int
open_empty(void **state)
{
    static int number;
    char name[16];
    char conninfo[PG_CONNINFO_BYTES];

    (void)state;
    (void)snprintf(name, sizeof(name), "t%d", number++);
    if (!pg_database(pg, name, conninfo))
        return -1;
    return db_open(conninfo, &db, NULL) == STATUS_OK ? 0 : -1;
}

static int
close_db(void **state)
{
    (void)state;
    db_close(db);
    return 0;
}

static void
runs_every_migration_once(void **state)
{
    struct error err = {0};
    size_t applied = 0;

    (void)state;
    if (migrate(db, &applied, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    assert_int_equal(applied, migration_count);
    assert_int_equal(migrate(db, &applied, &err), STATUS_OK);
    assert_int_equal(applied, 0);
}

static void
refuses_a_changed_migration(void **state)
{
    struct error err = {0};

    (void)state;
    assert_int_equal(migrate(db, NULL, &err), STATUS_OK);
    assert_int_equal(db_script(db,
                               "UPDATE berth.migration SET sha256 = 'x'"
                               " WHERE number = 1",
                               &err),
                     STATUS_OK);
    assert_int_equal(migrate(db, NULL, &err), STATUS_CONFLICT);
    assert_non_null(strstr(err.text, "0001_ledger.sql"));
}

static void
refuses_a_database_newer_than_the_program(void **state)
{
    struct error err = {0};

    (void)state;
    assert_int_equal(migrate(db, NULL, &err), STATUS_OK);
    assert_int_equal(db_script(db,
                               "INSERT INTO berth.migration VALUES"
                               " (9999, '9999_later.sql', 'x')",
                               &err),
                     STATUS_OK);
    assert_int_equal(migrate(db, NULL, &err), STATUS_CONFLICT);
    assert_non_null(strstr(err.text, "9999_later.sql"));
}

static void
a_failing_migration_leaves_nothing_behind(void **state)
{
    static const struct statement count = {
        .name = "count",
        .sql = "SELECT count(*) FROM berth.migration",
        .shape = DB_ONE,
    };
    struct error err = {0};
    struct db_rows *rows = NULL;

    (void)state;
    assert_int_equal(db_script(db, "CREATE SCHEMA ledger", &err), STATUS_OK);
    assert_int_equal(migrate(db, NULL, &err), STATUS_INTERNAL);
    assert_non_null(strstr(err.text, "0001_ledger.sql"));
    assert_int_equal(db_run(db, &count, NULL, &rows, &err), STATUS_OK);
    assert_int_equal(db_i64(rows, 0, 0), 0);
    db_rows_free(rows);
    assert_int_equal(db_script(db, "DROP SCHEMA ledger", &err), STATUS_OK);
    assert_int_equal(migrate(db, NULL, &err), STATUS_OK);
}

/* The embedded text must be what the file says, quotes and all. */
static void
embeds_the_files_byte_for_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < migration_count; i++) {
        char path[128];
        struct buf text;
        struct error err = {0};

        (void)snprintf(path, sizeof(path), "ledger/migrations/%s",
                       migrations[i].name);
        buf_init(&text, 1024 * 1024);
        assert_int_equal(buf_read_file(&text, path, &err), STATUS_OK);
        assert_string_equal(text.data, migrations[i].sql);
        assert_int_equal(migrations[i].number, (int)i + 1);
        buf_clear(&text);
    }
}

static void
seeds_the_price_revision_of_the_program(void **state)
{
    static const struct statement read = {
        .name = "price_read",
        .sql = "SELECT ucr_per_tflop, ucr_per_gb, minimum_ucr, fee_per_mille,"
               " class_limit_bytes[1], class_limit_bytes[2],"
               " class_limit_bytes[3], class_limit_bytes[4],"
               " class_per_mille[1], class_per_mille[2], class_per_mille[3],"
               " class_per_mille[4], class_per_mille[5]"
               " FROM ledger.price_revision WHERE revision = 1",
        .shape = DB_ONE,
    };
    const struct price_revision *ours = &price_revision_1;
    struct error err = {0};
    struct db_rows *rows = NULL;

    (void)state;
    assert_int_equal(migrate(db, NULL, &err), STATUS_OK);
    assert_int_equal(db_run(db, &read, NULL, &rows, &err), STATUS_OK);
    assert_int_equal(ours->revision, 1);
    assert_int_equal(db_i64(rows, 0, 0), ours->ucr_per_tflop);
    assert_int_equal(db_i64(rows, 0, 1), ours->ucr_per_gb);
    assert_int_equal(db_i64(rows, 0, 2), ours->minimum_ucr);
    assert_int_equal(db_i64(rows, 0, 3), ours->fee_per_mille);
    for (int i = 0; i < PRICE_CLASSES - 1; i++)
        assert_int_equal(db_i64(rows, 0, 4 + i), ours->class_limit_bytes[i]);
    for (int i = 0; i < PRICE_CLASSES; i++)
        assert_int_equal(db_i64(rows, 0, 8 + i), ours->class_per_mille[i]);
    db_rows_free(rows);
}

static void
comments_on_every_table_of_the_ledger(void **state)
{
    static const struct statement bare = {
        .name = "bare",
        .sql = "SELECT c.relname FROM pg_class c"
               " JOIN pg_namespace n ON n.oid = c.relnamespace"
               " WHERE n.nspname = 'ledger' AND c.relkind IN ('r', 'v')"
               " AND obj_description(c.oid, 'pg_class') IS NULL",
        .shape = DB_MANY,
    };
    struct error err = {0};
    struct db_rows *rows = NULL;

    (void)state;
    assert_int_equal(migrate(db, NULL, &err), STATUS_OK);
    assert_int_equal(db_run(db, &bare, NULL, &rows, &err), STATUS_OK);
    assert_int_equal(db_row_count(rows), 0);
    db_rows_free(rows);
}

/* A plain owner of a database, who may not create roles, can migrate it. */
static void
needs_no_more_than_the_database_s_owner(void **state)
{
    struct error err = {0};
    struct db *owner = NULL;
    char conninfo[PG_CONNINFO_BYTES];

    (void)state;
    assert_int_equal(db_script(db, "CREATE ROLE plain LOGIN", &err), STATUS_OK);
    assert_true(pg_database(pg, "plain_db", conninfo));
    assert_int_equal(
        db_script(db, "ALTER DATABASE plain_db OWNER TO plain", &err),
        STATUS_OK);
    memcpy(strstr(conninfo, "user=berth"), "user=plain", 10);
    assert_int_equal(db_open(conninfo, &owner, &err), STATUS_OK);
    if (migrate(owner, NULL, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    db_close(owner);
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, open_empty, close_db)
    const struct CMUnitTest tests[] = {
        TEST(runs_every_migration_once),
        TEST(refuses_a_changed_migration),
        TEST(refuses_a_database_newer_than_the_program),
        TEST(a_failing_migration_leaves_nothing_behind),
        cmocka_unit_test(embeds_the_files_byte_for_byte),
        TEST(seeds_the_price_revision_of_the_program),
        TEST(comments_on_every_table_of_the_ledger),
        TEST(needs_no_more_than_the_database_s_owner),
    };

    return cmocka_run_group_tests_name("ledger_migrate", tests, start, stop);
}
