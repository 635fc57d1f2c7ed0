/* ledger_ledger_test.c - holds, settlements and releases against PostgreSQL. */
#include "ledger/ledger.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/harness/books.h"

#include "common/banned.h"

enum { FUNDS = 10000000 };

static struct books books;
static uint64_t next_id = 1;
static int64_t next_owner = 100;

static int
start(void **state)
{
    (void)state;
    return books_open(&books, false) ? 0 : -1;
}

static int
stop(void **state)
{
    (void)state;
    books_close(&books);
    return 0;
}

/* Whatever a test did, the books are sound after it. */
static int
check_books(void **state)
{
    (void)state;
    return books_violations(&books) == 0 ? 0 : -1;
}

struct scene {
    int64_t owner;
    int64_t lender;
    int64_t wallet;
    char job[UUID_TEXT_BYTES];
    struct settlement settlement;
    struct settlement_result result;
    struct buf record;
    struct answer answer;
};

/* A submitter with funds and a job on a pod of two nodes: 100 tokens in, 50
 * out of a model that makes prefill cost 1 credit and decode 2 credits. */
static void
scene_set(struct scene *scene)
{
    struct settlement *s = &scene->settlement;
    struct settlement_attempt *attempt = &s->attempts[0];

    memset(scene, 0, sizeof(*scene));
    scene->owner = next_owner++;
    scene->lender = next_owner++;
    scene->wallet = books_wallet(&books, scene->owner, FUNDS);
    (void)books_wallet(&books, scene->lender, 0);
    books_uuid(next_id++, scene->job);
    memcpy(s->job, scene->job, sizeof(s->job));
    (void)snprintf(s->model, sizeof(s->model), "tiny");
    (void)snprintf(s->model_digest, sizeof(s->model_digest), "00ff");
    (void)snprintf(s->finish, sizeof(s->finish), "stop");
    s->payer = scene->wallet;
    s->n_in = 100;
    s->n_out = 50;
    s->context = 150;
    s->revision = price_revision_1;
    s->price_model.flop_per_token = UINT64_C(40000000000); /* 4 TFLOP */
    s->price_model.bytes_per_token = UINT64_C(4000000000); /* 200 GB */
    s->attempt_count = 1;
    attempt->number = 1;
    attempt->ids = 50;
    books_uuid(next_id++, attempt->pod);
    attempt->member_count = 2;
    for (int i = 0; i < 2; i++) {
        struct settlement_member *member = &attempt->members[i];

        books_uuid(next_id++, member->node);
        member->account = books_node(&books, scene->lender, member->node);
        member->weight = i == 0 ? 1 : 3;
    }
    buf_init(&scene->record, 65536);
}

static void
scene_compute(struct scene *scene)
{
    struct error err = {0};

    buf_reset(&scene->record);
    if (settlement_compute(&scene->settlement, LEDGER_FEE_ID, &scene->result,
                           &scene->record, &err) != STATUS_OK)
        fail_msg("%s", err.text);
}

static void
scene_clear(struct scene *scene)
{
    buf_clear(&scene->record);
}

static enum status
hold_amount(struct scene *scene, int64_t amount)
{
    struct write *write = answer_write(&scene->answer);

    ledger_hold(write, books.epoch, scene->job, scene->wallet,
                (struct credits){amount}, 1);
    return books_write(&books, write, &scene->answer);
}

static enum status
settle(struct scene *scene)
{
    struct write *write = answer_write(&scene->answer);

    ledger_settle(write, books.epoch, &scene->settlement, &scene->result,
                  &scene->record);
    return books_write(&books, write, &scene->answer);
}

static enum status
release_job(struct scene *scene)
{
    struct write *write = answer_write(&scene->answer);

    ledger_release(write, books.epoch, scene->job);
    return books_write(&books, write, &scene->answer);
}

static void
assert_balance(int64_t owner, int64_t available, int64_t held, int64_t maturing)
{
    struct ledger_balance balance;
    struct error err = {0};

    assert_int_equal(ledger_balance_read(books.db, owner, &balance, &err),
                     STATUS_OK);
    assert_int_equal(balance.available.micro, available);
    assert_int_equal(balance.held.micro, held);
    assert_int_equal(balance.maturing.micro, maturing);
}

