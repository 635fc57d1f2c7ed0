/* login.c - `berth login`: which coordinator, which key, tried and stored. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/url.h"

#include "common/banned.h"

static const char usage[] =
    "usage: berth login [URL] [--ca FILE] [--key-file FILE]\n\n"
    "Asks for the API key (or reads it from standard input or FILE), tries it "
    "and stores\nURL, CA file and key in ~/.config/berth/config, for this user "
    "only.";

struct login {
    struct cli cli;
    const char *ca_file;
    const char *key_file;
};

/* One line of standard input without its end. */
static enum status
read_line(struct cli *cli, char *line, size_t size, const char *what)
{
    size_t end;

    if (fgets(line, (int)size, stdin) == NULL)
        return cli_misuse(cli, "%s is missing on standard input", what);
    end = strcspn(line, "\r\n");
    if (line[end] == '\0' && end + 1 == size)
        return cli_misuse(cli, "%s is longer than %zu bytes", what, size - 1);
    line[end] = '\0';
    return STATUS_OK;
}

/* From a person: without showing what is typed. */
static enum status
ask_key(struct cli *cli, char key[CLI_KEY_BYTES])
{
    struct termios shown, hidden;
    bool is_person =
        isatty(STDIN_FILENO) == 1 && tcgetattr(STDIN_FILENO, &shown) == 0;
    enum status status;

    if (is_person) {
        cli_interrupt_watch(); /* Ctrl-C comes back here to show again */
        hidden = shown;
        hidden.c_lflag &= ~(tcflag_t)ECHO;
        (void)fprintf(stderr, "API key: ");
        (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden);
    }
    status = read_line(cli, key, CLI_KEY_BYTES, "the API key");
    if (is_person) {
        (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &shown);
        (void)fprintf(stderr, "\n");
    }
    return status;
}

static enum status
read_key_file(struct cli *cli, const char *path, char key[CLI_KEY_BYTES])
{
    enum status status;
    struct buf text;
    size_t size;

    buf_init(&text, CLI_KEY_BYTES - 1);
    status = buf_read_file(&text, path, &cli->err);
    if (status == STATUS_OK) {
        size = strcspn(text.data, "\r\n");
        memcpy(key, text.data, size);
        key[size] = '\0';
    }
    buf_clear(&text);
    return status;
}

static enum status
take_url(struct cli *cli, struct cli_config *config)
{
    const char *given =
        cli->word_count > 0 ? cli->words[0] : getenv("BERTH_URL");
    char line[CLI_URL_BYTES];
    enum status status = STATUS_OK;

    if (given == NULL || given[0] == '\0') {
        if (isatty(STDIN_FILENO) == 1)
            (void)fprintf(stderr, "Address of the coordinator: ");
        status = read_line(cli, line, sizeof(line), "the address");
        given = line;
    }
    if (status == STATUS_OK)
        status = cli_url_check(given, config->url, sizeof(config->url),
                               &config->is_plain, &cli->err);
    return status;
}

/* Stored as a whole path: the next call may run elsewhere. */
static enum status
take_ca_file(struct cli *cli, const char *given, struct cli_config *config)
{
    char *real;

    if (given == NULL)
        given = getenv("BERTH_CA_FILE");
    if (given == NULL || given[0] == '\0')
        return STATUS_OK;
    real = realpath(given, NULL);
    if (real == NULL || strlen(real) >= sizeof(config->ca_file)) {
        free(real);
        return cli_misuse(cli, "%.300s: no such CA file: is the path right?",
                          given);
    }
    (void)snprintf(config->ca_file, sizeof(config->ca_file), "%s", real);
    free(real);
    return STATUS_OK;
}

static enum status
collect(struct login *login, struct cli_config *config)
{
    struct cli *cli = &login->cli;
    enum status status = take_url(cli, config);

    if (status == STATUS_OK)
        status = take_ca_file(cli, login->ca_file, config);
    if (status == STATUS_OK && login->key_file != NULL)
        status = read_key_file(cli, login->key_file, config->api_key);
    else if (status == STATUS_OK)
        status = ask_key(cli, config->api_key);
    if (status == STATUS_OK)
        status = cli_config_check_key(config->api_key, &cli->err);
    if (status != STATUS_OK)
        cli->is_misuse = true;
    return status;
}

/* Nothing is stored that does not work. */
static enum status
try_key(struct cli *cli, const struct cli_config *config)
{
    struct cli_answer answer;
    enum status status;

    cli->config = *config;
    cli_answer_init(&answer);
    status = cli_http_new(config, &cli->http, &cli->err);
    if (status == STATUS_OK)
        status = cli_get(cli, "/v1/models", &answer);
    cli_answer_clear(&answer);
    return status;
}

static void
print_stored(const struct cli *cli, const char *path)
{
    struct buf text;
    struct json_out out;

    if (!cli->json) {
        printf("Logged in to %s; the key is stored in %s.\n", cli->config.url,
               path);
        return;
    }
    buf_init(&text, 4 * CLI_PATH_BYTES);
    json_out_init(&out, &text);
    json_open_object(&out);
    json_member_text(&out, "url", cli->config.url);
    json_member_text(&out, "config", path);
    json_close_object(&out);
    printf("%s\n", text.data);
    buf_clear(&text);
}

static enum status
log_in(struct login *login)
{
    struct cli *cli = &login->cli;
    struct cli_config config = {.is_plain = false};
    char path[CLI_PATH_BYTES];
    enum status status = cli_config_path(path, &cli->err);

    if (status == STATUS_OK)
        status = collect(login, &config);
    if (status == STATUS_OK)
        status = try_key(cli, &config);
    if (status == STATUS_OK)
        status = cli_config_write(path, &config, &cli->err);
    if (status == STATUS_OK)
        print_stored(cli, path);
    return status;
}

int
cli_login(int argc, char **argv)
{
    struct login login = {.ca_file = NULL};
    const struct option_spec specs[] = {
        {.name = "--ca",
         .type = OPTION_TEXT,
         .text = &login.ca_file,
         .value = "FILE",
         .help = "certificate of the coordinator's CA"},
        {.name = "--key-file",
         .type = OPTION_TEXT,
         .text = &login.key_file,
         .value = "FILE",
         .help = "read the key from FILE"},
        CLI_JSON_OPTION(login.cli),
    };
    enum status status =
        cli_parse(&login.cli, argc, argv, usage, specs, COUNT_OF(specs), 0, 1);

    if (status == STATUS_OK)
        status = log_in(&login);
    return cli_close(&login.cli, status);
}
