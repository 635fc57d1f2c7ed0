/* dev_cluster.c - initdb, the postmaster and the thread that watches it. */
#include "coordinator/dev_cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/units.h"
#include "common/banned.h"

enum {
    POLL_MS = 20,
    READY_MAX_S = 120, /* recovery after a crash may take a while */
    FAST_STOP_S = 10,
    QUICK_STOP_S = 5,
    BACKOFF_FIRST_MS = 200,
    BACKOFF_MAX_MS = 10000,
    STEADY_S = 60, /* a server that lived so long starts the back-off anew */
    LOG_TAIL_BYTES = 300,
    PID_FILE_MAX_BYTES = 4096,
    NOBODYS_PID = 999999999, /* above what Linux and macOS give */
    LOG_MAX_BYTES = 64 * 1024 * 1024,
};

struct dev_cluster {
    struct dev_place place;
    char log[CONFIG_PATH_BYTES];
    int output; /* the log, open for appending */
    pthread_t thread;
    pthread_mutex_t mutex; /* of everything below */
    pthread_cond_t changed;
    bool stopping;
    bool started; /* the first start has ended, well or not */
    enum status start_status;
    struct error start_error;
};

static struct span
until(int64_t seconds)
{
    return span_add(clock_monotonic(), span_s(seconds));
}

static bool
is_past(struct span deadline)
{
    return clock_monotonic().ns >= deadline.ns;
}

static void
pause_ms(long ms)
{
    struct timespec pause = {.tv_sec = ms / 1000,
                             .tv_nsec = ms % 1000 * 1000000};

    (void)nanosleep(&pause, NULL);
}

static bool
is_stopping(struct dev_cluster *cluster)
{
    bool stopping;

    pthread_mutex_lock(&cluster->mutex);
    stopping = cluster->stopping;
    pthread_mutex_unlock(&cluster->mutex);
    return stopping;
}

/* --- the lock that the server holds -----------------------------------------
 */

/* Open the lock file and try to take it; -1 with errno EWOULDBLOCK when a
 * server lives.  @pid gets the number in it, 0 when there is none. */
static int
lock_take(const char *path, pid_t *pid)
{
    char text[24] = "";
    uint64_t number = 0;
    int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    ssize_t got;

    *pid = 0;
    if (fd < 0)
        return -1;
    got = pread(fd, text, sizeof(text) - 1, 0);
    if (got > 0 && parse_u64(text, strspn(text, "0123456789"), INT32_MAX,
                             &number) == STATUS_OK)
        *pid = (pid_t)number;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        int reason = errno;

        (void)close(fd);
        errno = reason;
        return -1;
    }
    return fd;
}

static bool
lock_write(int fd, pid_t pid)
{
    char text[24];
    int size = snprintf(text, sizeof(text), "%ld\n", (long)pid);

    return ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)size, 0) == size;
}

/* Take the lock within @seconds, polling while another server ends. */
static int
lock_wait(const char *path, int64_t seconds, pid_t *pid)
{
    struct span deadline = until(seconds);
    int fd = lock_take(path, pid);

    while (fd < 0 && errno == EWOULDBLOCK && !is_past(deadline)) {
        pause_ms(POLL_MS);
        fd = lock_take(path, pid);
    }
    return fd;
}

/* Take the lock, ending a server that a killed coordinator left behind.  Its
 * number is good: while the lock is held, its writer's child lives. */
static int
lock_take_over(const struct dev_place *place, struct error *err)
{
    static const struct {
        int signal;
        int64_t seconds;
    } steps[] = {{SIGINT, FAST_STOP_S},
                 {SIGQUIT, QUICK_STOP_S},
                 {SIGKILL, QUICK_STOP_S}};
    char reason[128];
    pid_t pid;
    int fd = lock_take(place->lock, &pid);

    for (size_t i = 0; i < COUNT_OF(steps) && fd < 0 && errno == EWOULDBLOCK;
         i++) {
        log_info("dev.database.orphan", "pid=%ld signal=%d", (long)pid,
                 steps[i].signal);
        if (pid > 1)
            (void)kill(pid, steps[i].signal);
        fd = lock_wait(place->lock, steps[i].seconds, &pid);
    }
    if (fd < 0)
        error_set(err, STATUS_INTERNAL, "%s: %s", place->lock,
                  error_errno(errno, reason, sizeof(reason)));
    return fd;
}

/* --- initdb -----------------------------------------------------------------
 */

