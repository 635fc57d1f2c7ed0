/* ledger_bench.c - whole lives of jobs a second, as a ratio to raw inserts.
 *
 * Against a private PostgreSQL with fsync on.  Each round measures, one after
 * the other, single-row autocommit inserts on one connection and jobs through
 * the writer (a hold, then a settlement with a fee and two earning legs, each a
 * write of its own) with IN_FLIGHT jobs under way.  The median of the rounds is
 * printed as one JSON line; the ratio does not depend on the machine much.
 *
 *   ledger_bench [SECONDS_PER_ROUND] */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "tests/harness/books.h"

#include "common/banned.h"

enum { ROUNDS = 3, IN_FLIGHT = 256, WALLETS = 64, SECONDS_MAX = 60 };

static struct books books;
static struct span round_time;
static int64_t wallets[WALLETS];
static int64_t members[2];
static char nodes[2][UUID_TEXT_BYTES];
static uint64_t next_job = 1;

static const struct statement raw_statement = {
    .name = "bench_raw",
    .sql = "INSERT INTO public.raw (number, note) VALUES ($1::bigint, $2)",
    .shape = DB_NONE,
    .param_count = 2,
};

static double
rate(uint64_t count, struct span began)
{
    struct span took = span_sub(clock_monotonic(), began);

    return (double)count * 1e9 / (double)took.ns;
}

static bool
is_over(struct span began)
{
    return span_sub(clock_monotonic(), began).ns >= round_time.ns;
}

static double
measure_raw(void)
{
    struct db_param params[] = {{.text = "1"}, {.text = "a row of some size"}};
    struct span began = clock_monotonic();
    struct error err = {0};
    uint64_t count = 0;

    for (; !is_over(began); count++) {
        enum status status =
            db_run(books.db, &raw_statement, params, NULL, &err);

        assert(status == STATUS_OK);
        (void)status;
    }
    return rate(count, began);
}

/* One job under way: its hold, then its settlement, then the next. */
struct lane {
    int64_t wallet;
    bool settling;
    struct settlement settlement;
    struct settlement_result result;
    struct buf record;
    struct answer answer;
};

static void
hold_submit(struct lane *lane)
{
    struct write *write = answer_write(&lane->answer);

    books_uuid(next_job++, lane->settlement.job);
    lane->settling = false;
    ledger_hold(write, books.epoch, lane->settlement.job, lane->wallet,
                (struct credits){200000}, 1);
    writer_submit(books.writer, write);
}

static void
settle_submit(struct lane *lane)
{
    struct write *write = answer_write(&lane->answer);
    struct error err = {0};
    enum status status;

    lane->settling = true;
    buf_reset(&lane->record);
    status = settlement_compute(&lane->settlement, LEDGER_FEE_ID, &lane->result,
                                &lane->record, &err);
    assert(status == STATUS_OK);
    (void)status;
    ledger_settle(write, books.epoch, &lane->settlement, &lane->result,
                  &lane->record);
    writer_submit(books.writer, write);
}

static void
lane_init(struct lane *lane, size_t index)
{
    struct settlement *s = &lane->settlement;

    memset(lane, 0, sizeof(*lane));
    buf_init(&lane->record, 65536);
    lane->wallet = wallets[index % WALLETS];
    (void)snprintf(s->model, sizeof(s->model), "bench");
    (void)snprintf(s->finish, sizeof(s->finish), "stop");
    s->payer = lane->wallet;
    s->n_in = 100;
    s->n_out = 20;
    s->context = 120;
    s->revision = price_revision_1;
    s->price_model.bytes_per_token = 500000000;
    s->price_model.flop_per_token = 1000000000;
    s->attempt_count = 1;
    s->attempts[0].number = 1;
    s->attempts[0].ids = 20;
    s->attempts[0].member_count = 2;
    for (int i = 0; i < 2; i++) {
        s->attempts[0].members[i].account = members[i];
        s->attempts[0].members[i].weight = 1;
        memcpy(s->attempts[0].members[i].node, nodes[i], sizeof(nodes[i]));
    }
}

static double
measure_jobs(struct lane *lanes)
{
    struct span began = clock_monotonic();
    uint64_t count = 0;
    size_t busy = IN_FLIGHT;

    for (size_t i = 0; i < IN_FLIGHT; i++)
        hold_submit(&lanes[i]);
    for (size_t i = 0; busy > 0; i = (i + 1) % IN_FLIGHT) {
        enum status status;

        if (lanes[i].wallet == 0)
            continue;
        status = answer_wait(&lanes[i].answer);
        assert(status == STATUS_OK);
        (void)status;
        if (!lanes[i].settling) {
            settle_submit(&lanes[i]);
            continue;
        }
        count++;
        if (is_over(began)) {
            lanes[i].wallet = 0; /* this lane is done */
            busy--;
        } else {
            hold_submit(&lanes[i]);
        }
    }
    return rate(count, began);
}

static int
by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double
median(double *values)
{
    qsort(values, ROUNDS, sizeof(*values), by_value);
    return values[ROUNDS / 2];
}

static void
run_rounds(struct lane *lanes)
{
    double raw[ROUNDS];
    double jobs[ROUNDS];
    double ratios[ROUNDS];
    double raw_median;
    double jobs_median;

    for (int i = 0; i < ROUNDS; i++) {
        for (size_t j = 0; j < IN_FLIGHT; j++) {
            buf_clear(&lanes[j].record);
            lane_init(&lanes[j], j);
        }
        raw[i] = measure_raw();
        jobs[i] = measure_jobs(lanes);
        ratios[i] = jobs[i] / raw[i];
    }
    raw_median = median(raw);
    jobs_median = median(jobs);
    (void)printf("{\"raw_inserts_per_s\":%.0f,\"jobs_per_s\":%.0f,"
                 "\"ratio\":%.2f,\"violations\":%" PRIu64 "}\n",
                 raw_median, jobs_median, median(ratios),
                 books_violations(&books));
}

int
main(int argc, char **argv)
{
    struct lane *lanes = mem_array(IN_FLIGHT, sizeof(*lanes));
    struct error err = {0};
    uint64_t seconds = 2;

    log_set_level(LOG_WARN);
    if (argc > 1 && parse_u64(argv[1], strlen(argv[1]), SECONDS_MAX,
                              &seconds) != STATUS_OK) {
        (void)fprintf(stderr, "ledger_bench: seconds up to %d\n", SECONDS_MAX);
        return 2;
    }
    round_time = span_s((int64_t)seconds);
    if (!books_open(&books, true) ||
        db_script(books.db,
                  "CREATE TABLE public.raw (id bigint GENERATED ALWAYS AS"
                  " IDENTITY PRIMARY KEY, number bigint, note text)",
                  &err) != STATUS_OK)
        return 1;
    for (int i = 0; i < WALLETS; i++)
        wallets[i] = books_wallet(&books, 2000 + i, INT64_C(100000000000));
    for (int i = 0; i < 2; i++) {
        books_uuid(0x900000000 + (uint64_t)i, nodes[i]);
        members[i] = books_node(&books, 1999, nodes[i]);
    }
    for (size_t i = 0; i < IN_FLIGHT; i++)
        lane_init(&lanes[i], i);
    run_rounds(lanes);
    for (size_t i = 0; i < IN_FLIGHT; i++)
        buf_clear(&lanes[i].record);
    free(lanes);
    books_close(&books);
    return 0;
}
