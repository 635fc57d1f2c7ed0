/* serve.h - the engine's end of its socket: frames of common/wire in and out.
 *
 * Down: job.input, job.run, job.cancel.  Up: engine.ready once, then
 * job.started, job.tokens, job.done, job.fail, and engine.beat about once a
 * second while passes are made.  The socket is read between
 * forward passes, so that a cancel takes effect before the next one.  Writes
 * never block: when an agent reads too slowly, passes pause until it has
 * caught up.  One thread. */
#ifndef BERTH_INFERENCE_SERVE_H
#define BERTH_INFERENCE_SERVE_H

#include "common/attrs.h"
#include "common/error.h"
#include "inference/engine.h"

enum {
    SERVE_BACKLOG_BYTES = 1024 * 1024, /* unsent; passes pause above */
    SERVE_JOBS_MAX = ENGINE_WAITING_MAX,
    SERVE_TOKENS_MS = 20, /* ids of that time share a frame */
    SERVE_BEAT_MS = 1000,
    SERVE_AGENT_WAIT_S = 30,
};

/* Serve the agent at @fd (a connected stream socket; taken) until it closes.
 * STATUS_OK then; STATUS_INVALID when the peer does not speak the protocol;
 * STATUS_INTERNAL for a broken socket. */
MUST_CHECK enum status serve_connection(int fd, struct engine *engine,
                                        struct error *err);

/* Tell the agent at @fd (taken) why there is no engine. */
void serve_broken(int fd, const struct error *why);

/* Listen on the unix socket @path, mode 0600.  A socket file that nobody
 * listens on is replaced. */
MUST_CHECK enum status serve_listen(const char *path, int *listener,
                                    struct error *err);
/* Wait for the one agent, then close the listener (taken) and remove @path. */
MUST_CHECK enum status serve_accept(int listener, const char *path, int wait_s,
                                    int *fd, struct error *err);

#endif
