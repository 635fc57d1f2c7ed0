/* process.c - see process.h. */
#include "tests/harness/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/units.h"
#include "common/banned.h"

enum {
    GUARDED_MAX = 64,
    POLL_MS = 20,
    END_S = 20,
    GUARD_END_S = 5,
    TAIL_BYTES = 4000,
    NO_EXEC = 127,
};

/* What the guard is told: a program begins (positive) or has ended. */
struct notice {
    pid_t pid;
    bool begins;
};

static void
pause_ms(long ms)
{
    struct timespec pause = {.tv_nsec = ms * 1000000};

    (void)nanosleep(&pause, NULL);
}

static struct span
in_seconds(int64_t seconds)
{
    return span_add(clock_monotonic(), span_s(seconds));
}

static enum status
failed(const char *what, struct error *err)
{
    char reason[128];

    return error_set(err, STATUS_INTERNAL, "%s: %s", what,
                     error_errno(errno, reason, sizeof(reason)));
}

/* --- the guard --------------------------------------------------------------
 */

static void
remove_tree(const char *path)
{
    pid_t pid = fork();

    if (pid == 0) {
        execl("/bin/rm", "rm", "-rf", "--", path, (char *)NULL);
        _exit(NO_EXEC);
    }
    if (pid > 0)
        (void)waitpid(pid, NULL, 0);
}

/* As root, a --dev coordinator keeps its database outside its folder. */
static void
remove_cluster(const char *folder)
{
    static const char outside[] = "/var/lib/berth-dev/";
    char path[PROCESS_PATH_BYTES + sizeof(".lock")];
    char cluster[PROCESS_PATH_BYTES] = "";
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/coordinator/cluster", folder);
    file = fopen(path, "r");
    if (file == NULL)
        return;
    if (fgets(cluster, sizeof(cluster), file) == NULL)
        cluster[0] = '\0';
    (void)fclose(file);
    cluster[strcspn(cluster, "\n")] = '\0';
    if (strncmp(cluster, outside, sizeof(outside) - 1) != 0 ||
        cluster[sizeof(outside) - 1] == '\0' || strstr(cluster, "/..") != NULL)
        return;
    remove_tree(cluster);
    (void)snprintf(path, sizeof(path), "%s.lock", cluster);
    (void)unlink(path);
}

static void
note(pid_t *guarded, const struct notice *notice)
{
    for (int i = 0; i < GUARDED_MAX; i++) {
        if (notice->begins && guarded[i] == 0) {
            guarded[i] = notice->pid;
            return;
        }
        if (!notice->begins && guarded[i] == notice->pid) {
            guarded[i] = 0;
            return;
        }
    }
}

static void
wait_gone(const pid_t *guarded, int first, int last, int64_t seconds)
{
    struct span deadline = in_seconds(seconds);

    for (int i = first; i <= last; i++) {
        while (guarded[i] > 0 && kill(guarded[i], 0) == 0 &&
               clock_monotonic().ns < deadline.ns)
            pause_ms(POLL_MS);
        if (guarded[i] > 0)
            (void)kill(guarded[i], SIGKILL);
    }
}

/* End what the test left: the coordinator, which began first, at last.  They
 * are no children of the guard, so one that ended counts as there until its
 * new parent has waited for it. */
static void
end_guarded(const pid_t *guarded)
{
    for (int i = 1; i < GUARDED_MAX; i++)
        if (guarded[i] > 0)
            (void)kill(guarded[i], SIGTERM);
    wait_gone(guarded, 1, GUARDED_MAX - 1, GUARD_END_S);
    if (guarded[0] > 0)
        (void)kill(guarded[0], SIGTERM);
    wait_gone(guarded, 0, 0, END_S);
}

/* The guard: reads notices until the test program's end of the pipe closes. */
NORETURN static void
be_guard(int notices, const char *folder)
{
    pid_t guarded[GUARDED_MAX] = {0};
    struct notice notice;
    ssize_t got;

    (void)setsid(); /* a terminal's Ctrl-C is for the test program */
    do {
        got = read(notices, &notice, sizeof(notice));
        if (got == (ssize_t)sizeof(notice))
            note(guarded, &notice);
    } while (got == (ssize_t)sizeof(notice) || (got < 0 && errno == EINTR));
    end_guarded(guarded);
    remove_cluster(folder);
    remove_tree(folder);
    _exit(0);
}

enum status
process_guard_start(struct process_guard *guard, const char *folder,
                    struct error *err)
{
    int ends[2];

    if (pipe(ends) != 0 || fcntl(ends[0], F_SETFD, FD_CLOEXEC) != 0 ||
        fcntl(ends[1], F_SETFD, FD_CLOEXEC) != 0)
        return failed("pipe", err);
    guard->pid = fork();
    if (guard->pid == 0) {
        (void)close(ends[1]);
        be_guard(ends[0], folder);
    }
    (void)close(ends[0]);
    guard->pipe = ends[1];
    return guard->pid > 0 ? STATUS_OK : failed("fork", err);
}

