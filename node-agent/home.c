/* home.c - the files of the agent's state folder. */
#include "node-agent/home.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "common/units.h"

#include "common/banned.h"

static enum status
fail(struct error *err, const char *path)
{
    char text[128];

    return error_set(err, STATUS_INTERNAL, "%s: %s", path,
                     error_errno(errno, text, sizeof(text)));
}

/* The private key lies in it.  A folder that others may write in is refused
 * rather than closed to them: it may be one that is meant for all. */
static enum status
check_folder(const char *path, struct error *err)
{
    struct stat info;

    if (stat(path, &info) != 0)
        return fail(err, path);
    if (!S_ISDIR(info.st_mode))
        return error_set(err, STATUS_INVALID, "%.300s: not a folder", path);
    if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return error_set(err, STATUS_INVALID,
                         "%.300s: others may write in it, so that no key is "
                         "safe there; give --home a folder of its own, or run: "
                         "chmod go-w on it",
                         path);
    return STATUS_OK;
}

enum status
home_open(const char *path, bool make, struct home *home, struct error *err)
{
    char absolute[PATH_MAX];
    enum status status = make ? folder_make(path, 0700, err) : STATUS_OK;
    bool is_there;

    if (status != STATUS_OK)
        return status;
    is_there = realpath(path, absolute) != NULL;
    if (!is_there && errno != ENOENT)
        return fail(err, path);
    if (is_there)
        path = absolute;
    if (strlen(path) >= sizeof(home->path))
        return error_set(err, STATUS_INVALID,
                         "%.300s: a home path has at most %d bytes", path,
                         HOME_PATH_BYTES - 1);
    if (is_there)
        status = check_folder(path, err);
    if (status == STATUS_OK)
        snprintf(home->path, sizeof(home->path), "%s", path);
    return status;
}

enum status
home_lock(const struct home *home, struct error *err)
{
    char path[HOME_FILE_BYTES];
    int fd =
        open(home_file(home, "lock", path), O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0)
        return fail(err, path);
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return STATUS_OK; /* held until the process ends */
    close(fd);
    return error_set(err, STATUS_CONFLICT,
                     "another berth-node runs with %s; stop it first or give "
                     "this one its own --home",
                     home->path);
}

const char *
home_file(const struct home *home, const char *name,
          char path[static HOME_FILE_BYTES])
{
    snprintf(path, HOME_FILE_BYTES, "%s/%s", home->path, name);
    return path;
}

bool
home_has(const struct home *home, const char *name)
{
    char path[HOME_FILE_BYTES];

    return access(home_file(home, name, path), F_OK) == 0;
}

enum status
home_read(const struct home *home, const char *name, struct buf *text,
          struct error *err)
{
    char path[HOME_FILE_BYTES];

    buf_init(text, HOME_FILE_MAX_BYTES);
    return buf_read_file(text, home_file(home, name, path), err);
}

enum status
home_write(const struct home *home, const char *name, const void *bytes,
           size_t size, struct error *err)
{
    char path[HOME_FILE_BYTES];

    return file_write_whole(home_file(home, name, path), bytes, size, 0600,
                            err);
}

void
home_remove(const struct home *home, const char *name)
{
    char path[HOME_FILE_BYTES];

    unlink(home_file(home, name, path));
}

uint64_t
home_epoch(const struct home *home)
{
    struct buf text;
    uint64_t epoch = 0;

    if (home_read(home, "epoch", &text, NULL) == STATUS_OK &&
        parse_u64(text.data, strcspn(text.data, "\n"), INT64_MAX, &epoch) !=
            STATUS_OK)
        epoch = 0;
    buf_clear(&text);
    return epoch;
}

void
home_epoch_set(const struct home *home, uint64_t epoch)
{
    char text[32];
    struct error err = {0};
    int size = snprintf(text, sizeof(text), "%" PRIu64 "\n", epoch);

    if (home_write(home, "epoch", text, (size_t)size, &err) != STATUS_OK)
        log_warn("home.epoch", "reason=%s", LOG_QUOTED(err.text));
}

enum status
home_link_parse(const char *text, char host[static HOME_HOST_BYTES],
                uint16_t *port, struct error *err)
{
    const char *colon = strrchr(text, ':');
    const char *from = text;
    const char *end = colon;
    uint64_t number;

    if (colon == NULL ||
        parse_u64(colon + 1, strlen(colon + 1), 65535, &number) != STATUS_OK ||
        number == 0)
        return error_set(err, STATUS_INVALID, "%s: not host:port", text);
    if (*from == '[' && end > from && end[-1] == ']') {
        from++;
        end--;
    }
    if (end <= from || end - from >= HOME_HOST_BYTES)
        return error_set(err, STATUS_INVALID, "%s: not host:port", text);
    snprintf(host, HOME_HOST_BYTES, "%.*s", (int)(end - from), from);
    *port = (uint16_t)number;
    return STATUS_OK;
}

/* --- identity --- */

