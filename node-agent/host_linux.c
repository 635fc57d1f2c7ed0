/* host_linux.c - Linux readings, from /proc and the control group. */
#include "node-agent/host.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/units.h"

#include "common/banned.h"

enum { PROC_MAX_BYTES = 4 * 1024 * 1024, KEEP_ALIVE_PROBES = 3 };

/* The text after @key and blanks, tabs or a colon on its line; NULL if none.
 * @size is its length up to the end of the line. */
static const char *
line_value(const char *text, const char *key, size_t *size)
{
    size_t key_size = strlen(key);

    while (text != NULL && *text != '\0') {
        if (strncmp(text, key, key_size) == 0) {
            text += key_size;
            text += strspn(text, " \t:");
            *size = strcspn(text, "\n");
            return text;
        }
        text = strchr(text, '\n');
        text = text == NULL ? NULL : text + 1;
    }
    return NULL;
}

/* Some files of /proc cannot say their size: buf_read_file reads to the end. */
static bool
read_proc(const char *path, struct buf *text)
{
    buf_init(text, PROC_MAX_BYTES);
    return buf_read_file(text, path, NULL) == STATUS_OK;
}

static bool
meminfo_bytes(const char *key, uint64_t *bytes)
{
    struct buf text;
    const char *value;
    size_t size = 0;
    bool found = false;
    uint64_t kib;

    if (read_proc("/proc/meminfo", &text)) {
        value = line_value(text.data, key, &size);
        if (value != NULL && parse_u64(value, strspn(value, "0123456789"),
                                       UINT64_MAX / KIB, &kib) == STATUS_OK) {
            *bytes = kib * KIB;
            found = true;
        }
    }
    buf_clear(&text);
    return found;
}

/* One number of the control group; false for "max" and for no such file. */
static bool
cgroup_bytes(const char *path, uint64_t *bytes)
{
    struct buf text;
    bool found = false;

    if (read_proc(path, &text))
        found = parse_u64(text.data, strspn(text.data, "0123456789"), INT64_MAX,
                          bytes) == STATUS_OK;
    buf_clear(&text);
    return found;
}

static void
read_chip(char *chip, size_t chip_size)
{
    struct buf text;
    const char *value;
    size_t size = 0;

    if (read_proc("/proc/cpuinfo", &text)) {
        value = line_value(text.data, "model name", &size);
        if (value == NULL) /* arm64 kernels print no model name */
            value = line_value(text.data, "Hardware", &size);
        if (value != NULL)
            snprintf(chip, chip_size, "%.*s", (int)size, value);
    }
    buf_clear(&text);
}

void
host_read(struct host_facts *facts)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t cap;

    *facts = (struct host_facts){.os = "linux"};
    read_chip(facts->chip, sizeof(facts->chip));
    facts->has_memory_bytes = meminfo_bytes("MemTotal", &facts->memory_bytes);
    /* In a container the group's limit is what a process can have. */
    if (facts->has_memory_bytes &&
        cgroup_bytes("/sys/fs/cgroup/memory.max", &cap) &&
        cap < facts->memory_bytes)
        facts->memory_bytes = cap;
    facts->has_cores = cores > 0;
    facts->cores = cores > 0 ? (uint64_t)cores : 0;
}

/* What the control group leaves; false when it sets no limit.  Cached files
 * that were not read lately give way, as they do for the whole machine. */
static bool
cgroup_free_bytes(uint64_t *bytes)
{
    uint64_t limit, used, cached = 0;
    struct buf text;
    const char *value;
    size_t size = 0;

    if (!cgroup_bytes("/sys/fs/cgroup/memory.max", &limit) ||
        !cgroup_bytes("/sys/fs/cgroup/memory.current", &used))
        return false;
    if (read_proc("/sys/fs/cgroup/memory.stat", &text)) {
        value = line_value(text.data, "inactive_file ", &size);
        if (value == NULL ||
            parse_u64(value, size, INT64_MAX, &cached) != STATUS_OK)
            cached = 0;
    }
    buf_clear(&text);
    used = used > cached ? used - cached : 0;
    *bytes = limit > used ? limit - used : 0;
    return true;
}

bool
host_free_bytes(uint64_t *bytes)
{
    uint64_t of_group;
    bool found = meminfo_bytes("MemAvailable", bytes);

    if (found && cgroup_free_bytes(&of_group) && of_group < *bytes)
        *bytes = of_group;
    return found;
}

enum status
host_self_path(char *path, size_t path_size, struct error *err)
{
    ssize_t size = readlink("/proc/self/exe", path, path_size - 1);
    char text[128];

    if (size < 0)
        return error_set(err, STATUS_INTERNAL, "/proc/self/exe: %s",
                         error_errno(errno, text, sizeof(text)));
    path[size] = '\0';
    return STATUS_OK;
}

int64_t
host_mtime_ns(const struct stat *info)
{
    return (int64_t)info->st_mtim.tv_sec * 1000000000 + info->st_mtim.tv_nsec;
}

void
host_link_options(int fd, int idle_s)
{
    int on = 1;
    int probes = KEEP_ALIVE_PROBES;

    /* Only a quicker notice: a failure leaves the kernel's defaults. */
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof(idle_s));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}
