/* ledger_writer_test.c - writes hold together, survive the server's death, and
 * end with the reign. */
#include "ledger/writer.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "common/mem.h"
#include "tests/harness/books.h"

#include "common/banned.h"

enum { LOAD_WRITES = 4000, LOAD_KILLS = 3 };

static struct books books;

static int
start(void **state)
{
    struct error err = {0};

    (void)state;
    if (!books_open(&books, true))
        return -1;
    return db_script(books.db,
                     "CREATE TABLE public.note (id bigint PRIMARY KEY,"
                     " tx xid8 DEFAULT pg_current_xact_id());"
                     "CREATE TABLE public.deferred (id bigint,"
                     " parent bigint REFERENCES public.note"
                     " DEFERRABLE INITIALLY DEFERRED)",
                     &err) == STATUS_OK
               ? 0
               : -1;
}

static int
stop(void **state)
{
    (void)state;
    books_close(&books);
    return 0;
}

static const struct statement note_statement = {
    .name = "test_note",
    .sql = "INSERT INTO public.note (id) VALUES ($1::bigint)"
           " ON CONFLICT DO NOTHING",
    .shape = DB_NONE,
    .param_count = 1,
};

static const struct statement note_once_statement = {
    .name = "test_note_once",
    .sql = "INSERT INTO public.note (id) VALUES ($1::bigint)",
    .shape = DB_NONE,
    .param_count = 1,
};

static void
add_number(struct write *write, const struct statement *statement,
           int64_t number)
{
    char text[24];
    struct db_param params[] = {{.text = text}};

    (void)snprintf(text, sizeof(text), "%lld", (long long)number);
    write_add(write, statement, params);
}

static enum status
note(int64_t number, struct answer *answer)
{
    struct write *write = answer_write(answer);

    add_number(write, &note_statement, number);
    return books_write(&books, write, answer);
}

static int64_t
notes_between(int64_t low, int64_t high)
{
    char sql[128];

    (void)snprintf(sql, sizeof(sql),
                   "SELECT count(*) FROM public.note"
                   " WHERE id BETWEEN %lld AND %lld",
                   (long long)low, (long long)high);
    return books_number(&books, sql);
}

static void
statements_of_a_write_happen_together_or_not_at_all(void **state)
{
    struct answer answers[3];
    struct write *writes[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        writes[i] = answer_write(&answers[i]);
        add_number(writes[i], &note_statement, 100 + i);
        add_number(writes[i], &note_once_statement, i == 1 ? 101 : 110 + i);
    }
    for (int i = 0; i < 3; i++)
        writer_submit(books.writer, writes[i]);
    assert_int_equal(answer_wait(&answers[0]), STATUS_OK);
    assert_int_equal(answer_wait(&answers[1]), STATUS_CONFLICT);
    assert_int_equal(answer_wait(&answers[2]), STATUS_OK);
    assert_int_equal(notes_between(100, 100), 1);
    assert_int_equal(notes_between(101, 101), 0);
    assert_int_equal(notes_between(102, 119), 3);
}

/* While one commit is on its way the next writes gather: far fewer commits
 * than writes. */
static void
many_writes_share_a_commit(void **state)
{
    enum { COUNT = 500 };
    struct answer *answers = mem_array(COUNT, sizeof(*answers));
    struct write **writes = mem_array(COUNT, sizeof(struct write *));

    (void)state;
    for (int i = 0; i < COUNT; i++) {
        writes[i] = answer_write(&answers[i]);
        add_number(writes[i], &note_statement, 1000 + i);
    }
    for (int i = 0; i < COUNT; i++)
        writer_submit(books.writer, writes[i]);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(answer_wait(&answers[i]), STATUS_OK);
    assert_int_equal(notes_between(1000, 1000 + COUNT - 1), COUNT);
    assert_true(books_number(&books,
                             "SELECT count(DISTINCT tx) FROM public.note"
                             " WHERE id BETWEEN 1000 AND 1499") < COUNT / 10);
    free(answers);
    free(writes);
}

