/* network.c - see network.h. */
#include "tests/harness/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/units.h"
#include "common/banned.h"

enum {
    WAIT_S = 120,
    POLL_MS = 50,
    PORT_TRIES = 3,
    BERTH_WORDS_MAX = 32,
    CONFIG_MAX_BYTES = 64 * 1024,
};

static const char *const default_models[] = {
    "tests/models/tiny-chat", "tests/models/tiny-chat-8bit",
    "tests/models/tiny-chat-4bit", NULL};

static enum status
path_in(const struct network *network, const char *name, char *path,
        struct error *err)
{
    int size =
        snprintf(path, PROCESS_PATH_BYTES, "%s/%s", network->folder, name);

    if (size < 0 || size >= PROCESS_PATH_BYTES)
        return error_set(err, STATUS_TOO_LARGE, "path too long");
    return STATUS_OK;
}

static enum status
program_path(const struct network *network, const char *name, char *path,
             struct error *err)
{
    int size =
        snprintf(path, PROCESS_PATH_BYTES, "%s/%s", network->programs, name);

    if (size < 0 || size >= PROCESS_PATH_BYTES)
        return error_set(err, STATUS_TOO_LARGE, "path too long");
    if (access(path, X_OK) != 0)
        return error_set(err, STATUS_NOT_FOUND, "%s is missing: run make",
                         path);
    return STATUS_OK;
}

/* --- waiting ----------------------------------------------------------------
 */

/* STATUS_INTERNAL when a part that was started has ended by itself. */
static enum status
check_parts(struct network *network, struct error *err)
{
    struct process *parts[NETWORK_AGENTS_MAX + 1] = {&network->coordinator};

    for (size_t i = 0; i < network->agent_count; i++)
        parts[i + 1] = &network->agents[i];
    for (size_t i = 0; i <= network->agent_count; i++)
        if (parts[i]->pid != 0 && !process_lives(&network->guard, parts[i]))
            return error_set(err, STATUS_INTERNAL, "%s has ended",
                             parts[i]->name);
    return STATUS_OK;
}

enum status
network_wait(struct network *network, const char *what,
             bool (*holds)(const struct network *network, void *arg), void *arg,
             struct error *err)
{
    struct span deadline = span_add(clock_monotonic(), span_s(WAIT_S));
    struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};

    while (!holds(network, arg)) {
        enum status status = check_parts(network, err);

        if (status != STATUS_OK)
            return status;
        if (clock_monotonic().ns > deadline.ns)
            return error_set(err, STATUS_INTERNAL, "gave up waiting for %s",
                             what);
        (void)nanosleep(&pause, NULL);
    }
    return STATUS_OK;
}

/* --- the administrator's berth ----------------------------------------------
 */

enum status
network_berth(const struct network *network, const char *const *argv,
              struct buf *out, struct error *err)
{
    const struct process_env env[] = {{"BERTH_URL", network->url},
                                      {"BERTH_CA_FILE", network->ca_file},
                                      {"BERTH_API_KEY", network->api_key}};
    const char *words[BERTH_WORDS_MAX + 2];
    char program[PROCESS_PATH_BYTES];
    size_t count = 0;
    enum status status = program_path(network, "berth", program, err);

    words[count++] = program;
    while (*argv != NULL && count <= BERTH_WORDS_MAX)
        words[count++] = *argv++;
    words[count] = NULL;
    if (status == STATUS_OK)
        status = process_capture(words, env, COUNT_OF(env), out, err);
    return status;
}

/* The same with --json; @doc is cleared by the caller. */
static enum status
berth_json(const struct network *network, const char *const *argv,
           struct json_doc *doc, struct error *err)
{
    struct buf out;
    enum status status;

    *doc = (struct json_doc){0};
    buf_init(&out, NETWORK_OUTPUT_MAX_BYTES);
    status = network_berth(network, argv, &out, err);
    if (status == STATUS_OK)
        status = json_doc_parse(out.data, out.size, doc, err);
    buf_clear(&out);
    return status;
}

/* A list as it is or inside {"data": ...}. */
static const struct json *
list_of(const struct json_doc *doc)
{
    const struct json *data = json_get(doc->root, "data");

    return data == NULL ? doc->root : data;
}

/* --- the coordinator --------------------------------------------------------
 */

