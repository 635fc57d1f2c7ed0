/* models.h - a catalogue model made ready for requests from its kept files. */
#ifndef BERTH_COORDINATOR_MODELS_H
#define BERTH_COORDINATOR_MODELS_H

#include "common/attrs.h"
#include "common/buf.h"
#include "common/error.h"
#include "coordinator/snapshot.h"

/* The kept files; a buffer of size 0: the model has no such file. */
struct model_files {
    struct buf config;            /* config.json */
    struct buf generation_config; /* generation_config.json */
    struct buf tokenizer;         /* tokenizer.json */
    struct buf tokenizer_config;  /* tokenizer_config.json */
    struct buf chat_template;     /* chat_template.jinja */
};

enum { MODEL_FILES = 5 };
/* Name and buffer of file @index of MODEL_FILES. */
const char *model_file_name(size_t index);
struct buf *model_file(struct model_files *files, size_t index);

void model_files_init(struct model_files *files);
void model_files_clear(struct model_files *files);

/* Tokenizer, template and end ids read and checked against @entry.  A model
 * without a chat template is fine (completions only). The result has one
 * reference. STATUS_INVALID names the file. */
MUST_CHECK enum status model_make(const struct catalogue_entry *entry,
                                  struct instant created,
                                  const struct model_files *files,
                                  struct model **model, struct error *err);

/* Give @model the chat template (taken) and what follows from its text. */
void model_template_set(struct model *model, struct template *template);

#endif
