/* error.c - failures as a status and one line of text. */
#include "common/error.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/banned.h"

/* A message is one line whatever went into it: it is logged and printed. */
static void
make_one_line(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = ' ';
        else if ((unsigned char)text[0] == 0xc2 &&
                 (unsigned char)text[1] >= 0x80 &&
                 (unsigned char)text[1] <= 0x9f)
            text[0] = text[1] = ' '; /* C1 controls */
    }
}

/* Cutting may have left the beginning of a UTF-8 sequence at the end. */
static void
drop_cut_sequence(char *text, size_t size)
{
    size_t tail = 0;
    size_t whole;
    unsigned char lead;

    while (tail < 3 && tail < size &&
           ((unsigned char)text[size - 1 - tail] & 0xc0) == 0x80)
        tail++;
    lead = tail < size ? (unsigned char)text[size - 1 - tail] : 0;
    whole = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead >= 0xc0 && tail + 1 < whole)
        text[size - 1 - tail] = '\0';
}

enum status
error_set(struct error *err, enum status status, const char *format, ...)
{
    va_list args;
    int size;

    if (err == NULL)
        return status;
    err->status = status;
    err->code[0] = '\0';
    err->param[0] = '\0';
    va_start(args, format);
    size = vsnprintf(err->text, sizeof(err->text), format, args);
    va_end(args);
    if (size < 0)
        err->text[0] = '\0';
    else if ((size_t)size >= sizeof(err->text))
        drop_cut_sequence(err->text, sizeof(err->text) - 1);
    make_one_line(err->text);
    return status;
}

enum status
error_tag(struct error *err, const char *code, const char *param)
{
    if (err == NULL)
        return STATUS_INTERNAL;
    if (code != NULL)
        (void)snprintf(err->code, sizeof(err->code), "%s", code);
    if (param != NULL)
        (void)snprintf(err->param, sizeof(err->param), "%s", param);
    make_one_line(err->code);
    make_one_line(err->param);
    return err->status;
}

void
error_advise(struct error *err, const char *step)
{
    size_t size;

    if (err == NULL)
        return;
    size = strlen(err->text);
    if (snprintf(err->text + size, sizeof(err->text) - size, ": %s", step) >=
        (int)(sizeof(err->text) - size))
        drop_cut_sequence(err->text, sizeof(err->text) - 1);
}

const char *
error_errno(int number, char *text, size_t text_size)
{
    assert(text_size > 0);
    if (strerror_r(number, text, text_size) != 0)
        (void)snprintf(text, text_size, "error %d", number);
    return text;
}

const char *
status_name(enum status status)
{
    switch (status) {
    case STATUS_OK:
        return "ok";
    case STATUS_INVALID:
        return "invalid";
    case STATUS_UNKNOWN_CALLER:
        return "unknown_caller";
    case STATUS_NO_FUNDS:
        return "no_funds";
    case STATUS_DENIED:
        return "denied";
    case STATUS_NOT_FOUND:
        return "not_found";
    case STATUS_CONFLICT:
        return "conflict";
    case STATUS_TOO_LARGE:
        return "too_large";
    case STATUS_NO_CAPACITY:
        return "no_capacity";
    case STATUS_RETRY:
        return "retry";
    case STATUS_INTERNAL:
        return "internal";
    }
    return "unknown";
}

int
status_http(enum status status)
{
    switch (status) {
    case STATUS_OK:
        return 200;
    case STATUS_INVALID:
        return 400;
    case STATUS_UNKNOWN_CALLER:
        return 401;
    case STATUS_NO_FUNDS:
        return 402;
    case STATUS_DENIED:
        return 403;
    case STATUS_NOT_FOUND:
        return 404;
    case STATUS_CONFLICT:
        return 409;
    case STATUS_TOO_LARGE:
        return 413;
    case STATUS_NO_CAPACITY:
        return 429;
    case STATUS_RETRY:
        return 503;
    case STATUS_INTERNAL:
        return 500;
    }
    return 500;
}
