/* model_directory_test.c - config.json in numbers, and directories of which
 * something is wrong. */
#include "model/directory.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/buf.h"

#include "common/banned.h"

enum { TEXT_MAX_BYTES = 1024 * 1024 };

#define LLAMA_HEAD                                                             \
    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\","      \
    "\"hidden_size\":64,\"num_attention_heads\":4,\"vocab_size\":100,"         \
    "\"intermediate_size\":96,\"num_hidden_layers\":1"

static enum status
parse(const char *config, struct model_config *out, struct error *err)
{
    struct json_doc doc = {0};
    enum status status = json_doc_parse(config, strlen(config), &doc, err);

    if (status == STATUS_OK)
        status = model_config_parse(doc.root, NULL, out, err);
    json_doc_clear(&doc);
    return status;
}

static void
absent_members_are_as_transformers_takes_them(void **state)
{
    struct model_config config;

    (void)state;
    assert_int_equal(parse(LLAMA_HEAD "}", &config, NULL), STATUS_OK);
    assert_int_equal(config.arch, ARCH_LLAMA);
    assert_int_equal(config.kv_heads, 4);
    assert_int_equal(config.head_dim, 16);
    assert_int_equal(config.context, 2048);
    assert_false(config.tied_head);
    assert_false(config.attention_bias);
    assert_false(config.qk_norm);
    assert_true(config.rope_theta == 10000.0F);
    assert_true(config.norm_eps == 1e-6F);
    assert_int_equal(config.rope_scaling, ROPE_PLAIN);
    assert_int_equal(config.quantisation.bits, 0);
    assert_int_equal(config.stop_id_count, 0);
}

static void
rope_scaling_of_llama_3_is_read(void **state)
{
    struct model_config config;

    (void)state;
    assert_int_equal(parse(LLAMA_HEAD
                           ",\"rope_theta\":500000.0,\"rope_scaling\":{"
                           "\"rope_type\":\"llama3\",\"factor\":8.0,"
                           "\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
                           "\"original_max_position_embeddings\":8192}}",
                           &config, NULL),
                     STATUS_OK);
    assert_int_equal(config.rope_scaling, ROPE_LLAMA3);
    assert_true(config.rope_factor == 8.0F);
    assert_true(config.rope_low_freq_factor == 1.0F);
    assert_true(config.rope_high_freq_factor == 4.0F);
    assert_int_equal(config.rope_original_context, 8192);
    assert_int_equal(
        parse(LLAMA_HEAD
              ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}}",
              &config, NULL),
        STATUS_OK);
    assert_int_equal(config.rope_scaling, ROPE_LINEAR);
    assert_int_equal(parse(LLAMA_HEAD
                           ",\"rope_parameters\":{\"rope_type\":\"default\","
                           "\"rope_theta\":7}}",
                           &config, NULL),
                     STATUS_OK);
    assert_true(config.rope_theta == 7.0F);
}

