/* directory_config.c - config.json in numbers, every one of them checked.
 *
 * Defaults are those of Hugging Face's transformers, which writes only what
 * differs from them.  A member that would change what the model computes and
 * that we do not implement is refused by name. */
#include "model/directory_fields.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/banned.h"

enum {
    HIDDEN_MAX = 1 << 17,
    INTERMEDIATE_MAX = 1 << 20,
    HEADS_MAX = 4096,
    HEAD_DIM_MAX = 1024,
    VOCAB_MAX = 1 << 22,
};

/* Which biases there are: as attention_bias says, or always. */
enum biases {
    BIASES_TOLD,        /* q, k, v and o, or none */
    BIASES_TOLD_INPUTS, /* q, k and v, or none */
    BIASES_INPUTS,
    BIASES_ALL,
};

/* What an architecture is called, and what it takes for absent members. */
static const struct architecture {
    const char *architecture;
    const char *model_type;
    uint32_t context;
    uint32_t head_dim; /* 0: hidden / heads */
    float theta;
    enum biases biases;
    bool qk_norm;
    bool sinks;
} architectures[ARCH_COUNT] = {
    [ARCH_LLAMA] = {"LlamaForCausalLM", "llama", 2048, 0, 10000, BIASES_TOLD,
                    false, false},
    [ARCH_MISTRAL] = {"MistralForCausalLM", "mistral", 131072, 0, 10000,
                      BIASES_TOLD, false, false},
    [ARCH_QWEN2] = {"Qwen2ForCausalLM", "qwen2", 32768, 0, 10000, BIASES_INPUTS,
                    false, false},
    [ARCH_QWEN3] = {"Qwen3ForCausalLM", "qwen3", 32768, 128, 10000, BIASES_TOLD,
                    true, false},
    [ARCH_QWEN3_MOE] = {"Qwen3MoeForCausalLM", "qwen3_moe", 32768, 0, 10000,
                        BIASES_TOLD, true, false},
    [ARCH_GPT_OSS] = {"GptOssForCausalLM", "gpt_oss", 131072, 64, 150000,
                      BIASES_ALL, false, true},
    [ARCH_GLM4_MOE] = {"Glm4MoeForCausalLM", "glm4_moe", 131072, 0, 10000,
                       BIASES_TOLD_INPUTS, false, false},
    [ARCH_DEEPSEEK_V3] = {"DeepseekV3ForCausalLM", "deepseek_v3", 4096, 0,
                          10000, BIASES_TOLD, false, false},
    [ARCH_KIMI_K2] = {"DeepseekV3ForCausalLM", "kimi_k2", 4096, 0, 10000,
                      BIASES_TOLD, false, false},
    [ARCH_QWEN3_5] = {"Qwen3_5ForConditionalGeneration", "qwen3_5", 32768, 256,
                      10000, BIASES_TOLD, true, false},
    [ARCH_QWEN3_5_MOE] = {"Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe",
                          32768, 256, 10000, BIASES_TOLD, true, false},
};

static enum status
unknown_architecture(const struct json *value, struct error *err)
{
    size_t size = 0;
    const char *text = json_as_text(value, &size);
    char known[512] = "";
    size_t used = 0;

    for (size_t i = 0; i < ARCH_COUNT; i++)
        used +=
            (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
                             i == 0 ? "" : ", ", architectures[i].model_type);
    error_set(err, STATUS_INVALID,
              "config.json: architecture %.64s is not known; known are: %s",
              text == NULL ? "(none)" : text, known);
    return error_tag(err, "architecture_unknown", "architectures");
}

/* "architectures" and "model_type" must name the same one; one may lack. */
static enum status
read_architecture(const struct json *config, struct model_config *out,
                  struct error *err)
{
    const struct json *name = json_at(json_get(config, "architectures"), 0);
    const struct json *type = json_get(config, "model_type");
    bool by_name = false, by_type = false;

