/* prepare.h - from an OpenAI request to a job, or to the exact reason why not.
 *
 * Pure decisions over the published views: nothing is sent or stored.  Fields
 * that would change the answer and cannot be honoured are refused by name;
 * others are ignored.  Safe from any thread. */
#ifndef BERTH_COORDINATOR_PREPARE_H
#define BERTH_COORDINATOR_PREPARE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/error.h"
#include "common/json.h"
#include "coordinator/app.h"
#include "coordinator/job.h"

/* Values of the X-Berth-* headers, NULL when absent. They win over the berth
 * object. */
struct prepare_headers {
    const char *pool;
    const char *class;
    const char *deadline_ms;
    const char *patience_ms;
    const char *private;
};

struct prepare {
    struct app *app; /* its snapshots, config and revision are read */
    int64_t account;
    int64_t wallet;
    const char *key;          /* id */
    const char *job;          /* the id it has already; NULL: a new one */
    bool chat;                /* else completion */
    const struct json *body;  /* OpenAI's */
    const struct json *berth; /* Berth's options, NULL when none */
    struct prepare_headers headers;
};

struct prepared {
    struct job *job; /* owned; with its record */
    bool stream;
    bool include_usage;
};

/* STATUS_INVALID with the field in err->param; STATUS_NOT_FOUND with code
 * model_not_found. */
MUST_CHECK enum status prepare_job(const struct prepare *from,
                                   struct prepared *prepared,
                                   struct error *err);

#endif
