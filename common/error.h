/* error.h - how a function says that it failed, and why.
 *
 * A function that can fail returns enum status and, when it has something to
 * tell, takes `struct error *err` last.  Detail is written once, where it is
 * known; callers pass it up unchanged.  Text never holds secrets.  @err may be
 * NULL: then the detail is dropped. */
#ifndef BERTH_COMMON_ERROR_H
#define BERTH_COMMON_ERROR_H

#include "common/attrs.h"

enum status {
    STATUS_OK,
    STATUS_INVALID,        /* can never succeed as it stands: 400 */
    STATUS_UNKNOWN_CALLER, /* no or bad credentials: 401 */
    STATUS_NO_FUNDS,       /* the account would pass its floor: 402 */
    STATUS_DENIED,         /* known caller, not allowed: 403 */
    STATUS_NOT_FOUND,      /* no such thing for this caller: 404 */
    STATUS_CONFLICT,       /* state or idempotency key disagrees: 409 */
    STATUS_TOO_LARGE,      /* over a stated limit: 413 */
    STATUS_NO_CAPACITY,    /* nothing fits now: 429 */
    STATUS_RETRY,          /* nothing happened; again may work: 503 */
    STATUS_INTERNAL,       /* our fault: 500 */
};

enum { ERROR_TEXT_BYTES = 512, ERROR_CODE_BYTES = 48, ERROR_PARAM_BYTES = 96 };

struct error {
    enum status status;
    char text[ERROR_TEXT_BYTES];   /* one line: what, which limit, what to do */
    char code[ERROR_CODE_BYTES];   /* stable machine code, "" when none */
    char param[ERROR_PARAM_BYTES]; /* the field at fault, "" when none */
};

/* Record the failure in @err (code and param are emptied) and return @status.
 */
enum status error_set(struct error *err, enum status status, const char *format,
                      ...) PRINTF_LIKE(3, 4);

/* Add a machine code and the field at fault to an error already set; either
 * may be NULL to leave it.  Returns err->status (STATUS_INTERNAL for NULL), so
 * that a function can end with `return error_tag(...)`. */
enum status error_tag(struct error *err, const char *code, const char *param);

/* Append what to do next, after ": ", to the message of a family of faults that
 * have the same remedy. */
void error_advise(struct error *err, const char *step);

/* The message of an errno value, written into @text (a thread-safe strerror).
 * Returns @text. */
const char *error_errno(int number, char *text, size_t text_size);

/* Short lower-case name: "ok", "invalid", "no_funds", ... */
const char *status_name(enum status status);

/* The HTTP status that answers it: 200, 400, 401, 402, ... */
int status_http(enum status status);

#endif
