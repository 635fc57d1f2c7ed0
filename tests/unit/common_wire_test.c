/* common_wire_test.c - every message there and back; the document against the
 * table. */
#include "common/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/json.h"
#include "common/mem.h"
#include "common/prng.h"

#include "common/banned.h"

static const char job[] = "0190b3c4-7a6b-7cde-8f01-23456789abcd";
static const char digest[] =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

/* Texts of every size and some bytes that JSON escapes. */
static void
fill_text(struct prng *prng, char *text, size_t capacity)
{
    static const char *const pieces[] = {
        "a", "Z", "\"", "\\", "\n", "\xc3\xa9", "\xf0\x9f\x98\x80"};
    size_t wanted = 1 + prng_below(prng, capacity - 1), size = 0;

    for (;;) {
        const char *piece = pieces[prng_below(prng, COUNT_OF(pieces))];

        if (size > 0 && size + strlen(piece) > wanted)
            break;
        if (size == 0)
            piece = "a";
        memcpy(text + size, piece, strlen(piece));
        size += strlen(piece);
    }
}

#define TEXT(member) fill_text(prng, member, sizeof(member))

static uint64_t
number(struct prng *prng)
{
    return prng_next(prng) >> (1 + prng_below(prng, 63));
}

static uint32_t
small(struct prng *prng)
{
    return (uint32_t)(1 + prng_below(prng, UINT32_MAX - 1));
}

static bool
coin(struct prng *prng)
{
    return prng_below(prng, 2) == 1;
}

static void
fill_facts(struct prng *prng, struct wire_facts *facts)
{
    TEXT(facts->os);
    TEXT(facts->chip);
    TEXT(facts->limit_source);
    facts->bandwidth_measured = coin(prng);
    if ((facts->has_model_identifier = coin(prng)))
        TEXT(facts->model_identifier);
    if ((facts->has_macos_version = coin(prng)))
        TEXT(facts->macos_version);
    if ((facts->has_macos_build = coin(prng)))
        TEXT(facts->macos_build);
    if ((facts->has_cores = coin(prng)))
        facts->cores = number(prng);
    if ((facts->has_gpu_cores = coin(prng)))
        facts->gpu_cores = number(prng);
    if ((facts->has_memory_bytes = coin(prng)))
        facts->memory_bytes = number(prng);
    if ((facts->has_limit_bytes = coin(prng)))
        facts->limit_bytes = number(prng);
    if ((facts->has_bandwidth_gb_s = coin(prng)))
        facts->bandwidth_gb_s = prng_unit(prng) * 800;
    if ((facts->has_prefill_tflop_s = coin(prng)))
        facts->prefill_tflop_s = prng_unit(prng);
    if ((facts->has_read_gb_s = coin(prng)))
        facts->read_gb_s = prng_unit(prng) * 1e9;
}

static void
fill_models(struct prng *prng, struct wire_model *models, size_t *count)
{
    *count = prng_below(prng, WIRE_MODELS_MAX + 1);
    for (size_t i = 0; i < *count; i++) {
        memcpy(models[i].digest, digest, sizeof(digest));
        models[i].bytes = number(prng);
        models[i].loaded = coin(prng);
        models[i].kv_bytes = number(prng);
    }
}

static void
fill_reasons(struct prng *prng, struct wire_reason *reasons, size_t *count)
{
    *count = prng_below(prng, WIRE_REASONS_MAX + 1);
    for (size_t i = 0; i < *count; i++) {
        TEXT(reasons[i].code);
        TEXT(reasons[i].text);
        TEXT(reasons[i].step);
    }
}

static void
fill_ids(struct prng *prng, uint32_t *ids, size_t *count)
{
    *count = prng_below(prng, WIRE_IDS_MAX + 1);
    for (size_t i = 0; i < *count; i++)
        ids[i] = small(prng);
}

static void
fill_hello(struct prng *prng, struct wire_hello *hello)
{
    hello->version = WIRE_VERSION;
    memcpy(hello->node, job, sizeof(job));
    TEXT(hello->agent);
    hello->epoch = number(prng);
    hello->simulated = coin(prng);
    TEXT(hello->state);
    fill_facts(prng, &hello->facts);
    TEXT(hello->engine.backend);
    TEXT(hello->engine.version);
    hello->engine.slots = small(prng);
    hello->engine.capability_count =
        prng_below(prng, WIRE_CAPABILITIES_MAX + 1);
    for (size_t i = 0; i < hello->engine.capability_count; i++)
        TEXT(hello->engine.capabilities[i]);
    fill_models(prng, hello->models, &hello->model_count);
    fill_reasons(prng, hello->reasons, &hello->reason_count);
}

