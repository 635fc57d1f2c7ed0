/* wire.h - every message of the link between coordinator and agent, and of the
 * socket between agent and engine, both directions, from one table.
 *
 * A frame is a 4-byte big-endian size and a JSON object with the member "t";
 * at most WIRE_FRAME_MAX_BYTES.  docs/link-protocol.md is checked against the
 * table.  Every frame that starts or cancels work carries the coordinator's
 * epoch; receivers refuse a lower one than they have seen.  Absent knowledge
 * is null (has_x false).  Sizes are bytes, times microseconds of a monotonic
 * clock, rates decimal GB/s.  Pure; safe from any thread. */
#ifndef BERTH_COMMON_WIRE_H
#define BERTH_COMMON_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "common/cert.h"
#include "common/error.h"
#include "common/sampling.h"

enum {
    WIRE_VERSION = 1,
    WIRE_FRAME_MAX_BYTES = 256 * 1024,
    WIRE_HEAD_BYTES = 4,
    WIRE_IDS_MAX = 8192, /* per frame: 64 KiB of ids below 10,000,000 */
    WIRE_MODELS_MAX = 64,
    WIRE_CAPABILITIES_MAX = 16,
    WIRE_STOPS_MAX = 16,
    WIRE_STOP_BYTES = 512,
    WIRE_REASONS_MAX = 16,
    WIRE_NAME_BYTES = 128,
    WIRE_TEXT_BYTES = 400,
    WIRE_HELD_MAX = 64, /* attempts per job.held; more make several frames */
};

enum wire_type {
    /* agent to coordinator (a beat is answered by a beat) */
    WIRE_HELLO,
    WIRE_BEAT,
    WIRE_STATE,
    WIRE_MODELS,
    WIRE_RENEW,
    WIRE_JOB_HELD,
    /* coordinator to agent */
    WIRE_WELCOME,
    WIRE_REFUSE,
    WIRE_CATALOGUE,
    WIRE_DRAIN,
    WIRE_RENEWED,
    WIRE_JOB_ACK,
    WIRE_JOB_RESUME,
    /* both hops down: coordinator to agent to engine */
    WIRE_JOB_INPUT,
    WIRE_JOB_RUN,
    WIRE_JOB_CANCEL,
    /* both hops up: engine to agent to coordinator */
    WIRE_JOB_STARTED,
    WIRE_JOB_TOKENS,
    WIRE_JOB_DONE,
    WIRE_JOB_FAIL,
    /* engine to agent */
    WIRE_ENGINE_READY,
    WIRE_ENGINE_BROKEN,
    WIRE_ENGINE_BEAT,
    WIRE_TYPE_COUNT
};

/* What a machine is, as its agent found it. */
struct wire_facts {
    char os[16]; /* "macos" or "linux" */
    char chip[WIRE_NAME_BYTES];
    bool has_model_identifier;
    char model_identifier[32];
    bool has_macos_version;
    char macos_version[32];
    bool has_macos_build;
    char macos_build[32];
    bool has_cores;
    uint64_t cores; /* of the CPU */
    bool has_gpu_cores;
    uint64_t gpu_cores;
    bool has_memory_bytes;
    uint64_t memory_bytes; /* installed */
    bool has_limit_bytes;
    uint64_t limit_bytes;  /* working-set limit after the owner's cap */
    char limit_source[16]; /* "sysctl", "table", "config", "memory" */
    bool has_bandwidth_gb_s;
    double bandwidth_gb_s; /* memory, as measured or from the chip table */
    bool bandwidth_measured;
    bool has_prefill_tflop_s;
    double prefill_tflop_s; /* measured rate of the backend */
    bool has_read_gb_s;
    double read_gb_s; /* model files from disk */
};

/* A model directory on the node's disk. */
struct wire_model {
    char digest[SHA256_HEX_BYTES]; /* of the catalogue entry it matches */
    uint64_t bytes;
    bool loaded;
    uint64_t kv_bytes; /* budget of the loaded engine */
};

