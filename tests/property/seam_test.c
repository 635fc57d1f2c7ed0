/* seam_test.c - an answer that is cut at any id and goes on in another attempt
 * is the answer that was never cut.
 *
 * Random requests with every declared option of sampling, stop strings and
 * lengths run through the coordinator's frames, the engine's socket and the
 * job's record: first whole, then cut at each of its ids, then cut twice, all
 * of these beside each other in one engine.  SEED=n replays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/prng.h"
#include "coordinator/core_private.h"
#include "inference/serve.h"
#include "tests/unit/coordinator_model.h"

#include "common/banned.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { ROUNDS = 3 };
#else
enum { ROUNDS = 20 };
#endif

enum {
    SEED = 20261201,
    SLOTS = 8,
    IDS_MAX = 24, /* of an answer */
    PROMPT_MAX = 40,
    PROMPTS_MAX = 16,
    CUTS_MAX = IDS_MAX + 4,
    EVENTS_MAX = IDS_MAX + 2,
    TEXT_MAX_BYTES = 1 << 16,
    FRAMES_MAX_BYTES = 4 << 20,
    ANSWER_MS = 60000,
};

static const char *const folders[] = {
    "tests/models/tiny-chat",
    "tests/models/tiny-chat-8bit",
    "tests/models/tiny-chat-4bit",
};

static const struct field options[] = {SAMPLING_FIELDS(0)};
static const struct span now = {.ns = 1};

static struct {
    uint32_t ids[PROMPT_MAX];
    size_t count;
} prompts[PROMPTS_MAX];
static size_t prompt_count;

/* What the cases met, so that none of them is missing unseen. */
static struct {
    size_t cuts, stopped, full_length, ended, held_back, seeded, requests;
} met;

/* --- an engine behind its socket --- */

struct agent {
    int fd, engine_fd;
    pthread_t thread;
    struct engine *engine;
    struct wire_message *message;
};

/* An attempt of a job, and what the engine made of it. */
struct attempt {
    struct job *job;
    uint32_t number;
    uint32_t ids[IDS_MAX]; /* from index @first of the answer */
    size_t first, count;
    bool ended, refused;
    char reason[16];
};

static void *
engine_main(void *arg)
{
    struct agent *agent = arg;
    struct error err;

    if (serve_connection(agent->engine_fd, agent->engine, &err) != STATUS_OK)
        abort();
    return NULL;
}

static void
read_whole(const struct agent *agent, void *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        struct pollfd watched = {.fd = agent->fd, .events = POLLIN};
        ssize_t got;

        assert_int_equal(poll(&watched, 1, ANSWER_MS), 1);
        got = recv(agent->fd, (char *)bytes + done, size - done, 0);
        assert_true(got > 0);
        done += (size_t)got;
    }
}

static struct wire_message *
next(const struct agent *agent)
{
    uint8_t head[WIRE_HEAD_BYTES];
    struct error err;
    size_t size;
    char *text;

    read_whole(agent, head, sizeof(head));
    size = wire_head_size(head);
    assert_in_range(size, 2, WIRE_FRAME_MAX_BYTES);
    text = mem_alloc(size);
    read_whole(agent, text, size);
    if (wire_decode(text, size, agent->message, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    free(text);
    return agent->message;
}

static void
agent_open(struct agent *agent, const char *folder)
{
    struct engine_options sizes = {.threads = 2, .slots = SLOTS};
    int pair[2];

    *agent = (struct agent){.message = mem_alloc(sizeof(*agent->message))};
    assert_int_equal(engine_open(folder, &sizes, &agent->engine, NULL),
                     STATUS_OK);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    agent->fd = pair[0];
    agent->engine_fd = pair[1];
    assert_int_equal(pthread_create(&agent->thread, NULL, engine_main, agent),
                     0);
    assert_int_equal(next(agent)->type, WIRE_ENGINE_READY);
}

static void
agent_close(struct agent *agent)
{
    close(agent->fd);
    assert_int_equal(pthread_join(agent->thread, NULL), 0);
    engine_close(agent->engine);
    free(agent->message);
}

static void
attempts_send(const struct agent *agent, const struct attempt *attempts,
              size_t count)
{
    struct buf frames;
    size_t sent = 0;

    buf_init(&frames, FRAMES_MAX_BYTES);
    for (size_t i = 0; i < count; i++)
        job_frames(attempts[i].job, attempts[i].number, 1, &frames);
    while (sent < frames.size) {
        ssize_t went =
            send(agent->fd, frames.data + sent, frames.size - sent, 0);

        assert_true(went > 0);
        sent += (size_t)went;
    }
    buf_clear(&frames);
}

static struct attempt *
attempt_of(struct attempt *attempts, size_t count, const char *job,
           uint32_t number)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(attempts[i].job->id, job) == 0) {
            assert_int_equal(attempts[i].number, number);
            assert_false(attempts[i].ended);
            return &attempts[i];
        }
    }
    fail_msg("a frame of %s, which does not run", job);
    return NULL;
}

