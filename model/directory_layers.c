/* directory_layers.c - in what the layers of a model differ, of config.json:
 * how far each looks back, and which have experts. */
#include "model/directory_fields.h"

#include "common/banned.h"

enum {
    WINDOW_MAX = 1 << 25,
    MISTRAL_WINDOW = 4096, /* of a config.json without the member */
    QWEN_FULL_LAYERS = 28, /* likewise */
    DELTA_HEADS_MAX = 1024,
    DELTA_SIZE_MAX = 1024,
    DELTA_KERNEL_MAX = 64,
    LATENT_MAX = 1 << 14,
    EXPERTS_MAX = 4096,
    INNER_MAX = 1 << 20,
};

static void
kinds_fill(struct model_config *out, uint32_t first, uint32_t step,
           enum layer_kind kind)
{
    for (uint32_t i = first; i < out->layers; i += step)
        out->layer_kinds[i] = (uint8_t)kind;
}

/* Full attention in every layer whose number from 1 the interval divides. */
static enum status
kinds_by_interval(const struct json *config, struct model_config *out,
                  struct error *err)
{
    uint32_t interval = 0;
    enum status status = config_count(config, "full_attention_interval",
                                      MODEL_LAYERS_MAX, 4, &interval, err);

    if (status != STATUS_OK)
        return status;
    kinds_fill(out, 0, 1, LAYER_DELTA);
    kinds_fill(out, interval - 1, interval, LAYER_FULL);
    return STATUS_OK;
}

/* Which layers have the window where "layer_types" does not tell. */
static enum status
kinds_by_default(const struct json *config, struct model_config *out,
                 struct error *err)
{
    uint32_t first = QWEN_FULL_LAYERS;
    bool used = false;
    enum status status = STATUS_OK;

    if (out->arch == ARCH_MISTRAL)
        kinds_fill(out, 0, 1, LAYER_WINDOW);
    else if (out->arch == ARCH_GPT_OSS)
        kinds_fill(out, 0, 2, LAYER_WINDOW);
    else if (out->delta.kernel != 0)
        return kinds_by_interval(config, out, err);
    else
        status = config_bool(config, "use_sliding_window", &used, err);
    if (status != STATUS_OK || !used)
        return status;
    if (out->arch != ARCH_QWEN2 && out->arch != ARCH_QWEN3 &&
        out->arch != ARCH_QWEN3_MOE)
        return config_refuse(err, "use_sliding_window",
                             "is not supported for this architecture");
    /* The first layers of the qwens look at everything. */
    if (!json_is_null(json_get(config, "max_window_layers"))) {
        int64_t number = 0;

        if (json_as_i64(json_get(config, "max_window_layers"), &number) !=
                STATUS_OK ||
            number < 0)
            return config_refuse(err, "max_window_layers",
                                 "must be a whole number");
        first = number < MODEL_LAYERS_MAX ? (uint32_t)number : MODEL_LAYERS_MAX;
    }
    kinds_fill(out, first, 1, LAYER_WINDOW);
    return STATUS_OK;
}

static enum status
kinds_by_list(const struct json *types, struct model_config *out,
              struct error *err)
{
    if (json_kind(types) != JSON_KIND_LIST || json_count(types) != out->layers)
        return config_refuse(err, "layer_types",
                             "must have an entry for each layer");
    for (uint32_t i = 0; i < out->layers; i++) {
        const struct json *type = json_at(types, i);

        if (config_text_is(type, "sliding_attention"))
            out->layer_kinds[i] = LAYER_WINDOW;
        else if (config_text_is(type, "linear_attention") &&
                 out->delta.kernel != 0)
            out->layer_kinds[i] = LAYER_DELTA;
        else if (!config_text_is(type, "full_attention"))
            return config_refuse(err, "layer_types",
                                 "must be full_attention or sliding_attention");
    }
    return STATUS_OK;
}

