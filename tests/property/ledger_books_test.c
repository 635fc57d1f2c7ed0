/* ledger_books_test.c - a reference ledger in memory predicts every answer and
 * every balance of PostgreSQL over random commands, repeated ids included,
 * while connections are cut. */
#include "ledger/ledger.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"
#include "common/prng.h"
#include "tests/harness/books.h"

#include "common/banned.h"

enum {
    WALLETS = 5,
    NODES = 4,
    JOBS = 300,
    GRANTS = 40,
    ROUNDS = 40,
    BURST_MAX = 80,
    CHARGE_VARIANTS = 3,
    LENDER = 900,
    FIRST_OWNER = 1000,
};

#define SEED UINT64_C(20261130)

/* --- the reference -------------------------------------------------------- */

enum job_state { JOB_NEW, JOB_HELD, JOB_SETTLED, JOB_RELEASED };

struct job_model {
    enum job_state state;
    int wallet;
    int64_t amount;
    int64_t charge;
    int variant;
};

struct grant_model {
    bool made;
    int wallet;
    int64_t amount;
};

static struct {
    int64_t free[WALLETS];
    int64_t held[WALLETS];
    int64_t nodes[NODES];
    int64_t fee;
    int64_t issued;
    int64_t transfers;
    struct job_model jobs[JOBS];
    struct grant_model grants[GRANTS];
} model;

enum command_kind {
    COMMAND_GRANT,
    COMMAND_HOLD,
    COMMAND_SETTLE,
    COMMAND_RELEASE
};

struct command {
    enum command_kind kind;
    int id; /* of the job or grant */
    int wallet;
    int node;
    int variant; /* which of several settlements of the same job */
    int64_t amount;
};

static int64_t
fee_of(int64_t charge)
{
    return charge / 20;
}

static enum status
model_grant(const struct command *c)
{
    struct grant_model *grant = &model.grants[c->id];

    if (grant->made)
        return grant->wallet == c->wallet && grant->amount == c->amount
                   ? STATUS_OK
                   : STATUS_CONFLICT;
    *grant = (struct grant_model){true, c->wallet, c->amount};
    model.free[c->wallet] += c->amount;
    model.issued += c->amount;
    model.transfers++;
    return STATUS_OK;
}

static enum status
model_hold(const struct command *c)
{
    struct job_model *job = &model.jobs[c->id];

    if (job->state != JOB_NEW)
        return job->wallet == c->wallet && job->amount == c->amount
                   ? STATUS_OK
                   : STATUS_CONFLICT;
    if (c->amount > model.free[c->wallet])
        return STATUS_NO_FUNDS;
    *job = (struct job_model){JOB_HELD, c->wallet, c->amount, 0, 0};
    model.free[c->wallet] -= c->amount;
    model.held[c->wallet] += c->amount;
    return STATUS_OK;
}

static enum status
model_settle(const struct command *c)
{
    struct job_model *job = &model.jobs[c->id];

    switch (job->state) {
    case JOB_NEW:
        return STATUS_NOT_FOUND;
    case JOB_RELEASED:
        return STATUS_CONFLICT;
    case JOB_SETTLED:
        return job->charge == c->amount && job->variant == c->variant
                   ? STATUS_OK
                   : STATUS_CONFLICT;
    case JOB_HELD:
        break;
    }
    if (c->amount > job->amount)
        return STATUS_INTERNAL;
    job->state = JOB_SETTLED;
    job->charge = c->amount;
    job->variant = c->variant;
    model.held[job->wallet] -= job->amount;
    model.free[job->wallet] += job->amount - c->amount;
    model.fee += fee_of(c->amount);
    model.nodes[c->node] += c->amount - fee_of(c->amount);
    model.transfers += fee_of(c->amount) > 0 ? 2 : 1;
    return STATUS_OK;
}

static enum status
model_release(const struct command *c)
{
    struct job_model *job = &model.jobs[c->id];

    if (job->state == JOB_NEW)
        return STATUS_NOT_FOUND;
    if (job->state == JOB_SETTLED)
        return STATUS_CONFLICT;
    if (job->state == JOB_HELD) {
        model.held[job->wallet] -= job->amount;
        model.free[job->wallet] += job->amount;
        job->state = JOB_RELEASED;
    }
    return STATUS_OK;
}

