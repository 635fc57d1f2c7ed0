/* inference_architectures_test.c - the engine on a tiny model of each
 * architecture and format, against what llama.cpp says of the same numbers
 * (tests/reference): the 20 likeliest ids at five places of two prompts, and
 * the 64 greedy ids after them. */
#include "inference/engine.h"

#include "tests/unit/tiny_model.h"

#include <math.h>

#include "common/mem.h"

#include "common/banned.h"

enum { IDS_MAX = 1024, TOP = 20, GREEDY = 64, CASES = 2 };

/* Both sides compute in float32, each in its own order. */
static const double tolerance = 1e-3;

/* A checked build of all threads' accesses takes many times as long; what the
 * threads do depends little on the model. */
#if defined(__SANITIZE_THREAD__)
enum { STEP = 9 };
#else
enum { STEP = 1 };
#endif

/* How the weights are stored, and what the model has besides: docs/models.md
 * lists them. */
static const struct {
    const char *name, *stored, *has;
} models[] = {
    {"llama", "F32", "llama3 scaling"},
    {"llama_biases", "F32", "biases, linear scaling, head tied"},
    {"llama_bf16", "BF16", "llama3 scaling"},
    {"llama_sharded", "BF16, three files with an index", "llama3 scaling"},
    {"mistral", "F32", "sliding window"},
    {"qwen2", "F32", "biases of queries, keys and values"},
    {"qwen3", "F32", "norms of queries and keys, head tied"},
    {"qwen3_f16", "F16", "the same"},
    {"affine_2bit", "affine 2 bits, groups of 32, F16", "the same"},
    {"affine_3bit", "affine 3 bits, groups of 64, BF16",
     "the same, head of its own"},
    {"affine_4bit", "affine 4 bits, groups of 128, BF16", "the same"},
    {"affine_5bit", "affine 5 bits, groups of 32, F32",
     "the same, head of its own"},
    {"affine_6bit", "affine 6 bits, groups of 64, F16", "the same"},
    {"affine_8bit", "affine 8 bits, groups of 128, BF16",
     "the same, head of its own"},
    {"affine_mixed", "affine, every bits and groups, by module", "the same"},
    {"mxfp4", "mxfp4, embedding affine 8 bits", "the same"},
    {"qwen3_moe", "F32", "experts by softmax"},
    {"qwen3_moe_4bit", "affine 4 bits, groups of 32", "experts by softmax"},
    {"gpt_oss", "F32", "windows, sinks, YaRN, experts with biases"},
    {"gpt_oss_mxfp4", "experts mxfp4, the rest affine 8 bits", "the same"},
    {"glm4_moe", "F32", "half of a head turns, experts by sigmoid, shared"},
    {"deepseek_v3", "F32", "compressed cache, YaRN, experts by groups"},
    {"deepseek_v3_published", "F32, as published", "the same"},
    {"deepseek_v3_4bit", "affine 4 bits, groups of 32", "the same"},
    {"kimi_k2", "F32, keys and values joined", "the same, one group"},
    {"kimi_k2_4bit", "affine 4 bits, groups of 32", "the same"},
    {"qwen3_5", "F32", "delta nets, gated attention"},
    {"qwen3_5_published", "F32, as published", "the same"},
    {"qwen3_5_4bit", "affine 4 bits, groups of 32", "the same"},
    {"qwen3_5_moe", "F32", "delta nets, experts, a gated shared one"},
};

struct seen {
    uint32_t ids[GREEDY];
    size_t count;
    bool finished;
};

static void
on_id(void *arg, void *tag, uint32_t id)
{
    struct seen *seen = tag;

    (void)arg;
    assert_true(seen->count < GREEDY);
    seen->ids[seen->count++] = id;
}

static void
on_finish(void *arg, void *tag, enum output_finish finish,
          const struct sequence_counts *counts)
{
    struct seen *seen = tag;

    (void)arg;
    (void)counts;
    assert_int_equal(finish, OUTPUT_LENGTH);
    seen->finished = true;
}

static size_t
ids_read(const struct json *list, uint32_t ids[static IDS_MAX])
{
    size_t count = json_count(list);

    assert_in_range(count, 1, IDS_MAX);
    for (size_t i = 0; i < count; i++) {
        int64_t id = 0;

        assert_int_equal(json_as_i64(json_at(list, i), &id), STATUS_OK);
        ids[i] = (uint32_t)id;
    }
    return count;
}

/* What to take from a logit to have a log probability. */
static double
log_total(const float *logits, size_t count)
{
    double most = (double)logits[0], sum = 0;

    for (size_t i = 1; i < count; i++)
        most = fmax(most, (double)logits[i]);
    for (size_t i = 0; i < count; i++)
        sum += exp((double)logits[i] - most);
    return most + log(sum);
}

/* The greatest difference of the listed log probabilities. */
static double
top_difference(const struct json *top, const float *logits, size_t vocab)
{
    double total = log_total(logits, vocab), most = 0;

    assert_int_equal(json_count(top), TOP);
    for (size_t i = 0; i < TOP; i++) {
        const struct json *pair = json_at(top, i);
        double expected = 0;
        int64_t id = 0;

        assert_int_equal(json_as_i64(json_at(pair, 0), &id), STATUS_OK);
        assert_in_range(id, 0, vocab - 1);
        assert_int_equal(json_as_double(json_at(pair, 1), &expected),
                         STATUS_OK);
        most = fmax(most, fabs((double)logits[id] - total - expected));
    }
    return most;
}

