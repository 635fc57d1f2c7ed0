/* http_socket_linux.c - see http_socket.h. */
#include "coordinator/http_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "common/banned.h"

enum { PROBES = 3 };

static void
set(int fd, int level, int name, int value)
{
    (void)setsockopt(fd, level, name, &value, sizeof(value));
}

void
http_socket_bound(int fd, unsigned timeout_s)
{
    int probe_s = (int)timeout_s / PROBES > 0 ? (int)timeout_s / PROBES : 1;

    set(fd, SOL_SOCKET, SO_SNDBUF, HTTP_SEND_BYTES / 2); /* it doubles it */
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, probe_s);
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, probe_s);
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, PROBES);
    set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)timeout_s * 1000);
}