static void
a_hold_reserves_and_a_settlement_pays_fee_and_members(void **state)
{
    struct scene scene;

    (void)state;
    scene_set(&scene);
    scene_compute(&scene);
    assert_int_equal(hold_amount(&scene, 5000000), STATUS_OK);
    assert_balance(scene.owner, FUNDS - 5000000, 5000000, 0);
    assert_int_equal(settle(&scene), STATUS_OK);
    /* 3 credits; fee 5 % = 150,000 ucr; the rest is the lender's. */
    assert_int_equal(scene.result.price.total.micro, 3000000);
    assert_balance(scene.owner, FUNDS - 3000000, 0, 0);
    assert_balance(scene.lender, 0, 0, 2850000);
    scene_clear(&scene);
}

static void
a_hold_above_the_balance_is_refused_with_both_amounts(void **state)
{
    struct scene scene;

    (void)state;
    scene_set(&scene);
    assert_int_equal(hold_amount(&scene, FUNDS + 1), STATUS_NO_FUNDS);
    assert_non_null(strstr(scene.answer.err.text, "10.000001"));
    assert_non_null(strstr(scene.answer.err.text, "10.000000 are available"));
    assert_balance(scene.owner, FUNDS, 0, 0);
    assert_int_equal(hold_amount(&scene, FUNDS), STATUS_OK);
    assert_int_equal(release_job(&scene), STATUS_OK);
    scene_clear(&scene);
}

static void
a_repeated_hold_is_one_hold_and_other_content_a_conflict(void **state)
{
    struct scene scene;

    (void)state;
    scene_set(&scene);
    assert_int_equal(hold_amount(&scene, 4000000), STATUS_OK);
    assert_int_equal(hold_amount(&scene, 4000000), STATUS_OK);
    assert_balance(scene.owner, FUNDS - 4000000, 4000000, 0);
    assert_int_equal(hold_amount(&scene, 4000001), STATUS_CONFLICT);
    assert_balance(scene.owner, FUNDS - 4000000, 4000000, 0);
    scene_clear(&scene);
}

static void
a_job_settles_once_whatever_comes_later(void **state)
{
    struct scene scene;

    (void)state;
    scene_set(&scene);
    scene_compute(&scene);
    assert_int_equal(hold_amount(&scene, 5000000), STATUS_OK);
    assert_int_equal(settle(&scene), STATUS_OK);
    assert_int_equal(settle(&scene), STATUS_OK); /* the same again */
    assert_int_equal(release_job(&scene), STATUS_CONFLICT);
    scene.settlement.n_out = 49;
    scene.settlement.attempts[0].ids = 49;
    scene_compute(&scene);
    assert_int_equal(settle(&scene), STATUS_CONFLICT);
    assert_balance(scene.owner, FUNDS - 3000000, 0, 0);
    scene_clear(&scene);
}

static void
a_released_job_cannot_be_settled(void **state)
{
    struct scene scene;

    (void)state;
    scene_set(&scene);
    scene_compute(&scene);
    assert_int_equal(release_job(&scene), STATUS_NOT_FOUND);
    assert_int_equal(settle(&scene), STATUS_NOT_FOUND);
    assert_int_equal(hold_amount(&scene, 5000000), STATUS_OK);
    assert_int_equal(release_job(&scene), STATUS_OK);
    assert_int_equal(release_job(&scene), STATUS_OK);
    assert_int_equal(settle(&scene), STATUS_CONFLICT);
    assert_balance(scene.owner, FUNDS, 0, 0);
    scene_clear(&scene);
}

static void
a_charge_above_the_hold_is_refused(void **state)
{
    struct scene scene;

    (void)state;
    scene_set(&scene);
    scene_compute(&scene);
    assert_int_equal(hold_amount(&scene, 2999999), STATUS_OK);
    assert_int_equal(settle(&scene), STATUS_INTERNAL);
    assert_balance(scene.owner, FUNDS - 2999999, 2999999, 0);
    scene_clear(&scene);
}

