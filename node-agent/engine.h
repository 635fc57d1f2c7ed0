/* engine.h - one engine process: started, connected, watched, ended.
 *
 * What happens when is one table of {from, event, to, action}.  The memory an
 * engine may take and the jobs it gets are decided in engines.c.  Belongs to
 * the loop's thread. */
#ifndef BERTH_NODE_AGENT_ENGINE_H
#define BERTH_NODE_AGENT_ENGINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/buf.h"
#include "common/units.h"
#include "common/wire.h"
#include "node-agent/channel.h"
#include "node-agent/models.h"

struct event;
struct event_base;

enum {
    ENGINE_PATH_BYTES = 1024,
    ENGINE_REASON_BYTES = 400,
    ENGINE_LOG_MAX_BYTES = 1024 * 1024, /* then the file becomes .old */
    ENGINE_START_MAX_S = 600,           /* until engine.ready */
    ENGINE_END_MAX_MS = 2000,           /* SIGTERM to SIGKILL */
    ENGINE_REST_LEAST_MS = 250,
    ENGINE_REST_MOST_MS = 30000,
    ENGINE_STATUS_MAX_MS = 500, /* closed connection to exit status */
};

enum engine_state {
    ENGINE_OFF,      /* no process */
    ENGINE_WAITING,  /* a job wants it; memory is not there yet */
    ENGINE_STARTING, /* process runs, engine.ready has not come */
    ENGINE_READY,
    ENGINE_LOST,    /* failed; its process is not reaped yet */
    ENGINE_ENDING,  /* told to end; likewise */
    ENGINE_RESTING, /* failed; not started again before the back-off ends */
    ENGINE_STATE_COUNT
};

enum engine_event {
    ENGINE_WANTED,
    ENGINE_FITS,
    ENGINE_NO_MEMORY,
    ENGINE_IS_READY,
    ENGINE_FAILED,
    ENGINE_STOP,
    ENGINE_REAPED,
    ENGINE_RESTED,
    ENGINE_EVENT_COUNT
};

struct engine;

struct engine_hooks {
    /* After each change of state, before the new state's action. */
    void (*on_state)(void *arg, struct engine *engine);
    /* job.* from a ready engine. */
    void (*on_frame)(void *arg, struct engine *engine,
                     const struct wire_message *message, const uint8_t *frame,
                     size_t frame_size);
    void *arg;
};

struct engine_setup {
    struct event_base *base;   /* kept */
    const char *program;       /* kept */
    const char *socket_folder; /* kept; short */
    const char *log_folder;    /* kept */
    uint64_t threads;          /* 0: the engine's choice */
    uint64_t slots;
    struct engine_hooks hooks;
};

struct engine {
    const struct engine_setup *setup;
    unsigned number; /* names socket and log file */
    struct model_found model;
    enum engine_state state;
    uint64_t kv_bytes; /* given, then as engine.ready said */
    uint64_t kv_bytes_per_token;
    struct span last_used;
    struct span heard; /* its last frame, or when it got work */
    unsigned starts;
    unsigned failures;                /* in a row */
    char reason[ENGINE_REASON_BYTES]; /* of the last failure, "" */
    pid_t pid;                        /* 0: none */
    struct channel *channel;          /* NULL before the connection */
    struct event *timer;  /* connect polls, SIGKILL, back-off: one at a time */
    struct event *output; /* the process's standard output and error */
    struct span start_ends;
    int output_fd; /* -1: none */
    int log_fd;    /* -1: none */
    uint64_t log_bytes;
    struct buf last_line;
    bool line_ended; /* the next byte begins another */
    bool kill_at_once;
    bool is_stalled;    /* killed for its silence */
    bool is_closed;     /* the connection; how it ended is waited for */
    bool awaits_status; /* reason is to be replaced by the exit status */
    struct engine *next;
};

struct engine *engine_new(const struct engine_setup *setup, unsigned number,
                          const struct model_found *model);
/* Kills and reaps what still runs. */
void engine_free(struct engine *engine);

/* Take one event through the table; an event without an edge is ignored. */
void engine_step(struct engine *engine, enum engine_event event);
/* It misbehaves: kill it, for @reason. */
void engine_fail(struct engine *engine, const char *reason);
/* End it: SIGTERM first unless @at_once. */
void engine_stop(struct engine *engine, bool at_once);
/* A child ended: was it this one? */
void engine_reap(struct engine *engine);
/* It has done work: the back-off starts over. */
void engine_worked(struct engine *engine);
/* Does a process hold its memory? */
bool engine_holds_memory(const struct engine *engine);

const char *engine_state_name(enum engine_state state);
/* Where the table leads; false when there is no edge. */
bool engine_edge(enum engine_state from, enum engine_event event,
                 enum engine_state *to);
/* The table in Markdown, for docs/architecture.md. */
void engine_states_print(struct buf *out);

#endif
