/* engine.c - the list of sequences is in order of arrival; those that run
 * hold a KV reservation. */
#include "inference/engine.h"

#include <assert.h>
#include <math.h>
#include <inttypes.h>
#include <string.h>

#include "common/clock.h"
#include "common/mem.h"
#include "inference/cpu/cpu.h"
#include "inference/transformer.h"

#include "common/banned.h"

enum {
    CHUNK_MIN = 8,
    CHUNK_FIRST = 32,
    /* Prompt ids of a pass while others stream, so that they don't stall. */
    CHUNK_BESIDE_STREAMS = 64,
    /* A pass should not take longer: the socket is read between passes. */
    PASS_LONG_MS = 400,
    PASS_SHORT_MS = 150,
};

struct sequence {
    struct sequence *next;
    void *tag;
    uint32_t *ids; /* prompt, done ids, then those made here */
    size_t id_count;
    size_t prefilled;  /* positions whose keys and values are stored */
    size_t first_made; /* index of the first id made here */
    size_t prompt_count;
    uint64_t kv_tokens;
    struct sampling sampling;
    uint32_t choice;
    struct output *output;
    struct kv *kv; /* NULL while waiting */
    struct sequence_counts counts;
    bool finished;
};

struct engine {
    struct model_directory dir;
    struct weights weights;
    struct tokenizer *tokenizer;
    struct backend backend;
    struct transformer *transformer;
    uint32_t slots;
    uint64_t kv_bytes, kv_reserved;
    struct sequence *sequences;
    size_t sequence_count, running_count;
    size_t chunk; /* prompt ids of the next pass, learnt from the last */
    struct sampler_entry *room;
    struct buf text; /* of output_push: not used here */
};

/* The rows of one pass and whose they are. */
struct batch {
    struct pass_row rows[TRANSFORMER_ROWS_MAX];
    size_t count;
    size_t wanted[TRANSFORMER_LOGITS_MAX];
    struct sequence *wanted_by[TRANSFORMER_LOGITS_MAX];
    size_t wanted_count;
    struct sequence *members[ENGINE_SLOTS_MAX];
    size_t taken[ENGINE_SLOTS_MAX]; /* rows of each */
    size_t member_count;
    size_t prompt_rows;
};

static uint64_t
kv_budget(const struct engine *engine, const struct engine_options *options)
{
    uint64_t whole =
        transformer_kv_bytes(engine->transformer, engine->dir.config.context);
    uint64_t all = whole * engine->slots;

    if (options->kv_bytes != 0)
        return options->kv_bytes;
    return all < ENGINE_KV_DEFAULT_BYTES ? all : ENGINE_KV_DEFAULT_BYTES;
}

enum status
engine_open(const char *path, const struct engine_options *options,
            struct engine **out, struct error *err)
{
    struct engine *engine = mem_alloc(sizeof(*engine));
    enum status status;

    assert(options->slots >= 1 && options->slots <= ENGINE_SLOTS_MAX);
    buf_init(&engine->text, MIB);
    engine->slots = options->slots;
    engine->chunk = CHUNK_FIRST;
    status = model_directory_open(path, &engine->dir, err);
    if (status != STATUS_OK) {
        buf_clear(&engine->text);
        free(engine);
        return status;
    }
    status = tokenizer_read(path, &engine->tokenizer, err);
    if (status == STATUS_OK)
        status = weights_open(&engine->dir, &engine->weights, err);
    if (status != STATUS_OK) {
        engine_close(engine);
        return status;
    }
    cpu_open(options->threads, NULL, options->int8 ? integer_best() : NULL,
             &engine->backend);
    engine->transformer = transformer_new(&engine->backend, &engine->dir.config,
                                          &engine->weights);
    engine->room = mem_array(engine->dir.config.vocab, sizeof(*engine->room));
    engine->kv_bytes = kv_budget(engine, options);
    *out = engine;
    return STATUS_OK;
}

