/* directory.h - a model directory as MLX and Hugging Face users have it,
 * read and checked: config.json, *.safetensors (with or without an index),
 * tokenizer files.  Weights are not read, only their headers.
 *
 * Checked: every tensor the architecture needs is there once, with the shape
 * and dtype that config.json implies (quantised ones too: weight uint32 [out,
 * in*bits/32], scales and biases [out, in/group]);
 * the first thing wrong is named with what was expected.  Pure but for reading
 * the files. */
#ifndef BERTH_MODEL_DIRECTORY_H
#define BERTH_MODEL_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/error.h"
#include "common/json.h"
#include "model/safetensors.h"

enum {
    MODEL_SHARDS_MAX = 512,
    MODEL_STOP_IDS_MAX = 16,
    MODEL_LAYERS_MAX = 1024,
    MODEL_GROUPS_MAX = 256, /* of experts */
};

enum model_arch {
    ARCH_LLAMA,
    ARCH_MISTRAL,
    ARCH_QWEN2,
    ARCH_QWEN3,
    ARCH_QWEN3_MOE,
    ARCH_GPT_OSS,
    ARCH_GLM4_MOE,
    ARCH_DEEPSEEK_V3,
    ARCH_KIMI_K2,
    ARCH_QWEN3_5,
    ARCH_QWEN3_5_MOE,
    ARCH_COUNT
};

enum rope_scaling { ROPE_PLAIN, ROPE_LLAMA3, ROPE_LINEAR, ROPE_YARN };

/* What a layer looks at: all positions, the last model_config.window, or a
 * state that each position changes. */
enum layer_kind { LAYER_FULL, LAYER_WINDOW, LAYER_DELTA };

/* Keys and values of all heads made from one row of @kv_rank elements, beside
 * which @rope of each key turn. */
struct model_latent {
    uint32_t kv_rank; /* 0: attention is of the other kind */
    uint32_t q_rank;  /* 0: queries are made at once */
    uint32_t nope, rope, value;
    bool joined; /* kv_b_proj makes keys and values, as it was published */
};

/* The state of LAYER_DELTA: for each value head a matrix [key_size,
 * value_size], behind a convolution over @kernel positions. */
struct model_delta {
    uint32_t key_heads, value_heads, key_size, value_size, kernel;
};

/* How the experts of a position are chosen and weighed. */
enum router {
    ROUTER_NONE,        /* no experts */
    ROUTER_SOFTMAX,     /* the greatest of a softmax over all */
    ROUTER_TOP_SOFTMAX, /* a softmax over the greatest */
    ROUTER_SIGMOID,     /* sigmoids, the greatest by group with a bias */
};

struct model_experts {
    enum router router;
    uint32_t count, used;
    uint32_t inner;        /* feed-forward size of one */
    uint32_t shared_inner; /* of the one for every position; 0: none */
    uint32_t dense_layers; /* first layers without experts */
    uint32_t groups, groups_used;
    bool normalised;  /* the weights of those used sum to 1 */
    float scale;      /* of the weights */
    bool shared_gate; /* the shared one is weighed, too */
    bool apart;       /* each in tensors of its own, as they are published */
    float limit;      /* of the gates: gpt-oss's activation; 0: plain SwiGLU */
};

enum quantisation_mode { QUANTISED_NOT, QUANTISED_AFFINE, QUANTISED_MXFP4 };

/* How the matrix of a module is stored (facts of MLX: affine has 2, 3, 4, 5, 6
 * or 8 bits and a scale and a bias for each 32, 64 or 128 elements; mxfp4 has 4
 * bits and a scale for each 32). */
struct quantisation {
    enum quantisation_mode mode;
    uint32_t bits;
    uint32_t group; /* elements per scale */
};

/* config.json, in numbers. Dimensions count elements. */
struct model_config {
    enum model_arch arch;
    char model_type[32];
    uint32_t layers;
    uint32_t hidden;
    uint32_t intermediate;
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t vocab;
    uint32_t context; /* max_position_embeddings */
    float norm_eps;
    float rope_theta;
    enum rope_scaling rope_scaling;
    float rope_factor;           /* llama3, linear */
    float rope_low_freq_factor;  /* llama3 */
    float rope_high_freq_factor; /* llama3 */
    uint32_t rope_original_context;
    float rope_beta_fast, rope_beta_slow;  /* yarn */
    float rope_amplitude;                  /* of sines and cosines; yarn */
    bool rope_truncate;                    /* yarn: whole bounds */
    uint32_t rotary;                       /* elements of a head that turn */
    uint32_t window;                       /* positions, LAYER_WINDOW */
    uint8_t layer_kinds[MODEL_LAYERS_MAX]; /* enum layer_kind */
    struct model_experts experts;
    struct model_latent latent;
    struct model_delta delta;
    bool gated_attention; /* each query comes with a gate of the result */
    /* How the tensors are named, and whether norms are kept less 1: known from
     * the files. */
    const char *prefix; /* "model." */
    const char *head;   /* "lm_head" */
    bool norms_less_1;
    float score_scale;   /* of query times key */
    bool tied_head;      /* output head is the embedding */
    bool qk_norm;        /* queries and keys are normalised by head */
    bool attention_bias; /* of queries, keys and values */
    bool output_bias;
    bool sinks; /* each head may look at nothing */
    bool mlp_bias;
    struct quantisation quantisation;      /* of modules without their own */
    uint32_t stop_ids[MODEL_STOP_IDS_MAX]; /* generation_config, else config */
    size_t stop_id_count;
};

/* Parse config.json (and generation_config.json, may be NULL) alone.  An
 * unknown architecture is STATUS_INVALID, code "architecture_unknown", and the
 * text lists the known ones. */
MUST_CHECK enum status model_config_parse(const struct json *config,
                                          const struct json *generation,
                                          struct model_config *out,
                                          struct error *err);

/* The quantisation of @module by config.json: its own entry in "quantization",
 * else the one of the whole model. */
MUST_CHECK enum status model_config_quantisation(const struct json *config,
                                                 const char *module,
                                                 struct quantisation *out,
                                                 struct error *err);

/* Elements of keys and values that one position takes in all layers. */
uint64_t model_config_kv_elements(const struct model_config *config);

struct model_shard {
    char *path; /* whole */
    struct safetensors file;
};

struct model_directory {
    char *path;
    struct model_config config;
    struct model_shard *shards; /* sorted by file name */
    size_t shard_count;
    uint64_t weight_bytes; /* of all tensors */
};

MUST_CHECK enum status model_directory_open(const char *path,
                                            struct model_directory *dir,
                                            struct error *err);
void model_directory_close(struct model_directory *dir);
/* The tensor and the shard that holds it; NULL when absent. */
const struct tensor_info *model_directory_find(
    const struct model_directory *dir, const char *name, size_t *shard);

#endif