static void
legs_that_are_not_the_charge_are_refused(void **state)
{
    struct scene scene;

    (void)state;
    scene_set(&scene);
    scene_compute(&scene);
    assert_int_equal(hold_amount(&scene, 5000000), STATUS_OK);
    scene.result.legs[0].amount.micro++;
    assert_int_equal(settle(&scene), STATUS_INTERNAL);
    scene.result.legs[0].amount.micro--;
    scene.result.legs[1].account = scene.wallet; /* the payer itself */
    assert_int_equal(settle(&scene), STATUS_INTERNAL);
    scene.result.legs[1].account = LEDGER_FEE_ID; /* no maturing account */
    assert_int_equal(settle(&scene), STATUS_INTERNAL);
    scene.result.legs[1].account = 999999; /* nobody */
    assert_int_equal(settle(&scene), STATUS_INTERNAL);
    assert_balance(scene.owner, FUNDS - 5000000, 5000000, 0);
    scene_clear(&scene);
}

static void
a_grant_happens_once_for_its_id(void **state)
{
    struct scene scene;
    struct write *write;
    char id[UUID_TEXT_BYTES];

    (void)state;
    scene_set(&scene);
    books_uuid(next_id++, id);
    for (int i = 0; i < 3; i++) {
        write = answer_write(&scene.answer);
        ledger_grant(write, books.epoch, id, scene.wallet,
                     (struct credits){i < 2 ? 7 : 8});
        assert_int_equal(books_write(&books, write, &scene.answer),
                         i < 2 ? STATUS_OK : STATUS_CONFLICT);
    }
    assert_balance(scene.owner, FUNDS + 7, 0, 0);
    scene_clear(&scene);
}

static void
an_epoch_that_is_over_moves_nothing(void **state)
{
    struct scene scene;
    struct write *write;

    (void)state;
    scene_set(&scene);
    write = answer_write(&scene.answer);
    ledger_hold(write, books.epoch - 1, scene.job, scene.wallet,
                (struct credits){5}, 1);
    assert_int_equal(books_write(&books, write, &scene.answer), STATUS_DENIED);
    assert_balance(scene.owner, FUNDS, 0, 0);
    scene_clear(&scene);
}

static void
rows_of_the_ledger_cannot_be_changed_or_removed(void **state)
{
    static const char *const commands[] = {
        "UPDATE ledger.transfer SET amount = amount + 1",
        "DELETE FROM ledger.transfer",
        "TRUNCATE ledger.transfer",
        "UPDATE ledger.hold SET amount = 1",
        "DELETE FROM ledger.hold",
        "UPDATE ledger.hold_end SET charged = 0",
        "DELETE FROM ledger.hold_end",
        "DELETE FROM ledger.settlement",
        "UPDATE ledger.earning SET weight = 1",
        "UPDATE ledger.account SET owner = 1 WHERE kind = 1",
        "UPDATE ledger.price_revision SET fee_per_mille = 0",
        "UPDATE ledger.balance SET credits = credits + 1",
        "INSERT INTO ledger.balance (account, floor_zero) VALUES (77, true)",
        "DELETE FROM ledger.balance",
        "TRUNCATE ledger.balance",
    };
    struct scene scene;

    (void)state;
    scene_set(&scene);
    scene_compute(&scene);
    assert_int_equal(hold_amount(&scene, 5000000), STATUS_OK);
    assert_int_equal(settle(&scene), STATUS_OK);
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        struct error err = {0};

        assert_int_equal(db_script(books.db, commands[i], &err),
                         STATUS_INTERNAL);
        if (strcmp(err.code, "42501") != 0)
            fail_msg("%s: %s", commands[i], err.text);
    }
    scene_clear(&scene);
}

