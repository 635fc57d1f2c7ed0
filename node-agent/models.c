/* models.c - reading model folders in a helper process. */
#include "node-agent/models.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <event2/event.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/field.h"
#include "common/json.h"
#include "common/log.h"
#include "common/mem.h"
#include "model/catalogue.h"
#include "model/directory.h"
#include "node-agent/digests.h"
#include "node-agent/process.h"

#include "common/banned.h"

enum {
    SCAN_MAX_BYTES = 1024 * 1024,
    CHILD_PATH_BYTES = CONFIG_PATH_BYTES + 260,
    /* Less says more about start-up than about the disk. */
    RATE_LEAST_BYTES = 64 * 1024 * 1024,
};

/* --- the scan itself --- */

static const struct field found_fields[] = {
    FIELD(struct model_found, path, FIELD_TEXT, .required = true),
    FIELD(struct model_found, digest, FIELD_TEXT, .required = true),
    FIELD(struct model_found, weight_bytes, FIELD_U64, .required = true),
    FIELD(struct model_found, kv_bytes_per_token, FIELD_U64, .required = true),
    FIELD(struct model_found, context, FIELD_U64, .required = true),
};

static const struct field trouble_fields[] = {
    FIELD(struct model_trouble, path, FIELD_TEXT, .required = true),
    FIELD(struct model_trouble, reason, FIELD_TEXT, .required = true),
};

static const struct field scan_fields[] = {
    FIELD_ROWS(struct models_scan, models, model_count, found_fields,
               .required = true),
    FIELD_ROWS(struct models_scan, troubles, trouble_count, trouble_fields,
               .required = true),
    FIELD(struct models_scan, read_bytes, FIELD_U64, .required = true),
    FIELD(struct models_scan, read_us, FIELD_U64, .required = true),
};

struct reading {
    struct models_scan *scan;
    struct digests *old;
    struct digests *new;
};

static void
add_trouble(struct models_scan *scan, const char *path, const char *reason)
{
    struct model_trouble *trouble = &scan->troubles[scan->trouble_count];

    if (scan->trouble_count == COUNT_OF(scan->troubles))
        return;
    snprintf(trouble->path, sizeof(trouble->path), "%s", path);
    snprintf(trouble->reason, sizeof(trouble->reason), "%s", reason);
    scan->trouble_count++;
}

/* The folder's digest, from the cache or by reading every byte. */
static enum status
digest_of(struct reading *reading, const char *path,
          char digest[static SHA256_HEX_BYTES], struct error *err)
{
    char fingerprint[SHA256_HEX_BYTES];
    struct span from = clock_monotonic();
    const char *known;
    uint64_t bytes;
    enum status status = digests_fingerprint(path, fingerprint, &bytes, err);

    if (status != STATUS_OK)
        return status;
    known = digests_find(reading->old, path, fingerprint);
    if (known != NULL) {
        snprintf(digest, SHA256_HEX_BYTES, "%s", known);
    } else {
        status = catalogue_digest(path, digest, err);
        if (status != STATUS_OK)
            return status;
        reading->scan->read_bytes += bytes;
        reading->scan->read_us +=
            (uint64_t)span_sub(clock_monotonic(), from).ns / 1000;
    }
    digests_add(reading->new, path, fingerprint, digest);
    return STATUS_OK;
}

static bool
is_known(const struct models_scan *scan, const char *digest)
{
    for (size_t i = 0; i < scan->model_count; i++)
        if (strcmp(scan->models[i].digest, digest) == 0)
            return true;
    return false;
}

static void
read_model(struct reading *reading, const char *path)
{
    struct models_scan *scan = reading->scan;
    struct model_directory dir = {0};
    struct model_found found = {0};
    struct error err = {0};

    if (model_directory_open(path, &dir, &err) != STATUS_OK) {
        add_trouble(scan, path, err.text);
        return;
    }
    snprintf(found.path, sizeof(found.path), "%s", path);
    found.weight_bytes = dir.weight_bytes;
    found.context = dir.config.context;
    found.kv_bytes_per_token =
        sizeof(float) * model_config_kv_elements(&dir.config);
    model_directory_close(&dir);
    if (digest_of(reading, path, found.digest, &err) != STATUS_OK)
        add_trouble(scan, path, err.text);
    else if (scan->model_count == COUNT_OF(scan->models))
        add_trouble(scan, path, "a node lends at most 64 models");
    else if (!is_known(scan, found.digest)) /* a copy adds nothing */
        scan->models[scan->model_count++] = found;
}

