/* journal.c - records of ended attempts in a file. */
#include "node-agent/journal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fault.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/wire.h"

#include "common/banned.h"

enum {
    VERSION = 1,
    HEAD_BYTES = 4 + SHA256_BYTES,
    /* version, job, attempt, time, done, number of ids, size of the frame */
    FIXED_BYTES = 1 + UUID_TEXT_BYTES - 1 + 4 + 8 + 8 + 4 + 4,
    FRAME_MAX_BYTES = WIRE_HEAD_BYTES + WIRE_FRAME_MAX_BYTES,
};

static_assert(FIXED_BYTES + IDS_MAX * 4 + FRAME_MAX_BYTES + HEAD_BYTES <=
                  JOURNAL_RECORD_MAX_BYTES,
              "the largest attempt must fit a record");

/* --- records --- */

struct ended *
ended_new(const char *job, uint32_t attempt)
{
    struct ended *ended = mem_alloc(sizeof(*ended));

    snprintf(ended->job, sizeof(ended->job), "%s", job);
    ended->attempt = attempt;
    buf_init(&ended->frame, FRAME_MAX_BYTES);
    return ended;
}

void
ended_free(struct ended *ended)
{
    ids_clear(&ended->ids);
    buf_clear(&ended->frame);
    free(ended);
}

static void
put_number(struct buf *out, uint64_t value, size_t size)
{
    while (size-- > 0)
        buf_append_char(out, (char)(value >> (8 * size)));
}

static uint64_t
get_number(const uint8_t **at, size_t size)
{
    uint64_t value = 0;

    while (size-- > 0)
        value = value << 8 | *(*at)++;
    return value;
}

size_t
journal_size(const struct ended *ended)
{
    return HEAD_BYTES + FIXED_BYTES + ended->ids.count * 4 + ended->frame.size;
}

void
journal_encode(const struct ended *ended, struct buf *out)
{
    uint8_t digest[SHA256_BYTES];
    struct buf body;

    buf_init(&body, JOURNAL_RECORD_MAX_BYTES);
    put_number(&body, VERSION, 1);
    buf_append(&body, ended->job, UUID_TEXT_BYTES - 1);
    put_number(&body, ended->attempt, 4);
    put_number(&body, (uint64_t)ended->at_s, 8);
    put_number(&body, ended->done, 8);
    put_number(&body, ended->ids.count, 4);
    for (size_t i = 0; i < ended->ids.count; i++)
        put_number(&body, ended->ids.at[i], 4);
    put_number(&body, ended->frame.size, 4);
    buf_append(&body, ended->frame.data, ended->frame.size);
    assert(!body.overflowed);
    cert_sha256(body.data, body.size, digest);
    put_number(out, body.size, 4);
    buf_append(out, digest, sizeof(digest));
    buf_append(out, body.data, body.size);
    buf_clear(&body);
}

/* Is it the end of this attempt?  Another program's idea of a frame, sent up,
 * would cost the link each time it comes back. */
static bool
frame_is_its_end(const struct ended *ended)
{
    struct wire_message *message = mem_alloc(sizeof(*message));
    const uint8_t *head = (const uint8_t *)ended->frame.data;
    size_t size = ended->frame.size;
    bool is_it = false;

    if (size > WIRE_HEAD_BYTES &&
        wire_head_size(head) == size - WIRE_HEAD_BYTES &&
        wire_decode(ended->frame.data + WIRE_HEAD_BYTES, size - WIRE_HEAD_BYTES,
                    message, NULL) == STATUS_OK) {
        if (message->type == WIRE_JOB_DONE)
            is_it = strcmp(message->job_done.job, ended->job) == 0 &&
                    message->job_done.attempt == ended->attempt;
        else if (message->type == WIRE_JOB_FAIL)
            is_it = strcmp(message->job_fail.job, ended->job) == 0 &&
                    message->job_fail.attempt == ended->attempt;
    }
    free(message);
    return is_it;
}