static bool
has_kind(const struct model_config *config, enum layer_kind kind)
{
    for (uint32_t i = 0; i < config->layers; i++)
        if (config->layer_kinds[i] == kind)
            return true;
    return false;
}

/* Without a window every layer looks at everything, as the published code has
 * it; a list that says otherwise contradicts. */
enum status
config_read_layers(const struct json *config, struct model_config *out,
                   struct error *err)
{
    const struct json *types = json_get(config, "layer_types");
    const struct json *window = json_get(config, "sliding_window");
    enum status status = json_is_null(types)
                             ? kinds_by_default(config, out, err)
                             : kinds_by_list(types, out, err);

    /* A sequence's memory is reckoned by its positions. */
    if (status == STATUS_OK && !has_kind(out, LAYER_FULL) &&
        !has_kind(out, LAYER_WINDOW))
        status = config_refuse(err, "layer_types",
                               "must have a layer of full_attention");
    if (status != STATUS_OK || !has_kind(out, LAYER_WINDOW))
        return status;
    if (window == NULL && out->arch == ARCH_MISTRAL) {
        out->window = MISTRAL_WINDOW;
        return STATUS_OK;
    }
    if (json_is_null(window) && json_is_null(types)) {
        kinds_fill(out, 0, 1, LAYER_FULL);
        return STATUS_OK;
    }
    return config_count(config, "sliding_window", WINDOW_MAX, 0, &out->window,
                        err);
}

/* --- latent attention -----------------------------------------------------*/

enum status
config_read_latent(const struct json *config, struct model_config *out,
                   struct error *err)
{
    struct model_latent *latent = &out->latent;
    const struct json *neighbours = json_get(config, "rope_interleave");
    const struct {
        const char *name;
        uint32_t *out;
    } sizes[] = {
        {"kv_lora_rank", &latent->kv_rank},
        {"qk_nope_head_dim", &latent->nope},
        {"qk_rope_head_dim", &latent->rope},
        {"v_head_dim", &latent->value},
    };
    enum status status = STATUS_OK;

    for (size_t i = 0; status == STATUS_OK && i < COUNT_OF(sizes); i++)
        status = config_count(config, sizes[i].name, LATENT_MAX, 0,
                              sizes[i].out, err);
    if (status == STATUS_OK && !json_is_null(json_get(config, "q_lora_rank")))
        status = config_count(config, "q_lora_rank", LATENT_MAX, 0,
                              &latent->q_rank, err);
    if (status == STATUS_OK && latent->rope % 2 != 0)
        status = config_refuse(err, "qk_rope_head_dim", "must be even");
    if (status == STATUS_OK && !json_is_null(neighbours) &&
        !json_as_bool(neighbours))
        status = config_refuse(err, "rope_interleave", "must be true");
    return status;
}

/* --- delta nets -----------------------------------------------------------*/

enum status
config_read_delta(const struct json *config, struct model_config *out,
                  struct error *err)
{
    struct model_delta *delta = &out->delta;
    const struct json *gate = json_get(config, "attn_output_gate");
    const struct {
        const char *name;
        uint32_t max;
        uint32_t *out;
    } sizes[] = {
        {"linear_num_key_heads", DELTA_HEADS_MAX, &delta->key_heads},
        {"linear_num_value_heads", DELTA_HEADS_MAX, &delta->value_heads},
        {"linear_key_head_dim", DELTA_SIZE_MAX, &delta->key_size},
        {"linear_value_head_dim", DELTA_SIZE_MAX, &delta->value_size},
        {"linear_conv_kernel_dim", DELTA_KERNEL_MAX, &delta->kernel},
    };
    enum status status = STATUS_OK;

