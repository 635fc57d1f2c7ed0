/* command_bench.c - berth-engine bench: how fast prompts are read and ids
 * made. */
#include "inference/command.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/prng.h"

#include "common/banned.h"

static const char usage[] =
    "usage: berth-engine bench --model DIR -p PROMPT_TOKENS -n NEW_TOKENS "
    "[OPTION]...\n"
    "Rates are of the whole batch; bytes are of the weights alone.";

struct bench_options {
    struct compute_options compute;
    const char *prompt_text, *made_text, *batch_text;
    uint64_t prompt, made, batch;
    bool json;
};

/* The clock is read when every sequence has its first id. */
struct bench {
    uint64_t batch;
    uint64_t started, ended; /* sequences with a first id; over */
    uint64_t ids_after;      /* made after that moment */
    struct span prefilled;
};

static void
on_id(void *arg, void *tag, uint32_t id)
{
    struct bench *bench = arg;
    bool *has_first = tag;

    (void)id;
    if (bench->started == bench->batch) {
        bench->ids_after++;
        return;
    }
    if (!*has_first && ++bench->started == bench->batch)
        bench->prefilled = clock_monotonic();
    *has_first = true;
}

static void
on_finish(void *arg, void *tag, enum output_finish finish,
          const struct sequence_counts *counts)
{
    struct bench *bench = arg;

    (void)tag;
    (void)finish;
    (void)counts;
    bench->ended++;
}

static void
report(const struct bench_options *o, const struct engine *engine,
       const struct bench *bench, struct span begun)
{
    struct span over = clock_monotonic();
    double prefill_s = (double)(bench->prefilled.ns - begun.ns) / 1e9;
    double decode_s = (double)(over.ns - bench->prefilled.ns) / 1e9;
    double prefill = (double)(o->prompt * o->batch) / prefill_s;
    double decode = (double)bench->ids_after / decode_s;
    uint64_t bytes = engine_bytes_per_token(engine);
    /* A pass reads the weights once for the whole batch. */
    double read = decode / (double)o->batch * (double)bytes / 1e9;
    struct buf buf;
    struct json_out out;

    if (!o->json) {
        printf("prefill %.2f tok/s, decode %.2f tok/s, %" PRIu64
               " weight bytes per token, %.2f GB/s read\n",
               prefill, decode, bytes, read);
        return;
    }
    buf_init(&buf, 4096);
    json_out_init(&out, &buf);
    json_open_object(&out);
    json_member_double(&out, "prefill_tok_s", prefill);
    json_member_double(&out, "decode_tok_s", decode);
    json_member_u64(&out, "weight_bytes_per_token", bytes);
    json_member_double(&out, "read_gb_s", read);
    json_close_object(&out);
    printf("%s\n", buf.data);
    buf_clear(&buf);
}

/* Ids that do not end an answer, from a fixed seed. */
static void
prompt_fill(const struct engine *engine, struct prng *prng, uint32_t *ids,
            size_t count)
{
    for (size_t i = 0; i < count; i++)
        ids[i] = (uint32_t)prng_below(prng, engine_config(engine)->vocab);
}

static enum status
measure(const struct bench_options *o, struct engine *engine, struct error *err)
{
    struct bench bench = {.batch = o->batch};
    const struct engine_events events = {
        .on_id = on_id, .on_finish = on_finish, .arg = &bench};
    struct engine_request request = {.prompt_count = (size_t)o->prompt,
                                     .max_tokens = o->made,
                                     .kv_tokens = o->prompt + o->made,
                                     .ignore_ends = true,
                                     .sampling = {.top_p = 1}};
    uint64_t context = engine_config(engine)->context;
    uint32_t *ids;
    bool *has_first;
    struct prng prng;
    struct span begun;
    enum status status = STATUS_OK;

    if (request.kv_tokens > context) /* before memory is taken for them */
        return error_set(err, STATUS_INVALID,
                         "-p %" PRIu64 " and -n %" PRIu64
                         " exceed the context of %" PRIu64,
                         o->prompt, o->made, context);
    ids = mem_array((size_t)o->prompt, sizeof(*ids));
    has_first = mem_array((size_t)o->batch, sizeof(*has_first));
    prng_seed(&prng, 1);
    request.prompt = ids;
    for (size_t i = 0; status == STATUS_OK && i < o->batch; i++) {
        struct sequence *sequence;

        prompt_fill(engine, &prng, ids, (size_t)o->prompt);
        status = engine_add(engine, &request, &has_first[i], &sequence, err);
    }
    begun = clock_monotonic();
    while (status == STATUS_OK && bench.ended < o->batch)
        engine_step(engine, &events);
    if (status == STATUS_OK)
        report(o, engine, &bench, begun);
    free(has_first);
    free(ids);
    return status;
}

static enum status
options_check(struct bench_options *o, struct engine_options *options,
              struct error *err)
{
    enum status status = compute_options_check(&o->compute, options, err);

    if (status == STATUS_OK && (o->prompt_text == NULL || o->made_text == NULL))
        status = error_set(err, STATUS_INVALID,
                           "give -p PROMPT_TOKENS and -n NEW_TOKENS");
    if (status == STATUS_OK)
        status =
            option_number("-p", o->prompt_text, 1, UINT32_MAX, &o->prompt, err);
    if (status == STATUS_OK)
        status =
            option_number("-n", o->made_text, 2, UINT32_MAX, &o->made, err);
    if (status == STATUS_OK)
        status = option_number("--batch", o->batch_text, 1, ENGINE_SLOTS_MAX,
                               &o->batch, err);
    return status;
}

int
command_bench(int argc, char **argv)
{
    struct bench_options o = {.batch = 1};
    const struct option_spec specs[] = {
        COMPUTE_OPTIONS(o.compute),
        {"-p", OPTION_TEXT, &o.prompt_text, NULL, "N", "ids of each prompt"},
        {"-n", OPTION_TEXT, &o.made_text, NULL, "N",
         "ids to make for each, at least 2"},
        {"--batch", OPTION_TEXT, &o.batch_text, NULL, "B",
         "sequences at once (default 1)"},
        {"--json", OPTION_FLAG, NULL, &o.json, NULL, "one JSON object"},
    };
    struct engine_options options;
    struct engine *engine = NULL;
    struct error err;
    size_t words;
    enum status status = options_parse(argc, argv, usage, specs,
                                       COUNT_OF(specs), NULL, 0, &words, &err);

    if (status == STATUS_OK)
        status = options_check(&o, &options, &err);
    if (status != STATUS_OK)
        return command_usage(&err);
    options.slots = (uint32_t)o.batch;
    options.kv_bytes = INT64_MAX; /* a measurement takes what it asks for */
    status = engine_open(o.compute.model, &options, &engine, &err);
    if (status == STATUS_OK)
        status = measure(&o, engine, &err);
    engine_close(engine);
    return status == STATUS_OK ? EXIT_OK : command_failed(&err);
}
