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

/* Variables of a template that are not a client's to set. */
static bool
is_own_variable(const char *name)
{
    static const char *const own[] = {
        "messages", "tools", "add_generation_prompt", "bos_token", "eos_token"};

    for (size_t i = 0; i < COUNT_OF(own); i++)
        if (strcmp(name, own[i]) == 0)
            return true;
    return false;
}

static void
tree_put(struct json_out *out, const char *name, const struct json *tree)
{
    struct buf text;

    buf_init(&text, VARIABLES_MAX_BYTES);
    json_dump(tree, &text);
    json_key(out, name);
    json_put_raw(out, text.data, text.size);
    if (text.overflowed)
        out->buf->overflowed = true;
    buf_clear(&text);
}

/* chat_template_kwargs, as other servers call it, and reasoning_effort: further
 * variables of the template. */
static enum status
more_variables(const struct json *body, struct json_out *out, struct error *err)
{
    static const char param[] = "chat_template_kwargs";
    const struct json *more = json_get(body, param);
    const struct json *effort = json_get(body, "reasoning_effort");
    const struct json_member *it = json_member_first(more);

    if (!json_is_null(more) && json_kind(more) != JSON_KIND_OBJECT)
        return prepare_refuse(err, param,
                              "%s must be an object, as "
                              "{\"enable_thinking\":false}",
                              param);
    if (!json_is_null(effort) && json_kind(effort) != JSON_KIND_TEXT)
        return prepare_refuse(err, "reasoning_effort",
                              "reasoning_effort must be a text, as \"low\"");
    for (; it != NULL; it = json_member_next(more, it)) {
        const char *name = json_member_name(it);

        if (is_own_variable(name))
            return prepare_refuse(err, param,
                                  "%s.%s is not a client's to set: remove it",
                                  param, name);
        tree_put(out, name, json_member_value(it));
    }
    if (!json_is_null(effort) &&
        json_is_null(json_get(more, "reasoning_effort")))
        tree_put(out, "reasoning_effort", effort);
    return STATUS_OK;
}

static enum status
variables_write(const struct json *body, const struct json *tools,
                const struct job *job, struct buf *text, struct error *err)
{
    struct json_out out;
    enum status status;

    json_out_init(&out, text);
    json_open_object(&out);
    json_key(&out, "messages");
    status = prepare_messages_write(json_get(body, "messages"), job->model,
                                    &out, err);
    if (status == STATUS_OK)
        status = more_variables(body, &out, err);
    if (status != STATUS_OK)
        return status;
    if (tools != NULL)
        tree_put(&out, "tools", tools);
    json_member_bool(&out, "add_generation_prompt", true);
    json_close_object(&out);
    if (text->overflowed)
        return prepare_refuse(err, "messages",
                              "messages are over %d bytes: shorten them",
                              VARIABLES_MAX_BYTES);
    return STATUS_OK;
}

static enum status
render(const struct json *messages, const struct tool_choice *choice,
       struct job *job, const struct buf *variables, struct error *err)
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
    if (status != STATUS_OK) {
        status = prepare_refuse(
            err, "messages",
            "the model's chat template refuses these messages: %.350s. "
            "Change them, or use /v1/completions with a prompt",
            inner.text);
    } else {
        job->rules.format = job->model->format;
        job->rules.thinks =
            format_thinks_at_once(job->model->format, prompt.data, prompt.size);
        if (choice->forced)
            prepare_tools_begin(messages, choice, job, &prompt);
        status = encode(job, prompt.data, prompt.size, "messages", err);
    }
    json_doc_clear(&doc);
    buf_clear(&prompt);
    return status;
}

enum status
prepare_messages(const struct json *body, struct job *job, struct error *err)
{
    const struct json *messages = json_get(body, "messages");
    struct tool_choice choice = {.tools = NULL};
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
    status = prepare_tools(body, job, &choice, err);
    if (status == STATUS_OK)
        status = variables_write(body, choice.tools, job, &variables, err);
    if (status == STATUS_OK)
        status = render(messages, &choice, job, &variables, err);
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
