/* peerwatch_kqueue.c - macOS.
 *
 * EVFILT_READ with EV_CLEAR reports data too; only EV_EOF counts, and a socket
 * that merely has data stays watched. */
#include "coordinator/peerwatch.h"

#include <assert.h>
#include <sys/event.h>
#include <sys/time.h>
#include <sys/types.h>

#include "common/banned.h"

enum { COLLECT_MAX = 64 };

int
peerwatch_open(void)
{
    return kqueue();
}

int
peerwatch_add(int watch, int fd, void *arg)
{
    struct kevent change;

    EV_SET(&change, (uintptr_t)fd, EVFILT_READ, EV_ADD | EV_CLEAR, 0, 0, arg);
    return kevent(watch, &change, 1, NULL, 0, NULL);
}

void
peerwatch_remove(int watch, int fd)
{
    struct kevent change;

    EV_SET(&change, (uintptr_t)fd, EVFILT_READ, EV_DELETE, 0, 0, NULL);
    (void)kevent(watch, &change, 1, NULL, 0, NULL);
}

size_t
peerwatch_collect(int watch, void **args, size_t max)
{
    struct kevent events[COLLECT_MAX];
    struct timespec now = {0};
    size_t closed = 0;
    int count;

    assert(max > 0);
    count = kevent(watch, NULL, 0, events,
                   max < COLLECT_MAX ? (int)max : (int)COLLECT_MAX, &now);
    for (int i = 0; i < count; i++) {
        if ((events[i].flags & EV_EOF) == 0)
            continue;
        peerwatch_remove(watch, (int)events[i].ident);
        args[closed++] = events[i].udata;
    }
    return closed;
}