static void
a_commit_that_one_write_spoils_is_made_without_it(void **state)
{
    static const struct statement spoil = {
        .name = "test_spoil",
        .sql = "INSERT INTO public.deferred VALUES ($1::bigint, -5)",
        .shape = DB_NONE,
        .param_count = 1,
    };
    struct answer answers[3];
    struct write *writes[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        writes[i] = answer_write(&answers[i]);
        add_number(writes[i], i == 1 ? &spoil : &note_statement, 2000 + i);
    }
    for (int i = 0; i < 3; i++)
        writer_submit(books.writer, writes[i]);
    assert_int_equal(answer_wait(&answers[0]), STATUS_OK);
    assert_int_equal(answer_wait(&answers[1]), STATUS_INTERNAL);
    assert_string_equal(answers[1].err.code, "23503");
    assert_int_equal(answer_wait(&answers[2]), STATUS_OK);
}

static void
a_write_that_kills_its_connection_is_put_aside(void **state)
{
    static const struct statement poison = {
        .name = "test_poison",
        .sql = "SELECT pg_terminate_backend(pg_backend_pid())"
               " WHERE $1::bigint > 0",
        .shape = DB_MAYBE,
        .param_count = 1,
    };
    struct answer answers[4];
    struct write *writes[4];

    (void)state;
    for (int i = 0; i < 4; i++) {
        writes[i] = answer_write(&answers[i]);
        add_number(writes[i], i == 2 ? &poison : &note_statement, 3000 + i);
    }
    for (int i = 0; i < 4; i++)
        writer_submit(books.writer, writes[i]);
    for (int i = 0; i < 4; i++)
        assert_int_equal(answer_wait(&answers[i]),
                         i == 2 ? STATUS_INTERNAL : STATUS_OK);
    assert_int_equal(notes_between(3000, 3003), 3);
}

/* Money and notes under load while the server is killed: every write is
 * answered once, with success, and happened exactly once. */
static void
kill_9_of_the_server_loses_and_doubles_nothing(void **state)
{
    struct answer *answers = mem_array(LOAD_WRITES, sizeof(*answers));
    int64_t wallet = books_wallet(&books, 500, 0);
    int64_t per_kill = LOAD_WRITES / (LOAD_KILLS + 1);

    (void)state;
    for (int64_t i = 0; i < LOAD_WRITES; i++) {
        struct write *write = answer_write(&answers[i]);
        char id[UUID_TEXT_BYTES];

        ledger_grant(write, books.epoch, books_uuid(0x70000 + (uint64_t)i, id),
                     wallet, (struct credits){1 + i});
        add_number(write, &note_statement, 10000 + i);
        writer_submit(books.writer, write);
        if (i % per_kill == per_kill - 1 && i / per_kill < LOAD_KILLS) {
            /* In the middle of the work that was just submitted. */
            assert_int_equal(answer_wait(&answers[i - per_kill / 2]),
                             STATUS_OK);
            pg_kill(books.pg);
            assert_true(pg_resume(books.pg));
        }
    }
    for (int64_t i = 0; i < LOAD_WRITES; i++)
        assert_int_equal(answer_wait(&answers[i]), STATUS_OK);
    for (int64_t i = 0; i < LOAD_WRITES; i++)
        assert_int_equal(answers[i].calls, 1);
    assert_int_equal(notes_between(10000, 10000 + LOAD_WRITES - 1),
                     LOAD_WRITES);
    assert_int_equal(books_number(&books,
                                  "SELECT b.credits FROM ledger.balance b"
                                  " JOIN ledger.account a ON a.id = b.account"
                                  " WHERE a.owner = 500 AND a.kind = 1"),
                     (int64_t)LOAD_WRITES * (LOAD_WRITES + 1) / 2);
    db_close(books.db); /* it died, too */
    assert_int_equal(db_open(books.conninfo, &books.db, NULL), STATUS_OK);
    assert_int_equal(books_violations(&books), 0);
    free(answers);
}

static void
a_lost_connection_is_taken_up_again(void **state)
{
    struct answer answer;

    (void)state;
    for (int i = 0; i < 10; i++) {
        (void)books_number(&books,
                           "SELECT count(pg_terminate_backend(pid)) FROM"
                           " pg_stat_activity WHERE application_name"
                           " LIKE 'berth-writer-%'");
        assert_int_equal(note(4000 + i, &answer), STATUS_OK);
    }
    assert_int_equal(notes_between(4000, 4009), 10);
}

