/* model_catalogue_test.c - the numbers of the demo models, calculated by hand,
 * and digests as sha256sum gives them. */
#include "model/catalogue.h"

#include "tests/unit/tiny_model.h"

#include "common/banned.h"

static void
compute(const char *path, struct catalogue_entry *entry)
{
    struct model_directory dir;
    struct error err = {0};

    if (model_directory_open(path, &dir, &err) != STATUS_OK ||
        catalogue_entry_compute(&dir, "demo/tiny-chat:1", entry, &err) !=
            STATUS_OK)
        fail_msg("%s", err.text);
    model_directory_close(&dir);
}

/* Matrices of a layer: q 128*256, k and v 128*128 each, o 256*128, three of
 * the MLP 128*512 each: 294,912.  Four layers and the head 2048*128:
 * 1,441,792.  Norms: 4 * (2*128 + 2*32) + 128 = 1,408. */
static void
numbers_are_those_of_a_hand_calculation(void **state)
{
    struct catalogue_entry entry;

    (void)state;
    compute("tests/models/tiny-chat", &entry);
    assert_string_equal(entry.id, "demo/tiny-chat:1");
    assert_string_equal(entry.architecture, "qwen3");
    assert_string_equal(entry.quantisation, "bf16");
    assert_int_equal(entry.layers, 4);
    assert_int_equal(entry.hidden, 128);
    assert_int_equal(entry.heads, 8);
    assert_int_equal(entry.kv_heads, 4);
    assert_int_equal(entry.head_dim, 32);
    assert_int_equal(entry.vocab, 2048);
    assert_int_equal(entry.context, 2048);
    assert_int_equal(entry.parameters, 1443200);
    assert_int_equal(entry.weight_bytes, 2 * 1443200);
    assert_int_equal(entry.bytes_per_token, 2 * 1443200);
    assert_int_equal(entry.kv_bytes_per_token, 2 * 4 * 4 * 32 * 2);
    assert_int_equal(entry.flop_per_token, 2 * 1441792);
    assert_int_equal(entry.attention_flop, 2 * 8 * 32 * 4);
}

/* A matrix takes bits/8 + 2 * 2/64 bytes an element, a norm two. */
static void
quantised_models_take_the_bytes_of_their_format(void **state)
{
    struct catalogue_entry entry;

    (void)state;
    compute("tests/models/tiny-chat-8bit", &entry);
    assert_string_equal(entry.quantisation, "affine-8bit-g64");
    assert_int_equal(entry.parameters, 1443200);
    assert_int_equal(entry.weight_bytes, 1441792 * 17 / 16 + 2 * 1408);
    assert_int_equal(entry.bytes_per_token, entry.weight_bytes);
    compute("tests/models/tiny-chat-4bit", &entry);
    assert_string_equal(entry.quantisation, "affine-4bit-g64");
    assert_int_equal(entry.parameters, 1443200);
    assert_int_equal(entry.weight_bytes, 1441792 * 9 / 16 + 2 * 1408);
    assert_int_equal(entry.flop_per_token, 2 * 1441792);
}

/* sha256sum config.json generation_config.json model.safetensors
 * tokenizer.json tokenizer_config.json | sha256sum, in each folder. */
static void
digests_are_those_of_sha256sum(void **state)
{
    static const char *const known[][2] = {
        {"tests/models/tiny-chat",
         "49ee717ca4a64789a380d8d97f62a9c7e0d0eb01916b7bb6f8955fd9246a308b"},
        {"tests/models/tiny-chat-8bit",
         "fbf6fbf42f1c097c07bc1b9ee0a571bafe299f0761e3ee9511f18faabf73e8de"},
        {"tests/models/tiny-chat-4bit",
         "1db53fa47f5e3233a459f114b4f98bad938b63b2a60cf30344e738adbf729982"},
    };
    char digest[SHA256_HEX_BYTES];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        assert_int_equal(catalogue_digest(known[i][0], digest, NULL),
                         STATUS_OK);
        assert_string_equal(digest, known[i][1]);
    }
    assert_int_equal(catalogue_digest("tests/models/none", digest, NULL),
                     STATUS_NOT_FOUND);
}

