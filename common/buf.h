/* buf.h - growable bytes with a maximum fixed at the start.
 *
 * Appending past the maximum drops the whole piece and marks the buffer as
 * overflowed; the mark stays until buf_clear, so that a builder checks once at
 * the end.  The bytes are always followed by a NUL that size does not count.
 * Not safe to share between threads without a lock. */
#ifndef BERTH_COMMON_BUF_H
#define BERTH_COMMON_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/error.h"

struct buf {
    char *data;  /* never NULL after buf_init; NUL-terminated */
    size_t size; /* bytes in use */
    size_t capacity;
    size_t max;
    bool overflowed;
};

void buf_init(struct buf *buf, size_t max);
/* Free the bytes; the buffer is as after buf_init. */
void buf_clear(struct buf *buf);
/* Forget the bytes, keep the memory and drop the overflow mark. */
void buf_reset(struct buf *buf);

void buf_append(struct buf *buf, const void *bytes, size_t size);
void buf_append_text(struct buf *buf, const char *text);
void buf_append_char(struct buf *buf, char c);
void buf_printf(struct buf *buf, const char *format, ...) PRINTF_LIKE(2, 3);
/* Lower-case hexadecimal of @size bytes. */
void buf_append_hex(struct buf *buf, const void *bytes, size_t size);
/* Drop the first @size bytes (at most all). */
void buf_drop_front(struct buf *buf, size_t size);
/* Shorten to @size bytes; it must not be longer than now. */
void buf_truncate(struct buf *buf, size_t size);

/* STATUS_TOO_LARGE when anything was dropped. */
MUST_CHECK enum status buf_status(const struct buf *buf, struct error *err);

/* The bytes as a heap string (taken: free() it); the buffer is empty. */
char *buf_take(struct buf *buf, size_t *size);

/* Read a whole file of at most buf->max bytes, appended. STATUS_NOT_FOUND,
 * STATUS_TOO_LARGE or STATUS_INTERNAL with the path in @err. */
MUST_CHECK enum status buf_read_file(struct buf *buf, const char *path,
                                     struct error *err);
/* Write @size bytes to @path through a temporary file beside it, fsync and
 * rename; @mode is the permission of the file. */
MUST_CHECK enum status file_write_whole(const char *path, const void *bytes,
                                        size_t size, unsigned mode,
                                        struct error *err);
/* mkdir -p: every missing folder of @path, with @mode. */
MUST_CHECK enum status folder_make(const char *path, unsigned mode,
                                   struct error *err);

#endif