/* The attempt of a record's body; NULL when it is none of ours. */
static struct ended *
decode(const uint8_t *at, size_t size)
{
    const uint8_t *end = at + size;
    char job[UUID_TEXT_BYTES] = "";
    struct ended *ended;
    uint64_t count;

    if (size < FIXED_BYTES || get_number(&at, 1) != VERSION)
        return NULL;
    memcpy(job, at, UUID_TEXT_BYTES - 1);
    at += UUID_TEXT_BYTES - 1;
    if (!uuid_is_valid(job))
        return NULL;
    ended = ended_new(job, (uint32_t)get_number(&at, 4));
    ended->at_s = (int64_t)get_number(&at, 8);
    ended->done = get_number(&at, 8);
    count = get_number(&at, 4);
    if (count > IDS_MAX || ended->done > count ||
        (size_t)(end - at) < count * 4 + 4)
        goto damaged;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t id = (uint32_t)get_number(&at, 4);

        ids_append(&ended->ids, &id, 1);
    }
    if (get_number(&at, 4) != (uint64_t)(end - at))
        goto damaged;
    buf_append(&ended->frame, at, (size_t)(end - at));
    if (!ended->frame.overflowed && frame_is_its_end(ended))
        return ended;

damaged:
    ended_free(ended);
    return NULL;
}

size_t
journal_parse(const void *bytes, size_t size, journal_taker *take, void *arg)
{
    const uint8_t *first = bytes;
    size_t used = 0;

    while (size - used >= HEAD_BYTES) {
        const uint8_t *at = first + used;
        size_t body = (size_t)get_number(&at, 4);
        uint8_t digest[SHA256_BYTES];
        struct ended *ended;

        if (body > JOURNAL_RECORD_MAX_BYTES || body > size - used - HEAD_BYTES)
            break;
        cert_sha256(at + SHA256_BYTES, body, digest);
        if (memcmp(digest, at, sizeof(digest)) != 0)
            break;
        ended = decode(at + SHA256_BYTES, body);
        if (ended == NULL)
            break;
        take(arg, ended);
        used += HEAD_BYTES + body;
    }
    return used;
}

/* --- the file --- */

static enum status
fail(const char *path, const char *what, struct error *err)
{
    char text[128];

    return error_set(err, STATUS_INTERNAL, "%.300s: cannot %s: %s", path, what,
                     error_errno(errno, text, sizeof(text)));
}

/* The disk is full, says a test. */
static bool
is_failing(bool by_fault)
{
    if (by_fault)
        errno = ENOSPC;
    return by_fault;
}

static bool
write_all(int fd, const char *bytes, size_t size)
{
    /* Half of it is there when the disk is full. */
    if (is_failing(FAULT_POINT("agent.journal.write"))) {
        (void)!write(fd, bytes, size / 2);
        errno = ENOSPC;
        return false;
    }
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

static bool
sync_file(int fd)
{
    return !is_failing(FAULT_POINT("agent.journal.sync")) && fsync(fd) == 0;
}

/* A rename is on disk only when its folder is. */
static bool
sync_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash == NULL || slash == path
                       ? mem_text(slash == NULL ? "." : "/")
                       : mem_text_sized(path, (size_t)(slash - path));
    int fd = open(folder, O_RDONLY | O_CLOEXEC);
    bool is_synced = fd >= 0 && fsync(fd) == 0;

    if (fd >= 0)
        close(fd);
    free(folder);
    return is_synced;
}

static int
open_at(const char *path, int flags)
{
    if (is_failing(FAULT_POINT("agent.journal.open")))
        return -1;
    return open(path, O_WRONLY | O_APPEND | O_CLOEXEC | flags, 0600);
}