static void
ids_take(struct attempt *attempt, const struct wire_job_tokens *tokens)
{
    assert_int_equal(tokens->first, attempt->first + attempt->count);
    assert_true(attempt->count + tokens->id_count <= IDS_MAX);
    memcpy(attempt->ids + attempt->count, tokens->ids,
           tokens->id_count * sizeof(uint32_t));
    attempt->count += tokens->id_count;
}

/* Run @attempts to their ends, all at once. */
static void
attempts_run(const struct agent *agent, struct attempt *attempts, size_t count)
{
    attempts_send(agent, attempts, count);
    for (size_t left = count; left > 0;) {
        const struct wire_message *m = next(agent);

        if (m->type == WIRE_JOB_TOKENS) {
            ids_take(attempt_of(attempts, count, m->job_tokens.job,
                                m->job_tokens.attempt),
                     &m->job_tokens);
        } else if (m->type == WIRE_JOB_DONE) {
            struct attempt *attempt = attempt_of(
                attempts, count, m->job_done.job, m->job_done.attempt);

            assert_int_equal(m->job_done.ids, attempt->count);
            memcpy(attempt->reason, m->job_done.reason,
                   sizeof(attempt->reason));
            attempt->ended = true;
            left--;
        } else if (m->type == WIRE_JOB_FAIL) {
            struct attempt *attempt = attempt_of(
                attempts, count, m->job_fail.job, m->job_fail.attempt);

            assert_string_equal(m->job_fail.code, "bad_request");
            attempt->ended = attempt->refused = true;
            left--;
        }
    }
}

/* --- requests --- */

struct request {
    uint32_t prompt[PROMPT_MAX];
    size_t prompt_count;
    struct sampling sampling;
    struct output_rules rules;
};

/* A value of the option's range; its ends are the special ones.  Whole numbers
 * of any size, since the small ones matter more. */
static void
option_draw(struct prng *prng, const struct field *option,
            struct sampling *sampling)
{
    char *at = (char *)sampling + option->offset;
    double share = prng_below(prng, 4) == 0 ? (double)prng_below(prng, 2)
                                            : prng_unit(prng);
    double real = option->fmin + share * (option->fmax - option->fmin);
    uint64_t whole = prng_next(prng) >> (1 + prng_below(prng, 63));
    uint32_t half = (uint32_t)(prng_next(prng) >> (32 + prng_below(prng, 32)));
    bool flag = prng_below(prng, 2) == 0;

    if (option->type == FIELD_DOUBLE)
        memcpy(at, &real, sizeof(real));
    else if (option->type == FIELD_U64)
        memcpy(at, &whole, sizeof(whole));
    else if (option->type == FIELD_U32)
        memcpy(at, &half, sizeof(half));
    else if (option->type == FIELD_BOOL)
        memcpy(at, &flag, sizeof(flag));
    else
        fail_msg("%s: draw this type here", option->name);
}

/* A prompt the model knows how to answer, or ids at random, after which it is
 * less sure. */
