/* wire.c - the messages of the link, in one table. */
#include "common/wire.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/field.h"
#include "common/json.h"
#include "common/mem.h"

#include "common/banned.h"

enum { TYPE_BYTES = 32, FIELDS_MAX = 24 };

/* --- the table --- */

static const struct field facts_fields[] = {
    FIELD(struct wire_facts, os, FIELD_TEXT, .required = true, .min = 1),
    FIELD(struct wire_facts, chip, FIELD_TEXT, .required = true),
    FIELD_NULLABLE(struct wire_facts, model_identifier, has_model_identifier,
                   FIELD_TEXT, .required = true),
    FIELD_NULLABLE(struct wire_facts, macos_version, has_macos_version,
                   FIELD_TEXT, .required = true),
    FIELD_NULLABLE(struct wire_facts, macos_build, has_macos_build, FIELD_TEXT,
                   .required = true),
    FIELD_NULLABLE(struct wire_facts, cores, has_cores, FIELD_U64,
                   .required = true),
    FIELD_NULLABLE(struct wire_facts, gpu_cores, has_gpu_cores, FIELD_U64,
                   .required = true),
    FIELD_NULLABLE(struct wire_facts, memory_bytes, has_memory_bytes, FIELD_U64,
                   .required = true),
    FIELD_NULLABLE(struct wire_facts, limit_bytes, has_limit_bytes, FIELD_U64,
                   .required = true),
    FIELD(struct wire_facts, limit_source, FIELD_TEXT, .required = true),
    FIELD_NULLABLE(struct wire_facts, bandwidth_gb_s, has_bandwidth_gb_s,
                   FIELD_DOUBLE, .required = true),
    FIELD(struct wire_facts, bandwidth_measured, FIELD_BOOL, .required = true),
    FIELD_NULLABLE(struct wire_facts, prefill_tflop_s, has_prefill_tflop_s,
                   FIELD_DOUBLE, .required = true),
    FIELD_NULLABLE(struct wire_facts, read_gb_s, has_read_gb_s, FIELD_DOUBLE,
                   .required = true),
};

static const struct field model_fields[] = {
    FIELD(struct wire_model, digest, FIELD_TEXT, .required = true),
    FIELD(struct wire_model, bytes, FIELD_U64, .required = true),
    FIELD(struct wire_model, loaded, FIELD_BOOL, .required = true),
    FIELD(struct wire_model, kv_bytes, FIELD_U64, .required = true),
};

static const struct field reason_fields[] = {
    FIELD(struct wire_reason, code, FIELD_TEXT, .required = true, .min = 1),
    FIELD(struct wire_reason, text, FIELD_TEXT, .required = true),
    FIELD(struct wire_reason, step, FIELD_TEXT, .required = true),
};

static const struct field engine_fields[] = {
    FIELD(struct wire_engine, backend, FIELD_TEXT, .required = true),
    FIELD(struct wire_engine, version, FIELD_TEXT, .required = true),
    FIELD(struct wire_engine, slots, FIELD_U32, .required = true),
    FIELD_LIST(struct wire_engine, capabilities, capability_count, FIELD_TEXT,
               .required = true),
};

static const struct field hello_fields[] = {
    FIELD(struct wire_hello, version, FIELD_U32, .required = true),
    FIELD(struct wire_hello, node, FIELD_TEXT, .required = true),
    FIELD(struct wire_hello, agent, FIELD_TEXT, .required = true),
    FIELD(struct wire_hello, epoch, FIELD_U64, .required = true),
    FIELD(struct wire_hello, simulated, FIELD_BOOL, .required = true),
    FIELD(struct wire_hello, state, FIELD_TEXT, .required = true, .min = 1),
    FIELD_NESTED(struct wire_hello, facts, facts_fields, .required = true),
    FIELD_NESTED(struct wire_hello, engine, engine_fields, .required = true),
    FIELD_ROWS(struct wire_hello, models, model_count, model_fields,
               .required = true),
    FIELD_ROWS(struct wire_hello, reasons, reason_count, reason_fields,
               .required = true),
};

static const struct field beat_fields[] = {
    FIELD_NULLABLE(struct wire_beat, free_bytes, has_free_bytes, FIELD_U64,
                   .required = true),
};

static const struct field state_fields[] = {
    FIELD(struct wire_state, state, FIELD_TEXT, .required = true, .min = 1),
    FIELD_ROWS(struct wire_state, reasons, reason_count, reason_fields,
               .required = true),
};

