/* models.c - files to tokenizer, template and end ids. */
#include "coordinator/models.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/mem.h"
#include "model/directory.h"

#include "common/banned.h"

static const char *const file_names[MODEL_FILES] = {
    "config.json",           "generation_config.json", "tokenizer.json",
    "tokenizer_config.json", "chat_template.jinja",
};

const char *
model_file_name(size_t index)
{
    assert(index < MODEL_FILES);
    return file_names[index];
}

struct buf *
model_file(struct model_files *files, size_t index)
{
    struct buf *const all[MODEL_FILES] = {
        &files->config,           &files->generation_config, &files->tokenizer,
        &files->tokenizer_config, &files->chat_template,
    };

    assert(index < MODEL_FILES);
    return all[index];
}

void
model_files_init(struct model_files *files)
{
    for (size_t i = 0; i < MODEL_FILES; i++)
        buf_init(model_file(files, i), i == 2 ? CATALOGUE_TOKENIZER_MAX_BYTES
                                              : CATALOGUE_FILE_MAX_BYTES);
}

void
model_files_clear(struct model_files *files)
{
    for (size_t i = 0; i < MODEL_FILES; i++)
        buf_clear(model_file(files, i));
}

static enum status
file_parse(const struct buf *file, const char *name, struct json_doc *doc,
           struct error *err)
{
    struct error inner = {0};

    if (file->size == 0)
        return STATUS_OK;
    if (json_doc_parse(file->data, file->size, doc, &inner) != STATUS_OK)
        return error_set(err, STATUS_INVALID, "%s: %.400s", name, inner.text);
    return STATUS_OK;
}

void
model_template_set(struct model *model, struct template *template)
{
    size_t size = 0;
    const char *source = template_source(template, &size);

    model->template = template;
    model->format = format_find(source, size);
    model->knows_tools = format_template_reads(source, size, "tools");
    model->knows_calls =
        model->knows_tools || format_template_reads(source, size, "tool_calls");
}

static enum status
template_make(const struct model_files *files, const struct json *config,
              struct model *model, struct error *err)
{
    struct template *template;
    struct error inner = {0};
    enum status status = template_from_files(
        config,
        files->chat_template.size > 0 ? files->chat_template.data : NULL,
        files->chat_template.size, &template, &inner);

    if (status == STATUS_NOT_FOUND)
        return STATUS_OK;
    if (status != STATUS_OK)
        return error_set(err, STATUS_INVALID, "chat template: %.400s",
                         inner.text);
    model_template_set(model, template);
    return STATUS_OK;
}

static enum status
entry_check(const struct catalogue_entry *entry,
            const struct model_config *config, struct error *err)
{
    if (entry->layers != config->layers || entry->hidden != config->hidden ||
        entry->vocab != config->vocab || entry->heads != config->heads ||
        entry->kv_heads != config->kv_heads ||
        entry->head_dim != config->head_dim ||
        entry->context != config->context)
        return error_set(err, STATUS_INVALID,
                         "the entry's numbers are not those of its "
                         "config.json: add the model with `berth models add`");
    return STATUS_OK;
}

static size_t
longest_token(const struct tokenizer *tokenizer)
{
    size_t longest = 1;
    struct buf bytes;

    buf_init(&bytes, CATALOGUE_FILE_MAX_BYTES);
    for (uint32_t id = 0; id < tokenizer_vocabulary(tokenizer); id++) {
        buf_reset(&bytes);
        if (tokenizer_append(tokenizer, id, true, &bytes) &&
            bytes.size > longest)
            longest = bytes.size;
    }
    buf_clear(&bytes);
    return longest;
}

enum status
model_make(const struct catalogue_entry *entry, struct instant created,
           const struct model_files *files, struct model **made,
           struct error *err)
{
    struct json_doc config = {0}, generation = {0}, tokenizer = {0};
    struct model_config numbers;
    struct model *model = mem_alloc(sizeof(*model));
    enum status status;

    atomic_init(&model->references, 1);
    model->entry = *entry;
    model->created = created;
    status = file_parse(&files->config, "config.json", &config, err);
    if (status == STATUS_OK)
        status = file_parse(&files->generation_config, "generation_config.json",
                            &generation, err);
    if (status == STATUS_OK)
        status = file_parse(&files->tokenizer_config, "tokenizer_config.json",
                            &tokenizer, err);
    if (status == STATUS_OK && config.root == NULL)
        status = error_set(err, STATUS_INVALID, "config.json is missing");
    if (status == STATUS_OK && files->tokenizer.size == 0)
        status = error_set(err, STATUS_INVALID, "tokenizer.json is missing");
    if (status == STATUS_OK)
        status =
            model_config_parse(config.root, generation.root, &numbers, err);
    if (status == STATUS_OK)
        status = entry_check(entry, &numbers, err);
    if (status == STATUS_OK)
        status = tokenizer_parse(files->tokenizer.data, files->tokenizer.size,
                                 &model->tokenizer, err);
    if (status == STATUS_OK)
        status = template_make(files, tokenizer.root, model, err);
    if (status == STATUS_OK) {
        model->token_bytes_max = longest_token(model->tokenizer);
        model->end_id_count = numbers.stop_id_count;
        memcpy(model->end_ids, numbers.stop_ids, sizeof(model->end_ids));
        *made = model_keep(model);
    }
    json_doc_clear(&config);
    json_doc_clear(&generation);
    json_doc_clear(&tokenizer);
    model_drop(model);
    return status;
}
