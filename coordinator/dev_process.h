/* dev_process.h - child processes of `--dev`: as another user when the
 * coordinator is root, with nothing inherited but standard output.
 *
 * Private to the coordinator.  Between fork and exec only calls that are safe
 * after a fork of a threaded process are made. */
#ifndef BERTH_COORDINATOR_DEV_PROCESS_H
#define BERTH_COORDINATOR_DEV_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/attrs.h"
#include "common/error.h"

/* Whom a child runs as; all zero: as ourselves. */
struct dev_user {
    bool change;
    uid_t uid;
    gid_t gid;
};

struct dev_child {
    const char *const *argv; /* argv[0] is an absolute path; NULL ends it */
    struct dev_user user;
    int output;   /* descriptor for standard output and error */
    int keep;     /* descriptor the child keeps as its number 3, or -1 */
    int die_with; /* signal when the calling thread ends, or 0 (Linux only) */
    bool own_session; /* a terminal's Ctrl-C does not reach it */
};

/* The user whom PostgreSQL runs as: nobody else when we are not root, else the
 * first of a few known names.  STATUS_INVALID with the command that makes
 * one. */
MUST_CHECK enum status dev_user_choose(struct dev_user *user,
                                       struct error *err);

/* Start it; -1 with errno when it cannot be.  A child that cannot exec ends
 * with 127. */
pid_t dev_spawn(const struct dev_child *child);

/* Start it and wait: STATUS_INTERNAL unless it exits 0. */
MUST_CHECK enum status dev_run(const struct dev_child *child,
                               struct error *err);

/* Run @argv as ourselves; the first line of its output, "" when it fails. */
void dev_capture(const char *const *argv, char *line, size_t line_size);

/* Have the kernel send @signal to this process when the thread that forked it
 * ends; nothing where the system has no such thing. */
void dev_die_with_parent(int signal);

#endif
