/* job.c - `berth job ID`: the life of a job: where it was tried and why there,
 * how each attempt ended, what it cost and who got it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/follow.h"
#include "cli/show.h"
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

/* How much work at which rate; nothing when the work is not known any more. */
static void
print_work(const struct json *price, const char *work, double unit,
           const char *unit_name, const char *rate)
{
    char text[32];

    if (json_is_null(json_get(price, work)))
        return;
    printf("%-23s%.6f %s x %s x %.3f\n", "", (double)number(price, work) / unit,
           unit_name, credits(price, rate, text),
           (double)number(price, "class_per_mille") / 1000);
}

/* prefill + decode = price, and the fee in it. */
static void
print_working(const struct json *job, const struct json *price)
{
    const struct json *tokens = json_get(job, "usage");
    bool is_smallest = number(job, "price_ucr") == number(price, "minimum_ucr");
    char text[32];

    printf("%-12s  %s for reading %" PRId64 " tokens (prefill)\n", "",
           credits(price, "prefill_ucr", text),
           number(tokens, "prompt_tokens") - number(price, "cached_tokens"));
    print_work(price, "flop", 1e12, "TFLOP", "ucr_per_tflop");
    printf("%-12s+ %s for writing %" PRId64 " tokens (decode)\n", "",
           credits(price, "decode_ucr", text),
           number(tokens, "completion_tokens"));
    print_work(price, "bytes_moved", 1e9, "GB moved", "ucr_per_gb");
    printf("%-12s= %s%s\n", "", credits(job, "price_ucr", text),
           is_smallest ? ", the smallest charge" : "");
    printf("%-12s  %s of it the fee", "", credits(price, "fee_ucr", text));
    if (!json_is_null(json_get(price, "fee_per_mille")))
        printf(", %" PRId64 " per mille", number(price, "fee_per_mille"));
    if (number(price, "reprefill_ucr") > 0)
        printf("; %s of that for reading again",
               credits(price, "reprefill_ucr", text));
    printf("\n");
}

static void
print_part(const struct json *attempt, const char *name, const char *term,
           bool *is_first)
{
    char text[32];

    if (number(attempt, name) == 0)
        return;
    printf("%s%s %s", *is_first ? ": " : " + ", credits(attempt, name, text),
           term);
    *is_first = false;
}

/* Who got the price: what is left of the fee, and each attempt by term. */
static void
print_division(const struct json *price, const struct json *attempts)
{
    struct credits left = {.micro = number(price, "fee_ucr") -
                                    number(price, "reprefill_ucr")};
    char text[32];

    printf("%-12sthe network: %s\n", "divided",
           credits_text(left, text, sizeof(text)));
    for (size_t i = 0; i < json_count(attempts); i++) {
        const struct json *attempt = json_at(attempts, i);
        bool is_first = true;

        printf("%-12sattempt %" PRId64, "", number(attempt, "number"));
        print_part(attempt, "prefill_ucr", "prefill", &is_first);
        print_part(attempt, "decode_ucr", "decode", &is_first);
        print_part(attempt, "reprefill_ucr", "re-prefill", &is_first);
        printf("%s\n", is_first ? ": nothing" : "");
    }
}

static void
print_price(const struct json *job)
{
    const struct json *price = json_get(job, "price");
    const struct json *attempts = json_get(job, "attempts");
    char text[32];

    if (json_is_null(json_get(job, "price_ucr"))) {
        printf("%-12snot settled; %s credits are held\n", "price",
               credits(job, "hold_ucr", text));
        return;
    }
    if (number(job, "price_ucr") == 0) {
        printf("%-12snothing was charged\n", "price");
        return;
    }
    printf("%-12s%s credits, revision %" PRId64 " of the price list\n", "price",
           credits(job, "price_ucr", text), number(price, "revision"));
    print_working(job, price);
    if (!json_is_null(json_get(json_at(attempts, 0), "decode_ucr")))
        print_division(price, attempts);
}

/* A node's name and id, or what a submitter may see of it: seat, chip and
 * memory. */
static void
describe_target(const struct json *target, char *text, size_t text_size)
{
    char kind[VALUE_BYTES], id[VALUE_BYTES], name[VALUE_BYTES], memory[32];
    char chip[VALUE_BYTES], seat[VALUE_BYTES];
    uint64_t bytes = (uint64_t)number(target, "memory_bytes");

    (void)cli_member(target, "kind", kind, sizeof(kind));
    (void)cli_member(target, "id", id, sizeof(id));
    (void)cli_member(target, "name", name, sizeof(name));
    (void)cli_member(target, "chip", chip, sizeof(chip));
    (void)cli_member(target, "seat", seat, sizeof(seat));
    if (name[0] != '\0')
        (void)snprintf(text, text_size, "%s %s (%s)", kind, name, id);
    else if (id[0] != '\0')
        (void)snprintf(text, text_size, "%s %s", kind, id);
    else if (bytes > 0)
        (void)snprintf(text, text_size, "%s%s%s with %s, %s", seat,
                       seat[0] != '\0' ? " " : "", kind,
                       chip[0] != '\0' ? chip : "an unnamed chip",
                       bytes_text(bytes, memory, sizeof(memory)));
    else
        (void)snprintf(text, text_size, "%s", kind);
}