/* The last line of the log goes into the error: it says what is wrong. */
static enum status
failed_with_log(const struct dev_cluster *cluster, const char *what,
                struct error *err)
{
    char tail[LOG_TAIL_BYTES] = "";
    int fd = open(cluster->log, O_RDONLY | O_CLOEXEC);
    struct stat seen;
    const char *line = tail;

    if (fd >= 0 && fstat(fd, &seen) == 0) {
        off_t from = seen.st_size - (off_t)sizeof(tail) + 1;
        ssize_t got = pread(fd, tail, sizeof(tail) - 1, from > 0 ? from : 0);

        if (got < 0)
            got = 0;
        while (got > 0 && tail[got - 1] == '\n')
            got--;
        tail[got] = '\0';
        line = strrchr(tail, '\n') == NULL ? tail : strrchr(tail, '\n') + 1;
    }
    if (fd >= 0)
        (void)close(fd);
    return error_set(err, STATUS_INTERNAL, "%s: %.200s (see %s)", what, line,
                     cluster->log);
}

static enum status
run_initdb(const struct dev_cluster *cluster, const char *fresh,
           struct error *err)
{
    char program[CONFIG_PATH_BYTES];
    const char *const remove[] = {"/bin/rm", "-rf", "--", fresh, NULL};
    const char *const make[] = {program,
                                "--pgdata",
                                fresh,
                                "--username=berth",
                                "--auth-local=trust",
                                "--auth-host=reject",
                                "--encoding=UTF8",
                                "--locale=C",
                                "--data-checksums",
                                "--no-instructions",
                                NULL};
    struct dev_child child = {.argv = remove,
                              .user = cluster->place.user,
                              .output = cluster->output,
                              .keep = -1,
                              .own_session = true};
    enum status status = dev_path(program, sizeof(program), err, "%s/initdb",
                                  cluster->place.programs);

    if (status == STATUS_OK)
        status = dev_run(&child, err); /* what a killed initdb left */
    child.argv = make;
    if (status == STATUS_OK && dev_run(&child, err) != STATUS_OK)
        status = failed_with_log(cluster, "initdb failed", err);
    return status;
}

/* A folder named data is a whole cluster: it is made beside and renamed. */
static enum status
make_cluster(const struct dev_cluster *cluster, struct error *err)
{
    char fresh[CONFIG_PATH_BYTES];
    char reason[128];
    struct stat seen;
    enum status status;

    if (stat(cluster->place.data, &seen) == 0)
        return STATUS_OK;
    status = dev_path(fresh, sizeof(fresh), err, "%s.new", cluster->place.data);
    if (status == STATUS_OK)
        status = run_initdb(cluster, fresh, err);
    if (status == STATUS_OK && rename(fresh, cluster->place.data) != 0)
        status = error_set(err, STATUS_INTERNAL, "%s: %s", cluster->place.data,
                           error_errno(errno, reason, sizeof(reason)));
    return status;
}

/* --- the server -------------------------------------------------------------
 */

/* Has the server written "ready" into the status line of its pid file? */
static bool
is_ready(const struct dev_cluster *cluster, pid_t pid)
{
    enum { STATUS_LINE = 8 };
    char path[CONFIG_PATH_BYTES];
    struct buf text;
    bool ready = false;

    buf_init(&text, PID_FILE_MAX_BYTES);
    if (dev_path(path, sizeof(path), NULL, "%s/postmaster.pid",
                 cluster->place.data) == STATUS_OK &&
        buf_read_file(&text, path, NULL) == STATUS_OK) {
        const char *line = text.data;
        uint64_t number = 0;

        ready = parse_u64(line, strcspn(line, "\n"), INT32_MAX, &number) ==
                    STATUS_OK &&
                number == (uint64_t)pid;
        for (int i = 1; i < STATUS_LINE && line != NULL; i++) {
            line = strchr(line, '\n');
            line = line == NULL ? NULL : line + 1;
        }
        ready = ready && line != NULL && strncmp(line, "ready", 5) == 0;
    }
    buf_clear(&text);
    return ready;
}

/* Has it ended?  Reaps it. */
static bool
has_ended(pid_t pid)
{
    int how;
    pid_t got = waitpid(pid, &how, WNOHANG);

    return got == pid || (got < 0 && errno == ECHILD);
}

