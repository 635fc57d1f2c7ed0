/* directory_config.c - config.json in numbers, every one of them checked.
 *
 * Defaults are those of Hugging Face's transformers, which writes only what
 * differs from them.  A member that would change what the model computes and
 * that we do not implement is refused by name. */
#include "model/directory.h"

#include <stdlib.h>
#include <string.h>

#include "common/banned.h"

enum {
    LAYERS_MAX = 1024,
    HIDDEN_MAX = 1 << 17,
    INTERMEDIATE_MAX = 1 << 20,
    HEADS_MAX = 4096,
    HEAD_DIM_MAX = 1024,
    VOCAB_MAX = 1 << 22,
    CONTEXT_MAX = 1 << 25,
};

/* What an architecture is called, and what it takes for absent members. */
static const struct {
    const char *architecture;
    const char *model_type;
    uint32_t context;
    uint32_t head_dim; /* 0: hidden / heads */
    bool qk_norm;
} architectures[ARCH_COUNT] = {
    [ARCH_LLAMA] = {"LlamaForCausalLM", "llama", 2048, 0, false},
    [ARCH_QWEN3] = {"Qwen3ForCausalLM", "qwen3", 32768, 128, true},
};

static enum status
refuse(struct error *err, const char *field, const char *what)
{
    error_set(err, STATUS_INVALID, "config.json: %s: %s", field, what);
    return error_tag(err, "config_invalid", field);
}

/* A whole number in 1..@max; absent is @fallback, which may be 0 for none. */
static enum status
read_count(const struct json *config, const char *name, uint32_t max,
           uint32_t fallback, uint32_t *out, struct error *err)
{
    const struct json *value = json_get(config, name);
    int64_t number = 0;

    if (json_is_null(value)) {
        if (fallback == 0)
            return refuse(err, name, "is missing");
        *out = fallback;
        return STATUS_OK;
    }
    if (json_as_i64(value, &number) != STATUS_OK || number < 1 ||
        number > max) {
        error_set(err, STATUS_INVALID,
                  "config.json: %s: must be a whole number from 1 to %u", name,
                  max);
        return error_tag(err, "config_invalid", name);
    }
    *out = (uint32_t)number;
    return STATUS_OK;
}

static enum status
read_positive(const struct json *object, const char *name, double fallback,
              float *out, struct error *err)
{
    const struct json *value = json_get(object, name);
    double number = fallback;

    if (!json_is_null(value) && json_as_double(value, &number) != STATUS_OK)
        return refuse(err, name, "must be a number");
    /* As a float too: 1e-60 would become 0. */
    if (!((float)number > 0 && number < 1e15))
        return refuse(err, name, "must be a number above 0 and below 1e15");
    *out = (float)number;
    return STATUS_OK;
}

static enum status
read_bool(const struct json *config, const char *name, bool *out,
          struct error *err)
{
    const struct json *value = json_get(config, name);

    if (!json_is_null(value) && json_kind(value) != JSON_KIND_BOOL)
        return refuse(err, name, "must be true or false");
    *out = json_as_bool(value);
    return STATUS_OK;
}

static bool
text_is(const struct json *value, const char *expected)
{
    size_t size = 0;
    const char *text = json_as_text(value, &size);

    return text != NULL && size == strlen(expected) &&
           memcmp(text, expected, size) == 0;
}

static enum status
unknown_architecture(const struct json *value, struct error *err)
{
    size_t size = 0;
    const char *text = json_as_text(value, &size);
    char known[128] = "";
    size_t used = 0;

    for (size_t i = 0; i < ARCH_COUNT; i++)
        used +=
            (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
                             i == 0 ? "" : ", ", architectures[i].architecture);
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

    for (size_t i = 0; i < ARCH_COUNT; i++) {
        bool by_name = text_is(name, architectures[i].architecture);
        bool by_type = text_is(type, architectures[i].model_type);

        if (!by_name && !by_type)
            continue;
        if (!by_name && !json_is_null(name))
            return unknown_architecture(name, err);
        if (!by_type && !json_is_null(type))
            return unknown_architecture(type, err);
        out->arch = (enum model_arch)i;
        snprintf(out->model_type, sizeof(out->model_type), "%s",
                 architectures[i].model_type);
        out->qk_norm = architectures[i].qk_norm;
        return STATUS_OK;
    }
    return unknown_architecture(json_is_null(name) ? type : name, err);
}

