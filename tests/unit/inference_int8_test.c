/* inference_int8_test.c - with activations of 8 bits the quantised models still
 * continue as tests/models/reference.json says, which was made in float32. */
#include "inference/transformer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/json.h"
#include "common/units.h"
#include "inference/cpu/cpu.h"

#include "common/banned.h"

enum { POSITIONS = 512 };

struct reader {
    struct transformer *transformer;
    struct kv *kv;
    uint32_t position;
    size_t vocab;
};

static uint32_t
id_at(const struct json *list, size_t index)
{
    int64_t id;

    assert_int_equal(json_as_i64(json_at(list, index), &id), STATUS_OK);
    return (uint32_t)id;
}

/* The likeliest id after @id. */
static uint32_t
likeliest_after(struct reader *reader, uint32_t id)
{
    const struct pass_row row = {
        .id = id, .position = reader->position++, .kv = reader->kv};
    const size_t wanted = 0;
    const float *logits;
    uint32_t best = 0;

    assert_in_range(reader->position, 1, POSITIONS);
    transformer_pass(reader->transformer, &row, 1, &wanted, 1);
    logits = transformer_logits(reader->transformer, 0);
    for (uint32_t i = 1; i < reader->vocab; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

static void
check_continuation(struct reader *reader, const struct json *prompt,
                   const char *variant)
{
    const struct json *ids = json_get(prompt, "prompt_ids");
    const struct json *expected =
        json_get(json_get(prompt, variant), "continuation_ids");
    uint32_t next = 0;

    assert_true(json_count(ids) > 0 && json_count(expected) > 0);
    for (size_t i = 0; i < json_count(ids); i++)
        next = likeliest_after(reader, id_at(ids, i));
    for (size_t i = 0; i < json_count(expected); i++) {
        assert_int_equal(next, id_at(expected, i));
        next = likeliest_after(reader, next);
    }
}

static void
check_model(const char *folder, const char *variant)
{
    struct json_doc doc = {0};
    struct model_directory dir;
    struct weights weights;
    struct backend backend;
    struct reader reader;
    const struct json *prompts;
    struct buf buf;

    buf_init(&buf, 16 * MIB);
    assert_int_equal(buf_read_file(&buf, "tests/models/reference.json", NULL),
                     STATUS_OK);
    assert_int_equal(json_doc_parse(buf.data, buf.size, &doc, NULL), STATUS_OK);
    prompts = json_get(doc.root, "prompts");
    assert_int_equal(json_count(prompts), 12);
    assert_int_equal(model_directory_open(folder, &dir, NULL), STATUS_OK);
    assert_int_equal(weights_open(&dir, &weights, NULL), STATUS_OK);
    cpu_open(1, NULL, integer_best(), &backend);
    reader.transformer = transformer_new(&backend, &dir.config, &weights);
    reader.vocab = dir.config.vocab;
    for (size_t i = 0; i < json_count(prompts); i++) {
        reader.kv = transformer_kv_new(reader.transformer, POSITIONS);
        reader.position = 0;
        check_continuation(&reader, json_at(prompts, i), variant);
        transformer_kv_free(reader.transformer, reader.kv);
    }
    transformer_free(reader.transformer);
    backend.ops->close(backend.ctx);
    weights_close(&weights, &dir.config);
    model_directory_close(&dir);
    json_doc_clear(&doc);
    buf_clear(&buf);
}

static void
four_bits_continue_as_in_float32(void **state)
{
    (void)state;
    check_model("tests/models/tiny-chat-4bit", "mlx-4bit");
}

static void
eight_bits_continue_as_in_float32(void **state)
{
    (void)state;
    check_model("tests/models/tiny-chat-8bit", "mlx-8bit");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_bits_continue_as_in_float32),
        cmocka_unit_test(eight_bits_continue_as_in_float32),
    };

    return cmocka_run_group_tests_name("inference_int8", tests, NULL, NULL);
}