static enum status
model_apply(const struct command *c)
{
    switch (c->kind) {
    case COMMAND_GRANT:
        return model_grant(c);
    case COMMAND_HOLD:
        return model_hold(c);
    case COMMAND_SETTLE:
        return model_settle(c);
    case COMMAND_RELEASE:
        return model_release(c);
    }
    return STATUS_INTERNAL;
}

/* --- the real one --------------------------------------------------------- */

static struct books books;
static int64_t wallets[WALLETS];
static int64_t node_accounts[NODES];
static char nodes[NODES][UUID_TEXT_BYTES];

static void
settle_add(struct write *write, const struct command *c, const char *job)
{
    struct settlement settlement = {
        .model = "tiny",
        .n_in = 1,
        .n_out = 1,
        .attempts = {{.number = 1, .ids = 1}},
        .attempt_count = 1,
    };
    struct settlement_result result = {.price.total = {c->amount}};
    struct settlement_leg *leg = &result.legs[0];
    struct buf record;

    memcpy(settlement.job, job, sizeof(settlement.job));
    if (fee_of(c->amount) > 0)
        *leg++ = (struct settlement_leg){
            .code = 11,
            .account = LEDGER_FEE_ID,
            .amount = {fee_of(c->amount)},
        };
    *leg = (struct settlement_leg){
        .code = 10,
        .account = node_accounts[c->node],
        .amount = {c->amount - fee_of(c->amount)},
        .attempt = 1,
        .weight = 1,
    };
    memcpy(leg->node, nodes[c->node], sizeof(leg->node));
    result.leg_count = (size_t)(leg - result.legs) + 1;
    buf_init(&record, 256);
    buf_printf(&record, "{\"variant\":%d}", c->variant);
    ledger_settle(write, books.epoch, &settlement, &result, &record);
    buf_clear(&record);
}

static void
command_submit(const struct command *c, struct answer *answer)
{
    struct write *write = answer_write(answer);
    char id[UUID_TEXT_BYTES];

    books_uuid((uint64_t)c->id + (c->kind == COMMAND_GRANT ? 0x100000 : 0), id);
    switch (c->kind) {
    case COMMAND_GRANT:
        ledger_grant(write, books.epoch, id, wallets[c->wallet],
                     (struct credits){c->amount});
        break;
    case COMMAND_HOLD:
        ledger_hold(write, books.epoch, id, wallets[c->wallet],
                    (struct credits){c->amount}, 1);
        break;
    case COMMAND_SETTLE:
        settle_add(write, c, id);
        break;
    case COMMAND_RELEASE:
        ledger_release(write, books.epoch, id);
        break;
    }
    writer_submit(books.writer, write);
}

/* --- the comparison ------------------------------------------------------- */

/* A window of ids moves on, so that new, live and ended jobs mix; wallets and
 * amounts are mostly what the id had before. */
static struct command
command_random(struct prng *prng, int round)
{
    static const enum command_kind kinds[] = {
        COMMAND_GRANT,  COMMAND_HOLD,   COMMAND_HOLD,   COMMAND_HOLD,
        COMMAND_SETTLE, COMMAND_SETTLE, COMMAND_SETTLE, COMMAND_RELEASE,
    };
    struct command c = {
        .kind = kinds[prng_below(prng, COUNT_OF(kinds))],
        .id = (int)((uint64_t)(round * (JOBS - 40) / ROUNDS) +
                    prng_below(prng, 40)),
        .variant = (int)prng_below(prng, CHARGE_VARIANTS),
    };
    bool odd = prng_below(prng, 10) == 0;

    if (c.kind == COMMAND_GRANT)
        c.id = (int)prng_below(prng, GRANTS);
    c.wallet = (c.id + (odd ? 1 : 0)) % WALLETS;
    c.node = (c.id + c.variant) % NODES;
    c.amount = 1 + (int64_t)((uint64_t)c.id * 7919 % 5000);
    if (c.kind == COMMAND_SETTLE) /* now and then above the hold */
        c.amount = 1 + c.amount * (c.variant + 1) / (odd ? 1 : 4);
    else if (prng_below(prng, 20) == 0)
        c.amount += 100000;
    return c;
}

