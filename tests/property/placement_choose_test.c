/* placement_choose_test.c - what holds for every fleet and every demand.
 *
 * SEED=n repeats one run; the seed of a failure is printed. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/prng.h"
#include "placement/placement.h"

#include "common/banned.h"

enum { FLEET_MAX = 12, RUNS = 2000 };

struct fleet {
    struct place_target targets[FLEET_MAX + 1];
    size_t count;
    struct place_demand demand;
};

static uint64_t seed;

/* Fails with the seed in the message. */
static void
check(bool holds, const char *claim)
{
    if (!holds)
        fail_msg("SEED=%" PRIu64 ": %s", seed, claim);
}

static bool
chance(struct prng *prng, uint64_t percent)
{
    return prng_below(prng, 100) < percent;
}

static double
random_rate(struct prng *prng, double max)
{
    return chance(prng, 10) ? 0 : prng_unit(prng) * max;
}

static void
random_target(struct prng *prng, struct place_target *target, size_t number)
{
    *target = (struct place_target){
        .online = chance(prng, 90),
        .lending = chance(prng, 90),
        .in_pool = chance(prng, 85),
        .excluded = chance(prng, 5),
        .verified = chance(prng, 50),
        .capabilities = (uint32_t)prng_below(prng, 128) | PLACE_CAN_IDS,
        .holds_model = chance(prng, 80),
        .warm = chance(prng, 50),
        .limit_bytes = prng_below(prng, UINT64_C(80000000000)),
        .slots = 1 + (uint32_t)prng_below(prng, 4),
        .jobs = (uint32_t)prng_below(prng, 3),
        .queued_ns = (int64_t)prng_below(prng, UINT64_C(9000000000)),
        .bandwidth_gb_s = random_rate(prng, 800),
        .prefill_tflop_s = random_rate(prng, 20),
        .read_gb_s = random_rate(prng, 6),
    };
    target->in_use_bytes = prng_below(prng, target->limit_bytes / 2 + 1);
    target->model_pinned = target->warm && chance(prng, 50);
    (void)snprintf(target->id, sizeof(target->id), "node-%02zu", number);
}

static void
random_fleet(struct prng *prng, struct fleet *fleet)
{
    fleet->count = prng_below(prng, FLEET_MAX + 1);
    for (size_t i = 0; i < fleet->count; i++)
        random_target(prng, &fleet->targets[i], i);
    fleet->demand = (struct place_demand){
        .weight_bytes = prng_below(prng, UINT64_C(60000000000)),
        .bytes_per_token = prng_below(prng, UINT64_C(40000000000)),
        .kv_bytes_per_token = prng_below(prng, 300000),
        .flop_per_token = prng_below(prng, UINT64_C(90000000000)),
        .attention_flop = prng_below(prng, 3000000),
        .hidden = prng_below(prng, 16384),
        .prompt_tokens = prng_below(prng, 100000),
        .output_tokens = prng_below(prng, 10000),
        .capabilities = PLACE_CAN_IDS,
    };
    if (chance(prng, 20))
        fleet->demand.capabilities |= PLACE_CAN_GRAMMAR;
}

struct outcome {
    enum status status;
    char id[PLACE_ID_BYTES]; /* of the chosen target, "" when none */
    int64_t finish_ns;
    struct place_candidate candidates[FLEET_MAX + 1];
    struct error err;
};

static void
choose(const struct fleet *fleet, struct outcome *outcome)
{
    size_t chosen = 0;

    *outcome = (struct outcome){0};
    outcome->status = place_choose(fleet->targets, fleet->count, &fleet->demand,
                                   outcome->candidates, &chosen, &outcome->err);
    if (outcome->status != STATUS_OK)
        return;
    (void)snprintf(outcome->id, sizeof(outcome->id), "%s",
                   fleet->targets[chosen].id);
    outcome->finish_ns = outcome->candidates[chosen].finish_ns;
}

static bool
is_same(const struct outcome *a, const struct outcome *b)
{
    return a->status == b->status && strcmp(a->id, b->id) == 0 &&
           a->finish_ns == b->finish_ns &&
           strcmp(a->err.text, b->err.text) == 0;
}

