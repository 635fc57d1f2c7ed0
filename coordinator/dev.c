/* dev.c - a folder with everything a coordinator needs to serve developers,
 * tests and the demo. */
#include "coordinator/dev.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/mem.h"
#include "coordinator/dev_certs.h"
#include "coordinator/dev_cluster.h"
#include "coordinator/dev_place.h"
#include "common/banned.h"

enum { ENV_MAX_BYTES = 16384 };

struct dev {
    struct dev_place place;
    struct dev_cluster *cluster;
    int lock; /* one coordinator per folder */
};

/* --- the folder -------------------------------------------------------------
 */

static bool
is_empty(const char *dir)
{
    DIR *folder = opendir(dir);
    const struct dirent *entry;
    bool empty = folder != NULL;

    while (empty && (entry = readdir(folder)) != NULL)
        empty =
            strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    if (folder != NULL)
        (void)closedir(folder);
    return empty;
}

/* Ours and closed to others.  An empty folder is closed; one with files in it
 * may be anything, /tmp or a home, and is left as it is. */
static enum status
close_to_others(const char *dir, struct error *err)
{
    struct stat seen;

    if (stat(dir, &seen) != 0 || seen.st_uid != geteuid())
        return error_set(err, STATUS_DENIED,
                         "%s belongs to another user: name another folder",
                         dir);
    if ((seen.st_mode & 077) == 0)
        return STATUS_OK;
    if (!is_empty(dir) || chmod(dir, 0700) != 0)
        return error_set(err, STATUS_DENIED,
                         "%s is open to other users: chmod 700 it or name a "
                         "new folder",
                         dir);
    return STATUS_OK;
}

/* Make @dir and give its absolute path. */
static enum status
prepare_folder(const char *dir, char *path, size_t path_size, struct error *err)
{
    char reason[128];
    char *whole;
    enum status status = folder_make(dir, 0700, err);

    if (status != STATUS_OK)
        return status;
    whole = realpath(dir, NULL);
    if (whole == NULL)
        return error_set(err, STATUS_INTERNAL, "%s: %s", dir,
                         error_errno(errno, reason, sizeof(reason)));
    status = dev_path(path, path_size, err, "%s", whole);
    if (status == STATUS_OK && strchr(whole, '\n') != NULL)
        status = error_set(err, STATUS_INVALID,
                           "the folder's name holds a line break");
    free(whole);
    if (status == STATUS_OK)
        status = close_to_others(path, err);
    return status;
}

static enum status
take_lock(const char *dir, int *lock, struct error *err)
{
    char path[CONFIG_PATH_BYTES];
    char text[128] = "";
    int size;
    enum status status =
        dev_path(path, sizeof(path), err, "%s/coordinator.lock", dir);

    if (status != STATUS_OK)
        return status;
    *lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (*lock < 0)
        return error_set(err, STATUS_INTERNAL, "%s: %s", path,
                         error_errno(errno, text, sizeof(text)));
    if (flock(*lock, LOCK_EX | LOCK_NB) != 0) {
        if (pread(*lock, text, sizeof(text) - 1, 0) < 0)
            text[0] = '\0';
        text[strspn(text, "0123456789")] = '\0';
        return error_set(err, STATUS_CONFLICT,
                         "another coordinator (process %s) uses %s: stop it "
                         "or name another folder",
                         text, dir);
    }
    size = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
    if (ftruncate(*lock, 0) != 0 ||
        pwrite(*lock, text, (size_t)size, 0) != size)
        return error_set(err, STATUS_INTERNAL, "%s: cannot write", path);
    return STATUS_OK;
}

/* --- open and close ---------------------------------------------------------
 */

static enum status
fill_config(const struct dev_place *place, struct config *config,
            struct error *err)
{
    const struct {
        char *path;
        const char *name;
    } files[] = {
        {config->ca_certificate, "ca.crt"},
        {config->ca_key, "ca.key"},
        {config->certificate, "server.crt"},
        {config->certificate_key, "server.key"},
        {config->content_keys, "content-keys"},
    };
    enum status status = STATUS_OK;

    for (size_t i = 0; i < COUNT_OF(files) && status == STATUS_OK; i++)
        status = dev_path(files[i].path, CONFIG_PATH_BYTES, err, "%s/%s",
                          place->dir, files[i].name);
    if (status == STATUS_OK)
        status = dev_path(config->database, sizeof(config->database), err,
                          "host=%s port=%d user=berth dbname=postgres",
                          place->socket, DEV_PORT);
    (void)snprintf(config->https_address, sizeof(config->https_address),
                   "127.0.0.1");
    (void)snprintf(config->link_address, sizeof(config->link_address),
                   "127.0.0.1");
    config->dev = true;
    return status;
}

