/* wire_table.c - the messages of the link, member by member. */
#include "common/wire_table.h"

#include "common/banned.h"

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

static const struct field held_fields[] = {
    FIELD(struct wire_held, job, FIELD_TEXT, .required = true),
    FIELD(struct wire_held, attempt, FIELD_U32, .required = true),
    FIELD(struct wire_held, ended, FIELD_BOOL, .required = true),
    FIELD(struct wire_held, done, FIELD_U64, .required = true),
    FIELD(struct wire_held, ids, FIELD_U64, .required = true),
};

static const struct field job_held_fields[] = {
    FIELD(struct wire_job_held, more, FIELD_BOOL, .required = true),
    FIELD_ROWS(struct wire_job_held, attempts, attempt_count, held_fields,
               .required = true),
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

static const struct field job_resume_fields[] = {
    FIELD(struct wire_job_resume, job, FIELD_TEXT, .required = true),
    FIELD(struct wire_job_resume, attempt, FIELD_U32, .required = true),
    FIELD(struct wire_job_resume, epoch, FIELD_U64, .required = true),
    FIELD(struct wire_job_resume, from, FIELD_U64, .required = true),
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
    SAMPLING_FIELDS(offsetof(struct wire_job_run, sampling)),
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

static const struct field engine_beat_fields[] = {
    FIELD(struct wire_engine_beat, passes, FIELD_U64, .required = true),
};

/* A message: its name in "t", who sends it, its members. */

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

const struct message wire_messages[WIRE_TYPE_COUNT] = {
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
    [WIRE_JOB_HELD] = MESSAGE(
        "job.held", AGENT_UP, job_held_fields, struct wire_job_held,
        "After each welcome: the attempts that run or wait for a job.ack."),
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
    [WIRE_JOB_RESUME] = MESSAGE(
        "job.resume", AGENT_DOWN, job_resume_fields, struct wire_job_resume,
        "A held attempt counts: send its ids from an index on, and go on."),
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
    [WIRE_ENGINE_BEAT] = MESSAGE(
        "engine.beat", ENGINE_UP, engine_beat_fields, struct wire_engine_beat,
        "Sign of progress, about once a second while there are jobs."),
};
