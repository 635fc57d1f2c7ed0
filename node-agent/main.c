/* main.c - berth-node's command line. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <curl/curl.h>
#include <event2/event.h>

#include "common/buf.h"
#include "common/json.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/options.h"
#include "node-agent/agent.h"
#include "node-agent/config.h"
#include "node-agent/control.h"
#include "node-agent/home.h"
#include "node-agent/host.h"
#include "node-agent/join.h"
#include "node-agent/probe.h"

#include "common/banned.h"

enum { WORDS_MAX = 4, OUTPUT_MAX_BYTES = 1024 * 1024 };

static const char PROGRAM[] = "berth-node";

static const char USAGE[] =
    "berth-node [--home DIR] COMMAND\n"
    "\n"
    "Lends this machine to a Berth network.\n"
    "\n"
    "  join URL (--token-file FILE | - | --token T) [--name NAME]\n"
    "                    become a node; '-' reads the token from standard "
    "input\n"
    "  run               lend, until interrupted\n"
    "  status            what the running agent does\n"
    "  pause             stop jobs and free their memory now; outlives "
    "restarts\n"
    "  drain             finish running jobs, take no more\n"
    "  resume            lend again\n"
    "  probe --json      what this machine is\n"
    "  config            the configuration in force";

struct options {
    const char *home;
    const char *config;
    const char *token;
    const char *token_file;
    const char *name;
    const char *profile;
    const char *replay;
    bool json;
    const char *words[WORDS_MAX];
    size_t word_count;
};

struct session {
    const struct options *options;
    struct home home;
    struct agent_config config;
};

/* --- join --- */

static enum status
read_stream(FILE *stream, struct buf *text, struct error *err)
{
    char line[JOIN_TOKEN_BYTES + 2] = "";

    if (fgets(line, sizeof(line), stream) == NULL)
        return error_set(err, STATUS_INVALID,
                         "no token there: give the line that berth "
                         "join-token printed");
    line[strcspn(line, " \t\r\n")] = '\0';
    buf_append_text(text, line);
    return STATUS_OK;
}

static enum status
read_token(const struct options *options, struct buf *token, struct error *err)
{
    bool from_input =
        options->word_count == 3 && strcmp(options->words[2], "-") == 0;
    enum status status;
    char text[128];
    FILE *file;

    if ((options->token != NULL) + (options->token_file != NULL) + from_input !=
        1)
        return error_set(err, STATUS_INVALID,
                         "join needs one of --token-file FILE, - (standard "
                         "input) and --token T");
    if (options->token != NULL) {
        fprintf(stderr,
                "%s: warning: others on this machine can see a token "
                "on the command line; prefer --token-file\n",
                PROGRAM);
        buf_append_text(token, options->token);
        return STATUS_OK;
    }
    if (from_input)
        return read_stream(stdin, token, err);
    file = fopen(options->token_file, "r");
    if (file == NULL)
        return error_set(err, STATUS_NOT_FOUND, "%s: %s: is the path right?",
                         options->token_file,
                         error_errno(errno, text, sizeof(text)));
    status = read_stream(file, token, err);
    fclose(file);
    return status;
}

static enum status
run_join(struct session *session, struct error *err)
{
    const struct options *options = session->options;
    struct join_request request = {.name = options->name,
                                   .profile = options->profile};
    char node[UUID_TEXT_BYTES];
    char name[256];
    struct buf token;
    enum status status;

    if (options->word_count < 2)
        return error_set(err, STATUS_INVALID,
                         "join needs the coordinator's address, like "
                         "https://host:8443");
    buf_init(&token, JOIN_TOKEN_BYTES);
    status = read_token(options, &token, err);
    if (status == STATUS_OK) {
        request.url = options->words[1];
        request.token = token.data;
        status = home_lock(&session->home, err);
    }
    if (status == STATUS_OK) {
        curl_global_init(CURL_GLOBAL_DEFAULT);
        status = join_network(&session->home, &request, name, sizeof(name),
                              node, err);
        curl_global_cleanup();
    }
    if (status == STATUS_OK)
        printf("joined as %s (%s); lend with: %s run\n", name, node, PROGRAM);
    buf_clear(&token);
    return status;
}

