/* prepare_messages.c - messages, as templates want them, checked strictly.
 *
 * What a client got from one answer it sends back with the next question:
 * content, reasoning, calls and their results.  Each result must answer a call
 * of the message before it, and each call must be answered. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cert.h"
#include "common/mem.h"
#include "coordinator/prepare_private.h"

#include "common/banned.h"

enum {
    CALLS_MAX = 128, /* of one message */
    CALL_ID_BYTES = 257,
    PARAM_BYTES = 96,
    NINE = 9,
};

struct call {
    const char *id;                /* the client's */
    char sent[CALL_ID_BYTES + 32]; /* as the template wants it */
    const char *name;
    bool answered;
};

struct writer {
    const struct model *model;
    const struct format *format; /* NULL: unknown */
    struct json_out out;
    size_t index;       /* of the message */
    struct call *calls; /* of the last message that made some */
    size_t call_count;
    size_t calls_before; /* of all messages before that one */
};

/* --- texts --- */

static const char *
text_member(const struct json *object, const char *name)
{
    size_t size;
    const char *text = json_as_text(json_get(object, name), &size);

    return text == NULL || strlen(text) != size ? NULL : text;
}

/* The role as templates know it; NULL when there is no such role. */
static const char *
role_name(const struct json *message)
{
    static const char *const names[][2] = {
        {"system", "system"},       {"developer", "system"}, {"user", "user"},
        {"assistant", "assistant"}, {"tool", "tool"},
    };
    const char *role = text_member(message, "role");

    for (size_t i = 0; role != NULL && i < COUNT_OF(names); i++)
        if (strcmp(role, names[i][0]) == 0)
            return names[i][1];
    return NULL;
}

static enum status
parts_join(const struct json *parts, const char *param, struct buf *text,
           struct error *err)
{
    for (size_t i = 0; i < json_count(parts); i++) {
        const struct json *part = json_at(parts, i);
        size_t size = 0;
        const char *type = text_member(part, "type");
        const char *piece = json_as_text(json_get(part, "text"), &size);

        if (type == NULL || strcmp(type, "text") != 0 || piece == NULL)
            return prepare_refuse(err, param,
                                  "%s: item %zu is no text part; the models of "
                                  "this network read text alone",
                                  param, i);
        buf_append(text, piece, size);
    }
    return STATUS_OK;
}

/* A text, or text parts, into @text. */
static enum status
content_read(const struct writer *writer, const struct json *message,
             bool may_be_null, struct buf *text, struct error *err)
{
    const struct json *content = json_get(message, "content");
    char param[PARAM_BYTES];
    size_t size;
    const char *whole = json_as_text(content, &size);
    enum status status = STATUS_OK;

    snprintf(param, sizeof(param), "messages[%zu].content", writer->index);
    if (whole != NULL)
        buf_append(text, whole, size);
    else if (json_kind(content) == JSON_KIND_LIST)
        status = parts_join(content, param, text, err);
    else if (!json_is_null(content) || !may_be_null)
        status = prepare_refuse(
            err, param, "%s must be a text or a list of text parts", param);
    if (status == STATUS_OK && text->overflowed)
        status = prepare_refuse(err, param, "%s is over %d bytes: shorten it",
                                param, TOKENIZER_TEXT_MAX_BYTES);
    return status;
}

/* --- calls --- */

/* Nine letters and digits that follow from the id. */
static void
nine_make(const char *id, char sent[NINE + 1])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    uint8_t digest[SHA256_BYTES];

    cert_sha256(id, strlen(id), digest);
    for (size_t i = 0; i < NINE; i++)
        sent[i] = letters[digest[i] % (sizeof(letters) - 1)];
    sent[NINE] = '\0';
}

static bool
is_nine(const char *id)
{
    return strlen(id) == NINE &&
           strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                      "0123456789") == NINE;
}

/* Some templates write the id where the model expects a form of its own; ids
 * of other servers are brought to it. */
static void
id_settle(const struct writer *writer, struct call *call, size_t number)
{
    enum format_id form =
        writer->format == NULL ? FORMAT_ID_DRAWN : writer->format->id;

    if (form == FORMAT_ID_NINE && !is_nine(call->id))
        nine_make(call->id, call->sent);
    else if (form == FORMAT_ID_OWN && strstr(call->id, call->name) == NULL)
        snprintf(call->sent, sizeof(call->sent), "functions.%.200s:%zu",
                 call->name, number);
    else
        snprintf(call->sent, sizeof(call->sent), "%s", call->id);
}