static void
shuffle(struct prng *prng, struct fleet *fleet)
{
    for (size_t i = fleet->count; i > 1; i--) {
        size_t other = prng_below(prng, i);
        struct place_target moved = fleet->targets[i - 1];

        fleet->targets[i - 1] = fleet->targets[other];
        fleet->targets[other] = moved;
    }
}

static void
order_of_targets_does_not_matter(struct prng *prng, struct fleet *fleet)
{
    struct outcome before;
    struct outcome after;

    choose(fleet, &before);
    shuffle(prng, fleet);
    choose(fleet, &after);
    check(is_same(&before, &after), "the order of targets mattered");
}

/* A copy of any target, worse in one way and last by id. */
static void
a_worse_target_changes_nothing(struct prng *prng, struct fleet *fleet)
{
    struct outcome before;
    struct outcome after;
    struct place_target *worse = &fleet->targets[fleet->count];

    choose(fleet, &before);
    if (before.status != STATUS_OK)
        return;
    *worse = fleet->targets[prng_below(prng, fleet->count)];
    (void)snprintf(worse->id, sizeof(worse->id), "zz");
    switch (prng_below(prng, 4)) {
    case 0:
        worse->queued_ns += 1000;
        break;
    case 1:
        worse->online = false;
        break;
    case 2:
        worse->in_use_bytes += worse->limit_bytes / 4;
        break;
    default: /* equal, but for the id */
        break;
    }
    fleet->count++;
    choose(fleet, &after);
    check(strcmp(before.id, after.id) == 0, "a worse target was preferred");
}

/* The memory rule once more, written apart from placement/cost.c, and exact
 * in 64 bits for the numbers drawn here. */
static uint64_t
slow_need(const struct place_demand *d, bool pinned)
{
    uint64_t context = d->prompt_tokens + d->output_tokens;
    uint64_t parts = (d->kv_bytes_per_token + 1) / 2 * 4 * context +
                     20480 * d->hidden + 256 * context;
    uint64_t share = d->weight_bytes / 32;

    if (!pinned)
        parts += d->weight_bytes + 33554432 +
                 (share < 1000000000 ? share : 1000000000);
    return parts + (parts + 24) / 25;
}

static bool
slow_fits(const struct place_target *t, const struct place_demand *d)
{
    bool able = t->in_pool && t->holds_model && t->online && t->lending &&
                !t->excluded && t->jobs < t->slots &&
                (d->capabilities & t->capabilities) == d->capabilities;
    bool trusted = t->verified || slow_need(d, false) <= UINT64_C(40000000000);

    return able && trusted && slow_need(d, false) <= t->limit_bytes &&
           slow_need(d, t->model_pinned) + t->in_use_bytes <= t->limit_bytes;
}

static void
feasible_is_what_a_slow_checker_says(struct prng *prng, struct fleet *fleet)
{
    struct outcome outcome;
    bool any = false;

    (void)prng;
    choose(fleet, &outcome);
    for (size_t i = 0; i < fleet->count; i++) {
        enum place_verdict verdict = outcome.candidates[i].verdict;
        bool fits = slow_fits(&fleet->targets[i], &fleet->demand);

        any = any || fits;
        check((verdict == PLACE_CHOSEN || verdict == PLACE_SLOWER) == fits,
              "the verdict differs from the slow checker's");
        check(!fits || outcome.candidates[i].finish_ns >= outcome.finish_ns,
              "the chosen target does not finish first");
    }
    check((outcome.status == STATUS_OK) == any, "a feasible target was missed");
}

static void
memory_refusals_name_need_limit_and_shortfall(struct prng *prng,
                                              struct fleet *fleet)
{
    struct outcome outcome;
    char number[32];

    (void)prng;
    choose(fleet, &outcome);
    for (size_t i = 0; i < fleet->count; i++) {
        const struct place_candidate *c = &outcome.candidates[i];

        check(c->reason[0] != '\0', "a candidate without a reason");
        if (c->verdict != PLACE_TOO_SMALL && c->verdict != PLACE_NO_MEMORY_NOW)
            continue;
        check(c->need_bytes > c->free_bytes, "refused although it fits");
        check(strstr(c->reason,
                     bytes_text(c->need_bytes, number, sizeof(number))) != NULL,
              "the need is not named");
        check(strstr(c->reason, bytes_text(fleet->targets[i].limit_bytes,
                                           number, sizeof(number))) != NULL,
              "the limit is not named");
        check(strstr(c->reason, bytes_text(c->need_bytes - c->free_bytes,
                                           number, sizeof(number))) != NULL,
              "the shortfall is not named");
    }
}

