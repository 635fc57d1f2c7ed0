/* modules.c - the tensors of a layer, part by part. */
#include "model/modules.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "common/banned.h"

static void
matrix(struct modules *m, enum matrix_role role, const char *name,
       uint64_t rows, uint64_t cols, bool bias)
{
    assert(m->matrix_count < MATRIX_ROLES);
    m->matrices[m->matrix_count++] = (struct matrix_module){
        .role = role, .name = name, .rows = rows, .cols = cols, .bias = bias};
}

static void
matrices(struct modules *m, enum matrix_role role, const char *name,
         uint64_t count, uint64_t rows, uint64_t cols, bool bias)
{
    matrix(m, role, name, rows, cols, bias);
    m->matrices[m->matrix_count - 1].count = count;
}

static void
vector(struct modules *m, enum vector_role role, const char *name,
       uint64_t size)
{
    assert(m->vector_count < VECTOR_ROLES);
    m->vectors[m->vector_count++] =
        (struct vector_module){.role = role, .name = name, .size = size};
}

static void
attention(const struct model_config *c, struct modules *m)
{
    uint64_t q = (uint64_t)c->heads * c->head_dim;
    uint64_t kv = (uint64_t)c->kv_heads * c->head_dim;

    matrix(m, MATRIX_QUERY, "self_attn.q_proj", c->gated_attention ? 2 * q : q,
           c->hidden, c->attention_bias);
    matrix(m, MATRIX_KEY, "self_attn.k_proj", kv, c->hidden, c->attention_bias);
    matrix(m, MATRIX_VALUE, "self_attn.v_proj", kv, c->hidden,
           c->attention_bias);
    matrix(m, MATRIX_OUTPUT, "self_attn.o_proj", c->hidden, q, c->output_bias);
    if (c->qk_norm) {
        vector(m, VECTOR_QUERY_NORM, "self_attn.q_norm.weight", c->head_dim);
        vector(m, VECTOR_KEY_NORM, "self_attn.k_norm.weight", c->head_dim);
    }
    if (c->sinks)
        vector(m, VECTOR_SINKS, "self_attn.sinks", c->heads);
}

static void
latent_queries(const struct model_config *c, struct modules *m)
{
    const struct model_latent *latent = &c->latent;
    uint64_t q = (uint64_t)c->heads * (latent->nope + latent->rope);

    if (latent->q_rank == 0) {
        matrix(m, MATRIX_QUERY, "self_attn.q_proj", q, c->hidden, false);
        return;
    }
    matrix(m, MATRIX_QUERY_DOWN, "self_attn.q_a_proj", latent->q_rank,
           c->hidden, c->attention_bias);
    vector(m, VECTOR_QUERY_DOWN_NORM, "self_attn.q_a_layernorm.weight",
           latent->q_rank);
    matrix(m, MATRIX_QUERY_UP, "self_attn.q_b_proj", q, latent->q_rank, false);
}

static void
latent_attention(const struct model_config *c, struct modules *m)
{
    const struct model_latent *latent = &c->latent;
    uint64_t rank = latent->kv_rank;

    latent_queries(c, m);
    matrix(m, MATRIX_KV_DOWN, "self_attn.kv_a_proj_with_mqa",
           rank + latent->rope, c->hidden, c->attention_bias);
    vector(m, VECTOR_KV_NORM, "self_attn.kv_a_layernorm.weight", rank);
    if (latent->joined) {
        matrix(m, MATRIX_KV_UP, "self_attn.kv_b_proj",
               (uint64_t)c->heads * (latent->nope + latent->value), rank,
               false);
    } else {
        matrices(m, MATRIX_KEY_UP, "self_attn.embed_q", c->heads, rank,
                 latent->nope, false);
        matrices(m, MATRIX_VALUE_UP, "self_attn.unembed_out", c->heads,
                 latent->value, rank, false);
    }
    matrix(m, MATRIX_OUTPUT, "self_attn.o_proj", c->hidden,
           (uint64_t)c->heads * latent->value, c->output_bias);
}

static void
feed_forward(const struct model_config *c, struct modules *m)
{
    matrix(m, MATRIX_GATE, "mlp.gate_proj", c->intermediate, c->hidden,
           c->mlp_bias);
    matrix(m, MATRIX_UP, "mlp.up_proj", c->intermediate, c->hidden,
           c->mlp_bias);
    matrix(m, MATRIX_DOWN, "mlp.down_proj", c->hidden, c->intermediate,
           c->mlp_bias);
}

/* How the matrices of the experts are called: by MLX, by MLX for gpt-oss, and
 * where each expert is apart. */
static const char *const expert_names[][3] = {
    {"mlp.switch_mlp.gate_proj", "mlp.experts.gate_proj", "gate_proj"},
    {"mlp.switch_mlp.up_proj", "mlp.experts.up_proj", "up_proj"},
    {"mlp.switch_mlp.down_proj", "mlp.experts.down_proj", "down_proj"},
};

/* gpt-oss gives them biases. */
static void
expert_matrix(const struct model_config *c, struct modules *m,
              enum matrix_role role, const char *const names[3], uint64_t rows,
              uint64_t cols)
{
    bool other = c->experts.router == ROUTER_TOP_SOFTMAX;

    matrices(m, role,
             names[c->experts.apart ? 2
                   : other          ? 1
                                    : 0],
             c->experts.count, rows, cols, other);
    m->matrices[m->matrix_count - 1].apart = c->experts.apart;
}

