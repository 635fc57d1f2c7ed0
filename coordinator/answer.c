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
answer_usage_put(struct json_out *out, uint64_t prompt_tokens,
                 uint64_t completion_tokens)
{
    json_open_object(out);
    json_member_u64(out, "prompt_tokens", prompt_tokens);
    json_member_u64(out, "completion_tokens", completion_tokens);
    json_member_u64(out, "total_tokens", prompt_tokens + completion_tokens);
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

/* A chunk with one choice; @text NULL: no text is added. */
static void
chunk(const struct answer *answer, bool first, const char *text, size_t size,
      const char *finish, struct buf *out)
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
        if (text != NULL) {
            json_key(&json, "content");
            json_put_text_sized(&json, text, size);
        }
        json_close_object(&json);
    } else {
        json_key(&json, "text");
        json_put_text_sized(&json, text == NULL ? "" : text, size);
    }
    close_choice(&json, finish);
    close_chunk(answer, &json);
}

void
answer_first(const struct answer *answer, struct buf *out)
{
    chunk(answer, true, "", 0, NULL, out);
}

void
answer_content(const struct answer *answer, const char *text, size_t size,
               struct buf *out)
{
    chunk(answer, false, text, size, NULL, out);
}

void
answer_finish(const struct answer *answer, const char *finish, struct buf *out)
{
    chunk(answer, false, NULL, 0, finish, out);
}

void
answer_usage(const struct answer *answer, const struct record_end *end,
             struct buf *out)
{
    struct json_out json;

    begin_chunk(answer, &json, out);
    json_close_list(&json);
    json_key(&json, "usage");
    answer_usage_put(&json, end->prompt_tokens, end->completion_tokens);
    json_close_object(&json);
}

void
answer_body(const struct answer *answer, const char *text, size_t size,
            const struct record_end *end, struct buf *out)
{
    struct json_out json;

    begin(answer, answer->chat ? "chat.completion" : "text_completion", &json,
          out);
    json_open_object(&json);
    json_member_i64(&json, "index", 0);
    if (answer->chat) {
        json_key(&json, "message");
        json_open_object(&json);
        json_member_text(&json, "role", "assistant");
        json_key(&json, "content");
        json_put_text_sized(&json, text, size);
        json_member_null(&json, "refusal");
        json_close_object(&json);
    } else {
        json_key(&json, "text");
        json_put_text_sized(&json, text, size);
    }
    /* No finish: what was delivered of a job that ended otherwise. */
    close_choice(&json, end->finish[0] != '\0' ? end->finish : NULL);
    json_key(&json, "usage");
    answer_usage_put(&json, end->prompt_tokens, end->completion_tokens);
    json_close_object(&json);
}
