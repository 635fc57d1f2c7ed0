/* log.c - logfmt lines on standard error. */
#include "common/log.h"

#include <assert.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"

#include "common/banned.h"

enum { LINE_BYTES = 2048 };

static _Atomic int least_level = LOG_INFO;
static _Atomic(const char *) program_name;

static const char *
level_name(enum log_level level)
{
    switch (level) {
    case LOG_DEBUG:
        return "debug";
    case LOG_INFO:
        return "info";
    case LOG_WARN:
        return "warn";
    case LOG_ERROR:
        return "error";
    }
    return "unknown";
}

void
log_set_level(enum log_level least)
{
    atomic_store(&least_level, (int)least);
}

void
log_set_program(const char *name)
{
    atomic_store(&program_name, name);
}

/* The size used of @line after a print that may have been cut. */
static size_t
clipped(size_t used, int printed)
{
    size_t size = used + (printed > 0 ? (size_t)printed : 0);

    return size < LINE_BYTES ? size : LINE_BYTES - 1;
}

void
log_event(enum log_level level, const char *event, const char *format, ...)
{
    const char *program = atomic_load(&program_name);
    char line[LINE_BYTES], at[32];
    size_t used;
    va_list args;

    if ((int)level < atomic_load(&least_level))
        return;
    used = clipped(0, snprintf(line, sizeof(line), "%s %s level=%s%s%s ", event,
                               instant_text(clock_wall(), at, sizeof(at)),
                               level_name(level),
                               program != NULL ? " program=" : "",
                               program != NULL ? program : ""));
    va_start(args, format);
    used = clipped(used,
                   vsnprintf(line + used, sizeof(line) - used, format, args));
    va_end(args);
    for (size_t i = 0; i < used; i++) {
        if (line[i] == '\n' || line[i] == '\r')
            line[i] = ' ';
    }
    while (used > 0 && line[used - 1] == ' ')
        used--;
    line[used++] = '\n';
    /* Nothing can be done about a log that cannot be written. */
    if (write(STDERR_FILENO, line, used) < 0)
        return;
}

/* The text of one byte inside quotes; its size. */
static size_t
escaped(unsigned char c, char piece[static 5])
{
    int size;

    if (c == '"' || c == '\\')
        size = snprintf(piece, 5, "\\%c", c);
    else if (c == '\n')
        size = snprintf(piece, 5, "\\n");
    else if (c < 0x20 || c == 0x7f)
        size = snprintf(piece, 5, "\\x%02x", c);
    else
        size = snprintf(piece, 5, "%c", c);
    return (size_t)size;
}

const char *
log_quote(const char *value, char *text, size_t text_size)
{
    size_t used = 0;
    char piece[5];

    assert(text_size >= 3);
    text[used++] = '"';
    for (; *value != '\0'; value++) {
        size_t size = escaped((unsigned char)*value, piece);

        if (used + size + 2 > text_size)
            break;
        memcpy(text + used, piece, size);
        used += size;
    }
    text[used++] = '"';
    text[used] = '\0';
    return text;
}