static const struct field models_fields[] = {
    FIELD_ROWS(struct wire_models, models, model_count, model_fields,
               .required = true),
};

static const struct field renew_fields[] = {
    FIELD(struct wire_renew, request, FIELD_TEXT, .required = true, .min = 1),
};

static const struct field welcome_fields[] = {
    FIELD(struct wire_welcome, version, FIELD_U32, .required = true),
    FIELD(struct wire_welcome, epoch, FIELD_U64, .required = true),
    FIELD(struct wire_welcome, name, FIELD_TEXT, .required = true),
    FIELD(struct wire_welcome, beat_s, FIELD_U32, .required = true, .min = 1),
    FIELD(struct wire_welcome, dev, FIELD_BOOL, .required = true),
};

static const struct field refuse_fields[] = {
    FIELD(struct wire_refuse, code, FIELD_TEXT, .required = true, .min = 1),
    FIELD(struct wire_refuse, text, FIELD_TEXT, .required = true),
};

static const struct field catalogue_entry_fields[] = {
    FIELD(struct wire_catalogue_entry, id, FIELD_TEXT, .required = true,
          .min = 1),
    FIELD(struct wire_catalogue_entry, digest, FIELD_TEXT, .required = true),
};

static const struct field catalogue_fields[] = {
    FIELD(struct wire_catalogue, more, FIELD_BOOL, .required = true),
    FIELD_ROWS(struct wire_catalogue, entries, entry_count,
               catalogue_entry_fields, .required = true),
};

static const struct field drain_fields[] = {
    FIELD(struct wire_drain, epoch, FIELD_U64, .required = true),
    FIELD(struct wire_drain, on, FIELD_BOOL, .required = true),
};

static const struct field renewed_fields[] = {
    FIELD(struct wire_renewed, certificate, FIELD_TEXT, .required = true,
          .min = 1),
};

static const struct field job_ack_fields[] = {
    FIELD(struct wire_job_ack, job, FIELD_TEXT, .required = true),
    FIELD(struct wire_job_ack, attempt, FIELD_U32, .required = true),
};

static const struct field job_input_fields[] = {
    FIELD(struct wire_job_input, job, FIELD_TEXT, .required = true),
    FIELD(struct wire_job_input, attempt, FIELD_U32, .required = true),
    FIELD(struct wire_job_input, epoch, FIELD_U64, .required = true),
    FIELD(struct wire_job_input, done, FIELD_BOOL, .required = true),
    FIELD(struct wire_job_input, choice, FIELD_U32, .required = true),
    FIELD_LIST(struct wire_job_input, ids, id_count, FIELD_U32,
               .required = true),
};

static const struct field job_run_fields[] = {
    FIELD(struct wire_job_run, job, FIELD_TEXT, .required = true),
    FIELD(struct wire_job_run, attempt, FIELD_U32, .required = true),
    FIELD(struct wire_job_run, epoch, FIELD_U64, .required = true),
    FIELD(struct wire_job_run, model, FIELD_TEXT, .required = true, .min = 1),
    FIELD(struct wire_job_run, digest, FIELD_TEXT, .required = true),
    FIELD(struct wire_job_run, prompt_count, FIELD_U64, .required = true),
    FIELD(struct wire_job_run, done_count, FIELD_U64, .required = true),
    FIELD(struct wire_job_run, max_tokens, FIELD_U64, .required = true),
    FIELD(struct wire_job_run, kv_tokens, FIELD_U64, .required = true),
    FIELD(struct wire_job_run, seed, FIELD_U64, .required = true),
    FIELD(struct wire_job_run, temperature, FIELD_DOUBLE, .required = true,
          .fmin = 0, .fmax = 2),
    FIELD(struct wire_job_run, top_p, FIELD_DOUBLE, .required = true, .fmin = 0,
          .fmax = 1),
    FIELD(struct wire_job_run, top_k, FIELD_U32, .required = true),
    FIELD_LIST(struct wire_job_run, stop, stop_count, FIELD_TEXT,
               .required = true),
};

static const struct field job_cancel_fields[] = {
    FIELD(struct wire_job_cancel, job, FIELD_TEXT, .required = true),
    FIELD(struct wire_job_cancel, attempt, FIELD_U32, .required = true),
    FIELD(struct wire_job_cancel, epoch, FIELD_U64, .required = true),
    FIELD(struct wire_job_cancel, reason, FIELD_TEXT, .required = true),
};