static bool
is_model_folder(const char *path)
{
    char config[CHILD_PATH_BYTES + 16];

    snprintf(config, sizeof(config), "%s/config.json", path);
    return access(config, F_OK) == 0;
}

static void
read_children(struct reading *reading, const char *path)
{
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, NULL, alphasort);
    char child[CHILD_PATH_BYTES];

    for (int i = 0; i < count; i++) {
        snprintf(child, sizeof(child), "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && is_model_folder(child)) {
            if (strlen(child) < CONFIG_PATH_BYTES)
                read_model(reading, child);
            else
                add_trouble(reading->scan, path, "a path in it is too long");
        }
        free(entries[i]);
    }
    free(entries);
}

static void
read_folder(struct reading *reading, const char *path)
{
    char text[128];
    struct stat info;

    if (stat(path, &info) != 0)
        add_trouble(reading->scan, path,
                    error_errno(errno, text, sizeof(text)));
    else if (is_model_folder(path))
        read_model(reading, path);
    else
        read_children(reading, path);
}

void
models_scan_folders(const struct agent_config *config, const char *digests_path,
                    struct models_scan *scan)
{
    struct reading reading = {.scan = scan,
                              .old = mem_alloc(sizeof(struct digests)),
                              .new = mem_alloc(sizeof(struct digests))};
    struct error err = {0};

    *scan = (struct models_scan){0};
    digests_read(digests_path, reading.old);
    for (size_t i = 0; i < config->model_count; i++)
        read_folder(&reading, config->models[i]);
    if (memcmp(reading.old, reading.new, sizeof(struct digests)) != 0 &&
        digests_write(digests_path, reading.new, &err) != STATUS_OK)
        add_trouble(scan, digests_path, err.text);
    free(reading.old);
    free(reading.new);
}

/* --- the helper --- */

struct models {
    struct event_base *base;
    const struct agent_config *config;
    char digests_path[HOME_FILE_BYTES];
    void (*on_change)(void *arg);
    void *arg;
    struct event *timer;
    struct event *readable; /* NULL: no scan under way */
    int fd;
    pid_t pid; /* 0: reaped */
    struct buf text;
    struct models_scan *latest;
    uint64_t best_bytes; /* of the largest reading */
    double best_rate;
};

static void
write_all(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t put = write(fd, bytes, size);

        if (put < 0 && errno != EINTR)
            return; /* the agent is gone */
        if (put > 0) {
            bytes += put;
            size -= (size_t)put;
        }
    }
}

/* In the helper: scan, and send the result as JSON. */
static void
help(void *arg, int write_fd)
{
    struct models *models = arg;
    struct models_scan *scan = mem_alloc(sizeof(*scan));
    struct json_out out;
    struct buf text;

    models_scan_folders(models->config, models->digests_path, scan);
    buf_init(&text, SCAN_MAX_BYTES);
    json_out_init(&out, &text);
    json_open_object(&out);
    field_encode(&out, scan_fields, COUNT_OF(scan_fields), scan);
    json_close_object(&out);
    if (!text.overflowed)
        write_all(write_fd, text.data, text.size);
    buf_clear(&text);
    free(scan);
}

static void
log_scan(const struct models_scan *scan)
{
    for (size_t i = 0; i < scan->model_count; i++)
        log_info("model.found", "path=%s digest=%.16s", scan->models[i].path,
                 scan->models[i].digest);
    for (size_t i = 0; i < scan->trouble_count; i++)
        log_warn("model.refused", "path=%s reason=%s", scan->troubles[i].path,
                 LOG_QUOTED(scan->troubles[i].reason));
}

