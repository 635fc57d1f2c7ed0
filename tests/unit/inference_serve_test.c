/* inference_serve_test.c - the engine's socket, with the test as the agent:
 * every frame goes over a real socket to serve_connection in a thread. */
#include "inference/serve.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/mem.h"
#include "common/wire.h"

#include "common/banned.h"

enum { ANSWER_MS = 60000, OUT_MAX_BYTES = 4 * 1024 * 1024 };

#define JOB_A "01920000-0000-7000-8000-00000000000a"
#define JOB_B "01920000-0000-7000-8000-00000000000b"

/* "What is 17 plus 25?" as reference.json has it, and its answer. */
static const uint32_t prompt[] = {2046, 482,  198, 280,  258, 220,
                                  16,   22,   297, 220,  17,  20,
                                  30,   2047, 198, 2046, 460, 198};

/* "Count from 1 to 100." */
static const uint32_t counting[] = {2046, 482,  198, 443,  361, 220,
                                    16,   298,  220, 16,   15,  15,
                                    13,   2047, 198, 2046, 566, 198};

struct agent {
    int fd;
    pthread_t thread;
    struct engine *engine;
    int engine_fd;
    enum status status;
    struct error err;
    struct wire_message *message; /* the last one read */
    struct buf out;
};

static void *
engine_main(void *arg)
{
    struct agent *agent = arg;

    agent->status =
        serve_connection(agent->engine_fd, agent->engine, &agent->err);
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

/* The next frame, decoded into agent->message. */
static enum wire_type
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
    return agent->message->type;
}

static void
flush(struct agent *agent)
{
    size_t sent = 0;

    while (sent < agent->out.size) {
        ssize_t went =
            send(agent->fd, agent->out.data + sent, agent->out.size - sent, 0);

        assert_true(went > 0);
        sent += (size_t)went;
    }
    buf_reset(&agent->out);
}

static void
put(struct agent *agent, enum wire_type type, const void *body)
{
    struct error err;

    if (wire_encode(type, body, &agent->out, &err) != STATUS_OK)
        fail_msg("%s", err.text);
}

static void
put_ids(struct agent *agent, const char *job, bool done, const uint32_t *ids,
        size_t count)
{
    struct wire_job_input *part = mem_alloc(sizeof(*part));

    snprintf(part->job, sizeof(part->job), "%s", job);
    part->attempt = 1;
    part->epoch = 1;
    part->done = done;
    memcpy(part->ids, ids, count * sizeof(ids[0]));
    part->id_count = count;
    put(agent, WIRE_JOB_INPUT, part);
    free(part);
}

static struct wire_job_run
run_of(const char *job, uint64_t prompt_count, uint64_t max_tokens)
{
    struct wire_job_run run = {.attempt = 1,
                               .epoch = 1,
                               .model = "tiny-chat",
                               .prompt_count = prompt_count,
                               .max_tokens = max_tokens,
                               .kv_tokens = prompt_count + max_tokens,
                               .sampling = {.top_p = 1}};

    snprintf(run.job, sizeof(run.job), "%s", job);
    memset(run.digest, '0', sizeof(run.digest) - 1);
    return run;
}

/* A run of @counting that goes on to max_tokens: at this temperature the seed
 * draws no end id within the context. */
static struct wire_job_run
long_run_of(const char *job, uint64_t max_tokens)
{
    struct wire_job_run run = run_of(job, COUNT_OF(counting), max_tokens);

    run.sampling.temperature = 2;
    run.sampling.seed = 7;
    return run;
}

static void
put_cancel(struct agent *agent, const char *job)
{
    struct wire_job_cancel cancel = {
        .attempt = 1, .epoch = 1, .reason = "client_gone"};

    snprintf(cancel.job, sizeof(cancel.job), "%s", job);
    put(agent, WIRE_JOB_CANCEL, &cancel);
}