void
process_guard_end(struct process_guard *guard)
{
    (void)close(guard->pipe);
    while (waitpid(guard->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}

static bool
tell_guard(const struct process_guard *guard, pid_t pid, bool begins)
{
    struct notice notice = {.pid = pid, .begins = begins};

    return write(guard->pipe, &notice, sizeof(notice)) ==
           (ssize_t)sizeof(notice);
}

/* --- programs ---------------------------------------------------------------
 */

/* The child's side. Standard input is empty; no descriptor but 0 to 2 stays.
 */
NORETURN static void
be_program(const char *const *argv, int output, int errors)
{
    int nothing = open("/dev/null", O_RDONLY);

    if (nothing < 0 || dup2(nothing, 0) < 0 || dup2(output, 1) < 0 ||
        (errors >= 0 && dup2(errors, 2) < 0))
        _exit(NO_EXEC);
    for (int fd = 3; fd < 256; fd++)
        (void)close(fd);
    (void)signal(SIGPIPE, SIG_DFL);
    execv(argv[0], (char *const *)(uintptr_t)argv);
    _exit(NO_EXEC);
}

enum status
process_start(struct process_guard *guard, struct process *process,
              const char *name, const char *folder, const char *const *argv,
              struct error *err)
{
    int log;

    (void)snprintf(process->name, sizeof(process->name), "%s", name);
    (void)snprintf(process->log, sizeof(process->log), "%s/%s.log", folder,
                   name);
    log = open(process->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log < 0)
        return failed(process->log, err);
    process->pid = fork();
    if (process->pid == 0)
        be_program(argv, log, log);
    (void)close(log);
    if (process->pid < 0) {
        process->pid = 0;
        return failed("fork", err);
    }
    if (!tell_guard(guard, process->pid, true))
        return failed("guard", err);
    return STATUS_OK;
}

bool
process_lives(struct process_guard *guard, struct process *process)
{
    if (process->pid == 0)
        return false;
    if (waitpid(process->pid, NULL, WNOHANG) != process->pid)
        return true;
    (void)tell_guard(guard, process->pid, false);
    process->pid = 0;
    return false;
}

void
process_end(struct process_guard *guard, struct process *process, int signal)
{
    struct span deadline = in_seconds(END_S);

    if (process->pid != 0 && signal != 0)
        (void)kill(process->pid, signal);
    while (process_lives(guard, process)) {
        if (clock_monotonic().ns > deadline.ns) {
            (void)fprintf(stderr, "%s does not end: killed\n", process->name);
            (void)kill(process->pid, SIGKILL);
            deadline = in_seconds(END_S);
        }
        pause_ms(POLL_MS);
    }
}

void
process_print_tail(const struct process *process)
{
    char tail[TAIL_BYTES];
    int fd = open(process->log, O_RDONLY | O_CLOEXEC);
    struct stat seen;
    ssize_t got = 0;

    if (fd < 0)
        return;
    if (fstat(fd, &seen) == 0) {
        off_t from = seen.st_size - (off_t)sizeof(tail);

        got = pread(fd, tail, sizeof(tail), from > 0 ? from : 0);
    }
    (void)close(fd);
    if (got > 0)
        (void)fprintf(stderr, "--- the end of %s's log:\n%.*s\n", process->name,
                      (int)got, tail);
}

static void
read_to_end(int fd, struct buf *out)
{
    char bytes[4096];
    ssize_t got;

    do {
        got = read(fd, bytes, sizeof(bytes));
        if (got > 0)
            buf_append(out, bytes, (size_t)got);
    } while (got > 0 || (got < 0 && errno == EINTR));
}

enum status
process_capture(const char *const *argv, const struct process_env *env,
                size_t env_count, struct buf *out, struct error *err)
{
    int ends[2];
    int ended = 1;
    pid_t pid;

    if (pipe(ends) != 0)
        return failed("pipe", err);
    pid = fork();
    if (pid == 0) {
        for (size_t i = 0; i < env_count; i++)
            (void)setenv(env[i].name, env[i].value, 1);
        be_program(argv, ends[1], -1);
    }
    (void)close(ends[1]);
    if (pid > 0)
        read_to_end(ends[0], out);
    (void)close(ends[0]);
    while (pid > 0 && waitpid(pid, &ended, 0) < 0 && errno == EINTR)
        continue;
    if (ended != 0)
        return error_set(err, STATUS_INTERNAL, "%s %s failed (status %d)",
                         argv[0], argv[1] == NULL ? "" : argv[1], ended);
    return buf_status(out, err);
}
