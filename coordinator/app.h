/* app.h - everything a handler may reach, and the order of start and stop. */
#ifndef BERTH_COORDINATOR_APP_H
#define BERTH_COORDINATOR_APP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/error.h"
#include "coordinator/config.h"
#include "coordinator/snapshot.h"
#include "ledger/db.h"
#include "ledger/price.h"
#include "ledger/writer.h"

struct app {
    struct config config;
    struct snapshots *snapshots;
    struct db_pool *readers;
    struct writer *writer;
    struct core *core;
    struct links *links;
    struct http *http;
    struct content *content;
    uint64_t epoch;
    struct price_revision revision; /* in force */
    char *ca_certificate;           /* PEM texts, owned */
    char *ca_key;
    char *certificate;
    char *certificate_key;
    _Atomic int64_t next_account;
    _Atomic bool reachable; /* the database answers */
    _Atomic bool leading;   /* this coordinator is the active one */
};

/* Fill in what the configuration names, open the database, load, start every
 * thread.  Returns when HTTPS is served.  *stop is watched while waiting to
 * become the active coordinator. */
MUST_CHECK enum status app_start(struct app *app, const volatile int *stop,
                                 struct error *err);
/* Orderly stop, in reverse. Safe after a failed start. */
void app_stop(struct app *app);
/* A key with all scopes, a funded wallet and the account "admin" for --dev,
 * made when @key is empty or unknown; @key (at least 80 bytes) holds it after.
 */
MUST_CHECK enum status app_dev_key(struct app *app, char *key, size_t key_size,
                                   struct error *err);
/* The key of a network that has none yet: account "admin", all scopes, no
 * credits; @key is "" when there are keys. */
MUST_CHECK enum status app_first_key(struct app *app, char *key,
                                     size_t key_size, struct error *err);

#endif
