/* ledger_db_test.c - statements, their shapes, errors and connections. */
#include "ledger/db.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/harness/pg.h"

#include "common/banned.h"

static struct pg *pg;
static struct db *db;
static struct error err;

static int
start(void **state)
{
    (void)state;
    pg = pg_start(false);
    if (pg == NULL || db_open(pg_conninfo(pg), &db, &err) != STATUS_OK)
        return -1;
    return db_script(db,
                     "CREATE TABLE t (id integer PRIMARY KEY, b bytea,"
                     " CONSTRAINT no_overdraft CHECK (id < 1000),"
                     " CONSTRAINT other CHECK (id > 0))",
                     &err) == STATUS_OK
               ? 0
               : -1;
}

static int
stop(void **state)
{
    (void)state;
    db_close(db);
    pg_stop(pg);
    return 0;
}

static void
columns_come_back_as_they_went(void **state)
{
    static const struct statement echo = {
        .name = "echo",
        .sql =
            "SELECT $1::text, $2::bytea, $3::bigint, NULL, true, 0.25::float8",
        .shape = DB_ONE,
        .param_count = 3,
    };
    static const uint8_t bytes[] = {0, 0x27, 0x5c, 0xff, 0};
    struct db_param params[] = {
        {.text = "it's \"so\" \\ \xc3\xbc"},
        {.bytes = bytes, .size = sizeof(bytes)},
        {.text = "-9223372036854775808"},
    };
    struct db_rows *rows = NULL;
    struct buf got;

    (void)state;
    buf_init(&got, 64);
    for (int i = 0; i < 2; i++) { /* the second time it is prepared already */
        assert_int_equal(db_run(db, &echo, params, &rows, &err), STATUS_OK);
        assert_string_equal(db_text(rows, 0, 0), params[0].text);
        buf_reset(&got);
        db_bytes(rows, 0, 1, &got);
        assert_int_equal(got.size, sizeof(bytes));
        assert_memory_equal(got.data, bytes, sizeof(bytes));
        assert_true(db_i64(rows, 0, 2) == INT64_MIN);
        assert_true(db_is_null(rows, 0, 3));
        assert_int_equal(db_i64(rows, 0, 3), 0);
        assert_string_equal(db_text(rows, 0, 3), "");
        assert_true(db_bool(rows, 0, 4));
        assert_true(db_double(rows, 0, 5) == 0.25);
        db_rows_free(rows);
    }
    buf_clear(&got);
}

static enum status
rows_of_shape(const char *name, enum db_shape shape, const char *count)
{
    struct statement statement = {
        .name = name,
        .sql = "SELECT generate_series(1, $1::integer)",
        .shape = shape,
        .param_count = 1,
    };
    struct db_param params[] = {{.text = count}};
    struct db *other = NULL; /* statements of the stack must not live on */
    enum status status;

    assert_int_equal(db_open(pg_conninfo(pg), &other, &err), STATUS_OK);
    status = db_run(other, &statement, params, NULL, &err);
    db_close(other);
    return status;
}

static void
a_wrong_number_of_rows_is_an_error(void **state)
{
    (void)state;
    assert_int_equal(rows_of_shape("a", DB_ONE, "1"), STATUS_OK);
    assert_int_equal(rows_of_shape("b", DB_ONE, "0"), STATUS_NOT_FOUND);
    assert_int_equal(rows_of_shape("c", DB_ONE, "2"), STATUS_INTERNAL);
    assert_int_equal(rows_of_shape("d", DB_MAYBE, "0"), STATUS_OK);
    assert_int_equal(rows_of_shape("e", DB_MAYBE, "2"), STATUS_INTERNAL);
    assert_int_equal(rows_of_shape("f", DB_MANY, "0"), STATUS_OK);
    assert_int_equal(rows_of_shape("g", DB_NONE, "1"), STATUS_INTERNAL);
}

static enum status
insert(const char *id)
{
    static const struct statement statement = {
        .name = "insert",
        .sql = "INSERT INTO t (id) VALUES ($1::integer)",
        .shape = DB_NONE,
        .param_count = 1,
    };
    struct db_param params[] = {{.text = id}};

    return db_run(db, &statement, params, NULL, &err);
}

