/* host_darwin.c - macOS readings, by sysctl and Mach alone. */
#include "node-agent/host.h"

#include <mach-o/dyld.h>
#include <mach/mach.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/sysctl.h>

#include "common/banned.h"

static void
read_text(const char *name, char *text, size_t text_size)
{
    size_t size = text_size;

    if (sysctlbyname(name, text, &size, NULL, 0) != 0)
        text[0] = '\0';
    else
        text[text_size - 1] = '\0';
}

/* Values are 32 or 64 bits wide, by name and by release. */
static bool
read_number(const char *name, uint64_t *number)
{
    uint64_t wide = 0;
    uint32_t narrow = 0;
    size_t size = sizeof(wide);

    if (sysctlbyname(name, &wide, &size, NULL, 0) != 0)
        return false;
    if (size == sizeof(narrow)) {
        if (sysctlbyname(name, &narrow, &size, NULL, 0) != 0)
            return false;
        wide = narrow;
    }
    *number = wide;
    return true;
}

void
host_read(struct host_facts *facts)
{
    *facts = (struct host_facts){.os = "macos"};
    read_text("machdep.cpu.brand_string", facts->chip, sizeof(facts->chip));
    read_text("hw.model", facts->model_identifier,
              sizeof(facts->model_identifier));
    read_text("kern.osproductversion", facts->macos_version,
              sizeof(facts->macos_version));
    read_text("kern.osversion", facts->macos_build, sizeof(facts->macos_build));
    facts->has_memory_bytes = read_number("hw.memsize", &facts->memory_bytes);
    facts->has_cores = read_number("hw.ncpu", &facts->cores);
    facts->has_wired_limit_mb =
        read_number("iogpu.wired_limit_mb", &facts->wired_limit_mb);
}

bool
host_free_bytes(uint64_t *bytes)
{
    vm_statistics64_data_t pages;
    mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
    uint64_t page_size = 0;

    if (!read_number("hw.pagesize", &page_size) ||
        host_statistics64(mach_host_self(), HOST_VM_INFO64,
                          (host_info64_t)&pages, &count) != KERN_SUCCESS)
        return false;
    /* Inactive pages are dropped or compressed before anybody waits. */
    *bytes = ((uint64_t)pages.free_count + pages.inactive_count) * page_size;
    return true;
}

enum status
host_self_path(char *path, size_t path_size, struct error *err)
{
    uint32_t size = (uint32_t)path_size;

    if (_NSGetExecutablePath(path, &size) != 0)
        return error_set(err, STATUS_INTERNAL,
                         "the program's own path is over %zu bytes", path_size);
    return STATUS_OK;
}

int64_t
host_mtime_ns(const struct stat *info)
{
    return (int64_t)info->st_mtimespec.tv_sec * 1000000000 +
           info->st_mtimespec.tv_nsec;
}

void
host_link_options(int fd, int idle_s)
{
    int on = 1;

    /* Only a quicker notice: a failure leaves the kernel's defaults. */
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPALIVE, &idle_s, sizeof(idle_s));
}