/* A one-line file without its newline. */
static enum status
read_line(const struct home *home, const char *name, char *line,
          size_t line_size, struct error *err)
{
    struct buf text;
    enum status status = home_read(home, name, &text, err);

    if (status == STATUS_OK && strcspn(text.data, "\n") >= line_size)
        status = error_set(err, STATUS_INVALID, "%s/%s: line too long",
                           home->path, name);
    if (status == STATUS_OK)
        snprintf(line, line_size, "%.*s", (int)strcspn(text.data, "\n"),
                 text.data);
    buf_clear(&text);
    return status;
}

static enum status
write_line(const struct home *home, const char *name, const char *line,
           struct error *err)
{
    struct buf text;
    enum status status;

    buf_init(&text, HOME_FILE_MAX_BYTES);
    buf_printf(&text, "%s\n", line);
    status = home_write(home, name, text.data, text.size, err);
    buf_clear(&text);
    return status;
}

static void
rename_file(const struct home *home, const char *from, const char *to)
{
    char old[HOME_FILE_BYTES];
    char new[HOME_FILE_BYTES];

    if (rename(home_file(home, from, old), home_file(home, to, new)) != 0)
        log_warn("home.rename", "file=%s errno=%d", from, errno);
}

/* node.crt.next is written after node.key.next is whole: where it is, the new
 * pair is complete and goes into place, key first. */
static void
finish_renewal(const struct home *home)
{
    if (!home_has(home, "node.crt.next"))
        return;
    if (home_has(home, "node.key.next"))
        rename_file(home, "node.key.next", "node.key");
    rename_file(home, "node.crt.next", "node.crt");
}

enum status
identity_read(const struct home *home, struct identity *identity,
              struct error *err)
{
    struct identity read = {0};
    char link[HOME_HOST_BYTES + 16];
    enum status status;

    buf_init(&read.ca, HOME_FILE_MAX_BYTES);
    buf_init(&read.cert, HOME_FILE_MAX_BYTES);
    buf_init(&read.key, HOME_FILE_MAX_BYTES);
    if (!home_has(home, "node.id"))
        return error_set(err, STATUS_NOT_FOUND,
                         "%s has not joined a network; run: berth-node join "
                         "URL --token-file FILE",
                         home->path);
    finish_renewal(home);
    status = read_line(home, "node.id", read.node, sizeof(read.node), err);
    if (status == STATUS_OK && !uuid_is_valid(read.node))
        status = error_set(err, STATUS_INVALID, "%s/node.id: not a node id",
                           home->path);
    if (status == STATUS_OK)
        status = read_line(home, "link", link, sizeof(link), err);
    if (status == STATUS_OK)
        status = home_link_parse(link, read.host, &read.port, err);
    if (status == STATUS_OK)
        status = home_read(home, "ca.crt", &read.ca, err);
    if (status == STATUS_OK)
        status = home_read(home, "node.crt", &read.cert, err);
    if (status == STATUS_OK)
        status = home_read(home, "node.key", &read.key, err);
    if (status == STATUS_OK && home_has(home, "profile"))
        status =
            read_line(home, "profile", read.profile, sizeof(read.profile), err);
    if (status == STATUS_OK)
        *identity = read;
    else
        identity_clear(&read);
    return status;
}

void
identity_clear(struct identity *identity)
{
    buf_clear(&identity->ca);
    buf_clear(&identity->cert);
    buf_clear(&identity->key);
}

enum status
identity_write(const struct home *home, const struct identity *identity,
               struct error *err)
{
    static const char *const stale[] = {
        "node.id", "epoch",        "removed",       "paused",
        "journal", "journal.next", "node.key.next", "node.crt.next"};
    bool is_v6 = strchr(identity->host, ':') != NULL;
    char link[HOME_HOST_BYTES + 16];
    enum status status;

    for (size_t i = 0; i < COUNT_OF(stale); i++)
        home_remove(home, stale[i]);
    snprintf(link, sizeof(link), is_v6 ? "[%s]:%u" : "%s:%u", identity->host,
             (unsigned)identity->port);
    status = home_write(home, "node.key", identity->key.data,
                        identity->key.size, err);
    if (status == STATUS_OK)
        status = home_write(home, "node.crt", identity->cert.data,
                            identity->cert.size, err);
    if (status == STATUS_OK)
        status = home_write(home, "ca.crt", identity->ca.data,
                            identity->ca.size, err);
    if (status == STATUS_OK)
        status = write_line(home, "link", link, err);
    if (identity->profile[0] == '\0')
        home_remove(home, "profile");
    else if (status == STATUS_OK)
        status = write_line(home, "profile", identity->profile, err);
    if (status == STATUS_OK) /* last: from here on the home has joined */
        status = write_line(home, "node.id", identity->node, err);
    return status;
}

enum status
identity_renew(const struct home *home, const struct buf *cert,
               const struct buf *key, struct error *err)
{
    enum status status =
        home_write(home, "node.key.next", key->data, key->size, err);

    if (status == STATUS_OK)
        status = home_write(home, "node.crt.next", cert->data, cert->size, err);
    if (status == STATUS_OK)
        finish_renewal(home);
    return status;
}