/* The value of NAME='value' in the text of an env file. */
static void
env_value(const char *text, const char *name, char *value, size_t value_size)
{
    size_t name_size = strlen(name);

    value[0] = '\0';
    while (text != NULL) {
        if (strncmp(text, name, name_size) == 0 &&
            strncmp(text + name_size, "='", 2) == 0) {
            const char *start = text + name_size + 2;

            (void)snprintf(value, value_size, "%.*s",
                           (int)strcspn(start, "'\n"), start);
        }
        text = strchr(text, '\n');
        text = text == NULL ? NULL : text + 1;
    }
}

/* Has the coordinator written its env file, and does the API answer there? */
static bool
api_answers(const struct network *network, void *arg)
{
    static const char *const models[] = {"models", "--json", NULL};
    struct network *filled = arg;
    char path[PROCESS_PATH_BYTES];
    struct json_doc doc = {0};
    struct buf text;
    bool answers = false;

    buf_init(&text, 16384);
    if (path_in(network, "coordinator/env", path, NULL) == STATUS_OK &&
        buf_read_file(&text, path, NULL) == STATUS_OK) {
        env_value(text.data, "BERTH_URL", filled->url, sizeof(filled->url));
        env_value(text.data, "BERTH_CA_FILE", filled->ca_file,
                  sizeof(filled->ca_file));
        env_value(text.data, "BERTH_API_KEY", filled->api_key,
                  sizeof(filled->api_key));
        answers = berth_json(network, models, &doc, NULL) == STATUS_OK;
        json_doc_clear(&doc);
    }
    buf_clear(&text);
    return answers;
}

enum status
network_coordinator_start(struct network *network, struct error *err)
{
    char program[PROCESS_PATH_BYTES];
    char dir[PROCESS_PATH_BYTES];
    const char *const argv[] = {program,
                                "--dev",
                                dir,
                                "--https-port",
                                network->https_port,
                                "--link-port",
                                network->link_port,
                                NULL};
    enum status status =
        program_path(network, "berth-coordinator", program, err);

    if (status == STATUS_OK)
        status = path_in(network, "coordinator", dir, err);
    if (status == STATUS_OK)
        status = process_start(&network->guard, &network->coordinator,
                               "coordinator", network->folder, argv, err);
    if (status == STATUS_OK)
        status =
            network_wait(network, "the coordinator", api_answers, network, err);
    return status;
}

void
network_coordinator_end(struct network *network, int signal)
{
    process_end(&network->guard, &network->coordinator, signal);
}

/* A port that the kernel says is free now, as text. */
static enum status
free_port(char *text, size_t text_size, struct error *err)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    enum status status = STATUS_OK;

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        status = error_set(err, STATUS_INTERNAL, "no free port");
    (void)snprintf(text, text_size, "%u", (unsigned)ntohs(address.sin_port));
    if (fd >= 0)
        (void)close(fd);
    return status;
}

/* Ports are kept for later starts; a port may be taken by another program
 * before the coordinator has it, so a few are tried. */
static enum status
start_on_free_ports(struct network *network, struct error *err)
{
    enum status status = STATUS_INTERNAL;

    for (int i = 0; i < PORT_TRIES && status != STATUS_OK; i++) {
        network_coordinator_end(network, SIGTERM);
        status =
            free_port(network->https_port, sizeof(network->https_port), err);
        if (status == STATUS_OK)
            status =
                free_port(network->link_port, sizeof(network->link_port), err);
        if (status == STATUS_OK)
            status = network_coordinator_start(network, err);
    }
    return status;
}

/* --- catalogue and owners ---------------------------------------------------
 */

static enum status
add_models(struct network *network, const char *const *models,
           struct error *err)
{
    enum status status = STATUS_OK;

    for (; *models != NULL && status == STATUS_OK; models++) {
        const char *const words[] = {"models", "add", *models, NULL};
        struct buf out;

        buf_init(&out, NETWORK_OUTPUT_MAX_BYTES);
        status = network_berth(network, words, &out, err);
        buf_clear(&out);
        network->model_count++;
    }
    return status;
}

static const char *
owner_of(const struct network_options *options, size_t index)
{
    return options->owners == NULL ? "alice" : options->owners[index];
}