static const struct field job_started_fields[] = {
    FIELD(struct wire_job_started, job, FIELD_TEXT, .required = true),
    FIELD(struct wire_job_started, attempt, FIELD_U32, .required = true),
};

static const struct field job_tokens_fields[] = {
    FIELD(struct wire_job_tokens, job, FIELD_TEXT, .required = true),
    FIELD(struct wire_job_tokens, attempt, FIELD_U32, .required = true),
    FIELD(struct wire_job_tokens, choice, FIELD_U32, .required = true),
    FIELD(struct wire_job_tokens, first, FIELD_U64, .required = true),
    FIELD_LIST(struct wire_job_tokens, ids, id_count, FIELD_U32,
               .required = true),
};

static const struct field job_done_fields[] = {
    FIELD(struct wire_job_done, job, FIELD_TEXT, .required = true),
    FIELD(struct wire_job_done, attempt, FIELD_U32, .required = true),
    FIELD(struct wire_job_done, reason, FIELD_TEXT, .required = true, .min = 1),
    FIELD(struct wire_job_done, ids, FIELD_U64, .required = true),
    FIELD(struct wire_job_done, prefill_us, FIELD_U64, .required = true),
    FIELD(struct wire_job_done, decode_us, FIELD_U64, .required = true),
    FIELD(struct wire_job_done, passes, FIELD_U64, .required = true),
};

static const struct field job_fail_fields[] = {
    FIELD(struct wire_job_fail, job, FIELD_TEXT, .required = true),
    FIELD(struct wire_job_fail, attempt, FIELD_U32, .required = true),
    FIELD(struct wire_job_fail, code, FIELD_TEXT, .required = true, .min = 1),
    FIELD(struct wire_job_fail, text, FIELD_TEXT, .required = true),
    FIELD(struct wire_job_fail, ids, FIELD_U64, .required = true),
    FIELD(struct wire_job_fail, passes, FIELD_U64, .required = true),
    FIELD(struct wire_job_fail, passes_after_cancel, FIELD_U64,
          .required = true),
};

static const struct field engine_ready_fields[] = {
    FIELD(struct wire_engine_ready, backend, FIELD_TEXT, .required = true,
          .min = 1),
    FIELD(struct wire_engine_ready, version, FIELD_TEXT, .required = true),
    FIELD(struct wire_engine_ready, slots, FIELD_U32, .required = true,
          .min = 1),
    FIELD_LIST(struct wire_engine_ready, capabilities, capability_count,
               FIELD_TEXT, .required = true),
    FIELD(struct wire_engine_ready, context_max, FIELD_U64, .required = true),
    FIELD(struct wire_engine_ready, kv_bytes_per_token, FIELD_U64,
          .required = true),
    FIELD(struct wire_engine_ready, kv_bytes, FIELD_U64, .required = true),
    FIELD(struct wire_engine_ready, weight_bytes, FIELD_U64, .required = true),
};

static const struct field engine_broken_fields[] = {
    FIELD(struct wire_engine_broken, code, FIELD_TEXT, .required = true,
          .min = 1),
    FIELD(struct wire_engine_broken, text, FIELD_TEXT, .required = true),
};

/* A message: its name in "t", who sends it, its members. */
struct message {
    const char *name;
    const char *direction;
    const char *meaning;
    const struct field *fields;
    size_t field_count;
    size_t size;
};

#define MESSAGE(name_, direction_, fields_, struct_, meaning_)                 \
    {                                                                          \
        .name = (name_), .direction = (direction_), .meaning = (meaning_),     \
        .fields = (fields_), .field_count = COUNT_OF(fields_),                 \
        .size = sizeof(struct_)                                                \
    }

#define AGENT_UP "agent to coordinator"
#define AGENT_DOWN "coordinator to agent"
#define AGENT_BOTH "agent to coordinator and back"
#define BOTH_DOWN "coordinator to agent to engine"
#define BOTH_UP "engine to agent to coordinator"
#define ENGINE_UP "engine to agent"