static pid_t
spawn_server(const struct dev_cluster *cluster, int lock)
{
    char program[CONFIG_PATH_BYTES];
    char port[16];
    const char *const argv[] = {program,
                                "-D",
                                cluster->place.data,
                                "-k",
                                cluster->place.socket,
                                "-p",
                                port,
                                "-c",
                                "listen_addresses=",
                                "-c",
                                "unix_socket_permissions=0700",
                                "-c",
                                "fsync=on",
                                "-c",
                                "logging_collector=off",
                                NULL};
    struct dev_child child = {.argv = argv,
                              .user = cluster->place.user,
                              .output = cluster->output,
                              .keep = lock,
                              .die_with = SIGINT,
                              .own_session = true};

    (void)snprintf(port, sizeof(port), "%d", DEV_PORT);
    if (dev_path(program, sizeof(program), NULL, "%s/postgres",
                 cluster->place.programs) != STATUS_OK)
        return -1;
    return dev_spawn(&child);
}

/* The lock was free, so no server lives, whatever its pid file says; after a
 * restart of the machine the number may be another process's.  The file stays,
 * for by what else is in it the server finds the shared memory of the one
 * before, waits for processes that still use it and frees it; the number
 * becomes one that no process has. */
static void
pid_file_claim(const struct dev_cluster *cluster)
{
    char path[CONFIG_PATH_BYTES];
    struct buf text;
    const char *rest;
    FILE *file = NULL;

    buf_init(&text, PID_FILE_MAX_BYTES);
    if (dev_path(path, sizeof(path), NULL, "%s/postmaster.pid",
                 cluster->place.data) == STATUS_OK &&
        buf_read_file(&text, path, NULL) == STATUS_OK)
        file = fopen(path, "r+"); /* in place: its owner stays */
    if (file != NULL) {
        rest = strchr(text.data, '\n');
        if (fprintf(file, "%d%s", NOBODYS_PID, rest == NULL ? "\n" : rest) <
                0 ||
            fflush(file) != 0 ||
            ftruncate(fileno(file), (off_t)ftell(file)) != 0)
            log_warn("dev.database.pid_file", "path=%s errno=%d", path, errno);
        (void)fclose(file);
    }
    buf_clear(&text);
}

/* Start the server under @lock, which is given up to it. */
static pid_t
start_server(const struct dev_cluster *cluster, int lock)
{
    pid_t pid;

    pid_file_claim(cluster);
    /* All runs append to one log; it is only for people. */
    if (lseek(cluster->output, 0, SEEK_END) > LOG_MAX_BYTES &&
        ftruncate(cluster->output, 0) != 0)
        log_warn("dev.database.log", "path=%s", cluster->log);
    pid = spawn_server(cluster, lock);
    if (pid > 0)
        (void)lock_write(lock, pid);
    (void)close(lock);
    return pid;
}

/* Fast shutdown; when that takes too long the server ends at once and recovers
 * at the next start. */
static void
stop_server(pid_t pid)
{
    struct span deadline = until(FAST_STOP_S);
    struct span last = until(FAST_STOP_S + QUICK_STOP_S);
    bool asked_again = false;

    (void)kill(pid, SIGINT);
    while (!has_ended(pid)) {
        if (!asked_again && is_past(deadline)) {
            asked_again = true;
            (void)kill(pid, SIGQUIT);
        }
        if (is_past(last))
            (void)kill(pid, SIGKILL);
        pause_ms(POLL_MS);
    }
    log_info("dev.database.stopped", "pid=%ld", (long)pid);
}

/* Failed: the server has ended. */
static enum status
wait_ready(struct dev_cluster *cluster, pid_t pid, struct error *err)
{
    struct span deadline = until(READY_MAX_S);

    while (!is_ready(cluster, pid)) {
        if (has_ended(pid))
            return failed_with_log(cluster, "PostgreSQL did not start", err);
        if (is_stopping(cluster))
            return STATUS_OK; /* the caller sees it too */
        if (is_past(deadline)) {
            stop_server(pid);
            return failed_with_log(cluster, "PostgreSQL is not ready", err);
        }
        pause_ms(POLL_MS);
    }
    log_info("dev.database.started", "pid=%ld socket=%s", (long)pid,
             cluster->place.socket);
    return STATUS_OK;
}

/* --- the watcher ------------------------------------------------------------
 */

static void
report_start(struct dev_cluster *cluster, enum status status,
             const struct error *err)
{
    pthread_mutex_lock(&cluster->mutex);
    if (!cluster->started) {
        cluster->started = true;
        cluster->start_status = status;
        cluster->start_error = *err;
    }
    pthread_cond_broadcast(&cluster->changed);
    pthread_mutex_unlock(&cluster->mutex);
}