static void
errors_become_the_status_that_says_what_to_do(void **state)
{
    (void)state;
    assert_int_equal(insert("1"), STATUS_OK);
    assert_int_equal(insert("1"), STATUS_CONFLICT);
    assert_string_equal(err.code, "23505");
    assert_int_equal(insert("1000"), STATUS_NO_FUNDS);
    assert_int_equal(insert("0"), STATUS_INTERNAL);
    assert_non_null(strstr(err.text, "23514"));
    assert_int_equal(db_script(db,
                               "DO $$ BEGIN RAISE 'x' USING ERRCODE = '55000';"
                               " END $$",
                               &err),
                     STATUS_DENIED);
    assert_int_equal(db_script(db,
                               "DO $$ BEGIN RAISE 'x' USING ERRCODE = '40001';"
                               " END $$",
                               &err),
                     STATUS_RETRY);
    assert_int_equal(db_script(db, "no such words", &err), STATUS_INTERNAL);
    assert_true(db_is_alive(db));
}

/* COMMIT of a failed transaction succeeds with the tag ROLLBACK. */
static void
commit_of_a_failed_transaction_is_not_a_commit(void **state)
{
    (void)state;
    assert_int_equal(db_command(db, "BEGIN", "BEGIN", &err), STATUS_OK);
    assert_int_equal(insert("0"), STATUS_INTERNAL);
    assert_int_equal(db_command(db, "COMMIT", "COMMIT", &err), STATUS_INTERNAL);
    assert_non_null(strstr(err.text, "ROLLBACK"));
}

static enum status
fail_twice(struct db *at, void *arg, struct error *why)
{
    int *calls = arg;

    if (++*calls == 3)
        return db_script(at, "INSERT INTO t (id) VALUES (3)", why);
    return db_script(at,
                     "INSERT INTO t (id) VALUES (4);"
                     "DO $$ BEGIN RAISE 'x' USING ERRCODE = '40001'; END $$",
                     why);
}

static void
a_transaction_is_repeated_on_serialization_failure(void **state)
{
    static const struct statement count = {
        .name = "count34",
        .sql = "SELECT sum(id) FROM t WHERE id IN (3, 4)",
        .shape = DB_ONE,
    };
    struct db_rows *rows = NULL;
    int calls = 0;

    (void)state;
    assert_int_equal(db_transact(db, fail_twice, &calls, &err), STATUS_OK);
    assert_int_equal(calls, 3);
    assert_int_equal(db_run(db, &count, NULL, &rows, &err), STATUS_OK);
    assert_int_equal(db_i64(rows, 0, 0), 3);
    db_rows_free(rows);
}

static void
statements_run_together_stop_at_the_first_failure(void **state)
{
    static const struct statement put = {
        .name = "put",
        .sql = "INSERT INTO t (id) VALUES ($1::integer) RETURNING id",
        .shape = DB_ONE,
        .param_count = 1,
    };
    struct db_param ids[][1] = {
        {{.text = "20"}}, {{.text = "21"}}, {{.text = "20"}}, {{.text = "22"}}};
    struct db_rows *rows[4] = {NULL};
    struct db_call calls[4];

    (void)state;
    for (int i = 0; i < 4; i++)
        calls[i] = (struct db_call){&put, ids[i], &rows[i]};
    assert_int_equal(db_command(db, "BEGIN", "BEGIN", &err), STATUS_OK);
    assert_int_equal(db_run_all(db, calls, 2, &err), STATUS_OK);
    assert_int_equal(db_i64(rows[1], 0, 0), 21);
    assert_int_equal(db_run_all(db, calls + 2, 2, &err), STATUS_CONFLICT);
    assert_null(rows[2]);
    assert_null(rows[3]);
    assert_int_equal(db_command(db, "ROLLBACK", "ROLLBACK", &err), STATUS_OK);
    assert_int_equal(insert("20"), STATUS_OK); /* in step again */
    db_rows_free(rows[0]);
    db_rows_free(rows[1]);
}