static void
prompt_draw(struct prng *prng, struct request *request)
{
    size_t known = (size_t)prng_below(prng, prompt_count);

    if (prng_below(prng, 3) == 0) {
        request->prompt_count = prompts[known].count;
        memcpy(request->prompt, prompts[known].ids, sizeof(request->prompt));
        return;
    }
    request->prompt_count = 1 + (size_t)prng_below(prng, 12);
    for (size_t i = 0; i < request->prompt_count; i++)
        request->prompt[i] = (uint32_t)prng_below(prng, 2048);
}

static void
request_draw(struct prng *prng, const struct model *model,
             struct request *request)
{
    *request = (struct request){
        .rules = {.max_tokens = 4 + prng_below(prng, IDS_MAX - 3),
                  .end_id_count = model->end_id_count},
    };
    memcpy(request->rules.end_ids, model->end_ids,
           sizeof(request->rules.end_ids));
    prompt_draw(prng, request);
    for (size_t i = 0; i < COUNT_OF(options); i++)
        option_draw(prng, &options[i], &request->sampling);
}

static bool
is_inside(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

/* Stop strings out of the answer's later half, of whole characters and with no
 * regard to ids; some of them changed so that they nearly match. */
static void
stops_draw(struct prng *prng, const struct buf *text,
           struct output_rules *rules)
{
    size_t wanted = (size_t)prng_below(prng, 5);

    while (text->size > 1 && rules->stop_count < wanted) {
        char *stop = rules->stop[rules->stop_count];
        size_t from = text->size / 2 +
                      (size_t)prng_below(prng, text->size - text->size / 2);
        size_t to = from + 1 + (size_t)prng_below(prng, 8);

        if (to > text->size)
            to = text->size;
        while (from > 0 && is_inside(text->data[from]))
            from--;
        while (to < text->size && is_inside(text->data[to]))
            to++;
        memcpy(stop, text->data + from, to - from);
        stop[to - from] = '\0';
        if (prng_below(prng, 3) == 0)
            memcpy(stop + (to - from), "~", 2);
        if (stop[0] == '\0')
            wanted--; /* the answer holds a NUL there: no stop string may */
        else
            rules->stop_count++;
    }
}

static struct job *
job_make(const struct request *request, struct model *model)
{
    struct job *job = job_new();

    job->model = model_keep(model);
    job->prompt =
        mem_copy(request->prompt, request->prompt_count * sizeof(uint32_t));
    job->prompt_count = request->prompt_count;
    job->rules = request->rules;
    job->sampling = request->sampling;
    job->record = record_new(model, &request->rules, request->prompt_count);
    return job;
}

/* --- what a reader sees --- */

struct events {
    struct record_event list[EVENTS_MAX];
    size_t count;
    struct buf text;
    char finish[16];
};

/* End the job as the core does when its record is full, and read it. */
static void
events_read(struct record *record, struct events *events)
{
    struct record_end end = {0};
    struct record_state state;

    record_state(record, &state);
    snprintf(end.finish, sizeof(end.finish), "%s",
             output_finish_name(state.finish));
    end.completion_tokens = state.ids;
    record_finish(record, &end);
    buf_init(&events->text, TEXT_MAX_BYTES);
    events->count =
        record_read(record, 0, EVENTS_MAX, events->list, &events->text);
    memcpy(events->finish, end.finish, sizeof(end.finish));
}

static void
events_equal(const struct events *a, const struct events *b)
{
    assert_string_equal(a->finish, b->finish);
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->list, b->list, a->count * sizeof(a->list[0]));
    assert_int_equal(a->text.size, b->text.size);
    assert_memory_equal(a->text.data, b->text.data, a->text.size);
}

/* --- the whole answer --- */

struct answer {
    uint32_t ids[IDS_MAX];
    size_t count;
    struct events events;
};

/* The ids @from..@to of the answer reach the record as those of @attempt, in
 * pieces; some come twice, and some come late from the attempt before. */
