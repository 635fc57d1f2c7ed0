/* prepare_fields.c - the fields of a request that steer generation. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/prepare_private.h"

#include "common/banned.h"

enum { STOPS_OF_A_REQUEST_MAX = 4 };

enum status
prepare_refuse(struct error *err, const char *param, const char *format, ...)
{
    char text[ERROR_TEXT_BYTES];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    (void)error_set(err, STATUS_INVALID, "%s", text);
    return error_tag(err, NULL, param);
}

/* --- what is not supported --- */

static bool
is_number(const struct json *value, double wanted)
{
    double number;

    return json_as_double(value, &number) == STATUS_OK && number == wanted;
}

static bool
is_zero(const struct json *value)
{
    return is_number(value, 0);
}

static bool
is_one(const struct json *value)
{
    return is_number(value, 1);
}

static bool
is_false(const struct json *value)
{
    return json_kind(value) == JSON_KIND_BOOL && !json_as_bool(value);
}

static bool
is_text(const struct json *value, const char *wanted)
{
    size_t size;
    const char *text = json_as_text(value, &size);

    return text != NULL && size == strlen(wanted) &&
           memcmp(text, wanted, size) == 0;
}

static bool
is_empty(const struct json *value)
{
    enum json_kind kind = json_kind(value);

    return (kind == JSON_KIND_LIST || kind == JSON_KIND_OBJECT)
               ? json_count(value) == 0
               : is_text(value, "");
}

static bool
is_no_choice(const struct json *value)
{
    return is_text(value, "none") || is_text(value, "auto");
}

static bool
is_text_format(const struct json *value)
{
    return is_text(json_get(value, "type"), "text");
}

static bool
is_text_alone(const struct json *value)
{
    return json_kind(value) == JSON_KIND_LIST && json_count(value) == 1 &&
           is_text(json_at(value, 0), "text");
}

static bool
is_never(const struct json *value)
{
    (void)value;
    return false;
}

enum { IN_CHAT = 1, IN_COMPLETION = 2, IN_BOTH = 3 };

/* Each with the values that ask for what happens anyway. */
static const struct {
    const char *name;
    int where;
    bool (*is_harmless)(const struct json *value);
} unsupported[] = {
    {"n", IN_BOTH, is_one},
    {"best_of", IN_COMPLETION, is_one},
    {"echo", IN_COMPLETION, is_false},
    {"suffix", IN_COMPLETION, is_empty},
    {"logprobs", IN_BOTH, is_false},
    {"top_logprobs", IN_CHAT, is_zero},
    {"presence_penalty", IN_BOTH, is_zero},
    {"frequency_penalty", IN_BOTH, is_zero},
    {"repetition_penalty", IN_BOTH, is_one},
    {"logit_bias", IN_BOTH, is_empty},
    {"min_p", IN_BOTH, is_zero},
    {"functions", IN_CHAT, is_empty},
    {"function_call", IN_CHAT, is_no_choice},
    {"response_format", IN_BOTH, is_text_format},
    {"modalities", IN_CHAT, is_text_alone},
    {"audio", IN_CHAT, is_never},
    {"prediction", IN_CHAT, is_never},
    {"web_search_options", IN_CHAT, is_never},
};

enum status
prepare_unsupported(const struct json *body, bool chat, struct error *err)
{
    for (size_t i = 0; i < COUNT_OF(unsupported); i++) {
        const struct json *value = json_get(body, unsupported[i].name);

        if ((unsupported[i].where & (chat ? IN_CHAT : IN_COMPLETION)) == 0 ||
            json_is_null(value) || unsupported[i].is_harmless(value))
            continue;
        (void)error_set(err, STATUS_INVALID,
                        "%s is not supported by the engines of this network "
                        "yet: remove it",
                        unsupported[i].name);
        return error_tag(err, "unsupported_parameter", unsupported[i].name);
    }
    return STATUS_OK;
}

/* --- sampling --- */

static enum status
number_read(const struct json *body, const char *name, double least,
            double most, double *number, struct error *err)
{
    const struct json *value = json_get(body, name);
    double found;

    if (json_is_null(value))
        return STATUS_OK;
    if (json_as_double(value, &found) != STATUS_OK || !(found >= least) ||
        !(found <= most))
        return prepare_refuse(err, name, "%s must be a number from %g to %g",
                              name, least, most);
    *number = found;
    return STATUS_OK;
}

static enum status
stop_add(const struct json *value, struct job *job, struct error *err)
{
    struct output_rules *rules = &job->rules;
    size_t size;
    const char *text = json_as_text(value, &size);

    if (text == NULL || size == 0 || size >= OUTPUT_STOP_BYTES ||
        memchr(text, '\0', size) != NULL)
        return prepare_refuse(
            err, "stop",
            "stop must be a text of 1 to %d bytes, or a list of "
            "1 to %d of them",
            OUTPUT_STOP_BYTES - 1, STOPS_OF_A_REQUEST_MAX);
    memcpy(rules->stop[rules->stop_count], text, size);
    rules->stop[rules->stop_count][size] = '\0';
    rules->stop_count++;
    return STATUS_OK;
}