static enum status
arguments_put(struct writer *writer, const struct json *function,
              const char *param, struct error *err)
{
    size_t size = 0;
    const char *text = json_as_text(json_get(function, "arguments"), &size);
    struct json_doc doc = {0};

    if (text != NULL && size == 0) { /* some clients say "none" so */
        text = "{}";
        size = 2;
    }
    if (text == NULL || json_doc_parse(text, size, &doc, NULL) != STATUS_OK ||
        json_kind(doc.root) != JSON_KIND_OBJECT) {
        json_doc_clear(&doc);
        return prepare_refuse(err, param,
                              "%s.function.arguments must be the JSON text of "
                              "an object, as it came with the call",
                              param);
    }
    json_key(&writer->out, "arguments");
    if (writer->format != NULL && writer->format->text_arguments)
        json_put_text_sized(&writer->out, text, size);
    else
        json_put_raw(&writer->out, text, size);
    json_doc_clear(&doc);
    return STATUS_OK;
}

static enum status
call_put(struct writer *writer, const struct json *item, size_t number,
         struct error *err)
{
    const struct json *function = json_get(item, "function");
    struct call *call = &writer->calls[writer->call_count];
    const char *type = text_member(item, "type");
    char param[PARAM_BYTES];
    enum status status;

    snprintf(param, sizeof(param), "messages[%zu].tool_calls[%zu]",
             writer->index, number);
    *call = (struct call){.id = text_member(item, "id"),
                          .name = text_member(function, "name")};
    if ((type != NULL && strcmp(type, "function") != 0) || call->id == NULL ||
        call->id[0] == '\0' || strlen(call->id) >= CALL_ID_BYTES ||
        call->name == NULL || call->name[0] == '\0')
        return prepare_refuse(err, param,
                              "%s must be {\"id\":...,\"type\":\"function\","
                              "\"function\":{\"name\":...,\"arguments\":...}} "
                              "with an id of 1 to %d bytes",
                              param, CALL_ID_BYTES - 1);
    for (size_t i = 0; i < writer->call_count; i++)
        if (strcmp(writer->calls[i].id, call->id) == 0)
            return prepare_refuse(err, param,
                                  "%s.id is that of another call of the "
                                  "message: each needs its own",
                                  param);
    id_settle(writer, call, writer->calls_before + number);
    json_open_object(&writer->out);
    json_member_text(&writer->out, "id", call->sent);
    json_member_text(&writer->out, "type", "function");
    json_key(&writer->out, "function");
    json_open_object(&writer->out);
    json_member_text(&writer->out, "name", call->name);
    status = arguments_put(writer, function, param, err);
    json_close_object(&writer->out);
    json_close_object(&writer->out);
    writer->call_count++;
    return status;
}

static enum status
calls_put(struct writer *writer, const struct json *list, struct error *err)
{
    char param[PARAM_BYTES];
    enum status status = STATUS_OK;

    snprintf(param, sizeof(param), "messages[%zu].tool_calls", writer->index);
    if (json_kind(list) != JSON_KIND_LIST || json_count(list) > CALLS_MAX)
        return prepare_refuse(err, param,
                              "%s must be a list of at most %d calls", param,
                              CALLS_MAX);
    writer->calls_before += writer->call_count;
    writer->call_count = 0;
    json_key(&writer->out, "tool_calls");
    json_open_list(&writer->out);
    for (size_t i = 0; status == STATUS_OK && i < json_count(list); i++)
        status = call_put(writer, json_at(list, i), i, err);
    json_close_list(&writer->out);
    return status;
}

/* Before another message, and at the end. */
static enum status
answers_check(const struct writer *writer, struct error *err)
{
    char param[PARAM_BYTES];

    snprintf(param, sizeof(param), "messages[%zu]", writer->index);
    for (size_t i = 0; i < writer->call_count; i++)
        if (!writer->calls[i].answered)
            return prepare_refuse(err, "messages",
                                  "the call \"%.100s\" has no answer before "
                                  "%s: a message with tool_calls is followed "
                                  "by one message of role tool for each of "
                                  "them",
                                  writer->calls[i].id, param);
    return STATUS_OK;
}

/* --- messages --- */

static enum status
tool_put(struct writer *writer, const struct json *message, struct error *err)
{
    const char *id = text_member(message, "tool_call_id");
    char param[PARAM_BYTES];

    snprintf(param, sizeof(param), "messages[%zu].tool_call_id", writer->index);
    for (size_t i = 0; id != NULL && i < writer->call_count; i++) {
        struct call *call = &writer->calls[i];

        if (strcmp(call->id, id) != 0 || call->answered)
            continue;
        call->answered = true;
        json_member_text(&writer->out, "tool_call_id", call->sent);
        json_member_text(&writer->out, "name", call->name);
        return STATUS_OK;
    }
    return prepare_refuse(err, param,
                          "%s must be the id of a call in the tool_calls of "
                          "the message before, answered once",
                          param);
}