static void
more_context_never_needs_less(struct prng *prng, struct fleet *fleet)
{
    struct outcome before;
    struct outcome after;

    choose(fleet, &before);
    fleet->demand.output_tokens += 1 + prng_below(prng, 1000);
    fleet->demand.prompt_tokens += prng_below(prng, 1000);
    choose(fleet, &after);
    check(before.status == STATUS_OK || after.status != STATUS_OK,
          "more context made it placeable");
    for (size_t i = 0; i < fleet->count; i++) {
        check(after.candidates[i].finish_ns >= before.candidates[i].finish_ns,
              "more context finishes earlier");
    }
}

/* "ask for at most N output tokens" holds for N and is the most. */
static void
the_output_that_is_offered_works(struct prng *prng, struct fleet *fleet)
{
    static const char words[] = "ask for at most ";
    struct outcome outcome;
    const char *offer;
    uint64_t most;

    (void)prng;
    choose(fleet, &outcome);
    offer = strstr(outcome.err.text, words);
    if (outcome.status != STATUS_INVALID || offer == NULL)
        return;
    most = strtoull(offer + sizeof(words) - 1, NULL, 10);
    fleet->demand.output_tokens = most;
    choose(fleet, &outcome);
    check(outcome.status != STATUS_INVALID, "the offer does not work");
    fleet->demand.output_tokens = most + 1;
    choose(fleet, &outcome);
    check(outcome.status == STATUS_INVALID, "more would have worked");
}

/* The bytes after @words in @text, "11.1 GB" as 11,100,000,000; 0 if absent. */
static uint64_t
bytes_after(const char *text, const char *words)
{
    const char *found = strstr(text, words);
    char amount[24] = "";
    char unit[4] = "";
    char number[32];
    uint64_t bytes = 0;

    if (found == NULL || sscanf(found + strlen(words), "%20[0-9.] %3[A-Za-z]",
                                amount, unit) != 2)
        return 0;
    (void)snprintf(number, sizeof(number), "%s%s", amount, unit);
    check(parse_bytes(number, strlen(number), &bytes) == STATUS_OK,
          "an offer without a readable size");
    return bytes;
}

static void
apply_to_targets(struct fleet *fleet, const char *offer)
{
    uint64_t more = bytes_after(offer, "nearest target by ");

    for (size_t i = 0; i < fleet->count; i++) {
        struct place_target *t = &fleet->targets[i];

        t->limit_bytes += more;
        if (strstr(offer, "ask for a pool") != NULL)
            t->in_pool = true;
        if (strstr(offer, "put the model's files") != NULL)
            t->holds_model = true;
        if (strstr(offer, "verify a target") != NULL)
            t->verified = true;
    }
}

static void
add_offered_target(struct fleet *fleet, const char *offer)
{
    uint64_t bytes = bytes_after(offer, "model's files and ");

    if (bytes == 0 || strstr(offer, "add a ") == NULL)
        return;
    fleet->targets[fleet->count++] = (struct place_target){
        .id = "new",
        .in_pool = true,
        .holds_model = true,
        .verified = strstr(offer, "add a verified ") != NULL,
        .capabilities = fleet->demand.capabilities,
        .limit_bytes = bytes,
    };
}

/* Whatever is offered, done as it is written, makes the job placeable. */
static void
the_change_that_is_offered_works(struct prng *prng, struct fleet *fleet)
{
    static const char words[] = "cheapest change: ";
    struct outcome before;
    struct outcome after;
    const char *offer;

    (void)prng;
    choose(fleet, &before);
    if (before.status != STATUS_INVALID)
        return;
    offer = strstr(before.err.text, words);
    check(offer != NULL, "a refusal without an offer");
    offer += sizeof(words) - 1;
    (void)sscanf(offer, "ask for at most %" SCNu64,
                 &fleet->demand.output_tokens);
    if (strstr(offer, "ask without: grammar") != NULL)
        fleet->demand.capabilities &= ~(uint32_t)PLACE_CAN_GRAMMAR;
    apply_to_targets(fleet, offer);
    add_offered_target(fleet, offer);
    choose(fleet, &after);
    check(after.status != STATUS_INVALID, "the offered change does not work");
}