/* Even the owner of the tables, inserting by hand, meets the rules. */
static void
rows_inserted_by_hand_obey_the_same_rules(void **state)
{
    struct scene scene;
    struct error err = {0};
    char sql[512];

    (void)state;
    scene_set(&scene);
    scene_compute(&scene);
    assert_int_equal(hold_amount(&scene, 5000000), STATUS_OK);
    assert_int_equal(settle(&scene), STATUS_OK);
    /* A second set of legs with the same sum. */
    (void)snprintf(sql, sizeof(sql),
                   "INSERT INTO ledger.transfer (seq, grp, leg, code, dr, cr,"
                   " amount) VALUES (999999, '%s', 50, 11, %lld, 2, 3000000)",
                   scene.job, (long long)scene.wallet);
    assert_int_equal(db_script(books.db, sql, &err), STATUS_INTERNAL);
    assert_string_equal(err.code, "23514");
    /* A job's codes without a job. */
    (void)snprintf(sql, sizeof(sql),
                   "INSERT INTO ledger.transfer (seq, grp, leg, code, dr, cr,"
                   " amount) VALUES (999999, gen_random_uuid(), 0, 11, %lld, 2,"
                   " 1)",
                   (long long)scene.wallet);
    assert_int_equal(db_script(books.db, sql, &err), STATUS_INTERNAL);
    assert_string_equal(err.code, "23514");
    /* More than there is. */
    (void)snprintf(sql, sizeof(sql),
                   "INSERT INTO ledger.transfer (seq, grp, leg, code, dr, cr,"
                   " amount) VALUES (999999, gen_random_uuid(), 0, 50, %lld, 2,"
                   " %d)",
                   (long long)scene.wallet, FUNDS);
    assert_int_equal(db_script(books.db, sql, &err), STATUS_NO_FUNDS);
    scene_clear(&scene);
}

static void
accounts_are_opened_once(void **state)
{
    char node[UUID_TEXT_BYTES];
    int64_t owner = next_owner++;
    int64_t wallet = books_wallet(&books, owner, 0);
    int64_t maturing;

    (void)state;
    assert_int_equal(books_wallet(&books, owner, 0), wallet);
    books_uuid(next_id++, node);
    maturing = books_node(&books, owner, node);
    assert_int_not_equal(maturing, wallet);
    assert_int_equal(books_node(&books, owner, node), maturing);
    assert_int_not_equal(books_node(&books, owner + 1, node), maturing);
    next_owner++;
}

static struct earnings_row
only_row(enum earnings_by by, int64_t owner, size_t expected)
{
    struct earnings_row *rows = NULL;
    struct earnings_row first = {0};
    struct error err = {0};
    size_t count = 0;

    assert_int_equal(ledger_earnings(books.db, by, owner, (struct instant){0},
                                     (struct instant){0}, &rows, &count, &err),
                     STATUS_OK);
    assert_int_equal(count, expected);
    if (count > 0)
        first = rows[0];
    free(rows);
    return first;
}

/* Net 2,850,000 ucr over weights 1 and 3: 712,500 and 2,137,500. */
static void
earnings_count_a_pod_s_tokens_once(void **state)
{
    struct scene scene;
    struct earnings_row row;
    const struct settlement_attempt *attempt = &scene.settlement.attempts[0];

    (void)state;
    scene_set(&scene);
    scene_compute(&scene);
    assert_int_equal(hold_amount(&scene, 5000000), STATUS_OK);
    assert_int_equal(settle(&scene), STATUS_OK);

    row = only_row(EARNINGS_BY_NODE, scene.lender, 2);
    assert_string_equal(row.id, attempt->members[1].node);
    assert_int_equal(row.credits.micro, 2137500);
    assert_int_equal(row.completion_tokens, 50);
    row = only_row(EARNINGS_BY_POD, scene.lender, 1);
    assert_string_equal(row.id, attempt->pod);
    assert_int_equal(row.credits.micro, 2850000);
    assert_int_equal(row.jobs, 1);
    assert_int_equal(row.prompt_tokens, 100);
    assert_int_equal(row.completion_tokens, 50);
    row = only_row(EARNINGS_BY_OWNER, scene.lender, 1);
    assert_int_equal(row.credits.micro, 2850000);
    assert_int_equal(row.completion_tokens, 50);
    row = only_row(EARNINGS_BY_MODEL, scene.lender, 1);
    assert_string_equal(row.id, "tiny");
    assert_int_equal(row.prompt_tokens, 100);
    row = only_row(EARNINGS_BY_DAY, scene.lender, 1);
    assert_int_equal(strlen(row.id), strlen("2026-11-30"));
    (void)only_row(EARNINGS_BY_DAY, scene.owner, 0);
    scene_clear(&scene);
}