/* Numbers out of range and rules that are broken, between good writes. */
static void
writes_that_fail_for_themselves_hold_up_nobody(void **state)
{
    static const struct statement range = {
        .name = "test_range",
        .sql = "SELECT $1::bigint + 9223372036854775807",
        .shape = DB_ONE,
        .param_count = 1,
    };
    static const struct statement null = {
        .name = "test_null",
        .sql = "INSERT INTO public.note SELECT NULL WHERE $1::bigint > 0",
        .shape = DB_NONE,
        .param_count = 1,
    };
    const struct statement *const kinds[] = {
        &note_statement, &range, &note_statement, &null, &note_statement};
    static const char *const codes[] = {"", "22003", "", "23502", ""};
    struct answer answers[5];
    struct write *writes[5];

    (void)state;
    for (int i = 0; i < 5; i++) {
        writes[i] = answer_write(&answers[i]);
        add_number(writes[i], kinds[i], 6000 + i);
    }
    for (int i = 0; i < 5; i++)
        writer_submit(books.writer, writes[i]);
    for (int i = 0; i < 5; i++) {
        bool good = codes[i][0] == '\0';

        assert_int_equal(answer_wait(&answers[i]),
                         good ? STATUS_OK : STATUS_INTERNAL);
        if (!good)
            assert_string_equal(answers[i].err.code, codes[i]);
    }
    assert_int_equal(notes_between(6000, 6004), 3);
}

static void
script(const char *sql)
{
    struct error err = {0};

    assert_int_equal(db_script(books.db, sql, &err), STATUS_OK);
}

/* From now on the first @times inserts of a number over 7000 fail with @code;
 * a sequence counts them, since it is not rolled back. */
static void
trouble_make(const char *code, int times)
{
    char sql[700];

    (void)snprintf(
        sql, sizeof(sql),
        "DROP SEQUENCE IF EXISTS public.tries; CREATE SEQUENCE public.tries;"
        "CREATE OR REPLACE FUNCTION public.trouble() RETURNS trigger"
        " LANGUAGE plpgsql AS $$ BEGIN"
        " IF NEW.id >= 7000 AND NEW.id < 8000 AND"
        " nextval('public.tries') <= %d THEN"
        " RAISE EXCEPTION 'made by a test' USING ERRCODE = '%s'; END IF;"
        " RETURN NEW; END $$;"
        "CREATE OR REPLACE TRIGGER trouble BEFORE INSERT ON public.note"
        " FOR EACH ROW EXECUTE FUNCTION public.trouble()",
        times, code);
    script(sql);
}

/* More often than the writer takes a write for broken. */
static void
a_write_that_meets_an_outage_or_a_conflict_is_never_given_up(void **state)
{
    enum { TIMES = 7 };
    static const char *const codes[] = {"53100", "53200", "53300", "25006",
                                        "40001", "40P01", "57P03"};
    struct answer answers[2];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        struct write *good = answer_write(&answers[0]);
        struct write *late = answer_write(&answers[1]);

        trouble_make(codes[i], TIMES);
        add_number(good, &note_statement, 6100 + (int)i);
        add_number(late, &note_statement, 7000 + (int)i);
        writer_submit(books.writer, good);
        writer_submit(books.writer, late);
        assert_int_equal(answer_wait(&answers[1]), STATUS_OK);
        assert_int_equal(answer_wait(&answers[0]), STATUS_OK);
        assert_int_equal(answers[1].calls, 1);
        assert_int_equal(notes_between(7000 + (int)i, 7000 + (int)i), 1);
        assert_int_equal(books_number(&books, "SELECT last_value FROM"
                                              " public.tries"),
                         TIMES + 1);
    }
    script("DROP TRIGGER trouble ON public.note");
}

/* What the writer said about the database. */
struct said {
    int lost;
    int back;
};

static void
on_reachable(void *arg, int reachable)
{
    struct said *said = arg;

    __atomic_add_fetch(reachable ? &said->back : &said->lost, 1,
                       __ATOMIC_SEQ_CST);
}

static void
wait_for(const int *count, int wanted)
{
    enum { POLLS_MAX = 6000 };
    struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};

    for (int i = 0; i < POLLS_MAX; i++) {
        if (__atomic_load_n(count, __ATOMIC_SEQ_CST) >= wanted)
            return;
        (void)nanosleep(&pause, NULL);
    }
    fail();
}

static void
writer_listened(struct said *said)
{
    struct writer_events events = {.on_reachable = on_reachable, .arg = said};

    writer_close(books.writer, 1000);
    assert_int_equal(writer_open(books.conninfo, said != NULL ? &events : NULL,
                                 NULL, &books.writer, &books.epoch, NULL),
                     STATUS_OK);
}