/* Connect, without reading engine.ready. */
static void
begin_raw(struct agent *agent, uint32_t slots)
{
    struct engine_options options = {.threads = 2, .slots = slots};
    int pair[2];

    *agent = (struct agent){0};
    buf_init(&agent->out, OUT_MAX_BYTES);
    agent->message = mem_alloc(sizeof(*agent->message));
    assert_int_equal(
        engine_open("tests/models/tiny-chat", &options, &agent->engine, NULL),
        STATUS_OK);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    agent->fd = pair[0];
    agent->engine_fd = pair[1];
    assert_int_equal(pthread_create(&agent->thread, NULL, engine_main, agent),
                     0);
}

static void
begin(struct agent *agent, uint32_t slots)
{
    begin_raw(agent, slots);
    assert_int_equal(next(agent), WIRE_ENGINE_READY);
}

/* Close the socket; the engine must end by itself and hold nothing. */
static void
end(struct agent *agent, enum status expected)
{
    close(agent->fd);
    assert_int_equal(pthread_join(agent->thread, NULL), 0);
    assert_int_equal(agent->status, expected);
    assert_false(engine_is_busy(agent->engine));
    assert_int_equal(engine_kv_reserved_bytes(agent->engine), 0);
    engine_close(agent->engine);
    buf_clear(&agent->out);
    free(agent->message);
}

/* Read the ids of @job up to its end; other jobs' frames are skipped. */
static size_t
collect(const struct agent *agent, const char *job, uint32_t *ids, size_t first)
{
    size_t count = 0;

    for (;;) {
        enum wire_type type = next(agent);
        const struct wire_job_tokens *tokens = &agent->message->job_tokens;

        if (type == WIRE_JOB_TOKENS && strcmp(tokens->job, job) == 0) {
            assert_int_equal(tokens->first, first + count);
            memcpy(ids + count, tokens->ids,
                   tokens->id_count * sizeof(uint32_t));
            count += tokens->id_count;
        }
        if (type == WIRE_JOB_DONE &&
            strcmp(agent->message->job_done.job, job) == 0)
            return count;
        assert_int_not_equal(type, WIRE_JOB_FAIL);
    }
}

static void
ready_tells_what_the_engine_is(void **state)
{
    struct agent agent;
    const struct wire_engine_ready *ready;

    (void)state;
    begin(&agent, 3);
    ready = &agent.message->engine_ready;
    assert_string_equal(ready->backend, "cpu");
    assert_int_equal(ready->slots, 3);
    assert_int_equal(ready->context_max, 2048);
    assert_int_equal(ready->kv_bytes_per_token, 4096);
    assert_int_equal(ready->kv_bytes, 3 * 2048 * 4096);
    assert_int_equal(ready->capability_count, 4);
    end(&agent, STATUS_OK);
}

static void
a_job_streams_its_ids_and_ends(void **state)
{
    struct agent agent;
    struct wire_job_run run = run_of(JOB_A, COUNT_OF(prompt), 50);
    uint32_t ids[64];
    size_t count;

    (void)state;
    begin(&agent, 2);
    put_ids(&agent, JOB_A, false, prompt, 10);
    put_ids(&agent, JOB_A, false, prompt + 10, COUNT_OF(prompt) - 10);
    put(&agent, WIRE_JOB_RUN, &run);
    flush(&agent);
    assert_int_equal(next(&agent), WIRE_JOB_STARTED);
    assert_string_equal(agent.message->job_started.job, JOB_A);
    count = collect(&agent, JOB_A, ids, 0);
    assert_string_equal(agent.message->job_done.reason, "stop");
    assert_int_equal(agent.message->job_done.ids, count);
    assert_int_equal(agent.message->job_done.passes, count);
    /* reference.json: 12 ids, the last is the end id. */
    assert_int_equal(count, 12);
    assert_int_equal(ids[0], 16);
    assert_int_equal(ids[11], 2047);
    end(&agent, STATUS_OK);
}