/* The members of a message by the model: what it thought, said and called. */
static enum status
assistant_put(struct writer *writer, const struct json *message,
              struct buf *content, struct error *err)
{
    const struct json *reasoning = json_get(message, "reasoning_content");
    const struct json *calls = json_get(message, "tool_calls");
    const char *thought =
        writer->format == NULL ? NULL : writer->format->thought;
    bool has_calls = !json_is_null(calls) && json_count(calls) > 0;
    bool merges = thought != NULL && strcmp(thought, "thinking") == 0 &&
                  has_calls && content->size > 0;
    char param[PARAM_BYTES];
    size_t size = 0;
    const char *text = json_as_text(reasoning, &size);

    snprintf(param, sizeof(param), "messages[%zu].reasoning_content",
             writer->index);
    if (!json_is_null(reasoning) && text == NULL)
        return prepare_refuse(err, param, "%s must be a text", param);
    if (size > 0 && thought != NULL && merges) {
        /* Its template takes one of them beside calls. */
        struct buf both;

        buf_init(&both, 2 * TOKENIZER_TEXT_MAX_BYTES);
        buf_append(&both, text, size);
        buf_append_text(&both, "\n\n");
        buf_append(&both, content->data, content->size);
        json_key(&writer->out, thought);
        json_put_text_sized(&writer->out, both.data, both.size);
        buf_clear(&both);
        buf_reset(content);
    } else if (size > 0 && thought != NULL) {
        json_key(&writer->out, thought);
        json_put_text_sized(&writer->out, text, size);
    }
    json_key(&writer->out, "content");
    if (content->size == 0 && has_calls && writer->format != NULL &&
        writer->format->null_content)
        json_put_null(&writer->out);
    else
        json_put_text_sized(&writer->out, content->data, content->size);
    return json_is_null(calls) || (json_kind(calls) == JSON_KIND_LIST &&
                                   json_count(calls) == 0)
               ? STATUS_OK
               : calls_put(writer, calls, err);
}

static bool
speaks_of_tools(const struct json *message, const char *role)
{
    return strcmp(role, "tool") == 0 ||
           !(json_is_null(json_get(message, "tool_calls")) ||
             (json_kind(json_get(message, "tool_calls")) == JSON_KIND_LIST &&
              json_count(json_get(message, "tool_calls")) == 0));
}

static enum status
message_check(const struct writer *writer, const struct json *message,
              const char *role, struct error *err)
{
    char param[PARAM_BYTES];

    snprintf(param, sizeof(param), "messages[%zu]", writer->index);
    if (json_kind(message) != JSON_KIND_OBJECT)
        return prepare_refuse(
            err, param, "%s must be an object of role and content", param);
    if (role == NULL)
        return prepare_refuse(err, param,
                              "%s.role must be system, developer, user, "
                              "assistant or tool",
                              param);
    if (speaks_of_tools(message, role) && !writer->model->knows_calls) {
        (void)prepare_refuse(err, param,
                             "%s is part of a tool call, which the chat "
                             "template of %s does not know: leave it out",
                             param, writer->model->entry.id);
        return error_tag(err, "unsupported_parameter", NULL);
    }
    return strcmp(role, "tool") == 0 ? STATUS_OK : answers_check(writer, err);
}

static enum status
message_put(struct writer *writer, const struct json *message,
            struct error *err)
{
    const char *role = role_name(message);
    enum status status = message_check(writer, message, role, err);
    struct buf content;
    bool is_model = false;

    if (status != STATUS_OK)
        return status;
    is_model = strcmp(role, "assistant") == 0;
    buf_init(&content, TOKENIZER_TEXT_MAX_BYTES);
    json_open_object(&writer->out);
    json_member_text(&writer->out, "role", role);
    status = content_read(writer, message, is_model, &content, err);
    if (status == STATUS_OK && strcmp(role, "tool") == 0)
        status = tool_put(writer, message, err);
    if (status == STATUS_OK && is_model) {
        status = assistant_put(writer, message, &content, err);
    } else if (status == STATUS_OK) {
        json_key(&writer->out, "content");
        json_put_text_sized(&writer->out, content.data, content.size);
    }
    json_close_object(&writer->out);
    buf_clear(&content);
    return status;
}

enum status
prepare_messages_write(const struct json *messages, const struct model *model,
                       struct json_out *out, struct error *err)
{
    struct writer writer = {
        .model = model,
        .format = model->format,
        .out = *out,
        .calls = mem_array(CALLS_MAX, sizeof(struct call)),
    };
    size_t count = json_count(messages);
    enum status status = STATUS_OK;

    json_open_list(&writer.out);
    for (; status == STATUS_OK && writer.index < count; writer.index++)
        status = message_put(&writer, json_at(messages, writer.index), err);
    if (status == STATUS_OK)
        status = answers_check(&writer, err);
    json_close_list(&writer.out);
    *out = writer.out;
    free(writer.calls);
    return status;
}