/* Any bit pattern at all: no crash, no overflow, no time below zero. */
static void
hostile_numbers_are_survived(struct prng *prng, struct fleet *fleet)
{
    struct outcome outcome;

    for (size_t i = 0; i < fleet->count; i++) {
        uint64_t bits[3] = {prng_next(prng), prng_next(prng), prng_next(prng)};
        struct place_target *t = &fleet->targets[i];

        memcpy(&t->bandwidth_gb_s, &bits[0], sizeof(bits[0]));
        memcpy(&t->prefill_tflop_s, &bits[1], sizeof(bits[1]));
        memcpy(&t->read_gb_s, &bits[2], sizeof(bits[2]));
        t->limit_bytes = prng_next(prng) >> prng_below(prng, 64);
        t->in_use_bytes = prng_next(prng) >> prng_below(prng, 64);
        t->queued_ns = (int64_t)prng_next(prng);
    }
    fleet->demand = (struct place_demand){
        .weight_bytes = prng_next(prng) >> prng_below(prng, 64),
        .bytes_per_token = prng_next(prng),
        .kv_bytes_per_token = prng_next(prng) >> prng_below(prng, 64),
        .flop_per_token = prng_next(prng),
        .attention_flop = prng_next(prng),
        .hidden = prng_next(prng) >> prng_below(prng, 64),
        .prompt_tokens = prng_next(prng) >> prng_below(prng, 64),
        .output_tokens = prng_next(prng) >> prng_below(prng, 64),
    };
    choose(fleet, &outcome);
    for (size_t i = 0; i < fleet->count; i++) {
        const struct place_candidate *c = &outcome.candidates[i];

        check(c->finish_ns >= 0 && c->finish_ns >= c->wait_ns &&
                  c->finish_ns >= c->decode_ns && c->load_ns >= 0 &&
                  c->prefill_ns >= 0,
              "a time overflowed");
        check(c->ttft_ms >= 0 && c->tok_s >= 0, "a prediction is no number");
    }
}

static void
repeat(void (*property)(struct prng *, struct fleet *))
{
    const char *fixed = getenv("SEED");
    int runs = fixed == NULL ? RUNS : 1;
    struct fleet fleet;

    seed = fixed == NULL ? 1 : strtoull(fixed, NULL, 10);
    for (int run = 0; run < runs; run++, seed++) {
        struct prng prng;

        prng_seed(&prng, seed);
        random_fleet(&prng, &fleet);
        property(&prng, &fleet);
    }
}

#define PROPERTY(name)                                                         \
    static void name##_holds(void **state)                                     \
    {                                                                          \
        (void)state;                                                           \
        repeat(name);                                                          \
    }
PROPERTY(order_of_targets_does_not_matter)
PROPERTY(a_worse_target_changes_nothing)
PROPERTY(feasible_is_what_a_slow_checker_says)
PROPERTY(memory_refusals_name_need_limit_and_shortfall)
PROPERTY(more_context_never_needs_less)
PROPERTY(the_output_that_is_offered_works)
PROPERTY(the_change_that_is_offered_works)
PROPERTY(hostile_numbers_are_survived)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_of_targets_does_not_matter_holds),
        cmocka_unit_test(a_worse_target_changes_nothing_holds),
        cmocka_unit_test(feasible_is_what_a_slow_checker_says_holds),
        cmocka_unit_test(memory_refusals_name_need_limit_and_shortfall_holds),
        cmocka_unit_test(more_context_never_needs_less_holds),
        cmocka_unit_test(the_output_that_is_offered_works_holds),
        cmocka_unit_test(the_change_that_is_offered_works_holds),
        cmocka_unit_test(hostile_numbers_are_survived_holds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
