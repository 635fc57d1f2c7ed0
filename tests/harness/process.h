/* process.h - programs that a test starts, and ends whatever happens.
 *
 * A guard process is told of every program; when the test program ends in any
 * way, it ends those that are left and removes the test's folder.  Programs
 * are only ever ended by their process id, and only while they are unreaped
 * children.  One thread at a time. */
#ifndef BERTH_TESTS_HARNESS_PROCESS_H
#define BERTH_TESTS_HARNESS_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "common/error.h"

enum { PROCESS_PATH_BYTES = 1024, PROCESS_NAME_BYTES = 32 };

struct process_guard {
    pid_t pid;
    int pipe;
};

struct process {
    pid_t pid; /* 0: not running */
    char name[PROCESS_NAME_BYTES];
    char log[PROCESS_PATH_BYTES]; /* standard output and error */
};

/* A variable for the child's environment. */
struct process_env {
    const char *name;
    const char *value;
};

/* Watch over the programs of a test and its @folder, which is removed with
 * process_guard_end, as is the folder outside it that a file
 * coordinator/cluster in it names on its first line. */
MUST_CHECK enum status process_guard_start(struct process_guard *guard,
                                           const char *folder,
                                           struct error *err);
void process_guard_end(struct process_guard *guard);

/* Start @argv (argv[0] is a path) with its output appended to
 * @folder/@name.log. */
MUST_CHECK enum status process_start(struct process_guard *guard,
                                     struct process *process, const char *name,
                                     const char *folder,
                                     const char *const *argv,
                                     struct error *err);
/* Has it not ended by itself?  Reaps it when it has. */
bool process_lives(struct process_guard *guard, struct process *process);
/* Send @signal (0: none) and wait; SIGKILL after 20 s. */
void process_end(struct process_guard *guard, struct process *process,
                 int signal);
/* The last lines of its log on standard error. */
void process_print_tail(const struct process *process);

/* Run @argv to its end; standard output is appended to @out.  STATUS_INTERNAL
 * when it does not exit 0. */
MUST_CHECK enum status process_capture(const char *const *argv,
                                       const struct process_env *env,
                                       size_t env_count, struct buf *out,
                                       struct error *err);

#endif