static void
sequence_free(struct engine *engine, struct sequence *sequence)
{
    if (sequence->kv != NULL) {
        transformer_kv_free(engine->transformer, sequence->kv);
        engine->kv_reserved -=
            transformer_kv_bytes(engine->transformer, sequence->kv_tokens);
        engine->running_count--;
    }
    engine->sequence_count--;
    output_free(sequence->output);
    free(sequence->ids);
    free(sequence);
}

void
engine_close(struct engine *engine)
{
    if (engine == NULL)
        return;
    while (engine->sequences != NULL) {
        struct sequence *sequence = engine->sequences;

        engine->sequences = sequence->next;
        sequence_free(engine, sequence);
    }
    assert(engine->kv_reserved == 0);
    transformer_free(engine->transformer);
    if (engine->backend.ops != NULL)
        engine->backend.ops->close(engine->backend.ctx);
    weights_close(&engine->weights, &engine->dir.config);
    tokenizer_free(engine->tokenizer);
    model_directory_close(&engine->dir);
    buf_clear(&engine->text);
    free(engine->room);
    free(engine);
}

static enum status
refuse(struct error *err, enum status status, const char *code)
{
    if (err != NULL)
        err->status = status;
    error_tag(err, code, NULL);
    return status;
}

static enum status
ids_check(const struct engine *engine, const uint32_t *ids, size_t count,
          struct error *err)
{
    uint32_t vocab = engine->dir.config.vocab;

    for (size_t i = 0; i < count; i++) {
        if (ids[i] < vocab)
            continue;
        error_set(err, STATUS_INVALID,
                  "id %" PRIu32 " at index %zu is not below the vocabulary of "
                  "%" PRIu32,
                  ids[i], i, vocab);
        return refuse(err, STATUS_INVALID, "bad_request");
    }
    return STATUS_OK;
}

static enum status
sampling_check(const struct sampling *sampling, struct error *err)
{
    if (sampling->temperature >= 0 && sampling->temperature <= 100 &&
        sampling->top_p > 0 && sampling->top_p <= 1)
        return STATUS_OK;
    error_set(err, STATUS_INVALID,
              "temperature %g must lie in 0..100 and top_p %g above 0 and at "
              "most 1",
              sampling->temperature, sampling->top_p);
    return refuse(err, STATUS_INVALID, "bad_request");
}

static enum status
lengths_check(const struct engine *engine, const struct engine_request *request,
              struct error *err)
{
    uint64_t context = engine->dir.config.context;
    uint64_t prompt = request->prompt_count, most = request->max_tokens;
    uint64_t token_bytes = engine_kv_token_bytes(engine);

    if (prompt == 0 || most == 0 || request->done_count >= most) {
        error_set(err, STATUS_INVALID,
                  "prompt of %" PRIu64 " ids, %zu ids done of max_tokens "
                  "%" PRIu64 ": the prompt must not be empty and max_tokens "
                  "above the ids done",
                  prompt, request->done_count, most);
        return refuse(err, STATUS_INVALID, "bad_request");
    }
    if (prompt > context || most > context - prompt ||
        request->kv_tokens > context) {
        error_set(err, STATUS_INVALID,
                  "prompt of %" PRIu64 " ids, max_tokens %" PRIu64
                  " and kv_tokens %" PRIu64 " exceed the context of %" PRIu64
                  ": lower max_tokens",
                  prompt, most, request->kv_tokens, context);
        return refuse(err, STATUS_INVALID, "context_exceeded");
    }
    if (request->kv_tokens < prompt + most) {
        error_set(err, STATUS_INVALID,
                  "kv_tokens %" PRIu64 " is less than prompt %" PRIu64
                  " + max_tokens %" PRIu64,
                  request->kv_tokens, prompt, most);
        return refuse(err, STATUS_INVALID, "bad_request");
    }
    if (transformer_kv_bytes(engine->transformer, request->kv_tokens) >
        engine->kv_bytes) {
        error_set(err, STATUS_NO_CAPACITY,
                  "%" PRIu64 " positions of %" PRIu64 " bytes exceed the KV "
                  "budget of %" PRIu64 " bytes",
                  request->kv_tokens, token_bytes, engine->kv_bytes);
        return refuse(err, STATUS_NO_CAPACITY, "no_memory");
    }
    return STATUS_OK;
}

