/* process.c - fork with a clean slate: no descriptors, no handlers. */
#include "node-agent/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/units.h"

#include "common/banned.h"

enum { CHILD_FDS_MAX = 4096, EXIT_NOT_STARTED = 127, WATCH_S = 1 };

/* Close all but the standard three and @keep.  The numbers are collected
 * first: closing while reading the folder would close the folder itself. */
static void
close_others(int keep)
{
    static int fds[CHILD_FDS_MAX];
    size_t count = 0;
    DIR *folder = opendir("/dev/fd");
    struct dirent *entry;
    uint64_t fd;

    if (folder == NULL) {
        for (int i = STDERR_FILENO + 1; i < CHILD_FDS_MAX; i++)
            if (i != keep)
                close(i);
        return;
    }
    while (count < CHILD_FDS_MAX && (entry = readdir(folder)) != NULL)
        if (parse_u64(entry->d_name, strlen(entry->d_name), INT32_MAX, &fd) ==
            STATUS_OK)
            fds[count++] = (int)fd;
    closedir(folder);
    for (size_t i = 0; i < count; i++)
        if (fds[i] > STDERR_FILENO && fds[i] != keep)
            close(fds[i]);
}

/* The loop's handlers write into the parent's sockets; the child must not run
 * them even once, so signals are blocked from before the fork until here. */
static void
reset_signals(void)
{
    static const int numbers[] = {SIGINT,  SIGTERM, SIGCHLD,
                                  SIGPIPE, SIGHUP,  SIGUSR1};
    sigset_t none;

    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        signal(numbers[i], SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void
prepare_child(int write_fd)
{
    int null_fd = open("/dev/null", O_RDWR);

    setpgid(0, 0);
    if (null_fd >= 0)
        dup2(null_fd, STDIN_FILENO);
    close_others(write_fd);
    reset_signals();
}

/* Fork; in the child @pid is 0 and @fd the end to write to. */
static enum status
fork_with_pipe(pid_t *pid, int *fd, struct error *err)
{
    char text[128];
    sigset_t all;
    sigset_t old;
    int ends[2];

    if (pipe(ends) != 0)
        return error_set(err, STATUS_INTERNAL, "pipe: %s",
                         error_errno(errno, text, sizeof(text)));
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &old);
    *pid = fork();
    if (*pid == 0) {
        prepare_child(ends[1]);
        *fd = ends[1];
        return STATUS_OK;
    }
    sigprocmask(SIG_SETMASK, &old, NULL);
    close(ends[1]);
    if (*pid < 0) {
        close(ends[0]);
        return error_set(err, STATUS_INTERNAL, "fork: %s",
                         error_errno(errno, text, sizeof(text)));
    }
    process_set_fd(ends[0]);
    *fd = ends[0];
    return STATUS_OK;
}

static NORETURN void
run_program(const char *const *argv, int output_fd)
{
    char text[128];
    /* execv takes char *const[] for history's sake and changes nothing. */
    union {
        const char *const *in;
        char *const *out;
    } words = {.in = argv};

    dup2(output_fd, STDOUT_FILENO);
    dup2(output_fd, STDERR_FILENO);
    if (output_fd > STDERR_FILENO)
        close(output_fd);
    execv(argv[0], words.out);
    dprintf(STDERR_FILENO, "%s: cannot start: %s\n", argv[0],
            error_errno(errno, text, sizeof(text)));
    _exit(EXIT_NOT_STARTED);
}

enum status
process_start(const char *const *argv, pid_t *pid, int *read_fd,
              struct error *err)
{
    pid_t child;
    int fd;
    enum status status = fork_with_pipe(&child, &fd, err);

    if (status != STATUS_OK)
        return status;
    if (child == 0)
        run_program(argv, fd);
    *pid = child;
    *read_fd = fd;
    return STATUS_OK;
}

/* In a helper: which process it helps. */
static pid_t helped;

static void
on_watch(int number)
{
    (void)number;
    if (getppid() != helped)
        _exit(1);
}

/* End with @parent, however that ends: whoever waits for a helper's result is
 * gone then, and another agent may already have one of its own. */
static void
watch_parent(pid_t parent)
{
    const struct itimerval every = {.it_interval.tv_sec = WATCH_S,
                                    .it_value.tv_sec = WATCH_S};
    struct sigaction action = {.sa_handler = on_watch, .sa_flags = SA_RESTART};

    helped = parent;
    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
}

enum status
process_help(process_body *body, void *arg, pid_t *pid, int *read_fd,
             struct error *err)
{
    pid_t parent = getpid();
    pid_t child;
    int fd;
    enum status status = fork_with_pipe(&child, &fd, err);

    if (status != STATUS_OK)
        return status;
    if (child == 0) {
        watch_parent(parent);
        body(arg, fd);
        _exit(0);
    }
    *pid = child;
    *read_fd = fd;
    return STATUS_OK;
}

bool
process_has_ended(pid_t pid, char *how, size_t how_size)
{
    int status = 0;
    pid_t got = waitpid(pid, &status, WNOHANG);

    if (got == 0 || (got < 0 && errno == EINTR))
        return false;
    if (got < 0) /* reaped elsewhere: nothing is left to wait for */
        snprintf(how, how_size, "gone");
    else if (WIFSIGNALED(status))
        snprintf(how, how_size, "signal %d", WTERMSIG(status));
    else
        snprintf(how, how_size, "exit status %d", WEXITSTATUS(status));
    return true;
}

void
process_set_fd(int fd)
{
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
}
