/* host.h - what only the operating system can say; host_linux.c and
 * host_darwin.c implement it.  Readings that cannot be had are absent, never
 * guessed.  Not safe for several threads at once. */
#ifndef BERTH_NODE_AGENT_HOST_H
#define BERTH_NODE_AGENT_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/attrs.h"
#include "common/error.h"

enum { HOST_TEXT_BYTES = 128 };

struct host_facts {
    const char *os;                         /* "linux" or "macos"; static */
    char chip[HOST_TEXT_BYTES];             /* "" when unknown */
    char model_identifier[HOST_TEXT_BYTES]; /* "" when unknown */
    char macos_version[HOST_TEXT_BYTES];    /* "" when unknown */
    char macos_build[HOST_TEXT_BYTES];      /* "" when unknown */
    bool has_memory_bytes;
    uint64_t memory_bytes; /* what processes here may use at most */
    bool has_cores;
    uint64_t cores;
    bool has_wired_limit_mb;
    uint64_t wired_limit_mb; /* MiB; 0: the system's default */
};

void host_read(struct host_facts *facts);

/* Memory a new process could take now without pushing others out. False when
 * it cannot be told. */
MUST_CHECK bool host_free_bytes(uint64_t *bytes);

/* The absolute path of the running program. */
MUST_CHECK enum status host_self_path(char *path, size_t path_size,
                                      struct error *err);

/* Time of the last change of a file, nanoseconds since 1970. */
int64_t host_mtime_ns(const struct stat *info);

/* Small frames leave at once, and the kernel notices a peer that vanished after
 * @idle_s seconds. */
void host_link_options(int fd, int idle_s);

#endif
