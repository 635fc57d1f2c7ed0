/* directory_rope.c - how positions turn queries and keys, of config.json. */
#include "model/directory_fields.h"

#include <math.h>

#include "common/banned.h"

static enum status
read_original(const struct json *rope, uint32_t fallback,
              struct model_config *out, struct error *err)
{
    return config_count(rope, "rope_scaling.original_max_position_embeddings",
                        CONFIG_CONTEXT_MAX, fallback,
                        &out->rope_original_context, err);
}

static enum status
read_llama3(const struct json *rope, struct model_config *out,
            struct error *err)
{
    enum status status = config_positive(rope, "rope_scaling.low_freq_factor",
                                         0, &out->rope_low_freq_factor, err);

    if (status == STATUS_OK)
        status = config_positive(rope, "rope_scaling.high_freq_factor", 0,
                                 &out->rope_high_freq_factor, err);
    if (status == STATUS_OK)
        status = read_original(rope, 0, out, err);
    if (status == STATUS_OK &&
        out->rope_high_freq_factor <= out->rope_low_freq_factor)
        status = config_refuse(err, "rope_scaling.high_freq_factor",
                               "must be above low_freq_factor");
    return status;
}

/* What YaRN makes of a coefficient and a factor: 1 where nothing is
 * stretched. */
static double
yarn_scale(double factor, double coefficient)
{
    return factor <= 1 ? 1 : 0.1 * coefficient * log(factor) + 1;
}

/* Sines and cosines are multiplied by what the config says, else by the ratio
 * of two coefficients, else by what the factor makes. */
static enum status
read_amplitude(const struct json *rope, struct model_config *out,
               struct error *err)
{
    double factor = (double)out->rope_factor;
    double all = 0, some = 0;

    if (json_as_double(json_get(rope, "mscale_all_dim"), &all) != STATUS_OK)
        all = 0;
    if (!json_is_null(json_get(rope, "attention_factor")))
        return config_positive(rope, "rope_scaling.attention_factor", 0,
                               &out->rope_amplitude, err);
    out->rope_amplitude = (float)yarn_scale(factor, 1);
    if (json_as_double(json_get(rope, "mscale"), &some) == STATUS_OK &&
        some > 0 && all > 0)
        out->rope_amplitude =
            (float)(yarn_scale(factor, some) / yarn_scale(factor, all));
    if (out->latent.kv_rank != 0 && all > 0)
        out->score_scale *=
            (float)(yarn_scale(factor, all) * yarn_scale(factor, all));
    if (!(out->score_scale > 0 && out->score_scale < 1e6F) ||
        !(out->rope_amplitude > 0 && out->rope_amplitude < 1e6F))
        return config_refuse(err, "rope_scaling.mscale", "is out of range");
    return STATUS_OK;
}

static enum status
read_yarn(const struct json *rope, struct model_config *out, struct error *err)
{
    enum status status = config_positive(rope, "rope_scaling.beta_fast", 32,
                                         &out->rope_beta_fast, err);

    if (status == STATUS_OK)
        status = config_positive(rope, "rope_scaling.beta_slow", 1,
                                 &out->rope_beta_slow, err);
    if (status == STATUS_OK)
        status = read_original(rope, out->context, out, err);
    if (status == STATUS_OK)
        status = read_amplitude(rope, out, err);
    if (status == STATUS_OK && out->rope_beta_fast < out->rope_beta_slow)
        status = config_refuse(err, "rope_scaling.beta_fast",
                               "must not be below beta_slow");
    if (status == STATUS_OK && out->rope_theta <= 1)
        status = config_refuse(err, "rope_theta", "must be above 1");
    out->rope_truncate = json_is_null(json_get(rope, "truncate")) ||
                         json_as_bool(json_get(rope, "truncate"));
    return status;
}

static enum status
read_scaling(const struct json *rope, struct model_config *out,
             struct error *err)
{
    const struct json *type = json_get(rope, "rope_type");
    enum status status;

    if (json_is_null(type))
        type = json_get(rope, "type");
    if (json_is_null(type) || config_text_is(type, "default"))
        return STATUS_OK;
    if (config_text_is(type, "llama3"))
        out->rope_scaling = ROPE_LLAMA3;
    else if (config_text_is(type, "linear"))
        out->rope_scaling = ROPE_LINEAR;
    else if (config_text_is(type, "yarn"))
        out->rope_scaling = ROPE_YARN;
    else
        return config_refuse(err, "rope_scaling",
                             "type must be default, linear, llama3 or yarn");
    status =
        config_positive(rope, "rope_scaling.factor", 0, &out->rope_factor, err);
    if (status == STATUS_OK && out->rope_scaling == ROPE_LLAMA3)
        status = read_llama3(rope, out, err);
    if (status == STATUS_OK && out->rope_scaling == ROPE_YARN)
        status = read_yarn(rope, out, err);
    return status;
}

static double
part_by_default(enum model_arch arch)
{
    if (arch == ARCH_GLM4_MOE)
        return 0.5;
    return arch == ARCH_QWEN3_5 || arch == ARCH_QWEN3_5_MOE ? 0.25 : 1;
}

/* How much of a head turns: "partial_rotary_factor", here or there. */
static enum status
read_rotary(const struct json *config, const struct json *rope,
            struct model_config *out, struct error *err)
{
    const struct json *holder =
        json_is_null(json_get(rope, "partial_rotary_factor")) ? config : rope;
    float part = 1;
    enum status status;

    if (out->latent.kv_rank != 0) {
        out->rotary = out->latent.rope;
        return STATUS_OK;
    }
    status = config_positive(holder, "partial_rotary_factor",
                             part_by_default(out->arch), &part, err);

    if (status != STATUS_OK)
        return status;
    out->rotary = part > 1 ? 0 : (uint32_t)((float)out->head_dim * part);
    if (out->rotary == 0 || out->rotary % 2 != 0)
        return config_refuse(err, "partial_rotary_factor",
                             "must leave an even number of a head's elements");
    return STATUS_OK;
}

/* Theta and scaling: "rope_theta" and "rope_scaling", or both inside
 * "rope_parameters" (transformers 5). */
enum status
config_read_rope(const struct json *config, struct model_config *out,
                 struct error *err)
{
    const struct json *rope = json_get(config, "rope_parameters");
    enum status status;

    out->rope_amplitude = 1;
    if (json_is_null(rope))
        rope = json_get(config, "rope_scaling");
    status = config_positive(
        json_is_null(json_get(rope, "rope_theta")) ? config : rope,
        "rope_theta", (double)out->rope_theta, &out->rope_theta, err);
    if (status == STATUS_OK)
        status = read_rotary(config, rope, out, err);
    if (status != STATUS_OK || json_is_null(rope))
        return status;
    if (json_kind(rope) != JSON_KIND_OBJECT)
        return config_refuse(err, "rope_scaling", "must be an object");
    return read_scaling(rope, out, err);
}
