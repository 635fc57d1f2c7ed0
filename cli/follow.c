/* follow.c - events of a job. */
#include "cli/follow.h"

#include <stdio.h>
#include <string.h>

#include "cli/answer.h"
#include "cli/interrupt.h"
#include "cli/show.h"
#include "cli/sse.h"

#include "common/banned.h"

enum { WAIT_FIRST_MS = 500, WAIT_MAX_MS = 8000, FRUITLESS_MAX = 10 };

struct follower {
    struct cli *cli;
    struct cli_sse sse;
    struct cli_show show;
    bool is_shown;
    bool has_news; /* this connection brought an event */
    bool is_over;  /* finish or error came */
    enum status status;
};

/* An event of the answer by its name; others say nothing here. */
static void
take_part(struct follower *follower, const char *name, const struct json *data)
{
    size_t size = 0, called_size = 0;
    const char *text = json_as_text(json_get(data, "text"), &size);
    const char *called = json_as_text(json_get(data, "name"), &called_size);
    int64_t choice = 0;

    if (json_as_i64(json_get(data, "choice"), &choice) != STATUS_OK)
        choice = 0;
    if (choice != 0 || !follower->is_shown)
        return;
    if (strcmp(name, "tool_call") == 0 && called != NULL)
        cli_show_call(&follower->show, called, called_size);
    if (text == NULL)
        return;
    if (strcmp(name, "content") == 0)
        cli_show_text(&follower->show, CLI_CONTENT, text, size);
    else if (strcmp(name, "reasoning") == 0)
        cli_show_text(&follower->show, CLI_REASONING, text, size);
    else if (strcmp(name, "tool_arguments") == 0)
        cli_show_text(&follower->show, CLI_CALL, text, size);
}

/* "error" holds the object itself or, as answers do, a member "error". */
static void
take_error(struct follower *follower, const struct json *data)
{
    const struct json *inner = json_get(data, "error");

    follower->status =
        cli_answer_fail(follower->cli, json_is_null(inner) ? data : inner);
    follower->is_over = true;
}

static bool
on_event(void *arg, const struct cli_sse_event *event)
{
    struct follower *follower = arg;
    struct json_doc doc = {0};

    if (json_doc_parse(event->data, event->data_size, &doc, NULL) !=
        STATUS_OK) {
        follower->status =
            error_set(&follower->cli->err, STATUS_INTERNAL,
                      "the stream holds something that is no JSON: is %.200s "
                      "the coordinator's address?",
                      follower->cli->config.url);
        return false;
    }
    follower->has_news = true;
    if (strcmp(event->name, "error") == 0)
        take_error(follower, doc.root);
    else if (strcmp(event->name, "finish") == 0)
        follower->is_over = true;
    else
        take_part(follower, event->name, doc.root);
    json_doc_clear(&doc);
    return !follower->is_over;
}

static bool
on_bytes(void *arg, const char *bytes, size_t size)
{
    struct follower *follower = arg;
    enum status status =
        cli_sse_push(&follower->sse, bytes, size, &follower->cli->err);

    if (status != STATUS_OK)
        follower->status = status;
    return !follower->sse.is_stopped;
}

/* The stream closed without a last word: the job itself tells. */
static enum status
look_at_job(struct follower *follower, const char *job)
{
    struct cli *cli = follower->cli;
    struct cli_answer answer;
    enum status status;
    const struct json *error;
    char state[32];

    cli_answer_init(&answer);
    status = cli_call_on(cli, "GET", "/api/v1/jobs/", job, "", &answer);
    if (status != STATUS_OK)
        goto out;
    (void)cli_member(answer.doc.root, "state", state, sizeof(state));
    error = json_get(answer.doc.root, "error");
    if (strcmp(state, "queued") == 0 || strcmp(state, "running") == 0)
        goto out;
    follower->is_over = true;
    if (!json_is_null(error))
        status = cli_answer_fail(cli, error);
    else if (strcmp(state, "done") != 0)
        status =
            error_set(&cli->err, STATUS_CONFLICT, "the job ended: %s", state);

out:
    cli_answer_clear(&answer);
    return status;
}

/* One connection. */
static enum status
listen_once(struct follower *follower, const char *job, const char *path)
{
    struct cli *cli = follower->cli;
    const struct cli_request request = {
        .method = "GET",
        .path = path,
        .last_event_id = follower->sse.id.data,
    };
    enum status status;

    follower->has_news = false;
    cli_sse_restart(&follower->sse);
    status =
        cli_http_stream(cli->http, &request, on_bytes, follower, &cli->err);
    if (status == STATUS_OK)
        status = follower->status;
    if (status == STATUS_OK && !follower->is_over)
        status = look_at_job(follower, job);
    return status;
}

static enum status
listen_on(struct follower *follower, const char *job, const char *path)
{
    int fruitless = 0;
    int64_t wait_ms = WAIT_FIRST_MS;

    while (!cli_interrupted()) {
        enum status status = listen_once(follower, job, path);

        if (follower->is_over ||
            (status != STATUS_OK && status != STATUS_RETRY))
            return status;
        if (follower->has_news) {
            fruitless = 0;
            wait_ms = WAIT_FIRST_MS;
            continue;
        }
        if (++fruitless == FRUITLESS_MAX)
            return error_set(&follower->cli->err, STATUS_RETRY,
                             "lost the coordinator; the job goes on: "
                             "`berth job %s --follow` reads its answer",
                             job);
        cli_pause(wait_ms);
        wait_ms = wait_ms * 2 > WAIT_MAX_MS ? WAIT_MAX_MS : wait_ms * 2;
    }
    return STATUS_RETRY; /* interrupted; cli_close knows */
}

enum status
cli_follow(struct cli *cli, const char *job, bool is_shown)
{
    struct follower follower = {
        .cli = cli, .show = {.cli = cli}, .is_shown = is_shown};
    enum status status;
    struct buf path;

    cli_interrupt_watch();
    buf_init(&path, CLI_PATH_MAX_BYTES);
    buf_printf(&path, "/api/v1/jobs/%s/events", job);
    cli_sse_init(&follower.sse, on_event, &follower);
    status = listen_on(&follower, job, path.data);
    cli_show_end(&follower.show);
    if (cli_interrupted())
        (void)fprintf(stderr,
                      "berth: the job goes on; `berth job %s --follow` reads "
                      "its answer, `berth cancel %s` ends it\n",
                      job, job);
    cli_sse_clear(&follower.sse);
    buf_clear(&path);
    return status;
}
