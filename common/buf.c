/* buf.c - growable bytes, and whole files in and out of them. */
#include "common/buf.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/mem.h"

#include "common/banned.h"

enum { FIRST_CAPACITY = 64, READ_BYTES = 65536, ERRNO_TEXT_BYTES = 128 };

/* What data points to while nothing is allocated; always the empty text. */
static char nothing[1];

void
buf_init(struct buf *buf, size_t max)
{
    assert(max < SIZE_MAX / 2);
    *buf = (struct buf){.data = nothing, .max = max};
}

void
buf_clear(struct buf *buf)
{
    if (buf->data != nothing)
        free(buf->data);
    buf_init(buf, buf->max);
}

void
buf_reset(struct buf *buf)
{
    buf->size = 0;
    buf->overflowed = false;
    if (buf->capacity > 0)
        buf->data[0] = '\0';
}

/* Make room for @size more bytes and the NUL; false past the maximum. */
static bool
reserve(struct buf *buf, size_t size)
{
    size_t capacity = buf->capacity;

    if (buf->overflowed || size > buf->max - buf->size) {
        buf->overflowed = true;
        return false;
    }
    if (buf->size + size < capacity)
        return true;
    if (capacity < FIRST_CAPACITY)
        capacity = FIRST_CAPACITY;
    while (capacity <= buf->size + size)
        capacity *= 2;
    if (capacity > buf->max + 1)
        capacity = buf->max + 1;
    buf->data = mem_grow(buf->data == nothing ? NULL : buf->data, capacity, 1);
    buf->capacity = capacity;
    return true;
}

void
buf_append(struct buf *buf, const void *bytes, size_t size)
{
    if (size == 0 || !reserve(buf, size))
        return;
    memcpy(buf->data + buf->size, bytes, size);
    buf->size += size;
    buf->data[buf->size] = '\0';
}

void
buf_append_text(struct buf *buf, const char *text)
{
    buf_append(buf, text, strlen(text));
}

void
buf_append_char(struct buf *buf, char c)
{
    buf_append(buf, &c, 1);
}

void
buf_printf(struct buf *buf, const char *format, ...)
{
    va_list args;
    int size;

    va_start(args, format);
    size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    assert(size >= 0);
    if (size == 0 || !reserve(buf, (size_t)size))
        return;
    va_start(args, format);
    (void)vsnprintf(buf->data + buf->size, (size_t)size + 1, format, args);
    va_end(args);
    buf->size += (size_t)size;
}

void
buf_append_hex(struct buf *buf, const void *bytes, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *byte = bytes;

    if (size == 0)
        return;
    if (size > buf->max / 2) {
        buf->overflowed = true;
        return;
    }
    if (!reserve(buf, size * 2))
        return;
    for (size_t i = 0; i < size; i++) {
        buf->data[buf->size++] = digits[byte[i] >> 4];
        buf->data[buf->size++] = digits[byte[i] & 15];
    }
    buf->data[buf->size] = '\0';
}

void
buf_drop_front(struct buf *buf, size_t size)
{
    if (size > buf->size)
        size = buf->size;
    if (size == 0)
        return;
    memmove(buf->data, buf->data + size, buf->size - size);
    buf_truncate(buf, buf->size - size);
}

void
buf_truncate(struct buf *buf, size_t size)
{
    assert(size <= buf->size);
    buf->size = size;
    if (buf->capacity > 0)
        buf->data[size] = '\0';
}

enum status
buf_status(const struct buf *buf, struct error *err)
{
    if (buf->overflowed)
        return error_set(err, STATUS_TOO_LARGE, "over the limit of %zu bytes",
                         buf->max);
    return STATUS_OK;
}

char *
buf_take(struct buf *buf, size_t *size)
{
    char *data = buf->data == nothing ? mem_text("") : buf->data;

    if (size != NULL)
        *size = buf->size;
    buf_init(buf, buf->max);
    return data;
}

/* What an errno of open, read or write means, and what to do about it. */
static const struct file_failure {
    int number;
    enum status status;
    const char *code, *advice;
} file_failures[] = {
    {ENOENT, STATUS_NOT_FOUND, "", ": is the path right?"},
    {EMFILE, STATUS_RETRY, "no_descriptors", ": raise the limit (ulimit -n)"},
    {ENFILE, STATUS_RETRY, "no_descriptors", ": the system has no file left"},
    {ENOSPC, STATUS_RETRY, "disk_full", ": make room"},
    {EDQUOT, STATUS_RETRY, "disk_full", ": make room"},
    {0, STATUS_INTERNAL, "", ""},
};

