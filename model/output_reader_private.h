/* output_reader_private.h - what the files of the reader share. */
#ifndef BERTH_MODEL_OUTPUT_READER_PRIVATE_H
#define BERTH_MODEL_OUTPUT_READER_PRIVATE_H

#include "model/output_reader.h"

enum {
    READER_PENDING_MAX_BYTES = 2 * 1024 * 1024,
    READER_RAW_MAX_BYTES = 256 * 1024, /* of what may yet be no call */
    READER_HEAD_MAX_BYTES = 1024,      /* a header, a name, a key */
    READER_NAME_MAX_BYTES = 256,
};

enum reader_state {
    READER_CONTENT,
    READER_REASONING,
    READER_BETWEEN, /* behind a call, or before the first of a section */
    READER_CALL,
    READER_HEAD, /* channels */
    READER_TEXT,
};

/* Where in a call. */
enum reader_part {
    PART_BEGIN,
    PART_OBJECT,
    PART_HEADER,
    PART_FENCE, /* between the header and the arguments */
    PART_ARGUMENTS,
    PART_NAME,
    PART_KEY,
    PART_VALUE_OPEN,
    PART_VALUE,
};

/* One JSON value as it passes by: where it ends. */
struct json_walk {
    bool begun;
    bool in_text;
    bool escaped;
    unsigned depth;
};

/* Where in the object of a call, outside of its values. */
enum object_place {
    OBJECT_BEGIN,
    OBJECT_OPEN,
    OBJECT_KEY,
    OBJECT_COLON,
    OBJECT_VALUE,
    OBJECT_COMMA,
};

struct reader {
    const struct output_rules *rules;
    const struct format *format;
    char *tools; /* rules->tools, copied */
    size_t tools_size;
    struct output_events *to; /* of the push at hand */
    enum reader_state state;
    struct buf pending;    /* not looked at, or the front of a marker */
    struct buf raw;        /* passed by; content after all if no call comes */
    bool said;             /* there was content */
    bool strips;           /* white space is no part of what begins */
    uint32_t calls;        /* begun */
    bool is_open;          /* the last of them has not ended */
    bool is_bare;          /* the call at hand has no marker */
    bool is_list;          /* calls stand in a JSON list */
    enum output_kind kind; /* of a channel's text */

    /* the call at hand */
    enum reader_part part;
    enum object_place place;
    struct json_walk walk;
    bool is_streamed; /* the value at hand is passed on as it comes */
    bool is_named, is_fenced;
    bool has_arguments; /* held in arguments until the name is known */
    bool is_first;      /* no member was written yet */
    bool is_text, is_quoted, is_led; /* the value between tags */
    struct buf name, id, key, value, arguments;
};

/* What of a wanted text is there at a place. */
enum reader_front { FRONT_NO, FRONT_PART, FRONT_YES };

enum reader_front reader_front(const struct reader *reader, size_t at,
                               const char *wanted);
enum reader_front reader_front_role(const struct reader *reader, size_t at,
                                    enum format_role role);
size_t reader_role_size(const struct reader *reader, enum format_role role);
/* The first of the markers in @roles (bits); false: none is there whole. */
bool reader_find(const struct reader *reader, unsigned roles, size_t *at,
                 enum format_role *role);
/* Bytes at the end that may begin one of the markers in @roles. */
size_t reader_uncertain(const struct reader *reader, unsigned roles);
/* Move @size bytes from what is pending to what has passed by. */
void reader_pass(struct reader *reader, size_t size);
void reader_drop(struct reader *reader, size_t size);
/* Pass white space by; false: nothing else is there yet. */
bool reader_skip_space(struct reader *reader);
bool reader_is_space(char c);
/* What passed by is content. */
void reader_give_up(struct reader *reader);
void reader_say(struct reader *reader, const char *text, size_t size);

/* output_call.c */
void call_begin(struct reader *reader);
bool call_step(struct reader *reader); /* false: more text is needed */
void call_end_here(struct reader *reader, bool whole);
/* A call begins with reader->name and reader->id ("" : drawn). */
void call_open(struct reader *reader);
void call_arguments(struct reader *reader, const char *text, size_t size);
void call_close(struct reader *reader);
bool call_tool_is_known(const struct reader *reader, const char *name);
/* Whether the tool's schema says that this member is text. */
bool call_member_is_text(const struct reader *reader);
/* Walk over a byte of a value. */
enum walk_step { WALK_GOES_ON, WALK_ENDS, WALK_ENDED_BEFORE };
enum walk_step call_walk(struct json_walk *walk, char c);

/* output_call_object.c, output_call_tags.c: a step of their parts. */
bool call_object_step(struct reader *reader);
bool call_tags_step(struct reader *reader);
void call_tags_end(struct reader *reader);

/* output_channel.c */
bool channel_head_step(struct reader *reader);
bool channel_text_step(struct reader *reader);
void channel_end(struct reader *reader);

#define ROLE(role_) (1u << (role_))

#endif