static void
cut_the_connection(void)
{
    (void)books_number(&books, "SELECT count(pg_terminate_backend(pid)) FROM"
                               " pg_stat_activity WHERE application_name"
                               " LIKE 'berth-writer-%'");
}

static void
compare_balances(int round)
{
    struct ledger_balance balance;
    struct error err = {0};
    int64_t maturing = 0;

    for (int i = 0; i < WALLETS; i++) {
        assert_int_equal(
            ledger_balance_read(books.db, FIRST_OWNER + i, &balance, &err),
            STATUS_OK);
        if (balance.available.micro != model.free[i] ||
            balance.held.micro != model.held[i])
            fail_msg("seed %llu, round %d: wallet %d differs",
                     (unsigned long long)SEED, round, i);
    }
    for (int i = 0; i < NODES; i++)
        maturing += model.nodes[i];
    assert_int_equal(ledger_balance_read(books.db, LENDER, &balance, &err),
                     STATUS_OK);
    assert_int_equal(balance.maturing.micro, maturing);
    assert_int_equal(books_number(&books, "SELECT credits FROM ledger.balance"
                                          " WHERE account = 2"),
                     model.fee);
    assert_int_equal(books_number(&books, "SELECT debits FROM ledger.balance"
                                          " WHERE account = 1"),
                     model.issued);
    assert_int_equal(
        books_number(&books, "SELECT count(*) FROM ledger.transfer"),
        model.transfers);
    assert_int_equal(books_violations(&books), 0);
}

static void
every_answer_and_balance_is_as_predicted(void **state)
{
    static struct answer answers[BURST_MAX];
    static struct command commands[BURST_MAX];
    int seen[STATUS_INTERNAL + 1] = {0};
    struct prng prng;

    (void)state;
    prng_seed(&prng, SEED);
    for (int round = 0; round < ROUNDS; round++) {
        int count = 1 + (int)prng_below(&prng, BURST_MAX);

        for (int i = 0; i < count; i++) {
            commands[i] = command_random(&prng, round);
            command_submit(&commands[i], &answers[i]);
        }
        if (round % 4 == 0)
            cut_the_connection();
        for (int i = 0; i < count; i++) {
            enum status expected = model_apply(&commands[i]);
            enum status got = answer_wait(&answers[i]);

            seen[expected]++;
            if (got != expected)
                fail_msg("seed %llu, round %d, command %d (kind %d, id %d):"
                         " %s, not %s: %s",
                         (unsigned long long)SEED, round, i,
                         (int)commands[i].kind, commands[i].id,
                         status_name(got), status_name(expected),
                         answers[i].err.text);
        }
        compare_balances(round);
    }
    /* The stream was worth something: every kind of answer came. */
    assert_true(seen[STATUS_OK] > 200);
    assert_true(seen[STATUS_NO_FUNDS] > 10);
    assert_true(seen[STATUS_CONFLICT] > 50);
    assert_true(seen[STATUS_NOT_FOUND] > 50);
    assert_true(seen[STATUS_INTERNAL] > 5);
}

static int
start(void **state)
{
    (void)state;
    if (!books_open(&books, false))
        return -1;
    for (int i = 0; i < WALLETS; i++)
        wallets[i] = books_wallet(&books, FIRST_OWNER + i, 0);
    for (int i = 0; i < NODES; i++) {
        books_uuid(0x200000 + (uint64_t)i, nodes[i]);
        node_accounts[i] = books_node(&books, LENDER, nodes[i]);
    }
    return 0;
}

static int
stop(void **state)
{
    (void)state;
    books_close(&books);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_answer_and_balance_is_as_predicted),
    };

    return cmocka_run_group_tests_name("ledger_books", tests, start, stop);
}