/* Start and watch until it ends or we stop.  STATUS_OK when it had started. */
static enum status
serve_once(struct dev_cluster *cluster, int lock, struct error *err)
{
    pid_t pid = start_server(cluster, lock);
    enum status status = STATUS_OK;

    if (pid < 0)
        status = error_set(err, STATUS_INTERNAL, "cannot start PostgreSQL");
    else
        status = wait_ready(cluster, pid, err);
    report_start(cluster, status, err);
    if (status != STATUS_OK)
        return status;
    while (!has_ended(pid)) {
        if (is_stopping(cluster)) {
            stop_server(pid);
            return STATUS_OK;
        }
        pause_ms(POLL_MS);
    }
    return STATUS_OK;
}

static void
back_off(struct dev_cluster *cluster, int64_t *ms, struct span born)
{
    struct span deadline;

    if (clock_monotonic().ns - born.ns > span_s(STEADY_S).ns)
        *ms = BACKOFF_FIRST_MS;
    deadline = span_add(clock_monotonic(), span_ms(*ms));
    while (!is_past(deadline) && !is_stopping(cluster))
        pause_ms(POLL_MS);
    *ms = *ms * 2 < BACKOFF_MAX_MS ? *ms * 2 : BACKOFF_MAX_MS;
}

/* The thread: it forks every server, so that the kernel's notice of a dead
 * parent, which goes by thread, comes when the coordinator dies. */
static void *
watch(void *arg)
{
    struct dev_cluster *cluster = arg;
    int64_t backoff_ms = BACKOFF_FIRST_MS;
    bool first = true;

    while (!is_stopping(cluster)) {
        struct span born = clock_monotonic();
        struct error err = {0};
        int lock = lock_take_over(&cluster->place, &err);
        enum status status = STATUS_INTERNAL;

        if (lock >= 0)
            status = serve_once(cluster, lock, &err);
        else
            report_start(cluster, status, &err);
        if (is_stopping(cluster) || (first && status != STATUS_OK))
            break;
        first = false;
        log_warn("dev.database.died", "restart_ms=%" PRId64 " why=\"%s\"",
                 backoff_ms, err.text);
        back_off(cluster, &backoff_ms, born);
    }
    return NULL;
}

/* --- open and close ---------------------------------------------------------
 */

static enum status
start_watching(struct dev_cluster *cluster, struct error *err)
{
    sigset_t all;
    sigset_t before;
    int failure;

    sigfillset(&all); /* signals are the main thread's business */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failure = pthread_create(&cluster->thread, NULL, watch, cluster);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure != 0)
        return error_set(err, STATUS_INTERNAL, "cannot start a thread");
    pthread_mutex_lock(&cluster->mutex);
    while (!cluster->started)
        pthread_cond_wait(&cluster->changed, &cluster->mutex);
    pthread_mutex_unlock(&cluster->mutex);
    if (cluster->start_status != STATUS_OK) {
        (void)pthread_join(cluster->thread, NULL);
        if (err != NULL)
            *err = cluster->start_error;
    }
    return cluster->start_status;
}

static void
free_cluster(struct dev_cluster *cluster)
{
    if (cluster->output >= 0)
        (void)close(cluster->output);
    pthread_cond_destroy(&cluster->changed);
    pthread_mutex_destroy(&cluster->mutex);
    free(cluster);
}

enum status
dev_cluster_open(const struct dev_place *place, struct dev_cluster **cluster,
                 struct error *err)
{
    struct dev_cluster *made = mem_alloc(sizeof(*made));
    char reason[128];
    enum status status;

    made->place = *place;
    made->output = -1;
    pthread_mutex_init(&made->mutex, NULL);
    pthread_cond_init(&made->changed, NULL);
    status = dev_path(made->log, sizeof(made->log), err, "%s/postgresql.log",
                      place->dir);
    if (status != STATUS_OK)
        goto out;
    made->output =
        open(made->log, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (made->output < 0) {
        status = error_set(err, STATUS_INTERNAL, "%s: %s", made->log,
                           error_errno(errno, reason, sizeof(reason)));
        goto out;
    }
    status = make_cluster(made, err);
    if (status == STATUS_OK)
        status = start_watching(made, err);

out:
    if (status == STATUS_OK)
        *cluster = made;
    else
        free_cluster(made);
    return status;
}

void
dev_cluster_close(struct dev_cluster *cluster)
{
    if (cluster == NULL)
        return;
    pthread_mutex_lock(&cluster->mutex);
    cluster->stopping = true;
    pthread_mutex_unlock(&cluster->mutex);
    (void)pthread_join(cluster->thread, NULL);
    free_cluster(cluster);
}