static void
an_entry_survives_its_own_json(void **state)
{
    struct catalogue_entry entry;
    struct catalogue_entry decoded;
    struct json_out out;
    struct error err = {0};
    struct buf text;

    (void)state;
    memset(&decoded, 0, sizeof(decoded));
    compute("tests/models/tiny-chat", &entry);
    buf_init(&text, 65536);
    json_out_init(&out, &text);
    json_open_object(&out);
    field_encode(&out, catalogue_fields, catalogue_field_count, &entry);
    json_close_object(&out);
    if (field_decode_text(text.data, text.size, catalogue_fields,
                          catalogue_field_count, &decoded, sizeof(decoded),
                          &err) != STATUS_OK)
        fail_msg("%s", err.text);
    assert_string_equal(decoded.id, entry.id);
    assert_string_equal(decoded.digest, entry.digest);
    assert_string_equal(decoded.quantisation, entry.quantisation);
    assert_int_equal(decoded.parameters, entry.parameters);
    assert_int_equal(decoded.attention_flop, entry.attention_flop);
    buf_clear(&text);
}

static void
ids_are_names_joined_by_slashes(void **state)
{
    (void)state;
    assert_true(catalogue_id_is_valid("qwen3-8b"));
    assert_true(catalogue_id_is_valid("org/Model_1.5:4bit"));
    assert_false(catalogue_id_is_valid(""));
    assert_false(catalogue_id_is_valid("a b"));
    assert_false(catalogue_id_is_valid("/a"));
    assert_false(catalogue_id_is_valid("a/"));
    assert_false(catalogue_id_is_valid("a//b"));
    assert_false(catalogue_id_is_valid("a/../b"));
    assert_false(catalogue_id_is_valid("m\xc3\xa9"));
}

/* A model without packed tensors has as many parameters as elements. */
static void
check_numbers(const char *name, uint64_t kv_bytes, uint64_t attention)
{
    char folder[] = "/tmp/berth-catalogue-XXXXXX";
    struct json_doc doc = tiny_model_read(name);
    const struct json *tensors = json_get(doc.root, "tensors");
    const struct json_member *it;
    struct catalogue_entry entry;
    uint64_t elements = 0;

    for (it = json_member_first(tensors); it != NULL;
         it = json_member_next(tensors, it))
        elements += tiny_spec_read(json_member_value(it)).count;
    tiny_model_write(&doc, folder);
    compute(folder, &entry);
    assert_int_equal(entry.parameters, elements);
    assert_int_equal(entry.kv_bytes_per_token, kv_bytes);
    assert_int_equal(entry.attention_flop, attention);
    tiny_model_remove(&doc, folder);
    json_doc_clear(&doc);
}

/* Two bytes for each element of the cache.  gpt_oss: 4 layers, 2 heads of 16,
 * keys and values; 4 heads of queries.  deepseek_v3: 3 layers of 32 + 8; 4
 * heads, each 40 for the scores and 32 for the result.  qwen3_5: one of the 5
 * layers attends, with 2 heads of 32, and 4 of queries. */
static void
numbers_follow_the_kind_of_layers(void **state)
{
    (void)state;
    check_numbers("gpt_oss", 2 * 4 * 2 * 2 * 16, 4 * 4 * 2 * 16);
    check_numbers("glm4_moe", 2 * 3 * 2 * 2 * 32, 3 * 4 * 2 * 32);
    check_numbers("deepseek_v3", 2 * 3 * 40, 3 * 4 * 72);
    check_numbers("deepseek_v3_published", 2 * 3 * 40, 3 * 4 * 72);
    check_numbers("qwen3_5", 2 * 1 * 2 * 2 * 32, 1 * 4 * 2 * 32);
    check_numbers("qwen3_5_moe", 2 * 1 * 2 * 2 * 32, 1 * 4 * 2 * 32);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_a_hand_calculation),
        cmocka_unit_test(quantised_models_take_the_bytes_of_their_format),
        cmocka_unit_test(digests_are_those_of_sha256sum),
        cmocka_unit_test(an_entry_survives_its_own_json),
        cmocka_unit_test(ids_are_names_joined_by_slashes),
        cmocka_unit_test(numbers_follow_the_kind_of_layers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