static void
a_full_disk_is_told_until_it_has_room(void **state)
{
    struct said said = {0};
    struct answer answer;
    struct write *write = answer_write(&answer);

    (void)state;
    writer_listened(&said);
    trouble_make("53100", INT32_MAX);
    add_number(write, &note_statement, 7100);
    writer_submit(books.writer, write);
    wait_for(&said.lost, 1);
    assert_int_equal(said.back, 0);
    assert_int_equal(notes_between(7100, 7100), 0);
    script("DROP TRIGGER trouble ON public.note");
    assert_int_equal(answer_wait(&answer), STATUS_OK);
    wait_for(&said.back, 1);
    assert_int_equal(notes_between(7100, 7100), 1);
    assert_int_equal(said.lost, 1);
    writer_listened(NULL);
}

static const char backend_sql[] =
    "SELECT coalesce(max(pid), 0)::bigint FROM pg_stat_activity"
    " WHERE application_name LIKE 'berth-writer-%'";

static void
a_lost_connection_is_noticed_with_nothing_to_write(void **state)
{
    struct said said = {0};
    int64_t before;

    (void)state;
    writer_listened(&said);
    before = books_number(&books, backend_sql);
    assert_true(before > 0);
    assert_int_equal(kill((pid_t)before, SIGTERM), 0);
    wait_for(&said.lost, 1);
    wait_for(&said.back, 1);
    assert_true(books_number(&books, backend_sql) != before);
    writer_listened(NULL);
}

/* The backend is stopped: no answer comes, and no end of the connection. */
static void
a_server_that_hangs_is_told_and_awaited(void **state)
{
    struct said said = {0};
    struct answer answers[2];
    struct write *write = answer_write(&answers[1]);
    int64_t backend;

    (void)state;
    writer_listened(&said);
    assert_int_equal(note(6200, &answers[0]), STATUS_OK);
    backend = books_number(&books, backend_sql);
    assert_int_equal(kill((pid_t)backend, SIGSTOP), 0);
    add_number(write, &note_statement, 6201);
    writer_submit(books.writer, write);
    wait_for(&said.lost, 1);
    assert_int_equal(kill((pid_t)backend, SIGCONT), 0);
    assert_int_equal(answer_wait(&answers[1]), STATUS_OK);
    wait_for(&said.back, 1);
    assert_int_equal(notes_between(6200, 6201), 2);
    writer_listened(NULL);
}

/* The server is there, the writer's backend is killed again and again while it
 * works: before a statement, within one, before and after a commit. */
static void
a_backend_killed_at_any_moment_loses_and_doubles_nothing(void **state)
{
    enum { COUNT = 3000, STEP = 50 };
    struct answer *answers = mem_array(COUNT, sizeof(*answers));
    int64_t wallet = books_wallet(&books, 501, 0);

    (void)state;
    for (int i = 0; i < COUNT; i++) {
        struct write *write = answer_write(&answers[i]);
        char id[UUID_TEXT_BYTES];

        ledger_grant(write, books.epoch, books_uuid(0x90000 + (uint64_t)i, id),
                     wallet, (struct credits){1});
        writer_submit(books.writer, write);
        if (i % STEP == STEP - 1) {
            (void)books_number(&books,
                               "SELECT count(pg_terminate_backend(pid)) FROM"
                               " pg_stat_activity WHERE application_name"
                               " LIKE 'berth-writer-%'");
            /* Some of it is done before the next one is killed. */
            assert_int_equal(answer_wait(&answers[i - STEP + 1]), STATUS_OK);
        }
    }
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(answer_wait(&answers[i]), STATUS_OK);
        assert_int_equal(answers[i].calls, 1);
    }
    assert_int_equal(books_number(&books,
                                  "SELECT b.credits FROM ledger.balance b"
                                  " JOIN ledger.account a ON a.id = b.account"
                                  " WHERE a.owner = 501 AND a.kind = 1"),
                     COUNT);
    assert_int_equal(books_violations(&books), 0);
    free(answers);
}