/* An account for the owner of agent @index, unless an earlier one has it. */
static enum status
add_owner(const struct network *network, const struct network_options *options,
          size_t index, struct error *err)
{
    const char *name = owner_of(options, index);
    const char *const words[] = {"accounts", "add", name, "--json", NULL};
    struct json_doc doc;
    enum status status;

    for (size_t i = 0; i < index; i++)
        if (strcmp(owner_of(options, i), name) == 0)
            return STATUS_OK;
    status = berth_json(network, words, &doc, err);
    json_doc_clear(&doc);
    return status;
}

/* --- agents -----------------------------------------------------------------
 */

static enum status
write_token(const struct network *network, const char *owner, const char *path,
            struct error *err)
{
    const char *const words[] = {"join-token", "--owner", owner, "--json",
                                 NULL};
    struct json_doc doc;
    enum status status = berth_json(network, words, &doc, err);

    if (status == STATUS_OK) {
        size_t size = 0;
        const char *token = json_as_text(json_get(doc.root, "token"), &size);

        status = token == NULL ? error_set(err, STATUS_INTERNAL, "no token")
                               : file_write_whole(path, token, size, 0600, err);
    }
    json_doc_clear(&doc);
    return status;
}

static enum status
write_config(const struct network_options *options, const char *path,
             struct error *err)
{
    const char *const *models =
        options->models == NULL ? default_models : options->models;
    struct buf text;
    enum status status;

    buf_init(&text, CONFIG_MAX_BYTES);
    for (; *models != NULL; models++) {
        char *whole = realpath(*models, NULL);

        buf_printf(&text, "models = %s\n", whole == NULL ? *models : whole);
        free(whole);
    }
    if (options->agent_config != NULL)
        buf_append_text(&text, options->agent_config);
    status = buf_status(&text, err);
    if (status == STATUS_OK)
        status = file_write_whole(path, text.data, text.size, 0600, err);
    buf_clear(&text);
    return status;
}

static enum status
join(const struct network *network, const struct network_options *options,
     const char *name, const char *home, const char *token, struct error *err)
{
    char program[PROCESS_PATH_BYTES];
    const char *argv[] = {program,
                          "--home",
                          home,
                          "join",
                          network->url,
                          "--token-file",
                          token,
                          "--name",
                          name,
                          options->profile == NULL ? NULL : "--profile",
                          options->profile,
                          NULL};
    struct buf out;
    enum status status = program_path(network, "berth-node", program, err);

    buf_init(&out, NETWORK_OUTPUT_MAX_BYTES);
    if (status == STATUS_OK)
        status = process_capture(argv, NULL, 0, &out, err);
    buf_clear(&out);
    return status;
}

/* A home, joined, with a configuration file in it. */
static enum status
prepare_agent(const struct network *network,
              const struct network_options *options, size_t index,
              struct error *err)
{
    char name[PROCESS_NAME_BYTES];
    char home[PROCESS_PATH_BYTES];
    char token[PROCESS_PATH_BYTES];
    char config[PROCESS_PATH_BYTES];
    char file[PROCESS_NAME_BYTES + 8];
    enum status status;

    (void)snprintf(name, sizeof(name), "node-%zu", index + 1);
    status = path_in(network, name, home, err);
    (void)snprintf(file, sizeof(file), "%s.token", name);
    if (status == STATUS_OK)
        status = path_in(network, file, token, err);
    (void)snprintf(file, sizeof(file), "%s.conf", name);
    if (status == STATUS_OK)
        status = path_in(network, file, config, err);
    if (status == STATUS_OK)
        status = add_owner(network, options, index, err);
    if (status == STATUS_OK)
        status = write_token(network, owner_of(options, index), token, err);
    if (status == STATUS_OK)
        status = write_config(options, config, err);
    if (status == STATUS_OK)
        status = join(network, options, name, home, token, err);
    return status;
}

enum status
network_agent_start(struct network *network, size_t index, struct error *err)
{
    char name[PROCESS_NAME_BYTES];
    char file[PROCESS_NAME_BYTES + 8];
    char program[PROCESS_PATH_BYTES];
    char home[PROCESS_PATH_BYTES];
    char config[PROCESS_PATH_BYTES];
    const char *const argv[] = {program,    "--home", home, "run",
                                "--config", config,   NULL};
    enum status status = program_path(network, "berth-node", program, err);

    (void)snprintf(name, sizeof(name), "node-%zu", index + 1);
    (void)snprintf(file, sizeof(file), "%s.conf", name);
    if (status == STATUS_OK)
        status = path_in(network, name, home, err);
    if (status == STATUS_OK)
        status = path_in(network, file, config, err);
    if (status == STATUS_OK)
        status = process_start(&network->guard, &network->agents[index], name,
                               network->folder, argv, err);
    return status;
}

