/* directory_fields.c - single members of config.json, checked. */
#include "model/directory_fields.h"

#include <string.h>

#include "common/banned.h"

enum status
config_refuse(struct error *err, const char *field, const char *what)
{
    error_set(err, STATUS_INVALID, "config.json: %s: %s", field, what);
    return error_tag(err, "config_invalid", field);
}

enum status
config_count(const struct json *config, const char *name, uint32_t max,
             uint32_t fallback, uint32_t *out, struct error *err)
{
    const char *dot = strrchr(name, '.');
    const struct json *value = json_get(config, dot == NULL ? name : dot + 1);
    int64_t number = 0;

    if (json_is_null(value)) {
        if (fallback == 0)
            return config_refuse(err, name, "is missing");
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

enum status
config_positive(const struct json *object, const char *name, double fallback,
                float *out, struct error *err)
{
    const char *dot = strrchr(name, '.');
    const struct json *value = json_get(object, dot == NULL ? name : dot + 1);
    double number = fallback;

    if (!json_is_null(value) && json_as_double(value, &number) != STATUS_OK)
        return config_refuse(err, name, "must be a number");
    /* As a float too: 1e-60 would become 0. */
    if (!((float)number > 0 && number < 1e15))
        return config_refuse(err, name,
                             "must be a number above 0 and below 1e15");
    *out = (float)number;
    return STATUS_OK;
}

enum status
config_bool(const struct json *config, const char *name, bool *out,
            struct error *err)
{
    const struct json *value = json_get(config, name);

    if (!json_is_null(value) && json_kind(value) != JSON_KIND_BOOL)
        return config_refuse(err, name, "must be true or false");
    *out = json_as_bool(value);
    return STATUS_OK;
}

bool
config_text_is(const struct json *value, const char *expected)
{
    size_t size = 0;
    const char *text = json_as_text(value, &size);

    return text != NULL && size == strlen(expected) &&
           memcmp(text, expected, size) == 0;
}
