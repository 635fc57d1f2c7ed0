/* template.h - chat templates: a small Jinja interpreter.
 *
 * Covers what the templates of lent model families use; errors name the line.
 * A parsed template is immutable and may be rendered from several threads.
 * Rendering is bounded in steps and output, so that no template can hang the
 * coordinator. */
#ifndef BERTH_MODEL_TEMPLATE_H
#define BERTH_MODEL_TEMPLATE_H

#include <stddef.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "common/error.h"
#include "common/json.h"

enum {
    TEMPLATE_MAX_BYTES = 1024 * 1024,
    TEMPLATE_STEPS_MAX = 10 * 1000 * 1000
};

struct template;

MUST_CHECK enum status template_parse(const char *text, size_t size,
                                      struct template **template,
                                      struct error *err);
/* The chat template of tokenizer_config.json (a text, or the list entry named
 * "default"), else chat_template.jinja; both may be NULL or absent:
 * STATUS_NOT_FOUND.  bos_token and eos_token of the configuration are kept as
 * variables. */
MUST_CHECK enum status template_from_files(const struct json *tokenizer_config,
                                           const char *jinja, size_t jinja_size,
                                           struct template **template,
                                           struct error *err);
/* The same from a model directory. */
MUST_CHECK enum status template_read(const char *directory,
                                     struct template **template,
                                     struct error *err);
void template_free(struct template *template);
/* Its text, with line ends as "\n"; lives as long as the template. */
const char *template_source(const struct template *template, size_t *size);

/* Render with the variables of the JSON object @variables (messages,
 * add_generation_prompt, tools, ...), as the reference (Jinja2 with
 * trim_blocks and lstrip_blocks, as transformers uses it) would.
 * raise_exception() is STATUS_INVALID with its message. */
MUST_CHECK enum status template_render(const struct template *template,
                                       const struct json *variables,
                                       struct buf *out, struct error *err);

#endif