static void
fill_run(struct prng *prng, struct wire_job_run *run)
{
    memcpy(run->job, job, sizeof(job));
    memcpy(run->digest, digest, sizeof(digest));
    run->attempt = small(prng);
    run->epoch = number(prng);
    TEXT(run->model);
    run->prompt_count = number(prng);
    run->done_count = number(prng);
    run->max_tokens = number(prng);
    run->kv_tokens = number(prng);
    run->sampling.seed = number(prng);
    run->sampling.temperature = prng_unit(prng) * 2;
    run->sampling.top_p = prng_unit(prng);
    run->sampling.top_k = small(prng);
    run->stop_count = prng_below(prng, WIRE_STOPS_MAX + 1);
    for (size_t i = 0; i < run->stop_count; i++)
        TEXT(run->stop[i]);
}

static void
fill_ready(struct prng *prng, struct wire_engine_ready *ready)
{
    TEXT(ready->backend);
    TEXT(ready->version);
    ready->slots = small(prng);
    ready->capability_count = prng_below(prng, WIRE_CAPABILITIES_MAX + 1);
    for (size_t i = 0; i < ready->capability_count; i++)
        TEXT(ready->capabilities[i]);
    ready->context_max = number(prng);
    ready->kv_bytes_per_token = number(prng);
    ready->kv_bytes = number(prng);
    ready->weight_bytes = number(prng);
}

static void
fill_catalogue(struct prng *prng, struct wire_catalogue *catalogue)
{
    catalogue->more = coin(prng);
    catalogue->entry_count = prng_below(prng, WIRE_MODELS_MAX + 1);
    for (size_t i = 0; i < catalogue->entry_count; i++) {
        TEXT(catalogue->entries[i].id);
        memcpy(catalogue->entries[i].digest, digest, sizeof(digest));
    }
}

static void
fill_held(struct prng *prng, struct wire_job_held *held)
{
    held->more = coin(prng);
    held->attempt_count = prng_below(prng, WIRE_HELD_MAX + 1);
    for (size_t i = 0; i < held->attempt_count; i++) {
        memcpy(held->attempts[i].job, job, sizeof(job));
        held->attempts[i].attempt = small(prng);
        held->attempts[i].ended = coin(prng);
        held->attempts[i].done = number(prng);
        held->attempts[i].ids = number(prng);
    }
}

/* Messages that are not about one job. */
static size_t
fill_node_message(struct prng *prng, struct wire_message *m)
{
    switch (m->type) {
    case WIRE_HELLO:
        fill_hello(prng, &m->hello);
        return sizeof(m->hello);
    case WIRE_BEAT:
        if ((m->beat.has_free_bytes = coin(prng)))
            m->beat.free_bytes = number(prng);
        return sizeof(m->beat);
    case WIRE_STATE:
        TEXT(m->state.state);
        fill_reasons(prng, m->state.reasons, &m->state.reason_count);
        return sizeof(m->state);
    case WIRE_MODELS:
        fill_models(prng, m->models.models, &m->models.model_count);
        return sizeof(m->models);
    case WIRE_RENEW:
        TEXT(m->renew.request);
        return sizeof(m->renew);
    case WIRE_JOB_HELD:
        fill_held(prng, &m->job_held);
        return sizeof(m->job_held);
    case WIRE_ENGINE_BEAT:
        m->engine_beat.passes = number(prng);
        return sizeof(m->engine_beat);
    case WIRE_WELCOME:
        m->welcome.version = small(prng);
        m->welcome.epoch = number(prng);
        TEXT(m->welcome.name);
        m->welcome.beat_s = small(prng);
        m->welcome.dev = coin(prng);
        return sizeof(m->welcome);
    case WIRE_REFUSE:
        TEXT(m->refuse.code);
        TEXT(m->refuse.text);
        return sizeof(m->refuse);
    case WIRE_CATALOGUE:
        fill_catalogue(prng, &m->catalogue);
        return sizeof(m->catalogue);
    case WIRE_DRAIN:
        m->drain.epoch = number(prng);
        m->drain.on = coin(prng);
        return sizeof(m->drain);
    case WIRE_RENEWED:
        TEXT(m->renewed.certificate);
        return sizeof(m->renewed);
    case WIRE_ENGINE_READY:
        fill_ready(prng, &m->engine_ready);
        return sizeof(m->engine_ready);
    case WIRE_ENGINE_BROKEN:
        TEXT(m->engine_broken.code);
        TEXT(m->engine_broken.text);
        return sizeof(m->engine_broken);
    default: /* those below */
        return 0;
    }
}

