/* answer.c - one function per form of an answer. */
#include "coordinator/answer.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/banned.h"

enum { UUID_TIME_DIGITS = 12 };

/* Milliseconds since 1970 in front of a UUIDv7. */
static int64_t
uuid_ms(const char *uuid)
{
    int64_t ms = 0;
    size_t digits = 0;

    for (const char *c = uuid; *c != '\0' && digits < UUID_TIME_DIGITS; c++) {
        if (*c == '-')
            continue;
        ms = ms * 16 + (*c <= '9' ? *c - '0' : *c - 'a' + 10);
        digits++;
    }
    return ms;
}

void
answer_init(struct answer *answer, const char *job, bool chat,
            const char *model)
{
    size_t at;

    assert(strlen(job) == UUID_TEXT_BYTES - 1);
    *answer = (struct answer){.chat = chat, .created = uuid_ms(job) / 1000};
    at = (size_t)snprintf(answer->id, sizeof(answer->id), "%s",
                          chat ? "chatcmpl-" : "cmpl-");
    for (const char *c = job; *c != '\0'; c++)
        if (*c != '-')
            answer->id[at++] = *c;
    answer->id[at] = '\0';
    snprintf(answer->model, sizeof(answer->model), "%s", model);
}

void
answer_usage_put(struct json_out *out, const struct record_end *end)
{
    json_open_object(out);
    json_member_u64(out, "prompt_tokens", end->prompt_tokens);
    json_member_u64(out, "completion_tokens", end->completion_tokens);
    json_member_u64(out, "total_tokens",
                    end->prompt_tokens + end->completion_tokens);
    if (end->reasoning_tokens > 0) {
        json_key(out, "completion_tokens_details");
        json_open_object(out);
        json_member_u64(out, "reasoning_tokens", end->reasoning_tokens);
        json_close_object(out);
    }
    json_close_object(out);
}

/* Everything up to the open list of choices. */
static void
begin(const struct answer *answer, const char *object, struct json_out *json,
      struct buf *out)
{
    json_out_init(json, out);
    json_open_object(json);
    json_member_text(json, "id", answer->id);
    json_member_text(json, "object", object);
    json_member_i64(json, "created", answer->created);
    json_member_text(json, "model", answer->model);
    json_key(json, "choices");
    json_open_list(json);
}

static void
begin_chunk(const struct answer *answer, struct json_out *json, struct buf *out)
{
    begin(answer, answer->chat ? "chat.completion.chunk" : "text_completion",
          json, out);
}

/* The end of a choice: what it closes with is the same in every form. */
static void
close_choice(struct json_out *json, const char *finish)
{
    json_member_null(json, "logprobs");
    json_member_text(json, "finish_reason", finish);
    json_close_object(json);
    json_close_list(json);
}

static void
close_chunk(const struct answer *answer, struct json_out *json)
{
    if (answer->usage)
        json_member_null(json, "usage");
    json_close_object(json);
}

static void
text_put(struct json_out *json, const char *name, const char *text, size_t size)
{
    json_key(json, name);
    json_put_text_sized(json, text, size);
}

/* "tool_calls" of a delta: the begin of a call, or more of its arguments. */
static void
call_put(struct json_out *json, const struct record_event *event,
         const char *text)
{
    bool begins = event->kind == RECORD_CALL;

    json_key(json, "tool_calls");
    json_open_list(json);
    json_open_object(json);
    json_member_i64(json, "index", event->call);
    if (begins) {
        text_put(json, "id", text, event->id_size);
        json_member_text(json, "type", "function");
    }
    json_key(json, "function");
    json_open_object(json);
    if (begins)
        text_put(json, "name", text + event->id_size,
                 event->text_size - event->id_size);
    text_put(json, "arguments", text, begins ? 0 : event->text_size);
    json_close_object(json);
    json_close_object(json);
    json_close_list(json);
}

static void
delta_put(struct json_out *json, const struct record_event *event,
          const char *text)
{
    switch (event->kind) {
    case RECORD_CONTENT:
        text_put(json, "content", text, event->text_size);
        break;
    case RECORD_REASONING:
        text_put(json, "reasoning_content", text, event->text_size);
        break;
    case RECORD_CALL:
    case RECORD_ARGUMENTS:
        call_put(json, event, text);
        break;
    case RECORD_FINISH:
    case RECORD_ERROR:
        break;
    }
}

/* A chunk with one choice. */
static void
chunk(const struct answer *answer, bool first, const struct record_event *event,
      const char *text, const char *finish, struct buf *out)
{
    struct json_out json;

    begin_chunk(answer, &json, out);
    json_open_object(&json);
    json_member_i64(&json, "index", 0);
    if (answer->chat) {
        json_key(&json, "delta");
        json_open_object(&json);
        if (first)
            json_member_text(&json, "role", "assistant");
        delta_put(&json, event, text);
        json_close_object(&json);
    } else {
        text_put(&json, "text", text, event->text_size);
    }
    close_choice(&json, finish);
    close_chunk(answer, &json);
}

void
answer_first(const struct answer *answer, struct buf *out)
{
    const struct record_event empty = {.kind = RECORD_CONTENT};

    chunk(answer, true, &empty, "", NULL, out);
}

void
answer_event(const struct answer *answer, const struct record_event *event,
             const char *text, struct buf *out)
{
    chunk(answer, false, event, text, NULL, out);
}

void
answer_finish(const struct answer *answer, const char *finish, struct buf *out)
{
    const struct record_event last = {.kind = RECORD_FINISH};

    chunk(answer, false, &last, "", finish, out);
}

void
answer_usage(const struct answer *answer, const struct record_end *end,
             struct buf *out)
{
    struct json_out json;

    begin_chunk(answer, &json, out);
    json_close_list(&json);
    json_key(&json, "usage");
    answer_usage_put(&json, end);
    json_close_object(&json);
}

static void
message_put(struct json_out *json, const struct message *message)
{
    json_key(json, "message");
    json_open_object(json);
    json_member_text(json, "role", "assistant");
    if (message->content.size == 0 && message->calls.size > 0)
        json_member_null(json, "content");
    else
        text_put(json, "content", message->content.data, message->content.size);
    if (message->reasoning.size > 0)
        text_put(json, "reasoning_content", message->reasoning.data,
                 message->reasoning.size);
    if (message->calls.size > 0) {
        json_key(json, "tool_calls");
        json_put_raw(json, message->calls.data, message->calls.size);
    }
    json_member_null(json, "refusal");
    json_close_object(json);
}

void
answer_body(const struct answer *answer, const struct message *message,
            const struct record_end *end, struct buf *out)
{
    struct json_out json;

    begin(answer, answer->chat ? "chat.completion" : "text_completion", &json,
          out);
    json_open_object(&json);
    json_member_i64(&json, "index", 0);
    if (answer->chat)
        message_put(&json, message);
    else
        text_put(&json, "text", message->content.data, message->content.size);
    /* No finish: what was delivered of a job that ended otherwise. */
    close_choice(&json, end->finish[0] != '\0' ? end->finish : NULL);
    json_key(&json, "usage");
    answer_usage_put(&json, end);
    json_close_object(&json);
}
