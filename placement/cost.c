/* cost.c - the cost model, first form: one node, one stream.
 *
 * docs/placement.md explains each term and says where each constant is from. */
#include "placement/cost.h"

#include <math.h>

#include "common/banned.h"

/* What differs between backends: one row each. */
struct backend {
    uint64_t kv_element_bytes; /* the catalogue counts 2 */
    uint64_t prefill_chunk;    /* positions computed at once, at most */
    uint64_t buffer_rows;      /* float buffers of `hidden` per position */
    uint64_t score_bytes;      /* attention scores per position of context */
    uint64_t engine_bytes;     /* resident size without a model */
    uint64_t reserve_divisor;  /* 1/n of the weights kept in reserve .. */
    uint64_t reserve_max;      /* .. up to this */
};

static const struct backend backend_cpu = {
    .kv_element_bytes = 4,
    .prefill_chunk = 320,
    .buffer_rows = 16,
    .score_bytes = 256,
    .engine_bytes = 32 * MIB,
    .reserve_divisor = 32,
    .reserve_max = UINT64_C(1000000000),
};

enum { KV_REFERENCE_BYTES = 2, ACTIVATION_BYTES = 4, MARGIN_DIVISOR = 25 };

/* A rate outside (0, max] is no measurement of a machine we know. */
struct rate_limits {
    double fallback;
    double max;
};
static const struct rate_limits bandwidth_gb_s = {8.0, 1e5};
static const struct rate_limits prefill_tflop_s = {0.02, 1e5};
static const struct rate_limits read_gb_s = {0.85, 1e3};

#define TERM_MAX_NS (INT64_MAX / 4)

static uint64_t
add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t
multiply(uint64_t a, uint64_t b)
{
    return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

static uint64_t
kv_per_token(const struct place_demand *demand, const struct backend *backend)
{
    uint64_t elements = demand->kv_bytes_per_token / KV_REFERENCE_BYTES +
                        demand->kv_bytes_per_token % KV_REFERENCE_BYTES;

    return multiply(elements, backend->kv_element_bytes);
}

static uint64_t
activations(const struct place_demand *demand, const struct backend *backend,
            uint64_t context)
{
    uint64_t rows = backend->prefill_chunk * backend->buffer_rows;

    return add(multiply(demand->hidden, rows * ACTIVATION_BYTES),
               multiply(context, backend->score_bytes));
}

static uint64_t
reserve(const struct place_demand *demand, const struct backend *backend)
{
    uint64_t share = demand->weight_bytes / backend->reserve_divisor;

    if (share > backend->reserve_max)
        share = backend->reserve_max;
    return backend->engine_bytes + share;
}

struct cost_memory
cost_memory(const struct place_demand *demand, bool weights_counted)
{
    const struct backend *backend = &backend_cpu;
    uint64_t context = add(demand->prompt_tokens, demand->output_tokens);
    struct cost_memory memory = {
        .kv_bytes = multiply(kv_per_token(demand, backend), context),
        .activation_bytes = activations(demand, backend, context),
    };
    uint64_t sum;

    if (!weights_counted) {
        memory.weight_bytes = demand->weight_bytes;
        memory.reserve_bytes = reserve(demand, backend);
    }
    sum = add(add(memory.weight_bytes, memory.kv_bytes),
              add(memory.activation_bytes, memory.reserve_bytes));
    memory.margin_bytes = sum / MARGIN_DIVISOR + (sum % MARGIN_DIVISOR != 0);
    memory.total_bytes = add(sum, memory.margin_bytes);
    return memory;
}

static double
rate(double claimed, const struct rate_limits *limits)
{
    /* Written so that NaN fails the test. */
    if (claimed > 0 && claimed <= limits->max)
        return claimed;
    return limits->fallback;
}

/* @amount at @per_ns each nanosecond, to the nearest nanosecond. */
static int64_t
term_ns(double amount, double per_ns)
{
    double ns = amount / per_ns;

    if (!(ns < (double)TERM_MAX_NS))
        return TERM_MAX_NS;
    return (int64_t)llround(ns);
}

static int64_t
wait_ns(int64_t queued_ns)
{
    if (queued_ns < 0)
        return 0;
    return queued_ns < TERM_MAX_NS ? queued_ns : TERM_MAX_NS;
}

/* Sum over the prompt: a constant per token, and attention. */
static double
prefill_flop(const struct place_demand *demand)
{
    double prompt = (double)demand->prompt_tokens;

    return prompt * (double)demand->flop_per_token +
           prompt * prompt * (double)demand->attention_flop;
}

/* The weights once a token, and the cache as it grows: the k-th token reads
 * the prompt and k positions. */
static double
decode_bytes(const struct place_demand *demand)
{
    double prompt = (double)demand->prompt_tokens;
    double output = (double)demand->output_tokens;
    double kv = (double)kv_per_token(demand, &backend_cpu);

    return output * (double)demand->bytes_per_token +
           kv * (output * prompt + output * (output + 1) / 2);
}

static void
predict(const struct place_demand *demand, struct place_candidate *candidate)
{
    double output = (double)demand->output_tokens;
    double decode = (double)candidate->decode_ns;
    double before = (double)candidate->wait_ns + (double)candidate->load_ns +
                    (double)candidate->prefill_ns;

    candidate->ttft_ms = (before + (output > 0 ? decode / output : 0)) / 1e6;
    candidate->tok_s = decode > 0 ? output * 1e9 / decode : 0;
}

void
cost_time(const struct place_target *target, const struct place_demand *demand,
          struct place_candidate *candidate)
{
    /* 1 GB/s is one byte a nanosecond, 1 TFLOP/s a thousand operations. */
    candidate->wait_ns = wait_ns(target->queued_ns);
    candidate->load_ns = 0;
    if (!target->warm)
        candidate->load_ns = term_ns((double)demand->weight_bytes,
                                     rate(target->read_gb_s, &read_gb_s));
    candidate->prefill_ns =
        term_ns(prefill_flop(demand),
                rate(target->prefill_tflop_s, &prefill_tflop_s) * 1e3);
    candidate->decode_ns = term_ns(
        decode_bytes(demand), rate(target->bandwidth_gb_s, &bandwidth_gb_s));
    candidate->finish_ns = candidate->wait_ns + candidate->load_ns +
                           candidate->prefill_ns + candidate->decode_ns;
    predict(demand, candidate);
}