/* --- run --- */

/* --config, else a file in the home where there is one. */
static enum status
read_config(struct session *session, struct error *err)
{
    char path[HOME_FILE_BYTES];
    const char *from = session->options->config;
    enum status status;

    if (from == NULL && home_has(&session->home, "berth-node.conf"))
        from = home_file(&session->home, "berth-node.conf", path);
    status = agent_config_read(from, &session->config, err);
    return status == STATUS_NOT_FOUND ? STATUS_INVALID : status;
}

static enum status
find_engine(struct agent_config *config, struct error *err)
{
    char path[CONFIG_PATH_BYTES];
    enum status status = STATUS_OK;
    char *slash;

    if (config->engine[0] == '\0') {
        status = host_self_path(path, sizeof(path), err);
        if (status != STATUS_OK)
            return status;
        slash = strrchr(path, '/');
        if (slash != NULL)
            *slash = '\0';
        if (strlen(path) + sizeof("/berth-engine") > sizeof(config->engine))
            return error_set(err, STATUS_INVALID,
                             "the engine's path is too long; set engine in "
                             "the configuration");
        snprintf(config->engine, sizeof(config->engine), "%.*s/berth-engine",
                 (int)(sizeof(config->engine) - sizeof("/berth-engine")), path);
    }
    if (access(config->engine, X_OK) != 0)
        return error_set(err, STATUS_NOT_FOUND,
                         "%s is not there or not executable; set engine in "
                         "the configuration",
                         config->engine);
    return STATUS_OK;
}

static enum status
probe_machine(const struct session *session, struct probe *probe,
              struct error *err)
{
    struct identity identity;
    enum status status = identity_read(&session->home, &identity, err);

    if (status != STATUS_OK)
        return status;
    if (identity.profile[0] != '\0')
        probe_profile(identity.profile, session->config.memory_cap, probe);
    else
        probe_host(&session->home, session->config.memory_cap, probe);
    identity_clear(&identity);
    probe_complain(probe);
    return STATUS_OK;
}

static void
on_stop_signal(evutil_socket_t number, short what, void *arg)
{
    (void)what;
    log_info("agent.stop", "signal=%d", (int)number);
    agent_stop(arg);
}

static void
run_loop(struct event_base *base, struct agent *agent)
{
    struct event *interrupt = evsignal_new(base, SIGINT, on_stop_signal, agent);
    struct event *terminate =
        evsignal_new(base, SIGTERM, on_stop_signal, agent);

    event_add(interrupt, NULL);
    event_add(terminate, NULL);
    agent_start(agent);
    event_base_dispatch(base);
    event_free(interrupt);
    event_free(terminate);
}

static enum status
run_agent(struct session *session, struct error *err)
{
    struct probe *probe = mem_alloc(sizeof(*probe));
    struct event_base *base = NULL;
    struct agent *agent = NULL;
    struct agent_setup setup = {.home = &session->home,
                                .config = &session->config,
                                .probe = probe,
                                .engine = session->config.engine};
    enum status status = read_config(session, err);

    if (status == STATUS_OK)
        status = find_engine(&session->config, err);
    if (status == STATUS_OK)
        status = home_lock(&session->home, err);
    if (status == STATUS_OK)
        status = probe_machine(session, probe, err);
    if (status != STATUS_OK)
        goto out;
    base = event_base_new();
    if (base == NULL) {
        status = error_set(err, STATUS_INTERNAL, "no event loop");
        goto out;
    }
    setup.base = base;
    status = agent_new(&setup, &agent, err);
    if (status != STATUS_OK)
        goto out;
    run_loop(base, agent);
    if (agent_was_refused(agent)) /* why was printed when it came */
        status = error_set(err, STATUS_DENIED,
                           "ended, since the coordinator refuses this node");

out:
    agent_free(agent);
    if (base != NULL)
        event_base_free(base);
    free(probe);
    return status;
}

