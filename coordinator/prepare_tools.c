/* prepare_tools.c - the tools of a request and which of them may be called. */
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "coordinator/prepare_private.h"

#include "common/banned.h"

enum {
    TOOLS_MAX = 128,
    TOOL_NAME_BYTES = 65,
    TOOLS_TEXT_MAX_BYTES = 16 * 1024 * 1024,
    PREFIX_MAX_BYTES = 4096,
};

static enum status
unsupported(struct error *err, const char *param)
{
    return error_tag(err, "unsupported_parameter", param);
}

/* --- the list --- */

static bool
is_name(const char *name, size_t size)
{
    if (name == NULL || size == 0 || size >= TOOL_NAME_BYTES)
        return false;
    for (size_t i = 0; i < size; i++) {
        char c = name[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.'))
            return false;
    }
    return true;
}

/* Whether a schema takes texts alone. */
static bool
is_text_schema(const struct json *schema)
{
    const struct json *type = json_get(schema, "type");
    size_t size;
    const char *text = json_as_text(type, &size);

    if (text == NULL && json_kind(type) == JSON_KIND_LIST &&
        json_count(type) == 1)
        text = json_as_text(json_at(type, 0), &size);
    return text != NULL && size == strlen("string") &&
           memcmp(text, "string", size) == 0;
}

/* The tool's name and its members that are text, each ended by NUL, and one NUL
 * more: what model/output wants to know. */
static void
tool_note(const struct json *function, struct buf *noted)
{
    const struct json *properties =
        json_get(json_get(function, "parameters"), "properties");
    const struct json_member *it = json_member_first(properties);

    buf_append_text(noted, json_as_text(json_get(function, "name"), NULL));
    buf_append_char(noted, '\0');
    for (; it != NULL; it = json_member_next(properties, it)) {
        const char *name = json_member_name(it);

        if (name[0] == '\0' || !is_text_schema(json_member_value(it)))
            continue;
        buf_append_text(noted, name);
        buf_append_char(noted, '\0');
    }
    buf_append_char(noted, '\0');
}

static bool
is_noted(const struct json *tools, size_t before, const char *name)
{
    for (size_t i = 0; i < before; i++) {
        const char *other = json_as_text(
            json_get(json_get(json_at(tools, i), "function"), "name"), NULL);

        if (strcmp(other, name) == 0)
            return true;
    }
    return false;
}

static enum status
tool_check(const struct json *tools, size_t index, struct error *err)
{
    const struct json *tool = json_at(tools, index);
    const struct json *function = json_get(tool, "function");
    const struct json *parameters = json_get(function, "parameters");
    const struct json *description = json_get(function, "description");
    size_t size = 0, name_size = 0;
    const char *type = json_as_text(json_get(tool, "type"), &size);
    const char *name = json_as_text(json_get(function, "name"), &name_size);
    char param[64];

    snprintf(param, sizeof(param), "tools[%zu]", index);
    if (type == NULL || strcmp(type, "function") != 0 ||
        json_kind(function) != JSON_KIND_OBJECT)
        return prepare_refuse(err, param,
                              "%s must be {\"type\":\"function\",\"function\":"
                              "{\"name\":...}}: there are no other tools here",
                              param);
    if (!is_name(name, name_size))
        return prepare_refuse(err, param,
                              "%s.function.name must have 1 to %d letters, "
                              "digits, '_', '-' or '.'",
                              param, TOOL_NAME_BYTES - 1);
    if (is_noted(tools, index, name))
        return prepare_refuse(err, param,
                              "%s.function.name is \"%s\" like another tool's: "
                              "give each a name of its own",
                              param, name);
    if (!json_is_null(parameters) && json_kind(parameters) != JSON_KIND_OBJECT)
        return prepare_refuse(err, param,
                              "%s.function.parameters must be a JSON schema "
                              "(an object)",
                              param);
    if (!json_is_null(description) && json_kind(description) != JSON_KIND_TEXT)
        return prepare_refuse(err, param,
                              "%s.function.description must be a text", param);
    return STATUS_OK;
}

static enum status
tools_read(const struct json *tools, struct buf *noted, struct error *err)
{
    enum status status = STATUS_OK;

    if (json_kind(tools) != JSON_KIND_LIST)
        return prepare_refuse(err, "tools",
                              "tools must be a list of functions");
    if (json_count(tools) > TOOLS_MAX)
        return prepare_refuse(err, "tools",
                              "tools has %zu items, and at most %d: send fewer",
                              json_count(tools), TOOLS_MAX);
    for (size_t i = 0; status == STATUS_OK && i < json_count(tools); i++) {
        status = tool_check(tools, i, err);
        if (status == STATUS_OK)
            tool_note(json_get(json_at(tools, i), "function"), noted);
    }
    if (status == STATUS_OK && noted->overflowed)
        status = prepare_refuse(err, "tools",
                                "the names in tools are over %d bytes: "
                                "shorten them",
                                TOOLS_TEXT_MAX_BYTES);
    return status;
}

/* --- the choice --- */

static const char choice_form[] =
    "tool_choice must be none, auto, required or "
    "{\"type\":\"function\",\"function\":{\"name\":...}}";

static const struct json *
tool_named(const struct json *tools, const char *name)
{
    for (size_t i = 0; name != NULL && i < json_count(tools); i++) {
        const struct json *tool = json_at(tools, i);

        if (strcmp(json_as_text(json_get(json_get(tool, "function"), "name"),
                                NULL),
                   name) == 0)
            return tool;
    }
    return NULL;
}

static enum status
name_read(const struct json *value, struct tool_choice *choice,
          struct error *err)
{
    size_t size = 0;
    const char *type = json_as_text(json_get(value, "type"), &size);
    const char *name =
        json_as_text(json_get(json_get(value, "function"), "name"), &size);

    if (type == NULL || strcmp(type, "function") != 0 || name == NULL)
        return prepare_refuse(err, "tool_choice", "%s", choice_form);
    if (tool_named(choice->tools, name) == NULL)
        return prepare_refuse(err, "tool_choice",
                              "tool_choice names \"%.100s\", which is not in "
                              "tools: add it there",
                              name);
    choice->forced = true;
    choice->name = name;
    return STATUS_OK;
}

/* choice->tools is the list that may be chosen from. */
static enum status
choice_read(const struct json *body, struct tool_choice *choice,
            struct error *err)
{
    const struct json *value = json_get(body, "tool_choice");
    size_t size;
    const char *text = json_as_text(value, &size);

    if (json_is_null(value) || (text != NULL && strcmp(text, "auto") == 0))
        return STATUS_OK;
    if (text != NULL && strcmp(text, "none") == 0) {
        choice->tools = NULL;
        return STATUS_OK;
    }
    if (json_kind(value) == JSON_KIND_OBJECT)
        return name_read(value, choice, err);
    if (text == NULL || strcmp(text, "required") != 0)
        return prepare_refuse(err, "tool_choice", "%s", choice_form);
    if (choice->tools == NULL)
        return prepare_refuse(err, "tool_choice",
                              "tool_choice is required, but there are no tools "
                              "to choose from: send some in tools");
    choice->forced = true;
    if (json_count(choice->tools) == 1)
        choice->name = json_as_text(
            json_get(json_get(json_at(choice->tools, 0), "function"), "name"),
            NULL);
    return STATUS_OK;
}

/* How many calls the conversation has already. */
static size_t
calls_count(const struct json *messages)
{
    size_t count = 0;

    for (size_t i = 0; i < json_count(messages); i++)
        count += json_count(json_get(json_at(messages, i), "tool_calls"));
    return count;
}

void
prepare_tools_begin(const struct json *messages,
                    const struct tool_choice *choice, struct job *job,
                    struct buf *prompt)
{
    struct buf begin;
    size_t size = 0;

    buf_init(&begin, PREFIX_MAX_BYTES);
    format_call_begin(job->model->format, job->rules.thinks, choice->name,
                      calls_count(messages), &begin);
    buf_append(prompt, begin.data, begin.size);
    job->prefix = buf_take(&begin, &size);
    job->rules.prefix = job->prefix;
    buf_clear(&begin);
}

/* --- together --- */

static enum status
model_check(const struct job *job, struct error *err)
{
    const struct model *model = job->model;

    if (model->template != NULL && !model->knows_tools)
        (void)prepare_refuse(err, "tools",
                             "tools are not known to the chat template of %s: "
                             "leave them out, or choose another model",
                             model->entry.id);
    else if (model->format == NULL || model->format->syntax == FORMAT_NONE)
        (void)prepare_refuse(err, "tools",
                             "tools cannot be used with %s: the form of its "
                             "calls is not one that is known here",
                             model->entry.id);
    else
        return STATUS_OK;
    return unsupported(err, "tools");
}

enum status
prepare_tools(const struct json *body, struct job *job,
              struct tool_choice *choice, struct error *err)
{
    const struct json *list = json_get(body, "tools");
    const struct json *parallel = json_get(body, "parallel_tool_calls");
    struct buf noted;
    enum status status = STATUS_OK;

    buf_init(&noted, TOOLS_TEXT_MAX_BYTES);
    if (!json_is_null(list))
        status = tools_read(list, &noted, err);
    choice->tools = json_count(list) > 0 ? list : NULL;
    if (status == STATUS_OK)
        status = choice_read(body, choice, err);
    if (status == STATUS_OK && !json_is_null(parallel) &&
        json_kind(parallel) != JSON_KIND_BOOL)
        status = prepare_refuse(err, "parallel_tool_calls",
                                "parallel_tool_calls must be true or false");
    if (status == STATUS_OK && choice->tools != NULL)
        status = model_check(job, err);
    if (status == STATUS_OK && choice->tools != NULL) {
        job->rules.calls = true;
        job->rules.one_call =
            (!json_is_null(parallel) && !json_as_bool(parallel)) ||
            (choice->forced &&
             json_kind(json_get(body, "tool_choice")) == JSON_KIND_OBJECT);
        job->tools = buf_take(&noted, &job->rules.tools_size);
        job->rules.tools = job->tools;
    }
    buf_clear(&noted);
    return status;
}