static void
the_first_id_comes_alone_and_at_once(void **state)
{
    struct agent agent;
    struct wire_job_run run = run_of(JOB_A, COUNT_OF(prompt), 50);

    (void)state;
    begin(&agent, 1);
    put_ids(&agent, JOB_A, false, prompt, COUNT_OF(prompt));
    put(&agent, WIRE_JOB_RUN, &run);
    flush(&agent);
    assert_int_equal(next(&agent), WIRE_JOB_STARTED);
    assert_int_equal(next(&agent), WIRE_JOB_TOKENS);
    assert_int_equal(agent.message->job_tokens.id_count, 1);
    end(&agent, STATUS_OK);
}

static void
done_ids_are_continued(void **state)
{
    struct agent agent;
    struct wire_job_run run = run_of(JOB_A, COUNT_OF(prompt), 50);
    uint32_t whole[64], rest[64];
    size_t count;

    (void)state;
    begin(&agent, 1);
    put_ids(&agent, JOB_A, false, prompt, COUNT_OF(prompt));
    put(&agent, WIRE_JOB_RUN, &run);
    flush(&agent);
    count = collect(&agent, JOB_A, whole, 0);
    run = run_of(JOB_B, COUNT_OF(prompt), 50);
    run.done_count = 5;
    put_ids(&agent, JOB_B, false, prompt, COUNT_OF(prompt));
    put_ids(&agent, JOB_B, true, whole, 5);
    put(&agent, WIRE_JOB_RUN, &run);
    flush(&agent);
    assert_int_equal(collect(&agent, JOB_B, rest, 5), count - 5);
    assert_memory_equal(rest, whole + 5, (count - 5) * sizeof(rest[0]));
    assert_int_equal(agent.message->job_done.ids, count - 5);
    end(&agent, STATUS_OK);
}

/* The job's job.fail, skipping what comes before it. */
static const struct wire_job_fail *
await_fail(const struct agent *agent, const char *job)
{
    const struct wire_job_fail *failed = &agent->message->job_fail;

    while (next(agent) != WIRE_JOB_FAIL || strcmp(failed->job, job) != 0)
        assert_int_not_equal(agent->message->type, WIRE_JOB_DONE);
    return failed;
}

/* A prompt of many chunks: a cancel sent with it is read before its end. */
static uint32_t *
long_prompt(size_t count)
{
    uint32_t *ids = mem_array(count, sizeof(*ids));

    for (size_t i = 0; i < count; i++)
        ids[i] = prompt[i % COUNT_OF(prompt)];
    return ids;
}

static void
a_cancel_in_prefill_stops_it(void **state)
{
    enum { LONG = 2000 };
    struct agent agent;
    struct wire_job_run run = run_of(JOB_A, LONG, 40);
    uint32_t *ids = long_prompt(LONG);
    const struct wire_job_fail *failed;

    (void)state;
    begin(&agent, 1);
    put_ids(&agent, JOB_A, false, ids, LONG);
    put(&agent, WIRE_JOB_RUN, &run);
    flush(&agent);
    assert_int_equal(next(&agent), WIRE_JOB_STARTED);
    put_cancel(&agent, JOB_A);
    flush(&agent);
    failed = await_fail(&agent, JOB_A);
    assert_string_equal(failed->code, "cancelled");
    assert_in_range(failed->passes_after_cancel, 0, 2);
    assert_true(failed->passes >= 1);
    free(ids);
    end(&agent, STATUS_OK);
}

static void
a_cancel_in_decode_stops_it(void **state)
{
    struct agent agent;
    struct wire_job_run run = long_run_of(JOB_A, 2000);
    const struct wire_job_fail *failed;

    (void)state;
    begin(&agent, 1);
    put_ids(&agent, JOB_A, false, counting, COUNT_OF(counting));
    put(&agent, WIRE_JOB_RUN, &run);
    flush(&agent);
    assert_int_equal(next(&agent), WIRE_JOB_STARTED);
    assert_int_equal(next(&agent), WIRE_JOB_TOKENS);
    put_cancel(&agent, JOB_A);
    flush(&agent);
    failed = await_fail(&agent, JOB_A);
    assert_string_equal(failed->code, "cancelled");
    assert_in_range(failed->passes_after_cancel, 0, 2);
    assert_true(failed->ids >= 1 && failed->ids < 2000);
    assert_int_equal(failed->passes, failed->ids);
    end(&agent, STATUS_OK);
}