/* Keep the first @whole bytes of what was read. */
static enum status
cut(struct journal *journal, size_t whole, size_t size, struct error *err)
{
    journal->fd = open_at(journal->path, 0);
    if (journal->fd < 0)
        return fail(journal->path, "open", err);
    journal->size = whole;
    if (whole == size)
        return STATUS_OK;
    log_warn("journal.damaged", "file=%s whole=%zu cut=%zu",
             LOG_QUOTED(journal->path), whole, size - whole);
    if (ftruncate(journal->fd, (off_t)whole) == 0 && sync_file(journal->fd))
        return STATUS_OK;
    fail(journal->path, "shorten", err);
    journal_close(journal);
    return STATUS_INTERNAL;
}

enum status
journal_open(struct journal *journal, const char *path, journal_taker *take,
             void *arg, struct error *err)
{
    struct buf bytes;
    enum status status;
    size_t whole;

    *journal = (struct journal){.fd = -1};
    snprintf(journal->path, sizeof(journal->path), "%s", path);
    snprintf(journal->next, sizeof(journal->next), "%.*s.next",
             (int)sizeof(journal->next) - 6, path);
    unlink(journal->next);
    buf_init(&bytes, JOURNAL_FILE_MAX_BYTES);
    status = buf_read_file(&bytes, path, err);
    if (status == STATUS_NOT_FOUND) {
        status = STATUS_OK; /* written when there is something to write */
    } else if (status == STATUS_OK) {
        whole = journal_parse(bytes.data, bytes.size, take, arg);
        status = cut(journal, whole, bytes.size, err);
    }
    buf_clear(&bytes);
    return status;
}

void
journal_close(struct journal *journal)
{
    if (journal->fd >= 0)
        close(journal->fd);
    journal->fd = -1;
    journal->size = 0;
}

bool
journal_is_whole(const struct journal *journal)
{
    return journal->fd >= 0;
}

enum status
journal_append(struct journal *journal, const struct buf *records,
               struct error *err)
{
    assert(journal->fd >= 0);
    FAULT_STEP("agent.journal.append");
    if (!write_all(journal->fd, records->data, records->size)) {
        fail(journal->path, "write", err);
        goto failed;
    }
    FAULT_STEP("agent.journal.appended");
    if (!sync_file(journal->fd)) {
        fail(journal->path, "sync", err);
        goto failed;
    }
    FAULT_STEP("agent.journal.synced");
    journal->size += records->size;
    return STATUS_OK;

failed:
    /* What of it is there now nobody knows. */
    journal_close(journal);
    return STATUS_INTERNAL;
}

enum status
journal_replace(struct journal *journal, const struct buf *records,
                struct error *err)
{
    int fd = open_at(journal->next, O_CREAT | O_TRUNC);

    if (fd < 0)
        return fail(journal->next, "write", err);
    if (!write_all(fd, records->data, records->size) || !sync_file(fd))
        goto failed;
    FAULT_STEP("agent.journal.rename");
    if (is_failing(FAULT_POINT("agent.journal.renaming")) ||
        rename(journal->next, journal->path) != 0)
        goto failed;
    FAULT_STEP("agent.journal.renamed");
    journal_close(journal);
    if (!sync_folder_of(journal->path)) {
        fail(journal->path, "sync the folder of", err);
        close(fd);
        return STATUS_INTERNAL;
    }
    journal->fd = fd;
    journal->size = records->size;
    return STATUS_OK;

failed:
    fail(journal->next, "write", err);
    close(fd);
    unlink(journal->next);
    return STATUS_INTERNAL;
}

void
journal_empty(struct journal *journal)
{
    if (journal->fd < 0 || journal->size == 0)
        return;
    if (ftruncate(journal->fd, 0) == 0)
        journal->size = 0;
    else /* what stays is acknowledged again */
        journal_close(journal);
}

void
journal_remove(struct journal *journal)
{
    journal_close(journal);
    unlink(journal->next);
    if (unlink(journal->path) != 0 && errno != ENOENT)
        log_warn("journal.remove", "file=%s errno=%d",
                 LOG_QUOTED(journal->path), errno);
}
