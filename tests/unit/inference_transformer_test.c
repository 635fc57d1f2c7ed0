/* inference_transformer_test.c - the forward pass: llama against logits made
 * by tests/golden/llama/make.py, and the same bits whatever the number of
 * rows in a pass, of threads, and the instruction set. */
#include "inference/transformer.h"

#include "tests/unit/tiny_model.h"

#include <math.h>

#include "common/json.h"
#include "common/mem.h"
#include "inference/cpu/cpu.h"

#include "common/banned.h"

enum { IDS_MAX = 256 };

static const char *const models[] = {
    "tests/models/tiny-chat",
    "tests/models/tiny-chat-8bit",
    "tests/models/tiny-chat-4bit",
    "tests/golden/llama",
    /* of tests/data/architectures: one of each kind of layer */
    "gpt_oss_mxfp4",
    "glm4_moe",
    "deepseek_v3",
    "kimi_k2_4bit",
    "qwen3_5_moe",
    "mistral",
};

struct loaded {
    struct json_doc doc; /* empty when the model is a directory of ours */
    char folder[TINY_NAME_MAX];
    struct model_directory dir;
    struct weights weights;
    struct backend backend;
    struct transformer *transformer;
};

static void
load_on(struct loaded *loaded, const char *path, size_t threads,
        const struct kernels *kernels)
{
    struct error err;

    *loaded = (struct loaded){.folder = "/tmp/berth-transformer-XXXXXX"};
    if (strchr(path, '/') == NULL) {
        loaded->doc = tiny_model_read(path);
        tiny_model_write(&loaded->doc, loaded->folder);
        path = loaded->folder;
    }
    if (model_directory_open(path, &loaded->dir, &err) != STATUS_OK ||
        weights_open(&loaded->dir, &loaded->weights, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    cpu_open(threads, kernels, NULL, &loaded->backend);
    loaded->transformer = transformer_new(&loaded->backend, &loaded->dir.config,
                                          &loaded->weights);
}

static void
unload(struct loaded *loaded)
{
    transformer_free(loaded->transformer);
    loaded->backend.ops->close(loaded->backend.ctx);
    weights_close(&loaded->weights, &loaded->dir.config);
    model_directory_close(&loaded->dir);
    if (loaded->doc.root != NULL)
        tiny_model_remove(&loaded->doc, loaded->folder);
    json_doc_clear(&loaded->doc);
}

/* Logits of the last of @ids, read @chunk at a time. */
static float *
logits_by_chunks(struct loaded *loaded, const uint32_t *ids, size_t count,
                 size_t chunk)
{
    struct kv *kv = transformer_kv_new(loaded->transformer, count);
    size_t bytes = loaded->dir.config.vocab * sizeof(float);
    float *logits;

    for (size_t first = 0; first < count; first += chunk) {
        struct pass_row rows[IDS_MAX];
        size_t some = count - first < chunk ? count - first : chunk;
        size_t last = some - 1;

        for (size_t i = 0; i < some; i++)
            rows[i] = (struct pass_row){.id = ids[first + i],
                                        .position = (uint32_t)(first + i),
                                        .kv = kv};
        transformer_pass(loaded->transformer, rows, some, &last,
                         first + some == count ? 1 : 0);
    }
    logits = mem_copy(transformer_logits(loaded->transformer, 0), bytes);
    transformer_kv_free(loaded->transformer, kv);
    return logits;
}

static enum rope_scaling
scaling_named(const char *name)
{
    if (strcmp(name, "llama3") == 0)
        return ROPE_LLAMA3;
    return strcmp(name, "linear") == 0 ? ROPE_LINEAR : ROPE_PLAIN;
}

static void
check_case(struct loaded *loaded, const struct json *item)
{
    const struct json *list = json_get(item, "ids");
    const struct json *expected = json_get(item, "logits");
    uint32_t ids[IDS_MAX];
    size_t count = json_count(list);
    float *logits;

    assert_true(count <= IDS_MAX);
    for (size_t i = 0; i < count; i++) {
        int64_t id;

        assert_int_equal(json_as_i64(json_at(list, i), &id), STATUS_OK);
        ids[i] = (uint32_t)id;
    }
    logits = logits_by_chunks(loaded, ids, count, IDS_MAX);
    assert_int_equal(json_count(expected), loaded->dir.config.vocab);
    for (size_t i = 0; i < loaded->dir.config.vocab; i++) {
        double value;

        assert_int_equal(json_as_double(json_at(expected, i), &value),
                         STATUS_OK);
        if (fabs((double)logits[i] - value) > 1e-4 * (1 + fabs(value)))
            fail_msg("logit %zu after %zu ids: %g, expected %g", i, count,
                     (double)logits[i], value);
    }
    free(logits);
}

static void
llama_logits_equal_an_independent_computation(void **state)
{
    struct loaded loaded;
    struct json_doc doc = {0};
    const struct json *cases;
    struct buf buf;

    (void)state;
    load_on(&loaded, "tests/golden/llama", 1, NULL);
    assert_int_equal(loaded.dir.config.rope_scaling, ROPE_LLAMA3);
    buf_init(&buf, MIB);
    assert_int_equal(
        buf_read_file(&buf, "tests/golden/llama/logits.json", NULL), STATUS_OK);
    assert_int_equal(json_doc_parse(buf.data, buf.size, &doc, NULL), STATUS_OK);
    cases = json_get(doc.root, "cases");
    assert_int_equal(json_count(cases), 9);
    for (size_t i = 0; i < json_count(cases); i++) {
        const struct json *item = json_at(cases, i);

        transformer_free(loaded.transformer);
        loaded.dir.config.rope_scaling =
            scaling_named(json_as_text(json_get(item, "scaling"), NULL));
        loaded.transformer = transformer_new(
            &loaded.backend, &loaded.dir.config, &loaded.weights);
        check_case(&loaded, item);
    }
    json_doc_clear(&doc);
    buf_clear(&buf);
    unload(&loaded);
}

static void
ids_fill(const struct loaded *loaded, uint32_t ids[static IDS_MAX])
{
    for (uint32_t i = 0; i < IDS_MAX; i++)
        ids[i] = (i * i * 31 + 17 * i + 5) % loaded->dir.config.vocab;
}

static void
check_same_bits(const struct loaded *loaded, float *logits,
                const float *expected)
{
    assert_memory_equal(logits, expected,
                        loaded->dir.config.vocab * sizeof(float));
    free(logits);
}

static void
logits_are_the_same_bits_whatever_the_chunk(void **state)
{
    static const size_t chunks[] = {1, 2, 3, 5, 16, 64, 199};

    (void)state;
    for (size_t m = 0; m < COUNT_OF(models); m++) {
        struct loaded loaded;
        uint32_t ids[IDS_MAX];
        float *expected;

        load_on(&loaded, models[m], 1, NULL);
        ids_fill(&loaded, ids);
        expected = logits_by_chunks(&loaded, ids, 200, 200);
        for (size_t i = 0; i < COUNT_OF(chunks); i++)
            check_same_bits(&loaded,
                            logits_by_chunks(&loaded, ids, 200, chunks[i]),
                            expected);
        free(expected);
        unload(&loaded);
    }
}

static void
logits_are_the_same_bits_for_all_threads_and_instruction_sets(void **state)
{
    (void)state;
    for (size_t m = 0; m < COUNT_OF(models); m++) {
        float *expected = NULL;

        for (int simd = 0; simd < SIMD_COUNT; simd++) {
            for (size_t threads = 1; threads <= 4; threads += 3) {
                struct loaded loaded;
                uint32_t ids[IDS_MAX];
                float *logits;

                if (kernels_find((enum simd)simd) == NULL)
                    continue;
                load_on(&loaded, models[m], threads,
                        kernels_find((enum simd)simd));
                ids_fill(&loaded, ids);
                logits = logits_by_chunks(&loaded, ids, 50, 29);
                if (expected == NULL)
                    expected = logits;
                else
                    check_same_bits(&loaded, logits, expected);
                unload(&loaded);
            }
        }
        free(expected);
    }
}

static void
logits_do_not_depend_on_other_sequences_in_the_pass(void **state)
{
    enum { SEQUENCES = 5, LENGTH = 20 };

    (void)state;
    for (size_t m = 0; m < COUNT_OF(models); m++) {
        struct loaded loaded;
        struct pass_row rows[SEQUENCES * LENGTH];
        size_t wanted[SEQUENCES], count = 0;
        uint32_t ids[IDS_MAX];
        struct kv *kv[SEQUENCES];
        float *together[SEQUENCES];

        load_on(&loaded, models[m], 2, NULL);
        ids_fill(&loaded, ids);
        for (size_t s = 0; s < SEQUENCES; s++) {
            kv[s] = transformer_kv_new(loaded.transformer, LENGTH);
            for (uint32_t i = 0; i < LENGTH - s; i++)
                rows[count++] = (struct pass_row){
                    .id = ids[s * 7 + i], .position = i, .kv = kv[s]};
            wanted[s] = count - 1;
        }
        transformer_pass(loaded.transformer, rows, count, wanted, SEQUENCES);
        for (size_t s = 0; s < SEQUENCES; s++)
            together[s] = mem_copy(transformer_logits(loaded.transformer, s),
                                   loaded.dir.config.vocab * sizeof(float));
        for (size_t s = 0; s < SEQUENCES; s++) {
            check_same_bits(
                &loaded,
                logits_by_chunks(&loaded, ids + s * 7, LENGTH - s, LENGTH),
                together[s]);
            free(together[s]);
            transformer_kv_free(loaded.transformer, kv[s]);
        }
        unload(&loaded);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_logits_equal_an_independent_computation),
        cmocka_unit_test(logits_are_the_same_bits_whatever_the_chunk),
        cmocka_unit_test(
            logits_are_the_same_bits_for_all_threads_and_instruction_sets),
        cmocka_unit_test(logits_do_not_depend_on_other_sequences_in_the_pass),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