void
network_agent_end(struct network *network, size_t index, int signal)
{
    process_end(&network->guard, &network->agents[index], signal);
}

/* --- ready ------------------------------------------------------------------
 */

static size_t
count_lending(const struct network *network)
{
    static const char *const words[] = {"nodes", "--json", NULL};
    struct json_doc doc;
    size_t lending = 0;

    if (berth_json(network, words, &doc, NULL) == STATUS_OK) {
        const struct json *nodes = list_of(&doc);

        for (size_t i = 0; i < json_count(nodes); i++) {
            size_t size;
            const char *state =
                json_as_text(json_get(json_at(nodes, i), "state"), &size);

            lending += state != NULL && strcmp(state, "lending") == 0;
        }
    }
    json_doc_clear(&doc);
    return lending;
}

static size_t
count_models(const struct network *network)
{
    static const char *const words[] = {"models", "--json", NULL};
    struct json_doc doc;
    size_t count = 0;

    if (berth_json(network, words, &doc, NULL) == STATUS_OK)
        count = json_count(list_of(&doc));
    json_doc_clear(&doc);
    return count;
}

static bool
is_ready(const struct network *network, void *arg)
{
    size_t running = 0;

    (void)arg;
    for (size_t i = 0; i < network->agent_count; i++)
        running += network->agents[i].pid != 0;
    if (running == 0)
        return true;
    return count_lending(network) >= running &&
           count_models(network) >= network->model_count;
}

enum status
network_wait_ready(struct network *network, struct error *err)
{
    return network_wait(network, "agents and models", is_ready, NULL, err);
}

/* --- all of it --------------------------------------------------------------
 */

static enum status
make_folder(struct network *network, struct error *err)
{
    const char *programs = getenv("BERTH_BIN");

    (void)snprintf(network->programs, sizeof(network->programs), "%s",
                   programs == NULL ? "build/bin" : programs);
    (void)snprintf(network->folder, sizeof(network->folder),
                   "/tmp/berth-network-XXXXXX");
    if (mkdtemp(network->folder) == NULL)
        return error_set(err, STATUS_INTERNAL, "%s cannot be made",
                         network->folder);
    return process_guard_start(&network->guard, network->folder, err);
}

static enum status
start_agents(struct network *network, const struct network_options *options,
             struct error *err)
{
    enum status status = STATUS_OK;

    if (options->agents > NETWORK_AGENTS_MAX)
        return error_set(err, STATUS_INVALID, "at most %d agents",
                         NETWORK_AGENTS_MAX);
    for (size_t i = 0; i < options->agents && status == STATUS_OK; i++) {
        status = prepare_agent(network, options, i, err);
        network->agent_count = i + 1;
        if (status == STATUS_OK)
            status = network_agent_start(network, i, err);
    }
    return status;
}

enum status
network_start(struct network *network, const struct network_options *options,
              struct error *err)
{
    enum status status;

    *network = (struct network){0};
    status = make_folder(network, err);
    if (status != STATUS_OK)
        return status;
    status = start_on_free_ports(network, err);
    if (status == STATUS_OK)
        status = add_models(
            network, options->models == NULL ? default_models : options->models,
            err);
    if (status == STATUS_OK)
        status = start_agents(network, options, err);
    if (status == STATUS_OK)
        status = network_wait_ready(network, err);
    if (status != STATUS_OK)
        network_stop(network, true);
    return status;
}

void
network_stop(struct network *network, bool failed)
{
    if (failed) {
        process_print_tail(&network->coordinator);
        for (size_t i = 0; i < network->agent_count; i++)
            process_print_tail(&network->agents[i]);
    }
    for (size_t i = 0; i < network->agent_count; i++)
        network_agent_end(network, i, SIGTERM);
    network_coordinator_end(network, SIGTERM);
    process_guard_end(&network->guard);
}
