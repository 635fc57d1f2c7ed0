/* file.c - the files of a model directory. */
#include "model/file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "common/mem.h"

#include "common/banned.h"

char *
model_file_path(const char *directory, const char *name)
{
    size_t head = strlen(directory);
    size_t tail = strlen(name);
    char *path = mem_alloc(head + 1 + tail + 1);

    memcpy(path, directory, head);
    path[head] = '/';
    memcpy(path + head + 1, name, tail + 1);
    return path;
}

enum status
model_file_check(const char *path, struct error *err)
{
    char text[128];
    struct stat info;

    if (stat(path, &info) != 0)
        return error_set(err,
                         errno == ENOENT ? STATUS_NOT_FOUND : STATUS_INVALID,
                         "%s: %s: a model directory needs it, download the "
                         "model again",
                         path, error_errno(errno, text, sizeof(text)));
    if (!S_ISREG(info.st_mode))
        return error_set(err, STATUS_INVALID,
                         "%s: no plain file: download the model again", path);
    return STATUS_OK;
}

enum status
model_file_read(const char *directory, const char *name, struct buf *buf,
                struct error *err)
{
    char *path = model_file_path(directory, name);
    enum status status = model_file_check(path, err);

    if (status == STATUS_OK)
        status = buf_read_file(buf, path, err);
    if (status == STATUS_TOO_LARGE)
        error_advise(err, "choose another model");

    free(path);
    return status;
}

enum status
model_file_json(const char *directory, const char *name, size_t max,
                struct json_doc *doc, struct error *err)
{
    struct error inner = {0};
    struct buf text;
    enum status status = STATUS_OK;

    buf_init(&text, max);
    status = model_file_read(directory, name, &text, err);
    if (status == STATUS_OK) {
        status = json_doc_parse(text.data, text.size, doc, &inner);
        if (status != STATUS_OK)
            status = error_set(err, STATUS_INVALID,
                               "%s: no JSON (%.300s): download the file again",
                               name, inner.text);
    }
    buf_clear(&text);
    return status;
}