static enum status
stop_read(const struct json *body, struct job *job, struct error *err)
{
    const struct json *value = json_get(body, "stop");
    enum status status = STATUS_OK;

    if (json_is_null(value))
        return STATUS_OK;
    if (json_kind(value) != JSON_KIND_LIST)
        return stop_add(value, job, err);
    if (json_count(value) > STOPS_OF_A_REQUEST_MAX)
        return prepare_refuse(err, "stop",
                              "stop has %zu items, and at most %d: send fewer",
                              json_count(value), STOPS_OF_A_REQUEST_MAX);
    for (size_t i = 0; status == STATUS_OK && i < json_count(value); i++)
        status = stop_add(json_at(value, i), job, err);
    return status;
}

/* Any 64-bit integer is welcome; the engine's seeds have 63 bits. */
static enum status
seed_read(const struct json *body, struct job *job, struct error *err)
{
    const struct json *value = json_get(body, "seed");
    int64_t seed;

    if (json_is_null(value)) {
        job->sampling.seed = job_drawn_seed(job->id);
        return STATUS_OK;
    }
    if (json_as_i64(value, &seed) != STATUS_OK)
        return prepare_refuse(
            err, "seed", "seed must be a whole number from -2^63 to 2^63-1");
    job->sampling.seed = (uint64_t)seed & (uint64_t)INT64_MAX;
    return STATUS_OK;
}

static enum status
top_k_read(const struct json *body, struct job *job, struct error *err)
{
    const struct json *value = json_get(body, "top_k");
    int64_t top_k;

    if (json_is_null(value))
        return STATUS_OK;
    if (json_as_i64(value, &top_k) != STATUS_OK || top_k < 0 ||
        top_k > UINT32_MAX)
        return prepare_refuse(err, "top_k",
                              "top_k must be a whole number from 0 (off) to %u",
                              UINT32_MAX);
    job->sampling.top_k = (uint32_t)top_k;
    return STATUS_OK;
}

enum status
prepare_sampling(const struct json *body, struct job *job, struct error *err)
{
    enum status status;

    job->sampling.temperature = 1;
    job->sampling.top_p = 1;
    status =
        number_read(body, "temperature", 0, 2, &job->sampling.temperature, err);
    if (status == STATUS_OK)
        status = number_read(body, "top_p", 0, 1, &job->sampling.top_p, err);
    if (status == STATUS_OK && job->sampling.top_p == 0)
        status = prepare_refuse(err, "top_p",
                                "top_p must be above 0 and at most 1: for the "
                                "likeliest token alone set temperature to 0");
    if (status == STATUS_OK)
        status = top_k_read(body, job, err);
    if (status == STATUS_OK)
        status = seed_read(body, job, err);
    if (status == STATUS_OK)
        status = stop_read(body, job, err);
    return status;
}

/* --- length and form --- */

static enum status
count_read(const struct json *body, const char *name, uint64_t *count,
           struct error *err)
{
    const struct json *value = json_get(body, name);
    int64_t found;

    *count = 0;
    if (json_is_null(value))
        return STATUS_OK;
    if (json_as_i64(value, &found) != STATUS_OK || found < 1)
        return prepare_refuse(err, name,
                              "%s must be a whole number of at least 1", name);
    *count = (uint64_t)found;
    return STATUS_OK;
}

enum status
prepare_max_tokens(const struct json *body, uint64_t *max_tokens,
                   struct error *err)
{
    uint64_t older, newer;
    enum status status = count_read(body, "max_tokens", &older, err);

    if (status == STATUS_OK)
        status = count_read(body, "max_completion_tokens", &newer, err);
    if (status != STATUS_OK)
        return status;
    if (older != 0 && newer != 0 && older != newer)
        return prepare_refuse(err, "max_tokens",
                              "max_tokens is %" PRIu64
                              " and max_completion_tokens is %" PRIu64
                              ": send one of them",
                              older, newer);
    *max_tokens = older != 0 ? older : newer;
    return STATUS_OK;
}

static enum status
flag_read(const struct json *object, const char *name, const char *param,
          bool *flag, struct error *err)
{
    const struct json *value = json_get(object, name);

    if (json_is_null(value))
        return STATUS_OK;
    if (json_kind(value) != JSON_KIND_BOOL)
        return prepare_refuse(err, param, "%s must be true or false", param);
    *flag = json_as_bool(value);
    return STATUS_OK;
}

enum status
prepare_stream(const struct json *body, struct prepared *prepared,
               struct error *err)
{
    const struct json *options = json_get(body, "stream_options");
    enum status status =
        flag_read(body, "stream", "stream", &prepared->stream, err);

    if (status != STATUS_OK || json_is_null(options))
        return status;
    if (json_kind(options) != JSON_KIND_OBJECT)
        return prepare_refuse(err, "stream_options",
                              "stream_options must be an object, as "
                              "{\"include_usage\":true}");
    return flag_read(options, "include_usage", "stream_options.include_usage",
                     &prepared->include_usage, err);
}
