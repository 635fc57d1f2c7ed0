/* command_run.c - berth-engine run: one prompt, its answer on standard
 * output. */
#include "inference/command.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "common/mem.h"
#include "model/output.h"

#include "common/banned.h"

enum { PROMPT_MAX_BYTES = TOKENIZER_TEXT_MAX_BYTES };

static const char usage[] =
    "usage: berth-engine run --model DIR --prompt TEXT|--messages FILE "
    "[OPTION]...";

struct run_options {
    struct compute_options compute;
    const char *prompt, *messages, *max_tokens;
    const char *temperature, *top_p, *top_k, *seed;
    bool raw, json;
};

struct run {
    const struct run_options *options;
    struct engine_request request;
    struct token_ids prompt;
    struct token_ids made;
    struct output *output;
    struct buf text; /* all of it */
    size_t shown;    /* bytes of it printed */
    bool ended;
    enum output_finish finish;
    struct sequence_counts counts;
};

static void
show(struct run *run)
{
    if (run->options->json)
        return;
    fwrite(run->text.data + run->shown, 1, run->text.size - run->shown, stdout);
    fflush(stdout);
    run->shown = run->text.size;
}

static void
on_id(void *arg, void *tag, uint32_t id)
{
    struct run *run = arg;

    (void)tag;
    run->made.ids[run->made.count++] = id;
    (void)output_push(run->output, &id, 1, &run->text);
    show(run);
}

static void
on_finish(void *arg, void *tag, enum output_finish finish,
          const struct sequence_counts *counts)
{
    struct run *run = arg;

    (void)tag;
    run->ended = true;
    run->finish = finish;
    run->counts = *counts;
}

static enum status
numbers_read(const struct run_options *o, struct engine_request *request,
             struct error *err)
{
    uint64_t top_k = 0;
    enum status status;

    request->sampling.top_p = 1;
    status = option_number("--max-tokens", o->max_tokens, 1, UINT32_MAX,
                           &request->max_tokens, err);
    if (status == STATUS_OK)
        status = option_fraction("--temp", o->temperature, 0, 100,
                                 &request->sampling.temperature, err);
    if (status == STATUS_OK)
        status = option_fraction("--top-p", o->top_p, 1e-9, 1,
                                 &request->sampling.top_p, err);
    if (status == STATUS_OK)
        status = option_number("--top-k", o->top_k, 0, UINT32_MAX, &top_k, err);
    if (status == STATUS_OK)
        status = option_number("--seed", o->seed, 0, UINT64_MAX,
                               &request->sampling.seed, err);
    request->sampling.top_k = (uint32_t)top_k;
    return status;
}

static enum status
options_check(const struct run_options *o, struct engine_options *engine,
              struct engine_request *request, struct error *err)
{
    enum status status = compute_options_check(&o->compute, engine, err);

    if (status == STATUS_OK)
        status = numbers_read(o, request, err);
    if (status != STATUS_OK)
        return status;
    if ((o->prompt == NULL) == (o->messages == NULL))
        return error_set(err, STATUS_INVALID,
                         "give one of --prompt TEXT and --messages FILE");
    if (o->raw && o->prompt == NULL)
        return error_set(err, STATUS_INVALID, "--raw goes with --prompt TEXT");
    return STATUS_OK;
}

static enum status
prompt_make(const struct run_options *o, const struct engine *engine,
            struct token_ids *ids, struct error *err)
{
    struct buf text;
    enum status status = STATUS_OK;

    buf_init(&text, PROMPT_MAX_BYTES);
    if (o->messages != NULL)
        status = messages_render(o->compute.model, o->messages, &text, err);
    else if (!o->raw)
        status = prompt_render(o->compute.model, o->prompt, &text, err);
    else
        buf_append_text(&text, o->prompt);
    if (status == STATUS_OK)
        status = buf_status(&text, err);
    if (status == STATUS_OK)
        status = tokenizer_encode(engine_tokenizer(engine), text.data,
                                  text.size, !o->raw, ids, err);
    buf_clear(&text);
    return status;
}

/* Lengths, as far as context and memory allow when none was asked for. */
static void
lengths_set(const struct engine *engine, struct run *run)
{
    uint64_t most = engine_kv_bytes(engine) / engine_kv_token_bytes(engine);
    struct engine_request *request = &run->request;

    if (most > engine_config(engine)->context)
        most = engine_config(engine)->context;
    request->prompt = run->prompt.ids;
    request->prompt_count = run->prompt.count;
    if (request->max_tokens == 0 && most > run->prompt.count)
        request->max_tokens = most - run->prompt.count;
    if (request->max_tokens == 0)
        request->max_tokens = 1; /* engine_add explains the context */
    request->kv_tokens = request->prompt_count + request->max_tokens;
}

