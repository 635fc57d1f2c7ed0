/* format.h - how the families of models mark reasoning and tool calls.
 *
 * One table of descriptions; model/output reads answers by them.  A family is
 * found by the markers that its chat template writes itself. */
#ifndef BERTH_MODEL_FORMAT_H
#define BERTH_MODEL_FORMAT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"

/* What a marker in the text says. */
enum format_role {
    FORMAT_THINK_OPEN,
    FORMAT_THINK_CLOSE,
    FORMAT_CALLS_OPEN, /* around all calls of an answer */
    FORMAT_CALLS_CLOSE,
    FORMAT_CALL_OPEN,   /* around one call */
    FORMAT_CALL_ID,     /* inside a header: the call's id follows */
    FORMAT_CALL_MIDDLE, /* between header and arguments */
    FORMAT_CALL_CLOSE,
    FORMAT_HEAD_OPEN, /* channels: a message's head begins */
    FORMAT_HEAD_CHANNEL,
    FORMAT_HEAD_TYPE,
    FORMAT_HEAD_CLOSE, /* its text begins */
    FORMAT_TEXT_CLOSE, /* its text ends */
    FORMAT_ROLE_COUNT
};

/* How the inside of a call is written.  A JSON object (or a list of them) with
 * the members name and arguments (or parameters) is understood everywhere. */
enum format_syntax {
    FORMAT_NONE,     /* reasoning alone */
    FORMAT_OBJECT,   /* nothing but that object */
    FORMAT_HEADER,   /* a header with the name, a marker, the arguments' JSON */
    FORMAT_TAGS,     /* the name and each argument between tags */
    FORMAT_CHANNELS, /* messages, each with a head that says what it is */
};

/* What a call's id looks like. */
enum format_id {
    FORMAT_ID_DRAWN, /* "call_" and 24 letters and digits */
    FORMAT_ID_NINE,  /* nine letters and digits */
    FORMAT_ID_OWN,   /* the header's text: the template wants it back */
};

struct format_tags {
    const char *name_open, *name_close; /* "" before: the name comes at once */
    const char *key_open, *key_close;
    const char *value_open, *value_close; /* "" before: the value comes */
    const char *end;                      /* after the last; "" : nothing */
    bool lines; /* a value stands on lines of its own */
};

struct format {
    const char *name;
    /* Texts that the chat template has, all of them; NULL ends them. */
    const char *signs[3];
    const char *markers[FORMAT_ROLE_COUNT]; /* NULL: there is none */
    enum format_syntax syntax;
    const struct format_tags *tags;
    enum format_id id;
    bool bare;           /* an answer may begin with a call without a marker */
    bool text_arguments; /* the template wants arguments as JSON text */
    bool null_content;   /* and no content, not an empty one, beside calls */
    const char *thought; /* member of messages that the template reads */
    /* How a call begins, up to its name, and from there to its arguments; "%"
     * in the second stands for the number of the call in the conversation. */
    const char *front, *back;
};

/* The family of a chat template; NULL when it is none of the table. */
const struct format *format_find(const char *source, size_t size);
/* Whether a template reads this variable. */
bool format_template_reads(const char *source, size_t size, const char *name);
/* By its name, for tests and documents; NULL: there is none. */
const struct format *format_named(const char *name);
/* The @index-th of the table; NULL behind the last. */
const struct format *format_at(size_t index);

/* The begin of a call of @name (NULL: of any tool) as the model would write it,
 * appended; @closes: reasoning is open and ends first. */
void format_call_begin(const struct format *format, bool closes,
                       const char *name, size_t number, struct buf *out);
/* Whether generation begins inside reasoning: the rendered @prompt ends with
 * an opened marker. */
bool format_thinks_at_once(const struct format *format, const char *prompt,
                           size_t size);

#endif
