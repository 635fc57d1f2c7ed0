/* session.h - the writer's connection: its settings, its lock, its epoch.
 *
 * Private to ledger. Belongs to one thread at a time. */
#ifndef BERTH_LEDGER_SESSION_H
#define BERTH_LEDGER_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/error.h"
#include "ledger/db.h"

struct session {
    struct db *db; /* NULL while lost */
    char *conninfo;
    char instance[40]; /* application_name, so that we find our old backend */
    uint64_t epoch;
    void (*on_slow)(void *arg); /* the server lets us wait; may be NULL */
    void *slow_arg;
};

void session_init(struct session *session, const char *conninfo);
void session_clear(struct session *session);

/* Connect; close it after any error. */
MUST_CHECK enum status session_open(struct session *session, struct error *err);
void session_close(struct session *session);
/* The lock of the active coordinator, if it is free. */
MUST_CHECK enum status session_lock_try(struct session *session, bool *locked,
                                        struct error *err);
/* Begin a reign: raises the epoch. */
MUST_CHECK enum status session_reign(struct session *session,
                                     struct error *err);
/* Begin a transaction that only this reign may have. */
MUST_CHECK enum status session_begin(struct session *session,
                                     struct error *err);
/* Connect again and take the lock again, in the same reign.  A lost session may
 * live on at the server, lock in hand, until its TCP connection times out: it
 * is ended.  STATUS_DENIED when the epoch is over; closed after any error. */
MUST_CHECK enum status session_retake(struct session *session,
                                      struct error *err);

#endif