static void
a_cancel_in_the_queue_starts_no_pass(void **state)
{
    struct agent agent;
    struct wire_job_run run = long_run_of(JOB_A, 2000);
    const struct wire_job_fail *failed;

    (void)state;
    begin(&agent, 1);
    put_ids(&agent, JOB_A, false, counting, COUNT_OF(counting));
    put(&agent, WIRE_JOB_RUN, &run);
    run = run_of(JOB_B, COUNT_OF(prompt), 1000);
    put_ids(&agent, JOB_B, false, prompt, COUNT_OF(prompt));
    put(&agent, WIRE_JOB_RUN, &run);
    flush(&agent);
    assert_int_equal(next(&agent), WIRE_JOB_STARTED);
    put_cancel(&agent, JOB_B);
    put_cancel(&agent, JOB_A);
    flush(&agent);
    failed = await_fail(&agent, JOB_B);
    assert_int_equal(failed->passes, 0);
    assert_int_equal(failed->passes_after_cancel, 0);
    assert_int_equal(failed->ids, 0);
    failed = await_fail(&agent, JOB_A);
    assert_string_equal(failed->code, "cancelled");
    end(&agent, STATUS_OK);
}

static void
runs_that_cannot_work_fail_with_the_numbers(void **state)
{
    struct agent agent;
    struct wire_job_run run = run_of(JOB_A, COUNT_OF(prompt) + 1, 50);
    const uint32_t unknown = 2048;

    (void)state;
    begin(&agent, 1);
    put_ids(&agent, JOB_A, false, prompt, COUNT_OF(prompt));
    put(&agent, WIRE_JOB_RUN, &run);
    flush(&agent);
    assert_string_equal(await_fail(&agent, JOB_A)->code, "bad_request");
    assert_non_null(strstr(agent.message->job_fail.text, "19"));
    run = run_of(JOB_A, 1, 50);
    put_ids(&agent, JOB_A, false, &unknown, 1);
    put(&agent, WIRE_JOB_RUN, &run);
    flush(&agent);
    assert_string_equal(await_fail(&agent, JOB_A)->code, "bad_request");
    run = run_of(JOB_A, 1, 2048);
    put_ids(&agent, JOB_A, false, prompt, 1);
    put(&agent, WIRE_JOB_RUN, &run);
    flush(&agent);
    assert_string_equal(await_fail(&agent, JOB_A)->code, "context_exceeded");
    end(&agent, STATUS_OK);
}

static void
put_text(struct agent *agent, const char *text)
{
    size_t size = strlen(text);
    const uint8_t head[] = {0, 0, (uint8_t)(size >> 8), (uint8_t)size};

    buf_append(&agent->out, head, sizeof(head));
    buf_append(&agent->out, text, size);
}

static void
frames_that_make_no_sense_are_ignored(void **state)
{
    struct agent agent;
    struct wire_job_run run = run_of(JOB_A, COUNT_OF(prompt), 50);
    uint32_t ids[64];

    (void)state;
    begin(&agent, 1);
    put_text(&agent, "{\"t\":\"of.the.future\",\"x\":1}");
    put_text(&agent, "no json");
    put_text(&agent, "{\"t\":\"job.cancel\"}");
    put_cancel(&agent, JOB_B);
    put_text(&agent, "[]");
    put_ids(&agent, JOB_A, false, prompt, COUNT_OF(prompt));
    put(&agent, WIRE_JOB_RUN, &run);
    flush(&agent);
    assert_int_equal(collect(&agent, JOB_A, ids, 0), 12);
    end(&agent, STATUS_OK);
}