    if (out->arch != ARCH_QWEN3_5 && out->arch != ARCH_QWEN3_5_MOE)
        return STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < COUNT_OF(sizes); i++)
        status = config_count(config, sizes[i].name, sizes[i].max, 0,
                              sizes[i].out, err);
    if (status == STATUS_OK && delta->value_heads % delta->key_heads != 0)
        status = config_refuse(err, "linear_num_value_heads",
                               "must be a multiple of linear_num_key_heads");
    if (status == STATUS_OK && delta->kernel < 2)
        status =
            config_refuse(err, "linear_conv_kernel_dim", "must be 2 or more");
    if (status == STATUS_OK && !json_is_null(gate) && !json_as_bool(gate))
        status = config_refuse(err, "attn_output_gate", "must be true");
    out->gated_attention = true;
    return status;
}

/* --- experts --------------------------------------------------------------*/

/* What is true of all: no more are used than there are. */
static enum status
read_counts(const struct json *config, const char *name,
            struct model_experts *out, struct error *err)
{
    enum status status =
        config_count(config, name, EXPERTS_MAX, 0, &out->count, err);

    if (status == STATUS_OK)
        status = config_count(config, "num_experts_per_tok", EXPERTS_MAX, 0,
                              &out->used, err);
    if (status == STATUS_OK && out->used > out->count)
        status = config_refuse(err, "num_experts_per_tok",
                               "is more than there are experts");
    out->groups = 1;
    out->groups_used = 1;
    out->scale = 1;
    return status;
}

/* A member that may only be 1, or lack. */
static enum status
check_one(const struct json *config, const char *name, struct error *err)
{
    const struct json *value = json_get(config, name);
    int64_t number = 0;

    if (json_is_null(value) ||
        (json_as_i64(value, &number) == STATUS_OK && number == 1))
        return STATUS_OK;
    return config_refuse(err, name, "must be 1");
}

static enum status
read_softmax(const struct json *config, struct model_experts *out,
             struct error *err)
{
    enum status status = read_counts(config, "num_experts", out, err);

    out->router = ROUTER_SOFTMAX;
    if (status == STATUS_OK)
        status = config_count(config, "moe_intermediate_size", INNER_MAX, 0,
                              &out->inner, err);
    if (status == STATUS_OK)
        status = config_bool(config, "norm_topk_prob", &out->normalised, err);
    if (status == STATUS_OK)
        status = check_one(config, "decoder_sparse_step", err);
    if (status == STATUS_OK &&
        json_count(json_get(config, "mlp_only_layers")) > 0)
        status = config_refuse(err, "mlp_only_layers", "must be empty");
    return status;
}

/* Beside them one for every position, with a gate of its own. */
static enum status
read_shared_softmax(const struct json *config, struct model_experts *out,
                    struct error *err)
{
    enum status status = read_softmax(config, out, err);

    if (json_is_null(json_get(config, "norm_topk_prob")))
        out->normalised = true;
    out->shared_gate = true;
    if (status != STATUS_OK)
        return status;
    return config_count(config, "shared_expert_intermediate_size", INNER_MAX, 0,
                        &out->shared_inner, err);
}

static enum status
read_top_softmax(const struct json *config, struct model_config *config_out,
                 struct error *err)
{
    struct model_experts *out = &config_out->experts;
    enum status status = read_counts(config, "num_local_experts", out, err);

    out->router = ROUTER_TOP_SOFTMAX;
    out->inner = config_out->intermediate;
    if (status == STATUS_OK)
        status = config_positive(config, "swiglu_limit", 7, &out->limit, err);
    return status;
}

static enum status
read_groups(const struct json *config, struct model_experts *out,
            struct error *err)
{
    enum status status =
        config_count(config, "n_group", MODEL_GROUPS_MAX, 1, &out->groups, err);

    if (status == STATUS_OK)
        status = config_count(config, "topk_group", MODEL_GROUPS_MAX, 1,
                              &out->groups_used, err);
    if (status != STATUS_OK)
        return status;
    if (out->count % out->groups != 0 ||
        (out->groups > 1 && out->count / out->groups < 2))
        return config_refuse(err, "n_group",
                             "must divide the experts into groups of 2 or "
                             "more");
    if (out->groups_used > out->groups)
        return config_refuse(err, "topk_group", "is more than n_group");
    if (out->groups_used * (out->count / out->groups) < out->used)
        return config_refuse(err, "topk_group",
                             "leaves fewer experts than are used");
    return STATUS_OK;
}