enum status
dev_open(const char *dir, struct config *config, struct dev **dev,
         struct error *err)
{
    struct config filled = *config;
    struct dev *made = mem_alloc(sizeof(*made));
    char path[CONFIG_PATH_BYTES];
    enum status status;

    made->lock = -1;
    status = prepare_folder(dir, path, sizeof(path), err);
    if (status == STATUS_OK)
        status = take_lock(path, &made->lock, err);
    if (status == STATUS_OK)
        status = dev_place_prepare(path, &made->place, err);
    if (status == STATUS_OK)
        status = dev_certs_prepare(path, err);
    if (status == STATUS_OK)
        status = fill_config(&made->place, &filled, err);
    if (status == STATUS_OK)
        status = folder_make(filled.content_keys, 0700, err);
    if (status == STATUS_OK)
        status = dev_cluster_open(&made->place, &made->cluster, err);
    if (status != STATUS_OK) {
        dev_close(made);
        return status;
    }
    *config = filled;
    *dev = made;
    return STATUS_OK;
}

void
dev_close(struct dev *dev)
{
    if (dev == NULL)
        return;
    dev_cluster_close(dev->cluster);
    dev_place_leave(&dev->place);
    if (dev->lock >= 0)
        (void)close(dev->lock);
    free(dev);
}

/* --- DIR/env ----------------------------------------------------------------
 */

/* NAME='value' for a shell; a quote inside becomes '\''. */
static void
append_line(struct buf *text, const char *name, const char *value)
{
    buf_printf(text, "%s='", name);
    for (; *value != '\0'; value++) {
        if (*value == '\'')
            buf_append_text(text, "'\\''");
        else
            buf_append_char(text, *value);
    }
    buf_append_text(text, "'\n");
}

enum status
dev_env_write(const struct dev *dev, const char *url, const char *api_key,
              struct error *err)
{
    char path[CONFIG_PATH_BYTES];
    char ca[CONFIG_PATH_BYTES];
    struct buf text;
    enum status status =
        dev_path(path, sizeof(path), err, "%s/env", dev->place.dir);

    buf_init(&text, ENV_MAX_BYTES);
    if (status == STATUS_OK)
        status = dev_path(ca, sizeof(ca), err, "%s/ca.crt", dev->place.dir);
    if (status == STATUS_OK) {
        append_line(&text, "BERTH_URL", url);
        append_line(&text, "BERTH_CA_FILE", ca);
        append_line(&text, "BERTH_API_KEY", api_key);
        status = buf_status(&text, err);
    }
    if (status == STATUS_OK)
        status = file_write_whole(path, text.data, text.size, 0600, err);
    buf_clear(&text);
    return status;
}

/* The value between the quotes of the key's line; keys hold no quote. */
static enum status
find_key(const char *text, char *api_key, size_t api_key_size,
         struct error *err)
{
    static const char name[] = "BERTH_API_KEY='";
    const char *line = text;

    while (line != NULL && strncmp(line, name, sizeof(name) - 1) != 0) {
        line = strchr(line, '\n');
        line = line == NULL ? NULL : line + 1;
    }
    if (line == NULL)
        return STATUS_OK;
    line += sizeof(name) - 1;
    if (strcspn(line, "'\n") >= api_key_size)
        return error_set(err, STATUS_INVALID, "env: the key is too long");
    (void)snprintf(api_key, api_key_size, "%.*s", (int)strcspn(line, "'\n"),
                   line);
    return STATUS_OK;
}

enum status
dev_env_key(const struct dev *dev, char *api_key, size_t api_key_size,
            struct error *err)
{
    char path[CONFIG_PATH_BYTES];
    struct buf text;
    enum status status =
        dev_path(path, sizeof(path), err, "%s/env", dev->place.dir);

    api_key[0] = '\0';
    buf_init(&text, ENV_MAX_BYTES);
    if (status == STATUS_OK)
        status = buf_read_file(&text, path, err);
    if (status == STATUS_OK)
        status = find_key(text.data, api_key, api_key_size, err);
    else if (status == STATUS_NOT_FOUND)
        status = STATUS_OK;
    buf_clear(&text);
    return status;
}