/* --- the others --- */

static enum status
run_ask(struct session *session, struct error *err)
{
    struct buf answer;
    enum status status;

    buf_init(&answer, CONTROL_ANSWER_MAX_BYTES);
    status = control_ask(&session->home, session->options->words[0],
                         session->options->json, &answer, err);
    if (status == STATUS_OK)
        fputs(answer.data, stdout);
    buf_clear(&answer);
    return status;
}

static enum status
check_replay(const char *folder, struct error *err)
{
    struct stat info;

    if (folder == NULL || (stat(folder, &info) == 0 && S_ISDIR(info.st_mode)))
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "--replay %.300s: not a folder that can be read", folder);
}

static enum status
run_probe(struct session *session, struct error *err)
{
    struct probe *probe = mem_alloc(sizeof(*probe));
    struct buf text;
    enum status status = read_config(session, err);

    if (status == STATUS_OK)
        status = check_replay(session->options->replay, err);
    if (status == STATUS_OK && session->options->replay != NULL)
        probe_profile(session->options->replay, session->config.memory_cap,
                      probe);
    else if (status == STATUS_OK && home_has(&session->home, "node.id"))
        status = probe_machine(session, probe, err);
    else if (status == STATUS_OK)
        probe_host(&session->home, session->config.memory_cap, probe);
    buf_init(&text, OUTPUT_MAX_BYTES);
    if (status == STATUS_OK) {
        probe_write(probe, &text);
        fputs(text.data, stdout);
    }
    buf_clear(&text);
    free(probe);
    return status;
}

static enum status
run_config(struct session *session, struct error *err)
{
    struct json_out out;
    struct buf text;
    enum status status = read_config(session, err);

    buf_init(&text, OUTPUT_MAX_BYTES);
    json_out_init(&out, &text);
    if (status == STATUS_OK && session->options->json) {
        conf_print_json(agent_config_keys, agent_config_key_count,
                        &session->config, &out);
        buf_append_char(&text, '\n');
    } else if (status == STATUS_OK) {
        conf_print(agent_config_keys, agent_config_key_count, &session->config,
                   &text);
    }
    fputs(text.data, stdout);
    buf_clear(&text);
    return status;
}

/* Options that not every command takes. */
enum {
    TAKES_CONFIG = 1,
    TAKES_JSON = 2,
    TAKES_REPLAY = 4,
    TAKES_JOINING = 8, /* --token-file, --token, --name, --profile */
};

struct command {
    const char *name;
    enum status (*run)(struct session *session, struct error *err);
    size_t words_most;
    unsigned takes;
    bool makes_home;
};

static const struct command commands[] = {
    {"join", run_join, 3, TAKES_JOINING, true},
    {"run", run_agent, 1, TAKES_CONFIG, true},
    {"status", run_ask, 1, TAKES_JSON, false},
    {"pause", run_ask, 1, TAKES_JSON, false},
    {"resume", run_ask, 1, TAKES_JSON, false},
    {"drain", run_ask, 1, TAKES_JSON, false},
    {"probe", run_probe, 1, TAKES_CONFIG | TAKES_JSON | TAKES_REPLAY, false},
    {"config", run_config, 1, TAKES_CONFIG | TAKES_JSON, false},
};

/* An option that does nothing would leave its giver in error. */
static enum status
check_options(const struct options *o, const struct command *command,
              struct error *err)
{
    const struct {
        const char *name;
        bool is_given;
        unsigned takes;
    } given[] = {
        {"--config", o->config != NULL, TAKES_CONFIG},
        {"--json", o->json, TAKES_JSON},
        {"--replay", o->replay != NULL, TAKES_REPLAY},
        {"--token-file", o->token_file != NULL, TAKES_JOINING},
        {"--token", o->token != NULL, TAKES_JOINING},
        {"--name", o->name != NULL, TAKES_JOINING},
        {"--profile", o->profile != NULL, TAKES_JOINING},
    };