static const struct message messages[WIRE_TYPE_COUNT] = {
    [WIRE_HELLO] =
        MESSAGE("hello", AGENT_UP, hello_fields, struct wire_hello,
                "First on every connection: what this machine is and offers."),
    [WIRE_BEAT] = MESSAGE("beat", AGENT_BOTH, beat_fields, struct wire_beat,
                          "Sign of life, each beat_s; answered by one."),
    [WIRE_STATE] = MESSAGE("state", AGENT_UP, state_fields, struct wire_state,
                           "The agent lends, pauses or drains, and why."),
    [WIRE_MODELS] =
        MESSAGE("models", AGENT_UP, models_fields, struct wire_models,
                "The model directories on disk, whole list, after a change."),
    [WIRE_RENEW] =
        MESSAGE("renew", AGENT_UP, renew_fields, struct wire_renew,
                "Asks for a new certificate at two thirds of its life."),
    [WIRE_WELCOME] =
        MESSAGE("welcome", AGENT_DOWN, welcome_fields, struct wire_welcome,
                "Answer to hello: the node may work."),
    [WIRE_REFUSE] =
        MESSAGE("refuse", AGENT_DOWN, refuse_fields, struct wire_refuse,
                "Answer to hello or the end of a link: text for the owner."),
    [WIRE_CATALOGUE] = MESSAGE(
        "catalogue", AGENT_DOWN, catalogue_fields, struct wire_catalogue,
        "Digests the network knows, after welcome and on change."),
    [WIRE_DRAIN] = MESSAGE("drain", AGENT_DOWN, drain_fields, struct wire_drain,
                           "Take no new work, or take work again."),
    [WIRE_RENEWED] = MESSAGE("renewed", AGENT_DOWN, renewed_fields,
                             struct wire_renewed, "The new certificate."),
    [WIRE_JOB_ACK] =
        MESSAGE("job.ack", AGENT_DOWN, job_ack_fields, struct wire_job_ack,
                "The end of an attempt is recorded; the agent may forget it."),
    [WIRE_JOB_INPUT] =
        MESSAGE("job.input", BOTH_DOWN, job_input_fields, struct wire_job_input,
                "A part of the ids a job.run needs, in order, before it."),
    [WIRE_JOB_RUN] = MESSAGE("job.run", BOTH_DOWN, job_run_fields,
                             struct wire_job_run, "Start an attempt."),
    [WIRE_JOB_CANCEL] = MESSAGE(
        "job.cancel", BOTH_DOWN, job_cancel_fields, struct wire_job_cancel,
        "Stop an attempt; answered by job.fail or job.done."),
    [WIRE_JOB_STARTED] = MESSAGE(
        "job.started", BOTH_UP, job_started_fields, struct wire_job_started,
        "The engine has begun; once, before the first pass."),
    [WIRE_JOB_TOKENS] = MESSAGE(
        "job.tokens", BOTH_UP, job_tokens_fields, struct wire_job_tokens,
        "New ids of a choice and the index of the first."),
    [WIRE_JOB_DONE] = MESSAGE("job.done", BOTH_UP, job_done_fields,
                              struct wire_job_done, "The attempt ended well."),
    [WIRE_JOB_FAIL] =
        MESSAGE("job.fail", BOTH_UP, job_fail_fields, struct wire_job_fail,
                "The attempt ended otherwise."),
    [WIRE_ENGINE_READY] =
        MESSAGE("engine.ready", ENGINE_UP, engine_ready_fields,
                struct wire_engine_ready,
                "The model is loaded; what this engine can hold."),
    [WIRE_ENGINE_BROKEN] =
        MESSAGE("engine.broken", ENGINE_UP, engine_broken_fields,
                struct wire_engine_broken,
                "The engine cannot go on and is about to exit."),
};

/* --- what a table of fields cannot say --- */

static bool
is_digest(const char *text)
{
    return strlen(text) == SHA256_HEX_BYTES - 1 &&
           strspn(text, "0123456789abcdef") == SHA256_HEX_BYTES - 1;
}

/* Members of these names hold the same thing everywhere. */
static bool
holds_uuid(const char *name)
{
    return strcmp(name, "job") == 0 || strcmp(name, "node") == 0;
}

static bool
holds_digest(const char *name)
{
    return strcmp(name, "digest") == 0;
}

enum { PATH_BYTES = 128 };

static enum status
check_text(const char *path, const char *name, const char *text,
           struct error *err)
{
    if (holds_uuid(name) && !uuid_is_valid(text))
        return error_set(err, STATUS_INVALID, "%s/%s: must be a UUID", path,
                         name);
    if (holds_digest(name) && !is_digest(text))
        return error_set(err, STATUS_INVALID,
                         "%s/%s: must be 64 lower-case hexadecimal digits",
                         path, name);
    return STATUS_OK;
}

static enum status check(const struct field *fields, size_t count,
                         const void *source, const char *path,
                         struct error *err);

