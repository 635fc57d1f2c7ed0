/* peerwatch_epoll.c - Linux. */
#include "coordinator/peerwatch.h"

#include <assert.h>
#include <sys/epoll.h>

#include "common/banned.h"

enum { COLLECT_MAX = 64 };

int
peerwatch_open(void)
{
    return epoll_create1(EPOLL_CLOEXEC);
}

int
peerwatch_add(int watch, int fd, void *arg)
{
    struct epoll_event event = {
        .events = EPOLLRDHUP | EPOLLONESHOT,
        .data.ptr = arg,
    };

    return epoll_ctl(watch, EPOLL_CTL_ADD, fd, &event);
}

void
peerwatch_remove(int watch, int fd)
{
    struct epoll_event unused = {0};

    (void)epoll_ctl(watch, EPOLL_CTL_DEL, fd, &unused);
}

size_t
peerwatch_collect(int watch, void **args, size_t max)
{
    struct epoll_event events[COLLECT_MAX];
    int count;

    assert(max > 0);
    count = epoll_wait(watch, events,
                       max < COLLECT_MAX ? (int)max : (int)COLLECT_MAX, 0);
    for (int i = 0; i < count; i++)
        args[i] = events[i].data.ptr;
    return count < 0 ? 0 : (size_t)count;
}
