/* process.h - child processes that inherit nothing but what they are given.
 *
 * Every descriptor of the agent is closed in the child: an engine that kept the
 * link's socket open would keep a dead link alive.  Only for programs with one
 * thread.  Children form their own process group, so that the terminal's
 * interrupt reaches the agent alone, which ends them in order. */
#ifndef BERTH_NODE_AGENT_PROCESS_H
#define BERTH_NODE_AGENT_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/attrs.h"
#include "common/error.h"

/* Run @argv (NULL-terminated) with standard output and error into a pipe whose
 * other end is written to @read_fd, non-blocking. */
MUST_CHECK enum status process_start(const char *const *argv, pid_t *pid,
                                     int *read_fd, struct error *err);

/* Run @body in a copy of this process; what it writes to its descriptor comes
 * out of @read_fd, non-blocking.  The child ends when @body returns, and within
 * about a second of this process, however that ends. */
typedef void process_body(void *arg, int write_fd);
MUST_CHECK enum status process_help(process_body *body, void *arg, pid_t *pid,
                                    int *read_fd, struct error *err);

/* Has @pid ended?  Reaps it; @how says "exit status 1" or "signal 9". */
bool process_has_ended(pid_t pid, char *how, size_t how_size);

/* Non-blocking and closed in programs started by others. */
void process_set_fd(int fd);

#endif