/* The nested structs of a field, one or a list. */
static enum status
check_rows(const struct field *field, const char *base, const char *path,
           struct error *err)
{
    bool is_list = field->capacity > 0;
    size_t count =
        is_list ? *(const size_t *)(const void *)(base + field->count_at) : 1;
    enum status status = STATUS_OK;
    char deeper[PATH_BYTES];

    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        if (is_list)
            (void)snprintf(deeper, sizeof(deeper), "%s/%s/%zu", path,
                           field->name, i);
        else
            (void)snprintf(deeper, sizeof(deeper), "%s/%s", path, field->name);
        status = check(field->rows, field->row_count,
                       base + field->offset + i * field->size, deeper, err);
    }
    return status;
}

/* The rules above for every text of a struct, nested ones included; and the
 * end of JSON integers, 2^63 - 1, which the sender must keep to. */
static enum status
check(const struct field *fields, size_t count, const void *source,
      const char *path, struct error *err)
{
    const char *base = source;
    enum status status = STATUS_OK;

    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        const struct field *field = &fields[i];
        const void *item = base + field->offset;

        if (field->type == FIELD_OBJECT)
            status = check_rows(field, base, path, err);
        else if (field->capacity > 0)
            continue; /* lists of ids and of free texts */
        else if (field->type == FIELD_TEXT)
            status = check_text(path, field->name, item, err);
        else if (field->type == FIELD_U64 &&
                 *(const uint64_t *)item > INT64_MAX)
            status = error_set(err, STATUS_INVALID, "%s/%s: must be below 2^63",
                               path, field->name);
    }
    return status;
}

/* --- encoding --- */

const char *
wire_type_name(enum wire_type type)
{
    assert((unsigned)type < WIRE_TYPE_COUNT);
    return messages[type].name;
}

static void
append_head(struct buf *out, size_t size)
{
    const uint8_t head[WIRE_HEAD_BYTES] = {(uint8_t)(size >> 24),
                                           (uint8_t)(size >> 16),
                                           (uint8_t)(size >> 8), (uint8_t)size};

    buf_append(out, head, sizeof(head));
}

enum status
wire_encode(enum wire_type type, const void *body, struct buf *out,
            struct error *err)
{
    const struct message *message = &messages[type];
    size_t start = out->size;
    struct json_out json;
    struct buf text;
    enum status status;

    assert((unsigned)type < WIRE_TYPE_COUNT);
    buf_init(&text, WIRE_FRAME_MAX_BYTES);
    status = check(message->fields, message->field_count, body, "", err);
    if (status != STATUS_OK)
        goto out;
    json_out_init(&json, &text);
    json_open_object(&json);
    json_member_text(&json, "t", message->name);
    field_encode(&json, message->fields, message->field_count, body);
    json_close_object(&json);
    if (text.overflowed) {
        status = error_set(err, STATUS_TOO_LARGE, "%s: over %d bytes",
                           message->name, WIRE_FRAME_MAX_BYTES);
        goto out;
    }
    append_head(out, text.size);
    buf_append(out, text.data, text.size);
    status = buf_status(out, err);
    if (status != STATUS_OK)
        buf_truncate(out, start);

out:
    buf_clear(&text);
    return status;
}

/* --- decoding --- */

/* A frame is the message's members and "t", which the message's struct does
 * not have: it is decoded with this in front. */
struct envelope {
    char t[TYPE_BYTES];
    union {
        struct wire_message align;
        char bytes[1];
    } body;
};

static enum status
find_type(const struct json *root, enum wire_type *type, struct error *err)
{
    size_t size;
    const char *name = json_as_text(json_get(root, "t"), &size);

    if (name == NULL)
        return error_set(err, STATUS_INVALID, "/t: must be a text");
    for (int i = 0; i < WIRE_TYPE_COUNT; i++) {
        if (strlen(messages[i].name) == size &&
            memcmp(messages[i].name, name, size) == 0) {
            *type = (enum wire_type)i;
            return STATUS_OK;
        }
    }
    return error_set(err, STATUS_NOT_FOUND, "/t: unknown type %.*s",
                     (int)(size < TYPE_BYTES ? size : TYPE_BYTES), name);
}

/* The message's table, moved into the envelope. Returns the count. */
static size_t
envelope_fields(const struct message *message, struct field fields[FIELDS_MAX])
{
    const struct field t =
        FIELD(struct envelope, t, FIELD_TEXT, .required = true);
    size_t shift = offsetof(struct envelope, body);

    assert(message->field_count + 1 <= FIELDS_MAX);
    fields[0] = t;
    for (size_t i = 0; i < message->field_count; i++) {
        fields[i + 1] = message->fields[i];
        fields[i + 1].offset += shift;
        fields[i + 1].count_at += shift;
        fields[i + 1].has_at += shift;
    }
    return message->field_count + 1;
}

