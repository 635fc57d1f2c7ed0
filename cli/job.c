/* job.c - `berth job ID`: what happened to a job, why there, for how much. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/follow.h"
#include "cli/text.h"
#include "common/units.h"

#include "common/banned.h"

static const char usage[] = "usage: berth job ID [--follow]";

enum { VALUE_BYTES = 256, LINE_BYTES = 1024 };

static void
print_text(const char *label, const struct json *object, const char *name)
{
    char text[LINE_BYTES];

    (void)cli_member(object, name, text, sizeof(text));
    if (text[0] != '\0')
        printf("%-12s%s\n", label, text);
}

static int64_t
number(const struct json *object, const char *name)
{
    int64_t value = 0;

    return json_as_i64(json_get(object, name), &value) == STATUS_OK ? value : 0;
}

static const char *
credits(const struct json *object, const char *name, char text[32])
{
    struct credits value = {.micro = number(object, name)};

    return credits_text(value, text, 32);
}

/* prefill + decode = price, and how it is split. */
static void
print_price(const struct json *job)
{
    const struct json *price = json_get(job, "price");
    struct credits earned = {.micro = number(job, "price_ucr") -
                                      number(price, "fee_ucr")};
    char a[32], b[32], c[32];

    if (json_is_null(json_get(job, "price_ucr"))) {
        printf("%-12snot settled; %s credits are held\n", "price",
               credits(job, "hold_ucr", a));
        return;
    }
    printf("%-12s%s credits\n", "price", credits(job, "price_ucr", a));
    if (json_is_null(price))
        return;
    printf("%-12s  %s for reading the prompt (prefill)\n", "",
           credits(price, "prefill_ucr", a));
    printf("%-12s+ %s for writing the answer (decode)\n", "",
           credits(price, "decode_ucr", b));
    printf("%-12s= %s, revision %" PRId64 " of the price list\n", "",
           credits(job, "price_ucr", c), number(price, "revision"));
    printf("%-12s  of which fee %s, earned by the target's owner %s\n", "",
           credits(price, "fee_ucr", a), credits_text(earned, b, sizeof(b)));
}

/* A node's id, or what a submitter may see of it: chip and memory. */
static void
describe_target(const struct json *target, char *text, size_t text_size)
{
    char kind[VALUE_BYTES], id[VALUE_BYTES], chip[VALUE_BYTES], memory[32];
    uint64_t bytes = (uint64_t)number(target, "memory_bytes");

    (void)cli_member(target, "kind", kind, sizeof(kind));
    (void)cli_member(target, "id", id, sizeof(id));
    (void)cli_member(target, "chip", chip, sizeof(chip));
    if (id[0] != '\0')
        (void)snprintf(text, text_size, "%s %s", kind, id);
    else if (bytes > 0)
        (void)snprintf(text, text_size, "%s with %s, %s", kind,
                       chip[0] != '\0' ? chip : "an unnamed chip",
                       bytes_text(bytes, memory, sizeof(memory)));
    else
        (void)snprintf(text, text_size, "%s", kind);
}

static void
print_speed(const char *label, const struct json *speed)
{
    double first_ms, rate;

    if (json_as_double(json_get(speed, "ttft_ms"), &first_ms) == STATUS_OK &&
        json_as_double(json_get(speed, "tok_s"), &rate) == STATUS_OK)
        printf("    %-10sfirst token after %.0f ms, then %.1f tokens/s\n",
               label, first_ms, rate);
}

/* Why this target: the one chosen and those that were slower or refused. */
static void
print_why(const struct json *why)
{
    for (size_t i = 0; i < json_count(why); i++) {
        const struct json *row = json_at(why, i);
        const struct json *target = json_get(row, "target");
        char verdict[VALUE_BYTES], reason[LINE_BYTES], name[LINE_BYTES];
        double finish_ms;

        (void)cli_member(row, "verdict", verdict, sizeof(verdict));
        (void)cli_member(row, "reason", reason, sizeof(reason));
        if (json_kind(target) == JSON_KIND_OBJECT)
            describe_target(target, name, sizeof(name));
        else
            (void)cli_member(row, "target", name, sizeof(name));
        printf("    %-10s%s", verdict, name);
        if (json_as_double(json_get(row, "finish_ms"), &finish_ms) == STATUS_OK)
            printf("%sfinishes in %.0f ms", name[0] != '\0' ? ", " : "",
                   finish_ms);
        printf("%s%s\n", reason[0] != '\0' ? ": " : "", reason);
    }
}