static void
suspicious_values_are_refused_with_their_field(void **state)
{
    static const char *const wrong[][2] = {
        {"{\"model_type\":\"llama\"}", "num_hidden_layers"},
        {LLAMA_HEAD ",\"num_key_value_heads\":3}", "num_key_value_heads"},
        {LLAMA_HEAD ",\"head_dim\":15}", "head_dim"},
        {LLAMA_HEAD ",\"head_dim\":0}", "head_dim"},
        {LLAMA_HEAD ",\"max_position_embeddings\":1e12}",
         "max_position_embeddings"},
        {LLAMA_HEAD ",\"rms_norm_eps\":-1}", "rms_norm_eps"},
        {LLAMA_HEAD ",\"rope_theta\":0}", "rope_theta"},
        {LLAMA_HEAD ",\"rope_scaling\":{\"type\":\"ntk\",\"factor\":2}}",
         "rope_scaling"},
        {LLAMA_HEAD ",\"rope_scaling\":{\"type\":\"linear\"}}",
         "rope_scaling.factor"},
        {LLAMA_HEAD ",\"hidden_act\":\"gelu\"}", "hidden_act"},
        {LLAMA_HEAD ",\"use_sliding_window\":true}", "use_sliding_window"},
        {LLAMA_HEAD ",\"eos_token_id\":100}", "eos_token_id"},
        {LLAMA_HEAD ",\"tie_word_embeddings\":1}", "tie_word_embeddings"},
        {LLAMA_HEAD ",\"quantization\":{\"bits\":7,\"group_size\":64}}",
         "quantization"},
        {LLAMA_HEAD ",\"quantization\":{\"bits\":4,\"group_size\":16}}",
         "quantization"},
        {LLAMA_HEAD ",\"quantization\":{\"bits\":4,\"group_size\":32,"
                    "\"mode\":\"nvfp4\"}}",
         "quantization"},
        {LLAMA_HEAD ",\"quantization_config\":{\"quant_method\":\"gptq\"}}",
         "quantization_config"},
        {LLAMA_HEAD ",\"quantization\":{\"bits\":4,\"group_size\":32,"
                    "\"lm_head\":{\"bits\":9,\"group_size\":32}}}",
         "quantization"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct model_config config;
        struct error err = {0};

        if (parse(wrong[i][0], &config, &err) != STATUS_INVALID)
            fail_msg("%s passes", wrong[i][0]);
        assert_string_equal(err.param, wrong[i][1]);
    }
}

static void
an_override_that_changes_nothing_passes(void **state)
{
    struct model_config config;

    (void)state;
    assert_int_equal(parse(LLAMA_HEAD
                           ",\"quantization\":{\"bits\":4,\"group_size\":32,"
                           "\"lm_head\":{\"bits\":4,\"group_size\":32},"
                           "\"model.embed_tokens\":false}}",
                           &config, NULL),
                     STATUS_OK);
    assert_int_equal(config.quantisation.bits, 4);
    assert_int_equal(config.quantisation.group, 32);
}

static void
an_unknown_architecture_lists_the_known(void **state)
{
    struct model_config config;
    struct error err = {0};

    (void)state;
    assert_int_equal(
        parse("{\"architectures\":[\"GPT2LMHeadModel\"]}", &config, &err),
        STATUS_INVALID);
    assert_string_equal(err.code, "architecture_unknown");
    assert_non_null(strstr(err.text, "llama"));
    assert_non_null(strstr(err.text, "qwen3_moe"));
    assert_int_equal(parse("{\"architectures\":[\"LlamaForCausalLM\"],"
                           "\"model_type\":\"qwen3\"}",
                           &config, &err),
                     STATUS_INVALID);
}

static void
the_demo_models_open(void **state)
{
    static const struct {
        const char *path;
        uint32_t bits;
    } models[] = {{"tests/models/tiny-chat", 0},
                  {"tests/models/tiny-chat-8bit", 8},
                  {"tests/models/tiny-chat-4bit", 4}};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(models); i++) {
        struct model_directory dir;
        struct error err = {0};
        size_t shard = 7;

        if (model_directory_open(models[i].path, &dir, &err) != STATUS_OK)
            fail_msg("%s", err.text);
        assert_int_equal(dir.config.arch, ARCH_QWEN3);
        assert_int_equal(dir.config.quantisation.bits, models[i].bits);
        assert_int_equal(dir.config.stop_id_count, 2);
        assert_int_equal(dir.config.stop_ids[0], 2047);
        assert_int_equal(dir.config.stop_ids[1], 2045);
        assert_true(dir.config.tied_head);
        assert_non_null(
            model_directory_find(&dir, "model.norm.weight", &shard));
        assert_int_equal(shard, 0);
        model_directory_close(&dir);
    }
}

/* --- small directories ----------------------------------------------------*/

struct tensor {
    const char *name;
    uint64_t rows; /* 0: a vector */
    uint64_t columns;
};

/* A llama of one layer, hidden 4, 2 heads, intermediate 6, vocabulary 10. */
static const struct tensor tiny[] = {
    {"model.embed_tokens.weight", 10, 4},
    {"model.layers.0.self_attn.q_proj.weight", 4, 4},
    {"model.layers.0.self_attn.k_proj.weight", 4, 4},
    {"model.layers.0.self_attn.v_proj.weight", 4, 4},
    {"model.layers.0.self_attn.o_proj.weight", 4, 4},
    {"model.layers.0.mlp.gate_proj.weight", 6, 4},
    {"model.layers.0.mlp.up_proj.weight", 6, 4},
    {"model.layers.0.mlp.down_proj.weight", 4, 6},
    {"model.layers.0.input_layernorm.weight", 0, 4},
    {"model.layers.0.post_attention_layernorm.weight", 0, 4},
    {"model.norm.weight", 0, 4},
    {"lm_head.weight", 10, 4},
};

enum { TINY_COUNT = COUNT_OF(tiny) };

static char folder[] = "/tmp/berth-directory-XXXXXX";

static void
write_text(const char *name, const char *text, size_t size)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(file_write_whole(path, text, size, 0600, NULL), STATUS_OK);
}

static void
remove_file(const char *name)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    unlink(path);
}

