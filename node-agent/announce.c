/* announce.c - the agent's state as messages. */
#include "node-agent/announce.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/options.h"

#include "common/banned.h"

static void
add_reason(struct wire_reason *reasons, size_t *count, const char *code,
           const char *text, const char *step)
{
    struct wire_reason *reason = &reasons[*count];

    assert(*count < WIRE_REASONS_MAX);
    snprintf(reason->code, sizeof(reason->code), "%s", code);
    snprintf(reason->text, sizeof(reason->text), "%s", text);
    snprintf(reason->step, sizeof(reason->step), "%s", step);
    (*count)++;
}

void
announce_state_fill(const struct announce_view *view, struct wire_state *state)
{
    struct wire_reason *reasons = state->reasons;
    size_t *count = &state->reason_count;

    *state = (struct wire_state){0};
    snprintf(state->state, sizeof(state->state), "%s", view->state);
    if (view->is_paused)
        add_reason(reasons, count, "paused", "the owner paused lending",
                   "berth-node resume");
    if (view->is_drained)
        add_reason(reasons, count, "draining", "the owner drains this node",
                   "berth-node resume");
    if (view->coordinator_drains)
        add_reason(reasons, count, "draining",
                   "the coordinator drains this node",
                   "resume the node at the coordinator");
    if (models_latest(view->models)->model_count == 0)
        add_reason(reasons, count, "no_models",
                   "no usable model folder was found",
                   "name one with models = FOLDER in the configuration");
    if (!view->probe->facts.has_limit_bytes)
        add_reason(reasons, count, "no_limit",
                   "how much memory may be lent is not known",
                   "set memory_cap in the configuration");
}

size_t
announce_models_fill(const struct announce_view *view, struct wire_model *rows)
{
    const struct models_scan *scan = models_latest(view->models);

    for (size_t i = 0; i < scan->model_count; i++) {
        const struct model_found *model = &scan->models[i];
        const struct engine *engine = engines_of(view->engines, model->digest);

        rows[i] = (struct wire_model){.bytes = model->weight_bytes};
        memcpy(rows[i].digest, model->digest, sizeof(rows[i].digest));
        rows[i].loaded = engine != NULL && engine->state == ENGINE_READY;
        rows[i].kv_bytes = rows[i].loaded ? engine->kv_bytes : 0;
    }
    return scan->model_count;
}

static void
fill_engine(const struct announce_view *view, struct wire_engine *engine)
{
    /* What berth-engine's cpu backend can do. */
    static const char *const capabilities[] = {"ids", "resume", "seed",
                                               "batch"};

    snprintf(engine->backend, sizeof(engine->backend), "cpu");
    snprintf(engine->version, sizeof(engine->version), BERTH_VERSION);
    engine->slots = (uint32_t)view->slots;
    for (size_t i = 0; i < COUNT_OF(capabilities); i++)
        snprintf(engine->capabilities[i], sizeof(engine->capabilities[i]), "%s",
                 capabilities[i]);
    engine->capability_count = COUNT_OF(capabilities);
}

void
announce_hello_fill(const struct announce_view *view, struct wire_hello *hello)
{
    struct wire_state *state = mem_alloc(sizeof(*state));
    double rate;

    hello->version = WIRE_VERSION;
    snprintf(hello->node, sizeof(hello->node), "%s", view->node);
    snprintf(hello->agent, sizeof(hello->agent), BERTH_VERSION);
    hello->epoch = view->epoch;
    hello->simulated = view->probe->simulated;
    hello->facts = view->probe->facts;
    if (models_read_rate(view->models, &rate)) {
        hello->facts.has_read_gb_s = true;
        hello->facts.read_gb_s = rate / 1e9;
    }
    fill_engine(view, &hello->engine);
    hello->model_count = announce_models_fill(view, hello->models);
    announce_state_fill(view, state);
    memcpy(hello->state, state->state, sizeof(hello->state));
    memcpy(hello->reasons, state->reasons, sizeof(hello->reasons));
    hello->reason_count = state->reason_count;
    free(state);
}