static void
a_missing_server_is_a_retry(void **state)
{
    struct db *none = NULL;

    (void)state;
    assert_int_equal(db_open("host=/nowhere", &none, &err), STATUS_RETRY);
    assert_null(none);
    assert_null(strchr(err.text, '\n'));
}

static void *
lease_and_return(void *arg)
{
    struct db *reader = NULL;
    struct error why;

    for (int i = 0; i < 20; i++) {
        if (db_lease(arg, &reader, &why) != STATUS_OK)
            return arg;
        if (db_script(reader, "SELECT 1", &why) != STATUS_OK)
            return arg;
        db_return(arg, reader);
    }
    return NULL;
}

static void
readers_share_few_connections_and_cannot_write(void **state)
{
    struct db_pool *pool = NULL;
    struct db *reader = NULL;
    pthread_t threads[4];

    (void)state;
    assert_int_equal(db_pool_open(pg_conninfo(pg), 2, &pool, &err), STATUS_OK);
    for (int i = 0; i < 4; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, lease_and_return, pool), 0);
    for (int i = 0; i < 4; i++) {
        void *failed = pool;

        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(db_lease(pool, &reader, &err), STATUS_OK);
    assert_int_not_equal(
        db_script(reader, "INSERT INTO t (id) VALUES (9)", &err), STATUS_OK);
    db_return(pool, reader);
    db_pool_close(pool);
}

static void
a_lease_does_not_wait_for_ever(void **state)
{
    struct db_pool *pool = NULL;
    struct db *reader = NULL, *none = NULL;

    (void)state;
    assert_int_equal(db_pool_open(pg_conninfo(pg), 1, &pool, &err), STATUS_OK);
    assert_int_equal(db_lease(pool, &reader, &err), STATUS_OK);
    assert_int_equal(db_lease(pool, &none, &err), STATUS_RETRY);
    db_return(pool, reader);
    assert_int_equal(db_lease(pool, &none, &err), STATUS_OK);
    db_return(pool, none);
    db_pool_close(pool);
}

static void
a_reader_that_the_server_closed_is_opened_again(void **state)
{
    struct db_pool *pool = NULL;
    struct db *reader = NULL;

    (void)state;
    assert_int_equal(db_pool_open(pg_conninfo(pg), 1, &pool, &err), STATUS_OK);
    pg_kill(pg);
    assert_true(pg_resume(pg));
    assert_int_equal(db_lease(pool, &reader, &err), STATUS_OK);
    assert_int_equal(db_script(reader, "SELECT 1", &err), STATUS_OK);
    db_return(pool, reader);
    db_pool_close(pool);
    assert_int_equal(db_script(db, "SELECT 1", &err), STATUS_RETRY);
    assert_false(db_is_alive(db));
}

static void
a_server_that_hangs_holds_nobody_for_ever(void **state)
{
    static const struct statement hang = {
        .name = "hang",
        .sql = "SELECT pg_sleep(60)",
        .shape = DB_ONE,
    };
    struct db *own = NULL;

    (void)state;
    assert_int_equal(db_open(pg_conninfo(pg), &own, &err), STATUS_OK);
    db_set_deadline(own, 50);
    assert_int_equal(db_run(own, &hang, NULL, NULL, &err), STATUS_RETRY);
    assert_false(db_is_alive(own));
    db_close(own);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_come_back_as_they_went),
        cmocka_unit_test(a_wrong_number_of_rows_is_an_error),
        cmocka_unit_test(errors_become_the_status_that_says_what_to_do),
        cmocka_unit_test(commit_of_a_failed_transaction_is_not_a_commit),
        cmocka_unit_test(a_transaction_is_repeated_on_serialization_failure),
        cmocka_unit_test(statements_run_together_stop_at_the_first_failure),
        cmocka_unit_test(a_missing_server_is_a_retry),
        cmocka_unit_test(readers_share_few_connections_and_cannot_write),
        cmocka_unit_test(a_server_that_hangs_holds_nobody_for_ever),
        cmocka_unit_test(a_lease_does_not_wait_for_ever),
        cmocka_unit_test(a_reader_that_the_server_closed_is_opened_again),
    };

    return cmocka_run_group_tests_name("ledger_db", tests, start, stop);
}
