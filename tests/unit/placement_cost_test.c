/* placement_cost_test.c - the cost model against numbers worked out by hand.
 *
 * The model is that of tests/models/tiny-chat: 4 layers, 4 key/value heads of
 * 32, so 2 * 4 * 4 * 32 * 2 bytes = 2,048 bytes of cache a token. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "placement/cost.h"

#include "common/banned.h"

static const struct place_demand tiny = {
    .weight_bytes = 3000000,
    .bytes_per_token = 2500000,
    .kv_bytes_per_token = 2048,
    .flop_per_token = 2886400,
    .attention_flop = 2048,
    .hidden = 128,
    .prompt_tokens = 100,
    .output_tokens = 156,
};

static const struct place_target machine = {
    .queued_ns = 1000000,
    .bandwidth_gb_s = 10,
    .prefill_tflop_s = 0.1,
    .read_gb_s = 1,
};

static void
memory_is_the_sum_worked_out_by_hand(void **state)
{
    struct cost_memory memory = cost_memory(&tiny, false);

    (void)state;
    assert_true(memory.weight_bytes == 3000000);
    /* 1,024 elements of 4 bytes, 256 positions */
    assert_true(memory.kv_bytes == 1048576);
    /* 320 positions * 16 rows * 128 * 4 bytes, and 256 * 256 */
    assert_true(memory.activation_bytes == 2621440 + 65536);
    /* 32 MiB and a 32nd of the weights */
    assert_true(memory.reserve_bytes == 33554432 + 93750);
    /* 40,383,734 / 25 = 1,615,349.36 */
    assert_true(memory.margin_bytes == 1615350);
    assert_true(memory.total_bytes == 41999084);
}

static void
pinned_weights_are_not_counted_again(void **state)
{
    struct cost_memory memory = cost_memory(&tiny, true);

    (void)state;
    assert_true(memory.weight_bytes == 0);
    assert_true(memory.reserve_bytes == 0);
    /* 1,048,576 + 2,686,976 = 3,735,552; / 25 = 149,422.08 */
    assert_true(memory.total_bytes == 3735552 + 149423);
}

static void
a_tiny_model_needs_less_than_a_tenth_of_512_mib(void **state)
{
    (void)state;
    assert_true(cost_memory(&tiny, false).total_bytes < 512 * MIB / 10);
}

static void
the_reserve_stops_growing_at_one_gigabyte(void **state)
{
    struct place_demand large = tiny;

    (void)state;
    large.weight_bytes = UINT64_C(700000000000);
    assert_true(cost_memory(&large, false).reserve_bytes ==
                UINT64_C(1033554432));
}

static void
time_is_the_sum_worked_out_by_hand(void **state)
{
    struct place_candidate got = {0};

    (void)state;
    cost_time(&machine, &tiny, &got);
    assert_true(got.wait_ns == 1000000);
    assert_true(got.load_ns == 3000000);
    /* 100 * 2,886,400 + 100^2 * 2,048 = 309,120,000 at 100 a nanosecond */
    assert_true(got.prefill_ns == 3091200);
    /* 156 * 2.5 MB + 4,096 * (156 * 100 + 156 * 157 / 2) = 504,057,216 */
    assert_true(got.decode_ns == 50405722);
    assert_true(got.finish_ns == 57496922);
    /* 7,091,200 ns and 50,405,722 / 156 */
    assert_true(fabs(got.ttft_ms - 7.4143136) < 1e-6);
    assert_true(fabs(got.tok_s - 3094.8867) < 1e-3);
}

static void
a_warm_model_loads_in_no_time(void **state)
{
    struct place_target warm = machine;
    struct place_candidate got = {0};

    (void)state;
    warm.warm = true;
    cost_time(&warm, &tiny, &got);
    assert_true(got.load_ns == 0);
    assert_true(got.finish_ns == 57496922 - 3000000);
}

static void
a_rate_no_machine_has_counts_as_unknown(void **state)
{
    static const double odd[] = {-1, -0.0, NAN, INFINITY, -INFINITY, 1e300};
    struct place_target target = machine;
    struct place_candidate unknown = {0};

    (void)state;
    target.bandwidth_gb_s = target.prefill_tflop_s = target.read_gb_s = 0;
    cost_time(&target, &tiny, &unknown);
    /* 504,057,216 / 8; 309,120,000 / 20; 3,000,000 / 0.85 */
    assert_true(unknown.decode_ns == 63007152);
    assert_true(unknown.prefill_ns == 15456000);
    assert_true(unknown.load_ns == 3529412);
    for (size_t i = 0; i < COUNT_OF(odd); i++) {
        struct place_candidate got = {0};

        target.bandwidth_gb_s = odd[i];
        target.prefill_tflop_s = odd[i];
        target.read_gb_s = odd[i];
        cost_time(&target, &tiny, &got);
        assert_true(got.finish_ns == unknown.finish_ns);
    }
}

static void
the_largest_numbers_saturate(void **state)
{
    const struct place_demand huge = {
        .weight_bytes = UINT64_MAX,
        .bytes_per_token = UINT64_MAX,
        .kv_bytes_per_token = UINT64_MAX,
        .flop_per_token = UINT64_MAX,
        .attention_flop = UINT64_MAX,
        .hidden = UINT64_MAX,
        .prompt_tokens = UINT64_MAX,
        .output_tokens = UINT64_MAX,
    };
    struct place_target slow = {.queued_ns = INT64_MAX,
                                .bandwidth_gb_s = 1e-300,
                                .prefill_tflop_s = 1e-300,
                                .read_gb_s = 1e-300};
    struct place_candidate got = {0};

    (void)state;
    assert_true(cost_memory(&huge, false).total_bytes == UINT64_MAX);
    cost_time(&slow, &huge, &got);
    assert_true(got.finish_ns == INT64_MAX / 4 * 4);
    slow.queued_ns = INT64_MIN;
    cost_time(&slow, &huge, &got);
    assert_true(got.wait_ns == 0);
}

static void
a_job_of_nothing_takes_no_time_and_divides_by_nothing(void **state)
{
    const struct place_demand nothing = {0};
    const struct place_target idle = {0};
    struct place_candidate got = {0};

    (void)state;
    cost_time(&idle, &nothing, &got);
    assert_true(got.finish_ns == 0);
    assert_true(got.ttft_ms >= 0 && got.ttft_ms <= 0);
    assert_true(got.tok_s >= 0 && got.tok_s <= 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_the_sum_worked_out_by_hand),
        cmocka_unit_test(pinned_weights_are_not_counted_again),
        cmocka_unit_test(a_tiny_model_needs_less_than_a_tenth_of_512_mib),
        cmocka_unit_test(the_reserve_stops_growing_at_one_gigabyte),
        cmocka_unit_test(time_is_the_sum_worked_out_by_hand),
        cmocka_unit_test(a_warm_model_loads_in_no_time),
        cmocka_unit_test(a_rate_no_machine_has_counts_as_unknown),
        cmocka_unit_test(the_largest_numbers_saturate),
        cmocka_unit_test(a_job_of_nothing_takes_no_time_and_divides_by_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
