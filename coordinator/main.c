/* main.c - berth-coordinator: options, signals, and what is printed. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/log.h"
#include "common/options.h"
#include "common/units.h"
#include "coordinator/app.h"
#include "coordinator/config.h"
#include "coordinator/dev.h"
#include "coordinator/http.h"
#include "coordinator/links.h"
#include "ledger/migrate.h"

#include "common/banned.h"

static const char usage[] =
    "usage: berth-coordinator --config FILE\n"
    "       berth-coordinator --dev DIR [--config FILE] [--https-port N]\n"
    "                         [--link-port N]\n"
    "       berth-coordinator migrate|check-config --config FILE\n"
    "\n"
    "Accepts inference jobs over HTTPS, places each whole on one lent Mac or\n"
    "pod, and keeps the ledger in PostgreSQL.  --dev makes and starts a\n"
    "private PostgreSQL, a CA and an admin key in DIR.\n";

enum { API_KEY_BYTES = 96, URL_BYTES = 300, CONFIG_TEXT_MAX = 65536 };
enum { DESCRIPTORS_MIN = 64 }; /* fewer and nothing starts, whatever it says */

struct choices {
    const char *config, *dev, *https_port, *link_port;
    const char *word; /* migrate, check-config or NULL: serve */
};

static volatile int stop_asked;
static int stop_pipe[2]; /* readable once stop_asked */

/* Every thread blocks the signals; this one waits for them. */
static void *
signal_wait(void *arg)
{
    sigset_t *set = arg;
    int number = 0;

    while (sigwait(set, &number) != 0)
        continue;
    log_info("coordinator.stopping", "signal=%d", number);
    stop_asked = 1;
    if (write(stop_pipe[1], "", 1) != 1)
        _Exit(EXIT_FAILED);
    /* A second signal ends the process at once. */
    while (sigwait(set, &number) != 0)
        continue;
    _Exit(EXIT_FAILED);
}

static enum status
signals_set(struct error *err)
{
    static sigset_t set;
    pthread_t thread;

    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (pipe(stop_pipe) != 0 ||
        pthread_create(&thread, NULL, signal_wait, &set) != 0)
        return error_set(err, STATUS_RETRY,
                         "no descriptor or thread is left to start with: "
                         "raise the limits (ulimit -n, ulimit -u)");
    pthread_detach(thread);
    return STATUS_OK;
}

/* What looks like a missing file or user may be a missing descriptor. */
static enum status
descriptors_blame(enum status status, struct error *err)
{
    struct error first = *err;
    struct rlimit limit;

    if (status != STATUS_INVALID || getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
        limit.rlim_cur >= DESCRIPTORS_MIN)
        return status;
    return error_set(err, STATUS_RETRY,
                     "this process may open %u files and needs %d or more: "
                     "raise the limit (ulimit -n); what it met first: %.200s",
                     (unsigned)limit.rlim_cur, DESCRIPTORS_MIN, first.text);
}

static void
stop_wait(void)
{
    char byte;

    while (read(stop_pipe[0], &byte, 1) != 1)
        continue;
}

static enum status
port_parse(const char *name, const char *text, uint64_t *port,
           struct error *err)
{
    if (text == NULL || parse_u64(text, strlen(text), 65535, port) == STATUS_OK)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "%s %s is no port: give a number from 0 to 65535", name,
                     text);
}

static enum status
choices_parse(int argc, char **argv, struct choices *choices, struct error *err)
{
    const struct option_spec specs[] = {
        {"--config", OPTION_TEXT, &choices->config, NULL, "FILE",
         "configuration file"},
        {"--dev", OPTION_TEXT, &choices->dev, NULL, "DIR",
         "private network in DIR"},
        {"--https-port", OPTION_TEXT, &choices->https_port, NULL, "N",
         "port of the API; 0: any free one"},
        {"--link-port", OPTION_TEXT, &choices->link_port, NULL, "N",
         "port of the agents; 0: any free one"},
    };
    const char *words[2];
    size_t count = 0;
    enum status status = options_parse(argc, argv, usage, specs,
                                       COUNT_OF(specs), words, 2, &count, err);

    if (status != STATUS_OK)
        return status;
    choices->word = count > 0 ? words[0] : NULL;
    if (count > 1 ||
        (choices->word != NULL && strcmp(choices->word, "migrate") != 0 &&
         strcmp(choices->word, "check-config") != 0))
        return error_set(err, STATUS_INVALID, "unknown command %s: see --help",
                         words[count - 1]);
    if (choices->config == NULL && choices->dev == NULL)
        return error_set(err, STATUS_INVALID,
                         "give either --config FILE or --dev DIR");
    if (choices->word != NULL && choices->dev != NULL)
        return error_set(err, STATUS_INVALID, "%s needs --config FILE alone",
                         choices->word);
    return STATUS_OK;
}

