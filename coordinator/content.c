/* content.c - day keys in files, AES-256-GCM through common/cert. */
#include "coordinator/content.h"

#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cert.h"
#include "common/clock.h"
#include "common/fault.h"
#include "common/log.h"
#include "common/mem.h"

#include "common/banned.h"

enum { PATH_BYTES = 1200, DAY_TEXT_BYTES = 10, KEYS_KEPT = 4 };

struct day_key {
    char day[CONTENT_DAY_BYTES]; /* "" when free */
    uint8_t key[CONTENT_KEY_BYTES];
};

/* Keys once read are kept: when a job ends, no missing descriptor and no full
 * disk may keep its result from being sealed. */
struct content {
    pthread_mutex_t lock; /* of keys, and two threads may make the day's key */
    char *folder;
    uint64_t retention_s;
    struct day_key keys[KEYS_KEPT];
    size_t next; /* to be replaced */
};

enum status
content_open(const char *folder, uint64_t retention_s, struct content **content,
             struct error *err)
{
    enum status status = folder_make(folder, 0700, err);

    if (status != STATUS_OK)
        return status;
    *content = mem_alloc(sizeof(**content));
    (*content)->folder = mem_text(folder);
    (*content)->retention_s = retention_s;
    pthread_mutex_init(&(*content)->lock, NULL);
    return STATUS_OK;
}

void
content_close(struct content *content)
{
    if (content == NULL)
        return;
    pthread_mutex_destroy(&content->lock);
    cert_wipe(content->keys, sizeof(content->keys));
    free(content->folder);
    free(content);
}

void
content_day(struct instant now, char day[static CONTENT_DAY_BYTES])
{
    char text[32];

    instant_text(now, text, sizeof(text));
    memcpy(day, text, DAY_TEXT_BYTES);
    day[DAY_TEXT_BYTES] = '\0';
}

void
content_oldest_day(const struct content *content, struct instant now,
                   char day[static CONTENT_DAY_BYTES])
{
    struct instant oldest = {
        .us = now.us - (int64_t)content->retention_s * 1000000,
    };

    content_day(oldest, day);
}

static void
key_path(const struct content *content, const char *day, char *path)
{
    snprintf(path, PATH_BYTES, "%s/%s.key", content->folder, day);
}

static enum status
key_read(const char *path, uint8_t key[static CONTENT_KEY_BYTES],
         struct error *err)
{
    struct buf bytes;
    enum status status;

    buf_init(&bytes, CONTENT_KEY_BYTES);
    status = buf_read_file(&bytes, path, err);
    if (status == STATUS_OK && bytes.size != CONTENT_KEY_BYTES)
        status =
            error_set(err, STATUS_INTERNAL, "%s: not a day key of %d bytes",
                      path, CONTENT_KEY_BYTES);
    if (status == STATUS_OK)
        memcpy(key, bytes.data, CONTENT_KEY_BYTES);
    buf_clear(&bytes);
    return status;
}

static enum status
key_make(const char *path, uint8_t key[static CONTENT_KEY_BYTES],
         struct error *err)
{
    if (FAULT_POINT("content.key"))
        return error_set(err, STATUS_RETRY, "%s: cannot write", path);
    cert_random(key, CONTENT_KEY_BYTES);
    return file_write_whole(path, key, CONTENT_KEY_BYTES, 0600, err);
}

/* The lock is held. */
static struct day_key *
key_kept(struct content *content, const char *day)
{
    for (size_t i = 0; i < KEYS_KEPT; i++)
        if (strcmp(content->keys[i].day, day) == 0)
            return &content->keys[i];
    return NULL;
}

static void
key_keep(struct content *content, const char *day, const uint8_t *key)
{
    struct day_key *kept = &content->keys[content->next++ % KEYS_KEPT];

    snprintf(kept->day, sizeof(kept->day), "%s", day);
    memcpy(kept->key, key, CONTENT_KEY_BYTES);
}

/* Why is for the operator, not for submitters. */
static enum status
key_missing(const char *day, const struct error *why, struct error *err)
{
    log_error("content.key_failed", "day=%s detail=\"%s\"", day, why->text);
    (void)error_set(err, STATUS_RETRY,
                    "the key that stored requests are sealed with cannot be "
                    "had (the coordinator's log says why): try again, or send "
                    "it to /v1, where nothing is stored");
    return error_tag(err, "storage_unavailable", NULL);
}

/* The key of @day, made when missing and @make. */
static enum status
key_of(struct content *content, const char *day, bool make,
       uint8_t key[static CONTENT_KEY_BYTES], struct error *err)
{
    struct day_key *kept;
    char path[PATH_BYTES];
    enum status status = STATUS_OK;
    struct error why = {0};

    key_path(content, day, path);
    pthread_mutex_lock(&content->lock);
    kept = key_kept(content, day);
    if (kept != NULL) {
        memcpy(key, kept->key, CONTENT_KEY_BYTES);
    } else {
        status = key_read(path, key, &why);
        if (status == STATUS_NOT_FOUND && make)
            status = key_make(path, key, &why);
        if (status == STATUS_OK)
            key_keep(content, day, key);
        else if (status == STATUS_NOT_FOUND && !make)
            status = error_set(err, status, "%s", why.text);
        else
            status = key_missing(day, &why, err);
    }
    pthread_mutex_unlock(&content->lock);
    return status;
}

enum status
content_seal(struct content *content, const char *day, const char *job,
             const void *bytes, size_t size, struct buf *out, struct error *err)
{
    uint8_t key[CONTENT_KEY_BYTES];
    enum status status = key_of(content, day, true, key, err);

    if (status == STATUS_OK)
        cert_seal(key, job, bytes, size, out);
    cert_wipe(key, sizeof(key));
    return status;
}

enum status
content_unseal(struct content *content, const char *day, const char *job,
               const void *bytes, size_t size, struct buf *out,
               struct error *err)
{
    uint8_t key[CONTENT_KEY_BYTES];
    enum status status = key_of(content, day, false, key, err);

    if (status == STATUS_OK)
        status = cert_unseal(key, job, bytes, size, out, err);
    cert_wipe(key, sizeof(key));
    return status;
}

static void
keys_forget_before(struct content *content, const char *day)
{
    pthread_mutex_lock(&content->lock);
    for (size_t i = 0; i < KEYS_KEPT; i++)
        if (strcmp(content->keys[i].day, day) < 0)
            cert_wipe(&content->keys[i], sizeof(content->keys[i]));
    pthread_mutex_unlock(&content->lock);
}

void
content_destroy_before(struct content *content, const char *day)
{
    DIR *folder = opendir(content->folder);
    struct dirent *entry;

    keys_forget_before(content, day);
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        const char *name = entry->d_name;
        char path[PATH_BYTES];

        if (strlen(name) != DAY_TEXT_BYTES + strlen(".key") ||
            strcmp(name + DAY_TEXT_BYTES, ".key") != 0 ||
            strncmp(name, day, DAY_TEXT_BYTES) >= 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", content->folder, name);
        if (unlink(path) == 0)
            log_info("content.key_destroyed", "day=%.10s", name);
    }
    if (folder != NULL)
        closedir(folder);
}