    for (size_t i = 0; i < ARCH_COUNT; i++) {
        const struct architecture *one = &architectures[i];
        bool name_fits = config_text_is(name, one->architecture);
        bool type_fits = config_text_is(type, one->model_type);

        by_name = by_name || name_fits;
        by_type = by_type || type_fits;
        if ((!name_fits && !json_is_null(name)) ||
            (!type_fits && !json_is_null(type)) || (!name_fits && !type_fits))
            continue;
        out->arch = (enum model_arch)i;
        snprintf(out->model_type, sizeof(out->model_type), "%s",
                 one->model_type);
        out->rope_theta = one->theta;
        out->qk_norm = one->qk_norm;
        out->sinks = one->sinks;
        return STATUS_OK;
    }
    if (by_name && by_type)
        return config_refuse(err, "model_type",
                             "is not of the architecture that is named");
    return unknown_architecture(json_is_null(name) || by_name ? type : name,
                                err);
}

static bool
is_latent(enum model_arch arch)
{
    return arch == ARCH_DEEPSEEK_V3 || arch == ARCH_KIMI_K2;
}

static enum status
read_heads(const struct json *config, struct model_config *out,
           struct error *err)
{
    uint32_t head_dim = architectures[out->arch].head_dim;
    enum status status = config_count(config, "num_attention_heads", HEADS_MAX,
                                      0, &out->heads, err);

    if (status == STATUS_OK)
        status = config_count(config, "num_key_value_heads", HEADS_MAX,
                              out->heads, &out->kv_heads, err);
    if (status != STATUS_OK)
        return status;
    if (out->heads % out->kv_heads != 0)
        return config_refuse(err, "num_key_value_heads",
                             "does not divide num_attention_heads");
    if (head_dim == 0 && !is_latent(out->arch) &&
        json_is_null(json_get(config, "head_dim"))) {
        if (out->hidden % out->heads != 0)
            return config_refuse(err, "num_attention_heads",
                                 "does not divide hidden_size");
        head_dim = out->hidden / out->heads;
    }
    if (is_latent(out->arch)) {
        status = config_read_latent(config, out, err);
        out->head_dim = out->latent.nope + out->latent.rope;
        out->score_scale = 1.0f / sqrtf((float)out->head_dim);
        return status;
    }
    status = config_count(config, "head_dim", HEAD_DIM_MAX, head_dim,
                          &out->head_dim, err);
    if (status != STATUS_OK)
        return status;
    out->score_scale = 1.0f / sqrtf((float)out->head_dim);
    if (out->head_dim % 2 != 0 || out->head_dim > HEAD_DIM_MAX)
        return config_refuse(err, "head_dim", "must be even and at most 1024");
    return STATUS_OK;
}

static enum status
read_sizes(const struct json *config, struct model_config *out,
           struct error *err)
{
    const struct {
        const char *name;
        uint32_t max;
        uint32_t fallback;
        uint32_t *out;
    } sizes[] = {
        {"num_hidden_layers", MODEL_LAYERS_MAX, 0, &out->layers},
        {"hidden_size", HIDDEN_MAX, 0, &out->hidden},
        {"intermediate_size", INTERMEDIATE_MAX,
         out->arch == ARCH_QWEN3_5_MOE ? 1 : 0, &out->intermediate},
        {"vocab_size", VOCAB_MAX, 0, &out->vocab},
        {"max_position_embeddings", CONFIG_CONTEXT_MAX,
         architectures[out->arch].context, &out->context},
    };

    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        enum status status = config_count(config, sizes[i].name, sizes[i].max,
                                          sizes[i].fallback, sizes[i].out, err);
        if (status != STATUS_OK)
            return status;
    }
    return read_heads(config, out, err);
}

static bool
is_own_member(const char *name)
{
    return strcmp(name, "bits") == 0 || strcmp(name, "group_size") == 0 ||
           strcmp(name, "mode") == 0;
}

static enum status
quantisation_refuse(struct error *err, const char *module, const char *what)
{
    error_set(err, STATUS_INVALID, "config.json: quantization: %.200s%s%s",
              module, module[0] == '\0' ? "" : ": ", what);
    return error_tag(err, "quantisation_unknown", "quantization");
}

static bool
is_one_of(int64_t value, const uint8_t *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (list[i] == value)
            return true;
    return false;
}

/* "bits", "group_size" and "mode" of @value, for those absent what @out says
 * before the call. */
static enum status
quantisation_read(const struct json *value, const char *module,
                  struct quantisation *out, struct error *err)
{
    static const uint8_t widths[] = {2, 3, 4, 5, 6, 8};
    static const uint8_t groups[] = {32, 64, 128};
    const struct json *mode = json_get(value, "mode");
    int64_t bits = out->bits, group = out->group;

