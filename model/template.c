/* template.c - chat templates: reading them, and a rendering from start to
 * end. */
#include "model/template.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "model/catalogue.h"
#include "model/file.h"
#include "model/template_run.h"

#include "common/banned.h"

/* Jinja2 reads every line end as "\n" and drops the last one of the text. */
static struct text
copy_source(struct arena *arena, const char *text, size_t size)
{
    char *copy = arena_alloc(arena, size + 1);
    size_t used = 0;

    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\r') {
            copy[used++] = '\n';
            if (i + 1 < size && text[i + 1] == '\n')
                i++;
        } else {
            copy[used++] = text[i];
        }
    }
    if (used > 0 && copy[used - 1] == '\n')
        used--;
    return (struct text){copy, used};
}

enum status
template_parse(const char *text, size_t size, struct template **template,
               struct error *err)
{
    struct template *parsed = NULL;
    enum status status = STATUS_OK;

    if (size > TEMPLATE_MAX_BYTES)
        return error_set(err, STATUS_TOO_LARGE,
                         "chat template of %zu bytes, at most %d are allowed",
                         size, TEMPLATE_MAX_BYTES);
    parsed = mem_alloc(sizeof(*parsed));
    parsed->source = copy_source(&parsed->arena, text, size);
    status =
        template_tree_parse(&parsed->arena, parsed->source, &parsed->body, err);
    if (status == STATUS_OK)
        *template = parsed;
    else
        template_free(parsed);
    return status;
}

void
template_free(struct template *template)
{
    if (template == NULL)
        return;
    arena_clear(&template->arena);
    free(template);
}

const char *
template_source(const struct template *template, size_t *size)
{
    *size = template->source.size;
    return template->source.data;
}

/* --- from a model's files -------------------------------------------------*/

/* The text of "chat_template": itself, or the entry called "default". */
static const char *
find_source(const struct json *config, size_t *size)
{
    const struct json *value = json_get(config, "chat_template");
    const char *text = json_as_text(value, size);

    for (size_t i = 0; text == NULL && i < json_count(value); i++) {
        const struct json *entry = json_at(value, i);
        size_t name_size = 0;
        const char *name = json_as_text(json_get(entry, "name"), &name_size);

        if (name != NULL && strcmp(name, "default") == 0)
            text = json_as_text(json_get(entry, "template"), size);
    }
    return text;
}

/* "bos_token": a text, or an object with the text in "content". */
static bool
keep_token(struct template *template, const struct json *value,
           struct text *token)
{
    size_t size = 0;
    const char *text = json_as_text(value, &size);

    if (text == NULL)
        text = json_as_text(json_get(value, "content"), &size);
    if (text == NULL)
        return false;
    *token = text_copy(&template->arena, text, size);
    return true;
}

enum status
template_from_files(const struct json *tokenizer_config, const char *jinja,
                    size_t jinja_size, struct template **template,
                    struct error *err)
{
    size_t size = 0;
    const char *text = find_source(tokenizer_config, &size);
    enum status status = STATUS_OK;

    if (text == NULL) {
        text = jinja;
        size = jinja_size;
    }
    if (text == NULL)
        return error_set(err, STATUS_NOT_FOUND,
                         "the model has no chat template");
    status = template_parse(text, size, template, err);
    if (status != STATUS_OK)
        return status;
    (*template)->has_bos =
        keep_token(*template, json_get(tokenizer_config, "bos_token"),
                   &(*template)->bos_token);
    (*template)->has_eos =
        keep_token(*template, json_get(tokenizer_config, "eos_token"),
                   &(*template)->eos_token);
    return STATUS_OK;
}

enum status
template_read(const char *directory, struct template **template,
              struct error *err)
{
    struct json_doc config = {0};
    struct buf jinja;
    bool has_jinja = false;
    enum status status = STATUS_OK;

    buf_init(&jinja, TEMPLATE_MAX_BYTES);
    status = model_file_json(directory, "tokenizer_config.json",
                             CATALOGUE_TOKENIZER_MAX_BYTES, &config, err);
    if (status == STATUS_OK || status == STATUS_NOT_FOUND) {
        status = model_file_read(directory, "chat_template.jinja", &jinja, err);
        has_jinja = status == STATUS_OK;
    }
    if (status == STATUS_OK || status == STATUS_NOT_FOUND)
        status = template_from_files(config.root, has_jinja ? jinja.data : NULL,
                                     jinja.size, template, err);
    buf_clear(&jinja);
    json_doc_clear(&config);
    return status;
}

/* --- rendering ------------------------------------------------------------*/

static void
set_variables(struct run *run, const struct template *template,
              const struct json *variables)
{
    const struct json_member *it = json_member_first(variables);

    if (template->has_bos)
        run_assign(run, TEXT("bos_token"), value_text(template->bos_token));
    if (template->has_eos)
        run_assign(run, TEXT("eos_token"), value_text(template->eos_token));
    for (; it != NULL; it = json_member_next(variables, it)) {
        const char *name = json_member_name(it);

        run_assign(run, (struct text){name, strlen(name)},
                   value_from_json(&run->arena, json_member_value(it)));
    }
}

enum status
template_render(const struct template *template, const struct json *variables,
                struct buf *out, struct error *err)
{
    struct scope globals = {.parent = NULL};
    struct run run = {.scope = &globals, .out = out, .err = err};
    size_t before = out->size;
    enum status status = STATUS_OK;

    set_variables(&run, template, variables);
    status = run_charge(&run, 1, 1);
    if (status == STATUS_OK)
        status = run_body(&run, template->body);
    if (status == STATUS_OK && out->overflowed)
        status =
            error_set(err, STATUS_TOO_LARGE,
                      "the rendered chat is larger than %zu bytes", out->max);
    if (status != STATUS_OK)
        buf_truncate(out, before);
    arena_clear(&run.arena);
    return status;
}
