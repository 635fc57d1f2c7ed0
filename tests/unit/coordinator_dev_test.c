/* coordinator_dev_test.c - the private PostgreSQL, CA and files of --dev.
 *
 * Each claim is tested as the user who runs the test; as root the claims are
 * tested a second time in a child that has become the user postgres. */
#include "coordinator/dev.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <libpq-fe.h>

#include "common/buf.h"
#include "common/cert.h"
#include "common/clock.h"
#include "common/units.h"
#include "common/banned.h"

enum { WAIT_S = 30 };

/* A folder of this test alone, removed at the end. */
struct place {
    char base[512];
    char dir[1024];
};

static const char *base_parent = "/tmp";

static void
place_make(struct place *place, const char *inside)
{
    (void)snprintf(place->base, sizeof(place->base), "%s/berth-test-XXXXXX",
                   base_parent);
    assert_non_null(mkdtemp(place->base));
    (void)snprintf(place->dir, sizeof(place->dir), "%s/%s", place->base,
                   inside);
}

static void
run_remove(const char *path)
{
    pid_t pid = fork();

    if (pid == 0) {
        execl("/bin/rm", "rm", "-rf", "--", path, (char *)NULL);
        _exit(1);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* The first line of DIR/cluster: the folder of the cluster. */
static void
cluster_folder(const struct place *place, char *folder, size_t size)
{
    char path[1100];
    struct buf text;

    buf_init(&text, 4096);
    (void)snprintf(path, sizeof(path), "%s/cluster", place->dir);
    assert_int_equal(buf_read_file(&text, path, NULL), STATUS_OK);
    (void)snprintf(folder, size, "%.*s", (int)strcspn(text.data, "\n"),
                   text.data);
    buf_clear(&text);
}

static void
place_remove(const struct place *place)
{
    char folder[1024];
    char lock[1100];

    cluster_folder(place, folder, sizeof(folder));
    (void)snprintf(lock, sizeof(lock), "%s.lock", folder);
    run_remove(folder);
    run_remove(lock);
    run_remove(place->base);
}

static pid_t
postmaster(const struct place *place)
{
    char folder[1024];
    char path[1100];
    struct buf text;
    uint64_t pid = 0;

    cluster_folder(place, folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/data/postmaster.pid", folder);
    buf_init(&text, 4096);
    if (buf_read_file(&text, path, NULL) != STATUS_OK ||
        parse_u64(text.data, strcspn(text.data, "\n"), INT32_MAX, &pid) !=
            STATUS_OK)
        pid = 0;
    buf_clear(&text);
    return (pid_t)pid;
}

/* One value from the database, "" when it does not answer. */
static void
ask(const struct config *config, const char *sql, char *answer, size_t size)
{
    PGconn *conn = PQconnectdb(config->database);
    PGresult *result = PQexec(conn, sql);

    answer[0] = '\0';
    if (PQresultStatus(result) == PGRES_TUPLES_OK)
        (void)snprintf(answer, size, "%s", PQgetvalue(result, 0, 0));
    else if (PQresultStatus(result) == PGRES_COMMAND_OK)
        (void)snprintf(answer, size, "done");
    PQclear(result);
    PQfinish(conn);
}

static void
check_answer(const struct config *config, const char *sql, const char *wanted)
{
    char answer[256];

    ask(config, sql, answer, sizeof(answer));
    assert_string_equal(answer, wanted);
}

static struct dev *
open_dev(const struct place *place, struct config *config)
{
    struct error err = {0};
    struct dev *dev = NULL;

    memset(config, 0, sizeof(*config));
    if (dev_open(place->dir, config, &dev, &err) != STATUS_OK)
        fail_msg("dev_open: %s", err.text);
    return dev;
}

static unsigned
mode_of(const char *dir, const char *name)
{
    char path[1100];
    struct stat seen;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    assert_int_equal(stat(path, &seen), 0);
    return seen.st_mode & 0777;
}

static void
check_settings(const struct config *config)
{
    check_answer(config, "SHOW listen_addresses", "");
    check_answer(config, "SHOW data_checksums", "on");
    check_answer(config, "SHOW fsync", "on");
    check_answer(config, "SHOW server_encoding", "UTF8");
    check_answer(config,
                 "SELECT datcollate FROM pg_database WHERE datname = "
                 "current_database()",
                 "C");
}

/* --- claims -----------------------------------------------------------------
 */

static void
a_fresh_folder_gets_a_private_database_and_files(void **state)
{
    struct place place;
    struct config config;
    struct dev *dev;

    (void)state;
    place_make(&place, "dev");
    dev = open_dev(&place, &config);
    check_settings(&config);
    assert_int_equal(mode_of(place.dir, "."), 0700);
    assert_int_equal(mode_of(place.dir, "ca.key"), 0600);
    assert_int_equal(mode_of(place.dir, "server.key"), 0600);
    assert_int_equal(mode_of(place.dir, "content-keys"), 0700);
    assert_true(config.dev);
    assert_string_equal(config.https_address, "127.0.0.1");
    dev_close(dev);
    place_remove(&place);
}

static void
a_second_start_reuses_data_and_certificates(void **state)
{
    struct place place;
    struct config config;
    struct config again;
    struct dev *dev;
    struct buf first;
    struct buf second;

    (void)state;
    buf_init(&first, CERT_PEM_MAX_BYTES);
    buf_init(&second, CERT_PEM_MAX_BYTES);
    place_make(&place, "dev");
    dev = open_dev(&place, &config);
    check_answer(&config, "CREATE TABLE kept AS SELECT 42 AS n", "done");
    assert_int_equal(buf_read_file(&first, config.certificate, NULL),
                     STATUS_OK);
    dev_close(dev);
    assert_int_equal(postmaster(&place), 0);

    dev = open_dev(&place, &again);
    check_answer(&again, "SELECT n FROM kept", "42");
    assert_int_equal(buf_read_file(&second, again.certificate, NULL),
                     STATUS_OK);
    assert_string_equal(first.data, second.data);
    dev_close(dev);
    buf_clear(&first);
    buf_clear(&second);
    place_remove(&place);
}

static void
a_path_of_150_characters_with_spaces_works(void **state)
{
    struct place place;
    struct config config;
    struct dev *dev;
    char inside[256];
    size_t wanted;

    (void)state;
    place_make(&place, "");
    wanted = 150 - strlen(place.base) - 1;
    for (size_t i = 0; i < wanted; i++)
        inside[i] = i % 10 == 4 ? ' ' : 'p';
    inside[wanted] = '\0';
    (void)snprintf(place.dir, sizeof(place.dir), "%s/%s", place.base, inside);
    assert_int_equal(strlen(place.dir), 150);
    dev = open_dev(&place, &config);
    check_settings(&config);
    dev_close(dev);
    dev = open_dev(&place, &config);
    check_settings(&config);
    dev_close(dev);
    place_remove(&place);
}

static void
a_killed_server_is_started_again(void **state)
{
    struct place place;
    struct config config;
    struct dev *dev;
    struct span deadline = span_add(clock_monotonic(), span_s(WAIT_S));
    char answer[64] = "";
    pid_t pid;

    (void)state;
    place_make(&place, "dev");
    dev = open_dev(&place, &config);
    check_answer(&config, "CREATE TABLE kept AS SELECT 7 AS n", "done");
    pid = postmaster(&place);
    assert_true(pid > 1);
    assert_int_equal(kill(pid, SIGKILL), 0);
    while (postmaster(&place) == pid || strcmp(answer, "7") != 0) {
        ask(&config, "SELECT n FROM kept", answer, sizeof(answer));
        assert_true(clock_monotonic().ns < deadline.ns);
    }
    dev_close(dev);
    place_remove(&place);
}

static void
a_second_coordinator_of_the_folder_is_told_who_has_it(void **state)
{
    struct place place;
    struct config config;
    struct config second = {0};
    struct dev *dev;
    struct dev *other = NULL;
    struct error err = {0};
    char pid[32];

    (void)state;
    place_make(&place, "dev");
    dev = open_dev(&place, &config);
    assert_int_equal(dev_open(place.dir, &second, &other, &err),
                     STATUS_CONFLICT);
    (void)snprintf(pid, sizeof(pid), "process %ld", (long)getpid());
    assert_non_null(strstr(err.text, pid));
    assert_null(other);
    assert_false(second.dev);
    check_answer(&config, "SELECT 1", "1");
    dev_close(dev);
    place_remove(&place);
}

static void
a_server_left_by_a_killed_coordinator_is_replaced(void **state)
{
    struct place place;
    struct config config;
    struct dev *dev;
    int ready[2];
    char byte;
    pid_t pid;

    (void)state;
    place_make(&place, "dev");
    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        memset(&config, 0, sizeof(config));
        if (dev_open(place.dir, &config, &dev, NULL) == STATUS_OK)
            (void)!write(ready[1], "r", 1);
        for (;;)
            pause();
    }
    (void)close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    (void)close(ready[0]);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);

    dev = open_dev(&place, &config);
    check_answer(&config, "SELECT 1", "1");
    dev_close(dev);
    place_remove(&place);
}

static void
a_folder_in_use_for_something_else_is_refused(void **state)
{
    struct place place;
    struct config config = {0};
    struct dev *dev = NULL;
    char file[1100];
    int fd;

    (void)state;
    place_make(&place, "dev");
    assert_int_equal(mkdir(place.dir, 0755), 0);
    (void)snprintf(file, sizeof(file), "%s/letter", place.dir);
    fd = open(file, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    assert_int_equal(dev_open(place.dir, &config, &dev, NULL), STATUS_DENIED);
    assert_int_equal(mode_of(place.dir, "."), 0755);
    run_remove(place.base);
}

static void
the_env_file_can_be_sourced_and_read_back(void **state)
{
    struct place place;
    struct config config;
    struct dev *dev;
    struct error err = {0};
    char key[64];
    char wanted[1400];
    char path[1100];
    struct buf text;

    (void)state;
    place_make(&place, "it's");
    dev = open_dev(&place, &config);
    assert_int_equal(dev_env_key(dev, key, sizeof(key), &err), STATUS_OK);
    assert_string_equal(key, "");
    assert_int_equal(dev_env_write(dev, "https://localhost:1", "bk_1", &err),
                     STATUS_OK);
    assert_int_equal(dev_env_key(dev, key, sizeof(key), &err), STATUS_OK);
    assert_string_equal(key, "bk_1");
    assert_int_equal(mode_of(place.dir, "env"), 0600);
    (void)snprintf(path, sizeof(path), "%s/env", place.dir);
    (void)snprintf(wanted, sizeof(wanted),
                   "BERTH_URL='https://localhost:1'\n"
                   "BERTH_CA_FILE='%s/it'\\''s/ca.crt'\n"
                   "BERTH_API_KEY='bk_1'\n",
                   place.base);
    buf_init(&text, 4096);
    assert_int_equal(buf_read_file(&text, path, &err), STATUS_OK);
    assert_string_equal(text.data, wanted);
    buf_clear(&text);
    dev_close(dev);
    place_remove(&place);
}

static void
a_folder_under_roots_home_works(void **state)
{
    const char *before = base_parent;

    if (geteuid() != 0)
        skip();
    base_parent = "/root";
    a_fresh_folder_gets_a_private_database_and_files(state);
    base_parent = before;
}

static int
run_claims(const char *as)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fresh_folder_gets_a_private_database_and_files),
        cmocka_unit_test(a_second_start_reuses_data_and_certificates),
        cmocka_unit_test(a_path_of_150_characters_with_spaces_works),
        cmocka_unit_test(a_killed_server_is_started_again),
        cmocka_unit_test(a_second_coordinator_of_the_folder_is_told_who_has_it),
        cmocka_unit_test(a_server_left_by_a_killed_coordinator_is_replaced),
        cmocka_unit_test(a_folder_in_use_for_something_else_is_refused),
        cmocka_unit_test(the_env_file_can_be_sourced_and_read_back),
        cmocka_unit_test(a_folder_under_roots_home_works),
    };

    return cmocka_run_group_tests_name(as, tests, NULL, NULL);
}

/* The same claims in a child without root's powers. */
static int
run_as(const struct passwd *user)
{
    pid_t pid = fork();
    int ended = 1;

    if (pid == 0) {
        if (setgroups(1, &user->pw_gid) != 0 || setgid(user->pw_gid) != 0 ||
            setuid(user->pw_uid) != 0)
            _exit(99);
        exit(run_claims("coordinator_dev, ordinary user"));
    }
    while (waitpid(pid, &ended, 0) < 0 && errno == EINTR)
        continue;
    return ended;
}

int
main(void)
{
    const struct passwd *user = getpwnam("postgres");
    int failed = run_claims("coordinator_dev");

    if (geteuid() == 0 && user != NULL && run_as(user) != 0)
        failed++;
    return failed != 0;
}