/* Messages about a job: its id and attempt come first in each struct. */
static size_t
fill_job_message(struct prng *prng, struct wire_message *m)
{
    memcpy(m->job_ack.job, job, sizeof(job));
    m->job_ack.attempt = small(prng);
    switch (m->type) {
    case WIRE_JOB_ACK:
        return sizeof(m->job_ack);
    case WIRE_JOB_RESUME:
        m->job_resume.epoch = number(prng);
        m->job_resume.from = number(prng);
        return sizeof(m->job_resume);
    case WIRE_JOB_INPUT:
        m->job_input.epoch = number(prng);
        m->job_input.done = coin(prng);
        m->job_input.choice = small(prng);
        fill_ids(prng, m->job_input.ids, &m->job_input.id_count);
        return sizeof(m->job_input);
    case WIRE_JOB_RUN:
        fill_run(prng, &m->job_run);
        return sizeof(m->job_run);
    case WIRE_JOB_CANCEL:
        m->job_cancel.epoch = number(prng);
        TEXT(m->job_cancel.reason);
        return sizeof(m->job_cancel);
    case WIRE_JOB_STARTED:
        return sizeof(m->job_started);
    case WIRE_JOB_TOKENS:
        m->job_tokens.choice = small(prng);
        m->job_tokens.first = number(prng);
        fill_ids(prng, m->job_tokens.ids, &m->job_tokens.id_count);
        return sizeof(m->job_tokens);
    case WIRE_JOB_DONE:
        TEXT(m->job_done.reason);
        m->job_done.ids = number(prng);
        m->job_done.prefill_us = number(prng);
        m->job_done.decode_us = number(prng);
        m->job_done.passes = number(prng);
        return sizeof(m->job_done);
    case WIRE_JOB_FAIL:
        TEXT(m->job_fail.code);
        TEXT(m->job_fail.text);
        m->job_fail.ids = number(prng);
        m->job_fail.passes = number(prng);
        m->job_fail.passes_after_cancel = number(prng);
        return sizeof(m->job_fail);
    default:
        return 0;
    }
}

static size_t
fill(struct prng *prng, struct wire_message *m)
{
    size_t size = fill_node_message(prng, m);

    return size > 0 ? size : fill_job_message(prng, m);
}

static void
every_message_comes_back_equal(void **state)
{
    struct wire_message *sent = mem_alloc(sizeof(*sent));
    struct wire_message *got = mem_alloc(sizeof(*got));
    struct error err = {.text = ""};
    struct prng prng;
    struct buf out;

    (void)state;
    prng_seed(&prng, 20261130);
    buf_init(&out, 2 * WIRE_FRAME_MAX_BYTES);
    for (int round = 0; round < 400; round++) {
        size_t size;

        memset(sent, 0, sizeof(*sent));
        memset(got, 0, sizeof(*got));
        sent->type = (enum wire_type)(round % WIRE_TYPE_COUNT);
        size = fill(&prng, sent);
        assert_true(size > 0);
        buf_reset(&out);
        assert_int_equal(wire_encode(sent->type, &sent->hello, &out, &err),
                         STATUS_OK);
        assert_int_equal(wire_head_size((const uint8_t *)out.data),
                         out.size - WIRE_HEAD_BYTES);
        if (wire_decode(out.data + WIRE_HEAD_BYTES, out.size - WIRE_HEAD_BYTES,
                        got, &err) != STATUS_OK)
            fail_msg("%s: %s", wire_type_name(sent->type), err.text);
        assert_int_equal(got->type, sent->type);
        assert_memory_equal(&got->hello, &sent->hello, size);
    }
    buf_clear(&out);
    free(sent);
    free(got);
}

static void
a_frame_is_a_big_endian_size_and_json(void **state)
{
    static const char json[] =
        "{\"t\":\"job.ack\",\"job\":\"0190b3c4-7a6b-7cde-8f01-23456789abcd\","
        "\"attempt\":2}";
    struct wire_job_ack ack = {.attempt = 2};
    static const uint8_t head[] = {1, 2, 3, 4};
    struct error err;
    struct buf out;

    (void)state;
    memcpy(ack.job, job, sizeof(job));
    buf_init(&out, 1000);
    assert_int_equal(wire_encode(WIRE_JOB_ACK, &ack, &out, &err), STATUS_OK);
    assert_memory_equal(out.data, "\0\0\0\x48", 4);
    assert_int_equal(strlen(json), 0x48);
    assert_string_equal(out.data + 4, json);
    buf_clear(&out);
    assert_int_equal(wire_head_size(head), 0x01020304);
}

static enum status
decode(const char *text, struct wire_message *message, struct error *err)
{
    return wire_decode(text, strlen(text), message, err);
}

