/* prepare.c - the decisions in order: model, fields, prompt, room, price. */
#include "coordinator/prepare.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/field.h"
#include "coordinator/prepare_private.h"

#include "common/banned.h"

enum { PATIENCE_DEFAULT_MS = 60000, CLASS_BYTES = 16 };

/* --- Berth's own options --- */

struct options {
    char pool[POOL_BYTES];
    char class[CLASS_BYTES];
    bool has_deadline, has_patience;
    uint64_t deadline_ms;
    uint64_t patience_ms;
    bool private;
};

static const struct field option_fields[] = {
    FIELD(struct options, pool, FIELD_TEXT, .min = 1),
    FIELD(struct options, class, FIELD_TEXT, .min = 1),
    FIELD_NULLABLE(struct options, deadline_ms, has_deadline, FIELD_U64,
                   .min = 1),
    FIELD_NULLABLE(struct options, patience_ms, has_patience, FIELD_U64,
                   .min = 0),
    FIELD(struct options, private, FIELD_BOOL, .min = 0),
};

static enum status
text_take(const char *value, const char *name, char *to, size_t to_size,
          struct error *err)
{
    if (value == NULL)
        return STATUS_OK;
    if (value[0] == '\0' || strlen(value) >= to_size)
        return prepare_refuse(err, name, "%s must have 1 to %zu bytes", name,
                              to_size - 1);
    memcpy(to, value, strlen(value) + 1);
    return STATUS_OK;
}

static enum status
ms_take(const char *value, const char *name, bool *has, uint64_t *to,
        struct error *err)
{
    if (value == NULL)
        return STATUS_OK;
    if (parse_u64(value, strlen(value), INT64_MAX, to) != STATUS_OK)
        return prepare_refuse(
            err, name, "%s must be a whole number of milliseconds, as 30000",
            name);
    *has = true;
    return STATUS_OK;
}

static enum status
headers_take(const struct prepare_headers *headers, struct options *options,
             struct error *err)
{
    enum status status = text_take(headers->pool, "X-Berth-Pool", options->pool,
                                   sizeof(options->pool), err);

    if (status == STATUS_OK)
        status = text_take(headers->class, "X-Berth-Class", options->class,
                           sizeof(options->class), err);
    if (status == STATUS_OK)
        status = ms_take(headers->deadline_ms, "X-Berth-Deadline-Ms",
                         &options->has_deadline, &options->deadline_ms, err);
    if (status == STATUS_OK)
        status = ms_take(headers->patience_ms, "X-Berth-Patience-Ms",
                         &options->has_patience, &options->patience_ms, err);
    if (status != STATUS_OK || headers->private == NULL)
        return status;
    if (strcmp(headers->private, "true") != 0 &&
        strcmp(headers->private, "false") != 0)
        return prepare_refuse(err, "X-Berth-Private",
                              "X-Berth-Private must be true or false");
    options->private = strcmp(headers->private, "true") == 0;
    return STATUS_OK;
}

static enum status
options_check(const struct config *config, struct options *options,
              struct error *err)
{
    bool batch = strcmp(options->class, "batch") == 0;

    if (!batch && strcmp(options->class, "interactive") != 0)
        return prepare_refuse(
            err, "class",
            "the class (X-Berth-Class) must be interactive or batch");
    if (options->private && strcmp(options->pool, "public") == 0)
        return prepare_refuse(err, "private",
                              "a private job needs a private pool: name it "
                              "with X-Berth-Pool");
    if (!options->has_patience) {
        options->patience_ms = batch ? UINT64_MAX : PATIENCE_DEFAULT_MS;
        if (options->patience_ms > config->patience_max_ms)
            options->patience_ms = config->patience_max_ms;
    }
    if (options->patience_ms > config->patience_max_ms)
        return prepare_refuse(err, "patience_ms",
                              "the patience is %" PRIu64
                              " ms, and at most %" PRIu64 " ms: lower it",
                              options->patience_ms, config->patience_max_ms);
    if (options->has_deadline && options->deadline_ms < 1)
        return prepare_refuse(err, "deadline_ms",
                              "the deadline must be at least 1 ms");
    /* What has not begun by its deadline is of no use. */
    if (options->has_deadline && options->deadline_ms < options->patience_ms)
        options->patience_ms = options->deadline_ms;
    return STATUS_OK;
}

static enum status
options_read(const struct prepare *from, struct job *job, struct error *err)
{
    struct options options = {.pool = "public", .class = "interactive"};
    struct error inner = {0};
    enum status status = STATUS_OK;

    if (!json_is_null(from->berth) &&
        field_decode(from->berth, option_fields, COUNT_OF(option_fields),
                     &options, sizeof(options), &inner) != STATUS_OK)
        return prepare_refuse(err, "berth", "berth: %.400s", inner.text);
    status = headers_take(&from->headers, &options, err);
    if (status == STATUS_OK)
        status = options_check(&from->app->config, &options, err);
    if (status != STATUS_OK)
        return status;
    memcpy(job->pool, options.pool, sizeof(job->pool));
    job->patience = span_ms((int64_t)options.patience_ms);
    return STATUS_OK;
}

/* --- model --- */

