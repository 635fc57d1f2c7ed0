/* inference_engine_test.c - the engine against the reference values of the
 * test model (made by another implementation), and its promises: budget,
 * order, resuming, stopping, independence of company. */
#include "inference/engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/json.h"
#include "common/mem.h"
#include "model/detokenizer.h"
#include "model/template.h"

#include "common/banned.h"

enum { IDS_MAX = 512, REFERENCE_MAX_BYTES = 8 * 1024 * 1024 };

static const struct {
    const char *path, *key;
} models[] = {
    {"tests/models/tiny-chat", "bf16"},
    {"tests/models/tiny-chat-8bit", "mlx-8bit"},
    {"tests/models/tiny-chat-4bit", "mlx-4bit"},
};

/* What a sequence did; also its tag. */
struct seen {
    uint32_t ids[IDS_MAX];
    size_t count;
    bool started, finished;
    enum output_finish finish;
    struct sequence_counts counts;
    const struct engine *engine;
};

static void
on_start(void *arg, void *tag)
{
    struct seen *seen = tag;

    (void)arg;
    seen->started = true;
    if (seen->engine != NULL)
        assert_true(engine_kv_reserved_bytes(seen->engine) <=
                    engine_kv_bytes(seen->engine));
}

static void
on_id(void *arg, void *tag, uint32_t id)
{
    struct seen *seen = tag;

    (void)arg;
    assert_true(seen->started);
    assert_true(seen->count < IDS_MAX);
    seen->ids[seen->count++] = id;
}

static void
on_finish(void *arg, void *tag, enum output_finish finish,
          const struct sequence_counts *counts)
{
    struct seen *seen = tag;

    (void)arg;
    seen->finished = true;
    seen->finish = finish;
    seen->counts = *counts;
}

static const struct engine_events events = {
    .on_id = on_id, .on_start = on_start, .on_finish = on_finish};

