/* ops.h - the operations a forward pass is made of, as a table.
 *
 * inference/transformer.c is written once over this table; a backend is one
 * table and the memory behind it.  Activations and KV live in memory of the
 * backend, seen only through handles; weights are the mapped model files.
 *
 * A backend is *shape-invariant*: each output element is one sum in one fixed
 * order, whatever the number of rows in the pass and of threads.  One thread
 * calls a backend at a time; how many work inside is the backend's business.
 */
#ifndef BERTH_INFERENCE_OPS_H
#define BERTH_INFERENCE_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/safetensors.h"

enum weight_format {
    WEIGHT_F32,
    WEIGHT_F16,
    WEIGHT_BF16,
    /* MLX affine: scale * q + bias per group; q has 2 to 8 bits, packed from
     * the low bits up without gaps. */
    WEIGHT_AFFINE2,
    WEIGHT_AFFINE3,
    WEIGHT_AFFINE4,
    WEIGHT_AFFINE5,
    WEIGHT_AFFINE6,
    WEIGHT_AFFINE8,
    /* OCP MX: 4-bit floats (E2M1), low nibble first, times a power of two
     * (E8M0) per 32 of them. */
    WEIGHT_MXFP4,
    WEIGHT_FORMATS,
};

/* A matrix [rows, cols], row by row; @cols is the size of the input.  Data is
 * borrowed from the mapped file and need not be aligned. */
struct weight {
    enum weight_format format;
    size_t rows, cols;
    const uint8_t *data;
    size_t row_bytes;
    const uint8_t *scales, *biases; /* [rows, cols / group]; mxfp4: no biases */
    enum dtype scale_dtype;         /* F32, F16 or BF16; mxfp4: U8 */
    size_t group;                   /* 32, 64 or 128; mxfp4: 32 */
    const float *offset;            /* added to the output; NULL: none */
};

/* RMS norm over the first @size elements of each piece of @stride; those
 * behind them stay as they are. */
struct norm {
    const float *weight; /* @size of them */
    size_t size, stride;
    float eps;
};

/* Activations: rows of floats. */
struct vec;
/* Keys and values of one sequence, all layers. */
struct kv;

/* What a layer keeps of one position: for each of its heads a key and a value.
 * With no @value_size the value is the front of the key.  @state floats are
 * kept of the sequence as a whole. */
struct kv_layer {
    size_t heads, key_size, value_size;
    size_t state;
};

struct kv_shape {
    size_t layers;
    const struct kv_layer *layer; /* kept */
};

/* One row of a pass: an id at a position of a sequence. */
struct pass_row {
    uint32_t id;
    uint32_t position;
    struct kv *kv;
};

/* Queries are [heads, key_size], results [heads, value_size]. */
struct attention_shape {
    size_t layer, heads, kv_heads, key_size, value_size;
    size_t window;      /* positions looked at, its own among them; 0: all */
    float scale;        /* of query times key */
    const float *sinks; /* per head a score without a value; NULL: none */
};

/* A delta net: rows are [key_heads x key_size] twice, queries and keys, then
 * [value_heads x value_size].  Its state is the last @kernel - 1 rows of each
 * channel, then a matrix [key_size, value_size] for each value head. */
struct delta_shape {
    size_t layer, key_heads, value_heads, key_size, value_size, kernel;
    const float *conv; /* [channels, kernel] */
    const float *step; /* per value head: added before the softplus */
    const float *rate; /* per value head: the decay's, as a logarithm */
};

/* Of each piece of @head_size elements @size turn, from @first on: halves of
 * them with each other, or neighbours. */
struct rope_shape {
    size_t head_size, first, size;
    bool neighbours;
    const float *frequencies; /* radians per position, size / 2 of them */
    float amplitude;          /* of sines and cosines */
};

/* Pieces of rows, one for each head: the first @first elements in, and @stride
 * apart. */
struct pieces {
    size_t first, stride;
};

/* A matrix for each head: @rows of the weight from row @head x @row_stride +
 * @row_first on. */
struct heads_shape {
    size_t heads, rows, row_first, row_stride;
    struct pieces in, out;
    bool turned; /* in has @rows elements, out the weight's columns */
};

