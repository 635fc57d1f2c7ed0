/* prepare_prompt.c - the prompt's ids from messages, text or ids. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "coordinator/prepare_private.h"

#include "common/banned.h"

/* Rendered text is bounded by what a tokenizer takes; JSON escapes it. */
enum { VARIABLES_MAX_BYTES = 6 * TOKENIZER_TEXT_MAX_BYTES };

static enum status
encode(struct job *job, const char *text, size_t size, const char *param,
       struct error *err)
{
    uint64_t context = job->model->entry.context;
    struct token_ids ids = {0};
    struct error inner = {0};
    enum status status;

    /* Even of the longest tokens these are too many: spare the work. */
    if (size / job->model->token_bytes_max > context) {
        (void)error_set(err, STATUS_INVALID,
                        "This model's maximum context length is %" PRIu64
                        " tokens. However, your %s has %zu bytes, which are "
                        "more tokens than that. Please shorten it.",
                        context, param, size);
        return error_tag(err, "context_length_exceeded", param);
    }
    status =
        tokenizer_encode(job->model->tokenizer, text, size, true, &ids, &inner);
    if (status != STATUS_OK)
        return prepare_refuse(err, param, "%.400s", inner.text);
    job->prompt = ids.ids;
    job->prompt_count = ids.count;
    return STATUS_OK;
}

/* --- chat --- */

/* The role as templates know it; NULL when there is no such role. */
static const char *
role_name(const struct json *message)
{
    static const char *const names[][2] = {
        {"system", "system"},
        {"developer", "system"},
        {"user", "user"},
        {"assistant", "assistant"},
    };
    size_t size;
    const char *role = json_as_text(json_get(message, "role"), &size);

    if (role == NULL || strlen(role) != size)
        return NULL;
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (strcmp(role, names[i][0]) == 0)
            return names[i][1];
    return NULL;
}

static bool
has_role(const struct json *message, const char *wanted)
{
    size_t size;
    const char *role = json_as_text(json_get(message, "role"), &size);

    return role != NULL && strcmp(role, wanted) == 0;
}

static enum status
parts_join(const struct json *parts, const char *param, struct buf *text,
           struct error *err)
{
    for (size_t i = 0; i < json_count(parts); i++) {
        const struct json *part = json_at(parts, i);
        size_t type_size, size;
        const char *type = json_as_text(json_get(part, "type"), &type_size);
        const char *piece = json_as_text(json_get(part, "text"), &size);

        if (type == NULL || strcmp(type, "text") != 0 || piece == NULL) {
            (void)prepare_refuse(err, param,
                                 "%s: item %zu is no text part; the models of "
                                 "this network read text alone",
                                 param, i);
            return STATUS_INVALID;
        }
        buf_append(text, piece, size);
    }
    return STATUS_OK;
}

static enum status
content_put(const struct json *message, size_t index, struct json_out *out,
            struct error *err)
{
    const struct json *content = json_get(message, "content");
    char param[64];
    struct buf joined;
    size_t size;
    const char *text = json_as_text(content, &size);
    enum status status = STATUS_OK;

    snprintf(param, sizeof(param), "messages[%zu].content", index);
    buf_init(&joined, TOKENIZER_TEXT_MAX_BYTES);
    if (text != NULL)
        buf_append(&joined, text, size);
    else if (json_kind(content) == JSON_KIND_LIST)
        status = parts_join(content, param, &joined, err);
    else if (!json_is_null(content) || !has_role(message, "assistant"))
        status = prepare_refuse(
            err, param, "%s must be a text or a list of text parts", param);
    if (status == STATUS_OK && joined.overflowed)
        status = prepare_refuse(err, param, "%s is over %d bytes: shorten it",
                                param, TOKENIZER_TEXT_MAX_BYTES);
    if (status == STATUS_OK) {
        json_key(out, "content");
        json_put_text_sized(out, joined.data, joined.size);
    }
    buf_clear(&joined);
    return status;
}

static enum status
message_put(const struct json *message, size_t index, struct json_out *out,
            struct error *err)
{
    const char *role = role_name(message);
    char param[64];
    enum status status;

    snprintf(param, sizeof(param), "messages[%zu]", index);
    if (json_kind(message) != JSON_KIND_OBJECT)
        return prepare_refuse(
            err, param, "%s must be an object of role and content", param);
    if (has_role(message, "tool") || has_role(message, "function") ||
        json_count(json_get(message, "tool_calls")) > 0) {
        (void)prepare_refuse(
            err, param,
            "%s is part of a tool call: tools are not "
            "supported by the engines of this network yet, leave it "
            "out",
            param);
        return error_tag(err, "unsupported_parameter", NULL);
    }
    if (role == NULL)
        return prepare_refuse(err, param,
                              "%s.role must be system, developer, user or "
                              "assistant",
                              param);
    json_open_object(out);
    json_member_text(out, "role", role);
    status = content_put(message, index, out, err);
    json_close_object(out);
    return status;
}