static struct output *
output_make(const struct engine *engine, const struct engine_request *request)
{
    const struct model_config *config = engine_config(engine);
    struct output_rules rules = {.max_tokens = request->max_tokens,
                                 .end_id_count = config->stop_id_count};

    memcpy(rules.end_ids, config->stop_ids,
           config->stop_id_count * sizeof(rules.end_ids[0]));
    return output_new(engine_tokenizer(engine), &rules);
}

static double
per_second(uint64_t count, struct span span)
{
    return span.ns > 0 ? (double)count * 1e9 / (double)span.ns : 0;
}

static void
json_print(const struct run *run)
{
    struct buf buf;
    struct json_out out;
    uint64_t decoded = run->counts.ids > 0 ? run->counts.ids - 1 : 0;

    buf_init(&buf, 64 * (size_t)MIB);
    json_out_init(&out, &buf);
    json_open_object(&out);
    json_key(&out, "text");
    json_put_text_sized(&out, run->text.data, run->text.size);
    json_key(&out, "ids");
    ids_write(&out, run->made.ids, run->made.count);
    json_member_text(&out, "finish_reason", output_finish_name(run->finish));
    json_member_u64(&out, "prompt_tokens", run->prompt.count);
    json_member_u64(&out, "completion_tokens", run->made.count);
    json_member_double(&out, "prefill_tok_s",
                       per_second(run->prompt.count, run->counts.prefill));
    json_member_double(&out, "decode_tok_s",
                       per_second(decoded, run->counts.decode));
    json_close_object(&out);
    printf("%s\n", buf.data);
    buf_clear(&buf);
}

static enum status
generate(struct engine *engine, struct run *run, struct error *err)
{
    const struct engine_events events = {
        .on_id = on_id, .on_finish = on_finish, .arg = run};
    struct sequence *sequence;
    enum status status;

    lengths_set(engine, run);
    status = engine_add(engine, &run->request, NULL, &sequence, err);
    if (status != STATUS_OK)
        return status;
    run->made.ids =
        mem_array((size_t)run->request.max_tokens, sizeof(uint32_t));
    run->output = output_make(engine, &run->request);
    while (!run->ended)
        engine_step(engine, &events);
    output_flush(run->output, &run->text);
    show(run);
    if (run->finish == OUTPUT_GOING)
        return error_set(err, STATUS_INVALID, "%s", ENGINE_NOT_FINITE);
    if (run->options->json)
        json_print(run);
    else
        printf("\n");
    return STATUS_OK;
}

static int
run_model(struct run *run, const struct engine_options *options)
{
    struct engine *engine = NULL;
    struct error err;
    enum status status =
        engine_open(run->options->compute.model, options, &engine, &err);

    buf_init(&run->text, 64 * (size_t)MIB);
    if (status == STATUS_OK)
        status = prompt_make(run->options, engine, &run->prompt, &err);
    if (status == STATUS_OK)
        status = generate(engine, run, &err);
    output_free(run->output);
    engine_close(engine);
    buf_clear(&run->text);
    free(run->prompt.ids);
    free(run->made.ids);
    return status == STATUS_OK ? EXIT_OK : command_failed(&err);
}

int
command_run(int argc, char **argv)
{
    struct run_options o = {0};
    const struct option_spec specs[] = {
        COMPUTE_OPTIONS(o.compute),
        {"--prompt", OPTION_TEXT, &o.prompt, NULL, "TEXT", "a user message"},
        {"--messages", OPTION_TEXT, &o.messages, NULL, "FILE",
         "a JSON list of {role, content}"},
        {"--raw", OPTION_FLAG, NULL, &o.raw, NULL,
         "the prompt is plain text, no chat template"},
        {"--max-tokens", OPTION_TEXT, &o.max_tokens, NULL, "N",
         "ids to make at most (default: what the context holds)"},
        {"--temp", OPTION_TEXT, &o.temperature, NULL, "X",
         "temperature (default 0: the likeliest id)"},
        {"--top-p", OPTION_TEXT, &o.top_p, NULL, "X",
         "draw from the likeliest ids that weigh X together"},
        {"--top-k", OPTION_TEXT, &o.top_k, NULL, "K",
         "draw from the K likeliest ids"},
        {"--seed", OPTION_TEXT, &o.seed, NULL, "S", "of the draws (default 0)"},
        {"--json", OPTION_FLAG, NULL, &o.json, NULL, "one JSON object"},
    };
    struct run run = {.options = &o};
    struct engine_options options;
    struct error err;
    size_t words;
    enum status status = options_parse(argc, argv, usage, specs,
                                       COUNT_OF(specs), NULL, 0, &words, &err);

    if (status == STATUS_OK)
        status = options_check(&o, &options, &run.request, &err);
    if (status != STATUS_OK)
        return command_usage(&err);
    return run_model(&run, &options);
}
