/* message.h - an answer put together: content, reasoning, tool calls. */
#ifndef BERTH_COORDINATOR_MESSAGE_H
#define BERTH_COORDINATOR_MESSAGE_H

#include <stdbool.h>

#include "common/buf.h"
#include "common/json.h"
#include "coordinator/record.h"

struct message {
    struct buf content;
    struct buf reasoning;
    struct buf calls; /* JSON list of OpenAI's tool_calls; empty: none */
    uint64_t reasoning_tokens;
};

void message_init(struct message *message);
void message_clear(struct message *message);
/* All that the record has so far. */
void message_read(struct message *message, struct record *record);

/* Members of a stored result, and back; false: it holds no answer. */
void message_store(const struct message *message, struct json_out *out);
bool message_restore(struct message *message, const struct json *stored);
/* Whether there is nothing at all. */
bool message_is_empty(const struct message *message);

#endif
