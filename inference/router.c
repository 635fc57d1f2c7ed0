/* router.c - scores, groups, the greatest, their weights. */
#include "inference/router.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "common/banned.h"

static float
greatest_of(const float *x, size_t count)
{
    float most = x[0];

    for (size_t i = 1; i < count; i++)
        most = fmaxf(most, x[i]);
    return most;
}

static void
softmax(const float *x, size_t count, float *out)
{
    float most = greatest_of(x, count), sum = 0;

    for (size_t i = 0; i < count; i++) {
        out[i] = expf(x[i] - most);
        sum += out[i];
    }
    for (size_t i = 0; i < count; i++)
        out[i] /= sum;
}

/* What experts are weighed by. */
static void
scores_make(const struct model_experts *experts, const float *logits,
            float *scores)
{
    switch (experts->router) {
    case ROUTER_NONE:
    case ROUTER_TOP_SOFTMAX:
        memcpy(scores, logits, experts->count * sizeof(scores[0]));
        break;
    case ROUTER_SOFTMAX:
        softmax(logits, experts->count, scores);
        break;
    case ROUTER_SIGMOID:
        for (size_t i = 0; i < experts->count; i++)
            scores[i] = 1 / (1 + expf(-logits[i]));
        break;
    }
}

/* The place of the greatest that is not taken, also among numbers that are
 * none. */
static size_t
greatest_free(const float *x, const float *taken, size_t count)
{
    size_t best = count;

    for (size_t i = 0; i < count; i++)
        if (taken[i] == 0 && (best == count || x[i] > x[best]))
            best = i;
    assert(best < count);
    return best;
}

/* The sum of the two greatest. */
static float
group_score(const float *x, size_t count)
{
    float first = -INFINITY, second = -INFINITY;

    for (size_t i = 0; i < count; i++) {
        if (x[i] > first) {
            second = first;
            first = x[i];
        } else if (x[i] > second) {
            second = x[i];
        }
    }
    return first + second;
}

/* Mark the experts of all but the best groups in @taken. */
static void
groups_leave(const struct model_experts *experts, const float *x, float *taken,
             float *room)
{
    size_t size = experts->count / experts->groups;
    float *scores = room;

    for (size_t g = 0; g < experts->groups; g++)
        scores[g] = group_score(x + g * size, size);
    /* taken[g * size] stands for the group meanwhile: 1 is chosen. */
    for (size_t n = 0; n < experts->groups_used; n++) {
        size_t best = experts->groups;

        for (size_t g = 0; g < experts->groups; g++)
            if (taken[g * size] == 0 &&
                (best == experts->groups || scores[g] > scores[best]))
                best = g;
        taken[best * size] = 1;
    }
    for (size_t g = 0; g < experts->groups; g++) {
        float left = taken[g * size] == 0 ? 1 : 0;

        for (size_t i = 0; i < size; i++)
            taken[g * size + i] = left;
    }
}

static void
weights_finish(const struct model_experts *experts, struct chosen *chosen)
{
    float sum = 0, most = chosen[0].weight;

    for (size_t i = 1; i < experts->used; i++)
        most = fmaxf(most, chosen[i].weight);
    for (size_t i = 0; i < experts->used; i++) {
        if (experts->router == ROUTER_TOP_SOFTMAX)
            chosen[i].weight = expf(chosen[i].weight - most);
        sum += chosen[i].weight;
    }
    if (experts->normalised || experts->router == ROUTER_TOP_SOFTMAX)
        for (size_t i = 0; i < experts->used; i++)
            chosen[i].weight /= sum;
    for (size_t i = 0; i < experts->used; i++)
        chosen[i].weight *= experts->scale;
}

void
router_choose(const struct model_experts *experts, const float *logits,
              const float *bias, float *room, struct chosen *chosen)
{
    size_t count = experts->count, made = 0;
    float *scores = room, *ranked = room + count, *taken = room + 2 * count;

    scores_make(experts, logits, scores);
    for (size_t i = 0; i < count; i++) {
        ranked[i] = scores[i] + (bias != NULL ? bias[i] : 0);
        taken[i] = 0;
    }
    if (experts->groups > 1) {
        float sums[MODEL_GROUPS_MAX];

        groups_leave(experts, ranked, taken, sums);
    }
    /* 2 marks those chosen: they are listed by number. */
    for (size_t n = 0; n < experts->used; n++)
        taken[greatest_free(ranked, taken, count)] = 2;
    for (size_t i = 0; i < count; i++)
        if (taken[i] == 2)
            chosen[made++] =
                (struct chosen){.expert = (uint32_t)i, .weight = scores[i]};
    assert(made == experts->used);
    weights_finish(experts, chosen);
}