/* Node 0 of the pod began alone and delivered 20 ids, the pod the other 30
 * after reading 120 ids again, worth 1,200,000 ucr: it has the whole fee of
 * 150,000.  Of 2,850,000 node 0 has 950,000 + 760,000 for the first attempt,
 * the pod 1,140,000 by weights 1 and 3. */
static void
a_re_prefill_is_earned_from_the_fee_and_counts_no_tokens_again(void **state)
{
    struct scene scene;
    struct settlement *s = &scene.settlement;
    struct earnings_row row;
    int64_t fees = books_number(&books, "SELECT credits FROM ledger.balance"
                                        " WHERE account = 2");

    (void)state;
    scene_set(&scene);
    s->attempts[1] = s->attempts[0];
    s->attempts[1].number = 2;
    s->attempts[1].done = 20;
    s->attempts[1].ids = 30;
    s->attempts[0].ids = 20;
    s->attempts[0].member_count = 1;
    s->attempts[0].pod[0] = '\0';
    s->attempt_count = 2;
    scene_compute(&scene);
    assert_int_equal(hold_amount(&scene, 5000000), STATUS_OK);
    assert_int_equal(settle(&scene), STATUS_OK);
    assert_balance(scene.owner, FUNDS - 3000000, 0, 0);
    assert_balance(scene.lender, 0, 0, 3000000);
    assert_int_equal(books_number(&books, "SELECT credits FROM ledger.balance"
                                          " WHERE account = 2"),
                     fees);

    row = only_row(EARNINGS_BY_OWNER, scene.lender, 1);
    assert_int_equal(row.credits.micro, 3000000);
    assert_int_equal(row.reprefill.micro, 150000);
    assert_int_equal(row.jobs, 1);
    assert_int_equal(row.prompt_tokens, 100);
    assert_int_equal(row.completion_tokens, 50);
    row = only_row(EARNINGS_BY_NODE, scene.lender, 2);
    assert_string_equal(row.id, s->attempts[0].members[0].node);
    assert_int_equal(row.credits.micro, 1710000 + 285000 + 37500);
    assert_int_equal(row.reprefill.micro, 37500);
    assert_int_equal(row.jobs, 1);
    assert_int_equal(row.prompt_tokens, 100);
    assert_int_equal(row.completion_tokens, 50);
    row = only_row(EARNINGS_BY_POD, scene.lender, 1);
    assert_int_equal(row.credits.micro, 1140000 + 150000);
    assert_int_equal(row.reprefill.micro, 150000);
    assert_int_equal(row.prompt_tokens, 0);
    assert_int_equal(row.completion_tokens, 30);
    scene_clear(&scene);
}

/* Like an earning, a re-prefill is for a node and belongs to a job. */
static void
a_re_prefill_goes_to_nodes_only(void **state)
{
    struct scene scene;
    struct error err = {0};
    char sql[512];

    (void)state;
    scene_set(&scene);
    scene_compute(&scene);
    assert_int_equal(hold_amount(&scene, 5000000), STATUS_OK);
    scene.result.legs[0].code = 12; /* the fee's: to no node */
    assert_int_equal(settle(&scene), STATUS_INTERNAL);
    (void)snprintf(sql, sizeof(sql),
                   "INSERT INTO ledger.transfer (seq, grp, leg, code, dr, cr,"
                   " amount) VALUES (999999, gen_random_uuid(), 0, 12, %lld,"
                   " %lld, 1)",
                   (long long)scene.wallet,
                   (long long)scene.settlement.attempts[0].members[0].account);
    assert_int_equal(db_script(books.db, sql, &err), STATUS_INTERNAL);
    assert_string_equal(err.code, "23514");
    assert_balance(scene.owner, FUNDS - 5000000, 5000000, 0);
    scene_clear(&scene);
}

