/* http_socket.h - what the kernel is told of a client's socket. */
#ifndef BERTH_COORDINATOR_HTTP_SOCKET_H
#define BERTH_COORDINATOR_HTTP_SOCKET_H

/* Bytes in the kernel for one client, at most.  A fixed number, so that a
 * client that reads nothing takes this much and no more. */
enum { HTTP_SEND_BYTES = 128 * 1024 };

/* The connection @fd ends when its peer acknowledges nothing of what was sent,
 * or has no room for it, for @timeout_s; also when a peer with nothing to get
 * has silently gone. */
void http_socket_bound(int fd, unsigned timeout_s);

#endif
