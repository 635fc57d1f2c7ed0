/* probe.h - what this machine is, with a reason for everything unknown.
 *
 * From the system itself, or from recorded outputs of a Mac that a test lets
 * this machine stand for (then the node is simulated).  Blocks; runs before the
 * loop does. */
#ifndef BERTH_NODE_AGENT_PROBE_H
#define BERTH_NODE_AGENT_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "common/error.h"
#include "common/wire.h"
#include "node-agent/home.h"

enum {
    PROBE_UNKNOWN_MAX = 32,
    PROBE_FIELD_BYTES = 48,
    PROBE_REASON_BYTES = 256,
};

struct probe_unknown {
    char field[PROBE_FIELD_BYTES];
    char reason[PROBE_REASON_BYTES];
};

struct probe {
    struct wire_facts facts;
    bool simulated;
    bool has_wired_limit_mb;
    uint64_t wired_limit_mb;     /* MiB; 0: the system's default */
    char working_set_source[16]; /* sysctl, table; "" when there is none */
    uint64_t working_set_bytes;
    bool has_free_percent;
    uint64_t free_percent;
    struct probe_unknown unknown[PROBE_UNKNOWN_MAX];
    size_t unknown_count;
};

/* Note why @field is null; the first reason stays. */
void probe_note(struct probe *probe, const char *field, const char *reason);

/* Read this machine.  The measured bandwidth is kept in home/probe; NULL @home
 * measures without keeping. @memory_cap is the owner's, 0 for none. */
void probe_host(const struct home *home, uint64_t memory_cap,
                struct probe *probe);
/* Read a folder of recorded outputs instead (profile.h). */
void probe_profile(const char *folder, uint64_t memory_cap,
                   struct probe *probe);

/* The fields of design.md 4.5 and a few more, one JSON object. */
void probe_write(const struct probe *probe, struct buf *out);
/* The reasons, a line each, on standard error. */
void probe_complain(const struct probe *probe);

#endif
