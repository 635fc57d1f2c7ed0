/* dev_place.c - folders, user and programs of the private PostgreSQL. */
#include "coordinator/dev_place.h"

#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/units.h"
#include "common/banned.h"

#define ROOT_CLUSTERS "/var/lib/berth-dev"

enum { POSTGRES_MIN = 15, CLUSTER_FILE_MAX_BYTES = 4096 };

enum status
dev_path(char *path, size_t size, struct error *err, const char *format, ...)
{
    va_list args;
    int needed;

    va_start(args, format);
    needed = vsnprintf(path, size, format, args);
    va_end(args);
    if (needed < 0 || (size_t)needed >= size)
        return error_set(err, STATUS_TOO_LARGE,
                         "the folder's path is too long: at most %zu bytes",
                         size - 1);
    return STATUS_OK;
}

/* --- programs ---------------------------------------------------------------
 */

/* The major version of @folder/postgres; 0 when it is not there. */
static uint64_t
version_at(const char *folder)
{
    char program[CONFIG_PATH_BYTES];
    char line[128];
    const char *const argv[] = {program, "--version", NULL};
    const char *digits;
    uint64_t version;

    if (dev_path(program, sizeof(program), NULL, "%s/initdb", folder) !=
            STATUS_OK ||
        access(program, X_OK) != 0 ||
        dev_path(program, sizeof(program), NULL, "%s/postgres", folder) !=
            STATUS_OK ||
        access(program, X_OK) != 0)
        return 0;
    dev_capture(argv, line, sizeof(line)); /* "postgres (PostgreSQL) 15.4" */
    digits = line + strcspn(line, "0123456789");
    if (parse_u64(digits, strspn(digits, "0123456789"), 1000, &version) !=
        STATUS_OK)
        return 0;
    return version;
}

/* Take @folder when its version is the wanted one (0: any that will do). */
static bool
try_programs(const char *folder, uint64_t wanted, struct dev_place *place)
{
    uint64_t version = version_at(folder);

    if (version < POSTGRES_MIN || (wanted != 0 && version != wanted))
        return false;
    return dev_path(place->programs, sizeof(place->programs), NULL, "%s",
                    folder) == STATUS_OK;
}

static bool
try_pattern(const char *pattern, uint64_t wanted, struct dev_place *place)
{
    glob_t found;
    bool taken = false;

    if (glob(pattern, 0, NULL, &found) != 0)
        return false;
    /* Sorted by name: the last is the newest. */
    for (size_t i = found.gl_pathc; i > 0 && !taken; i--)
        taken = try_programs(found.gl_pathv[i - 1], wanted, place);
    globfree(&found);
    return taken;
}

/* The version that made the cluster; 0 when there is none yet. */
static uint64_t
version_of_data(const char *data)
{
    char path[CONFIG_PATH_BYTES];
    struct buf text;
    uint64_t version = 0;

    buf_init(&text, 64);
    if (dev_path(path, sizeof(path), NULL, "%s/PG_VERSION", data) !=
            STATUS_OK ||
        buf_read_file(&text, path, NULL) != STATUS_OK ||
        parse_u64(text.data, strcspn(text.data, "\n"), 1000, &version) !=
            STATUS_OK)
        version = 0;
    buf_clear(&text);
    return version;
}

static enum status
find_programs(struct dev_place *place, struct error *err)
{
    static const char *const ask[] = {"/usr/bin/env", "pg_config", "--bindir",
                                      NULL};
    static const char *const patterns[] = {
        "/usr/lib/postgresql/*/bin",
        "/usr/pgsql-*/bin",
        "/opt/homebrew/opt/postgresql@*/bin",
        "/opt/homebrew/bin",
        "/usr/local/opt/postgresql@*/bin",
        "/usr/local/pgsql/bin",
        "/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",
        "/usr/local/bin",
        "/usr/bin",
    };
    uint64_t wanted = version_of_data(place->data);
    char folder[CONFIG_PATH_BYTES];

    dev_capture(ask, folder, sizeof(folder));
    if (folder[0] == '/' && try_programs(folder, wanted, place))
        return STATUS_OK;
    for (size_t i = 0; i < COUNT_OF(patterns); i++)
        if (try_pattern(patterns[i], wanted, place))
            return STATUS_OK;
    if (wanted != 0)
        return error_set(err, STATUS_INVALID,
                         "%s needs the server of PostgreSQL %" PRIu64
                         ", which is not installed: run make deps",
                         place->data, wanted);
    return error_set(err, STATUS_INVALID,
                     "no server of PostgreSQL %d or newer found: run make deps",
                     POSTGRES_MIN);
}

