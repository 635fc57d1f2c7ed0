/* answer.c - chunks of a chat completion to text. */
#include "cli/answer.h"

#include <stdio.h>
#include <string.h>

#include "cli/interrupt.h"
#include "cli/show.h"
#include "cli/sse.h"
#include "cli/text.h"

#include "common/banned.h"

static const char chat_path[] = "/v1/chat/completions";

struct stream {
    struct cli *cli;
    struct cli_show show;
    struct cli_sse sse;
    struct buf *text;
    enum status status; /* why the reader stopped */
    bool is_done;
    bool is_cut; /* at max_tokens */
};

void
cli_answer_write(const struct cli *cli, const char *text, size_t size)
{
    struct buf safe;

    if (!cli->is_terminal) {
        (void)fwrite(text, 1, size, stdout);
    } else {
        buf_init(&safe, CLI_ANSWER_MAX_BYTES);
        cli_text_append_safe(&safe, text, size, true);
        (void)fwrite(safe.data, 1, safe.size, stdout);
        buf_clear(&safe);
    }
    (void)fflush(stdout);
}

enum status
cli_answer_fail(struct cli *cli, const struct json *error)
{
    const char *message = json_as_text(json_get(error, "message"), NULL);

    (void)error_set(&cli->err, STATUS_INTERNAL, "%s",
                    message != NULL ? message
                                    : "the stream ended with an error that "
                                      "has no message");
    return error_tag(&cli->err, json_as_text(json_get(error, "code"), NULL),
                     NULL);
}

/* "tool_calls" of a delta: begins of calls, and more of their arguments. */
static void
take_calls(struct stream *stream, const struct json *calls)
{
    for (size_t i = 0; i < json_count(calls); i++) {
        const struct json *called = json_get(json_at(calls, i), "function");
        size_t size = 0;
        const char *text = json_as_text(json_get(called, "name"), &size);

        if (text != NULL)
            cli_show_call(&stream->show, text, size);
        text = json_as_text(json_get(called, "arguments"), &size);
        if (text != NULL)
            cli_show_text(&stream->show, CLI_CALL, text, size);
    }
}

static void
take_choice(struct stream *stream, const struct json *choice)
{
    const struct json *delta = json_get(choice, "delta");
    const char *reason = json_as_text(json_get(choice, "finish_reason"), NULL);
    size_t size = 0;
    const char *text =
        json_as_text(json_get(delta, "reasoning_content"), &size);

    if (text != NULL)
        cli_show_text(&stream->show, CLI_REASONING, text, size);
    text = json_as_text(json_get(delta, "content"), &size);
    if (text != NULL) {
        cli_show_text(&stream->show, CLI_CONTENT, text, size);
        buf_append(stream->text, text, size);
    }
    take_calls(stream, json_get(delta, "tool_calls"));
    if (reason != NULL)
        stream->is_cut = strcmp(reason, "length") == 0;
}

static bool
on_event(void *arg, const struct cli_sse_event *event)
{
    struct stream *stream = arg;
    struct json_doc doc = {0};
    const struct json *error;

    if (strncmp(event->data, "[DONE]", 6) == 0) {
        stream->is_done = true;
        return false;
    }
    stream->status = json_doc_parse(event->data, event->data_size, &doc, NULL);
    if (stream->status != STATUS_OK) {
        (void)error_set(&stream->cli->err, stream->status,
                        "the stream holds something that is no JSON: is %.200s "
                        "the coordinator's address?",
                        stream->cli->config.url);
        return false;
    }
    error = json_get(doc.root, "error");
    if (!json_is_null(error))
        stream->status = cli_answer_fail(stream->cli, error);
    else
        take_choice(stream, json_at(json_get(doc.root, "choices"), 0));
    json_doc_clear(&doc);
    return stream->status == STATUS_OK;
}

static bool
on_bytes(void *arg, const char *bytes, size_t size)
{
    struct stream *stream = arg;
    enum status status =
        cli_sse_push(&stream->sse, bytes, size, &stream->cli->err);

    if (status != STATUS_OK)
        stream->status = status;
    return !stream->sse.is_stopped;
}

enum status
cli_answer_stream(struct cli *cli, const struct buf *request, struct buf *text)
{
    struct stream stream = {.cli = cli, .show = {.cli = cli}, .text = text};
    const struct cli_request call = {.method = "POST",
                                     .path = chat_path,
                                     .body = request->data,
                                     .body_size = request->size};
    enum status status = buf_status(request, &cli->err);

    if (status != STATUS_OK)
        return status;
    cli_sse_init(&stream.sse, on_event, &stream);
    status = cli_http_stream(cli->http, &call, on_bytes, &stream, &cli->err);
    cli_show_end(&stream.show);
    if (status == STATUS_OK)
        status = stream.status;
    if (status == STATUS_OK && !stream.is_done)
        status = error_set(&cli->err, STATUS_RETRY,
                           "the stream ended before the answer did: try again");
    if (status == STATUS_OK && stream.is_cut && cli->is_terminal)
        (void)fprintf(stderr, "(cut at the token limit; --max-tokens N)\n");
    cli_sse_clear(&stream.sse);
    return status;
}

enum status
cli_answer_whole(struct cli *cli, const struct buf *request, struct buf *text)
{
    const struct cli_request call = {.method = "POST",
                                     .path = chat_path,
                                     .body = request->data,
                                     .body_size = request->size,
                                     .is_long = true};
    struct cli_answer answer;
    enum status status = buf_status(request, &cli->err);
    struct cli_show show = {.cli = cli};
    const struct json *message;
    const char *content;
    size_t size = 0;

    cli_answer_init(&answer);
    if (status == STATUS_OK)
        status = cli_call(cli, &call, &answer);
    if (status != STATUS_OK)
        goto out;
    message =
        json_get(json_at(json_get(answer.doc.root, "choices"), 0), "message");
    content = json_as_text(json_get(message, "content"), &size);
    if (cli->json)
        cli_print_json(&answer);
    else
        cli_show_message(&show, message);
    if (content != NULL)
        buf_append(text, content, size);

out:
    cli_answer_clear(&answer);
    return status;
}
