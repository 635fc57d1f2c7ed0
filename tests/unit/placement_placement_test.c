/* placement_placement_test.c - which target is chosen, and which limit is
 * named when none is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "placement/placement.h"

#include "common/banned.h"

/* placement_cost_test.c works these two out: 41,999,084 bytes with the
 * weights, 3,884,975 without. */
static const struct place_demand tiny = {
    .weight_bytes = 3000000,
    .bytes_per_token = 2500000,
    .kv_bytes_per_token = 2048,
    .flop_per_token = 2886400,
    .attention_flop = 2048,
    .hidden = 128,
    .prompt_tokens = 100,
    .output_tokens = 156,
    .capabilities = PLACE_CAN_IDS,
};
#define NEED_BYTES UINT64_C(41999084)
#define NEED_PINNED_BYTES UINT64_C(3884975)

static struct place_target
good(const char *id)
{
    struct place_target target = {
        .online = true,
        .lending = true,
        .in_pool = true,
        .verified = true,
        .capabilities = PLACE_CAN_IDS | PLACE_CAN_RESUME | PLACE_CAN_SEED,
        .holds_model = true,
        .limit_bytes = 512 * MIB,
        .slots = 4,
        .bandwidth_gb_s = 10,
        .prefill_tflop_s = 0.1,
        .read_gb_s = 1,
    };

    (void)snprintf(target.id, sizeof(target.id), "%s", id);
    return target;
}

/* The verdict on one target alone, with the status that came with it. */
static enum place_verdict
alone(struct place_target target, const struct place_demand *demand,
      enum status expected)
{
    struct place_candidate candidate;
    struct error err = {0};
    size_t chosen = 77;

    assert_int_equal(
        place_choose(&target, 1, demand, &candidate, &chosen, &err), expected);
    assert_true(chosen == (expected == STATUS_OK ? 0 : 77));
    if (expected == STATUS_INVALID)
        assert_string_equal(err.code, "model_unplaceable");
    if (expected == STATUS_NO_CAPACITY)
        assert_string_equal(err.code, "no_capacity");
    return candidate.verdict;
}

static void
a_tiny_model_runs_on_a_node_of_512_mib(void **state)
{
    (void)state;
    assert_int_equal(alone(good("a"), &tiny, STATUS_OK), PLACE_CHOSEN);
}

static void
the_target_that_finishes_first_is_chosen(void **state)
{
    struct place_target targets[3] = {good("a"), good("b"), good("c")};
    struct place_candidate candidates[3];
    size_t chosen = 9;

    (void)state;
    targets[1].warm = true;
    targets[2].bandwidth_gb_s = 9;
    assert_int_equal(place_choose(targets, 3, &tiny, candidates, &chosen, NULL),
                     STATUS_OK);
    assert_int_equal(chosen, 1);
    assert_int_equal(candidates[0].verdict, PLACE_SLOWER);
    assert_int_equal(candidates[1].verdict, PLACE_CHOSEN);
    assert_int_equal(candidates[2].verdict, PLACE_SLOWER);
}

static void
queued_work_outweighs_a_faster_machine(void **state)
{
    struct place_target targets[2] = {good("fast"), good("idle")};
    struct place_candidate candidates[2];
    size_t chosen = 9;

    (void)state;
    targets[0].bandwidth_gb_s = 20;
    targets[0].queued_ns = INT64_C(1000000000);
    assert_int_equal(place_choose(targets, 2, &tiny, candidates, &chosen, NULL),
                     STATUS_OK);
    assert_int_equal(chosen, 1);
}

static void
ties_go_to_the_lowest_id(void **state)
{
    struct place_target targets[3] = {good("n2"), good("n10"), good("n3")};
    struct place_candidate candidates[3];
    size_t chosen = 9;

    (void)state;
    assert_int_equal(place_choose(targets, 3, &tiny, candidates, &chosen, NULL),
                     STATUS_OK);
    assert_string_equal(targets[chosen].id, "n10");
}

static void
memory_fits_to_the_byte(void **state)
{
    struct place_target target = good("a");

    (void)state;
    target.limit_bytes = NEED_BYTES;
    assert_int_equal(alone(target, &tiny, STATUS_OK), PLACE_CHOSEN);
    target.limit_bytes = NEED_BYTES - 1;
    assert_int_equal(alone(target, &tiny, STATUS_INVALID), PLACE_TOO_SMALL);
}

static void
memory_in_use_makes_the_job_wait(void **state)
{
    struct place_target target = good("a");

    (void)state;
    target.limit_bytes = NEED_BYTES + 1000;
    target.in_use_bytes = 1000;
    assert_int_equal(alone(target, &tiny, STATUS_OK), PLACE_CHOSEN);
    target.in_use_bytes = 1001;
    assert_int_equal(alone(target, &tiny, STATUS_NO_CAPACITY),
                     PLACE_NO_MEMORY_NOW);
    target.in_use_bytes = UINT64_MAX;
    assert_int_equal(alone(target, &tiny, STATUS_NO_CAPACITY),
                     PLACE_NO_MEMORY_NOW);
}

static void
pinned_weights_leave_only_the_jobs_own_part(void **state)
{
    struct place_target target = good("a");

    (void)state;
    target.model_pinned = true;
    target.in_use_bytes = target.limit_bytes - NEED_PINNED_BYTES;
    assert_int_equal(alone(target, &tiny, STATUS_OK), PLACE_CHOSEN);
    target.in_use_bytes++;
    assert_int_equal(alone(target, &tiny, STATUS_NO_CAPACITY),
                     PLACE_NO_MEMORY_NOW);
}

