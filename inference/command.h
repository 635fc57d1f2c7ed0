/* command.h - the commands of berth-engine and what they share.
 *
 * A command gets argv with the program's path first and its own arguments
 * after it, and returns the exit status: 0, 1 failed at run time, 2 wrong
 * usage. */
#ifndef BERTH_INFERENCE_COMMAND_H
#define BERTH_INFERENCE_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "common/error.h"
#include "common/json.h"
#include "common/options.h"
#include "inference/engine.h"
#include "model/tokenizer.h"

#define ENGINE_PROGRAM "berth-engine"

int command_run(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_logits(int argc, char **argv);
int command_tokenize(int argc, char **argv);
int command_detokenize(int argc, char **argv);
int command_template(int argc, char **argv);
int command_serve(int argc, char **argv);

/* Options of all commands that compute. */
struct compute_options {
    const char *model, *threads, *ranks, *backend, *parallel, *activations;
    bool fast_prefill;
};

/* Their entries for a table of options. */
#define COMPUTE_OPTIONS(o)                                                     \
    {.name = "--model",                                                        \
     .type = OPTION_TEXT,                                                      \
     .text = &(o).model,                                                       \
     .value = "DIR",                                                           \
     .help = "model directory (config.json, *.safetensors, tokenizer)"},       \
        {.name = "--threads",                                                  \
         .type = OPTION_TEXT,                                                  \
         .text = &(o).threads,                                                 \
         .value = "T",                                                         \
         .help = "compute threads (default: one per processor)"},              \
        {.name = "--backend",                                                  \
         .type = OPTION_TEXT,                                                  \
         .text = &(o).backend,                                                 \
         .value = "NAME",                                                      \
         .help = "cpu (the only one of this build)"},                          \
        {.name = "--ranks",                                                    \
         .type = OPTION_TEXT,                                                  \
         .text = &(o).ranks,                                                   \
         .value = "N",                                                         \
         .help = "1 (this build runs one rank)"},                              \
        {.name = "--parallel",                                                 \
         .type = OPTION_TEXT,                                                  \
         .text = &(o).parallel,                                                \
         .value = "KIND",                                                      \
         .help = "tensor or pipeline; the same with one rank"},                \
        {.name = "--activations",                                              \
         .type = OPTION_TEXT,                                                  \
         .text = &(o).activations,                                             \
         .value = "TYPE",                                                      \
         .help = "f32 (default), or int8 where weights are quantised"},        \
    {                                                                          \
        .name = "--fast-prefill", .type = OPTION_FLAG,                         \
        .flag = &(o).fast_prefill,                                             \
        .help = "refused: this build has one way to prefill"                   \
    }

/* Check them and write what the engine needs; STATUS_INVALID is a usage
 * error.  --model is demanded. */
MUST_CHECK enum status compute_options_check(const struct compute_options *o,
                                             struct engine_options *out,
                                             struct error *err);

/* The number @text of option @name in min..max; @text NULL leaves @value. */
MUST_CHECK enum status option_number(const char *name, const char *text,
                                     uint64_t min, uint64_t max,
                                     uint64_t *value, struct error *err);
MUST_CHECK enum status option_fraction(const char *name, const char *text,
                                       double min, double max, double *value,
                                       struct error *err);
/* Comma-separated ids; @out->ids is the caller's to free. */
MUST_CHECK enum status option_ids(const char *name, const char *text,
                                  struct token_ids *out, struct error *err);

/* Complain and give the exit status. */
int command_usage(const struct error *err);
int command_failed(const struct error *err);

/* The rendered template of the messages in the JSON file @path: a list of
 * messages, or an object with the member "messages". */
MUST_CHECK enum status messages_render(const char *model, const char *path,
                                       struct buf *out, struct error *err);
/* The same for one user message. */
MUST_CHECK enum status prompt_render(const char *model, const char *prompt,
                                     struct buf *out, struct error *err);

/* Write a list of ids as JSON. */
void ids_write(struct json_out *out, const uint32_t *ids, size_t count);

#endif
