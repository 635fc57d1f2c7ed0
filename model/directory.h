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

enum { MODEL_SHARDS_MAX = 512, MODEL_STOP_IDS_MAX = 16 };

enum model_arch { ARCH_LLAMA, ARCH_QWEN3, ARCH_COUNT };

enum rope_scaling { ROPE_PLAIN, ROPE_LLAMA3, ROPE_LINEAR };

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
    bool tied_head; /* output head is the embedding */
    bool qk_norm;   /* qwen3 */
    bool attention_bias;
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
