/* run.c - `berth run`: a job that outlives the connection. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/follow.h"
#include "cli/request.h"
#include "common/cert.h"
#include "common/clock.h"

#include "common/banned.h"

static const char usage[] =
    "usage: berth run [--model M] [OPTION...] [PROMPT | --file FILE]\n\n"
    "Submits a chat job and follows it to its end; the job goes on when this "
    "program or\nits connection does not. PROMPT or FILE \"-\" is standard "
    "input.";

struct run {
    struct cli cli;
    struct cli_sampling sampling;
    const char *file;
    const char *key;
    bool is_detached;
};

static enum status
read_prompt(struct run *run, struct buf *prompt)
{
    struct cli *cli = &run->cli;

    if (run->file != NULL && cli->word_count > 0)
        return cli_misuse(cli, "give a PROMPT or --file FILE, not both");
    if (run->file != NULL)
        return cli_read(cli, run->file, prompt);
    if (cli->word_count == 0)
        return cli_misuse(cli, "a job needs a PROMPT or --file FILE");
    if (strcmp(cli->words[0], "-") == 0)
        return cli_read(cli, "-", prompt);
    buf_append_text(prompt, cli->words[0]);
    return buf_status(prompt, &cli->err);
}

/* {"kind":"chat","request":{...}} */
static enum status
write_job(struct run *run, const struct buf *prompt, struct buf *body)
{
    const char *system = run->sampling.system;
    char model[CLI_ID_BYTES];
    enum status status = cli_model(&run->cli, run->sampling.model, model);
    struct buf messages;
    struct json_out out;

    if (status != STATUS_OK)
        return status;
    buf_init(&messages, body->max);
    if (system != NULL)
        cli_message_add(&messages, "system", system, strlen(system));
    cli_message_add(&messages, "user", prompt->data, prompt->size);
    json_out_init(&out, body);
    json_open_object(&out);
    json_member_text(&out, "kind", "chat");
    json_key(&out, "request");
    status = cli_request_write(&run->cli, &run->sampling, model, &messages,
                               false, &out);
    json_close_object(&out);
    if (status == STATUS_OK)
        status = buf_status(&messages, &run->cli.err);
    buf_clear(&messages);
    return status;
}

/* Post it and learn its id.  Repeating the post is safe: the key names it. */
static enum status
submit(struct run *run, struct cli_answer *answer, char id[CLI_ID_BYTES])
{
    struct cli *cli = &run->cli;
    char key[UUID_TEXT_BYTES];
    struct buf prompt, body;
    enum status status;

    buf_init(&prompt, CLI_PROMPT_MAX_BYTES);
    buf_init(&body, 8 * (size_t)CLI_PROMPT_MAX_BYTES);
    uuid_make(clock_wall(), key);
    status = read_prompt(run, &prompt);
    if (status == STATUS_OK)
        status = write_job(run, &prompt, &body);
    if (status == STATUS_OK)
        status = cli_post(cli, "/api/v1/jobs", &body,
                          run->key != NULL ? run->key : key, answer);
    if (status == STATUS_OK &&
        !uuid_is_valid(cli_member(answer->doc.root, "id", id, CLI_ID_BYTES)))
        status = error_set(&cli->err, STATUS_INTERNAL,
                           "the coordinator's answer names no job");
    buf_clear(&body);
    buf_clear(&prompt);
    return status;
}

static enum status
work(struct run *run)
{
    struct cli *cli = &run->cli;
    char id[CLI_ID_BYTES];
    struct cli_answer answer;
    enum status status;

    cli_answer_init(&answer);
    status = submit(run, &answer, id);
    if (status == STATUS_OK && !run->is_detached) {
        (void)fprintf(stderr, "job %s\n", id);
        status = cli_follow(cli, id, !cli->json);
        if (status == STATUS_OK && cli->json)
            status = cli_call_on(cli, "GET", "/api/v1/jobs/", id, "", &answer);
    }
    if (status == STATUS_OK && cli->json)
        cli_print_json(&answer);
    else if (status == STATUS_OK && run->is_detached)
        printf("%s\n", id);
    cli_answer_clear(&answer);
    return status;
}

int
cli_run(int argc, char **argv)
{
    struct run run = {.file = NULL};
    const struct option_spec specs[] = {
        {.name = "--file",
         .type = OPTION_TEXT,
         .text = &run.file,
         .value = "FILE",
         .help = "take the prompt from FILE"},
        CLI_SAMPLING_OPTIONS(run.sampling),
        {.name = "--idempotency-key",
         .type = OPTION_TEXT,
         .text = &run.key,
         .value = "KEY",
         .help = "equal keys are one job; default: random"},
        {.name = "--detach",
         .type = OPTION_FLAG,
         .flag = &run.is_detached,
         .help = "print the job's id and leave it"},
        CLI_JSON_OPTION(run.cli),
    };
    enum status status =
        cli_open(&run.cli, argc, argv, usage, specs, COUNT_OF(specs), 0, 1);

    if (status == STATUS_OK)
        status = work(&run);
    return cli_close(&run.cli, status);
}
