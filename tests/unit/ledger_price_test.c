/* ledger_price_test.c - prices calculated by hand, and the bounds. */
#include "ledger/price.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/banned.h"

/* The design's example: 27 B parameters in 4 bits, 15.2 GB a token, two FLOP a
 * parameter. */
static const struct price_model dense_27b = {
    .bytes_per_token = UINT64_C(15200000000),
    .flop_per_token = UINT64_C(54000000000),
    .weight_bytes = UINT64_C(12000000000),
};

static struct price
price_of(const struct price_model *model, uint64_t n_in, uint64_t n_cached,
         uint64_t n_out, uint64_t context)
{
    struct price price = {{0}, {0}, {0}, {0}, 0};
    struct error err = {0};

    if (price_compute(&price_revision_1, model, n_in, n_cached, n_out, context,
                      &price, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return price;
}

/* D = 500 * 15.2 GB = 7.6 TB at 10,000 ucr/GB; F = 2000 * 54 GFLOP = 108 TFLOP
 * at 250,000 ucr/TFLOP. */
static void
the_design_s_example_costs_76_and_27_credits(void **state)
{
    struct price price = price_of(&dense_27b, 2000, 0, 500, 2500);

    (void)state;
    assert_int_equal(price.decode.micro, 76000000);
    assert_int_equal(price.prefill.micro, 27000000);
    assert_int_equal(price.total.micro, 103000000);
    assert_int_equal(price.fee.micro, 5150000);
    assert_int_equal(price.class_per_mille, 1000);
}

/* kv * (500*2000 + 500*501/2) = 65,536 * 1,125,250 = 73,744,384,000 bytes more:
 * D = 7,673,744,384,000 -> 76,737,443.84 ucr.  at * 2000^2 = 40 GFLOP more:
 * F = 108.04 TFLOP -> 27,010,000 ucr.  The sum, 103,747,443.84, is rounded up
 * once; 5 % of it down. */
static void
kv_and_attention_are_counted_and_the_sum_is_rounded_up_once(void **state)
{
    struct price_model model = dense_27b;
    struct price_work work;
    struct price price;

    (void)state;
    model.kv_bytes_per_token = 65536;
    model.attention_flop = 10000;
    model.weight_bytes = 0;
    price = price_of(&model, 2000, 0, 500, 2500);
    assert_int_equal(price_work(&model, 2000, 0, 500, &work, NULL), STATUS_OK);
    assert_int_equal(work.bytes, 7673744384000);
    assert_int_equal(work.flop, 108040000000000);
    assert_int_equal(price.prefill.micro, 27010000);
    assert_int_equal(price.decode.micro, 76737444);
    assert_int_equal(price.total.micro, 103747444);
    assert_int_equal(price.fee.micro, 5187372);
}

/* 500 * 54 GFLOP + 10,000 * (2000^2 - 1500^2) = 27.0175 TFLOP. */
static void
cached_tokens_are_not_prefilled(void **state)
{
    struct price_model model = dense_27b;

    (void)state;
    model.attention_flop = 10000;
    assert_int_equal(price_of(&model, 2000, 1500, 500, 2500).prefill.micro,
                     6754375);
    assert_int_equal(price_of(&model, 2000, 2000, 500, 2500).prefill.micro, 0);
}

/* One GFLOP is 250 ucr, one MB is 10 ucr: 260 in all, raised to 1,000; of which
 * 1000 * 250/260 = 961.5... is prefill, rounded up. */
static void
the_smallest_charge_is_divided_like_the_exact_terms(void **state)
{
    struct price_model model = {.bytes_per_token = 1000000,
                                .flop_per_token = 1000000000};
    struct price_model nothing = {.weight_bytes = 1};
    struct price price = price_of(&model, 1, 0, 1, 2);

    (void)state;
    assert_int_equal(price.total.micro, 1000);
    assert_int_equal(price.prefill.micro, 962);
    assert_int_equal(price.decode.micro, 38);
    assert_int_equal(price.fee.micro, 50);
    price = price_of(&nothing, 1, 0, 1, 2);
    assert_int_equal(price.prefill.micro, 1000);
    assert_int_equal(price.decode.micro, 0);
}

static void
the_footprint_decides_the_class_at_its_very_limits(void **state)
{
    static const struct {
        uint64_t resident;
        uint64_t per_mille;
    } cases[] = {
        {0, 1000},
        {UINT64_C(12000000000), 1000},
        {UINT64_C(12000000001), 1050},
        {UINT64_C(40000000000), 1050},
        {UINT64_C(40000000001), 1150},
        {UINT64_C(96000000000), 1150},
        {UINT64_C(96000000001), 1300},
        {UINT64_C(192000000000), 1300},
        {UINT64_C(192000000001), 1500},
        {UINT64_C(1) << 62, 1500},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct price_model model = dense_27b;
        struct price price;

        model.weight_bytes = cases[i].resident;
        price = price_of(&model, 2000, 0, 500, 2500);
        assert_int_equal(price.class_per_mille, cases[i].per_mille);
        assert_int_equal(price.total.micro, 103000 * cases[i].per_mille);
    }
}

/* 11.99 GB of weights and 100,000 positions of 100 bytes are 12 GB. */
static void
the_reserved_context_counts_as_footprint(void **state)
{
    struct price_model model = {.weight_bytes = UINT64_C(11990000000),
                                .kv_bytes_per_token = 100};

    (void)state;
    assert_int_equal(price_of(&model, 1, 0, 1, 100000).class_per_mille, 1000);
    assert_int_equal(price_of(&model, 1, 0, 1, 100001).class_per_mille, 1050);
}

static enum status
try_price(const struct price_revision *revision,
          const struct price_model *model, uint64_t n_in, uint64_t n_cached,
          uint64_t n_out)
{
    struct price price;
    struct error err;

    return price_compute(revision, model, n_in, n_cached, n_out, 0, &price,
                         &err);
}

static void
work_above_the_bounds_is_too_large(void **state)
{
    struct price_model model = {.bytes_per_token = 1};

    (void)state;
    model.bytes_per_token = UINT64_C(2000000000000000000);
    assert_int_equal(try_price(&price_revision_1, &model, 1, 0, 1), STATUS_OK);
    model.bytes_per_token++;
    assert_int_equal(try_price(&price_revision_1, &model, 1, 0, 1),
                     STATUS_TOO_LARGE);
    model.bytes_per_token = UINT64_MAX;
    assert_int_equal(try_price(&price_revision_1, &model, 1, 0, 1),
                     STATUS_TOO_LARGE);
    model.bytes_per_token = 1;
    assert_int_equal(try_price(&price_revision_1, &model, UINT64_MAX, 0, 1),
                     STATUS_TOO_LARGE);
    assert_int_equal(try_price(&price_revision_1, &model, 1, 0, UINT64_MAX),
                     STATUS_TOO_LARGE);
}

/* 2 * 10^9 GB at 10^6 ucr is 2 * 10^15 ucr, twice what an amount may be. */
static void
a_price_above_what_an_amount_holds_is_too_large(void **state)
{
    struct price_revision revision = price_revision_1;
    struct price_model model = {.bytes_per_token = UINT64_C(1) << 60};

    (void)state;
    revision.ucr_per_gb = 1000000;
    assert_int_equal(try_price(&revision, &model, 1, 0, 1), STATUS_TOO_LARGE);
}

static void
wrong_input_is_refused(void **state)
{
    struct price_revision revision = price_revision_1;

    (void)state;
    assert_int_equal(try_price(&revision, &dense_27b, 1, 2, 1), STATUS_INVALID);
    revision.fee_per_mille = 1001;
    assert_int_equal(try_price(&revision, &dense_27b, 1, 0, 1), STATUS_INVALID);
    revision = price_revision_1;
    revision.ucr_per_gb = 1000001;
    assert_int_equal(try_price(&revision, &dense_27b, 1, 0, 1), STATUS_INVALID);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_design_s_example_costs_76_and_27_credits),
        cmocka_unit_test(
            kv_and_attention_are_counted_and_the_sum_is_rounded_up_once),
        cmocka_unit_test(cached_tokens_are_not_prefilled),
        cmocka_unit_test(the_smallest_charge_is_divided_like_the_exact_terms),
        cmocka_unit_test(the_footprint_decides_the_class_at_its_very_limits),
        cmocka_unit_test(the_reserved_context_counts_as_footprint),
        cmocka_unit_test(work_above_the_bounds_is_too_large),
        cmocka_unit_test(a_price_above_what_an_amount_holds_is_too_large),
        cmocka_unit_test(wrong_input_is_refused),
    };

    return cmocka_run_group_tests_name("ledger_price", tests, NULL, NULL);
}