/* The first layers are dense; their number may be 0. */
static enum status
read_dense(const struct json *config, struct model_config *out,
           struct error *err)
{
    int64_t number = 0;
    const struct json *value = json_get(config, "first_k_dense_replace");

    if (!json_is_null(value) && (json_as_i64(value, &number) != STATUS_OK ||
                                 number < 0 || number > out->layers))
        return config_refuse(err, "first_k_dense_replace",
                             "must be a number of layers");
    out->experts.dense_layers = (uint32_t)number;
    return STATUS_OK;
}

static enum status
read_shared(const struct json *config, struct model_experts *out,
            struct error *err)
{
    uint32_t count = 0;
    enum status status;

    if (json_is_null(json_get(config, "n_shared_experts")))
        return STATUS_OK;
    status =
        config_count(config, "n_shared_experts", EXPERTS_MAX, 0, &count, err);
    if (status != STATUS_OK)
        return status;
    if ((uint64_t)count * out->inner > INNER_MAX)
        return config_refuse(err, "n_shared_experts", "is too many");
    out->shared_inner = count * out->inner;
    return STATUS_OK;
}

static enum status
read_sigmoid(const struct json *config, struct model_config *config_out,
             struct error *err)
{
    struct model_experts *out = &config_out->experts;
    const struct json *scoring = json_get(config, "scoring_func");
    const struct json *method = json_get(config, "topk_method");
    enum status status = read_counts(config, "n_routed_experts", out, err);

    out->router = ROUTER_SIGMOID;
    out->normalised = true;
    if (status == STATUS_OK)
        status = config_count(config, "moe_intermediate_size", INNER_MAX, 0,
                              &out->inner, err);
    if (status == STATUS_OK)
        status = read_groups(config, out, err);
    if (status == STATUS_OK)
        status = read_dense(config, config_out, err);
    if (status == STATUS_OK)
        status = read_shared(config, out, err);
    if (status == STATUS_OK &&
        !json_is_null(json_get(config, "norm_topk_prob")))
        status = config_bool(config, "norm_topk_prob", &out->normalised, err);
    if (status == STATUS_OK)
        status = config_positive(config, "routed_scaling_factor", 1,
                                 &out->scale, err);
    if (status == STATUS_OK)
        status = check_one(config, "moe_layer_freq", err);
    if (status == STATUS_OK && !json_is_null(scoring) &&
        !config_text_is(scoring, "sigmoid"))
        status = config_refuse(err, "scoring_func", "must be sigmoid");
    if (status == STATUS_OK && !json_is_null(method) &&
        !config_text_is(method, "noaux_tc"))
        status = config_refuse(err, "topk_method", "must be noaux_tc");
    return status;
}

enum status
config_read_experts(const struct json *config, struct model_config *out,
                    struct error *err)
{
    switch (out->arch) {
    case ARCH_LLAMA:
    case ARCH_MISTRAL:
    case ARCH_QWEN2:
    case ARCH_QWEN3:
    case ARCH_QWEN3_5:
    case ARCH_COUNT:
        return STATUS_OK;
    case ARCH_QWEN3_MOE:
        return read_softmax(config, &out->experts, err);
    case ARCH_QWEN3_5_MOE:
        return read_shared_softmax(config, &out->experts, err);
    case ARCH_GPT_OSS:
        return read_top_softmax(config, out, err);
    case ARCH_GLM4_MOE:
    case ARCH_DEEPSEEK_V3:
    case ARCH_KIMI_K2:
        return read_sigmoid(config, out, err);
    }
    return STATUS_OK;
}