    for (size_t i = 0; i < COUNT_OF(given); i++)
        if (given[i].is_given && (command->takes & given[i].takes) == 0)
            return error_set(err, STATUS_INVALID,
                             "%s does not take %s; see %s --help",
                             command->name, given[i].name, PROGRAM);
    return STATUS_OK;
}

static enum status
open_home(struct session *session, bool make, struct error *err)
{
    const char *path = session->options->home;
    const char *user = getenv("HOME");
    char whole[HOME_PATH_BYTES];

    if (path == NULL)
        path = getenv("BERTH_HOME");
    if (path == NULL && (user == NULL || user[0] != '/'))
        return error_set(err, STATUS_INVALID,
                         "HOME is not set; give --home DIR");
    if (path == NULL) {
        snprintf(whole, sizeof(whole), "%s/.berth-node", user);
        path = whole;
    }
    return home_open(path, make, &session->home, err);
}

static enum status
dispatch(const struct options *options, struct error *err)
{
    struct session *session = mem_alloc(sizeof(*session));
    enum status status = STATUS_INVALID;
    size_t i = 0;

    session->options = options;
    while (options->word_count > 0 && i < COUNT_OF(commands) &&
           strcmp(commands[i].name, options->words[0]) != 0)
        i++;
    if (options->word_count == 0)
        error_set(err, status, "which command? See %s --help", PROGRAM);
    else if (i == COUNT_OF(commands))
        error_set(err, status, "%s: no such command; see %s --help",
                  options->words[0], PROGRAM);
    else if (options->word_count > commands[i].words_most)
        error_set(err, status, "%s: too many words; see %s --help",
                  options->words[0], PROGRAM);
    else
        status = check_options(options, &commands[i], err);
    if (status == STATUS_OK)
        status = open_home(session, commands[i].makes_home, err);
    if (status == STATUS_OK)
        status = commands[i].run(session, err);
    free(session);
    return status;
}

static enum status
parse(int argc, char **argv, struct options *options, struct error *err)
{
    const struct option_spec specs[] = {
        {"--home", OPTION_TEXT, &options->home, NULL, "DIR",
         "state folder (BERTH_HOME, else ~/.berth-node)"},
        {"--config", OPTION_TEXT, &options->config, NULL, "FILE",
         "configuration (berth-node.conf in the state folder)"},
        {"--token-file", OPTION_TEXT, &options->token_file, NULL, "FILE",
         "join: file with the join token"},
        {"--token", OPTION_TEXT, &options->token, NULL, "TOKEN",
         "join: the token itself; others can see it"},
        {"--name", OPTION_TEXT, &options->name, NULL, "NAME",
         "join: name of the node (the coordinator draws one)"},
        {"--profile", OPTION_TEXT, &options->profile, NULL, "DIR",
         "join: stand for the Mac whose outputs are recorded in DIR"},
        {"--replay", OPTION_TEXT, &options->replay, NULL, "DIR",
         "probe: read recorded outputs instead of this machine"},
        {"--json", OPTION_FLAG, NULL, &options->json, NULL, "print JSON"},
    };

    return options_parse(argc, argv, USAGE, specs, COUNT_OF(specs),
                         options->words, WORDS_MAX, &options->word_count, err);
}

int
main(int argc, char **argv)
{
    struct options options = {0};
    struct error err = {0};
    enum status status;

    log_set_program(PROGRAM);
    /* A peer that closes is an error of one write, not the program's end. */
    signal(SIGPIPE, SIG_IGN);
    status = parse(argc, argv, &options, &err);
    if (status == STATUS_OK)
        status = dispatch(&options, &err);
    if (status == STATUS_OK)
        return options_finish(PROGRAM, EXIT_OK);
    options_complain(PROGRAM, &err);
    return status == STATUS_INVALID ? EXIT_USAGE : EXIT_FAILED;
}
