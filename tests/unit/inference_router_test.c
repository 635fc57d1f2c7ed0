/* inference_router_test.c - the choice of experts, by hand. */
#include "inference/router.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>

#include <cmocka.h>

#include "common/banned.h"

enum { EXPERTS = 8, USED = 3 };

static struct model_experts
experts_with(enum router router)
{
    return (struct model_experts){.router = router,
                                  .count = EXPERTS,
                                  .used = USED,
                                  .groups = 1,
                                  .groups_used = 1,
                                  .scale = 1};
}

static void
check_chosen(const struct chosen *chosen, const uint32_t *ids,
             const double *weights)
{
    for (size_t i = 0; i < USED; i++) {
        assert_int_equal(chosen[i].expert, ids[i]);
        assert_true(fabs((double)chosen[i].weight - weights[i]) < 1e-6);
    }
}

/* ln 2 and ln 4 make shares that one can write down. */
static const float logits[EXPERTS] = {0, 1.3862944f, 0, 0.6931472f,
                                      0, 0,          0, 1.3862944f};

static void
softmax_weighs_by_the_share_of_all(void **state)
{
    const uint32_t ids[] = {1, 3, 7};
    const double all[] = {4.0 / 15, 2.0 / 15, 4.0 / 15};
    const double used[] = {0.4, 0.2, 0.4};
    struct model_experts experts = experts_with(ROUTER_SOFTMAX);
    struct chosen chosen[USED];
    float room[3 * EXPERTS];

    (void)state;
    router_choose(&experts, logits, NULL, room, chosen);
    check_chosen(chosen, ids, all);
    experts.normalised = true;
    router_choose(&experts, logits, NULL, room, chosen);
    check_chosen(chosen, ids, used);
    experts.router = ROUTER_TOP_SOFTMAX;
    router_choose(&experts, logits, NULL, room, chosen);
    check_chosen(chosen, ids, used);
}

/* Sigmoids of 0 are 1/2; the bias chooses and does not weigh. */
static void
a_bias_chooses_and_does_not_weigh(void **state)
{
    static const float zeros[EXPERTS];
    const float bias[EXPERTS] = {0, 0, 3, 0, 0, 2, 0, 1};
    const uint32_t ids[] = {2, 5, 7};
    const double weights[] = {1.25, 1.25, 1.25};
    struct model_experts experts = experts_with(ROUTER_SIGMOID);
    struct chosen chosen[USED];
    float room[3 * EXPERTS];

    (void)state;
    experts.scale = 2.5f;
    router_choose(&experts, zeros, bias, room, chosen);
    check_chosen(chosen, ids, weights);
}

/* Four groups of two; each counts what both of it have: 5, 4, 9 and 6.  The
 * expert with 5 is the third greatest and its group is left out. */
static void
experts_come_from_the_best_groups(void **state)
{
    static const float zeros[EXPERTS];
    const float bias[EXPERTS] = {5, 0, 2, 2, 8, 1, 3, 3};
    const uint32_t ids[] = {4, 6, 7};
    const double weights[] = {0.5, 0.5, 0.5};
    struct model_experts experts = experts_with(ROUTER_SIGMOID);
    struct chosen chosen[USED];
    float room[3 * EXPERTS];

    (void)state;
    experts.groups = 4;
    experts.groups_used = 2;
    router_choose(&experts, zeros, bias, room, chosen);
    check_chosen(chosen, ids, weights);
}

static void
equal_scores_and_numbers_that_are_none_choose_distinct_experts(void **state)
{
    const float values[] = {0, NAN, INFINITY, -INFINITY};

    (void)state;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        for (int router = ROUTER_SOFTMAX; router <= ROUTER_SIGMOID; router++) {
            struct model_experts experts = experts_with((enum router)router);
            struct chosen chosen[USED];
            float room[3 * EXPERTS], x[EXPERTS];

            for (size_t e = 0; e < EXPERTS; e++)
                x[e] = values[i];
            experts.groups = router == ROUTER_SIGMOID ? 4 : 1;
            experts.groups_used = router == ROUTER_SIGMOID ? 2 : 1;
            router_choose(&experts, x, NULL, room, chosen);
            for (uint32_t k = 0; k < USED; k++)
                assert_int_equal(chosen[k].expert, k);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax_weighs_by_the_share_of_all),
        cmocka_unit_test(a_bias_chooses_and_does_not_weigh),
        cmocka_unit_test(experts_come_from_the_best_groups),
        cmocka_unit_test(
            equal_scores_and_numbers_that_are_none_choose_distinct_experts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
