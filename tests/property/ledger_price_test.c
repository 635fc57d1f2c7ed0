/* ledger_price_test.c - the price against a second implementation, and laws
 * that hold for every price. */
#include "ledger/price.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/prng.h"

#include "common/banned.h"

enum { COLUMNS = 23, INPUTS = 18, LAWS_COUNT = 20000 };

#define SEED UINT64_C(20261130)

static size_t
numbers_read(const char **at, uint64_t numbers[static COLUMNS])
{
    size_t count = 0;

    while (**at != '\n' && **at != '\0' && count < COLUMNS) {
        size_t size = strcspn(*at, " \n");

        if (parse_u64(*at, size, UINT64_MAX, &numbers[count]) == STATUS_OK)
            count++;
        *at += size;
        *at += strspn(*at, " ");
    }
    *at += **at == '\n' ? 1 : 0;
    return count;
}

static void
check_line(const uint64_t *n, size_t count, size_t line)
{
    struct price_revision revision = {
        .revision = 2,
        .ucr_per_tflop = n[0],
        .ucr_per_gb = n[1],
        .minimum_ucr = n[2],
        .fee_per_mille = n[3],
        .class_per_mille = {n[4], n[5], n[6], n[7], n[8]},
    };
    struct price_model model = {n[9], n[10], n[11], n[12], n[13]};
    struct price price;
    struct error err;
    enum status status;

    memcpy(revision.class_limit_bytes, price_revision_1.class_limit_bytes,
           sizeof(revision.class_limit_bytes));
    status = price_compute(&revision, &model, n[14], n[15], n[16], n[17],
                           &price, &err);
    if (count == INPUTS) {
        if (status != STATUS_TOO_LARGE)
            fail_msg("line %zu: accepted", line);
        return;
    }
    assert_int_equal(count, COLUMNS);
    assert_int_equal(status, STATUS_OK);
    if (price.prefill.micro != (int64_t)n[18] ||
        price.decode.micro != (int64_t)n[19] ||
        price.total.micro != (int64_t)n[20] ||
        price.fee.micro != (int64_t)n[21] || price.class_per_mille != n[22])
        fail_msg("line %zu: another price", line);
}

static void
equals_the_big_integer_implementation(void **state)
{
    uint64_t numbers[COLUMNS] = {0};
    struct buf text;
    struct error err = {0};
    const char *at;
    size_t line = 1;

    (void)state;
    buf_init(&text, 1024 * 1024);
    assert_int_equal(
        buf_read_file(&text, "tests/golden/ledger_price.tsv", &err), STATUS_OK);
    at = strchr(text.data, '\n') + 1; /* the first line names the columns */
    while (*at != '\0') {
        size_t count = numbers_read(&at, numbers);

        check_line(numbers, count, ++line);
    }
    assert_true(line > 500);
    buf_clear(&text);
}

static struct price
price_or_fail(const struct price_model *model, uint64_t n_in, uint64_t n_cached,
              uint64_t n_out)
{
    struct price price = {{0}, {0}, {0}, {0}, 0};
    struct error err = {0};

    if (price_compute(&price_revision_1, model, n_in, n_cached, n_out,
                      n_in + n_out, &price, &err) != STATUS_OK)
        fail_msg("seed %llu: %s", (unsigned long long)SEED, err.text);
    return price;
}

/* Cutting an answer into two jobs is never cheaper; more work never costs less;
 * the parts are the whole. */
static void
more_work_costs_more_and_splitting_a_job_gains_nothing(void **state)
{
    struct prng prng;

    (void)state;
    prng_seed(&prng, SEED);
    for (int i = 0; i < LAWS_COUNT; i++) {
        struct price_model model = {
            prng_below(&prng, UINT64_C(100000000000)),
            prng_below(&prng, 1000000),
            prng_below(&prng, UINT64_C(1000000000000)),
            prng_below(&prng, 1000000),
            0,
        };
        uint64_t n_in = 1 + prng_below(&prng, 10000);
        uint64_t n_cached = prng_below(&prng, n_in);
        uint64_t n_out = 2 + prng_below(&prng, 2000);
        uint64_t cut = 1 + prng_below(&prng, n_out - 1);
        struct price whole = price_or_fail(&model, n_in, n_cached, n_out);
        struct price head = price_or_fail(&model, n_in, n_cached, cut);
        struct price tail =
            price_or_fail(&model, n_in + cut, n_in + cut, n_out - cut);

        assert_true(whole.prefill.micro + whole.decode.micro ==
                    whole.total.micro);
        assert_true(whole.prefill.micro >= 0 && whole.decode.micro >= 0);
        assert_true(whole.total.micro >= 1000);
        assert_true(whole.total.micro >= head.total.micro);
        assert_true(head.total.micro + tail.total.micro >= whole.total.micro);
        assert_true(
            price_or_fail(&model, n_in + 1, n_cached, n_out).total.micro >=
            whole.total.micro);
        assert_true(
            price_or_fail(&model, n_in, n_cached + 1, n_out).total.micro <=
            whole.total.micro);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_big_integer_implementation),
        cmocka_unit_test(
            more_work_costs_more_and_splitting_a_job_gains_nothing),
    };

    return cmocka_run_group_tests_name("ledger_price_laws", tests, NULL, NULL);
}
