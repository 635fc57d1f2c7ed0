/* inference_sampler_test.c - drawing against exact probabilities. */
#include "inference/sampler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>

#include <cmocka.h>

#include "common/attrs.h"

#include "common/banned.h"

enum { VOCAB = 8, DRAWS = 100000 };

/* Probabilities 1/2, 1/4, ... in an order that is not by size. */
static const double exact[VOCAB] = {0.125,     0.5,    0.0078125, 0.25,
                                    0.0078125, 0.0625, 0.015625,  0.03125};

static void
logits_fill(float logits[static VOCAB])
{
    for (size_t i = 0; i < VOCAB; i++)
        logits[i] = (float)log(exact[i]) + 3.0f;
}

static uint32_t
pick(const float *logits, const struct sampling *sampling, uint64_t choice,
     uint64_t position)
{
    struct sampler_entry room[VOCAB];

    return sampler_pick(logits, VOCAB, sampling, choice, position, room);
}

static void
draw(const struct sampling *sampling, size_t counts[static VOCAB])
{
    float logits[VOCAB];

    logits_fill(logits);
    for (size_t i = 0; i < VOCAB; i++)
        counts[i] = 0;
    for (uint64_t position = 0; position < DRAWS; position++)
        counts[pick(logits, sampling, 0, position)]++;
}

/* Chi-square of the counts; ids without probability must not occur. */
static double
chi_square(const size_t counts[static VOCAB], const double p[static VOCAB])
{
    double sum = 0;

    for (size_t i = 0; i < VOCAB; i++) {
        double expected = p[i] * DRAWS;
        double difference = (double)counts[i] - expected;

        if (expected > 0)
            sum += difference * difference / expected;
        else
            assert_int_equal(counts[i], 0);
    }
    return sum;
}

/* The bounds below are the 0.999 quantiles of chi-square with as many degrees
 * of freedom as there are possible ids less one (24.32 for 7, 10.83 for 1,
 * 13.82 for 2); the seed is fixed, so a failure is no accident. */

static void
frequencies_are_the_softmax_at_temperature_1(void **state)
{
    struct sampling sampling = {.temperature = 1, .top_p = 1, .seed = 42};
    size_t counts[VOCAB];

    (void)state;
    draw(&sampling, counts);
    assert_true(chi_square(counts, exact) < 24.32);
}

static void
temperature_2_takes_the_square_root_of_probabilities(void **state)
{
    struct sampling sampling = {.temperature = 2, .top_p = 1, .seed = 43};
    double p[VOCAB], whole = 0;
    size_t counts[VOCAB];

    (void)state;
    for (size_t i = 0; i < VOCAB; i++)
        whole += sqrt(exact[i]);
    for (size_t i = 0; i < VOCAB; i++)
        p[i] = sqrt(exact[i]) / whole;
    draw(&sampling, counts);
    assert_true(chi_square(counts, p) < 24.32);
}

static void
top_k_draws_from_the_k_likeliest(void **state)
{
    struct sampling sampling = {
        .temperature = 1, .top_p = 1, .top_k = 2, .seed = 44};
    const double p[VOCAB] = {[1] = 2.0 / 3, [3] = 1.0 / 3};
    size_t counts[VOCAB];

    (void)state;
    draw(&sampling, counts);
    assert_true(chi_square(counts, p) < 10.83);
}

static void
top_p_draws_from_the_fewest_that_weigh_it(void **state)
{
    /* 0.5 + 0.25 < 0.8 <= 0.5 + 0.25 + 0.125 */
    struct sampling sampling = {.temperature = 1, .top_p = 0.8, .seed = 45};
    const double p[VOCAB] = {[1] = 4.0 / 7, [3] = 2.0 / 7, [0] = 1.0 / 7};
    size_t counts[VOCAB];

    (void)state;
    draw(&sampling, counts);
    assert_true(chi_square(counts, p) < 13.82);
}

static void
top_p_counts_within_top_k(void **state)
{
    /* Of 2/3 and 1/3 the first alone weighs 0.6. */
    struct sampling sampling = {
        .temperature = 1, .top_p = 0.6, .top_k = 2, .seed = 46};
    size_t counts[VOCAB];

    (void)state;
    draw(&sampling, counts);
    assert_int_equal(counts[1], DRAWS);
}

static void
greedy_takes_the_greatest_and_ties_the_lowest_id(void **state)
{
    struct sampling sampling = {.top_p = 1};
    float logits[VOCAB] = {1, 3, 7, 7, 2, 7, -1, 0};

    (void)state;
    assert_int_equal(pick(logits, &sampling, 0, 0), 2);
    logits[5] = 7.5f;
    assert_int_equal(pick(logits, &sampling, 0, 0), 5);
    logits[0] = NAN;
    assert_int_equal(pick(logits, &sampling, 0, 0), 5);
}

static void
ties_at_the_edge_of_top_k_go_to_the_lowest_id(void **state)
{
    struct sampling sampling = {.temperature = 1, .top_p = 1, .top_k = 1};
    const float logits[VOCAB] = {1, 3, 7, 7, 2, 7, -1, 0};

    (void)state;
    for (uint64_t position = 0; position < 100; position++)
        assert_int_equal(pick(logits, &sampling, 0, position), 2);
}

static void
the_random_number_depends_on_seed_choice_and_position_alone(void **state)
{
    (void)state;
    assert_int_equal(sampler_random(7, 1, 9), sampler_random(7, 1, 9));
    assert_int_not_equal(sampler_random(7, 1, 9), sampler_random(8, 1, 9));
    assert_int_not_equal(sampler_random(7, 1, 9), sampler_random(7, 2, 9));
    assert_int_not_equal(sampler_random(7, 1, 9), sampler_random(7, 1, 10));
    /* Neighbours in choice and position must not share numbers. */
    assert_int_not_equal(sampler_random(7, 1, 9), sampler_random(7, 2, 8));
    assert_int_not_equal(sampler_random(7, 1, 9), sampler_random(7, 9, 1));
}

static void
random_numbers_are_those_of_the_documented_formula(void **state)
{
    (void)state;
    /* Computed from the formula in sampler.h by other code (Python). */
    assert_true(sampler_random(0, 0, 0) == UINT64_C(0x238275bc38fcbe91));
    assert_true(sampler_random(42, 1, 1000) == UINT64_C(0x756b2b0181017a63));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frequencies_are_the_softmax_at_temperature_1),
        cmocka_unit_test(temperature_2_takes_the_square_root_of_probabilities),
        cmocka_unit_test(top_k_draws_from_the_k_likeliest),
        cmocka_unit_test(top_p_draws_from_the_fewest_that_weigh_it),
        cmocka_unit_test(top_p_counts_within_top_k),
        cmocka_unit_test(greedy_takes_the_greatest_and_ties_the_lowest_id),
        cmocka_unit_test(ties_at_the_edge_of_top_k_go_to_the_lowest_id),
        cmocka_unit_test(
            the_random_number_depends_on_seed_choice_and_position_alone),
        cmocka_unit_test(random_numbers_are_those_of_the_documented_formula),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
