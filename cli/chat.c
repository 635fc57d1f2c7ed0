/* chat.c - `berth chat`: one question, or a conversation. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/answer.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/request.h"
#include "common/units.h"

#include "common/banned.h"

static const char usage[] =
    "usage: berth chat [--model M] [OPTION...] [PROMPT]\n\n"
    "Answers PROMPT (\"-\": standard input) as the model writes. Without "
    "PROMPT it reads\na question a line and keeps the conversation, until the "
    "end of the input.";

/* Messages may hold every prompt and answer so far. */
enum { CONVERSATION_MAX_BYTES = 64 * 1024 * 1024 };

struct chat {
    struct cli cli;
    struct cli_sampling sampling;
    bool no_stream;
    char model[CLI_ID_BYTES];
    struct buf messages;
};

/* Ask with the messages so far and @text; on success both the question and
 * the answer are part of the conversation, else neither. */
static enum status
take_turn(struct chat *chat, const char *text, size_t size)
{
    struct cli *cli = &chat->cli;
    bool is_stream = !chat->no_stream && !cli->json;
    size_t before = chat->messages.size;
    struct buf body, answer;
    struct json_out out;
    enum status status;

    buf_init(&body, CONVERSATION_MAX_BYTES + CLI_PROMPT_MAX_BYTES);
    buf_init(&answer, CLI_ANSWER_MAX_BYTES);
    cli_message_add(&chat->messages, "user", text, size);
    json_out_init(&out, &body);
    status = cli_request_write(cli, &chat->sampling, chat->model,
                               &chat->messages, is_stream, &out);
    if (status == STATUS_OK)
        status = buf_status(&chat->messages, &cli->err);
    if (status == STATUS_OK && is_stream)
        status = cli_answer_stream(cli, &body, &answer);
    else if (status == STATUS_OK)
        status = cli_answer_whole(cli, &body, &answer);
    if (status == STATUS_OK)
        cli_message_add(&chat->messages, "assistant", answer.data, answer.size);
    else
        buf_truncate(&chat->messages, before);
    buf_clear(&answer);
    buf_clear(&body);
    return status;
}

/* One line of standard input without its end; false at the end of input. */
static bool
read_line(struct buf *line)
{
    int c;

    buf_reset(line);
    while (!cli_interrupted() && (c = getchar()) != EOF && c != '\n')
        buf_append_char(line, (char)c);
    if (line->size > 0 && line->data[line->size - 1] == '\r')
        buf_truncate(line, line->size - 1);
    return !cli_interrupted() && (line->size > 0 || feof(stdin) == 0);
}

/* A failed turn ends a script but not a person's conversation. */
static enum status
converse(struct chat *chat)
{
    bool is_person = isatty(STDIN_FILENO) == 1;
    enum status status = STATUS_OK;
    struct buf line;

    buf_init(&line, CLI_PROMPT_MAX_BYTES);
    if (is_person)
        (void)fprintf(stderr, "%s - end with Ctrl-D\n", chat->model);
    while (status == STATUS_OK) {
        if (is_person)
            (void)fprintf(stderr, "> ");
        if (!read_line(&line))
            break;
        status = buf_status(&line, &chat->cli.err);
        if (status == STATUS_OK && line.size > 0)
            status = take_turn(chat, line.data, line.size);
        if (status != STATUS_OK && is_person && !cli_interrupted()) {
            cli_complain(&chat->cli);
            status = STATUS_OK;
        }
    }
    if (is_person)
        (void)fprintf(stderr, "\n");
    buf_clear(&line);
    return status;
}

static enum status
answer_one(struct chat *chat, const char *prompt)
{
    enum status status;
    struct buf text;

    if (strcmp(prompt, "-") != 0)
        return take_turn(chat, prompt, strlen(prompt));
    buf_init(&text, CLI_PROMPT_MAX_BYTES);
    status = cli_read(&chat->cli, prompt, &text);
    if (status == STATUS_OK)
        status = take_turn(chat, text.data, text.size);
    buf_clear(&text);
    return status;
}

static enum status
start(struct chat *chat)
{
    const char *system = chat->sampling.system;
    enum status status =
        cli_model(&chat->cli, chat->sampling.model, chat->model);

    if (system != NULL)
        cli_message_add(&chat->messages, "system", system, strlen(system));
    return status;
}

int
cli_chat(int argc, char **argv)
{
    struct chat chat = {.no_stream = false};
    struct cli *cli = &chat.cli;
    const struct option_spec specs[] = {
        CLI_SAMPLING_OPTIONS(chat.sampling),
        {.name = "--no-stream",
         .type = OPTION_FLAG,
         .flag = &chat.no_stream,
         .help = "print the answer when it is whole"},
        CLI_JSON_OPTION(*cli),
    };
    enum status status =
        cli_open(cli, argc, argv, usage, specs, COUNT_OF(specs), 0, 1);

    buf_init(&chat.messages, CONVERSATION_MAX_BYTES);
    cli_interrupt_watch();
    if (status == STATUS_OK)
        status = start(&chat);
    if (status == STATUS_OK && cli->word_count == 1)
        status = answer_one(&chat, cli->words[0]);
    else if (status == STATUS_OK)
        status = converse(&chat);
    buf_clear(&chat.messages);
    return cli_close(cli, status);
}