static struct output *
output_make(const struct engine *engine, const struct engine_request *request)
{
    const struct model_config *config = &engine->dir.config;
    struct output_rules rules = {.max_tokens = request->max_tokens,
                                 .stop_count = request->stop_count};

    assert(config->stop_id_count <= COUNT_OF(rules.end_ids));
    assert(request->stop_count <= OUTPUT_STOPS_MAX);
    if (!request->ignore_ends)
        rules.end_id_count = config->stop_id_count;
    memcpy(rules.end_ids, config->stop_ids,
           config->stop_id_count * sizeof(rules.end_ids[0]));
    for (size_t i = 0; i < request->stop_count; i++)
        memcpy(rules.stop[i], request->stop[i], sizeof(rules.stop[i]));
    return output_new(engine->tokenizer, &rules);
}

static void
sequence_append(struct engine *engine, struct sequence *sequence)
{
    struct sequence **at = &engine->sequences;

    while (*at != NULL)
        at = &(*at)->next;
    *at = sequence;
    engine->sequence_count++;
}

/* The judge of ends, fed with one id. */
static void
sequence_judge(struct engine *engine, struct sequence *sequence, uint32_t id)
{
    (void)output_push(sequence->output, &id, 1, &engine->text);
    buf_reset(&engine->text);
    sequence->finished = output_finish(sequence->output) != OUTPUT_GOING;
}

enum status
engine_add(struct engine *engine, const struct engine_request *request,
           void *tag, struct sequence **out, struct error *err)
{
    struct sequence *sequence;
    enum status status = lengths_check(engine, request, err);

    if (status == STATUS_OK)
        status = sampling_check(&request->sampling, err);
    if (status == STATUS_OK)
        status = ids_check(engine, request->prompt, request->prompt_count, err);
    if (status == STATUS_OK)
        status = ids_check(engine, request->done, request->done_count, err);
    if (status != STATUS_OK)
        return status;
    if (engine->sequence_count == ENGINE_WAITING_MAX) {
        error_set(err, STATUS_NO_CAPACITY,
                  "%d sequences wait already; send it again later",
                  ENGINE_WAITING_MAX);
        return refuse(err, STATUS_NO_CAPACITY, "no_capacity");
    }
    sequence = mem_alloc(sizeof(*sequence));
    sequence->tag = tag;
    sequence->ids = mem_array((size_t)request->kv_tokens, sizeof(uint32_t));
    memcpy(sequence->ids, request->prompt,
           request->prompt_count * sizeof(uint32_t));
    sequence->prompt_count = request->prompt_count;
    sequence->first_made = request->prompt_count + request->done_count;
    sequence->id_count = sequence->first_made;
    sequence->kv_tokens = request->kv_tokens;
    sequence->sampling = request->sampling;
    sequence->choice = request->choice;
    sequence->output = output_make(engine, request);
    for (size_t i = 0; i < request->done_count && !sequence->finished; i++) {
        sequence->ids[request->prompt_count + i] = request->done[i];
        sequence_judge(engine, sequence, request->done[i]);
    }
    sequence_append(engine, sequence);
    *out = sequence;
    return STATUS_OK;
}

static void
sequence_unlink(struct engine *engine, const struct sequence *sequence)
{
    struct sequence **at = &engine->sequences;

    while (*at != sequence)
        at = &(*at)->next;
    *at = sequence->next;
}

void
engine_cancel(struct engine *engine, struct sequence *sequence,
              struct sequence_counts *counts)
{
    if (counts != NULL)
        *counts = sequence->counts;
    sequence_unlink(engine, sequence);
    sequence_free(engine, sequence);
}

bool
engine_is_busy(const struct engine *engine)
{
    return engine->sequences != NULL;
}

/* Give slots and memory to those that wait, strictly in order: a large one is
 * not overtaken for ever by small ones. */
