/* job.h - a job inside the core, its states and one transition table.
 *
 * A job is prepared by an HTTP thread (or by the start from its row), handed
 * to the core and from then on touched by the core thread alone. */
#ifndef BERTH_COORDINATOR_JOB_H
#define BERTH_COORDINATOR_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/cert.h"
#include "common/error.h"
#include "common/sampling.h"
#include "common/units.h"
#include "coordinator/record.h"
#include "coordinator/snapshot.h"
#include "ledger/price.h"
#include "model/output.h"
#include "placement/placement.h"

enum {
    JOB_FAILURES_MAX = 8,  /* attempts that failed, before it is given up */
    JOB_ATTEMPTS_MAX = 32, /* of any kind: owners come and go */
    JOB_REASON_BYTES = 32,
};

enum job_state {
    JOB_ADMITTING, /* hold and row are being written */
    JOB_QUEUED,    /* waits for a target */
    JOB_ADRIFT,    /* of an earlier reign: its node may still run it */
    JOB_STARTING,  /* the attempt is being written */
    JOB_RUNNING,   /* dispatched */
    JOB_ENDING,    /* its end is being written */
    JOB_ENDED,
    JOB_STATE_COUNT
};

enum job_event {
    JOB_HELD,      /* hold and row are committed */
    JOB_REFUSED,   /* they are not */
    JOB_PLACED,    /* a round found a target */
    JOB_COMMITTED, /* the attempt's row is committed (and hold and row) */
    JOB_UNWRITTEN, /* it could not be */
    JOB_FULL,      /* the record says that the output is complete */
    JOB_LOST,      /* the attempt ended early */
    JOB_CLAIMED,   /* a node that was away still holds the latest attempt */
    JOB_POISONED,  /* engines of two nodes crashed under it */
    JOB_CANCEL,    /* the submitter left or asked */
    JOB_EXPIRED,   /* patience is over */
    JOB_GIVEN_UP,  /* no further attempt is worth it */
    JOB_WRITTEN,   /* the end is committed */
    JOB_EVENT_COUNT
};

struct job_attempt {
    uint32_t number;
    char node[UUID_TEXT_BYTES];
    int64_t account; /* the node's maturing account */
    uint64_t weight;
    uint64_t done;                     /* ids of the answer it was given */
    uint64_t ids;                      /* delivered by it */
    char end_reason[JOB_REASON_BYTES]; /* "" while it runs */
    double predicted_ttft_ms, predicted_tok_s;
    bool unreachable; /* lost with its link: the node may come back with it */
    struct span dispatched;
    bool observed;
    double observed_ttft_ms, observed_tok_s; /* rate 0: one id at most */
};

struct job {
    /* set by whoever prepares it */
    char id[UUID_TEXT_BYTES];
    bool chat; /* else completion */
    bool outlives;
    int64_t account;
    int64_t wallet;
    char key[UUID_TEXT_BYTES];
    struct model *model; /* a reference */
    uint32_t *prompt;    /* heap */
    size_t prompt_count;
    struct output_rules rules;
    char *tools;  /* heap: what rules.tools points to */
    char *prefix; /* and rules.prefix */
    struct sampling sampling;
    uint32_t capabilities; /* needed */
    char pool[POOL_BYTES];
    struct span patience;
    char idempotency_key[256]; /* "" when none */
    char content_day[16];      /* "2026-11-30", "" when nothing is stored */
    struct buf request;        /* sealed, empty when not stored */
    struct price_revision revision;
    struct credits hold;
    struct record *record; /* a reference */
    bool adopted;          /* from the database: its hold and row are there */
    bool adrift;           /* adopted, and its latest attempt has no end */
    struct instant created;
    /* Told once, on the core thread, whether the hold is committed; NULL: the
     * record tells.  @err is NULL on success. */
    void (*on_admitted)(void *arg, const struct error *err);
    void *arg;

    /* the core's */
    enum job_state state;
    struct job_attempt attempts[JOB_ATTEMPTS_MAX];
    size_t attempt_count;
    struct node *node; /* target of the current attempt while it counts there */
    uint64_t need_bytes; /* there, as placement reckoned */
    bool beside;         /* without the weights: another job held them */
    bool cancelled;
    char cancel_reason[JOB_REASON_BYTES];
    struct span deadline; /* of whatever it waits for: monotonic */
    bool answered;        /* its record has ended before it has */
    struct error error;   /* why it ended, when it failed */
    bool failed;
    char failed_nodes[JOB_ATTEMPTS_MAX][UUID_TEXT_BYTES];
    size_t failed_node_count;
    size_t failure_count; /* of these, not asked for by an owner */
    struct span forgive;  /* from then on a node that failed may try again */
    char crashed_node[UUID_TEXT_BYTES]; /* the last whose engine died under it,
                                         * "" when none did */
    struct span suspect_until;          /* it runs alone until then */
    uint64_t ack_link; /* waits to be told that the attempt's end is written */
    uint32_t ack_attempt;
    struct price price; /* of the settlement */
    bool settled;
    bool abandoned; /* its end could not be written: released instead */
    /* Told when the end is written; asked for by a cancel. */
    void (*on_ended)(void *arg, enum status status);
    void *ended_arg;
    struct job *next; /* of the queue */
};

/* Empty, with a fresh id; on_admitted NULL. */
struct job *job_new(void);
void job_free(struct job *job);
/* The seed of a job whose client sent none: drawn once with the job's random
 * id, so that whoever takes the job up again has the same one.  Below 2^63. */
uint64_t job_drawn_seed(const char *id);

struct core;
/* One row of the transition table. */
struct job_transition {
    enum job_state from;
    enum job_event event;
    enum job_state to;
    void (*action)(struct core *core, struct job *job);
    const char *meaning;
};
const char *job_state_name(enum job_state state);
const char *job_event_name(enum job_event event);

#endif
