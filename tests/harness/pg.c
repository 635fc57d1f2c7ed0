/* pg.c - see pg.h. */
#include "tests/harness/pg.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/mem.h"

#include "common/banned.h"

enum {
    PATH_BYTES = 300,
    WORDS_MAX = 20,
    START_TRIES = 300,
    TRY_PAUSE_MS = 100,
};

struct pg {
    char folder[PATH_BYTES / 4]; /* short: the socket's path is limited */
    char bin[PATH_BYTES];
    char conninfo[PG_CONNINFO_BYTES];
    pid_t guard;
    int guard_pipe; /* the guard acts when this is closed */
};

/* --- running programs ----------------------------------------------------- */

/* PostgreSQL refuses root: be user postgres then. */
static void
drop_root(void)
{
    const struct passwd *user;

    if (geteuid() != 0)
        return;
    user = getpwnam("postgres");
    if (user == NULL || setgroups(1, &user->pw_gid) != 0 ||
        setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0)
        _exit(126);
}

/* Run @words with output to the log; true when it exits 0. */
static bool
run(const struct pg *pg, const char *const *words)
{
    char log[PATH_BYTES];
    int result = 0;
    pid_t child = fork();

    if (child < 0)
        return false;
    if (child == 0) {
        int out;

        (void)snprintf(log, sizeof(log), "%s/log", pg->folder);
        drop_root();
        out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
        if (out < 0 || chdir(pg->folder) != 0 || dup2(out, 1) < 0 ||
            dup2(out, 2) < 0)
            _exit(126);
        execvp(words[0], (char *const *)(uintptr_t)words);
        _exit(127);
    }
    while (waitpid(child, &result, 0) < 0)
        if (errno != EINTR)
            return false;
    return WIFEXITED(result) && WEXITSTATUS(result) == 0;
}

static bool
run_program(const struct pg *pg, const char *program, const char *const *args)
{
    const char *words[WORDS_MAX] = {NULL};
    char path[PATH_BYTES * 2];

    (void)snprintf(path, sizeof(path), "%s/%s", pg->bin, program);
    words[0] = path;
    for (int i = 0; args[i] != NULL && i + 2 < WORDS_MAX; i++)
        words[i + 1] = args[i];
    return run(pg, words);
}

/* --- finding the programs ------------------------------------------------- */

static bool
has_programs(const char *folder)
{
    char path[PATH_BYTES * 2];

    (void)snprintf(path, sizeof(path), "%s/pg_ctl", folder);
    return access(path, X_OK) == 0;
}

static bool
find_by_config(char bin[static PATH_BYTES])
{
    FILE *pipe = popen("pg_config --bindir 2>/dev/null", "r");
    bool found;

    if (pipe == NULL)
        return false;
    found = fgets(bin, PATH_BYTES, pipe) != NULL;
    (void)pclose(pipe);
    if (found)
        bin[strcspn(bin, "\n")] = '\0';
    return found && has_programs(bin);
}

static bool
find_by_pattern(const char *pattern, char bin[static PATH_BYTES])
{
    glob_t matches = {0};
    bool found = false;

    if (glob(pattern, 0, NULL, &matches) != 0)
        return false;
    for (size_t i = matches.gl_pathc; i-- > 0 && !found;) { /* newest first */
        (void)snprintf(bin, PATH_BYTES, "%s", matches.gl_pathv[i]);
        found = has_programs(bin);
    }
    globfree(&matches);
    return found;
}

static bool
find_programs(char bin[static PATH_BYTES])
{
    return find_by_config(bin) ||
           find_by_pattern("/usr/lib/postgresql/*/bin", bin) ||
           find_by_pattern("/opt/homebrew/opt/postgresql@*/bin", bin) ||
           find_by_pattern("/usr/local/opt/postgresql@*/bin", bin);
}

/* --- the cluster ---------------------------------------------------------- */

static bool
folder_make_private(struct pg *pg)
{
    (void)snprintf(pg->folder, sizeof(pg->folder), "/tmp/berth-pg-XXXXXX");
    if (mkdtemp(pg->folder) == NULL)
        return false;
    if (geteuid() == 0) {
        const struct passwd *user = getpwnam("postgres");

        if (user == NULL || chown(pg->folder, user->pw_uid, user->pw_gid) != 0)
            return false;
    }
    return true;
}

static bool
write_settings(const struct pg *pg, bool durable)
{
    char path[PATH_BYTES];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/data/postgresql.conf", pg->folder);
    file = fopen(path, "a");
    if (file == NULL)
        return false;
    (void)fprintf(file,
                  "listen_addresses = ''\n"
                  "unix_socket_directories = '%s'\n"
                  "max_connections = 60\n",
                  pg->folder);
    if (!durable)
        (void)fprintf(file, "fsync = off\nfull_page_writes = off\n");
    return fclose(file) == 0;
}