static void
feed(struct prng *prng, struct record *record, uint32_t attempt,
     const struct answer *answer, size_t from, size_t to)
{
    struct record_state state;
    size_t begun = from;

    while (from < to) {
        size_t size = 1 + (size_t)prng_below(prng, to - from);
        size_t twice = (size_t)prng_below(prng, from + 1);
        const uint32_t *ids = answer->ids + from;

        if (attempt > 1)
            assert_int_equal(
                record_push(record, attempt - 1, from, ids, 1, now),
                RECORD_IGNORED);
        assert_int_equal(record_push(record, attempt, from - twice, ids - twice,
                                     size + twice, now),
                         from + size == answer->count ? RECORD_FULL
                                                      : RECORD_TAKEN);
        from += size;
    }
    record_state(record, &state);
    assert_int_equal(state.attempt_ids, to - begun);
}

/* False: the engine refuses such a request. */
static bool
answer_make(const struct agent *agent, const struct request *request,
            struct model *model, struct answer *answer)
{
    struct request twin = *request;
    struct attempt attempts[2] = {{.number = 1}, {.number = 1}};
    struct prng prng;
    bool is_good;

    twin.sampling.seed ^= 1;
    attempts[0].job = job_make(request, model);
    attempts[1].job = job_make(&twin, model);
    attempts_run(agent, attempts, 2);
    is_good = !attempts[0].refused;
    if (is_good) {
        prng_seed(&prng, request->sampling.seed);
        answer->count = attempts[0].count;
        memcpy(answer->ids, attempts[0].ids, sizeof(answer->ids));
        record_attempt(attempts[0].job->record, 1, 0);
        feed(&prng, attempts[0].job->record, 1, answer, 0, answer->count);
        events_read(attempts[0].job->record, &answer->events);
        assert_string_equal(answer->events.finish, attempts[0].reason);
        met.seeded += attempts[1].count != attempts[0].count ||
                      memcmp(attempts[0].ids, attempts[1].ids,
                             answer->count * sizeof(uint32_t)) != 0;
    }
    job_free(attempts[0].job);
    job_free(attempts[1].job);
    return is_good;
}

/* --- cuts --- */

/* The job's latest attempt has brought the ids up to @at and is lost. */
static void
attempt_next(struct prng *prng, struct attempt *attempt,
             const struct answer *answer, size_t at)
{
    struct record *record = attempt->job->record;

    record_attempt(record, attempt->number, attempt->first);
    feed(prng, record, attempt->number, answer, attempt->first, at);
    *attempt = (struct attempt){
        .job = attempt->job, .number = attempt->number + 1, .first = at};
}

static void
attempts_check(const struct attempt *attempts, size_t count,
               const struct answer *answer)
{
    for (size_t i = 0; i < count; i++) {
        const struct attempt *attempt = &attempts[i];

        assert_false(attempt->refused);
        assert_int_equal(attempt->first + attempt->count, answer->count);
        assert_memory_equal(attempt->ids, answer->ids + attempt->first,
                            attempt->count * sizeof(uint32_t));
        assert_string_equal(attempt->reason, answer->events.finish);
    }
}

static void
attempts_end(struct prng *prng, struct attempt *attempts, size_t count,
             const struct answer *answer)
{
    for (size_t i = 0; i < count; i++) {
        struct attempt *attempt = &attempts[i];
        struct record *record = attempt->job->record;
        struct events events;

        record_attempt(record, attempt->number, attempt->first);
        feed(prng, record, attempt->number, answer, attempt->first,
             answer->count);
        events_read(record, &events);
        events_equal(&events, &answer->events);
        buf_clear(&events.text);
        job_free(attempt->job);
    }
    met.cuts += count;
}

static void
cut_everywhere(struct prng *prng, const struct agent *agent,
               const struct request *request, struct model *model,
               const struct answer *answer)
{
    struct attempt attempts[IDS_MAX] = {0};

    for (size_t i = 0; i < answer->count; i++) {
        size_t events;

        attempts[i].job = job_make(request, model);
        attempts[i].number = 1;
        attempt_next(prng, &attempts[i], answer, i);
        events = record_event_count(attempts[i].job->record);
        met.held_back += events < i;
    }
    attempts_run(agent, attempts, answer->count);
    attempts_check(attempts, answer->count, answer);
    attempts_end(prng, attempts, answer->count, answer);
}