static void
bad_frames_are_refused_with_their_place(void **state)
{
    static const struct {
        const char *json, *text;
    } cases[] = {
        {"[]", "/t: must be a text"},
        {"{\"t\":7}", "/t: must be a text"},
        {"{", "/: no JSON object: line 1 column 1: string or '}' expected"},
        {"{\"t\":\"drain\",\"epoch\":1}", "/on: is missing"},
        {"{\"t\":\"drain\",\"epoch\":1,\"on\":true,\"x\":1}",
         "/x: unknown member: leave it out"},
        {"{\"t\":\"job.ack\",\"job\":\"me\",\"attempt\":1}",
         "/job: must be a UUID"},
        {"{\"t\":\"models\",\"models\":[{\"digest\":\"00\",\"bytes\":1,"
         "\"loaded\":false,\"kv_bytes\":0}]}",
         "/models/0/digest: must be 64 lower-case hexadecimal digits"},
    };
    struct wire_message *message = mem_alloc(sizeof(*message));
    struct error err;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(decode(cases[i].json, message, &err), STATUS_INVALID);
        assert_string_equal(err.text, cases[i].text);
    }
    assert_int_equal(decode("{\"t\":\"jobs\",\"any\":1}", message, &err),
                     STATUS_NOT_FOUND);
    free(message);
}

static void
sampling_options_are_bounded(void **state)
{
    struct wire_message *message = mem_alloc(sizeof(*message));
    struct error err;
    struct prng prng;
    struct buf out;

    (void)state;
    prng_seed(&prng, 3);
    buf_init(&out, WIRE_FRAME_MAX_BYTES + 4);
    fill_run(&prng, &message->job_run);
    message->job_run.sampling.temperature = 2.5;
    assert_int_equal(wire_encode(WIRE_JOB_RUN, &message->job_run, &out, &err),
                     STATUS_OK);
    assert_int_equal(wire_decode(out.data + 4, out.size - 4, message, &err),
                     STATUS_INVALID);
    assert_string_equal(err.text, "/temperature: must be a number from 0 to 2");
    /* JSON integers end at 2^63 - 1: the sender is told, not the peer. */
    message->job_run.sampling.seed = UINT64_MAX;
    buf_reset(&out);
    assert_int_equal(wire_encode(WIRE_JOB_RUN, &message->job_run, &out, &err),
                     STATUS_INVALID);
    assert_string_equal(err.text, "/seed: must be below 2^63");
    assert_int_equal(out.size, 0);
    buf_clear(&out);
    free(message);
}

/* No struct of ours can fill a frame of 256 KiB, hence the output's maximum. */
static void
an_output_that_is_full_is_left_as_it_was(void **state)
{
    struct wire_drain drain = {.epoch = 1};
    struct error err;
    struct buf out;

    (void)state;
    buf_init(&out, 60);
    assert_int_equal(wire_encode(WIRE_DRAIN, &drain, &out, &err), STATUS_OK);
    assert_int_equal(out.size, 4 + 34);
    assert_int_equal(wire_encode(WIRE_DRAIN, &drain, &out, &err),
                     STATUS_TOO_LARGE);
    assert_int_equal(out.size, 4 + 34);
    buf_clear(&out);
}

static void
a_frame_over_256_kib_is_refused(void **state)
{
    char *text = mem_alloc(WIRE_FRAME_MAX_BYTES + 1);
    struct wire_message *message = mem_alloc(sizeof(*message));
    struct error err;

    (void)state;
    memset(text, ' ', WIRE_FRAME_MAX_BYTES + 1);
    assert_int_equal(wire_decode(text, WIRE_FRAME_MAX_BYTES + 1, message, &err),
                     STATUS_TOO_LARGE);
    free(text);
    free(message);
}

static void
the_document_holds_the_table(void **state)
{
    static const char start[] = "<!-- wire table -->\n";
    static const char end[] = "<!-- end of wire table -->";
    struct buf document, table;
    struct error err;
    const char *from;

    (void)state;
    buf_init(&document, 1 << 20);
    buf_init(&table, 1 << 20);
    wire_print(&table);
    assert_int_equal(buf_read_file(&document, "docs/link-protocol.md", &err),
                     STATUS_OK);
    from = strstr(document.data, start);
    assert_non_null(from);
    from += strlen(start);
    if (strncmp(from, table.data, table.size) != 0)
        fail_msg("docs/link-protocol.md must hold:\n%s", table.data);
    assert_memory_equal(from + table.size, end, strlen(end));
    buf_clear(&document);
    buf_clear(&table);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_comes_back_equal),
        cmocka_unit_test(a_frame_is_a_big_endian_size_and_json),
        cmocka_unit_test(bad_frames_are_refused_with_their_place),
        cmocka_unit_test(sampling_options_are_bounded),
        cmocka_unit_test(an_output_that_is_full_is_left_as_it_was),
        cmocka_unit_test(a_frame_over_256_kib_is_refused),
        cmocka_unit_test(the_document_holds_the_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
