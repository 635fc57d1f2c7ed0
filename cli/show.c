/* show.c - parts of an answer, each on lines of its own. */
#include "cli/show.h"

#include <stdio.h>

#include "cli/answer.h"

#include "common/banned.h"

static void
part_end(struct cli_show *show)
{
    switch (show->part) {
    case CLI_PART_NONE:
        break;
    case CLI_REASONING:
        (void)fputs("\033[0m\n", stdout);
        break;
    case CLI_CONTENT:
        (void)putchar('\n');
        break;
    case CLI_CALL:
        (void)fputs(")\n", stdout);
        break;
    }
    show->part = CLI_PART_NONE;
}

void
cli_show_text(struct cli_show *show, enum cli_part part, const char *text,
              size_t size)
{
    if (size == 0 || (part == CLI_REASONING && !show->cli->is_terminal))
        return;
    if (part != show->part) {
        part_end(show);
        if (part == CLI_REASONING)
            (void)fputs("\033[2m", stdout);
        show->part = part;
    }
    cli_answer_write(show->cli, text, size);
}

void
cli_show_call(struct cli_show *show, const char *name, size_t size)
{
    part_end(show);
    show->part = CLI_CALL;
    cli_answer_write(show->cli, name, size);
    (void)putchar('(');
}

void
cli_show_end(struct cli_show *show)
{
    part_end(show);
    (void)fflush(stdout);
}

static void
member_show(struct cli_show *show, enum cli_part part,
            const struct json *message, const char *name)
{
    size_t size = 0;
    const char *text = json_as_text(json_get(message, name), &size);

    if (text != NULL)
        cli_show_text(show, part, text, size);
}

void
cli_show_message(struct cli_show *show, const struct json *message)
{
    const struct json *calls = json_get(message, "tool_calls");

    member_show(show, CLI_REASONING, message, "reasoning_content");
    member_show(show, CLI_CONTENT, message, "content");
    for (size_t i = 0; i < json_count(calls); i++) {
        const struct json *called = json_get(json_at(calls, i), "function");
        size_t size = 0;
        const char *name = json_as_text(json_get(called, "name"), &size);

        if (name == NULL)
            continue;
        cli_show_call(show, name, size);
        member_show(show, CLI_CALL, called, "arguments");
    }
    cli_show_end(show);
}