struct wire_reason {
    char code[WIRE_NAME_BYTES];
    char text[WIRE_TEXT_BYTES];
    char step[WIRE_TEXT_BYTES]; /* what mends it, "" when nothing */
};

struct wire_engine {
    char backend[16]; /* "cpu" or "mlx" */
    char version[32];
    uint32_t slots; /* jobs run at once */
    char capabilities[WIRE_CAPABILITIES_MAX][24];
    size_t capability_count;
};

struct wire_hello {
    uint32_t version;
    char node[UUID_TEXT_BYTES];
    char agent[32]; /* program version */
    uint64_t epoch; /* highest seen */
    bool simulated;
    char state[16]; /* lending, busy, paused, draining */
    struct wire_facts facts;
    struct wire_engine engine;
    struct wire_model models[WIRE_MODELS_MAX];
    size_t model_count;
    struct wire_reason reasons[WIRE_REASONS_MAX];
    size_t reason_count;
};

struct wire_beat {
    bool has_free_bytes;
    uint64_t free_bytes; /* memory a load could take now */
};

struct wire_state {
    char state[16];
    struct wire_reason reasons[WIRE_REASONS_MAX];
    size_t reason_count;
};

struct wire_models {
    struct wire_model models[WIRE_MODELS_MAX];
    size_t model_count;
};

struct wire_renew {
    char request[CERT_PEM_MAX_BYTES]; /* signing request, PEM */
};

/* One attempt that an agent holds: it runs, or its end is not acknowledged. */
struct wire_held {
    char job[UUID_TEXT_BYTES];
    uint32_t attempt;
    bool ended;    /* a job.done or job.fail waits to be sent again */
    uint64_t done; /* ids that came with its input */
    uint64_t ids;  /* ids it has of the whole answer, those included */
};

/* After each welcome: every attempt held, in one or more frames; empty when
 * there is none.  Nothing of them goes up before its job.resume. */
struct wire_job_held {
    bool more; /* another frame follows */
    struct wire_held attempts[WIRE_HELD_MAX];
    size_t attempt_count;
};

struct wire_welcome {
    uint32_t version;
    uint64_t epoch;
    char name[WIRE_NAME_BYTES]; /* of the node */
    uint32_t beat_s;
    bool dev;
};

struct wire_refuse {
    char code[WIRE_NAME_BYTES];
    char text[WIRE_TEXT_BYTES]; /* printed by the agent */
};

struct wire_catalogue_entry {
    char id[WIRE_NAME_BYTES];
    char digest[SHA256_HEX_BYTES];
};

/* The digests the network knows; sent after welcome and on each change. */
struct wire_catalogue {
    bool more; /* another part follows */
    struct wire_catalogue_entry entries[WIRE_MODELS_MAX];
    size_t entry_count;
};

struct wire_drain {
    uint64_t epoch;
    bool on; /* false: resume */
};

struct wire_renewed {
    char certificate[CERT_PEM_MAX_BYTES];
};

struct wire_job_ack {
    char job[UUID_TEXT_BYTES];
    uint32_t attempt;
};

/* Answer to a held attempt that still counts: its ids from index @from on are
 * sent again, then what follows.  One that does not count is answered by
 * job.cancel when it runs and by job.ack when it has ended. */
struct wire_job_resume {
    char job[UUID_TEXT_BYTES];
    uint32_t attempt;
    uint64_t epoch;
    uint64_t from;
};

/* Ids of a job, in order, before its job.run. */
struct wire_job_input {
    char job[UUID_TEXT_BYTES];
    uint32_t attempt;
    uint64_t epoch;
    bool done; /* false: prompt ids, true: ids already delivered */
    uint32_t choice;
    uint32_t ids[WIRE_IDS_MAX];
    size_t id_count;
};

struct wire_job_run {
    char job[UUID_TEXT_BYTES];
    uint32_t attempt;
    uint64_t epoch;
    char model[WIRE_NAME_BYTES]; /* catalogue id */
    char digest[SHA256_HEX_BYTES];
    uint64_t prompt_count; /* ids sent by job.input; checked */
    uint64_t done_count;   /* likewise */
    uint64_t max_tokens;   /* of all attempts together */
    uint64_t kv_tokens;    /* positions to reserve: prompt + max_tokens */
    struct sampling sampling;
    char stop[WIRE_STOPS_MAX][WIRE_STOP_BYTES];
    size_t stop_count;
};