/* A target that fails every limit, mended one limit at a time: the verdict
 * walks through the documented order. */
static void
the_order_of_verdicts_is_fixed(void **state)
{
    struct place_demand demand = tiny;
    struct place_target target = good("a");

    (void)state;
    demand.weight_bytes = UINT64_C(50000000000);
    target.online = target.lending = target.in_pool = false;
    target.excluded = true;
    target.verified = target.holds_model = false;
    target.capabilities = 0;
    target.jobs = target.slots;
    target.in_use_bytes = UINT64_MAX;

    assert_int_equal(alone(target, &demand, STATUS_INVALID), PLACE_NOT_IN_POOL);
    target.in_pool = true;
    assert_int_equal(alone(target, &demand, STATUS_INVALID), PLACE_NO_MODEL);
    target.holds_model = true;
    assert_int_equal(alone(target, &demand, STATUS_INVALID),
                     PLACE_NO_CAPABILITY);
    target.capabilities = PLACE_CAN_IDS;
    assert_int_equal(alone(target, &demand, STATUS_INVALID), PLACE_TOO_SMALL);
    target.limit_bytes = UINT64_C(100000000000);
    assert_int_equal(alone(target, &demand, STATUS_INVALID), PLACE_UNVERIFIED);
    target.verified = true;
    assert_int_equal(alone(target, &demand, STATUS_NO_CAPACITY),
                     PLACE_EXCLUDED);
    target.excluded = false;
    assert_int_equal(alone(target, &demand, STATUS_NO_CAPACITY), PLACE_OFFLINE);
    target.online = true;
    assert_int_equal(alone(target, &demand, STATUS_NO_CAPACITY),
                     PLACE_NOT_LENDING);
    target.lending = true;
    assert_int_equal(alone(target, &demand, STATUS_NO_CAPACITY), PLACE_NO_SLOT);
    target.jobs--;
    assert_int_equal(alone(target, &demand, STATUS_NO_CAPACITY),
                     PLACE_NO_MEMORY_NOW);
    target.in_use_bytes = 0;
    assert_int_equal(alone(target, &demand, STATUS_OK), PLACE_CHOSEN);
}

static void
one_target_that_could_later_makes_the_job_wait(void **state)
{
    struct place_target targets[2] = {good("a"), good("b")};
    struct place_candidate candidates[2];
    struct error err = {0};
    size_t chosen = 9;

    (void)state;
    targets[0].holds_model = false;
    targets[1].online = false;
    assert_int_equal(place_choose(targets, 2, &tiny, candidates, &chosen, &err),
                     STATUS_NO_CAPACITY);
    assert_int_equal(chosen, 9);
    assert_string_equal(err.text,
                        "no target can take this job now (2 targets: 1 without "
                        "the model, 1 offline)");
}

static void
a_fleet_of_none_can_never_run_it(void **state)
{
    struct error err = {0};
    size_t chosen = 9;

    (void)state;
    assert_int_equal(place_choose(NULL, 0, &tiny, NULL, &chosen, &err),
                     STATUS_INVALID);
    assert_string_equal(err.text,
                        "no known target can ever run this job (0 targets; "
                        "cheapest change: add a target in the pool with the "
                        "model's files and 42.0 MB of memory)");
}

static void
capabilities_have_the_names_engines_declare(void **state)
{
    (void)state;
    assert_int_equal(place_capability_bit("ids"), PLACE_CAN_IDS);
    assert_int_equal(place_capability_bit("resume"), PLACE_CAN_RESUME);
    assert_int_equal(place_capability_bit("seed"), PLACE_CAN_SEED);
    assert_int_equal(place_capability_bit("grammar"), PLACE_CAN_GRAMMAR);
    assert_int_equal(place_capability_bit("logprobs"), PLACE_CAN_LOGPROBS);
    assert_int_equal(place_capability_bit("embeddings"), PLACE_CAN_EMBEDDINGS);
    assert_int_equal(place_capability_bit("batch"), PLACE_CAN_BATCH);
    assert_int_equal(place_capability_bit("unknown"), 0);
    assert_int_equal(place_capability_bit(""), 0);
}

static void
every_verdict_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (enum place_verdict a = 0; a < PLACE_VERDICT_COUNT; a++) {
        for (enum place_verdict b = 0; b < a; b++)
            assert_string_not_equal(place_verdict_name(a),
                                    place_verdict_name(b));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tiny_model_runs_on_a_node_of_512_mib),
        cmocka_unit_test(the_target_that_finishes_first_is_chosen),
        cmocka_unit_test(queued_work_outweighs_a_faster_machine),
        cmocka_unit_test(ties_go_to_the_lowest_id),
        cmocka_unit_test(memory_fits_to_the_byte),
        cmocka_unit_test(memory_in_use_makes_the_job_wait),
        cmocka_unit_test(pinned_weights_leave_only_the_jobs_own_part),
        cmocka_unit_test(the_order_of_verdicts_is_fixed),
        cmocka_unit_test(one_target_that_could_later_makes_the_job_wait),
        cmocka_unit_test(a_fleet_of_none_can_never_run_it),
        cmocka_unit_test(capabilities_have_the_names_engines_declare),
        cmocka_unit_test(every_verdict_has_a_name_of_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
