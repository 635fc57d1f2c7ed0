/* netns.h - stand-in machines for tests: network namespaces, and the ends of
 * cables in them.
 *
 * A host is a process that does nothing in a network namespace of its own; its
 * process id names it.  Linux only: elsewhere every function is STATUS_DENIED
 * with a reason, and the tests that need hosts are skipped by name.  Not for
 * threaded programs. */
#ifndef BERTH_TESTS_HARNESS_NETNS_H
#define BERTH_TESTS_HARNESS_NETNS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/attrs.h"
#include "common/error.h"

/* Get the right to make hosts, inside a user namespace when not root.  Call it
 * once, first.  STATUS_DENIED where the kernel refuses. */
MUST_CHECK enum status netns_prepare(struct error *err);

/* A new host; its loopback is up.  It ends with this process. */
MUST_CHECK enum status netns_new(pid_t *host, struct error *err);
void netns_end(pid_t host);

/* A socket of the host: socket(@domain, @type | SOCK_CLOEXEC, 0) there. */
MUST_CHECK enum status netns_socket(pid_t host, int domain, int type, int *fd,
                                    struct error *err);
/* Make this process part of the host, for a child about to exec. */
MUST_CHECK enum status netns_enter(pid_t host, struct error *err);

/* One end of a cable: the TAP device @name in the host, up, with the IPv4
 * address @address and a 24-bit network.  Whole Ethernet frames are read from
 * and written to @fd; the device is gone when it is closed. */
MUST_CHECK enum status netns_tap(pid_t host, const char *name,
                                 const char *address, int *fd,
                                 struct error *err);
/* Say whether the device sees a cable plugged in. */
MUST_CHECK enum status netns_tap_carrier(int fd, bool on, struct error *err);

/* Is there such a device in the host?  Does it see a plugged cable? */
bool netns_has_device(pid_t host, const char *name);
bool netns_has_carrier(pid_t host, const char *name);

#endif