static void
a_run_that_does_not_fit_its_table_fails_the_job(void **state)
{
    struct agent agent;

    (void)state;
    begin(&agent, 1);
    put_text(&agent, "{\"t\":\"job.run\",\"job\":\"" JOB_A
                     "\",\"attempt\":1,\"epoch\":1,\"max_tokens\":-4}");
    flush(&agent);
    assert_string_equal(await_fail(&agent, JOB_A)->code, "bad_request");
    end(&agent, STATUS_OK);
}

/* Nothing of it is left: its ids would else come before those that the same
 * job is sent with next. */
static void
what_has_failed_by_its_frame_is_forgotten(void **state)
{
    struct agent agent;
    struct wire_job_run run = run_of(JOB_A, COUNT_OF(prompt), 50);
    uint32_t ids[64];

    (void)state;
    begin(&agent, 1);
    put_ids(&agent, JOB_A, false, prompt, COUNT_OF(prompt));
    put_text(&agent, "{\"t\":\"job.run\",\"job\":\"" JOB_A
                     "\",\"attempt\":1,\"epoch\":1,\"max_tokens\":-4}");
    flush(&agent);
    assert_string_equal(await_fail(&agent, JOB_A)->code, "bad_request");
    put_ids(&agent, JOB_A, false, prompt, COUNT_OF(prompt));
    put(&agent, WIRE_JOB_RUN, &run);
    flush(&agent);
    assert_int_equal(collect(&agent, JOB_A, ids, 0), 12);
    end(&agent, STATUS_OK);
}

static void
a_frame_above_the_maximum_ends_the_connection(void **state)
{
    static const uint8_t head[] = {0x7f, 0xff, 0xff, 0xff};
    struct agent agent;
    char byte;

    (void)state;
    begin(&agent, 1);
    buf_append(&agent.out, head, sizeof(head));
    flush(&agent);
    assert_int_equal(recv(agent.fd, &byte, 1, 0), 0);
    end(&agent, STATUS_INVALID);
}

static void
the_engine_ends_with_its_socket_in_the_middle_of_a_job(void **state)
{
    struct agent agent;
    struct wire_job_run run = long_run_of(JOB_A, 2000);

    (void)state;
    begin(&agent, 1);
    put_ids(&agent, JOB_A, false, counting, COUNT_OF(counting));
    put(&agent, WIRE_JOB_RUN, &run);
    put_ids(&agent, JOB_B, false, prompt, COUNT_OF(prompt));
    flush(&agent);
    assert_int_equal(next(&agent), WIRE_JOB_STARTED);
    end(&agent, STATUS_OK);
}

/* Send what the socket takes; false when it takes nothing for a second. */
static bool
send_some(const struct agent *agent, size_t *sent)
{
    struct pollfd watched = {.fd = agent->fd, .events = POLLOUT};
    ssize_t went;

    if (poll(&watched, 1, 1000) == 0)
        return false;
    went = send(agent->fd, agent->out.data + *sent, agent->out.size - *sent,
                MSG_DONTWAIT);
    assert_true(went > 0);
    *sent += (size_t)went;
    return true;
}

/* Runs whose refusals nobody reads fill the engine's buffer; it must stop
 * reading rather than grow or block, and go on when it is read. */
static void
an_agent_that_does_not_read_is_waited_for(void **state)
{
    enum { RUNS = 8000 };
    struct agent agent;
    struct wire_job_run run = run_of(JOB_A, 1, 5);
    size_t sent = 0, answered = 0;

    (void)state;
    begin(&agent, 1);
    for (size_t i = 0; i < RUNS; i++)
        put(&agent, WIRE_JOB_RUN, &run); /* no input: bad_request */
    assert_false(agent.out.overflowed);
    while (sent < agent.out.size && send_some(&agent, &sent))
        continue;
    assert_true(sent < agent.out.size);
    while (answered < RUNS) {
        struct pollfd watched = {.fd = agent.fd, .events = POLLIN | POLLOUT};

        if (sent == agent.out.size)
            watched.events = POLLIN;
        assert_int_equal(poll(&watched, 1, ANSWER_MS), 1);
        if ((watched.revents & POLLOUT) != 0)
            assert_true(send_some(&agent, &sent));
        if ((watched.revents & POLLIN) != 0) {
            assert_int_equal(next(&agent), WIRE_JOB_FAIL);
            answered++;
        }
    }
    end(&agent, STATUS_OK);
}