/* --- folders ----------------------------------------------------------------
 */

static enum status
failed(const char *what, const char *path, struct error *err)
{
    char reason[128];

    return error_set(err, STATUS_INTERNAL, "cannot %s %s: %s", what, path,
                     error_errno(errno, reason, sizeof(reason)));
}

/* A folder that must be @owner's own and closed to others. */
static enum status
check_private(const char *path, uid_t owner, struct error *err)
{
    struct stat seen;

    if (lstat(path, &seen) != 0)
        return error_set(err, STATUS_NOT_FOUND, "%s is not there", path);
    if (!S_ISDIR(seen.st_mode) || seen.st_uid != owner ||
        (seen.st_mode & 077) != 0)
        return error_set(err, STATUS_DENIED,
                         "%s is not a private folder of user %ld", path,
                         (long)owner);
    return STATUS_OK;
}

/* A new folder of the other user, in a place that only root can write. */
static enum status
make_root_folder(struct dev_place *place, struct error *err)
{
    struct stat seen;

    if (mkdir(ROOT_CLUSTERS, 0711) != 0 && errno != EEXIST)
        return failed("make", ROOT_CLUSTERS, err);
    if (lstat(ROOT_CLUSTERS, &seen) != 0 || !S_ISDIR(seen.st_mode) ||
        seen.st_uid != 0 || (seen.st_mode & 022) != 0)
        return error_set(err, STATUS_DENIED, "%s must be root's alone",
                         ROOT_CLUSTERS);
    (void)chmod(ROOT_CLUSTERS, 0711); /* whatever the umask was */
    (void)snprintf(place->folder, sizeof(place->folder), "%s",
                   ROOT_CLUSTERS "/XXXXXX");
    if (mkdtemp(place->folder) == NULL)
        return failed("make", place->folder, err);
    if (chown(place->folder, place->user.uid, place->user.gid) != 0)
        return failed("give away", place->folder, err);
    return STATUS_OK;
}

static enum status
make_folder(struct dev_place *place, struct error *err)
{
    enum status status;

    if (place->user.change)
        return make_root_folder(place, err);
    status = dev_path(place->folder, sizeof(place->folder), err,
                      "%s/postgresql", place->dir);
    if (status == STATUS_OK)
        status = folder_make(place->folder, 0700, err);
    return status;
}

/* May a socket live in @folder?  Its name must fit, and in the lists of
 * PostgreSQL's and libpq's settings some characters have a meaning. */
static bool
fits_socket(const char *folder)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-";
    size_t size = strlen(folder);

    return size + sizeof("/.s.PGSQL.65535") <=
               sizeof(((struct sockaddr_un *)0)->sun_path) &&
           size < DEV_SOCKET_FOLDER_BYTES && strspn(folder, plain) == size;
}

static enum status
choose_socket(struct dev_place *place, struct error *err)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    char folder[CONFIG_PATH_BYTES] = "";

    if (fits_socket(place->folder)) {
        (void)snprintf(place->socket, sizeof(place->socket), "%.*s",
                       (int)sizeof(place->socket) - 1, place->folder);
        return STATUS_OK;
    }
    if (runtime != NULL && runtime[0] == '/')
        (void)snprintf(folder, sizeof(folder), "%s/berth-XXXXXX", runtime);
    if (!fits_socket(folder) || mkdtemp(folder) == NULL) {
        (void)snprintf(folder, sizeof(folder), "/tmp/berth-XXXXXX");
        if (mkdtemp(folder) == NULL)
            return failed("make", folder, err);
    }
    (void)snprintf(place->socket, sizeof(place->socket), "%.*s",
                   (int)sizeof(place->socket) - 1, folder);
    place->socket_apart = true;
    return STATUS_OK;
}

