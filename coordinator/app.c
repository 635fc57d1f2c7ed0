/* app.c - start and stop, in order. */
#include "coordinator/app.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "common/clock.h"
#include "common/fault.h"
#include "common/log.h"
#include "common/mem.h"
#include "coordinator/admin.h"
#include "coordinator/adopt.h"
#include "coordinator/api_key.h"
#include "coordinator/content.h"
#include "coordinator/core.h"
#include "coordinator/http.h"
#include "coordinator/inventory.h"
#include "coordinator/links.h"
#include "coordinator/store_fleet.h"
#include "coordinator/wait.h"
#include "ledger/ledger.h"
#include "ledger/migrate.h"

#include "common/banned.h"

enum {
    SILENCE_BEATS = 3,
    /* A connection, and the watch on it while its job runs. */
    CONNECTION_DESCRIPTORS = 2,
    /* Agents, log, listeners, pipes, files that are open for a moment. */
    OTHER_DESCRIPTORS = 256,
    STOP_JOBS_MS = 5000,
    STOP_WRITER_MS = 5000,
    DATABASE_RETRY_MS = 500,
    DEV_WALLET_CREDITS = 1000,
};

static enum status
pem_read(const char *path, char **text, struct error *err)
{
    struct buf pem;
    enum status status;

    buf_init(&pem, CERT_PEM_MAX_BYTES);
    status = buf_read_file(&pem, path, err);
    if (status == STATUS_OK)
        *text = buf_take(&pem, NULL);
    buf_clear(&pem);
    return status;
}

static enum status
pems_read(struct app *app, struct error *err)
{
    const struct config *config = &app->config;
    enum status status =
        pem_read(config->ca_certificate, &app->ca_certificate, err);

    if (status == STATUS_OK)
        status = pem_read(config->ca_key, &app->ca_key, err);
    if (status == STATUS_OK)
        status = pem_read(config->certificate, &app->certificate, err);
    if (status == STATUS_OK)
        status = pem_read(config->certificate_key, &app->certificate_key, err);
    return status;
}

static void
pause_ms(long ms)
{
    struct timespec pause = {.tv_nsec = ms * 1000000};

    nanosleep(&pause, NULL);
}

/* Waits for a database that is still starting. */
static enum status
schema_update(struct app *app, const volatile int *stop, struct error *err)
{
    struct db *db = NULL;
    size_t applied = 0;
    enum status status = db_open(app->config.database, &db, err);

    while (status == STATUS_RETRY && !*stop) {
        log_warn("database.unreachable", "detail=\"%s\"", err->text);
        pause_ms(DATABASE_RETRY_MS);
        status = db_open(app->config.database, &db, err);
    }
    if (status == STATUS_OK)
        status = migrate(db, &applied, err);
    FAULT_STEP("app.migrated");
    if (status == STATUS_OK)
        log_info("database.ready", "migrations_applied=%zu", applied);
    db_close(db);
    return status;
}

static void
on_fenced(void *arg)
{
    struct app *app = arg;

    atomic_store(&app->leading, false);
    log_error("coordinator.fenced",
              "epoch=%" PRIu64 " detail=\"another coordinator is active on "
              "this database: this one stops\"",
              app->epoch);
    /* Whatever this process still holds belongs to the other one now. */
    _Exit(1);
}

static void
on_reachable(void *arg, int reachable)
{
    struct app *app = arg;

    if (atomic_exchange(&app->reachable, reachable != 0) == (reachable != 0))
        return;
    if (reachable)
        log_info("database.back", "epoch=%" PRIu64, app->epoch);
    else
        log_error("database.lost", "epoch=%" PRIu64, app->epoch);
}