static void
print_attempt(const struct json *attempt)
{
    char target[LINE_BYTES], end[VALUE_BYTES];

    describe_target(json_get(attempt, "target"), target, sizeof(target));
    (void)cli_member(attempt, "end_reason", end, sizeof(end));
    printf("\nattempt %" PRId64 " on %s: %" PRId64 " tokens, %s\n",
           number(attempt, "number"), target, number(attempt, "ids"),
           end[0] != '\0' ? end : "going on");
    print_speed("predicted", json_get(attempt, "predicted"));
    print_speed("observed", json_get(attempt, "observed"));
    print_why(json_get(attempt, "why"));
}

/* The text of the first choice, chat or completion. */
static void
print_result(const struct cli *cli, const struct json *job)
{
    const struct json *choice =
        json_at(json_get(json_get(job, "result"), "choices"), 0);
    size_t size = 0;
    const char *text =
        json_as_text(json_get(json_get(choice, "message"), "content"), &size);
    struct buf safe;

    if (text == NULL)
        text = json_as_text(json_get(choice, "text"), &size);
    if (text == NULL)
        return;
    buf_init(&safe, CLI_OUTPUT_MAX_BYTES);
    if (cli->is_terminal)
        cli_text_append_safe(&safe, text, size, true);
    else
        buf_append(&safe, text, size);
    printf("\n%s\n", safe.data);
    buf_clear(&safe);
}

static void
print_job(const struct cli *cli, const struct json *job)
{
    const struct json *tokens = json_get(job, "usage");
    const struct json *attempts = json_get(job, "attempts");

    print_text("job", job, "id");
    print_text("model", job, "model");
    print_text("state", job, "state");
    print_text("created", job, "created");
    print_text("started", job, "started");
    print_text("ended", job, "ended");
    printf("%-12s%" PRId64 " in, %" PRId64 " out\n", "tokens",
           number(tokens, "prompt_tokens"),
           number(tokens, "completion_tokens"));
    print_price(job);
    print_text("error", json_get(job, "error"), "message");
    for (size_t i = 0; i < json_count(attempts); i++)
        print_attempt(json_at(attempts, i));
    print_result(cli, job);
}

static enum status
show(struct cli *cli, bool is_followed)
{
    char id[CLI_ID_BYTES];
    struct cli_answer answer;
    enum status status;

    cli_answer_init(&answer);
    status =
        cli_resolve(cli, "/api/v1/jobs?limit=100", "job", cli->words[0], id);
    if (status == STATUS_OK && is_followed)
        status = cli_follow(cli, id, !cli->json);
    if (status == STATUS_OK && (!is_followed || cli->json)) {
        status = cli_call_on(cli, "GET", "/api/v1/jobs/", id, "", &answer);
        if (status == STATUS_OK && cli->json)
            cli_print_json(&answer);
        else if (status == STATUS_OK)
            print_job(cli, answer.doc.root);
    }
    cli_answer_clear(&answer);
    return status;
}

int
cli_job(int argc, char **argv)
{
    struct cli cli = {.json = false};
    bool is_followed = false;
    const struct option_spec specs[] = {
        {.name = "--follow",
         .type = OPTION_FLAG,
         .flag = &is_followed,
         .help = "print its answer from the start to its end"},
        CLI_JSON_OPTION(cli),
    };
    enum status status =
        cli_open(&cli, argc, argv, usage, specs, COUNT_OF(specs), 1, 1);

    if (status == STATUS_OK)
        status = show(&cli, is_followed);
    return cli_close(&cli, status);
}
