/* modules.h - which tensors a layer of an architecture has: the one list by
 * which a directory is checked, its weights are placed and its size is
 * reckoned.  Pure. */
#ifndef BERTH_MODEL_MODULES_H
#define BERTH_MODEL_MODULES_H

#include "model/directory.h"

enum matrix_role {
    MATRIX_QUERY,
    MATRIX_KEY,
    MATRIX_VALUE,
    MATRIX_OUTPUT,
    MATRIX_GATE,
    MATRIX_UP,
    MATRIX_DOWN,
    MATRIX_ROUTER,
    MATRIX_EXPERT_GATE,
    MATRIX_EXPERT_UP,
    MATRIX_EXPERT_DOWN,
    MATRIX_SHARED_GATE,
    MATRIX_SHARED_UP,
    MATRIX_SHARED_DOWN,
    MATRIX_QUERY_DOWN,
    MATRIX_QUERY_UP,
    MATRIX_KV_DOWN,
    MATRIX_KEY_UP,
    MATRIX_VALUE_UP,
    MATRIX_KV_UP, /* KEY_UP turned and VALUE_UP, head by head */
    MATRIX_SHARED_SCALE,
    MATRIX_DELTA_QKV,
    MATRIX_DELTA_GATE,
    MATRIX_DELTA_STRENGTH,
    MATRIX_DELTA_DECAY,
    MATRIX_ROLES
};

enum vector_role {
    VECTOR_ATTENTION_NORM,
    VECTOR_MLP_NORM,
    VECTOR_QUERY_NORM,
    VECTOR_KEY_NORM,
    VECTOR_SINKS,
    VECTOR_SCORE_BIAS,
    VECTOR_QUERY_DOWN_NORM,
    VECTOR_KV_NORM,
    VECTOR_DELTA_CONV,
    VECTOR_DELTA_STEP,
    VECTOR_DELTA_RATE,
    VECTOR_DELTA_NORM,
    VECTOR_ROLES
};

/* A matrix "model.layers.N.@name.weight" or, where @count is not 0, as many of
 * them in one tensor or, @apart, in one for each: model_expert_name. */
struct matrix_module {
    enum matrix_role role;
    const char *name;
    uint64_t count;
    uint64_t rows, cols;
    bool bias;
    bool apart;
};

/* "model.layers.N.@name"; with a @kernel its shape is [size / kernel, kernel,
 * 1], or the last two the other way round. */
struct vector_module {
    enum vector_role role;
    const char *name;
    uint64_t size;
    uint64_t kernel;
};

struct modules {
    struct matrix_module matrices[MATRIX_ROLES];
    size_t matrix_count;
    struct vector_module vectors[VECTOR_ROLES];
    size_t vector_count;
};

void model_modules(const struct model_config *config, uint32_t layer,
                   struct modules *modules);

enum { MODULE_NAME_BYTES = 160 };

/* The whole name of a layer's tensor or module. */
void model_layer_name(const struct model_config *config, uint32_t layer,
                      const char *part, char name[MODULE_NAME_BYTES]);

/* The same of a matrix of one expert. */
void model_expert_name(const struct model_config *config, uint32_t layer,
                       uint64_t expert, const char *part,
                       char name[MODULE_NAME_BYTES]);

/* Does @layer choose among experts? */
bool model_layer_has_experts(const struct model_config *config, uint32_t layer);

#endif
