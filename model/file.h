/* file.h - the files of a model directory; private to model/. */
#ifndef BERTH_MODEL_FILE_H
#define BERTH_MODEL_FILE_H

#include <stddef.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "common/error.h"
#include "common/json.h"

/* "<directory>/<name>" on the heap: free() it. */
char *model_file_path(const char *directory, const char *name);

/* Is @path a file, not a folder, a pipe or a device, which might be endless or
 * wait?  STATUS_NOT_FOUND when nothing is there. */
MUST_CHECK enum status model_file_check(const char *path, struct error *err);

/* Append a whole file of at most buf->max bytes.  STATUS_NOT_FOUND when there
 * is none. */
MUST_CHECK enum status model_file_read(const char *directory, const char *name,
                                       struct buf *buf, struct error *err);

/* Parse a JSON file of at most @max bytes; the error names the file. */
MUST_CHECK enum status model_file_json(const char *directory, const char *name,
                                       size_t max, struct json_doc *doc,
                                       struct error *err);

#endif