static enum status
run_check(const struct config *config)
{
    struct buf text;

    buf_init(&text, CONFIG_TEXT_MAX);
    config_print(config, &text);
    fputs(text.data, stdout);
    buf_clear(&text);
    return STATUS_OK;
}

static enum status
run_migrate(const struct config *config, struct error *err)
{
    struct db *db = NULL;
    size_t applied = 0;
    enum status status = db_open(config->database, &db, err);

    if (status == STATUS_OK)
        status = migrate(db, &applied, err);
    if (status == STATUS_OK)
        printf("%zu migrations applied\n", applied);
    db_close(db);
    return status;
}

static void
url_make(const struct app *app, char url[URL_BYTES])
{
    const char *address = app->config.https_address;

    if (app->config.public_url[0] != '\0')
        snprintf(url, URL_BYTES, "%.290s", app->config.public_url);
    else
        snprintf(url, URL_BYTES, "https://%s:%u",
                 strcmp(address, "0.0.0.0") == 0 ? "127.0.0.1" : address,
                 http_port(app->http));
}

/* The key is told once: on the start that made it. */
static enum status
dev_announce(struct app *app, struct dev *dev, const char *url,
             struct error *err)
{
    char key[API_KEY_BYTES] = "", before[API_KEY_BYTES];
    enum status status = dev_env_key(dev, key, sizeof(key), err);

    if (status == STATUS_OK) {
        memcpy(before, key, sizeof(before));
        status = app_dev_key(app, key, sizeof(key), err);
    }
    if (status == STATUS_OK)
        status = dev_env_write(dev, url, key, err);
    if (status == STATUS_OK && strcmp(before, key) != 0)
        printf("BERTH_API_KEY='%s'\n", key);
    return status;
}

/* Nobody could make the first key over the API: it is told here, once. */
static enum status
first_announce(struct app *app, struct error *err)
{
    char key[API_KEY_BYTES];
    enum status status = app_first_key(app, key, sizeof(key), err);

    if (status == STATUS_OK && key[0] != '\0')
        printf("BERTH_API_KEY='%s'\n", key);
    return status;
}

static enum status
serve(struct app *app, struct dev *dev, struct error *err)
{
    char url[URL_BYTES];
    enum status status = app_start(app, &stop_asked, err);

    if (status != STATUS_OK && stop_asked)
        status = STATUS_OK; /* asked to stop while still waiting */
    else if (status == STATUS_OK) {
        url_make(app, url);
        status = dev != NULL ? dev_announce(app, dev, url, err)
                             : first_announce(app, err);
        if (status == STATUS_OK) {
            printf("BERTH_URL='%s'\nlink_port=%u\n", url,
                   links_port(app->links));
            fflush(stdout);
            log_info("coordinator.serving", "url=%s link_port=%u", url,
                     links_port(app->links));
            stop_wait();
        }
    }
    app_stop(app);
    return status;
}

static enum status
settings_read(const struct choices *choices, struct config *config,
              struct error *err)
{
    if (choices->config == NULL)
        return STATUS_OK;
    return choices->dev != NULL ? config_read_dev(choices->config, config, err)
                                : config_read(choices->config, config, err);
}

static enum status
run(const struct choices *choices, struct error *err)
{
    static struct app app;
    struct dev *dev = NULL;
    enum status status;

    config_defaults(&app.config);
    status = settings_read(choices, &app.config, err);
    if (status == STATUS_OK)
        status = port_parse("--https-port", choices->https_port,
                            &app.config.https_port, err);
    if (status == STATUS_OK)
        status = port_parse("--link-port", choices->link_port,
                            &app.config.link_port, err);
    if (status != STATUS_OK)
        return status;
    if (choices->word != NULL && strcmp(choices->word, "check-config") == 0)
        return run_check(&app.config);
    if (choices->word != NULL)
        return run_migrate(&app.config, err);
    if (choices->dev != NULL)
        status = dev_open(choices->dev, &app.config, &dev, err);
    if (status == STATUS_OK)
        status = serve(&app, dev, err);
    dev_close(dev);
    return status;
}

int
main(int argc, char **argv)
{
    struct choices choices = {0};
    struct error err = {0};
    enum status status;

    log_set_program("berth-coordinator");
    if (choices_parse(argc, argv, &choices, &err) != STATUS_OK) {
        options_complain("berth-coordinator", &err);
        return EXIT_USAGE;
    }
    status = signals_set(&err);
    if (status == STATUS_OK)
        status = run(&choices, &err);
    if (status == STATUS_OK)
        return EXIT_OK;
    status = descriptors_blame(status, &err);
    options_complain("berth-coordinator", &err);
    return status == STATUS_INVALID ? EXIT_USAGE : EXIT_FAILED;
}