static void
the_socket_is_private_and_a_stale_one_is_replaced(void **state)
{
    char folder[] = "/tmp/berth-serve-test-XXXXXX";
    char path[64];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat info;
    int listener, client, fd;
    struct error err;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/engine", folder);
    assert_int_equal(serve_listen(path, &listener, &err), STATUS_OK);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_not_equal(serve_listen(path, &fd, &err), STATUS_OK);
    close(listener); /* as if the engine had died: the file stays */
    assert_int_equal(serve_listen(path, &listener, &err), STATUS_OK);
    memcpy(address.sun_path, path, strlen(path) + 1);
    client = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(
        connect(client, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(serve_accept(listener, path, 5, &fd, &err), STATUS_OK);
    assert_int_not_equal(stat(path, &info), 0);
    close(client);
    close(fd);
    assert_int_equal(serve_listen(path, &listener, &err), STATUS_OK);
    assert_int_equal(serve_accept(listener, path, 0, &fd, &err), STATUS_RETRY);
    assert_int_equal(rmdir(folder), 0);
}

static void
a_path_over_107_bytes_is_refused_with_the_number(void **state)
{
    char path[109];
    int listener;
    struct error err;

    (void)state;
    memset(path, 'a', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(serve_listen(path, &listener, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "108"));
}

static void
a_broken_engine_says_why(void **state)
{
    struct agent agent = {.message = mem_alloc(sizeof(struct wire_message))};
    struct engine_options options = {.slots = 1};
    struct engine *engine = NULL;
    struct error err;
    int pair[2];

    (void)state;
    assert_int_not_equal(
        engine_open("tests/models/absent", &options, &engine, &err), STATUS_OK);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    serve_broken(pair[1], &err);
    agent.fd = pair[0];
    assert_int_equal(next(&agent), WIRE_ENGINE_BROKEN);
    assert_non_null(strstr(agent.message->engine_broken.text, "absent"));
    assert_true(agent.message->engine_broken.code[0] != '\0');
    close(pair[0]);
    free(agent.message);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ready_tells_what_the_engine_is),
        cmocka_unit_test(a_job_streams_its_ids_and_ends),
        cmocka_unit_test(the_first_id_comes_alone_and_at_once),
        cmocka_unit_test(done_ids_are_continued),
        cmocka_unit_test(a_cancel_in_prefill_stops_it),
        cmocka_unit_test(a_cancel_in_decode_stops_it),
        cmocka_unit_test(a_cancel_in_the_queue_starts_no_pass),
        cmocka_unit_test(runs_that_cannot_work_fail_with_the_numbers),
        cmocka_unit_test(frames_that_make_no_sense_are_ignored),
        cmocka_unit_test(a_run_that_does_not_fit_its_table_fails_the_job),
        cmocka_unit_test(what_has_failed_by_its_frame_is_forgotten),
        cmocka_unit_test(a_frame_above_the_maximum_ends_the_connection),
        cmocka_unit_test(
            the_engine_ends_with_its_socket_in_the_middle_of_a_job),
        cmocka_unit_test(an_agent_that_does_not_read_is_waited_for),
        cmocka_unit_test(the_socket_is_private_and_a_stale_one_is_replaced),
        cmocka_unit_test(a_path_over_107_bytes_is_refused_with_the_number),
        cmocka_unit_test(a_broken_engine_says_why),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