/* Every second attempt is lost in its turn. */
static void
cut_twice(struct prng *prng, const struct agent *agent,
          const struct request *request, struct model *model,
          const struct answer *answer)
{
    enum { PAIRS = 4 };
    struct attempt attempts[PAIRS] = {0};

    for (size_t i = 0; i < PAIRS; i++) {
        attempts[i].job = job_make(request, model);
        attempts[i].number = 1;
        attempt_next(prng, &attempts[i], answer,
                     (size_t)prng_below(prng, answer->count));
    }
    attempts_run(agent, attempts, PAIRS);
    attempts_check(attempts, PAIRS, answer);
    for (size_t i = 0; i < PAIRS; i++) {
        size_t left = answer->count - attempts[i].first;

        attempt_next(prng, &attempts[i], answer,
                     attempts[i].first + (size_t)prng_below(prng, left));
    }
    attempts_run(agent, attempts, PAIRS);
    attempts_check(attempts, PAIRS, answer);
    attempts_end(prng, attempts, PAIRS, answer);
}

static void
round_run(struct prng *prng, const struct agent *agent, struct model *model)
{
    struct request request;
    struct answer free_running, answer;

    do
        request_draw(prng, model, &request);
    while (!answer_make(agent, &request, model, &free_running));
    stops_draw(prng, &free_running.events.text, &request.rules);
    assert_true(answer_make(agent, &request, model, &answer));
    met.requests++;
    met.full_length += strcmp(answer.events.finish, "length") == 0;
    met.stopped += answer.count < free_running.count;
    met.ended += answer.ids[answer.count - 1] == model->end_ids[0];
    cut_everywhere(prng, agent, &request, model, &answer);
    cut_twice(prng, agent, &request, model, &answer);
    buf_clear(&free_running.events.text);
    buf_clear(&answer.events.text);
}

static void
an_answer_cut_anywhere_is_the_uncut_answer(void **state)
{
    const char *given = getenv("SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : SEED;
    struct model *model = tiny_chat_new();
    struct prng prng;

    (void)state;
    printf("seed %llu\n", (unsigned long long)seed);
    assert_non_null(model);
    memset(model->entry.digest, '0', sizeof(model->entry.digest) - 1);
    prng_seed(&prng, seed);
    for (size_t m = 0; m < COUNT_OF(folders); m++) {
        struct agent agent;

        agent_open(&agent, folders[m]);
        for (int round = 0; round < ROUNDS; round++)
            round_run(&prng, &agent, model);
        agent_close(&agent);
    }
    model_drop(model);
    printf("%zu requests, %zu cuts; ends: %zu stop strings, %zu lengths, %zu "
           "end ids; %zu cuts with text held back; %zu depend on the seed\n",
           met.requests, met.cuts, met.stopped, met.full_length, met.ended,
           met.held_back, met.seeded);
    assert_true(met.stopped > 0 && met.full_length > 0 && met.ended > 0);
    assert_true(met.held_back > 0 && met.seeded > 0);
}

static int
prompts_read(void **state)
{
    struct json_doc doc = {0};
    const struct json *list;
    struct buf file;

    (void)state;
    buf_init(&file, 8 << 20);
    if (buf_read_file(&file, "tests/models/reference.json", NULL) !=
            STATUS_OK ||
        json_doc_parse(file.data, file.size, &doc, NULL) != STATUS_OK)
        return -1;
    list = json_get(doc.root, "prompts");
    for (; prompt_count < json_count(list); prompt_count++) {
        const struct json *ids =
            json_get(json_at(list, prompt_count), "prompt_ids");

        assert_true(prompt_count < PROMPTS_MAX);
        assert_true(json_count(ids) <= PROMPT_MAX);
        prompts[prompt_count].count = json_count(ids);
        for (size_t i = 0; i < json_count(ids); i++) {
            int64_t id;

            assert_int_equal(json_as_i64(json_at(ids, i), &id), STATUS_OK);
            prompts[prompt_count].ids[i] = (uint32_t)id;
        }
    }
    json_doc_clear(&doc);
    buf_clear(&file);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_cut_anywhere_is_the_uncut_answer),
    };

    return cmocka_run_group_tests(tests, prompts_read, NULL);
}
