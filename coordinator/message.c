/* message.c - events of a record to one message. */
#include "coordinator/message.h"

#include "common/banned.h"

enum {
    EVENTS_AT_ONCE = 64,
    /* Calls with every byte of their arguments escaped. */
    CALLS_MAX_BYTES = 8 * RECORD_MAX_BYTES,
};

/* The call that is being put together. */
struct building {
    struct message *message;
    struct json_out out;
    struct buf arguments;
    bool is_open;
};

void
message_init(struct message *message)
{
    *message = (struct message){.reasoning_tokens = 0};
    buf_init(&message->content, RECORD_MAX_BYTES);
    buf_init(&message->reasoning, RECORD_MAX_BYTES);
    buf_init(&message->calls, CALLS_MAX_BYTES);
}

void
message_clear(struct message *message)
{
    buf_clear(&message->content);
    buf_clear(&message->reasoning);
    buf_clear(&message->calls);
}

static void
call_end(struct building *building)
{
    struct json_out *out = &building->out;

    if (!building->is_open)
        return;
    json_key(out, "arguments");
    json_put_text_sized(out, building->arguments.data,
                        building->arguments.size);
    json_close_object(out);
    json_close_object(out);
    building->is_open = false;
}

static void
call_begin(struct building *building, const struct record_event *event,
           const char *text)
{
    struct json_out *out = &building->out;

    call_end(building);
    if (building->message->calls.size == 0)
        json_open_list(out);
    buf_reset(&building->arguments);
    json_open_object(out);
    json_key(out, "id");
    json_put_text_sized(out, text, event->id_size);
    json_member_text(out, "type", "function");
    json_key(out, "function");
    json_open_object(out);
    json_key(out, "name");
    json_put_text_sized(out, text + event->id_size,
                        event->text_size - event->id_size);
    building->is_open = true;
}

static void
event_take(struct building *building, const struct record_event *event,
           const char *text)
{
    switch (event->kind) {
    case RECORD_CONTENT:
        buf_append(&building->message->content, text, event->text_size);
        break;
    case RECORD_REASONING:
        buf_append(&building->message->reasoning, text, event->text_size);
        break;
    case RECORD_CALL:
        call_begin(building, event, text);
        break;
    case RECORD_ARGUMENTS:
        buf_append(&building->arguments, text, event->text_size);
        break;
    case RECORD_FINISH:
    case RECORD_ERROR:
        break;
    }
}

void
message_read(struct message *message, struct record *record)
{
    struct building building = {.message = message};
    struct record_event events[EVENTS_AT_ONCE];
    struct buf text;
    size_t index = 0, count;

    buf_init(&text, RECORD_MAX_BYTES);
    buf_init(&building.arguments, RECORD_MAX_BYTES);
    json_out_init(&building.out, &message->calls);
    do {
        size_t at = 0;

        buf_reset(&text);
        count = record_read(record, index, EVENTS_AT_ONCE, events, &text);
        for (size_t i = 0; i < count; i++) {
            event_take(&building, &events[i], text.data + at);
            at += events[i].text_size;
        }
        index += count;
    } while (count > 0);
    call_end(&building);
    if (message->calls.size > 0)
        json_close_list(&building.out);
    message->reasoning_tokens = record_reasoning(record);
    buf_clear(&building.arguments);
    buf_clear(&text);
}

void
message_store(const struct message *message, struct json_out *out)
{
    json_key(out, "text");
    json_put_text_sized(out, message->content.data, message->content.size);
    if (message->reasoning.size > 0) {
        json_key(out, "reasoning");
        json_put_text_sized(out, message->reasoning.data,
                            message->reasoning.size);
    }
    if (message->reasoning_tokens > 0)
        json_member_u64(out, "reasoning_tokens", message->reasoning_tokens);
    if (message->calls.size > 0) {
        json_key(out, "tool_calls");
        json_put_raw(out, message->calls.data, message->calls.size);
    }
}

bool
message_restore(struct message *message, const struct json *stored)
{
    size_t size = 0;
    const char *text = json_as_text(json_get(stored, "text"), &size);
    const char *reasoning;
    int64_t tokens = 0;

    if (text == NULL)
        return false;
    buf_append(&message->content, text, size);
    reasoning = json_as_text(json_get(stored, "reasoning"), &size);
    if (reasoning != NULL)
        buf_append(&message->reasoning, reasoning, size);
    if (json_count(json_get(stored, "tool_calls")) > 0)
        json_dump(json_get(stored, "tool_calls"), &message->calls);
    if (json_as_i64(json_get(stored, "reasoning_tokens"), &tokens) ==
            STATUS_OK &&
        tokens > 0)
        message->reasoning_tokens = (uint64_t)tokens;
    return true;
}

bool
message_is_empty(const struct message *message)
{
    return message->content.size == 0 && message->reasoning.size == 0 &&
           message->calls.size == 0;
}