static void
experts(const struct model_config *c, struct modules *m)
{
    const struct model_experts *e = &c->experts;
    bool other = e->router == ROUTER_TOP_SOFTMAX;

    matrix(m, MATRIX_ROUTER, other ? "mlp.router" : "mlp.gate", e->count,
           c->hidden, other);
    if (e->router == ROUTER_SIGMOID)
        vector(m, VECTOR_SCORE_BIAS, "mlp.gate.e_score_correction_bias",
               e->count);
    expert_matrix(c, m, MATRIX_EXPERT_GATE, expert_names[0], e->inner,
                  c->hidden);
    expert_matrix(c, m, MATRIX_EXPERT_UP, expert_names[1], e->inner, c->hidden);
    expert_matrix(c, m, MATRIX_EXPERT_DOWN, expert_names[2], c->hidden,
                  e->inner);
    if (e->shared_inner == 0)
        return;
    matrix(m, MATRIX_SHARED_GATE,
           e->shared_gate ? "mlp.shared_expert.gate_proj"
                          : "mlp.shared_experts.gate_proj",
           e->shared_inner, c->hidden, false);
    matrix(m, MATRIX_SHARED_UP,
           e->shared_gate ? "mlp.shared_expert.up_proj"
                          : "mlp.shared_experts.up_proj",
           e->shared_inner, c->hidden, false);
    matrix(m, MATRIX_SHARED_DOWN,
           e->shared_gate ? "mlp.shared_expert.down_proj"
                          : "mlp.shared_experts.down_proj",
           c->hidden, e->shared_inner, false);
    if (e->shared_gate)
        matrix(m, MATRIX_SHARED_SCALE, "mlp.shared_expert_gate", 1, c->hidden,
               false);
}

static void
delta_net(const struct model_config *c, struct modules *m)
{
    const struct model_delta *d = &c->delta;
    uint64_t values = (uint64_t)d->value_heads * d->value_size;
    uint64_t channels = 2 * (uint64_t)d->key_heads * d->key_size + values;

    matrix(m, MATRIX_DELTA_QKV, "linear_attn.in_proj_qkv", channels, c->hidden,
           false);
    matrix(m, MATRIX_DELTA_GATE, "linear_attn.in_proj_z", values, c->hidden,
           false);
    matrix(m, MATRIX_DELTA_STRENGTH, "linear_attn.in_proj_b", d->value_heads,
           c->hidden, false);
    matrix(m, MATRIX_DELTA_DECAY, "linear_attn.in_proj_a", d->value_heads,
           c->hidden, false);
    matrix(m, MATRIX_OUTPUT, "linear_attn.out_proj", c->hidden, values, false);
    vector(m, VECTOR_DELTA_CONV, "linear_attn.conv1d.weight",
           channels * d->kernel);
    m->vectors[m->vector_count - 1].kernel = d->kernel;
    vector(m, VECTOR_DELTA_STEP, "linear_attn.dt_bias", d->value_heads);
    vector(m, VECTOR_DELTA_RATE, "linear_attn.A_log", d->value_heads);
    vector(m, VECTOR_DELTA_NORM, "linear_attn.norm.weight", d->value_size);
}

void
model_layer_name(const struct model_config *config, uint32_t layer,
                 const char *part, char name[MODULE_NAME_BYTES])
{
    snprintf(name, MODULE_NAME_BYTES, "%slayers.%u.%s", config->prefix, layer,
             part);
}

void
model_expert_name(const struct model_config *config, uint32_t layer,
                  uint64_t expert, const char *part,
                  char name[MODULE_NAME_BYTES])
{
    snprintf(name, MODULE_NAME_BYTES, "%slayers.%u.mlp.experts.%" PRIu64 ".%s",
             config->prefix, layer, expert, part);
}

bool
model_layer_has_experts(const struct model_config *config, uint32_t layer)
{
    return config->experts.router != ROUTER_NONE &&
           layer >= config->experts.dense_layers;
}

void
model_modules(const struct model_config *config, uint32_t layer,
              struct modules *modules)
{
    *modules = (struct modules){.matrix_count = 0};
    vector(modules, VECTOR_ATTENTION_NORM, "input_layernorm.weight",
           config->hidden);
    vector(modules, VECTOR_MLP_NORM, "post_attention_layernorm.weight",
           config->hidden);
    if (config->layer_kinds[layer] == LAYER_DELTA)
        delta_net(config, modules);
    else if (config->latent.kv_rank != 0)
        latent_attention(config, modules);
    else
        attention(config, modules);
    if (model_layer_has_experts(config, layer))
        experts(config, modules);
    else
        feed_forward(config, modules);
}

uint64_t
model_config_kv_elements(const struct model_config *config)
{
    uint64_t layers = 0;

    for (uint32_t i = 0; i < config->layers; i++)
        layers += config->layer_kinds[i] == LAYER_DELTA ? 0 : 1;
    if (config->latent.kv_rank != 0)
        return layers * (config->latent.kv_rank + config->latent.rope);
    return 2 * layers * config->kv_heads * config->head_dim;
}
