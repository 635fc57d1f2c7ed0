/* peerwatch.h - tells when the peer of a socket has closed or half-closed,
 * without reading from it.
 *
 * One implementation per operating system: epoll's EPOLLRDHUP, kqueue's
 * EV_EOF.  The watch itself is one descriptor that becomes readable, to be put
 * into any event loop.  For one thread. */
#ifndef BERTH_COORDINATOR_PEERWATCH_H
#define BERTH_COORDINATOR_PEERWATCH_H

#include <stddef.h>

/* A descriptor to poll for reading; -1 with errno. Close with close(). */
int peerwatch_open(void);
/* Watch @fd; @arg is reported at most once, then the socket is forgotten.
 * 0, or -1 with errno. */
int peerwatch_add(int watch, int fd, void *arg);
/* Forget @fd. */
void peerwatch_remove(int watch, int fd);
/* Collect without waiting at most @max args of closed peers. */
size_t peerwatch_collect(int watch, void **args, size_t max);

#endif