static enum status
database_open(struct app *app, const volatile int *stop, struct error *err)
{
    struct writer_events events = {
        .on_fenced = on_fenced,
        .on_reachable = on_reachable,
        .arg = app,
    };
    enum status status = schema_update(app, stop, err);

    if (status == STATUS_OK)
        status = writer_open(app->config.database, &events, stop, &app->writer,
                             &app->epoch, err);
    if (status == STATUS_OK)
        status = db_pool_open(app->config.database,
                              (size_t)app->config.reader_connections,
                              &app->readers, err);
    if (status == STATUS_OK) {
        atomic_store(&app->reachable, true);
        log_info("coordinator.leading", "epoch=%" PRIu64, app->epoch);
    }
    return status;
}

/* The rows into the core's inventory, and the jobs of the reign before. */
static enum status
state_load(struct app *app, struct error *err)
{
    struct inventory *inventory = core_inventory(app->core);
    struct db *db = NULL;
    int64_t next = 1;
    enum status status = db_lease(app->readers, &db, err);

    if (status == STATUS_OK)
        status = store_load(db, inventory, err);
    if (status == STATUS_OK) {
        inventory_publish(inventory); /* adoption reads the views */
        status = adopt_jobs(app, db, err);
    }
    if (db != NULL)
        db_return(app->readers, db);
    for (size_t i = 0; i < inventory->account_count; i++)
        if (inventory->accounts[i].id >= next)
            next = inventory->accounts[i].id + 1;
    atomic_store(&app->next_account, next);
    return status;
}

static enum status
links_start(struct app *app, struct error *err)
{
    struct links_options options = {
        .address = app->config.link_address,
        .port = (uint16_t)app->config.link_port,
        .ca_certificate = app->ca_certificate,
        .certificate = app->certificate,
        .key = app->certificate_key,
        .epoch = app->epoch,
        .silence_s = (uint32_t)app->config.beat_s * SILENCE_BEATS,
    };

    return links_open(&options, app->core, &app->links, err);
}

/* Take the descriptors that the connections may need; a limit that is met while
 * serving would fail whoever comes next, agents too. */
static enum status
descriptors_take(const struct config *config, struct error *err)
{
    rlim_t needed =
        (rlim_t)(config->http_connections_max * CONNECTION_DESCRIPTORS +
                 config->reader_connections + OTHER_DESCRIPTORS);
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed)
        return STATUS_OK;
    if (limit.rlim_max < needed)
        return error_set(err, STATUS_INVALID,
                         "http_connections_max %" PRIu64 " needs %" PRIu64
                         " file descriptors and %" PRIu64
                         " are allowed: lower it, or raise the limit (ulimit "
                         "-Hn)",
                         config->http_connections_max, (uint64_t)needed,
                         (uint64_t)limit.rlim_max);
    limit.rlim_cur = needed;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return error_set(err, STATUS_INVALID,
                         "http_connections_max %" PRIu64 " needs %" PRIu64
                         " file descriptors, which this system refuses",
                         config->http_connections_max, (uint64_t)needed);
    return STATUS_OK;
}

enum status
app_start(struct app *app, const volatile int *stop, struct error *err)
{
    enum status status = descriptors_take(&app->config, err);

    if (status == STATUS_OK)
        status = pems_read(app, err);
    app->revision = price_revision_1;
    app->snapshots = snapshots_new();
    if (status == STATUS_OK)
        status = content_open(app->config.content_keys, app->config.retention_s,
                              &app->content, err);
    if (status == STATUS_OK)
        status = database_open(app, stop, err);
    if (status != STATUS_OK)
        return status;
    FAULT_STEP("app.reigns");
    status = core_new(app, &app->core, err);
    if (status == STATUS_OK)
        status = state_load(app, err);
    FAULT_STEP("app.loaded");
    if (status == STATUS_OK)
        status = links_start(app, err);
    if (status != STATUS_OK)
        return status;
    FAULT_STEP("app.listens");
    atomic_store(&app->leading, true);
    status = core_start(app->core, err);
    FAULT_STEP("app.leads");
    if (status == STATUS_OK)
        status = http_open(app, &app->http, err);
    if (status == STATUS_OK)
        core_serve(app->core, app->http);
    return status;
}