/* tensors[from..to) as F16 zeros. */
static void
write_shard(const char *name, const struct tensor *tensors, size_t from,
            size_t to)
{
    struct json_out out;
    struct buf header;
    struct buf bytes;
    uint64_t at = 0;

    buf_init(&header, TEXT_MAX_BYTES);
    buf_init(&bytes, TEXT_MAX_BYTES);
    json_out_init(&out, &header);
    json_open_object(&out);
    for (size_t i = from; i < to; i++) {
        uint64_t rows = tensors[i].rows == 0 ? 1 : tensors[i].rows;
        uint64_t size = rows * tensors[i].columns * 2;

        json_key(&out, tensors[i].name);
        json_open_object(&out);
        json_member_text(&out, "dtype", "F16");
        json_key(&out, "shape");
        json_open_list(&out);
        if (tensors[i].rows > 0)
            json_put_u64(&out, tensors[i].rows);
        json_put_u64(&out, tensors[i].columns);
        json_close_list(&out);
        json_key(&out, "data_offsets");
        json_open_list(&out);
        json_put_u64(&out, at);
        json_put_u64(&out, at + size);
        json_close_list(&out);
        json_close_object(&out);
        at += size;
    }
    json_close_object(&out);
    for (int i = 0; i < 8; i++)
        buf_append_char(&bytes, (char)(header.size >> (8 * i) & 0xff));
    buf_append(&bytes, header.data, header.size);
    while (at-- > 0)
        buf_append_char(&bytes, '\0');
    write_text(name, bytes.data, bytes.size);
    buf_clear(&header);
    buf_clear(&bytes);
}

static const char tiny_config[] =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":4,"
    "\"num_attention_heads\":2,\"vocab_size\":10,\"intermediate_size\":6,"
    "\"num_hidden_layers\":1}";

static int
set_up(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    write_text("config.json", tiny_config, strlen(tiny_config));
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    remove_file("config.json");
    remove_file("model.safetensors.index.json");
    remove_file("a.safetensors");
    remove_file("b.safetensors");
    return rmdir(folder);
}

static void
expect_open(const char *code, const char *part)
{
    struct model_directory dir;
    struct error err = {0};
    enum status status = model_directory_open(folder, &dir, &err);

    if (part == NULL) {
        if (status != STATUS_OK)
            fail_msg("%s", err.text);
        model_directory_close(&dir);
        return;
    }
    assert_int_not_equal(status, STATUS_OK);
    if (strstr(err.text, part) == NULL || strcmp(err.code, code) != 0)
        fail_msg("\"%s\" (%s) does not say %s", err.text, err.code, part);
}

static void
each_tensor_must_be_there_with_its_shape(void **state)
{
    struct tensor copy[TINY_COUNT + 1];

    (void)state;
    write_shard("a.safetensors", tiny, 0, TINY_COUNT);
    expect_open("", NULL);
    for (size_t i = 0; i < TINY_COUNT; i++) {
        memcpy(copy, tiny, sizeof(tiny));
        copy[i].name = "other";
        write_shard("a.safetensors", copy, 0, TINY_COUNT);
        expect_open("tensor_missing", tiny[i].name);
        memcpy(copy, tiny, sizeof(tiny));
        copy[i].columns++;
        write_shard("a.safetensors", copy, 0, TINY_COUNT);
        expect_open("tensor_shape", tiny[i].name);
    }
    memcpy(copy, tiny, sizeof(tiny));
    copy[TINY_COUNT] =
        (struct tensor){"model.layers.0.self_attn.rotary_emb.inv_freq", 0, 1};
    write_shard("a.safetensors", copy, 0, TINY_COUNT + 1);
    expect_open("", NULL); /* more than is needed does no harm */
}

static void
shards_come_with_or_without_an_index(void **state)
{
    static const char outside[] =
        "{\"weight_map\":{\"x\":\"../a.safetensors\"}}";
    static const char wrong[] =
        "{\"weight_map\":{\"lm_head.weight\":\"a.safetensors\","
        "\"model.norm.weight\":\"b.safetensors\"}}";

    (void)state;
    write_shard("a.safetensors", tiny, 0, 5);
    write_shard("b.safetensors", tiny, 5, TINY_COUNT);
    expect_open("", NULL);
    write_shard("b.safetensors", tiny, 4, TINY_COUNT);
    expect_open("", "twice");
    write_shard("b.safetensors", tiny, 5, TINY_COUNT);
    write_text("model.safetensors.index.json", outside, strlen(outside));
    expect_open("", "no safetensors file of this directory");
    write_text("model.safetensors.index.json", wrong, strlen(wrong));
    expect_open("", "lm_head.weight is not in a.safetensors");
    remove_file("model.safetensors.index.json");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absent_members_are_as_transformers_takes_them),
        cmocka_unit_test(rope_scaling_of_llama_3_is_read),
        cmocka_unit_test(suspicious_values_are_refused_with_their_field),
        cmocka_unit_test(an_override_that_changes_nothing_passes),
        cmocka_unit_test(an_unknown_architecture_lists_the_known),
        cmocka_unit_test(the_demo_models_open),
        cmocka_unit_test(each_tensor_must_be_there_with_its_shape),
        cmocka_unit_test(shards_come_with_or_without_an_index),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