static bool
cluster_make(const struct pg *pg, bool durable)
{
    static const char *const initdb[] = {
        "-D", "data", "-U",         "berth", "-A", "trust",
        "-E", "UTF8", "--locale=C", "-N",    NULL,
    };

    return run_program(pg, "initdb", initdb) && write_settings(pg, durable);
}

static bool
server_start(const struct pg *pg)
{
    static const char *const start[] = {
        "-D", "data", "-w", "-t", "60", "-l", "server.log", "start", NULL,
    };

    return run_program(pg, "pg_ctl", start);
}

/* --- the guard ------------------------------------------------------------ */

static void
clean_up(const struct pg *pg)
{
    static const char *const stop[] = {
        "-D", "data", "-w", "-m", "immediate", "stop", NULL,
    };
    const char *const remove_all[] = {"rm", "-rf", pg->folder, NULL};

    (void)run_program(pg, "pg_ctl", stop);
    (void)run(pg, remove_all);
    (void)rmdir(pg->folder);
}

static bool
guard_start(struct pg *pg)
{
    int ends[2];

    if (pipe(ends) != 0)
        return false;
    (void)fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    (void)fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    pg->guard = fork();
    if (pg->guard == 0) {
        char byte;
        int null = open("/dev/null", O_RDWR);

        (void)setpgid(0, 0); /* not ended together with the test */
        (void)signal(SIGINT, SIG_IGN);
        (void)signal(SIGTERM, SIG_IGN);
        (void)signal(SIGHUP, SIG_IGN);
        (void)close(ends[1]);
        (void)dup2(null, 1); /* whoever reads the test's output need not wait */
        (void)dup2(null, 2);
        while (read(ends[0], &byte, 1) < 0 && errno == EINTR)
            ;
        clean_up(pg);
        _exit(0);
    }
    (void)close(ends[0]);
    pg->guard_pipe = ends[1];
    return pg->guard > 0;
}

/* --- public --------------------------------------------------------------- */

static struct pg *
complain(struct pg *pg, const char *what)
{
    (void)fprintf(stderr, "pg: %s\n", what);
    pg_stop(pg);
    return NULL;
}

struct pg *
pg_start(bool durable)
{
    struct pg *pg = mem_alloc(sizeof(*pg));

    pg->guard_pipe = -1;
    if (!find_programs(pg->bin))
        return complain(pg, "no PostgreSQL found: install its server");
    if (!folder_make_private(pg))
        return complain(pg, "cannot make a folder under /tmp");
    if (!guard_start(pg))
        return complain(pg, "cannot start the guard process");
    if (!cluster_make(pg, durable))
        return complain(pg, "initdb failed");
    if (!server_start(pg))
        return complain(pg, "the server does not start");
    (void)snprintf(pg->conninfo, sizeof(pg->conninfo),
                   "host=%s user=berth dbname=postgres", pg->folder);
    return pg;
}

const char *
pg_conninfo(const struct pg *pg)
{
    return pg->conninfo;
}

bool
pg_database(struct pg *pg, const char *name,
            char conninfo[static PG_CONNINFO_BYTES])
{
    const char *const args[] = {"-h", pg->folder, "-U", "berth", name, NULL};

    (void)snprintf(conninfo, PG_CONNINFO_BYTES, "host=%s user=berth dbname=%s",
                   pg->folder, name);
    return run_program(pg, "createdb", args);
}

static pid_t
server_pid(const struct pg *pg)
{
    char path[PATH_BYTES];
    FILE *file;
    int pid = 0;

    (void)snprintf(path, sizeof(path), "%s/data/postmaster.pid", pg->folder);
    file = fopen(path, "r");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%d", &pid) != 1)
        pid = 0;
    (void)fclose(file);
    return pid;
}

void
pg_kill(struct pg *pg)
{
    pid_t pid = server_pid(pg);

    assert(pid > 1);
    (void)kill(pid, SIGKILL);
}

bool
pg_resume(struct pg *pg)
{
    const struct timespec pause = {.tv_nsec = TRY_PAUSE_MS * 1000000L};

    /* It does not start before the last child of the killed one is gone. */
    for (int i = 0; i < START_TRIES; i++) {
        if (server_start(pg))
            return true;
        (void)nanosleep(&pause, NULL);
    }
    return false;
}

void
pg_stop(struct pg *pg)
{
    if (pg == NULL)
        return;
    if (pg->guard_pipe >= 0) {
        (void)close(pg->guard_pipe);
        while (waitpid(pg->guard, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    free(pg);
}