static enum status
read_heads(const struct json *config, struct model_config *out,
           struct error *err)
{
    uint32_t head_dim = architectures[out->arch].head_dim;
    enum status status = read_count(config, "num_attention_heads", HEADS_MAX, 0,
                                    &out->heads, err);

    if (status == STATUS_OK)
        status = read_count(config, "num_key_value_heads", HEADS_MAX,
                            out->heads, &out->kv_heads, err);
    if (status != STATUS_OK)
        return status;
    if (out->heads % out->kv_heads != 0)
        return refuse(err, "num_key_value_heads",
                      "does not divide num_attention_heads");
    if (head_dim == 0 && json_is_null(json_get(config, "head_dim"))) {
        if (out->hidden % out->heads != 0)
            return refuse(err, "num_attention_heads",
                          "does not divide hidden_size");
        head_dim = out->hidden / out->heads;
    }
    status = read_count(config, "head_dim", HEAD_DIM_MAX, head_dim,
                        &out->head_dim, err);
    if (status != STATUS_OK)
        return status;
    if (out->head_dim % 2 != 0 || out->head_dim > HEAD_DIM_MAX)
        return refuse(err, "head_dim", "must be even and at most 1024");
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
        {"num_hidden_layers", LAYERS_MAX, 0, &out->layers},
        {"hidden_size", HIDDEN_MAX, 0, &out->hidden},
        {"intermediate_size", INTERMEDIATE_MAX, 0, &out->intermediate},
        {"vocab_size", VOCAB_MAX, 0, &out->vocab},
        {"max_position_embeddings", CONTEXT_MAX,
         architectures[out->arch].context, &out->context},
    };

    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        enum status status = read_count(config, sizes[i].name, sizes[i].max,
                                        sizes[i].fallback, sizes[i].out, err);
        if (status != STATUS_OK)
            return status;
    }
    return read_heads(config, out, err);
}

static enum status
read_llama3_scaling(const struct json *rope, struct model_config *out,
                    struct error *err)
{
    enum status status = read_positive(rope, "low_freq_factor", 0,
                                       &out->rope_low_freq_factor, err);

    if (status == STATUS_OK)
        status = read_positive(rope, "high_freq_factor", 0,
                               &out->rope_high_freq_factor, err);
    if (status == STATUS_OK)
        status = read_count(rope, "original_max_position_embeddings",
                            CONTEXT_MAX, 0, &out->rope_original_context, err);
    if (status == STATUS_OK &&
        out->rope_high_freq_factor <= out->rope_low_freq_factor)
        status =
            refuse(err, "high_freq_factor", "must be above low_freq_factor");
    return status;
}

/* Theta and scaling: "rope_theta" and "rope_scaling", or both inside
 * "rope_parameters" (transformers 5). */
static enum status
read_rope(const struct json *config, struct model_config *out,
          struct error *err)
{
    const struct json *rope = json_get(config, "rope_parameters");
    const struct json *type = NULL;
    enum status status = STATUS_OK;