static double
check_tops(struct engine *engine, const char *name, const struct json *tops,
           const uint32_t *ids)
{
    size_t vocab = engine_config(engine)->vocab;
    float *logits = mem_array(vocab, sizeof(*logits));
    double most = 0;

    assert_int_equal(json_count(tops), 5);
    for (size_t i = 0; i < json_count(tops); i++) {
        const struct json *top = json_at(tops, i);
        size_t after = (size_t)tiny_number(top, "after");
        struct error err;
        double difference;

        if (engine_logits(engine, ids, after, logits, &err) != STATUS_OK)
            fail_msg("%s: %s", name, err.text);
        difference = top_difference(json_get(top, "top"), logits, vocab);
        if (!(difference < tolerance))
            fail_msg("%s: after %zu ids a log probability is off by %g", name,
                     after, difference);
        most = fmax(most, difference);
    }
    free(logits);
    return most;
}

static void
greedy_add(struct engine *engine, const char *name, const struct json *item,
           struct seen *seen)
{
    uint32_t ids[IDS_MAX];
    size_t count = ids_read(json_get(item, "ids"), ids);
    struct engine_request request = {.prompt = ids,
                                     .prompt_count = count,
                                     .max_tokens = GREEDY,
                                     .kv_tokens = count + GREEDY,
                                     .ignore_ends = true,
                                     .sampling = {.top_p = 1}};
    struct sequence *sequence;
    struct error err;

    *seen = (struct seen){.count = 0};
    if (engine_add(engine, &request, seen, &sequence, &err) != STATUS_OK)
        fail_msg("%s: %s", name, err.text);
}

static void
greedy_check(const char *name, const struct json *item, const struct seen *seen)
{
    uint32_t greedy[IDS_MAX];

    assert_int_equal(ids_read(json_get(item, "greedy"), greedy), GREEDY);
    assert_true(seen->finished);
    assert_int_equal(seen->count, GREEDY);
    for (size_t i = 0; i < GREEDY; i++)
        if (seen->ids[i] != greedy[i])
            fail_msg("%s: greedy id %zu after %zu ids is %u, expected %u", name,
                     i, json_count(json_get(item, "ids")), seen->ids[i],
                     greedy[i]);
}

/* Each case alone and all of them together, twice over: a sequence's memory is
 * its own. */
static void
check_greedy(struct engine *engine, const char *name, const struct json *cases)
{
    const struct engine_events events = {.on_id = on_id,
                                         .on_finish = on_finish};
    struct seen seen[2 * CASES];

    for (size_t i = 0; i < CASES; i++) {
        greedy_add(engine, name, json_at(cases, i), &seen[0]);
        while (engine_is_busy(engine))
            engine_step(engine, &events);
        greedy_check(name, json_at(cases, i), &seen[0]);
    }
    for (size_t i = 0; i < 2 * CASES; i++) {
        greedy_add(engine, name, json_at(cases, i % CASES), &seen[i]);
        engine_step(engine, &events); /* so that they are out of step */
    }
    while (engine_is_busy(engine))
        engine_step(engine, &events);
    for (size_t i = 0; i < 2 * CASES; i++)
        greedy_check(name, json_at(cases, i % CASES), &seen[i]);
}

static void
check_model(const char *name)
{
    struct engine_options options = {.threads = 2, .slots = 2 * CASES};
    char folder[] = "/tmp/berth-tiny-model-XXXXXX";
    struct json_doc doc = tiny_model_read(name);
    const struct json *cases = json_get(doc.root, "cases");
    struct engine *engine = NULL;
    double most = 0;
    struct error err;
    enum status status;

    tiny_model_write(&doc, folder);
    status = engine_open(folder, &options, &engine, &err);
    if (status != STATUS_OK)
        fail_msg("%s: %s", name, err.text);
    assert_int_equal(json_count(cases), CASES);
    for (size_t i = 0; i < CASES; i++) {
        const struct json *item = json_at(cases, i);
        uint32_t ids[IDS_MAX];

        (void)ids_read(json_get(item, "ids"), ids);
        most = fmax(most, check_tops(engine, name, json_get(item, "top"), ids));
    }
    check_greedy(engine, name, cases);
    print_message("%s: log probabilities within %.1e\n", name, most);
    engine_close(engine);
    tiny_model_remove(&doc, folder);
    json_doc_clear(&doc);
}

static void
log_probabilities_and_greedy_ids_equal_another_engines(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(models); i += STEP)
        check_model(models[i].name);
}

/* The table of the page, from the models that were just run. */
static void
docs_list_every_model_that_is_tested(void **state)
{
    struct buf page, table;

    (void)state;
    buf_init(&page, TINY_FILE_MAX_BYTES);
    buf_init(&table, TINY_FILE_MAX_BYTES);
    buf_append_text(&table,
                    "| `model_type` | weights | with |\n|---|---|---|\n");
    for (size_t i = 0; i < COUNT_OF(models); i++) {
        struct json_doc doc = tiny_model_read(models[i].name);
        const struct json *config = json_get(doc.root, "config");

        buf_printf(&table, "| `%s` | %s | %s |\n",
                   json_as_text(json_get(config, "model_type"), NULL),
                   models[i].stored, models[i].has);
        json_doc_clear(&doc);
    }
    assert_int_equal(buf_read_file(&page, "docs/models.md", NULL), STATUS_OK);
    if (strstr(page.data, table.data) == NULL)
        fail_msg("docs/models.md must hold:\n%s", table.data);
    buf_clear(&table);
    buf_clear(&page);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            log_probabilities_and_greedy_ids_equal_another_engines),
        cmocka_unit_test(docs_list_every_model_that_is_tested),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
