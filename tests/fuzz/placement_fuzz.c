/* placement_fuzz.c - a demand and up to four targets, all numbers as wild as a
 * node may claim them: the choice is feasible, and its times are no overflow.
 */
#include "placement/placement.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TARGETS_MAX = 4, TEXT_MAX_BYTES = 64 * 1024 };

struct input {
    const uint8_t *data;
    size_t size;
};

static uint64_t
take(struct input *input, size_t bytes)
{
    uint64_t value = 0;

    while (bytes-- > 0 && input->size > 0) {
        value = value << 8 | *input->data++;
        input->size--;
    }
    return value;
}

/* As link frames carry it: at most 2^63 - 1. */
static uint64_t
take_count(struct input *input)
{
    return take(input, 8) >> 1;
}

/* Finite, of any size and sign. */
static double
take_number(struct input *input)
{
    uint64_t bits = take(input, 8);
    double number;

    memcpy(&number, &bits, sizeof(number));
    return isfinite(number) ? number : 0;
}

static void
take_target(struct input *input, size_t index, struct place_target *target)
{
    uint64_t flags = take(input, 1);

    *target = (struct place_target){
        .online = (flags & 1) == 0,
        .lending = (flags & 2) == 0,
        .in_pool = (flags & 4) == 0,
        .excluded = (flags & 8) != 0,
        .verified = (flags & 16) != 0,
        .holds_model = (flags & 32) == 0,
        .warm = (flags & 64) != 0,
        .model_pinned = (flags & 128) != 0,
        .capabilities = (uint32_t)take(input, 1),
        .limit_bytes = take_count(input),
        .in_use_bytes = take(input, 8),
        .slots = (uint32_t)take(input, 4),
        .jobs = (uint32_t)take(input, 1),
        .queued_ns = (int64_t)take_count(input),
        .bandwidth_gb_s = take_number(input),
        .prefill_tflop_s = take_number(input),
        .read_gb_s = take_number(input),
    };
    target->id[0] = (char)('a' + index);
}

static void
check_candidate(const struct place_candidate *candidate)
{
    assert((unsigned)candidate->verdict < PLACE_VERDICT_COUNT);
    assert(memchr(candidate->reason, '\0', sizeof(candidate->reason)) != NULL);
    assert(candidate->wait_ns >= 0 && candidate->load_ns >= 0 &&
           candidate->prefill_ns >= 0 && candidate->decode_ns >= 0);
    assert(candidate->finish_ns >= 0);
    assert(!isnan(candidate->ttft_ms) && !isnan(candidate->tok_s));
}

static void
check_choice(const struct place_target *targets, size_t count,
             const struct place_candidate *candidates, size_t chosen)
{
    const struct place_target *target = &targets[chosen];
    const struct place_candidate *best = &candidates[chosen];

    assert(chosen < count && best->verdict == PLACE_CHOSEN);
    assert(target->online && target->lending && target->in_pool &&
           !target->excluded && target->holds_model);
    assert(target->jobs < target->slots);
    assert(best->need_bytes <= best->free_bytes &&
           best->free_bytes <= target->limit_bytes);
    for (size_t i = 0; i < count; i++)
        assert(candidates[i].verdict != PLACE_SLOWER ||
               candidates[i].finish_ns >= best->finish_ns);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    struct place_target targets[TARGETS_MAX];
    struct place_candidate candidates[TARGETS_MAX];
    size_t count = take(&input, 1) % (TARGETS_MAX + 1), chosen = 0;
    struct place_demand demand = {
        .weight_bytes = take_count(&input),
        .bytes_per_token = take_count(&input),
        .kv_bytes_per_token = take_count(&input),
        .flop_per_token = take_count(&input),
        .attention_flop = take_count(&input),
        .hidden = take(&input, 4),
        .prompt_tokens = take(&input, 4),
        .output_tokens = take(&input, 4),
        .capabilities = (uint32_t)take(&input, 1),
    };
    struct error err = {0};
    struct buf text;

    for (size_t i = 0; i < count; i++)
        take_target(&input, i, &targets[i]);
    if (place_choose(targets, count, &demand, candidates, &chosen, &err) ==
        STATUS_OK)
        check_choice(targets, count, candidates, chosen);
    else
        assert(err.text[0] != '\0' && err.code[0] != '\0');
    buf_init(&text, TEXT_MAX_BYTES);
    for (size_t i = 0; i < count; i++)
        check_candidate(&candidates[i]);
    place_summary(candidates, count, &text);
    buf_clear(&text);
    return 0;
}
