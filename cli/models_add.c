/* models_add.c - `berth models add DIR`: a catalogue entry out of a folder's
 * own headers.  The coordinator gets the entry and the small files that turn
 * text into ids; no weights leave the folder. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "common/clock.h"
#include "common/field.h"
#include "common/units.h"
#include "model/catalogue.h"
#include "model/directory.h"

#include "common/banned.h"

static const char usage[] =
    "usage: berth models add DIR [--id ID]\n\n"
    "Adds the model folder DIR (config.json, *.safetensors, tokenizer.json) to "
    "the\ncatalogue, as ID or by the folder's name. Weights are read here, not "
    "sent.";

/* What the coordinator keeps beside the entry. */
static const struct kept_file {
    const char *name;
    size_t max;
    bool is_needed;
} kept_files[] = {
    {"config.json", CATALOGUE_FILE_MAX_BYTES, true},
    {"generation_config.json", CATALOGUE_FILE_MAX_BYTES, false},
    {"tokenizer.json", CATALOGUE_TOKENIZER_MAX_BYTES, true},
    {"tokenizer_config.json", CATALOGUE_FILE_MAX_BYTES, false},
    {"chat_template.jinja", CATALOGUE_FILE_MAX_BYTES, false},
};

/* A file as text may double in JSON; more than that is no tokenizer. */
enum { BODY_MAX_BYTES = 3 * CATALOGUE_TOKENIZER_MAX_BYTES };

static enum status
write_file(struct cli *cli, const char *folder, const struct kept_file *file,
           struct json_out *out)
{
    char path[CLI_PATH_MAX_BYTES + 64];
    enum status status;
    struct buf text;

    buf_init(&text, file->max);
    (void)snprintf(path, sizeof(path), "%s/%s", folder, file->name);
    status = buf_read_file(&text, path, &cli->err);
    if (status == STATUS_NOT_FOUND && !file->is_needed) {
        status = STATUS_OK;
    } else if (status == STATUS_OK) {
        json_key(out, file->name);
        json_put_text_sized(out, text.data, text.size);
    }
    buf_clear(&text);
    return status;
}

static enum status
write_body(struct cli *cli, const char *folder,
           const struct catalogue_entry *entry, struct buf *body)
{
    enum status status = STATUS_OK;
    struct json_out out;

    json_out_init(&out, body);
    json_open_object(&out);
    json_key(&out, "entry");
    json_open_object(&out);
    field_encode(&out, catalogue_fields, catalogue_field_count, entry);
    json_close_object(&out);
    json_key(&out, "files");
    json_open_object(&out);
    for (size_t i = 0; i < COUNT_OF(kept_files) && status == STATUS_OK; i++)
        status = write_file(cli, folder, &kept_files[i], &out);
    json_close_object(&out);
    json_close_object(&out);
    return status;
}

/* Reads every byte, so a person is told how many and when it is over. */
static enum status
compute(struct cli *cli, const char *folder, const char *id,
        struct catalogue_entry *entry)
{
    bool is_told = isatty(STDERR_FILENO) == 1;
    struct model_directory dir;
    enum status status = model_directory_open(folder, &dir, &cli->err);
    struct span start = clock_monotonic();
    char size[32];

    if (status != STATUS_OK)
        return status;
    if (is_told)
        (void)fprintf(stderr, "hashing %s of weights in %zu file%s ...",
                      bytes_text(dir.weight_bytes, size, sizeof(size)),
                      dir.shard_count, dir.shard_count == 1 ? "" : "s");
    status = catalogue_entry_compute(&dir, id, entry, &cli->err);
    if (is_told)
        (void)fprintf(stderr, " %s after %.1f s\n",
                      status == STATUS_OK ? "done" : "stopped",
                      (double)span_as_ms(span_sub(clock_monotonic(), start)) /
                          1000);
    model_directory_close(&dir);
    return status;
}

/* The folder's own name, unless another id is wanted. */
static enum status
choose_id(struct cli *cli, const char *folder, const char *wanted,
          const char **id)
{
    const char *slash = strrchr(folder, '/');

    *id = wanted != NULL ? wanted : slash != NULL ? slash + 1 : folder;
    if (!catalogue_id_is_valid(*id))
        return cli_misuse(cli,
                          "\"%.64s\" is no model id (letters, digits and "
                          ". _ - / :); give one with --id ID",
                          *id);
    return STATUS_OK;
}

static enum status
add(struct cli *cli, const char *wanted)
{
    char folder[CLI_PATH_MAX_BYTES];
    char *real = realpath(cli->words[0], NULL);
    const char *id = NULL;
    struct catalogue_entry entry;
    struct cli_answer answer;
    enum status status;
    struct buf body;

    if (real == NULL || strlen(real) >= sizeof(folder)) {
        free(real);
        return error_set(&cli->err, STATUS_NOT_FOUND,
                         "%.300s: no such folder: name a model directory",
                         cli->words[0]);
    }
    (void)snprintf(folder, sizeof(folder), "%s", real);
    free(real);
    buf_init(&body, BODY_MAX_BYTES);
    cli_answer_init(&answer);
    status = choose_id(cli, folder, wanted, &id);
    if (status == STATUS_OK)
        status = compute(cli, folder, id, &entry);
    if (status == STATUS_OK)
        status = write_body(cli, folder, &entry, &body);
    if (status == STATUS_OK)
        status = cli_post(cli, "/api/v1/catalogue", &body, NULL, &answer);
    if (status == STATUS_OK && cli->json)
        cli_print_json(&answer);
    else if (status == STATUS_OK)
        printf("%s is in the catalogue (%s, %s). Nodes that hold the same "
               "files serve it.\n",
               id, entry.architecture, entry.quantisation);
    cli_answer_clear(&answer);
    buf_clear(&body);
    return status;
}

int
cli_models_add(int argc, char **argv)
{
    struct cli cli = {.json = false};
    const char *id = NULL;
    const struct option_spec specs[] = {
        {.name = "--id",
         .type = OPTION_TEXT,
         .text = &id,
         .value = "ID",
         .help = "default: the name of the folder"},
        CLI_JSON_OPTION(cli),
    };
    enum status status =
        cli_open(&cli, argc, argv, usage, specs, COUNT_OF(specs), 1, 1);

    if (status == STATUS_OK)
        status = add(&cli, id);
    return cli_close(&cli, status);
}
