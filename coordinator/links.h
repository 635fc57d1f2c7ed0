/* links.h - the agent listener: one libevent thread that owns every agent
 * connection and watches the sockets of suspended /v1 clients.
 *
 * Token frames go straight to the job's record; everything else goes to the
 * core as a command.  When a client's socket closes, job.cancel leaves in the
 * same turn of the loop.  All functions are thread-safe and never block on a
 * socket; frames of one link keep their order. */
#ifndef BERTH_COORDINATOR_LINKS_H
#define BERTH_COORDINATOR_LINKS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "common/error.h"
#include "common/wire.h"
#include "coordinator/record.h"

struct core;
struct links;

struct links_options {
    const char *address;
    uint16_t port;              /* 0: any free one */
    const char *ca_certificate; /* PEM texts */
    const char *certificate;
    const char *key;
    uint64_t epoch;
    uint32_t silence_s; /* a link without a frame for so long is closed */
};

/* Listen and start the thread. @core is kept; its commands are posted. */
MUST_CHECK enum status links_open(const struct links_options *options,
                                  struct core *core, struct links **links,
                                  struct error *err);
/* Close every link and stop the thread. */
void links_close(struct links *links);
uint16_t links_port(const struct links *links);

/* Queue frames (made by wire_encode) to a link; unknown links are ignored. */
void links_send(struct links *links, uint64_t link, const struct buf *frames);
/* Close one link after what was queued is written. */
void links_end(struct links *links, uint64_t link, const char *reason);

/* From now on token frames of @job and @attempt on @link feed @record (a
 * reference is kept), and @frames start the job there: one step, so that a
 * cancel can never overtake the run. */
void links_dispatch(struct links *links, uint64_t link, const char *job,
                    uint32_t attempt, struct record *record,
                    const struct buf *frames);
/* Send job.cancel for a dispatched job, once. */
void links_cancel(struct links *links, const char *job, const char *reason);
/* Forget a dispatched job. */
void links_forget(struct links *links, const char *job);

/* Watch a client's socket (a dup of @fd is taken) on behalf of @job: on the
 * peer's close or half-close the job is cancelled. */
MUST_CHECK enum status links_watch(struct links *links, int fd, const char *job,
                                   struct error *err);
void links_unwatch(struct links *links, const char *job);

#endif