static struct engine *
open_engine(const char *path, size_t threads, uint32_t slots, uint64_t kv_bytes)
{
    struct engine_options options = {
        .threads = threads, .slots = slots, .kv_bytes = kv_bytes};
    struct engine *engine = NULL;
    struct error err;

    if (engine_open(path, &options, &engine, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return engine;
}

static void
run_all(struct engine *engine)
{
    while (engine_is_busy(engine))
        engine_step(engine, &events);
}

static struct json_doc
read_reference(void)
{
    struct json_doc doc = {0};
    struct buf buf;

    buf_init(&buf, REFERENCE_MAX_BYTES);
    assert_int_equal(buf_read_file(&buf, "tests/models/reference.json", NULL),
                     STATUS_OK);
    assert_int_equal(json_doc_parse(buf.data, buf.size, &doc, NULL), STATUS_OK);
    buf_clear(&buf);
    return doc;
}

static size_t
read_ids(const struct json *list, uint32_t ids[static IDS_MAX])
{
    size_t count = json_count(list);

    assert_true(count <= IDS_MAX);
    for (size_t i = 0; i < count; i++) {
        int64_t id;

        assert_int_equal(json_as_i64(json_at(list, i), &id), STATUS_OK);
        ids[i] = (uint32_t)id;
    }
    return count;
}

static struct engine_request
request_for(const uint32_t *prompt, size_t count, uint64_t max_tokens)
{
    return (struct engine_request){.prompt = prompt,
                                   .prompt_count = count,
                                   .max_tokens = max_tokens,
                                   .kv_tokens = count + max_tokens,
                                   .sampling = {.top_p = 1}};
}

/* The prompt called @name of the reference. */
static size_t
reference_prompt(const char *name, uint32_t ids[static IDS_MAX])
{
    struct json_doc doc = read_reference();
    const struct json *prompts = json_get(doc.root, "prompts");
    size_t count = 0;

    for (size_t i = 0; i < json_count(prompts); i++) {
        const struct json *prompt = json_at(prompts, i);

        if (strcmp(json_as_text(json_get(prompt, "name"), NULL), name) == 0)
            count = read_ids(json_get(prompt, "prompt_ids"), ids);
    }
    json_doc_clear(&doc);
    assert_true(count > 0);
    return count;
}

static void
check_top20(struct engine *engine, const uint32_t *ids, size_t count,
            const struct json *top)
{
    size_t vocab = engine_config(engine)->vocab;
    float *logits = mem_array(vocab, sizeof(*logits));

    assert_int_equal(engine_logits(engine, ids, count, logits, NULL),
                     STATUS_OK);
    assert_int_equal(json_count(top), 20);
    for (size_t i = 0; i < 20; i++) {
        int64_t id;
        double expected;

        assert_int_equal(json_as_i64(json_at(json_at(top, i), 0), &id),
                         STATUS_OK);
        assert_int_equal(json_as_double(json_at(json_at(top, i), 1), &expected),
                         STATUS_OK);
        if (fabs((double)logits[id] - expected) > 1e-3 * fabs(expected))
            fail_msg("id %d: %g, expected %g", (int)id, (double)logits[id],
                     expected);
    }
    free(logits);
}

static void
check_continuation(struct engine *engine, const uint32_t *prompt, size_t count,
                   const struct json *expected)
{
    uint32_t ids[IDS_MAX];
    size_t expected_count = read_ids(expected, ids);
    struct engine_request request = request_for(prompt, count, 500);
    struct sequence *sequence;
    struct seen seen = {0};

    assert_int_equal(engine_add(engine, &request, &seen, &sequence, NULL),
                     STATUS_OK);
    run_all(engine);
    assert_true(seen.finished);
    assert_int_equal(seen.count, expected_count);
    assert_memory_equal(seen.ids, ids, expected_count * sizeof(ids[0]));
    assert_int_equal(seen.finish, OUTPUT_STOP);
    assert_int_equal(seen.counts.ids, seen.count);
}

static void
logits_and_greedy_ids_equal_the_reference(void **state)
{
    struct json_doc doc = read_reference();
    const struct json *prompts = json_get(doc.root, "prompts");

    (void)state;
    assert_int_equal(json_count(prompts), 12);
    for (size_t m = 0; m < COUNT_OF(models); m++) {
        struct engine *engine = open_engine(models[m].path, 2, 1, 0);

        for (size_t i = 0; i < json_count(prompts); i++) {
            const struct json *prompt = json_at(prompts, i);
            const struct json *values = json_get(prompt, models[m].key);
            uint32_t ids[IDS_MAX];
            size_t count = read_ids(json_get(prompt, "prompt_ids"), ids);

            check_top20(engine, ids, count, json_get(values, "top20"));
            check_continuation(engine, ids, count,
                               json_get(values, "continuation_ids"));
        }
        engine_close(engine);
    }
    json_doc_clear(&doc);
}

/* A copy of a model directory in which one tensor is zero; "" on failure. */
static void
copy_with_zeroed(const char *from, const char *tensor, char *folder)
{
    static const char *const names[] = {"config.json", "generation_config.json",
                                        "tokenizer.json",
                                        "tokenizer_config.json"};
    struct model_directory dir;
    const struct tensor_info *info;
    size_t shard;
    struct buf buf;
    char path[256];

    assert_non_null(mkdtemp(folder));
    buf_init(&buf, 64 * (size_t)MIB);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        buf_reset(&buf);
        snprintf(path, sizeof(path), "%s/%s", from, names[i]);
        assert_int_equal(buf_read_file(&buf, path, NULL), STATUS_OK);
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        assert_int_equal(file_write_whole(path, buf.data, buf.size, 0600, NULL),
                         STATUS_OK);
    }
    buf_reset(&buf);
    snprintf(path, sizeof(path), "%s/model.safetensors", from);
    assert_int_equal(buf_read_file(&buf, path, NULL), STATUS_OK);
    assert_int_equal(model_directory_open(from, &dir, NULL), STATUS_OK);
    info = model_directory_find(&dir, tensor, &shard);
    assert_non_null(info);
    memset(buf.data + info->offset, 0, info->bytes);
    snprintf(path, sizeof(path), "%s/model.safetensors", folder);
    assert_int_equal(file_write_whole(path, buf.data, buf.size, 0600, NULL),
                     STATUS_OK);
    model_directory_close(&dir);
    buf_clear(&buf);
}

static void
remove_copy(const char *folder)
{
    static const char *const names[] = {
        "config.json", "generation_config.json", "tokenizer.json",
        "tokenizer_config.json", "model.safetensors"};
    char path[256];

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        assert_int_equal(remove(path), 0);
    }
    assert_int_equal(remove(folder), 0);
}

