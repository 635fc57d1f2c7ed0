/* netns_linux.c - hosts out of Linux network namespaces and TAP devices. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* setns, unshare */
#endif
#include "tests/harness/netns.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/banned.h"

static enum status
refused(const char *what, struct error *err)
{
    char reason[128];
    int number = errno;
    enum status status = number == EPERM || number == EACCES ||
                                 number == ENOENT || number == ENODEV ||
                                 number == ENOSPC || number == EINVAL
                             ? STATUS_DENIED
                             : STATUS_INTERNAL;

    return error_set(err, status, "%s: %s", what,
                     error_errno(number, reason, sizeof(reason)));
}

/* --- the right to make them -------------------------------------------------
 */

static bool
write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool done =
        fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        (void)close(fd);
    return done;
}

enum status
netns_prepare(struct error *err)
{
    char map[64];
    uid_t user = geteuid();
    gid_t group = getegid();

    if (user == 0)
        return STATUS_OK;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        return refused("user namespaces", err);
    (void)snprintf(map, sizeof(map), "0 %ld 1\n", (long)user);
    if (!write_text("/proc/self/uid_map", map))
        return refused("/proc/self/uid_map", err);
    (void)snprintf(map, sizeof(map), "0 %ld 1\n", (long)group);
    if (!write_text("/proc/self/setgroups", "deny") ||
        !write_text("/proc/self/gid_map", map))
        return refused("/proc/self/gid_map", err);
    return STATUS_OK;
}

/* --- going there ------------------------------------------------------------
 */

enum status
netns_enter(pid_t host, struct error *err)
{
    char path[64];
    int fd;
    enum status status = STATUS_OK;

    (void)snprintf(path, sizeof(path), "/proc/%ld/ns/net", (long)host);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return refused(path, err);
    if (setns(fd, CLONE_NEWNET) != 0)
        status = refused(path, err);
    (void)close(fd);
    return status;
}

/* Enter the host; @home is the way back. */
static enum status
visit(pid_t host, int *home, struct error *err)
{
    enum status status;

    *home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (*home < 0)
        return refused("/proc/self/ns/net", err);
    status = netns_enter(host, err);
    if (status != STATUS_OK)
        (void)close(*home);
    return status;
}

static void
return_home(int home)
{
    if (setns(home, CLONE_NEWNET) != 0)
        abort(); /* everything after this would happen in the wrong place */
    (void)close(home);
}

/* --- devices ----------------------------------------------------------------
 */

static bool
bring_up(int control, const char *name)
{
    struct ifreq request;

    memset(&request, 0, sizeof(request));
    (void)snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    if (ioctl(control, SIOCGIFFLAGS, &request) != 0)
        return false;
    request.ifr_flags = (short)(request.ifr_flags | IFF_UP | IFF_RUNNING);
    return ioctl(control, SIOCSIFFLAGS, &request) == 0;
}

static bool
set_ipv4(int control, unsigned long what, const char *name, const char *text)
{
    struct ifreq request;
    struct sockaddr_in address = {.sin_family = AF_INET};

    memset(&request, 0, sizeof(request));
    (void)snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    if (inet_pton(AF_INET, text, &address.sin_addr) != 1)
        return false;
    memcpy(&request.ifr_addr, &address, sizeof(address));
    return ioctl(control, what, &request) == 0;
}

static enum status
configure(const char *name, const char *address, struct error *err)
{
    int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    enum status status = STATUS_OK;

    if (control < 0)
        return refused("socket", err);
    if (!set_ipv4(control, SIOCSIFADDR, name, address) ||
        !set_ipv4(control, SIOCSIFNETMASK, name, "255.255.255.0") ||
        !bring_up(control, name))
        status = refused(name, err);
    (void)close(control);
    return status;
}

static enum status
attach(const char *name, int *fd, struct error *err)
{
    struct ifreq request;

    *fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (*fd < 0)
        return refused("/dev/net/tun", err);
    memset(&request, 0, sizeof(request));
    (void)snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    request.ifr_flags = IFF_TAP | IFF_NO_PI;
    if (ioctl(*fd, TUNSETIFF, &request) == 0)
        return STATUS_OK;
    refused("TAP device", err);
    (void)close(*fd);
    return err == NULL ? STATUS_DENIED : err->status;
}

enum status
netns_tap(pid_t host, const char *name, const char *address, int *fd,
          struct error *err)
{
    int home;
    enum status status = visit(host, &home, err);

    if (status != STATUS_OK)
        return status;
    status = attach(name, fd, err);
    if (status == STATUS_OK) {
        status = configure(name, address, err);
        if (status != STATUS_OK)
            (void)close(*fd);
    }
    return_home(home);
    return status;
}

enum status
netns_tap_carrier(int fd, bool on, struct error *err)
{
    int carrier = on ? 1 : 0;

    if (ioctl(fd, TUNSETCARRIER, &carrier) != 0)
        return refused("TUNSETCARRIER", err);
    return STATUS_OK;
}

enum status
netns_socket(pid_t host, int domain, int type, int *fd, struct error *err)
{
    int home;
    enum status status = visit(host, &home, err);

    if (status != STATUS_OK)
        return status;
    *fd = socket(domain, type | SOCK_CLOEXEC, 0);
    if (*fd < 0)
        status = refused("socket", err);
    return_home(home);
    return status;
}

/* The device's flags; false when there is no such device. */
static bool
read_flags(pid_t host, const char *name, short *flags)
{
    struct ifreq request;
    int fd;
    bool found;

    if (netns_socket(host, AF_INET, SOCK_DGRAM, &fd, NULL) != STATUS_OK)
        return false;
    memset(&request, 0, sizeof(request));
    (void)snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    found = ioctl(fd, SIOCGIFFLAGS, &request) == 0;
    *flags = request.ifr_flags;
    (void)close(fd);
    return found;
}

bool
netns_has_device(pid_t host, const char *name)
{
    short flags;

    return read_flags(host, name, &flags);
}

bool
netns_has_carrier(pid_t host, const char *name)
{
    short flags = 0;

    return read_flags(host, name, &flags) && (flags & IFF_RUNNING) != 0;
}

/* --- hosts ------------------------------------------------------------------
 */

/* The child: says over the pipe how it went, then waits to be ended. */
NORETURN static void
be_host(int report, pid_t parent)
{
    int failure = 0;
    int control;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    if (unshare(CLONE_NEWNET) != 0)
        failure = errno;
    control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (control >= 0)
        (void)bring_up(control, "lo");
    if (write(report, &failure, sizeof(failure)) != sizeof(failure) ||
        failure != 0)
        _exit(1);
    (void)close(report);
    for (;;)
        (void)pause();
}

enum status
netns_new(pid_t *host, struct error *err)
{
    int ends[2];
    int failure = EIO;
    pid_t parent = getpid();

    if (pipe(ends) != 0)
        return refused("pipe", err);
    *host = fork();
    if (*host == 0) {
        (void)close(ends[0]);
        be_host(ends[1], parent);
    }
    (void)close(ends[1]);
    if (*host > 0 && read(ends[0], &failure, sizeof(failure)) < 0)
        failure = errno;
    (void)close(ends[0]);
    if (*host > 0 && failure == 0)
        return STATUS_OK;
    if (*host > 0)
        netns_end(*host);
    errno = failure;
    return refused("network namespaces", err);
}

void
netns_end(pid_t host)
{
    (void)kill(host, SIGKILL);
    while (waitpid(host, NULL, 0) < 0 && errno == EINTR)
        continue;
}
