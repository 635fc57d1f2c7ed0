/* dev_process.c - fork, drop to the other user, exec. */
#include "coordinator/dev_process.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/banned.h"

enum {
    DESCRIPTORS_MAX = 65536, /* of ours that a child may have to close */
    SEARCH_PATH_BYTES = 4096,
    EXIT_NO_EXEC = 127,
};

enum status
dev_user_choose(struct dev_user *user, struct error *err)
{
    static const char *const names[] = {"postgres", "_postgres", "berth"};

    *user = (struct dev_user){0};
    if (geteuid() != 0)
        return STATUS_OK;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const struct passwd *entry = getpwnam(names[i]);

        if (entry != NULL && entry->pw_uid != 0) {
            *user = (struct dev_user){
                .change = true, .uid = entry->pw_uid, .gid = entry->pw_gid};
            return STATUS_OK;
        }
    }
    return error_set(err, STATUS_INVALID,
                     "PostgreSQL does not run as root and there is no user "
                     "postgres: make one (useradd --system postgres)");
}

static void
reset_signals(void)
{
    static const int taken[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                SIGPIPE, SIGCHLD, SIGUSR1, SIGUSR2};
    struct sigaction standard;
    sigset_t none;

    memset(&standard, 0, sizeof(standard));
    standard.sa_handler = SIG_DFL;
    for (size_t i = 0; i < COUNT_OF(taken); i++)
        (void)sigaction(taken[i], &standard, NULL);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Standard input from nowhere, output to @output, @keep as 3, all else shut.
 */
static bool
arrange_descriptors(int output, int keep)
{
    int nothing = open("/dev/null", O_RDONLY);
    long most = sysconf(_SC_OPEN_MAX);
    int first = 3;

    if (nothing < 0 || dup2(nothing, 0) < 0 || dup2(output, 1) < 0 ||
        dup2(output, 2) < 0)
        return false;
    if (keep == 3 && fcntl(3, F_SETFD, 0) < 0)
        return false;
    if (keep >= 0 && keep != 3 && dup2(keep, 3) < 0)
        return false;
    if (keep >= 0)
        first = 4;
    if (most < 0 || most > DESCRIPTORS_MAX)
        most = DESCRIPTORS_MAX;
    for (int fd = first; fd < (int)most; fd++)
        (void)close(fd);
    return true;
}

static bool
become(const struct dev_user *user)
{
    if (!user->change)
        return true;
    return setgroups(1, &user->gid) == 0 && setgid(user->gid) == 0 &&
           setuid(user->uid) == 0;
}

/* The child's side of the fork.  Never returns. */
NORETURN static void
child_main(const struct dev_child *child, char *const *env, pid_t parent)
{
    reset_signals();
    if (child->own_session)
        (void)setsid();
    if (!arrange_descriptors(child->output, child->keep) ||
        !become(&child->user) || chdir("/") != 0)
        _exit(EXIT_NO_EXEC);
    if (child->die_with != 0) {
        /* After the change of user, which would clear it. */
        dev_die_with_parent(child->die_with);
        if (getppid() != parent)
            _exit(EXIT_NO_EXEC);
    }
    execve(child->argv[0], (char *const *)(uintptr_t)child->argv, env);
    _exit(EXIT_NO_EXEC);
}

pid_t
dev_spawn(const struct dev_child *child)
{
    char search[SEARCH_PATH_BYTES] = "PATH=/usr/local/bin:/usr/bin:/bin";
    char locale[] = "LC_ALL=C"; /* also: macOS starts no threads for it */
    char zone[] = "TZ=UTC";
    char *const env[] = {search, locale, zone, NULL};
    const char *path = getenv("PATH");
    pid_t parent = getpid();
    pid_t pid;

    if (path != NULL && strlen(path) < sizeof(search) - sizeof("PATH="))
        (void)snprintf(search, sizeof(search), "PATH=%s", path);
    pid = fork();
    if (pid == 0)
        child_main(child, env, parent);
    return pid;
}

enum status
dev_run(const struct dev_child *child, struct error *err)
{
    char reason[ERROR_TEXT_BYTES];
    pid_t pid = dev_spawn(child);
    int ended = 0;

    if (pid < 0)
        return error_set(err, STATUS_INTERNAL, "%s: %s", child->argv[0],
                         error_errno(errno, reason, sizeof(reason)));
    while (waitpid(pid, &ended, 0) < 0)
        if (errno != EINTR)
            return error_set(err, STATUS_INTERNAL, "%s: cannot wait for it",
                             child->argv[0]);
    if (!WIFEXITED(ended) || WEXITSTATUS(ended) != 0)
        return error_set(err, STATUS_INTERNAL, "%s failed (status %d)",
                         child->argv[0], ended);
    return STATUS_OK;
}

static size_t
read_all(int fd, char *text, size_t size)
{
    size_t used = 0;

    while (used < size) {
        ssize_t got = read(fd, text + used, size - used);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    return used;
}

void
dev_capture(const char *const *argv, char *line, size_t line_size)
{
    struct dev_child child = {.argv = argv, .keep = -1};
    int ends[2];
    int ended = 1;
    pid_t pid;

    line[0] = '\0';
    if (pipe(ends) != 0)
        return;
    child.output = ends[1];
    pid = dev_spawn(&child);
    (void)close(ends[1]);
    line[read_all(ends[0], line, line_size - 1)] = '\0';
    (void)close(ends[0]);
    while (pid > 0 && waitpid(pid, &ended, 0) < 0)
        if (errno != EINTR)
            break;
    line[strcspn(line, "\n")] = '\0';
    if (ended != 0)
        line[0] = '\0';
}