/* A socket folder apart, if it is still ours: /tmp is everybody's. */
static void
remove_socket_folder(const char *folder)
{
    static const char *const names[] = {".s.PGSQL.5432", ".s.PGSQL.5432.lock"};
    char path[CONFIG_PATH_BYTES];

    if (check_private(folder, geteuid(), NULL) != STATUS_OK)
        return;
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (dev_path(path, sizeof(path), NULL, "%s/%s", folder, names[i]) ==
            STATUS_OK)
            (void)unlink(path);
    (void)rmdir(folder);
}

void
dev_place_leave(const struct dev_place *place)
{
    if (place->socket_apart)
        remove_socket_folder(place->socket);
}

/* --- DIR/cluster ------------------------------------------------------------
 */

/* The cluster folder that DIR names, "" when none; a socket folder left by a
 * killed run is removed. */
static enum status
read_cluster_file(const char *path, struct dev_place *place, struct error *err)
{
    struct buf text;
    enum status status;

    buf_init(&text, CLUSTER_FILE_MAX_BYTES);
    status = buf_read_file(&text, path, err);
    if (status == STATUS_NOT_FOUND) {
        status = STATUS_OK;
    } else if (status == STATUS_OK) {
        const char *second = text.data + strcspn(text.data, "\n");

        status = dev_path(place->folder, sizeof(place->folder), err, "%.*s",
                          (int)(second - text.data), text.data);
        second += *second == '\n';
        text.data[(size_t)(second - text.data) + strcspn(second, "\n")] = '\0';
        if (strcmp(second, place->folder) != 0)
            remove_socket_folder(second);
    }
    buf_clear(&text);
    return status;
}

static enum status
write_cluster_file(const char *path, const struct dev_place *place,
                   struct error *err)
{
    struct buf text;
    enum status status;

    buf_init(&text, CLUSTER_FILE_MAX_BYTES);
    buf_printf(&text, "%s\n%s\n", place->folder, place->socket);
    status = buf_status(&text, err);
    if (status == STATUS_OK)
        status = file_write_whole(path, text.data, text.size, 0600, err);
    buf_clear(&text);
    return status;
}

/* Root's: the folder of the last run, while it is there, else a new one.  An
 * ordinary user's is found by its place, so that DIR may be moved. */
static enum status
find_folder(struct dev_place *place, struct error *err)
{
    enum status status = STATUS_NOT_FOUND;

    if (place->user.change && place->folder[0] != '\0')
        status = check_private(place->folder, place->user.uid, err);
    if (status == STATUS_NOT_FOUND)
        status = make_folder(place, err);
    return status;
}

enum status
dev_place_prepare(const char *dir, struct dev_place *place, struct error *err)
{
    char file[CONFIG_PATH_BYTES];
    enum status status;

    *place = (struct dev_place){0};
    status = dev_path(place->dir, sizeof(place->dir), err, "%s", dir);
    if (status == STATUS_OK)
        status = dev_path(file, sizeof(file), err, "%s/cluster", dir);
    if (status == STATUS_OK)
        status = dev_user_choose(&place->user, err);
    if (status == STATUS_OK)
        status = read_cluster_file(file, place, err);
    if (status == STATUS_OK)
        status = find_folder(place, err);
    if (status == STATUS_OK)
        status = dev_path(place->data, sizeof(place->data), err, "%s/data",
                          place->folder);
    if (status == STATUS_OK)
        status = dev_path(place->lock, sizeof(place->lock), err, "%s.lock",
                          place->folder);
    if (status == STATUS_OK)
        status = find_programs(place, err);
    if (status == STATUS_OK)
        status = choose_socket(place, err);
    if (status == STATUS_OK)
        status = write_cluster_file(file, place, err);
    return status;
}