static void
print_speed(const char *label, const struct json *speed)
{
    double first_ms, rate;

    if (json_as_double(json_get(speed, "ttft_ms"), &first_ms) != STATUS_OK)
        return;
    printf("    %-14sfirst token after %.0f ms", label, first_ms);
    if (json_as_double(json_get(speed, "tok_s"), &rate) == STATUS_OK)
        printf(", then %.1f tokens/s", rate);
    printf("\n");
}

/* Whoever may not know the others is told how many there were. */
static void
describe_candidate(const struct json *row, const char *verdict, char *text,
                   size_t text_size)
{
    const struct json *target = json_get(row, "target");

    if (json_kind(target) == JSON_KIND_OBJECT)
        describe_target(target, text, text_size);
    else if (!json_is_null(target))
        (void)cli_member(row, "target", text, text_size);
    else if (strcmp(verdict, "chosen") == 0)
        (void)snprintf(text, text_size, "this target");
    else
        (void)snprintf(text, text_size, "%" PRId64 " %s", number(row, "count"),
                       number(row, "count") == 1 ? "other" : "others");
}

/* Why this target: the one chosen and those that were slower or refused. */
static void
print_why(const struct json *why)
{
    for (size_t i = 0; i < json_count(why); i++) {
        const struct json *row = json_at(why, i);
        char verdict[VALUE_BYTES], reason[LINE_BYTES], name[LINE_BYTES];
        double finish_ms;

        (void)cli_member(row, "verdict", verdict, sizeof(verdict));
        (void)cli_member(row, "reason", reason, sizeof(reason));
        describe_candidate(row, verdict, name, sizeof(name));
        printf("    %-14s%s", verdict, name);
        if (reason[0] != '\0')
            printf(": %s", reason);
        else if (json_as_double(json_get(row, "finish_ms"), &finish_ms) ==
                 STATUS_OK)
            printf(", finishes in %.0f ms", finish_ms);
        printf("\n");
    }
}

/* Why it ended, in words and as the code that docs/api.md lists. */
static void
describe_end(const struct json *attempt, char *text, size_t text_size)
{
    char code[VALUE_BYTES], words[VALUE_BYTES];

    (void)cli_member(attempt, "end_reason", code, sizeof(code));
    (void)cli_member(attempt, "end_text", words, sizeof(words));
    if (code[0] == '\0')
        (void)snprintf(text, text_size, "going on");
    else if (words[0] == '\0')
        (void)snprintf(text, text_size, "%s", code);
    else
        (void)snprintf(text, text_size, "%s (%s)", words, code);
}

static void
print_times(const struct json *attempt)
{
    char started[VALUE_BYTES];
    double ran_ms;

    (void)cli_member(attempt, "started", started, sizeof(started));
    if (started[0] == '\0')
        return;
    printf("    %-14s%s", "started", started);
    if (json_as_double(json_get(attempt, "ran_ms"), &ran_ms) == STATUS_OK)
        printf(", ended after %.3f s", ran_ms / 1000);
    printf("\n");
}

static void
print_attempt(const struct json *attempt)
{
    char target[LINE_BYTES], end[LINE_BYTES];

    describe_target(json_get(attempt, "target"), target, sizeof(target));
    describe_end(attempt, end, sizeof(end));
    printf("\nattempt %" PRId64 " on %s\n", number(attempt, "number"), target);
    print_times(attempt);
    if (number(attempt, "done") > 0)
        printf("    %-14s%" PRId64 " tokens of earlier attempts\n", "given",
               number(attempt, "done"));
    printf("    %-14s%" PRId64 " tokens\n", "delivered",
           number(attempt, "ids"));
    printf("    %-14s%s\n", "end", end);
    print_speed("predicted", json_get(attempt, "predicted"));
    print_speed("observed", json_get(attempt, "observed"));
    print_why(json_get(attempt, "why"));
}

static void
print_error(const struct json *error)
{
    char message[LINE_BYTES], code[VALUE_BYTES];

    (void)cli_member(error, "message", message, sizeof(message));
    (void)cli_member(error, "code", code, sizeof(code));
    if (message[0] != '\0')
        printf("%-12s%s%s%s%s\n", "error", message, code[0] != '\0' ? " (" : "",
               code, code[0] != '\0' ? ")" : "");
}

/* The first choice, chat or completion. */
static void
print_result(const struct cli *cli, const struct json *job)
{
    const struct json *choice =
        json_at(json_get(json_get(job, "result"), "choices"), 0);
    struct cli_show show = {.cli = cli};
    size_t size = 0;
    const char *text = json_as_text(json_get(choice, "text"), &size);

    if (choice == NULL)
        return;
    (void)putchar('\n');
    if (text != NULL)
        cli_show_text(&show, CLI_CONTENT, text, size);
    cli_show_message(&show, json_get(choice, "message"));
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
    print_error(json_get(job, "error"));
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
