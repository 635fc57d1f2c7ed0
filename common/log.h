/* log.h - one event, one logfmt line on standard error.
 *
 *   log_info("job.placed", "job=%s node=%s", job, node);
 *
 * The first word is a fixed event name, listed in the program's man page.
 * error: a person must act; warn: one may have to; info: a change of state;
 * debug: off unless asked.  Values with blanks are the caller's to quote:
 * log_quote does it.  Never log secrets, prompts or answers.  Safe from any
 * thread: a line is one write. */
#ifndef BERTH_COMMON_LOG_H
#define BERTH_COMMON_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "common/attrs.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

void log_set_level(enum log_level least);
/* The "program=" field of every line; @name is kept. */
void log_set_program(const char *name);

void log_event(enum log_level level, const char *event, const char *format, ...)
    PRINTF_LIKE(3, 4);

#define log_debug(event, ...) log_event(LOG_DEBUG, event, __VA_ARGS__)
#define log_info(event, ...) log_event(LOG_INFO, event, __VA_ARGS__)
#define log_warn(event, ...) log_event(LOG_WARN, event, __VA_ARGS__)
#define log_error(event, ...) log_event(LOG_ERROR, event, __VA_ARGS__)

/* @value in double quotes with ", \ and control bytes escaped, cut to fit.
 * Returns @text. */
const char *log_quote(const char *value, char *text, size_t text_size);

/* The same as an argument for %s, valid until the end of its block. */
enum { LOG_QUOTED_BYTES = 1024 };
#define LOG_QUOTED(value)                                                      \
    log_quote((value), (char[LOG_QUOTED_BYTES]){0}, LOG_QUOTED_BYTES)

#endif
