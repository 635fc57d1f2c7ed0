/* cli.c - the frame of every command. */
#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/interrupt.h"
#include "cli/text.h"
#include "cli/url.h"
#include "common/cert.h"

#include "common/banned.h"

enum { ABBREVIATION_MIN_BYTES = 4 };

enum status
cli_misuse(struct cli *cli, const char *format, ...)
{
    char text[ERROR_TEXT_BYTES];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    cli->is_misuse = true;
    return error_set(&cli->err, STATUS_INVALID, "%s", text);
}

enum status
cli_parse(struct cli *cli, int argc, char **argv, const char *usage,
          const struct option_spec *specs, size_t spec_count, size_t word_min,
          size_t word_max)
{
    enum status status =
        options_parse(argc, argv, usage, specs, spec_count, cli->words,
                      word_max, &cli->word_count, &cli->err);

    cli->is_terminal = isatty(STDOUT_FILENO) == 1;
    if (status == STATUS_OK && cli->word_count < word_min)
        status = cli_misuse(cli, "something is missing; %.*s",
                            (int)strcspn(usage, "\n"), usage);
    if (status != STATUS_OK)
        cli->is_misuse = true;
    return status;
}

enum status
cli_open(struct cli *cli, int argc, char **argv, const char *usage,
         const struct option_spec *specs, size_t spec_count, size_t word_min,
         size_t word_max)
{
    char path[CLI_PATH_BYTES] = "";
    enum status status = cli_parse(cli, argc, argv, usage, specs, spec_count,
                                   word_min, word_max);

    if (status != STATUS_OK)
        return status;
    /* Without HOME the environment may still say everything. */
    if (getenv("HOME") != NULL)
        status = cli_config_path(path, &cli->err);
    if (status == STATUS_OK)
        status = cli_config_read(path, &cli->config, &cli->err);
    if (status == STATUS_OK)
        status = cli_http_new(&cli->config, &cli->http, &cli->err);
    if (status != STATUS_OK)
        cli->is_misuse = true;
    return status;
}

void
cli_complain(const struct cli *cli)
{
    if (cli->err.code[0] != '\0')
        (void)fprintf(stderr, "berth: %s (%s)\n", cli->err.text, cli->err.code);
    else
        options_complain("berth", &cli->err);
}

int
cli_close(struct cli *cli, enum status status)
{
    cli_http_free(cli->http);
    cli->http = NULL;
    if (cli_interrupted())
        return EXIT_INTERRUPTED;
    if (status == STATUS_OK && (fflush(stdout) != 0 || ferror(stdout) != 0))
        status = error_set(&cli->err, STATUS_INTERNAL,
                           "cannot write to standard output");
    if (status == STATUS_OK)
        return EXIT_OK;
    cli_complain(cli);
    return cli->is_misuse ? EXIT_USAGE : EXIT_FAILED;
}

void
cli_answer_init(struct cli_answer *answer)
{
    buf_init(&answer->text, CLI_HTTP_ANSWER_MAX_BYTES);
    answer->doc.root = NULL;
}

void
cli_answer_clear(struct cli_answer *answer)
{
    json_doc_clear(&answer->doc);
    buf_clear(&answer->text);
}

enum status
cli_call(struct cli *cli, const struct cli_request *request,
         struct cli_answer *answer)
{
    enum status status;

    json_doc_clear(&answer->doc);
    buf_reset(&answer->text);
    status = cli_http_call(cli->http, request, &answer->text, &cli->err);
    if (status != STATUS_OK)
        return status;
    if (json_doc_parse(answer->text.data, answer->text.size, &answer->doc,
                       NULL) != STATUS_OK)
        return error_set(
            &cli->err, STATUS_INTERNAL,
            "what answers at %.200s is no coordinator (no JSON): is "
            "the address right?",
            cli->config.url);
    return STATUS_OK;
}

enum status
cli_get(struct cli *cli, const char *path, struct cli_answer *answer)
{
    const struct cli_request request = {.method = "GET", .path = path};

    return cli_call(cli, &request, answer);
}

enum status
cli_post(struct cli *cli, const char *path, const struct buf *body,
         const char *idempotency_key, struct cli_answer *answer)
{
    const struct cli_request request = {.method = "POST",
                                        .path = path,
                                        .body = body->data,
                                        .body_size = body->size,
                                        .idempotency_key = idempotency_key};
    enum status status = buf_status(body, &cli->err);

    return status == STATUS_OK ? cli_call(cli, &request, answer) : status;
}

enum status
cli_call_on(struct cli *cli, const char *method, const char *prefix,
            const char *id, const char *suffix, struct cli_answer *answer)
{
    struct cli_request request = {.method = method};
    enum status status;
    struct buf path;

    buf_init(&path, CLI_PATH_MAX_BYTES);
    buf_append_text(&path, prefix);
    cli_url_escape(&path, id, true);
    buf_append_text(&path, suffix);
    request.path = path.data;
    status = buf_status(&path, &cli->err);
    if (status == STATUS_OK)
        status = cli_call(cli, &request, answer);
    buf_clear(&path);
    return status;
}

const struct json *
cli_list(const struct cli_answer *answer)
{
    return json_get(answer->doc.root, "data");
}

const char *
cli_member(const struct json *object, const char *name, char *text,
           size_t text_size)
{
    size_t size = 0;
    const char *bytes = json_as_text(json_get(object, name), &size);
    struct buf safe;

    buf_init(&safe, text_size - 1);
    if (bytes != NULL)
        cli_text_append_safe(&safe, bytes, size, false);
    memcpy(text, safe.data, safe.size + 1);
    buf_clear(&safe);
    return text;
}