/* The members of @root into @body, which has the size of the type's struct. */
static enum status
decode_body(const struct json *root, const struct message *message, void *body,
            struct error *err)
{
    size_t shift = offsetof(struct envelope, body);
    size_t size = shift + message->size;
    char *envelope = mem_alloc(size);
    struct field fields[FIELDS_MAX];
    size_t count = envelope_fields(message, fields);
    enum status status = field_decode(root, fields, count, envelope, size, err);

    if (status == STATUS_OK)
        status = check(message->fields, message->field_count, envelope + shift,
                       "", err);
    if (status == STATUS_OK)
        memcpy(body, envelope + shift, message->size);
    free(envelope);
    return status;
}

enum status
wire_decode(const char *text, size_t size, struct wire_message *message,
            struct error *err)
{
    struct json_doc doc = {NULL};
    struct error reason;
    enum wire_type type = WIRE_TYPE_COUNT;
    enum status status;

    if (size > WIRE_FRAME_MAX_BYTES)
        return error_set(err, STATUS_TOO_LARGE, "/: over %d bytes",
                         WIRE_FRAME_MAX_BYTES);
    if (json_doc_parse(text, size, &doc, &reason) != STATUS_OK)
        return error_set(err, STATUS_INVALID, "/: no JSON object: %s",
                         reason.text);
    status = find_type(doc.root, &type, err);
    if (status == STATUS_OK)
        status = decode_body(doc.root, &messages[type], &message->hello, err);
    if (status == STATUS_OK)
        message->type = type;
    json_doc_clear(&doc);
    return status;
}

size_t
wire_head_size(const uint8_t head[static WIRE_HEAD_BYTES])
{
    return (size_t)head[0] << 24 | (size_t)head[1] << 16 |
           (size_t)head[2] << 8 | head[3];
}

/* --- the table as text --- */

static void print_fields(const struct field *fields, size_t count,
                         struct buf *out);

/* A text's size in bytes, unless its name says more. */
static void
print_text(const struct field *field, struct buf *out)
{
    if (holds_uuid(field->name))
        buf_append_text(out, "uuid");
    else if (holds_digest(field->name))
        buf_append_text(out, "sha256 in hex");
    else
        buf_printf(out, "text %" PRIu64 "..%zu", field->min,
                   field->max > 0 ? (size_t)field->max : field->size - 1);
}

/* "text 1..127", "u32 list up to 16", "{...} or null". */
static void
print_field(const struct field *field, struct buf *out)
{
    buf_printf(out, "%s: ", field->name);
    switch (field->type) {
    case FIELD_TEXT:
        print_text(field, out);
        break;
    case FIELD_U64:
        buf_append_text(out, "u63");
        break;
    case FIELD_I64:
        buf_append_text(out, "i64");
        break;
    case FIELD_U32:
        buf_append_text(out, "u32");
        break;
    case FIELD_BOOL:
        buf_append_text(out, "bool");
        break;
    case FIELD_DOUBLE:
        buf_append_text(out, "number");
        if (field->fmin < field->fmax)
            buf_printf(out, " %g..%g", field->fmin, field->fmax);
        break;
    case FIELD_OBJECT:
        buf_append_char(out, '{');
        print_fields(field->rows, field->row_count, out);
        buf_append_char(out, '}');
        break;
    case FIELD_TREE:
        buf_append_text(out, "any");
        break;
    }
    if (field->capacity > 0)
        buf_printf(out, " list up to %zu", field->capacity);
    if (field->nullable)
        buf_append_text(out, " or null");
}

static void
print_fields(const struct field *fields, size_t count, struct buf *out)
{
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buf_append_text(out, ", ");
        print_field(&fields[i], out);
    }
}

void
wire_print(struct buf *out)
{
    buf_append_text(out, "| t | direction | meaning | members |\n"
                         "|---|---|---|---|\n");
    for (size_t i = 0; i < WIRE_TYPE_COUNT; i++) {
        buf_printf(out, "| `%s` | %s | %s | ", messages[i].name,
                   messages[i].direction, messages[i].meaning);
        print_fields(messages[i].fields, messages[i].field_count, out);
        buf_append_text(out, " |\n");
    }
}