/* "path: cannot verb: the system's words: what to do". */
static enum status
file_failed(struct error *err, const char *path, const char *verb)
{
    const struct file_failure *failure = file_failures;
    char text[ERRNO_TEXT_BYTES];

    while (failure->number != 0 && failure->number != errno)
        failure++;
    (void)error_set(err, failure->status, "%s: cannot %s: %s%s", path, verb,
                    error_errno(errno, text, sizeof(text)), failure->advice);
    if (failure->code[0] != '\0')
        (void)error_tag(err, failure->code, NULL);
    return failure->status;
}

static enum status
read_all(struct buf *buf, int fd, const char *path, struct error *err)
{
    char *chunk = mem_alloc(READ_BYTES);
    enum status status = STATUS_OK;
    ssize_t got;

    do {
        got = read(fd, chunk, READ_BYTES);
        if (got > 0)
            buf_append(buf, chunk, (size_t)got);
    } while (!buf->overflowed && (got > 0 || (got < 0 && errno == EINTR)));
    if (got < 0)
        status = file_failed(err, path, "read");
    else if (buf->overflowed)
        status = error_set(err, STATUS_TOO_LARGE, "%s: over %zu bytes", path,
                           buf->max);
    free(chunk);
    return status;
}

enum status
buf_read_file(struct buf *buf, const char *path, struct error *err)
{
    enum status status;
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return file_failed(err, path, "open");
    if (fstat(fd, &info) == 0 && S_ISDIR(info.st_mode))
        status = error_set(err, STATUS_INTERNAL,
                           "%s: is a folder, a file was expected", path);
    else
        status = read_all(buf, fd, path, err);
    close(fd);
    return status;
}

static bool
write_all(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t put = write(fd, bytes, size);

        if (put < 0 && errno != EINTR)
            return false;
        if (put > 0) {
            bytes += put;
            size -= (size_t)put;
        }
    }
    return true;
}

/* A rename is on disk only when its folder is. */
static void
sync_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash == NULL ? mem_text(".")
                   : slash == path
                       ? mem_text("/")
                       : mem_text_sized(path, (size_t)(slash - path));
    int fd = open(folder, O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
    free(folder);
}

enum status
file_write_whole(const char *path, const void *bytes, size_t size,
                 unsigned mode, struct error *err)
{
    size_t name_size = strlen(path) + sizeof(".XXXXXX");
    char *name = mem_alloc(name_size);
    enum status status = STATUS_OK;
    int fd;

    (void)snprintf(name, name_size, "%s.XXXXXX", path);
    fd = mkstemp(name); /* made with mode 0600 */
    if (fd < 0) {
        status = file_failed(err, path, "write");
        goto out;
    }
    if (!write_all(fd, bytes, size) || fchmod(fd, (mode_t)mode) != 0 ||
        fsync(fd) != 0)
        status = file_failed(err, path, "write");
    if (close(fd) != 0 && status == STATUS_OK)
        status = file_failed(err, path, "write");
    if (status == STATUS_OK && rename(name, path) != 0)
        status = file_failed(err, path, "replace");
    if (status != STATUS_OK)
        (void)unlink(name);
    else
        sync_folder_of(path);

out:
    free(name);
    return status;
}

/* One folder of the path; it may be there already, as a link to one too. */
static enum status
make_one_folder(const char *path, unsigned mode, struct error *err)
{
    struct stat info;

    if (mkdir(path, (mode_t)mode) == 0)
        return STATUS_OK;
    if (errno != EEXIST)
        return file_failed(err, path, "make the folder");
    if (stat(path, &info) != 0)
        return file_failed(err, path, "make the folder");
    if (!S_ISDIR(info.st_mode))
        return error_set(err, STATUS_INTERNAL,
                         "%s: is a file, a folder was expected: name another",
                         path);
    return STATUS_OK;
}

enum status
folder_make(const char *path, unsigned mode, struct error *err)
{
    enum status status = STATUS_OK;
    char *copy = mem_text(path);

    for (char *at = copy; *at != '\0' && status == STATUS_OK; at++) {
        if (*at != '/' || at == copy)
            continue;
        *at = '\0';
        status = make_one_folder(copy, mode, err);
        *at = '/';
    }
    if (status == STATUS_OK)
        status = make_one_folder(copy, mode, err);
    free(copy);
    return status;
}
