/* digests.c - home/digests: "<digest> <fingerprint> <folder>" a line. */
#include "node-agent/digests.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/buf.h"
#include "node-agent/host.h"

#include "common/banned.h"

enum {
    CACHE_MAX_BYTES = 256 * 1024,
    HEX_SIZE = SHA256_HEX_BYTES - 1,
    /* Two digests, two blanks, at least one byte of path. */
    LINE_LEAST_BYTES = 2 * HEX_SIZE + 3,
    STAT_TEXT_MAX_BYTES = 1024 * 1024,
    FILE_PATH_BYTES = CONFIG_PATH_BYTES + 260,
};

static bool
is_hex(const char *text)
{
    return strspn(text, "0123456789abcdef") >= HEX_SIZE;
}

static void
read_row(const char *line, size_t size, struct digests *digests)
{
    struct digest_row *row = &digests->rows[digests->count];
    const char *path = line + LINE_LEAST_BYTES - 1;

    if (digests->count == COUNT_OF(digests->rows) || size < LINE_LEAST_BYTES ||
        size - LINE_LEAST_BYTES + 1 >= sizeof(row->path) || !is_hex(line) ||
        !is_hex(line + HEX_SIZE + 1))
        return;
    snprintf(row->digest, sizeof(row->digest), "%.*s", HEX_SIZE, line);
    snprintf(row->fingerprint, sizeof(row->fingerprint), "%.*s", HEX_SIZE,
             line + HEX_SIZE + 1);
    snprintf(row->path, sizeof(row->path), "%.*s",
             (int)(size - LINE_LEAST_BYTES + 1), path);
    digests->count++;
}

void
digests_read(const char *path, struct digests *digests)
{
    struct buf text;
    const char *line;

    digests->count = 0;
    buf_init(&text, CACHE_MAX_BYTES);
    if (buf_read_file(&text, path, NULL) == STATUS_OK)
        for (line = text.data; *line != '\0';) {
            size_t size = strcspn(line, "\n");

            read_row(line, size, digests);
            line += size + (line[size] == '\n' ? 1 : 0);
        }
    buf_clear(&text);
}

enum status
digests_write(const char *path, const struct digests *digests,
              struct error *err)
{
    struct buf text;
    enum status status;

    buf_init(&text, CACHE_MAX_BYTES);
    for (size_t i = 0; i < digests->count; i++)
        buf_printf(&text, "%s %s %s\n", digests->rows[i].digest,
                   digests->rows[i].fingerprint, digests->rows[i].path);
    status = file_write_whole(path, text.data, text.size, 0600, err);
    buf_clear(&text);
    return status;
}

static int
is_model_file(const struct dirent *entry)
{
    static const char *const endings[] = {".safetensors", ".json", ".jinja"};
    size_t size = strlen(entry->d_name);

    for (size_t i = 0; i < COUNT_OF(endings); i++) {
        size_t ending = strlen(endings[i]);

        if (size > ending &&
            strcmp(entry->d_name + size - ending, endings[i]) == 0)
            return 1;
    }
    return 0;
}

static void
add_file(const char *folder, const char *name, struct buf *text,
         uint64_t *bytes)
{
    char path[FILE_PATH_BYTES];
    struct stat info;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode))
        return;
    *bytes += (uint64_t)info.st_size;
    buf_printf(text, "%s\t%lld\t%" PRId64 "\t%llu\n", name,
               (long long)info.st_size, host_mtime_ns(&info),
               (unsigned long long)info.st_ino);
}

enum status
digests_fingerprint(const char *path, char text[static SHA256_HEX_BYTES],
                    uint64_t *bytes, struct error *err)
{
    struct dirent **entries = NULL;
    char message[128];
    uint8_t digest[SHA256_BYTES];
    uint64_t sum = 0;
    struct buf lines;
    enum status status;
    int count = scandir(path, &entries, is_model_file, alphasort);

    if (count < 0)
        return error_set(err, STATUS_NOT_FOUND, "%s: %s", path,
                         error_errno(errno, message, sizeof(message)));
    buf_init(&lines, STAT_TEXT_MAX_BYTES);
    for (int i = 0; i < count; i++) {
        add_file(path, entries[i]->d_name, &lines, &sum);
        free(entries[i]);
    }
    free(entries);
    status = buf_status(&lines, err);
    if (status == STATUS_OK) {
        cert_sha256(lines.data, lines.size, digest);
        cert_hex(digest, sizeof(digest), text);
        *bytes = sum;
    }
    buf_clear(&lines);
    return status;
}

const char *
digests_find(const struct digests *digests, const char *path,
             const char *fingerprint)
{
    for (size_t i = 0; i < digests->count; i++)
        if (strcmp(digests->rows[i].path, path) == 0 &&
            strcmp(digests->rows[i].fingerprint, fingerprint) == 0)
            return digests->rows[i].digest;
    return NULL;
}

void
digests_add(struct digests *digests, const char *path, const char *fingerprint,
            const char *digest)
{
    struct digest_row *row = &digests->rows[digests->count];

    /* A path with a line break would split its line. */
    if (digests->count == COUNT_OF(digests->rows) || strchr(path, '\n') != NULL)
        return;
    snprintf(row->path, sizeof(row->path), "%s", path);
    snprintf(row->fingerprint, sizeof(row->fingerprint), "%s", fingerprint);
    snprintf(row->digest, sizeof(row->digest), "%s", digest);
    digests->count++;
}