static enum status
variables_write(const struct json *messages, struct buf *text,
                struct error *err)
{
    struct json_out out;
    enum status status = STATUS_OK;

    json_out_init(&out, text);
    json_open_object(&out);
    json_key(&out, "messages");
    json_open_list(&out);
    for (size_t i = 0; status == STATUS_OK && i < json_count(messages); i++)
        status = message_put(json_at(messages, i), i, &out, err);
    if (status != STATUS_OK)
        return status;
    json_close_list(&out);
    json_member_bool(&out, "add_generation_prompt", true);
    json_close_object(&out);
    if (text->overflowed)
        return prepare_refuse(err, "messages",
                              "messages are over %d bytes: shorten them",
                              VARIABLES_MAX_BYTES);
    return STATUS_OK;
}

static enum status
render(struct job *job, const struct buf *variables, struct error *err)
{
    struct json_doc doc = {0};
    struct buf prompt;
    struct error inner = {0};
    enum status status;

    buf_init(&prompt, TOKENIZER_TEXT_MAX_BYTES);
    status = json_doc_parse(variables->data, variables->size, &doc, &inner);
    if (status == STATUS_OK)
        status =
            template_render(job->model->template, doc.root, &prompt, &inner);
    if (status != STATUS_OK)
        status = prepare_refuse(
            err, "messages",
            "the model's chat template refuses these messages: %.350s. "
            "Change them, or use /v1/completions with a prompt",
            inner.text);
    else
        status = encode(job, prompt.data, prompt.size, "messages", err);
    json_doc_clear(&doc);
    buf_clear(&prompt);
    return status;
}

enum status
prepare_messages(const struct json *body, struct job *job, struct error *err)
{
    const struct json *messages = json_get(body, "messages");
    struct buf variables;
    enum status status;

    if (json_kind(messages) != JSON_KIND_LIST || json_count(messages) == 0)
        return prepare_refuse(err, "messages",
                              "messages must be a list of at least one "
                              "message");
    if (job->model->template == NULL)
        return prepare_refuse(err, "model",
                              "%s has no chat template: use /v1/completions "
                              "with a prompt",
                              job->model->entry.id);
    buf_init(&variables, VARIABLES_MAX_BYTES);
    status = variables_write(messages, &variables, err);
    if (status == STATUS_OK)
        status = render(job, &variables, err);
    buf_clear(&variables);
    return status;
}

/* --- completion --- */

static enum status
ids_take(const struct json *list, struct job *job, struct error *err)
{
    size_t count = json_count(list);
    uint32_t *ids = mem_array(count, sizeof(*ids));

    for (size_t i = 0; i < count; i++) {
        int64_t id;

        if (json_as_i64(json_at(list, i), &id) != STATUS_OK || id < 0 ||
            (uint64_t)id >= job->model->entry.vocab) {
            free(ids);
            return prepare_refuse(err, "prompt",
                                  "prompt: item %zu is no token id of %s (0 "
                                  "to %" PRIu64 ")",
                                  i, job->model->entry.id,
                                  job->model->entry.vocab - 1);
        }
        ids[i] = (uint32_t)id;
    }
    job->prompt = ids;
    job->prompt_count = count;
    return STATUS_OK;
}

enum status
prepare_text(const struct json *body, struct job *job, struct error *err)
{
    const struct json *prompt = json_get(body, "prompt");
    const struct json *first = json_at(prompt, 0);
    size_t size;
    const char *text;

    /* A list of one is that one; a list of numbers is one prompt. */
    if (json_kind(prompt) == JSON_KIND_LIST && json_count(prompt) > 0 &&
        (json_kind(first) == JSON_KIND_TEXT ||
         json_kind(first) == JSON_KIND_LIST)) {
        if (json_count(prompt) > 1) {
            (void)prepare_refuse(err, "prompt",
                                 "prompt holds %zu prompts: send one a "
                                 "request",
                                 json_count(prompt));
            return error_tag(err, "unsupported_parameter", NULL);
        }
        prompt = first;
    }
    text = json_as_text(prompt, &size);
    if (text != NULL && size > 0)
        return encode(job, text, size, "prompt", err);
    if (json_kind(prompt) == JSON_KIND_LIST && json_count(prompt) > 0)
        return ids_take(prompt, job, err);
    return prepare_refuse(err, "prompt",
                          "prompt must be a text or a list of token ids, and "
                          "not empty");
}