static void
keep_rate(struct models *models, const struct models_scan *scan)
{
    if (scan->read_bytes < RATE_LEAST_BYTES || scan->read_us == 0 ||
        scan->read_bytes < models->best_bytes)
        return;
    models->best_bytes = scan->read_bytes;
    models->best_rate = (double)scan->read_bytes * 1e6 / (double)scan->read_us;
}

/* What it took to read is no part of what was found. */
static bool
is_same(const struct models_scan *a, const struct models_scan *b)
{
    return a->model_count == b->model_count &&
           a->trouble_count == b->trouble_count &&
           memcmp(a->models, b->models, sizeof(a->models)) == 0 &&
           memcmp(a->troubles, b->troubles, sizeof(a->troubles)) == 0;
}

static void
take_result(struct models *models)
{
    struct models_scan *scan = mem_alloc(sizeof(*scan));
    struct error err = {0};

    if (field_decode_text(models->text.data, models->text.size, scan_fields,
                          COUNT_OF(scan_fields), scan, sizeof(*scan),
                          &err) != STATUS_OK) {
        log_warn("models.scan", "reason=\"no result: %s\"", err.text);
        free(scan);
        return;
    }
    keep_rate(models, scan);
    if (is_same(models->latest, scan)) {
        free(scan);
        return;
    }
    free(models->latest);
    models->latest = scan;
    log_scan(scan);
    models->on_change(models->arg);
}

static void
stop_reading(struct models *models)
{
    if (models->readable == NULL)
        return;
    event_free(models->readable);
    models->readable = NULL;
    close(models->fd);
}

static void
on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct models *models = arg;
    char bytes[65536];
    ssize_t got = read(fd, bytes, sizeof(bytes));

    (void)what;
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got > 0) {
        buf_append(&models->text, bytes, (size_t)got);
        return;
    }
    stop_reading(models);
    take_result(models);
}

static void
start_scan(struct models *models)
{
    struct error err = {0};

    if (models->readable != NULL || models->pid != 0)
        return; /* the one before is not through yet */
    buf_reset(&models->text);
    if (process_help(help, models, &models->pid, &models->fd, &err) !=
        STATUS_OK) {
        log_warn("models.scan", "reason=%s", LOG_QUOTED(err.text));
        return;
    }
    models->readable = event_new(models->base, models->fd, EV_READ | EV_PERSIST,
                                 on_readable, models);
    event_add(models->readable, NULL);
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    start_scan(arg);
}

struct models *
models_new(struct event_base *base, const struct agent_config *config,
           const struct home *home, void (*on_change)(void *arg), void *arg)
{
    struct models *models = mem_alloc(sizeof(*models));

    models->base = base;
    models->config = config;
    home_file(home, "digests", models->digests_path);
    models->on_change = on_change;
    models->arg = arg;
    models->timer = event_new(base, -1, EV_PERSIST, on_timer, models);
    models->latest = mem_alloc(sizeof(*models->latest));
    buf_init(&models->text, SCAN_MAX_BYTES);
    return models;
}

void
models_free(struct models *models)
{
    char how[64];

    stop_reading(models);
    if (models->pid > 0) {
        kill(models->pid, SIGKILL);
        while (!process_has_ended(models->pid, how, sizeof(how)))
            usleep(1000);
    }
    event_free(models->timer);
    buf_clear(&models->text);
    free(models->latest);
    free(models);
}

void
models_start(struct models *models)
{
    struct timeval every = {.tv_sec = (time_t)models->config->rescan_s};

    start_scan(models);
    event_add(models->timer, &every);
}

void
models_reap(struct models *models)
{
    char how[64];

    if (models->pid > 0 && process_has_ended(models->pid, how, sizeof(how)))
        models->pid = 0;
}

const struct models_scan *
models_latest(const struct models *models)
{
    return models->latest;
}

const struct model_found *
models_find(const struct models *models, const char *digest)
{
    const struct models_scan *scan = models->latest;

    for (size_t i = 0; i < scan->model_count; i++)
        if (strcmp(scan->models[i].digest, digest) == 0)
            return &scan->models[i];
    return NULL;
}

bool
models_read_rate(const struct models *models, double *bytes_per_s)
{
    *bytes_per_s = models->best_rate;
    return models->best_bytes > 0;
}