void
cli_print_json(const struct cli_answer *answer)
{
    (void)fwrite(answer->text.data, 1, answer->text.size, stdout);
    if (answer->text.size == 0 ||
        answer->text.data[answer->text.size - 1] != '\n')
        (void)putchar('\n');
}

void
cli_print_table(const struct cli_table *table)
{
    struct buf out;

    buf_init(&out, CLI_OUTPUT_MAX_BYTES);
    cli_table_print(table, &out);
    (void)fwrite(out.data, 1, out.size, stdout);
    buf_clear(&out);
}

void
cli_print_list(const struct cli *cli, const struct json *list,
               const struct cli_column *columns, size_t column_count,
               void (*on_row)(struct cli_table *, const struct json *),
               const char *when_empty)
{
    struct cli_table table;

    if (json_count(list) == 0) {
        printf("%s\n", when_empty);
        return;
    }
    cli_table_init(&table, columns, column_count, cli->is_terminal);
    for (size_t i = 0; i < json_count(list); i++)
        on_row(&table, json_at(list, i));
    cli_print_table(&table);
    cli_table_clear(&table);
}

enum status
cli_show_list(struct cli *cli, const char *path,
              const struct cli_column *columns, size_t column_count,
              void (*on_row)(struct cli_table *, const struct json *),
              const char *when_empty)
{
    struct cli_answer answer;
    enum status status;

    cli_answer_init(&answer);
    status = cli_get(cli, path, &answer);
    if (status == STATUS_OK && cli->json)
        cli_print_json(&answer);
    else if (status == STATUS_OK)
        cli_print_list(cli, cli_list(&answer), columns, column_count, on_row,
                       when_empty);
    cli_answer_clear(&answer);
    return status;
}

static bool
abbreviates(const char *word, const char *id)
{
    size_t size = strlen(word), whole = strlen(id);

    return size >= ABBREVIATION_MIN_BYTES && size < whole &&
           (strncmp(id, word, size) == 0 ||
            strcmp(id + whole - size, word) == 0);
}

/* The only item that @word can mean; more than one: none, and @several. */
static const char *
find_id(const struct json *list, const char *word, bool *several)
{
    const char *found = NULL;

    *several = false;
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *item = json_at(list, i);
        const char *id = json_as_text(json_get(item, "id"), NULL);
        const char *name = json_as_text(json_get(item, "name"), NULL);
        bool is_exact = id != NULL && strcmp(id, word) == 0;
        bool is_named = name != NULL && strcmp(name, word) == 0;

        if (is_exact)
            return id;
        if (id == NULL || (!is_named && !abbreviates(word, id)))
            continue;
        *several = found != NULL;
        if (*several)
            return NULL;
        found = id;
    }
    return found;
}

enum status
cli_resolve(struct cli *cli, const char *path, const char *noun,
            const char *word, char id[static CLI_ID_BYTES])
{
    enum status status;
    struct cli_answer answer;
    const char *found;
    bool several = false;

    if (uuid_is_valid(word)) {
        (void)snprintf(id, CLI_ID_BYTES, "%s", word);
        return STATUS_OK;
    }
    cli_answer_init(&answer);
    status = cli_get(cli, path, &answer);
    if (status != STATUS_OK)
        goto out;
    found = find_id(cli_list(&answer), word, &several);
    if (found != NULL && strlen(found) < CLI_ID_BYTES)
        (void)snprintf(id, CLI_ID_BYTES, "%s", found);
    else if (several)
        status = error_set(&cli->err, STATUS_INVALID,
                           "more than one %s is called \"%.100s\"; give the "
                           "whole id",
                           noun, word);
    else
        status = error_set(&cli->err, STATUS_NOT_FOUND,
                           "there is no %s \"%.100s\" in the list; give the "
                           "whole id of an older one",
                           noun, word);

out:
    cli_answer_clear(&answer);
    return status;
}

enum status
cli_model(struct cli *cli, const char *wanted, char id[static CLI_ID_BYTES])
{
    enum status status = STATUS_OK;
    struct cli_answer answer;
    const char *first = wanted;

    cli_answer_init(&answer);
    if (wanted == NULL) {
        status = cli_get(cli, "/v1/models", &answer);
        first =
            json_as_text(json_get(json_at(cli_list(&answer), 0), "id"), NULL);
    }
    if (status == STATUS_OK && first == NULL)
        status = error_set(&cli->err, STATUS_NO_CAPACITY,
                           "no model can be served now; `berth models` and "
                           "`berth nodes` show what is missing");
    else if (status == STATUS_OK && strlen(first) >= CLI_ID_BYTES)
        status = cli_misuse(cli, "a model's id has at most %d bytes",
                            CLI_ID_BYTES - 1);
    else if (status == STATUS_OK)
        (void)snprintf(id, CLI_ID_BYTES, "%s", first);
    cli_answer_clear(&answer);
    return status;
}

static enum status
read_stdin(struct cli *cli, struct buf *text)
{
    char piece[16384];
    size_t size;

    while ((size = fread(piece, 1, sizeof(piece), stdin)) > 0)
        buf_append(text, piece, size);
    if (ferror(stdin) != 0)
        return error_set(&cli->err, STATUS_INTERNAL,
                         "cannot read standard input");
    return buf_status(text, &cli->err);
}

enum status
cli_read(struct cli *cli, const char *path, struct buf *text)
{
    if (strcmp(path, "-") == 0)
        return read_stdin(cli, text);
    return buf_read_file(text, path, &cli->err);
}
