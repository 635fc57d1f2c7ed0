/* file.c - the files of a model directory. */
#include "model/file.h"

#include <string.h>

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
model_file_read(const char *directory, const char *name, struct buf *buf,
                struct error *err)
{
    char *path = model_file_path(directory, name);
    enum status status = buf_read_file(buf, path, err);

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
            status =
                error_set(err, STATUS_INVALID, "%s: %.300s", name, inner.text);
    }
    buf_clear(&text);
    return status;
}