static void
run_one(struct engine *engine, const struct engine_request *request,
        struct seen *seen)
{
    struct sequence *sequence;
    struct error err;

    *seen = (struct seen){0};
    if (engine_add(engine, request, seen, &sequence, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    run_all(engine);
}

static void
a_zeroed_matrix_gives_wrong_answers(void **state)
{
    char folder[] = "/tmp/berth-engine-test-XXXXXX";
    struct json_doc doc = read_reference();
    const struct json *prompts = json_get(doc.root, "prompts");
    struct engine *engine;
    size_t wrong = 0;

    (void)state;
    copy_with_zeroed("tests/models/tiny-chat",
                     "model.layers.0.mlp.down_proj.weight", folder);
    engine = open_engine(folder, 1, 1, 0);
    for (size_t i = 0; i < json_count(prompts); i++) {
        const struct json *prompt = json_at(prompts, i);
        uint32_t ids[IDS_MAX], expected[IDS_MAX];
        size_t count = read_ids(json_get(prompt, "prompt_ids"), ids);
        size_t expected_count = read_ids(
            json_get(json_get(prompt, "bf16"), "continuation_ids"), expected);
        struct engine_request request = request_for(ids, count, 500);
        struct seen seen;

        run_one(engine, &request, &seen);
        if (seen.count != expected_count ||
            memcmp(seen.ids, expected, expected_count * sizeof(ids[0])) != 0)
            wrong++;
    }
    assert_in_range(wrong, 6, 12);
    engine_close(engine);
    remove_copy(folder);
    json_doc_clear(&doc);
}

/* --- all 200 questions, 8 at a time --- */

/* A checked build of all threads' accesses takes many times as long; there the
 * questions are for its checks, not for the answers. */
#if defined(__SANITIZE_THREAD__)
enum { QUESTIONS = 16 };
#else
enum { QUESTIONS = 200 };
#endif

struct question {
    struct seen seen;
    char *answer;
};

static void
question_ids(const struct engine *engine, const struct template *template,
             char *system, char *text, struct token_ids *ids)
{
    struct buf variables, rendered;
    struct json_out out;
    struct json_doc doc = {0};
    struct error err;

    buf_init(&variables, MIB);
    buf_init(&rendered, MIB);
    json_out_init(&out, &variables);
    json_open_object(&out);
    json_member_bool(&out, "add_generation_prompt", true);
    json_key(&out, "messages");
    json_open_list(&out);
    if (system[0] != '\0') {
        json_open_object(&out);
        json_member_text(&out, "role", "system");
        json_member_text(&out, "content", system);
        json_close_object(&out);
    }
    json_open_object(&out);
    json_member_text(&out, "role", "user");
    json_member_text(&out, "content", text);
    json_close_object(&out);
    json_close_list(&out);
    json_close_object(&out);
    assert_int_equal(json_doc_parse(variables.data, variables.size, &doc, &err),
                     STATUS_OK);
    assert_int_equal(template_render(template, doc.root, &rendered, &err),
                     STATUS_OK);
    assert_int_equal(tokenizer_encode(engine_tokenizer(engine), rendered.data,
                                      rendered.size, true, ids, &err),
                     STATUS_OK);
    json_doc_clear(&doc);
    buf_clear(&rendered);
    buf_clear(&variables);
}

/* "\n" in a field stands for a line feed. */
static void
unescape(char *field)
{
    char *to = field;

    for (const char *from = field; *from != '\0'; from++) {
        bool escaped = from[0] == '\\' && from[1] == 'n';

        *to++ = escaped ? '\n' : *from;
        from += escaped ? 1 : 0;
    }
    *to = '\0';
}

/* The next field of a line, ended in place. */
static char *
field_take(char **at)
{
    char *field = *at;
    size_t size = strcspn(field, "\t\n");

    *at = field + size + (field[size] != '\0' ? 1 : 0);
    field[size] = '\0';
    unescape(field);
    return field;
}

static void
answer_check(const struct engine *engine, const struct question *question)
{
    struct detokenizer state;
    struct buf text;

    assert_true(question->seen.finished);
    buf_init(&text, MIB);
    detokenizer_init(&state, engine_tokenizer(engine));
    for (size_t i = 0; i + 1 < question->seen.count; i++)
        detokenizer_push(&state, question->seen.ids[i], &text);
    detokenizer_finish(&state, &text);
    assert_string_equal(text.data, question->answer);
    detokenizer_clear(&state);
    buf_clear(&text);
}

static void
all_200_questions_are_answered_right(void **state)
{
    struct buf file;

    (void)state;
    buf_init(&file, MIB);
    for (size_t m = 0; m < COUNT_OF(models); m++) {
        struct engine *engine = open_engine(models[m].path, 2, 8, 0);
        struct question *questions = mem_array(QUESTIONS, sizeof(*questions));
        struct template *template = NULL;
        size_t count = 0;
        char *at;

        assert_int_equal(template_read(models[m].path, &template, NULL),
                         STATUS_OK);
        buf_reset(&file);
        assert_int_equal(
            buf_read_file(&file, "tests/models/questions.tsv", NULL),
            STATUS_OK);
        at = strchr(file.data, '\n') + 1;
        for (; *at != '\0' && count < QUESTIONS; count++) {
            struct token_ids ids = {0};
            struct engine_request request;
            struct sequence *sequence;
            char *system, *text;

            (void)field_take(&at);
            system = field_take(&at);
            text = field_take(&at);
            questions[count].answer = field_take(&at);
            question_ids(engine, template, system, text, &ids);
            request = request_for(ids.ids, ids.count, 450);
            assert_int_equal(engine_add(engine, &request,
                                        &questions[count].seen, &sequence,
                                        NULL),
                             STATUS_OK);
            free(ids.ids);
        }
        assert_int_equal(count, QUESTIONS);
        run_all(engine);
        for (size_t i = 0; i < count; i++)
            answer_check(engine, &questions[i]);
        template_free(template);
        free(questions);
        engine_close(engine);
    }
    buf_clear(&file);
}

/* --- sampling, company, resuming --- */

static struct engine_request
sampled_request(const uint32_t *prompt, size_t count, uint64_t seed)
{
    struct engine_request request = request_for(prompt, count, 40);

    request.sampling = (struct sampling){
        .temperature = 3.0, .top_p = 0.98, .top_k = 300, .seed = seed};
    request.ignore_ends = true;
    return request;
}

static void
sampled_ids_do_not_depend_on_company(void **state)
{
    enum { COMPANY = 5 };
    uint32_t prompt[IDS_MAX];
    size_t count = reference_prompt("sum", prompt);
    struct engine *engine = open_engine(models[0].path, 1, COMPANY, 0);
    struct engine *threaded = open_engine(models[0].path, 3, COMPANY, 0);
    struct seen alone[COMPANY], together[COMPANY] = {0};

    (void)state;
    for (size_t i = 0; i < COMPANY; i++) {
        struct engine_request request =
            sampled_request(prompt, count - i, 1000 + i);
        struct sequence *sequence;

        run_one(engine, &request, &alone[i]);
        assert_int_equal(alone[i].count, 40);
        assert_int_equal(alone[i].finish, OUTPUT_LENGTH);
        assert_int_equal(
            engine_add(threaded, &request, &together[i], &sequence, NULL),
            STATUS_OK);
        engine_step(threaded, &events); /* so that they are out of step */
    }
    run_all(threaded);
    for (size_t i = 0; i < COMPANY; i++)
        assert_memory_equal(alone[i].ids, together[i].ids,
                            40 * sizeof(uint32_t));
    assert_memory_not_equal(alone[0].ids, alone[1].ids, 40 * sizeof(uint32_t));
    engine_close(threaded);
    engine_close(engine);
}

static void
a_resumed_sequence_goes_on_as_it_would_have(void **state)
{
    uint32_t prompt[IDS_MAX];
    size_t count = reference_prompt("sum", prompt);
    struct engine *engine = open_engine(models[2].path, 2, 1, 0);
    struct engine_request request = sampled_request(prompt, count, 77);
    struct seen whole, rest;

    (void)state;
    run_one(engine, &request, &whole);
    for (size_t done = 1; done < 40; done += 13) {
        request.done = whole.ids;
        request.done_count = done;
        run_one(engine, &request, &rest);
        assert_int_equal(rest.count, 40 - done);
        assert_memory_equal(rest.ids, whole.ids + done,
                            rest.count * sizeof(uint32_t));
        assert_int_equal(rest.counts.ids, 40 - done);
        /* A slow machine takes the prompt in several. */
        assert_in_range(rest.counts.passes, 40 - done, count + 40);
    }
    engine_close(engine);
}

/* --- budget, order, ends --- */

static void
the_kv_budget_is_never_exceeded_and_order_is_kept(void **state)
{
    enum { JOBS = 6 };
    uint32_t prompt[IDS_MAX];
    size_t count = reference_prompt("sum", prompt);
    struct engine *engine = open_engine(models[0].path, 1, 4, 256 * KIB);
    uint64_t token_bytes = engine_kv_token_bytes(engine);
    struct seen seen[JOBS] = {0};

    (void)state;
    /* 4 layers x 4 heads x 32 elements, keys and values, f32. */
    assert_int_equal(token_bytes, 4096);
    for (size_t i = 0; i < JOBS; i++) {
        struct engine_request request = request_for(prompt, count, 2);
        struct sequence *sequence;

        request.kv_tokens = 30;
        seen[i].engine = engine;
        assert_int_equal(
            engine_add(engine, &request, &seen[i], &sequence, NULL), STATUS_OK);
    }
    engine_step(engine, &events);
    assert_int_equal(engine_kv_reserved_bytes(engine), 2 * 30 * 4096);
    assert_true(seen[0].started && seen[1].started && !seen[2].started);
    while (engine_is_busy(engine)) {
        engine_step(engine, &events);
        for (size_t i = 1; i < JOBS; i++)
            assert_true(seen[i - 1].started || !seen[i].started);
    }
    for (size_t i = 0; i < JOBS; i++)
        assert_int_equal(seen[i].count, 2);
    assert_int_equal(engine_kv_reserved_bytes(engine), 0);
    engine_close(engine);
}

static void
a_stop_string_ends_an_answer(void **state)
{
    static const char stop[1][OUTPUT_STOP_BYTES] = {" plus"};
    uint32_t prompt[IDS_MAX];
    size_t count = reference_prompt("sum", prompt);
    struct engine *engine = open_engine(models[0].path, 1, 1, 0);
    struct engine_request request = request_for(prompt, count, 50);
    struct seen seen;

    (void)state;
    request.stop = stop;
    request.stop_count = 1;
    run_one(engine, &request, &seen);
    assert_int_equal(seen.finish, OUTPUT_STOP);
    assert_in_range(seen.count, 1, 6); /* "17 plus", whole: 12 ids */
    engine_close(engine);
}

static void
max_tokens_counts_the_ids_of_all_attempts(void **state)
{
    uint32_t prompt[IDS_MAX];
    size_t count = reference_prompt("sum", prompt);
    struct engine *engine = open_engine(models[0].path, 1, 1, 0);
    struct engine_request request = request_for(prompt, count, 5);
    struct seen whole, rest;

    (void)state;
    run_one(engine, &request, &whole);
    assert_int_equal(whole.count, 5);
    assert_int_equal(whole.finish, OUTPUT_LENGTH);
    request.done = whole.ids;
    request.done_count = 3;
    run_one(engine, &request, &rest);
    assert_int_equal(rest.count, 2);
    assert_memory_equal(rest.ids, whole.ids + 3, 2 * sizeof(uint32_t));
    engine_close(engine);
}

static void
check_refused(struct engine *engine, struct engine_request request,
              const char *code, const char *word)
{
    struct sequence *sequence;
    struct error err = {0};

    assert_int_not_equal(engine_add(engine, &request, NULL, &sequence, &err),
                         STATUS_OK);
    assert_string_equal(err.code, code);
    assert_non_null(strstr(err.text, word));
    assert_false(engine_is_busy(engine));
}

static void
requests_that_cannot_run_are_refused_with_the_numbers(void **state)
{
    static const uint32_t ids[] = {1, 2, 2048};
    struct engine *engine = open_engine(models[0].path, 1, 1, 400 * KIB);
    struct engine_request good = request_for(ids, 2, 10), bad = good;

    (void)state;
    bad.prompt_count = 3;
    bad.kv_tokens = 13;
    check_refused(engine, bad, "bad_request", "2048");
    bad = good;
    bad.prompt_count = 0;
    check_refused(engine, bad, "bad_request", "0 ids");
    bad = good;
    bad.max_tokens = 2047;
    bad.kv_tokens = 2049;
    check_refused(engine, bad, "context_exceeded", "2048");
    bad = good;
    bad.kv_tokens = 11;
    check_refused(engine, bad, "bad_request", "kv_tokens 11");
    bad = good;
    bad.kv_tokens = 101;
    check_refused(engine, bad, "no_memory", "409600");
    bad = good;
    bad.done = ids;
    bad.done_count = 10;
    check_refused(engine, bad, "bad_request", "max_tokens 10");
    bad = good;
    bad.sampling.top_p = 0;
    check_refused(engine, bad, "bad_request", "top_p");
    engine_close(engine);
}

static void
a_cancelled_sequence_leaves_nothing(void **state)
{
    uint32_t prompt[IDS_MAX];
    size_t count = reference_prompt("sum", prompt);
    struct engine *engine = open_engine(models[0].path, 1, 1, 0);
    struct engine_request request = request_for(prompt, count, 50);
    struct seen first = {0}, second = {0};
    struct sequence *running, *waiting;
    struct sequence_counts counts;

    (void)state;
    assert_int_equal(engine_add(engine, &request, &first, &running, NULL),
                     STATUS_OK);
    assert_int_equal(engine_add(engine, &request, &second, &waiting, NULL),
                     STATUS_OK);
    engine_step(engine, &events);
    engine_step(engine, &events);
    engine_cancel(engine, waiting, &counts);
    assert_int_equal(counts.passes, 0);
    assert_int_equal(counts.ids, 0);
    engine_cancel(engine, running, &counts);
    assert_int_equal(counts.passes, 2);
    assert_int_equal(counts.ids, 2);
    assert_false(engine_is_busy(engine));
    assert_int_equal(engine_kv_reserved_bytes(engine), 0);
    assert_false(second.started);
    engine_close(engine);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_and_greedy_ids_equal_the_reference),
        cmocka_unit_test(a_zeroed_matrix_gives_wrong_answers),
        cmocka_unit_test(all_200_questions_are_answered_right),
        cmocka_unit_test(sampled_ids_do_not_depend_on_company),
        cmocka_unit_test(a_resumed_sequence_goes_on_as_it_would_have),
        cmocka_unit_test(the_kv_budget_is_never_exceeded_and_order_is_kept),
        cmocka_unit_test(a_stop_string_ends_an_answer),
        cmocka_unit_test(max_tokens_counts_the_ids_of_all_attempts),
        cmocka_unit_test(requests_that_cannot_run_are_refused_with_the_numbers),
        cmocka_unit_test(a_cancelled_sequence_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