static void
open_holds_are_listed_until_they_end(void **state)
{
    struct scene scene;
    struct db_rows *rows = NULL;
    struct error err = {0};
    bool found = false;

    (void)state;
    scene_set(&scene);
    assert_int_equal(hold_amount(&scene, 1), STATUS_OK);
    assert_int_equal(ledger_open_holds(books.db, &rows, &err), STATUS_OK);
    for (size_t i = 0; i < db_row_count(rows); i++)
        found = found || strcmp(db_text(rows, i, 0), scene.job) == 0;
    assert_true(found);
    db_rows_free(rows);
    assert_int_equal(release_job(&scene), STATUS_OK);
    assert_int_equal(ledger_open_holds(books.db, &rows, &err), STATUS_OK);
    for (size_t i = 0; i < db_row_count(rows); i++)
        assert_string_not_equal(db_text(rows, i, 0), scene.job);
    db_rows_free(rows);
    scene_clear(&scene);
}

/* The role of a coordinator can call the functions and change nothing else. */
static void
the_coordinator_s_role_moves_money_by_functions_only(void **state)
{
    static const char *const refused[] = {
        "INSERT INTO ledger.account (owner, kind, floor_zero)"
        " VALUES (4711, 1, true)",
        "UPDATE ledger.head SET epoch = epoch + 1",
        "INSERT INTO ledger.transfer (seq, grp, leg, code, dr, cr, amount)"
        " VALUES (1, gen_random_uuid(), 0, 50, 1, 2, 1)",
        "SELECT ledger.take(1, 1)",
        "ALTER TABLE ledger.transfer DISABLE TRIGGER ALL",
        "TRUNCATE ledger.head",
    };
    struct error err = {0};
    struct db *db = NULL;

    (void)state;
    assert_int_equal(db_open(books.conninfo, &db, &err), STATUS_OK);
    assert_int_equal(db_script(db, "SET ROLE berth_coordinator", &err),
                     STATUS_OK);
    assert_int_equal(db_script(db, "SELECT * FROM ledger.violation", &err),
                     STATUS_OK);
    assert_int_equal(db_script(db, "SELECT ledger.open_person(4711)", &err),
                     STATUS_OK);
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        assert_int_equal(db_script(db, refused[i], &err), STATUS_INTERNAL);
        if (strcmp(err.code, "42501") != 0)
            fail_msg("%s: %s", refused[i], err.text);
    }
    assert_int_equal(db_script(db, "SET ROLE berth_audit", &err), STATUS_OK);
    assert_int_equal(db_script(db, "SELECT * FROM ledger.violation", &err),
                     STATUS_OK);
    assert_int_equal(db_script(db, "SELECT ledger.open_person(1)", &err),
                     STATUS_INTERNAL);
    db_close(db);
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_teardown(f, check_books)
    const struct CMUnitTest tests[] = {
        TEST(a_hold_reserves_and_a_settlement_pays_fee_and_members),
        TEST(a_hold_above_the_balance_is_refused_with_both_amounts),
        TEST(a_repeated_hold_is_one_hold_and_other_content_a_conflict),
        TEST(a_job_settles_once_whatever_comes_later),
        TEST(a_released_job_cannot_be_settled),
        TEST(a_charge_above_the_hold_is_refused),
        TEST(legs_that_are_not_the_charge_are_refused),
        TEST(a_grant_happens_once_for_its_id),
        TEST(an_epoch_that_is_over_moves_nothing),
        TEST(rows_of_the_ledger_cannot_be_changed_or_removed),
        TEST(rows_inserted_by_hand_obey_the_same_rules),
        TEST(accounts_are_opened_once),
        TEST(earnings_count_a_pod_s_tokens_once),
        TEST(a_re_prefill_is_earned_from_the_fee_and_counts_no_tokens_again),
        TEST(a_re_prefill_goes_to_nodes_only),
        TEST(open_holds_are_listed_until_they_end),
        TEST(the_coordinator_s_role_moves_money_by_functions_only),
    };

    return cmocka_run_group_tests_name("ledger_ledger", tests, start, stop);
}