static void
admit(struct engine *engine, const struct engine_events *events)
{
    for (struct sequence *s = engine->sequences; s != NULL; s = s->next) {
        uint64_t bytes =
            transformer_kv_bytes(engine->transformer, s->kv_tokens);

        if (s->kv != NULL || s->finished)
            continue;
        if (engine->running_count == engine->slots ||
            bytes > engine->kv_bytes - engine->kv_reserved)
            return;
        s->kv = transformer_kv_new(engine->transformer, (size_t)s->kv_tokens);
        engine->kv_reserved += bytes;
        engine->running_count++;
        assert(engine->kv_reserved <= engine->kv_bytes);
        if (events->on_start != NULL)
            events->on_start(events->arg, s->tag);
    }
}

static void
batch_add(struct batch *batch, struct sequence *sequence, size_t rows)
{
    size_t last = sequence->prefilled + rows;

    assert(batch->count + rows <= TRANSFORMER_ROWS_MAX);
    for (size_t i = sequence->prefilled; i < last; i++)
        batch->rows[batch->count++] = (struct pass_row){.id = sequence->ids[i],
                                                        .position = (uint32_t)i,
                                                        .kv = sequence->kv};
    if (last == sequence->id_count) {
        batch->wanted[batch->wanted_count] = batch->count - 1;
        batch->wanted_by[batch->wanted_count++] = sequence;
    }
    batch->members[batch->member_count] = sequence;
    batch->taken[batch->member_count++] = rows;
}

static bool
is_decoding(const struct sequence *sequence)
{
    return sequence->kv != NULL && !sequence->finished &&
           sequence->prefilled + 1 == sequence->id_count &&
           sequence->id_count > sequence->first_made;
}

static bool
is_prefilling(const struct sequence *sequence)
{
    return sequence->kv != NULL && !sequence->finished &&
           !is_decoding(sequence);
}

/* Every decoding sequence, then a chunk of the first prompt not yet read. */
static void
batch_fill(const struct engine *engine, struct batch *batch)
{
    size_t chunk = engine->chunk;

    for (struct sequence *s = engine->sequences; s != NULL; s = s->next)
        if (is_decoding(s))
            batch_add(batch, s, 1);
    if (batch->count > 0 && chunk > CHUNK_BESIDE_STREAMS)
        chunk = CHUNK_BESIDE_STREAMS;
    for (struct sequence *s = engine->sequences; s != NULL; s = s->next) {
        size_t left = s->id_count - s->prefilled;

        if (!is_prefilling(s))
            continue;
        batch->prompt_rows = left < chunk ? left : chunk;
        batch_add(batch, s, batch->prompt_rows);
        return;
    }
}

/* Learn how many prompt ids fit the time a pass may take. */
static void
chunk_adapt(struct engine *engine, size_t prompt_rows, struct span took)
{
    int64_t ms = span_as_ms(took);

    if (prompt_rows == 0) /* it says nothing about prompts */
        return;
    if (prompt_rows < engine->chunk && ms <= PASS_LONG_MS)
        return;
    if (ms > PASS_LONG_MS && engine->chunk > CHUNK_MIN)
        engine->chunk /= 2;
    else if (ms < PASS_SHORT_MS && engine->chunk < ENGINE_CHUNK_MAX)
        engine->chunk *= 2;
}

static void
batch_account(const struct batch *batch, struct span took)
{
    for (size_t i = 0; i < batch->member_count; i++) {
        struct sequence *sequence = batch->members[i];
        struct sequence_counts *counts = &sequence->counts;

        counts->passes++;
        if (is_decoding(sequence))
            counts->decode = span_add(counts->decode, took);
        else
            counts->prefill = span_add(counts->prefill, took);
        sequence->prefilled += batch->taken[i];
    }
}

