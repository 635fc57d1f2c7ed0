/* netns_darwin.c - macOS has no network namespaces: tests that need hosts are
 * skipped with this reason. */
#include "tests/harness/netns.h"

#include "common/banned.h"

static enum status
refused(struct error *err)
{
    return error_set(err, STATUS_DENIED, "network namespaces need Linux");
}

enum status
netns_prepare(struct error *err)
{
    return refused(err);
}

enum status
netns_new(pid_t *host, struct error *err)
{
    *host = -1;
    return refused(err);
}

void
netns_end(pid_t host)
{
    (void)host;
}

enum status
netns_socket(pid_t host, int domain, int type, int *fd, struct error *err)
{
    (void)host;
    (void)domain;
    (void)type;
    *fd = -1;
    return refused(err);
}

enum status
netns_enter(pid_t host, struct error *err)
{
    (void)host;
    return refused(err);
}

enum status
netns_tap(pid_t host, const char *name, const char *address, int *fd,
          struct error *err)
{
    (void)host;
    (void)name;
    (void)address;
    *fd = -1;
    return refused(err);
}

enum status
netns_tap_carrier(int fd, bool on, struct error *err)
{
    (void)fd;
    (void)on;
    return refused(err);
}

bool
netns_has_device(pid_t host, const char *name)
{
    (void)host;
    (void)name;
    return false;
}

bool
netns_has_carrier(pid_t host, const char *name)
{
    (void)host;
    (void)name;
    return false;
}
