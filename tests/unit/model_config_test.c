/* model_config_test.c - the config.json of published models of each
 * architecture, shortened to what counts, and the numbers they mean.  Keys and
 * values: layers * 2 * heads of keys * their size; compressed ones: layers *
 * (512 + 64), as DeepSeek's report (arXiv 2412.19437) has them. */
#include "model/directory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/banned.h"

static const struct {
    const char *text;
    enum model_arch arch;
    uint32_t layers, hidden, heads, kv_heads, head_dim, vocab;
    uint32_t experts, used;
    uint64_t kv_elements; /* of one position */
} published[] = {
    {"{\"architectures\":[\"MistralForCausalLM\"],\"model_type\":\"mistral\","
     "\"hidden_act\":\"silu\",\"hidden_size\":4096,\"intermediate_size\":14336,"
     "\"max_position_embeddings\":32768,\"num_attention_heads\":32,"
     "\"num_hidden_layers\":32,\"num_key_value_heads\":8,"
     "\"rms_norm_eps\":1e-05,\"rope_theta\":10000.0,\"sliding_window\":4096,"
     "\"tie_word_embeddings\":false,\"vocab_size\":32000,\"eos_token_id\":2}",
     ARCH_MISTRAL, 32, 4096, 32, 8, 128, 32000, 0, 0, 65536},
    {"{\"architectures\":[\"Qwen2ForCausalLM\"],\"model_type\":\"qwen2\","
     "\"hidden_act\":\"silu\",\"hidden_size\":3584,\"intermediate_size\":18944,"
     "\"max_position_embeddings\":32768,\"max_window_layers\":28,"
     "\"num_attention_heads\":28,\"num_hidden_layers\":28,"
     "\"num_key_value_heads\":4,\"rms_norm_eps\":1e-06,"
     "\"rope_theta\":1000000.0,\"sliding_window\":131072,"
     "\"use_sliding_window\":false,\"vocab_size\":152064,"
     "\"eos_token_id\":151645,\"quantization\":{\"group_size\":64,"
     "\"bits\":4}}",
     ARCH_QWEN2, 28, 3584, 28, 4, 128, 152064, 0, 0, 28672},
    {"{\"architectures\":[\"Qwen3MoeForCausalLM\"],"
     "\"model_type\":\"qwen3_moe\",\"attention_bias\":false,"
     "\"decoder_sparse_step\":1,\"head_dim\":128,\"hidden_act\":\"silu\","
     "\"hidden_size\":2048,\"intermediate_size\":6144,"
     "\"max_position_embeddings\":40960,\"max_window_layers\":48,"
     "\"mlp_only_layers\":[],\"moe_intermediate_size\":768,"
     "\"norm_topk_prob\":true,\"num_attention_heads\":32,\"num_experts\":128,"
     "\"num_experts_per_tok\":8,\"num_hidden_layers\":48,"
     "\"num_key_value_heads\":4,\"rms_norm_eps\":1e-06,"
     "\"rope_scaling\":null,\"rope_theta\":1000000.0,"
     "\"sliding_window\":null,\"use_sliding_window\":false,"
     "\"vocab_size\":151936,\"quantization\":{\"group_size\":64,\"bits\":4,"
     "\"model.layers.0.mlp.gate\":{\"group_size\":64,\"bits\":8}}}",
     ARCH_QWEN3_MOE, 48, 2048, 32, 4, 128, 151936, 128, 8, 49152},
    {"{\"architectures\":[\"GptOssForCausalLM\"],\"model_type\":\"gpt_oss\","
     "\"attention_bias\":true,\"experts_per_token\":4,\"head_dim\":64,"
     "\"hidden_act\":\"silu\",\"hidden_size\":2880,"
     "\"initial_context_length\":4096,\"intermediate_size\":2880,"
     "\"layer_types\":[\"sliding_attention\",\"full_attention\","
     "\"sliding_attention\",\"full_attention\"],"
     "\"max_position_embeddings\":131072,\"num_attention_heads\":64,"
     "\"num_experts_per_tok\":4,\"num_hidden_layers\":4,"
     "\"num_key_value_heads\":8,\"num_local_experts\":32,"
     "\"rms_norm_eps\":1e-05,\"rope_scaling\":{\"beta_fast\":32.0,"
     "\"beta_slow\":1.0,\"factor\":32.0,"
     "\"original_max_position_embeddings\":4096,\"rope_type\":\"yarn\","
     "\"truncate\":false},\"rope_theta\":150000,\"sliding_window\":128,"
     "\"swiglu_limit\":7.0,\"tie_word_embeddings\":false,"
     "\"vocab_size\":201088,\"eos_token_id\":200002,"
     "\"quantization\":{\"group_size\":32,\"bits\":4,\"mode\":\"mxfp4\","
     "\"model.embed_tokens\":{\"group_size\":64,\"bits\":8}}}",
     ARCH_GPT_OSS, 4, 2880, 64, 8, 64, 201088, 32, 4, 4096},
    {"{\"architectures\":[\"Glm4MoeForCausalLM\"],"
     "\"model_type\":\"glm4_moe\",\"attention_bias\":true,"
     "\"eos_token_id\":[151329,151336,151338],\"first_k_dense_replace\":1,"
     "\"head_dim\":128,\"hidden_act\":\"silu\",\"hidden_size\":4096,"
     "\"intermediate_size\":10944,\"max_position_embeddings\":131072,"
     "\"moe_intermediate_size\":1408,\"n_group\":1,\"n_routed_experts\":128,"
     "\"n_shared_experts\":1,\"norm_topk_prob\":true,"
     "\"num_attention_heads\":96,\"num_experts_per_tok\":8,"
     "\"num_hidden_layers\":46,\"num_key_value_heads\":8,"
     "\"num_nextn_predict_layers\":1,\"partial_rotary_factor\":0.5,"
     "\"rms_norm_eps\":1e-05,\"rope_scaling\":null,\"rope_theta\":1000000,"
     "\"routed_scaling_factor\":1.0,\"tie_word_embeddings\":false,"
     "\"topk_group\":1,\"use_qk_norm\":false,\"vocab_size\":151552}",
     ARCH_GLM4_MOE, 46, 4096, 96, 8, 128, 151552, 128, 8, 94208},
    {"{\"architectures\":[\"DeepseekV3ForCausalLM\"],"
     "\"model_type\":\"deepseek_v3\",\"attention_bias\":false,"
     "\"eos_token_id\":1,\"ep_size\":1,\"first_k_dense_replace\":3,"
     "\"hidden_act\":\"silu\",\"hidden_size\":7168,"
     "\"intermediate_size\":18432,\"kv_lora_rank\":512,"
     "\"max_position_embeddings\":163840,\"moe_intermediate_size\":2048,"
     "\"moe_layer_freq\":1,\"n_group\":8,\"n_routed_experts\":256,"
     "\"n_shared_experts\":1,\"norm_topk_prob\":true,"
     "\"num_attention_heads\":128,\"num_experts_per_tok\":8,"
     "\"num_hidden_layers\":61,\"num_key_value_heads\":128,"
     "\"num_nextn_predict_layers\":1,\"q_lora_rank\":1536,"
     "\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,"
     "\"rms_norm_eps\":1e-06,\"rope_scaling\":{\"beta_fast\":32,"
     "\"beta_slow\":1,\"factor\":40,\"mscale\":1.0,\"mscale_all_dim\":1.0,"
     "\"original_max_position_embeddings\":4096,\"type\":\"yarn\"},"
     "\"rope_theta\":10000,\"routed_scaling_factor\":2.5,"
     "\"scoring_func\":\"sigmoid\",\"tie_word_embeddings\":false,"
     "\"topk_group\":4,\"topk_method\":\"noaux_tc\",\"v_head_dim\":128,"
     "\"vocab_size\":129280}",
     ARCH_DEEPSEEK_V3, 61, 7168, 128, 128, 192, 129280, 256, 8, 35136},
    {"{\"architectures\":[\"DeepseekV3ForCausalLM\"],"
     "\"model_type\":\"kimi_k2\",\"attention_bias\":false,\"aux_loss_alpha\":"
     "0.001,\"eos_token_id\":163585,\"first_k_dense_replace\":1,"
     "\"hidden_act\":\"silu\",\"hidden_size\":7168,"
     "\"intermediate_size\":18432,\"kv_lora_rank\":512,"
     "\"max_position_embeddings\":131072,\"moe_intermediate_size\":2048,"
     "\"moe_layer_freq\":1,\"n_group\":1,\"n_routed_experts\":384,"
     "\"n_shared_experts\":1,\"norm_topk_prob\":true,"
     "\"num_attention_heads\":64,\"num_experts_per_tok\":8,"
     "\"num_hidden_layers\":61,\"num_key_value_heads\":64,"
     "\"num_nextn_predict_layers\":0,\"q_lora_rank\":1536,"
     "\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,"
     "\"rms_norm_eps\":1e-06,\"rope_scaling\":{\"beta_fast\":1.0,"
     "\"beta_slow\":1.0,\"factor\":32.0,\"mscale\":1.0,"
     "\"mscale_all_dim\":1.0,\"original_max_position_embeddings\":4096,"
     "\"type\":\"yarn\"},\"rope_theta\":50000.0,"
     "\"routed_scaling_factor\":2.827,\"scoring_func\":\"sigmoid\","
     "\"seq_aux\":true,\"tie_word_embeddings\":false,\"topk_group\":1,"
     "\"topk_method\":\"noaux_tc\",\"v_head_dim\":128,"
     "\"vocab_size\":163840}",
     ARCH_KIMI_K2, 61, 7168, 64, 64, 192, 163840, 384, 8, 35136},
};

static void
published_configs_are_read_with_their_numbers(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(published); i++) {
        const char *text = published[i].text;
        struct json_doc doc = {0};
        struct model_config config;
        struct error err = {0};

        if (json_doc_parse(text, strlen(text), &doc, &err) != STATUS_OK ||
            model_config_parse(doc.root, NULL, &config, &err) != STATUS_OK)
            fail_msg("%zu: %s", i, err.text);
        assert_int_equal(config.arch, published[i].arch);
        assert_int_equal(config.layers, published[i].layers);
        assert_int_equal(config.hidden, published[i].hidden);
        assert_int_equal(config.heads, published[i].heads);
        assert_int_equal(config.kv_heads, published[i].kv_heads);
        assert_int_equal(config.head_dim, published[i].head_dim);
        assert_int_equal(config.vocab, published[i].vocab);
        assert_int_equal(config.experts.count, published[i].experts);
        assert_int_equal(config.experts.used, published[i].used);
        assert_int_equal(model_config_kv_elements(&config),
                         published[i].kv_elements);
        json_doc_clear(&doc);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_configs_are_read_with_their_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