    if (!json_is_null(mode) && !config_text_is(mode, "affine") &&
        !config_text_is(mode, "mxfp4"))
        return quantisation_refuse(err, module, "mode must be affine or mxfp4");
    if (!json_is_null(mode))
        out->mode =
            config_text_is(mode, "mxfp4") ? QUANTISED_MXFP4 : QUANTISED_AFFINE;
    if ((!json_is_null(json_get(value, "bits")) &&
         json_as_i64(json_get(value, "bits"), &bits) != STATUS_OK) ||
        !is_one_of(bits, widths, sizeof(widths)))
        return quantisation_refuse(err, module,
                                   "bits must be 2, 3, 4, 5, 6 or 8");
    if ((!json_is_null(json_get(value, "group_size")) &&
         json_as_i64(json_get(value, "group_size"), &group) != STATUS_OK) ||
        !is_one_of(group, groups, sizeof(groups)))
        return quantisation_refuse(err, module,
                                   "group_size must be 32, 64 or 128");
    if (out->mode == QUANTISED_MXFP4 && (bits != 4 || group != 32))
        return quantisation_refuse(err, module,
                                   "mxfp4 has 4 bits and a group_size of 32");
    out->bits = (uint32_t)bits;
    out->group = (uint32_t)group;
    return STATUS_OK;
}

/* MLX writes "quantization", and the same again as "quantization_config". */
static const struct json *
quantisation_of(const struct json *config)
{
    const struct json *value = json_get(config, "quantization");

    return json_is_null(value) ? json_get(config, "quantization_config")
                               : value;
}

static enum status
quantisation_default(const struct json *config, struct quantisation *out,
                     struct error *err)
{
    const struct json *value = quantisation_of(config);

    *out = (struct quantisation){.mode = QUANTISED_NOT};
    if (json_is_null(value))
        return STATUS_OK;
    if (json_kind(value) != JSON_KIND_OBJECT ||
        !json_is_null(json_get(value, "quant_method")))
        return config_refuse(err, "quantization_config",
                             "only MLX's formats affine and mxfp4 are known");
    out->mode = QUANTISED_AFFINE;
    return quantisation_read(value, "", out, err);
}

enum status
model_config_quantisation(const struct json *config, const char *module,
                          struct quantisation *out, struct error *err)
{
    const struct json *own = json_get(quantisation_of(config), module);
    enum status status = quantisation_default(config, out, err);

    if (status != STATUS_OK || json_is_null(own) || is_own_member(module))
        return status;
    if (json_kind(own) == JSON_KIND_BOOL) {
        if (!json_as_bool(own))
            out->mode = QUANTISED_NOT;
        return STATUS_OK;
    }
    if (json_kind(own) != JSON_KIND_OBJECT)
        return quantisation_refuse(
            err, module,
            "must be true, false or an object with bits and "
            "group_size");
    out->mode = QUANTISED_AFFINE; /* MLX's default, whatever the model's */
    return quantisation_read(own, module, out, err);
}

/* All entries are looked at, those of modules that are not there too. */
static enum status
read_quantisation(const struct json *config, struct model_config *out,
                  struct error *err)
{
    const struct json *value = quantisation_of(config);
    const struct json_member *it;
    enum status status = quantisation_default(config, &out->quantisation, err);

    for (it = json_member_first(value); it != NULL && status == STATUS_OK;
         it = json_member_next(value, it)) {
        struct quantisation own;

        status =
            model_config_quantisation(config, json_member_name(it), &own, err);
    }
    return status;
}

/* Members that would change the arithmetic into one that no engine here does:
 * refused by name, never ignored. */
static enum status
refuse_unknown_meaning(const struct json *config, struct error *err)
{
    const struct json *act = json_get(config, "hidden_act");

    if (!json_is_null(act) && !config_text_is(act, "silu"))
        return config_refuse(err, "hidden_act", "must be silu");
    return STATUS_OK;
}

static enum status
read_stop_id(const struct json *value, struct model_config *out,
             struct error *err)
{
    int64_t id = 0;