    if (json_is_null(rope))
        rope = json_get(config, "rope_scaling");
    status = read_positive(json_is_null(json_get(rope, "rope_theta")) ? config
                                                                      : rope,
                           "rope_theta", 10000.0, &out->rope_theta, err);
    if (status != STATUS_OK || json_is_null(rope))
        return status;
    if (json_kind(rope) != JSON_KIND_OBJECT)
        return refuse(err, "rope_scaling", "must be an object");
    type = json_get(rope, "rope_type");
    if (json_is_null(type))
        type = json_get(rope, "type");
    if (json_is_null(type) || text_is(type, "default"))
        return STATUS_OK;
    if (text_is(type, "llama3"))
        out->rope_scaling = ROPE_LLAMA3;
    else if (text_is(type, "linear"))
        out->rope_scaling = ROPE_LINEAR;
    else
        return refuse(err, "rope_scaling",
                      "type must be default, linear or llama3");
    status = read_positive(rope, "factor", 0, &out->rope_factor, err);
    if (status == STATUS_OK && out->rope_scaling == ROPE_LLAMA3)
        status = read_llama3_scaling(rope, out, err);
    return status;
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

    if (!json_is_null(mode) && !text_is(mode, "affine") &&
        !text_is(mode, "mxfp4"))
        return quantisation_refuse(err, module, "mode must be affine or mxfp4");
    if (!json_is_null(mode))
        out->mode = text_is(mode, "mxfp4") ? QUANTISED_MXFP4 : QUANTISED_AFFINE;
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
        return refuse(err, "quantization_config",
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
    const struct json *types = json_get(config, "layer_types");
    double rotary = 1.0;

    if (!json_is_null(act) && !text_is(act, "silu"))
        return refuse(err, "hidden_act", "must be silu");
    if (json_as_bool(json_get(config, "use_sliding_window")))
        return refuse(err, "use_sliding_window", "is not supported");
    for (size_t i = 0; i < json_count(types); i++) {
        if (!text_is(json_at(types, i), "full_attention"))
            return refuse(err, "layer_types",
                          "only full_attention is supported");
    }
    if (json_as_double(json_get(config, "partial_rotary_factor"), &rotary) ==
            STATUS_OK &&
        rotary != 1.0)
        return refuse(err, "partial_rotary_factor", "must be 1");
    return STATUS_OK;
}

static enum status
read_stop_id(const struct json *value, struct model_config *out,
             struct error *err)
{
    int64_t id = 0;

    if (json_as_i64(value, &id) != STATUS_OK || id < 0 || id >= out->vocab)
        return refuse(err, "eos_token_id", "must name ids of the vocabulary");
    if (out->stop_id_count == MODEL_STOP_IDS_MAX)
        return refuse(err, "eos_token_id", "names more than 16 ids");
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
read_switches(const struct json *config, struct model_config *out,
              struct error *err)
{
    enum status status =
        read_bool(config, "tie_word_embeddings", &out->tied_head, err);

    if (status == STATUS_OK)
        status = read_bool(config, "attention_bias", &out->attention_bias, err);
    if (status == STATUS_OK && out->arch == ARCH_LLAMA)
        status = read_bool(config, "mlp_bias", &out->mlp_bias, err);
    if (status == STATUS_OK)
        status =
            read_positive(config, "rms_norm_eps", 1e-6, &out->norm_eps, err);
    if (status == STATUS_OK && out->norm_eps >= 1)
        status = refuse(err, "rms_norm_eps", "must be below 1");
    return status;
}

enum status
model_config_parse(const struct json *config, const struct json *generation,
                   struct model_config *out, struct error *err)
{
    struct model_config read = {0};
    enum status status = STATUS_OK;

    if (json_kind(config) != JSON_KIND_OBJECT)
        return error_set(err, STATUS_INVALID,
                         "config.json: no object: download the file again");
    status = read_architecture(config, &read, err);
    if (status == STATUS_OK)
        status = refuse_unknown_meaning(config, err);
    if (status == STATUS_OK)
        status = read_sizes(config, &read, err);
    if (status == STATUS_OK)
        status = read_rope(config, &read, err);
    if (status == STATUS_OK)
        status = read_switches(config, &read, err);
    if (status == STATUS_OK)
        status = read_quantisation(config, &read, err);
    if (status == STATUS_OK)
        status = read_stop_ids(config, generation, &read, err);
    if (status == STATUS_OK)
        *out = read;
    else
        error_advise(err, "choose another model");
    return status;
}
