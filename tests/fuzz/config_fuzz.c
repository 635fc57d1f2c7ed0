/* config_fuzz.c - config.json, a NUL byte and generation_config.json of a
 * model: numbers that are accepted can be computed with. */
#include "model/directory.h"

#include <assert.h>
#include <string.h>

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_layers(const struct model_config *config)
{
    const struct model_delta *delta = &config->delta;
    bool attends = false;

    for (size_t i = 0; i < config->layers; i++) {
        assert(config->layer_kinds[i] <= LAYER_DELTA);
        assert(config->layer_kinds[i] != LAYER_WINDOW || config->window > 0);
        assert(config->layer_kinds[i] != LAYER_DELTA || delta->kernel >= 2);
        attends = attends || config->layer_kinds[i] != LAYER_DELTA;
    }
    assert(attends);
    assert(delta->kernel == 0 ||
           (delta->key_size > 0 && delta->value_size > 0 &&
            delta->key_heads > 0 &&
            delta->value_heads % delta->key_heads == 0));
}

static void
check_experts(const struct model_experts *experts)
{
    if (experts->router == ROUTER_NONE)
        return;
    assert(experts->used > 0 && experts->used <= experts->count);
    assert(experts->inner > 0 && experts->scale > 0);
    assert(experts->groups > 0 && experts->count % experts->groups == 0);
    assert(experts->groups <= MODEL_GROUPS_MAX);
    assert(experts->groups_used <= experts->groups);
    assert(experts->used <=
           experts->groups_used * (experts->count / experts->groups));
}

static void
check_config(const struct model_config *config)
{
    assert((unsigned)config->arch < ARCH_COUNT);
    assert(memchr(config->model_type, '\0', sizeof(config->model_type)) !=
           NULL);
    assert(config->layers > 0 && config->hidden > 0 && config->vocab > 0);
    assert(config->intermediate > 0 && config->context > 0);
    assert(config->heads > 0 && config->kv_heads > 0 && config->head_dim > 0);
    assert(config->heads % config->kv_heads == 0);
    assert(config->head_dim % 2 == 0 || config->latent.kv_rank != 0);
    assert(config->rotary > 0 && config->rotary % 2 == 0);
    assert(config->rotary <= config->head_dim);
    assert(config->score_scale > 0 && config->score_scale < 1e6F);
    assert(config->rope_amplitude > 0 && config->rope_amplitude < 1e15F);
    assert(config->norm_eps > 0 && config->rope_theta > 0);
    assert(config->rope_scaling == ROPE_PLAIN || config->rope_factor > 0);
    assert(config->rope_scaling != ROPE_LLAMA3 ||
           (config->rope_low_freq_factor > 0 &&
            config->rope_high_freq_factor > config->rope_low_freq_factor &&
            config->rope_original_context > 0));
    assert(config->quantisation.mode == QUANTISED_NOT ||
           config->quantisation.group == 32 ||
           config->quantisation.group == 64 ||
           config->quantisation.group == 128);
    check_layers(config);
    check_experts(&config->experts);
    assert(config->stop_id_count <= MODEL_STOP_IDS_MAX);
    for (size_t i = 0; i < config->stop_id_count; i++)
        assert(config->stop_ids[i] < config->vocab);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *end = size == 0 ? NULL : memchr(text, '\0', size);
    size_t text_size = end == NULL ? size : (size_t)(end - text);
    struct json_doc config = {0}, generation = {0};
    struct model_config out;
    struct error err = {0};

    if (json_doc_parse(text, text_size, &config, &err) != STATUS_OK)
        return 0;
    if (end == NULL || json_doc_parse(end + 1, size - text_size - 1,
                                      &generation, &err) == STATUS_OK) {
        if (model_config_parse(config.root, generation.root, &out, &err) ==
            STATUS_OK)
            check_config(&out);
        else
            assert(err.text[0] != '\0');
    }
    json_doc_clear(&generation);
    json_doc_clear(&config);
    return 0;
}