    if (json_as_i64(value, &id) != STATUS_OK || id < 0 || id >= out->vocab)
        return config_refuse(err, "eos_token_id",
                             "must name ids of the vocabulary");
    if (out->stop_id_count == MODEL_STOP_IDS_MAX)
        return config_refuse(err, "eos_token_id", "names more than 16 ids");
    out->stop_ids[out->stop_id_count++] = (uint32_t)id;
    return STATUS_OK;
}

static enum status
read_stop_ids(const struct json *config, const struct json *generation,
              struct model_config *out, struct error *err)
{
    const struct json *value = json_get(generation, "eos_token_id");
    enum status status = STATUS_OK;

    if (json_is_null(value))
        value = json_get(config, "eos_token_id");
    if (json_is_null(value))
        return STATUS_OK;
    if (json_kind(value) != JSON_KIND_LIST)
        return read_stop_id(value, out, err);
    for (size_t i = 0; i < json_count(value) && status == STATUS_OK; i++)
        status = read_stop_id(json_at(value, i), out, err);
    return status;
}

static enum status
read_biases(const struct json *config, struct model_config *out,
            struct error *err)
{
    bool told = false;
    enum status status = config_bool(config, "attention_bias", &told, err);

    switch (architectures[out->arch].biases) {
    case BIASES_TOLD:
        out->attention_bias = told;
        out->output_bias = told;
        break;
    case BIASES_TOLD_INPUTS:
        out->attention_bias = told;
        break;
    case BIASES_INPUTS:
        out->attention_bias = true;
        break;
    case BIASES_ALL:
        out->attention_bias = true;
        out->output_bias = true;
        break;
    }
    return status;
}

static enum status
read_switches(const struct json *whole, const struct json *config,
              struct model_config *out, struct error *err)
{
    const struct json *tied =
        json_is_null(json_get(config, "tie_word_embeddings")) ? whole : config;
    enum status status =
        config_bool(tied, "tie_word_embeddings", &out->tied_head, err);

    if (status == STATUS_OK)
        status = read_biases(config, out, err);
    if (status == STATUS_OK && out->arch == ARCH_LLAMA)
        status = config_bool(config, "mlp_bias", &out->mlp_bias, err);
    if (status == STATUS_OK && out->arch == ARCH_GLM4_MOE)
        status = config_bool(config, "use_qk_norm", &out->qk_norm, err);
    if (status == STATUS_OK)
        status =
            config_positive(config, "rms_norm_eps", 1e-6, &out->norm_eps, err);
    if (status == STATUS_OK && out->norm_eps >= 1)
        status = config_refuse(err, "rms_norm_eps", "must be below 1");
    return status;
}

/* A model of several kinds of input keeps what concerns text by itself. */
static const struct json *
text_of(const struct json *config)
{
    const struct json *text = json_get(config, "text_config");

    return json_kind(text) == JSON_KIND_OBJECT ? text : config;
}

enum status
model_config_parse(const struct json *config, const struct json *generation,
                   struct model_config *out, struct error *err)
{
    struct model_config read = {.prefix = "model.", .head = "lm_head"};
    const struct json *whole = config;
    enum status status = STATUS_OK;

    if (json_kind(config) != JSON_KIND_OBJECT)
        return error_set(err, STATUS_INVALID,
                         "config.json: no object: download the file again");
    status = read_architecture(config, &read, err);
    if (status == STATUS_OK &&
        (read.arch == ARCH_QWEN3_5 || read.arch == ARCH_QWEN3_5_MOE))
        config = text_of(whole);
    if (status == STATUS_OK)
        status = refuse_unknown_meaning(config, err);
    if (status == STATUS_OK)
        status = read_sizes(config, &read, err);
    if (status == STATUS_OK)
        status = config_read_rope(config, &read, err);
    if (status == STATUS_OK)
        status = read_switches(whole, config, &read, err);
    if (status == STATUS_OK)
        status = config_read_delta(config, &read, err);
    if (status == STATUS_OK)
        status = config_read_layers(config, &read, err);
    if (status == STATUS_OK)
        status = config_read_experts(config, &read, err);
    if (status == STATUS_OK)
        status = read_quantisation(whole, &read, err);
    if (status == STATUS_OK)
        status = read_stop_ids(
            json_is_null(json_get(config, "eos_token_id")) ? whole : config,
            generation, &read, err);
    if (status == STATUS_OK)
        *out = read;
    else
        error_advise(err, "choose another model");
    return status;
}
