/* output_reader.h - certain text of an answer to events; private to model/.
 *
 * Text comes in pieces; however it is cut, the events are the same but for
 * their borders.  Nothing the text says is lost: what looks like a call and is
 * none becomes content. */
#ifndef BERTH_MODEL_OUTPUT_READER_H
#define BERTH_MODEL_OUTPUT_READER_H

#include "model/output.h"

struct reader;

/* @rules->format is not NULL; @rules is kept, its tools are copied. */
struct reader *reader_new(const struct output_rules *rules);
void reader_free(struct reader *reader);
void reader_push(struct reader *reader, const char *text, size_t size,
                 struct output_events *events);
/* Nothing more comes; @whole: the model ended by itself, so that arguments
 * which only lack their closing tags get them. */
void reader_end(struct reader *reader, bool whole,
                struct output_events *events);
/* Whether the text of a special token means something here. */
bool reader_knows(const struct reader *reader, const char *text, size_t size);
bool reader_thinks(const struct reader *reader);
uint32_t reader_calls(const struct reader *reader); /* begun so far */
bool reader_has_whole_call(const struct reader *reader);

/* Add text to the last event when it is of the same kind, else as a new one. */
void output_events_add(struct output_events *events, enum output_kind kind,
                       uint32_t call, const char *text, size_t size);
/* The begin of a call. */
void output_events_add_call(struct output_events *events, uint32_t call,
                            const char *id, size_t id_size, const char *name,
                            size_t name_size);

#endif