/* @count rows are worked on by every operation that takes a count. */
struct ops {
    const char *name; /* "cpu" */
    void (*close)(void *ctx);

    struct vec *(*vec_new)(void *ctx, size_t rows, size_t size);
    void (*vec_free)(void *ctx, struct vec *vec);
    /* Results as host memory, valid until the next operation on @vec. */
    const float *(*vec_read)(void *ctx, const struct vec *vec, size_t row);
    struct kv *(*kv_new)(void *ctx, const struct kv_shape *shape,
                         size_t positions);
    void (*kv_free)(void *ctx, struct kv *kv);
    /* What one position of one sequence takes. */
    uint64_t (*kv_token_bytes)(const struct kv_shape *shape);
    /* What a sequence takes besides. */
    uint64_t (*kv_state_bytes)(const struct kv_shape *shape);

    /* out[i] = the row of @table for rows[i].id */
    void (*embed)(void *ctx, struct vec *out, const struct weight *table,
                  const struct pass_row *rows, size_t count);
    /* out[i] = weight x in[i] (+ offset) */
    void (*linear)(void *ctx, struct vec *out, const struct vec *in,
                   size_t count, const struct weight *weight);
    /* Each head's piece of @in with the head's own matrix; no offsets. */
    void (*linear_heads)(void *ctx, struct vec *out, const struct vec *in,
                         size_t count, const struct weight *weight,
                         const struct heads_shape *shape);
    /* Pieces of @size elements from @in to @out, @heads of each row. */
    void (*pieces_copy)(void *ctx, struct vec *out, struct pieces to,
                        const struct vec *in, struct pieces from, size_t heads,
                        size_t size, size_t count);
    /* Each piece on its own; out may be in. */
    void (*rmsnorm)(void *ctx, struct vec *out, const struct vec *in,
                    size_t count, const struct norm *norm);
    /* Turn by position x frequency, in place. */
    void (*rope)(void *ctx, struct vec *x, const struct pass_row *rows,
                 size_t count, const struct rope_shape *shape);
    /* Store keys and values (NULL where keys are both) of the rows in their
     * sequences. */
    void (*kv_write)(void *ctx, const struct vec *keys,
                     const struct vec *values, const struct pass_row *rows,
                     size_t count, size_t layer);
    /* Causal attention of each row over its sequence up to itself. */
    void (*attention)(void *ctx, struct vec *out, const struct vec *queries,
                      const struct pass_row *rows, size_t count,
                      const struct attention_shape *shape);
    /* Take the rows into the states of their sequences, in their order, and
     * give what the queries find there.  @qkv is overwritten; @strength and
     * @decay have an element for each value head. */
    void (*delta_net)(void *ctx, struct vec *out, struct vec *qkv,
                      const struct vec *strength, const struct vec *decay,
                      const struct pass_row *rows, size_t count,
                      const struct delta_shape *shape);
    /* x[i] *= sigmoid(gate[i / n]), x being n times as wide as the gate */
    void (*sigmoid_mul)(void *ctx, struct vec *x, const struct vec *gate,
                        size_t count);
    /* gate[i] = silu(gate[i]) * up[i] */
    void (*silu_mul)(void *ctx, struct vec *gate, const struct vec *up,
                     size_t count);
    /* gate[i] = g * sigmoid(1.702 g) * (u + 1), where g is gate[i] up to
     * @limit and u is up[i] within it */
    void (*swiglu_limited)(void *ctx, struct vec *gate, const struct vec *up,
                           size_t count, float limit);
    /* x[i] += y[i] */
    void (*add)(void *ctx, struct vec *x, const struct vec *y, size_t count);
    /* One row of @in becomes row @to of @out. */
    void (*row_copy)(void *ctx, struct vec *out, size_t to,
                     const struct vec *in, size_t from);
    /* Row @to of @x += scale * row @from of @y. */
    void (*row_add)(void *ctx, struct vec *x, size_t to, const struct vec *y,
                    size_t from, float scale);
};

/* A backend in use: made by its open function, ended by ops->close(ctx). */
struct backend {
    const struct ops *ops;
    void *ctx;
};

#endif