static enum status
model_unknown(const char *name, struct error *err)
{
    (void)error_set(err, STATUS_NOT_FOUND,
                    "there is no model \"%.200s\" in this network: GET "
                    "/v1/models lists those that can be served now",
                    name);
    return error_tag(err, "model_not_found", "model");
}

static enum status
model_find(const struct prepare *from, struct job *job, struct error *err)
{
    size_t size;
    const char *name = json_as_text(json_get(from->body, "model"), &size);
    const struct catalogue_view *view;
    struct model *model;

    if (name == NULL || size == 0 || strlen(name) != size)
        return prepare_refuse(err, "model",
                              "model must be the id of a model: GET /v1/models "
                              "lists them");
    if (size >= CATALOGUE_ID_BYTES)
        return model_unknown(name, err);
    view = catalogue_take(from->app->snapshots);
    model = catalogue_model(view, name);
    if (model != NULL)
        job->model = model_keep(model);
    catalogue_drop(view);
    return job->model != NULL ? STATUS_OK : model_unknown(name, err);
}

static void
end_ids_set(struct job *job)
{
    job->rules.end_id_count = job->model->end_id_count;
    memcpy(job->rules.end_ids, job->model->end_ids, sizeof(job->rules.end_ids));
}

/* --- room and price --- */

static enum status
room_check(struct job *job, uint64_t asked, struct error *err)
{
    uint64_t context = job->model->entry.context;
    const char *param = job->chat ? "messages" : "prompt";

    if (job->prompt_count < context && asked <= context - job->prompt_count) {
        job->rules.max_tokens =
            asked != 0 ? asked : context - job->prompt_count;
        return STATUS_OK;
    }
    if (job->prompt_count >= context)
        (void)error_set(err, STATUS_INVALID,
                        "This model's maximum context length is %" PRIu64
                        " tokens. However, your %s resulted in %zu tokens. "
                        "Please shorten it.",
                        context, param, job->prompt_count);
    else
        (void)error_set(
            err, STATUS_INVALID,
            "This model's maximum context length is %" PRIu64
            " tokens. However, you requested %" PRIu64
            " tokens (%zu in the %s, %" PRIu64
            " in the completion). Please lower max_tokens to %" PRIu64
            " or less.",
            context, asked + job->prompt_count, job->prompt_count, param, asked,
            context - job->prompt_count);
    return error_tag(err, "context_length_exceeded", param);
}

/* The hold covers the whole answer that may come. */
static enum status
hold_compute(const struct price_revision *revision, struct job *job,
             struct error *err)
{
    const struct catalogue_entry *entry = &job->model->entry;
    const struct price_model model = {
        .bytes_per_token = entry->bytes_per_token,
        .kv_bytes_per_token = entry->kv_bytes_per_token,
        .flop_per_token = entry->flop_per_token,
        .attention_flop = entry->attention_flop,
        .weight_bytes = entry->weight_bytes,
    };
    struct error inner = {0};
    struct price price;

    if (price_compute(revision, &model, job->prompt_count, 0,
                      job->rules.max_tokens,
                      job->prompt_count + job->rules.max_tokens, &price,
                      &inner) != STATUS_OK)
        return prepare_refuse(err, "max_tokens",
                              "no price can be computed for so large a job "
                              "(%.300s): lower max_tokens",
                              inner.text);
    job->revision = *revision;
    job->hold = price.total;
    return STATUS_OK;
}

/* --- together --- */

static enum status
fill(const struct prepare *from, struct prepared *prepared, struct error *err)
{
    struct job *job = prepared->job;
    uint64_t asked = 0;
    enum status status;

    if (json_kind(from->body) != JSON_KIND_OBJECT)
        return prepare_refuse(err, NULL, "the request must be a JSON object");
    status = model_find(from, job, err);
    if (status == STATUS_OK)
        status = prepare_unsupported(from->body, from->chat, err);
    if (status == STATUS_OK)
        status = prepare_stream(from->body, prepared, err);
    if (status == STATUS_OK)
        status = prepare_sampling(from->body, job, err);
    if (status == STATUS_OK)
        status = prepare_max_tokens(from->body, &asked, err);
    if (status == STATUS_OK)
        status = options_read(from, job, err);
    if (status == STATUS_OK)
        status = from->chat ? prepare_messages(from->body, job, err)
                            : prepare_text(from->body, job, err);
    if (status == STATUS_OK)
        status = room_check(job, asked, err);
    if (status == STATUS_OK)
        status = hold_compute(&from->app->revision, job, err);
    return status;
}

enum status
prepare_job(const struct prepare *from, struct prepared *prepared,
            struct error *err)
{
    struct prepared made = {.job = job_new()};
    struct job *job = made.job;
    enum status status;

    job->chat = from->chat;
    job->account = from->account;
    job->wallet = from->wallet;
    job->capabilities = PLACE_CAN_IDS;
    snprintf(job->key, sizeof(job->key), "%s", from->key);
    if (from->job != NULL)
        snprintf(job->id, sizeof(job->id), "%s", from->job);
    job->rules.call_seed = job_drawn_seed(job->id);
    status = fill(from, &made, err);
    if (status != STATUS_OK) {
        job_free(job);
        return status;
    }
    end_ids_set(job);
    job->record = record_new(job->model, &job->rules, job->prompt_count);
    *prepared = made;
    return STATUS_OK;
}