void
app_stop(struct app *app)
{
    /* What a start that failed had to write, the next start writes. */
    int writer_ms = atomic_exchange(&app->leading, false) ? STOP_WRITER_MS : 0;

    if (app->http != NULL)
        http_quiesce(app->http);
    if (app->core != NULL)
        core_stop(app->core, STOP_JOBS_MS);
    http_close(app->http);
    links_close(app->links);
    writer_close(app->writer, writer_ms);
    core_free(app->core);
    db_pool_close(app->readers);
    content_close(app->content);
    snapshots_free(app->snapshots);
    free(app->ca_certificate);
    free(app->ca_key);
    free(app->certificate);
    free(app->certificate_key);
}

/* --- the admin key of --dev --- */

static bool
key_is_good(struct app *app, const char *key)
{
    uint8_t digest[SHA256_BYTES];
    const struct identity_view *view;
    const struct key_view *found;
    bool good;

    if (key[0] == '\0')
        return false;
    cert_sha256(key, strlen(key), digest);
    view = identity_take(app->snapshots);
    found = identity_key(view, digest);
    good = found != NULL && !found->revoked;
    identity_drop(view);
    return good;
}

static enum status
admin_account(struct app *app, struct account_view *account, struct error *err)
{
    const struct identity_view *view = identity_take(app->snapshots);
    const struct account_view *found = identity_account_named(view, "admin");
    struct answer_wait wait;

    if (found != NULL)
        *account = *found;
    identity_drop(view);
    if (account->id != 0)
        return STATUS_OK;
    snprintf(account->name, sizeof(account->name), "admin");
    answer_wait_init(&wait);
    admin_account_add(app, account, answer_wait_done, &wait);
    return answer_wait_take(&wait, err);
}

/* Always the same, so that the wallet is funded once, however often the start
 * before it was cut short. */
static const char dev_grant_id[] = "00000000-0000-8000-8000-000000000001";

static enum status
wallet_fund(struct app *app, int64_t wallet, struct error *err)
{
    struct credits amount = {.micro = (int64_t)DEV_WALLET_CREDITS * 1000000};
    struct answer_wait wait;

    answer_wait_init(&wait);
    admin_grant(app, dev_grant_id, wallet, amount, answer_wait_done, &wait);
    return answer_wait_take(&wait, err);
}

static enum status
admin_key_make(struct app *app, const char *name, struct account_view *account,
               char *secret, size_t secret_size, struct error *err)
{
    struct answer_wait wait;
    struct key_view key;
    enum status status = admin_account(app, account, err);

    assert(secret_size >= API_KEY_SECRET_BYTES);
    if (status != STATUS_OK)
        return status;
    api_key_make(account->id, name,
                 SCOPE_SUBMITTER | SCOPE_OWNER | SCOPE_OPERATOR, &key, secret);
    answer_wait_init(&wait);
    admin_key_add(app, &key, answer_wait_done, &wait);
    return answer_wait_take(&wait, err);
}

enum status
app_dev_key(struct app *app, char *secret, size_t secret_size,
            struct error *err)
{
    struct account_view account = {.id = 0};
    enum status status;

    if (key_is_good(app, secret))
        return STATUS_OK;
    status = admin_key_make(app, "dev", &account, secret, secret_size, err);
    if (status == STATUS_OK)
        status = wallet_fund(app, account.wallet, err);
    return status;
}

enum status
app_first_key(struct app *app, char *secret, size_t secret_size,
              struct error *err)
{
    const struct identity_view *view = identity_take(app->snapshots);
    struct account_view account = {.id = 0};
    bool empty = view->key_count == 0;

    identity_drop(view);
    secret[0] = '\0';
    return empty ? admin_key_make(app, "first", &account, secret, secret_size,
                                  err)
                 : STATUS_OK;
}
