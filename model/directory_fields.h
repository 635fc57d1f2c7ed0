/* directory_fields.h - members of config.json; for the files that read it.
 *
 * Every refusal names the member and is tagged "config_invalid". */
#ifndef BERTH_MODEL_DIRECTORY_FIELDS_H
#define BERTH_MODEL_DIRECTORY_FIELDS_H

#include "model/directory.h"

enum { CONFIG_CONTEXT_MAX = 1 << 25 };

/* "config.json: @field: @what", as STATUS_INVALID. */
enum status config_refuse(struct error *err, const char *field,
                          const char *what);
/* A name like "rope_scaling.factor" is that of the member after the dot, in
 * the object that is given.
 *
 * A whole number in 1..@max; absent is @fallback, which may be 0 for none. */
MUST_CHECK enum status config_count(const struct json *config, const char *name,
                                    uint32_t max, uint32_t fallback,
                                    uint32_t *out, struct error *err);
/* A number above 0; absent is @fallback, which may be 0 for none. */
MUST_CHECK enum status config_positive(const struct json *object,
                                       const char *name, double fallback,
                                       float *out, struct error *err);
/* Absent is false. */
MUST_CHECK enum status config_bool(const struct json *config, const char *name,
                                   bool *out, struct error *err);
bool config_text_is(const struct json *value, const char *expected);

/* Parts of model_config_parse, in this order after the sizes. */
MUST_CHECK enum status config_read_rope(const struct json *config,
                                        struct model_config *out,
                                        struct error *err);
MUST_CHECK enum status config_read_latent(const struct json *config,
                                          struct model_config *out,
                                          struct error *err);
MUST_CHECK enum status config_read_layers(const struct json *config,
                                          struct model_config *out,
                                          struct error *err);
MUST_CHECK enum status config_read_delta(const struct json *config,
                                         struct model_config *out,
                                         struct error *err);
MUST_CHECK enum status config_read_experts(const struct json *config,
                                           struct model_config *out,
                                           struct error *err);

#endif