static void
batch_sample(struct engine *engine, const struct batch *batch,
             const struct engine_events *events)
{
    for (size_t i = 0; i < batch->wanted_count; i++) {
        struct sequence *s = batch->wanted_by[i];
        uint64_t position = s->id_count - s->prompt_count;
        const float *logits = transformer_logits(engine->transformer, i);
        uint32_t id =
            sampler_pick(logits, engine->dir.config.vocab, &s->sampling,
                         s->choice, position, engine->room);

        if (!isfinite(logits[id])) {
            s->finished = true; /* damaged weights: no id is better */
            continue;
        }
        assert(s->id_count < s->kv_tokens);
        s->ids[s->id_count++] = id;
        s->counts.ids++;
        sequence_judge(engine, s, id);
        events->on_id(events->arg, s->tag, id);
    }
}

static void
finish_ended(struct engine *engine, const struct engine_events *events)
{
    struct sequence **at = &engine->sequences;

    while (*at != NULL) {
        struct sequence *sequence = *at;

        if (!sequence->finished) {
            at = &sequence->next;
            continue;
        }
        *at = sequence->next;
        events->on_finish(events->arg, sequence->tag,
                          output_finish(sequence->output), &sequence->counts);
        sequence_free(engine, sequence);
    }
}

void
engine_step(struct engine *engine, const struct engine_events *events)
{
    struct batch batch = {0};
    struct span begun = clock_monotonic();

    admit(engine, events);
    batch_fill(engine, &batch);
    if (batch.count > 0) {
        struct span took;

        transformer_pass(engine->transformer, batch.rows, batch.count,
                         batch.wanted, batch.wanted_count);
        took = span_sub(clock_monotonic(), begun);
        batch_account(&batch, took);
        chunk_adapt(engine, batch.prompt_rows, took);
        batch_sample(engine, &batch, events);
    }
    finish_ended(engine, events);
}

enum status
engine_logits(struct engine *engine, const uint32_t *ids, size_t count,
              float *logits, struct error *err)
{
    struct pass_row rows[ENGINE_CHUNK_MAX];
    uint64_t context = engine->dir.config.context;
    enum status status;
    struct kv *kv;

    if (count == 0 || count > context)
        return error_set(err, STATUS_INVALID,
                         "%zu ids: give 1 to %" PRIu64 ", the context", count,
                         context);
    status = ids_check(engine, ids, count, err);
    if (status != STATUS_OK)
        return status;
    kv = transformer_kv_new(engine->transformer, count);
    for (size_t first = 0; first < count; first += ENGINE_CHUNK_MAX) {
        size_t some = count - first;
        size_t last;

        if (some > ENGINE_CHUNK_MAX)
            some = ENGINE_CHUNK_MAX;
        for (size_t i = 0; i < some; i++)
            rows[i] = (struct pass_row){.id = ids[first + i],
                                        .position = (uint32_t)(first + i),
                                        .kv = kv};
        last = some - 1;
        transformer_pass(engine->transformer, rows, some, &last,
                         first + some == count ? 1 : 0);
    }
    memcpy(logits, transformer_logits(engine->transformer, 0),
           engine->dir.config.vocab * sizeof(float));
    transformer_kv_free(engine->transformer, kv);
    return STATUS_OK;
}

const struct model_config *
engine_config(const struct engine *engine)
{
    return &engine->dir.config;
}

const struct tokenizer *
engine_tokenizer(const struct engine *engine)
{
    return engine->tokenizer;
}

const char *
engine_backend(const struct engine *engine)
{
    return engine->backend.ops->name;
}

uint32_t
engine_slots(const struct engine *engine)
{
    return engine->slots;
}

uint64_t
engine_kv_token_bytes(const struct engine *engine)
{
    return transformer_kv_token_bytes(engine->transformer);
}

uint64_t
engine_kv_bytes(const struct engine *engine)
{
    return engine->kv_bytes;
}

uint64_t
engine_kv_reserved_bytes(const struct engine *engine)
{
    return engine->kv_reserved;
}

uint64_t
engine_weight_bytes(const struct engine *engine)
{
    return engine->dir.weight_bytes;
}

uint64_t
engine_bytes_per_token(const struct engine *engine)
{
    return engine->weights.bytes_per_token;
}