struct wire_job_cancel {
    char job[UUID_TEXT_BYTES];
    uint32_t attempt;
    uint64_t epoch;
    char reason[32];
};

/* The engine has begun: sent once, before the first pass. */
struct wire_job_started {
    char job[UUID_TEXT_BYTES];
    uint32_t attempt;
};

struct wire_job_tokens {
    char job[UUID_TEXT_BYTES];
    uint32_t attempt;
    uint32_t choice;
    uint64_t first; /* index of ids[0] among all ids of the choice */
    uint32_t ids[WIRE_IDS_MAX];
    size_t id_count;
};

struct wire_job_done {
    char job[UUID_TEXT_BYTES];
    uint32_t attempt;
    char reason[16]; /* stop (end token or stop string), length */
    uint64_t ids;    /* made by this attempt, an end token included */
    uint64_t prefill_us;
    uint64_t decode_us;
    uint64_t passes; /* forward passes started for the job */
};

struct wire_job_fail {
    char job[UUID_TEXT_BYTES];
    uint32_t attempt;
    char code[32]; /* cancelled, engine_lost, no_memory, stale_epoch, ... */
    char text[WIRE_TEXT_BYTES];
    uint64_t ids;
    uint64_t passes;              /* forward passes started for the job */
    uint64_t passes_after_cancel; /* started after the cancel was read */
};

struct wire_engine_ready {
    char backend[16];
    char version[32];
    uint32_t slots;
    char capabilities[WIRE_CAPABILITIES_MAX][24];
    size_t capability_count;
    uint64_t context_max;
    uint64_t kv_bytes_per_token;
    uint64_t kv_bytes; /* budget */
    uint64_t weight_bytes;
};

struct wire_engine_broken {
    char code[32];
    char text[WIRE_TEXT_BYTES];
};

/* Sign of progress: about once a second while the engine has jobs, from the
 * thread that makes the passes. */
struct wire_engine_beat {
    uint64_t passes; /* forward passes since the start */
};

/* A decoded message; about 300 KiB at most, so keep it off the stack. */
struct wire_message {
    enum wire_type type;
    union {
        struct wire_hello hello;
        struct wire_beat beat;
        struct wire_state state;
        struct wire_models models;
        struct wire_renew renew;
        struct wire_job_held job_held;
        struct wire_welcome welcome;
        struct wire_refuse refuse;
        struct wire_catalogue catalogue;
        struct wire_drain drain;
        struct wire_renewed renewed;
        struct wire_job_ack job_ack;
        struct wire_job_resume job_resume;
        struct wire_job_input job_input;
        struct wire_job_run job_run;
        struct wire_job_cancel job_cancel;
        struct wire_job_started job_started;
        struct wire_job_tokens job_tokens;
        struct wire_job_done job_done;
        struct wire_job_fail job_fail;
        struct wire_engine_ready engine_ready;
        struct wire_engine_broken engine_broken;
        struct wire_engine_beat engine_beat;
    };
};

/* "job.tokens" and so on. */
const char *wire_type_name(enum wire_type type);

/* Append one whole frame, head included.  @body is the struct of @type. */
MUST_CHECK enum status wire_encode(enum wire_type type, const void *body,
                                   struct buf *out, struct error *err);

/* Decode the JSON of one frame (without its head).  STATUS_NOT_FOUND for an
 * unknown type (ignore and count it), STATUS_INVALID with the path else. */
MUST_CHECK enum status wire_decode(const char *text, size_t size,
                                   struct wire_message *message,
                                   struct error *err);

/* The size in a frame's head. */
size_t wire_head_size(const uint8_t head[static WIRE_HEAD_BYTES]);

/* The whole table as Markdown rows, for docs/link-protocol.md. */
void wire_print(struct buf *out);

#endif