static void
a_second_writer_waits_until_it_is_stopped(void **state)
{
    const volatile int stop_now = 1;
    struct writer *second = NULL;
    struct error err = {0};
    struct answer answer;
    uint64_t epoch = 0;

    (void)state;
    /* The first one has its session, and with it the lock: a writer that has
     * just lost it may be succeeded. */
    assert_int_equal(note(4999, &answer), STATUS_OK);
    assert_int_equal(
        writer_open(books.conninfo, NULL, &stop_now, &second, &epoch, &err),
        STATUS_RETRY);
    assert_null(second);
    assert_int_equal(books_number(&books, "SELECT epoch FROM ledger.head"),
                     books.epoch);
}

static void
no_server_is_a_retry(void **state)
{
    struct writer *writer = NULL;
    struct error err = {0};
    uint64_t epoch = 0;

    (void)state;
    assert_int_equal(writer_open("host=/nowhere dbname=none", NULL, NULL,
                                 &writer, &epoch, &err),
                     STATUS_RETRY);
    assert_true(err.text[0] != '\0');
}

static void
on_fenced(void *arg)
{
    __atomic_add_fetch((int *)arg, 1, __ATOMIC_SEQ_CST);
}

/* The next reign begins while this writer lives; nothing of it is written. */
static void
a_writer_whose_epoch_is_over_writes_nothing(void **state)
{
    int fenced = 0;
    struct writer_events events = {.on_fenced = on_fenced, .arg = &fenced};
    struct error err = {0};
    struct answer answer;
    uint64_t epoch = 0;

    (void)state;
    writer_close(books.writer, 1000);
    assert_int_equal(
        writer_open(books.conninfo, &events, NULL, &books.writer, &epoch, &err),
        STATUS_OK);
    assert_int_equal(epoch, books.epoch + 1);
    assert_int_equal(note(5000, &answer), STATUS_OK);
    assert_int_equal(books_number(&books, "SELECT ledger.reign()"), epoch + 1);
    for (int i = 1; i < 4; i++)
        assert_int_equal(note(5000 + i, &answer), STATUS_DENIED);
    assert_int_equal(fenced, 1);
    assert_int_equal(notes_between(5000, 5003), 1);
    writer_close(books.writer, 1000);
    assert_int_equal(writer_open(books.conninfo, NULL, NULL, &books.writer,
                                 &books.epoch, &err),
                     STATUS_OK);
    assert_int_equal(note(5004, &answer), STATUS_OK);
}

/* Last: it leaves the server dead. A backend may outlive it for a moment and
 * still commit something, hence two right answers. */
static void
closing_without_a_server_answers_what_is_left(void **state)
{
    struct answer answers[3];
    struct write *writes[3];

    (void)state;
    pg_kill(books.pg);
    for (int i = 0; i < 3; i++) {
        writes[i] = answer_write(&answers[i]);
        add_number(writes[i], &note_statement, 6000 + i);
        writer_submit(books.writer, writes[i]);
    }
    writer_close(books.writer, 100);
    books.writer = NULL;
    for (int i = 0; i < 3; i++) {
        assert_true(answers[i].done);
        assert_int_equal(answers[i].calls, 1);
        assert_true(answers[i].status == STATUS_RETRY ||
                    answers[i].status == STATUS_OK);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statements_of_a_write_happen_together_or_not_at_all),
        cmocka_unit_test(many_writes_share_a_commit),
        cmocka_unit_test(a_commit_that_one_write_spoils_is_made_without_it),
        cmocka_unit_test(a_write_that_kills_its_connection_is_put_aside),
        cmocka_unit_test(kill_9_of_the_server_loses_and_doubles_nothing),
        cmocka_unit_test(a_lost_connection_is_taken_up_again),
        cmocka_unit_test(writes_that_fail_for_themselves_hold_up_nobody),
        cmocka_unit_test(
            a_write_that_meets_an_outage_or_a_conflict_is_never_given_up),
        cmocka_unit_test(a_full_disk_is_told_until_it_has_room),
        cmocka_unit_test(a_lost_connection_is_noticed_with_nothing_to_write),
        cmocka_unit_test(a_server_that_hangs_is_told_and_awaited),
        cmocka_unit_test(
            a_backend_killed_at_any_moment_loses_and_doubles_nothing),
        cmocka_unit_test(a_second_writer_waits_until_it_is_stopped),
        cmocka_unit_test(no_server_is_a_retry),
        cmocka_unit_test(a_writer_whose_epoch_is_over_writes_nothing),
        cmocka_unit_test(closing_without_a_server_answers_what_is_left),
    };

    return cmocka_run_group_tests_name("ledger_writer", tests, start, stop);
}
