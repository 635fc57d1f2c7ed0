/* cli_commands_test.c - whole commands against a scripted coordinator: what
 * they ask, what they print, how they exit. */
#include "cli/commands.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "common/json.h"
#include "tests/unit/cli_loopback.h"

#include "common/banned.h"

#define JOB "01939a3c-7e40-7abc-8def-0123456789ab"

static char home[64];
static struct loopback server;
static struct buf out, complaint;

static int
set_up(void **state)
{
    (void)state;
    (void)snprintf(home, sizeof(home), "/tmp/berth-cli-XXXXXX");
    if (mkdtemp(home) == NULL)
        return -1;
    (void)setenv("HOME", home, 1);
    (void)setenv("BERTH_API_KEY", "sk-berth-1", 1);
    (void)unsetenv("BERTH_CA_FILE");
    buf_init(&out, 1 << 20);
    buf_init(&complaint, 1 << 20);
    loopback_listen(&server);
    return 0;
}

static int
tear_down(void **state)
{
    static const char *const names[] = {"/.config/berth/config",
                                        "/.config/berth", "/.config", "/in"};
    char path[256];

    (void)state;
    loopback_clear(&server);
    buf_clear(&out);
    buf_clear(&complaint);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        (void)snprintf(path, sizeof(path), "%s%s", home, names[i]);
        (void)remove(path);
    }
    return rmdir(home);
}

static void
start(const char *const *script, size_t count)
{
    char url[64];

    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u",
                   (unsigned)server.port);
    (void)setenv("BERTH_URL", url, 1);
    loopback_run(&server, script, count);
}

/* Run and stop the server; the exit status. @args end with NULL. */
static int
run(int (*command)(int, char **), const char *const *args)
{
    struct capture first, second;
    char *argv[16] = {NULL};
    int argc = 0, result;

    argv[argc++] = strdup("berth");
    for (; *args != NULL; args++)
        argv[argc++] = strdup(*args);
    capture_start(&first, STDOUT_FILENO);
    capture_start(&second, STDERR_FILENO);
    result = command(argc, argv);
    capture_end(&second, &complaint);
    capture_end(&first, &out);
    loopback_stop(&server);
    while (argc > 0)
        free(argv[--argc]);
    return result;
}

#define RUN(command_, ...)                                                     \
    run((command_), (const char *const[]){__VA_ARGS__, NULL})
#define RUN_BARE(command_) run((command_), (const char *const[]){NULL})
#define START(...)                                                             \
    static const char *const script[] = {__VA_ARGS__};                         \
                                                                               \
    (void)state;                                                               \
    start(script, COUNT_OF(script))

static void
check_asked(size_t index, const char *first_line, const char *body)
{
    const char *text = server.requests[index].data;
    const char *at = strstr(text, "\r\n\r\n");

    assert_true(index < server.request_count);
    assert_memory_equal(text, first_line, strlen(first_line));
    assert_non_null(at);
    if (body != NULL)
        assert_string_equal(at + 4, body);
}

/* Give a command standard input. */
static void
put_input(const char *text)
{
    char path[128];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/in", home);
    file = fopen(path, "w");
    assert_non_null(file);
    (void)fputs(text, file);
    (void)fclose(file);
    assert_non_null(freopen(path, "r", stdin));
}

static void
json_is_the_api_s_own(void **state)
{
    START(JSON_ANSWER("200 OK", "{\"object\":\"list\",\"data\":[],"
                                "\"next\":null}"));
    assert_int_equal(RUN(cli_jobs, "--json", "--state", "done"), 0);
    assert_string_equal(out.data,
                        "{\"object\":\"list\",\"data\":[],\"next\":null}\n");
    check_asked(0, "GET /api/v1/jobs?state=done HTTP/1.1\r\n", "");
}

static void
a_balance_is_a_table(void **state)
{
    START(JSON_ANSWER("200 OK", "{\"account\":3,\"available_ucr\":99998988000,"
                                "\"held_ucr\":1000,\"maturing_ucr\":0}"));
    assert_int_equal(RUN_BARE(cli_balance), 0);
    assert_string_equal(out.data,
                        "ACCOUNT     AVAILABLE      HELD  MATURING\n"
                        "      3  99998.988000  0.001000  0.000000\n");
}

static void
earnings_end_with_their_sum(void **state)
{
    START(JSON_ANSWER(
        "200 OK",
        "{\"object\":\"list\",\"data\":["
        "{\"model\":\"a\",\"credits_ucr\":950,\"jobs\":1,"
        "\"prompt_tokens\":20,\"completion_tokens\":8},"
        "{\"model\":\"b\",\"credits_ucr\":2000050,\"jobs\":2,"
        "\"prompt_tokens\":5,\"completion_tokens\":1}],\"next\":null}"));
    assert_int_equal(RUN(cli_earnings, "--by", "model"), 0);
    assert_string_equal(out.data,
                        "MODEL  NAME   CREDITS  JOBS  TOKENS IN  OUT\n"
                        "a      -     0.000950     1         20    8\n"
                        "b      -     2.000050     2          5    1\n"
                        "total  -     2.001000     3         25    9\n");
    check_asked(0, "GET /api/v1/earnings?by=model HTTP/1.1\r\n", "");
}

static void
no_pods_is_said_in_one_sentence(void **state)
{
    START(JSON_ANSWER("200 OK", "{\"object\":\"list\",\"data\":[],"
                                "\"next\":null,\"note\":\"x\"}"));
    assert_int_equal(RUN_BARE(cli_pods), 0);
    assert_memory_equal(out.data, "No pods yet: ", 13);
    assert_ptr_equal(strchr(out.data, '\n'), out.data + out.size - 1);
}

static void
a_submitter_sees_counts_of_nodes(void **state)
{
    START(JSON_ANSWER("200 OK", "{\"object\":\"counts\",\"nodes\":"
                                "{\"lending\":2,\"busy\":1}}"));
    assert_int_equal(RUN_BARE(cli_nodes), 0);
    assert_string_equal(out.data, "STATE    NODES\n"
                                  "lending      2\n"
                                  "busy         1\n");
}

static void
books_that_balance_exit_0(void **state)
{
    START(JSON_ANSWER("200 OK",
                      "{\"violations\":0,\"balance\":true,\"details\":[]}"));
    assert_int_equal(RUN_BARE(cli_ledger_check), 0);
    assert_string_equal(out.data, "books balance: yes\n");
}

static void
books_that_do_not_balance_exit_1(void **state)
{
    START(JSON_ANSWER("200 OK", "{\"violations\":1,\"balance\":false,"
                                "\"details\":[\"group 7: off by 1\"]}"));
    assert_int_equal(RUN_BARE(cli_ledger_check), 1);
    assert_string_equal(out.data, "books balance: no\n  group 7: off by 1\n");
}

static void
violations_outweigh_a_claim_of_balance(void **state)
{
    START(JSON_ANSWER("200 OK", "{\"violations\":1,\"balance\":true,"
                                "\"details\":[]}"));
    assert_int_equal(RUN_BARE(cli_ledger_check), 1);
    assert_string_equal(out.data, "books balance: no\n");
}

static void
an_error_is_one_line_with_its_code(void **state)
{
    START(JSON_ANSWER("403 Forbidden",
                      "{\"error\":{\"message\":\"operators only\",\"type\":"
                      "\"t\",\"param\":null,\"code\":\"denied\"}}"));
    assert_int_equal(RUN_BARE(cli_accounts), 1);
    assert_string_equal(complaint.data, "berth: operators only (denied)\n");
    assert_int_equal(out.size, 0);
}

static void
wrong_usage_exits_2_and_asks_nothing(void **state)
{
    START(JSON_ANSWER("200 OK", "{}"));
    assert_int_equal(RUN(cli_grant, "alice", "1.2345678"), 2);
    assert_int_equal(server.request_count, 0);
}

static void
a_grant_is_in_microcredits_with_a_key(void **state)
{
    START(JSON_ANSWER("201 Created",
                      "{\"id\":\"x\",\"account\":3,\"amount_ucr\":1250000,"
                      "\"balance\":{\"available_ucr\":2000000}}"));
    assert_int_equal(RUN(cli_grant, "alice", "1.25"), 0);
    assert_string_equal(out.data, "Gave 1.250000 credits to account alice; it "
                                  "has 2.000000 available.\n");
    check_asked(0, "POST /api/v1/grants HTTP/1.1\r\n",
                "{\"account\":\"alice\",\"amount_ucr\":1250000}");
    assert_non_null(strstr(server.requests[0].data, "\r\nIdempotency-Key: "));
}

static void
a_token_is_alone_on_standard_output(void **state)
{
    START(JSON_ANSWER("201 Created", "{\"token\":\"a.b.c\",\"id\":\"x\","
                                     "\"expires\":\"T\",\"owner\":3}"));
    assert_int_equal(RUN(cli_join_token, "--owner", "3", "--name", "n"), 0);
    assert_string_equal(out.data, "a.b.c\n");
    check_asked(0, "POST /api/v1/join-tokens HTTP/1.1\r\n",
                "{\"owner\":3,\"name\":\"n\"}");
}

static void
a_key_for_a_named_account_is_made_by_number(void **state)
{
    START(JSON_ANSWER("200 OK", "{\"data\":[{\"id\":3,\"name\":\"bob\"},"
                                "{\"id\":4,\"name\":\"alice\"}]}"),
          JSON_ANSWER("201 Created", "{\"key\":\"sk-berth-ff\"}"));
    assert_int_equal(RUN(cli_keys_add, "laptop", "--scopes", "owner,submitter",
                         "--account", "alice"),
                     0);
    assert_string_equal(out.data, "sk-berth-ff\n");
    check_asked(1, "POST /api/v1/keys HTTP/1.1\r\n",
                "{\"name\":\"laptop\",\"scopes\":[\"owner\",\"submitter\"],"
                "\"account\":4}");
}

static void
a_node_is_found_by_name_and_by_the_end_of_its_id(void **state)
{
    START(JSON_ANSWER("200 OK", "{\"data\":[{\"id\":\"" JOB "\",\"name\":"
                                "\"kind-fox\"}]}"),
          JSON_ANSWER("200 OK", "{}"));
    assert_int_equal(RUN(cli_node_drain, "456789ab"), 0);
    check_asked(1, "POST /api/v1/nodes/" JOB "/drain HTTP/1.1\r\n", NULL);
}

static void
an_end_that_two_ids_share_names_none(void **state)
{
    START(JSON_ANSWER("200 OK", "{\"data\":[{\"id\":\"1-456789ab\"},"
                                "{\"id\":\"2-456789ab\"}]}"));
    assert_int_equal(RUN(cli_node_drain, "456789ab"), 1);
    assert_int_equal(server.request_count, 1);
    assert_non_null(strstr(complaint.data, "more than one node"));
}

static void
a_model_is_removed_by_an_id_with_slashes(void **state)
{
    START(JSON_ANSWER("200 OK", "{}"));
    assert_int_equal(RUN(cli_models_remove, "org/model 1"), 0);
    check_asked(0, "DELETE /api/v1/catalogue/org/model%201 HTTP/1.1\r\n", "");
}

static void
a_model_is_added_without_its_weights(void **state)
{
    struct json_doc doc = {0};
    const struct json *files;
    const char *body;

    START(JSON_ANSWER("201 Created", "{}"));
    assert_int_equal(
        RUN(cli_models_add, "tests/models/tiny-chat", "--id", "tiny"), 0);
    body = strstr(server.requests[0].data, "\r\n\r\n") + 4;
    assert_int_equal(json_doc_parse(body, strlen(body), &doc, NULL), STATUS_OK);
    assert_string_equal(
        json_as_text(json_get(json_get(doc.root, "entry"), "id"), NULL),
        "tiny");
    files = json_get(doc.root, "files");
    assert_int_equal(json_count(files), 4);
    assert_non_null(json_get(files, "config.json"));
    assert_non_null(json_get(files, "tokenizer.json"));
    json_doc_clear(&doc);
}

static void
a_folder_without_a_model_is_not_sent(void **state)
{
    START(JSON_ANSWER("201 Created", "{}"));
    assert_int_equal(RUN(cli_models_add, "docs"), 1);
    assert_int_equal(server.request_count, 0);
}

static void
models_say_which_of_them_are_served(void **state)
{
    START(JSON_ANSWER("200 OK", "{\"data\":[{\"id\":\"a\"}]}"),
          JSON_ANSWER("200 OK",
                      "{\"data\":[{\"id\":\"a\",\"architecture\":\"qwen3\","
                      "\"quantisation\":\"bf16\",\"parameters\":596049920,"
                      "\"weight_bytes\":null,\"context\":4096,\"nodes\":2},"
                      "{\"id\":\"b\"}]}"));
    assert_int_equal(RUN_BARE(cli_models), 0);
    assert_string_equal(
        out.data,
        "MODEL  SERVED  KIND   WEIGHTS  PARAMETERS  SIZE  CONTEXT  NODES\n"
        "a      yes     qwen3  bf16         596.0M     -     4096      2\n"
        "b      no      -      -                 -     -        -      -\n");
}

static void
a_chat_is_written_as_it_comes(void **state)
{
    START(JSON_ANSWER("200 OK", "{\"data\":[{\"id\":\"m\"}]}"),
          STREAM_ANSWER(
              "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n"
              "data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\n"
              ": wait\n\n"
              "data: {\"choices\":[{\"delta\":{\"content\":\"lo\"},"
              "\"finish_reason\":null}]}\r\n\r\n"
              "data: {\"choices\":[{\"delta\":{},"
              "\"finish_reason\":\"stop\"}]}\n\n"
              "data: [DONE]\n\n"));
    assert_int_equal(RUN(cli_chat, "--temp", "0", "--max-tokens=5", "--system",
                         "be brief", "Hi \"you\""),
                     0);
    assert_string_equal(out.data, "Hello\n");
    check_asked(1, "POST /v1/chat/completions HTTP/1.1\r\n",
                "{\"model\":\"m\",\"messages\":[{\"role\":\"system\","
                "\"content\":\"be brief\"},{\"role\":\"user\",\"content\":"
                "\"Hi \\\"you\\\"\"}],\"stream\":true,\"temperature\":0,"
                "\"max_tokens\":5}");
}

static void
an_error_inside_the_stream_exits_1(void **state)
{
    START(STREAM_ANSWER(
        "data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\n"
        "data: {\"error\":{\"message\":\"the node left\",\"type\":\"t\","
        "\"param\":null,\"code\":\"target_lost\"}}\n\n"));
    assert_int_equal(RUN(cli_chat, "--model", "m", "Hi"), 1);
    assert_string_equal(out.data, "Hel\n");
    assert_string_equal(complaint.data, "berth: the node left (target_lost)\n");
}

static void
a_stream_without_its_end_exits_1(void **state)
{
    START(STREAM_ANSWER(
        "data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\n"));
    assert_int_equal(RUN(cli_chat, "--model", "m", "Hi"), 1);
    assert_int_equal(server.request_count, 1);
}

#define ANSWER(text_)                                                          \
    STREAM_ANSWER("data: {\"choices\":[{\"delta\":{\"content\":\"" text_       \
                  "\"}}]}\n\ndata: [DONE]\n\n")

static void
a_conversation_is_kept(void **state)
{
    START(ANSWER("one"), ANSWER("two"));
    put_input("first\n\nsecond");
    assert_int_equal(RUN(cli_chat, "--model", "m"), 0);
    assert_string_equal(out.data, "one\ntwo\n");
    check_asked(1, "POST /v1/chat/completions HTTP/1.1\r\n",
                "{\"model\":\"m\",\"messages\":[{\"role\":\"user\","
                "\"content\":\"first\"},{\"role\":\"assistant\",\"content\":"
                "\"one\"},{\"role\":\"user\",\"content\":\"second\"}],"
                "\"stream\":true}");
}

/* Not on a terminal: reasoning is left out. */
static void
calls_are_lines_of_their_own(void **state)
{
    START(STREAM_ANSWER(
        "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"Hm\"}}]}\n\n"
        "data: {\"choices\":[{\"delta\":{\"content\":\"So\"}}]}\n\n"
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":"
        "\"x\",\"type\":\"function\",\"function\":{\"name\":\"f\","
        "\"arguments\":\"\"}}]}}]}\n\n"
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,"
        "\"function\":{\"arguments\":\"{}\"}}]}}]}\n\n"
        "data: [DONE]\n\n"));
    assert_int_equal(RUN(cli_chat, "--model", "m", "Hi"), 0);
    assert_string_equal(out.data, "So\nf({})\n");
}

static void
without_stream_the_answer_comes_whole(void **state)
{
    START(JSON_ANSWER("200 OK", "{\"choices\":[{\"message\":{\"content\":"
                                "\"Hello\"}}]}"));
    assert_int_equal(RUN(cli_chat, "--model", "m", "--no-stream", "Hi"), 0);
    assert_string_equal(out.data, "Hello\n");
    assert_null(strstr(server.requests[0].data, "\"stream\""));
}

static void
ctrl_c_closes_the_connection_and_exits_130(void **state)
{
    static const char *const script[] = {STREAM_ANSWER(
        "data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\n")};
    char *argv[] = {strdup("berth"), strdup("--model"), strdup("m"),
                    strdup("Hi"), NULL};
    int status = 0;
    pid_t child;
    int gate[2];
    char go = 0;

    (void)state;
    assert_int_equal(pipe(gate), 0);
    (void)fflush(NULL);
    child = fork();
    if (child == 0) {
        char url[64];

        (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u",
                       (unsigned)server.port);
        (void)setenv("BERTH_URL", url, 1);
        if (read(gate[0], &go, 1) != 1 ||
            freopen("/dev/null", "w", stdout) == NULL)
            _exit(99);
        _exit(cli_chat(4, argv));
    }
    server.interrupted = child;
    start(script, 1);
    assert_int_equal(write(gate[1], &go, 1), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    loopback_stop(&server);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 130);
    assert_true(server.saw_close);
    (void)close(gate[0]);
    (void)close(gate[1]);
    for (size_t i = 0; i < 4; i++)
        free(argv[i]);
}

static void
a_job_is_followed_through_a_lost_connection(void **state)
{
    START(JSON_ANSWER("202 Accepted", "{\"id\":\"" JOB "\"}"),
          STREAM_ANSWER("id: 0\nevent: content\ndata: {\"text\":\"Hel\","
                        "\"choice\":0}\n\nid: 1\nevent: content\n"
                        "data: {\"text\":\"cut\""),
          JSON_ANSWER("200 OK", "{\"state\":\"running\",\"error\":null}"),
          STREAM_ANSWER("id: 1\nevent: content\ndata: {\"text\":\"lo\","
                        "\"choice\":0}\n\nid: 2\nevent: attempt\n"
                        "data: {\"number\":2}\n\nid: 3\nevent: finish\n"
                        "data: {\"finish_reason\":\"stop\"}\n\n"));
    assert_int_equal(RUN(cli_run, "--model", "m", "Hi"), 0);
    assert_string_equal(out.data, "Hello\n");
    check_asked(0, "POST /api/v1/jobs HTTP/1.1\r\n",
                "{\"kind\":\"chat\",\"request\":{\"model\":\"m\","
                "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}}");
    assert_non_null(strstr(server.requests[0].data, "\r\nIdempotency-Key: "));
    check_asked(1, "GET /api/v1/jobs/" JOB "/events HTTP/1.1\r\n", "");
    assert_null(strstr(server.requests[1].data, "Last-Event-ID"));
    assert_non_null(
        strstr(server.requests[3].data, "\r\nLast-Event-ID: 0\r\n"));
}

static void
a_job_that_failed_fails_the_command(void **state)
{
    START(JSON_ANSWER("202 Accepted", "{\"id\":\"" JOB "\"}"),
          STREAM_ANSWER("id: 0\nevent: error\ndata: {\"message\":\"too "
                        "long\",\"code\":\"context_length_exceeded\"}\n\n"));
    assert_int_equal(RUN(cli_run, "--model", "m", "Hi"), 1);
    assert_non_null(
        strstr(complaint.data, "berth: too long (context_length_exceeded)\n"));
}

static void
a_cancelled_job_fails_the_command(void **state)
{
    START(STREAM_ANSWER("id: 0\nevent: state\n"
                        "data: {\"state\":\"cancelled\"}\n\n"),
          JSON_ANSWER("200 OK", "{\"state\":\"cancelled\",\"error\":null}"));
    assert_int_equal(RUN(cli_job, JOB, "--follow"), 1);
    assert_string_equal(complaint.data, "berth: the job ended: cancelled\n");
}

static void
a_detached_job_prints_its_id_only(void **state)
{
    START(JSON_ANSWER("202 Accepted", "{\"id\":\"" JOB "\"}"));
    assert_int_equal(RUN(cli_run, "--model", "m", "--detach",
                         "--idempotency-key", "mine", "Hi"),
                     0);
    assert_string_equal(out.data, JOB "\n");
    assert_non_null(
        strstr(server.requests[0].data, "\r\nIdempotency-Key: mine\r\n"));
}

/* The example of docs/ledger.md at 1 GFLOP a token, as an operator sees it. */
static void
a_job_shows_its_life_and_the_price_with_its_working(void **state)
{
    START(JSON_ANSWER(
        "200 OK",
        "{\"id\":\"" JOB "\",\"model\":\"m\",\"state\":\"done\","
        "\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":50,"
        "\"total_tokens\":150},\"price_ucr\":2025000,\"hold_ucr\":5000000,"
        "\"price\":{\"prefill_ucr\":25000,\"decode_ucr\":2000000,"
        "\"fee_ucr\":101250,\"revision\":1,\"reprefill_ucr\":30000,"
        "\"cached_tokens\":0,\"ucr_per_tflop\":250000,\"ucr_per_gb\":10000,"
        "\"class_per_mille\":1000,\"minimum_ucr\":1000,\"fee_per_mille\":50,"
        "\"flop\":100000000000,\"bytes_moved\":200000000000},"
        "\"attempts\":[{\"number\":1,\"target\":{\"kind\":\"node\",\"id\":"
        "\"n1\",\"name\":\"mac-07\",\"members\":[\"n1\"]},"
        "\"started\":\"2026-11-30T21:44:00.000000Z\","
        "\"ended\":\"2026-11-30T21:44:06.500000Z\",\"ran_ms\":6500,"
        "\"end_reason\":\"node_lost\",\"end_text\":\"its node stopped "
        "answering\",\"done\":0,\"ids\":20,\"prefill_ucr\":23750,"
        "\"decode_ucr\":760000,\"reprefill_ucr\":0,"
        "\"predicted\":{\"ttft_ms\":12,\"tok_s\":50.5},"
        "\"observed\":{\"ttft_ms\":15.4,\"tok_s\":48.25},"
        "\"why\":[{\"target\":\"n1\",\"finish_ms\":170,\"verdict\":"
        "\"chosen\",\"reason\":\"\"},{\"target\":\"n2\",\"finish_ms\":null,"
        "\"verdict\":\"refused\",\"reason\":\"2 GB short\"}]},"
        "{\"number\":2,\"target\":{\"kind\":\"node\",\"id\":\"n2\","
        "\"name\":null,\"members\":[\"n2\"]},"
        "\"started\":\"2026-11-30T21:44:07.000000Z\","
        "\"ended\":\"2026-11-30T21:44:08.000000Z\",\"ran_ms\":1000,"
        "\"end_reason\":\"later_code\",\"end_text\":null,\"done\":20,"
        "\"ids\":30,\"prefill_ucr\":0,\"decode_ucr\":1140000,"
        "\"reprefill_ucr\":30000,\"predicted\":{\"ttft_ms\":14,"
        "\"tok_s\":40},\"observed\":{\"ttft_ms\":20,\"tok_s\":null},"
        "\"why\":[]}],\"result\":"
        "{\"choices\":[{\"message\":{\"content\":\"Hello\"}}]},"
        "\"error\":null}"));
    assert_int_equal(RUN(cli_job, JOB), 0);
    assert_string_equal(
        out.data,
        "job         " JOB "\n"
        "model       m\n"
        "state       done\n"
        "tokens      100 in, 50 out\n"
        "price       2.025000 credits, revision 1 of the price list\n"
        "              0.025000 for reading 100 tokens (prefill)\n"
        "                       0.100000 TFLOP x 0.250000 x 1.000\n"
        "            + 2.000000 for writing 50 tokens (decode)\n"
        "                       200.000000 GB moved x 0.010000 x 1.000\n"
        "            = 2.025000\n"
        "              0.101250 of it the fee, 50 per mille; 0.030000 of that "
        "for reading again\n"
        "divided     the network: 0.071250\n"
        "            attempt 1: 0.023750 prefill + 0.760000 decode\n"
        "            attempt 2: 1.140000 decode + 0.030000 re-prefill\n"
        "\n"
        "attempt 1 on node mac-07 (n1)\n"
        "    started       2026-11-30T21:44:00.000000Z, ended after 6.500 s\n"
        "    delivered     20 tokens\n"
        "    end           its node stopped answering (node_lost)\n"
        "    predicted     first token after 12 ms, then 50.5 tokens/s\n"
        "    observed      first token after 15 ms, then 48.2 tokens/s\n"
        "    chosen        n1, finishes in 170 ms\n"
        "    refused       n2: 2 GB short\n"
        "\n"
        "attempt 2 on node n2\n"
        "    started       2026-11-30T21:44:07.000000Z, ended after 1.000 s\n"
        "    given         20 tokens of earlier attempts\n"
        "    delivered     30 tokens\n"
        "    end           later_code\n"
        "    predicted     first token after 14 ms, then 40.0 tokens/s\n"
        "    observed      first token after 20 ms\n"
        "\n"
        "Hello\n");
}

/* A failed job as its submitter sees it, of a coordinator that knows neither
 * the work nor the division (a settlement of version 1). */
static void
a_job_of_which_less_is_known_shows_less(void **state)
{
    START(JSON_ANSWER(
        "200 OK",
        "{\"id\":\"" JOB "\",\"model\":\"m\",\"state\":\"failed\","
        "\"usage\":{\"prompt_tokens\":20,\"completion_tokens\":8,"
        "\"total_tokens\":28},\"price_ucr\":1000,\"hold_ucr\":5000,"
        "\"price\":{\"prefill_ucr\":400,\"decode_ucr\":600,\"fee_ucr\":50,"
        "\"revision\":1,\"reprefill_ucr\":null,\"cached_tokens\":0,"
        "\"minimum_ucr\":1000,\"fee_per_mille\":50,\"flop\":null,"
        "\"bytes_moved\":null},\"attempts\":[{\"number\":1,\"target\":"
        "{\"kind\":\"node\",\"seat\":\"max\",\"chip\":\"Apple M4 Max\","
        "\"memory_bytes\":64000000000},\"end_reason\":null,\"ids\":8,"
        "\"prefill_ucr\":null,\"decode_ucr\":null,\"reprefill_ucr\":null,"
        "\"predicted\":{\"ttft_ms\":12,\"tok_s\":50.5},\"observed\":null,"
        "\"why\":[{\"verdict\":\"chosen\",\"count\":1,"
        "\"finish_ms\":170},{\"verdict\":\"refused\",\"count\":2},{\"verdict\":"
        "\"slower\",\"count\":1}]}],"
        "\"result\":null,"
        "\"error\":{\"message\":\"no target: try again\",\"code\":"
        "\"target_lost\"}}"));
    assert_int_equal(RUN(cli_job, JOB), 0);
    assert_string_equal(
        out.data,
        "job         " JOB "\n"
        "model       m\n"
        "state       failed\n"
        "tokens      20 in, 8 out\n"
        "price       0.001000 credits, revision 1 of the price list\n"
        "              0.000400 for reading 20 tokens (prefill)\n"
        "            + 0.000600 for writing 8 tokens (decode)\n"
        "            = 0.001000, the smallest charge\n"
        "              0.000050 of it the fee, 50 per mille\n"
        "error       no target: try again (target_lost)\n"
        "\n"
        "attempt 1 on max node with Apple M4 Max, 64.0 GB\n"
        "    delivered     8 tokens\n"
        "    end           going on\n"
        "    predicted     first token after 12 ms, then 50.5 tokens/s\n"
        "    chosen        this target, finishes in 170 ms\n"
        "    refused       2 others\n"
        "    slower        1 other\n");
}

static void
a_login_stores_what_worked_for_this_user_only(void **state)
{
    char path[128], text[512];
    struct stat info;
    size_t size;
    FILE *file;

    START(JSON_ANSWER("200 OK", "{\"data\":[]}"));
    put_input("sk-berth-typed\n");
    assert_int_equal(RUN_BARE(cli_login), 0);
    assert_non_null(strstr(server.requests[0].data,
                           "Authorization: Bearer sk-berth-typed\r\n"));
    (void)snprintf(path, sizeof(path), "%s/.config/berth/config", home);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    file = fopen(path, "r");
    assert_non_null(file);
    size = fread(text, 1, sizeof(text) - 1, file);
    text[size] = '\0';
    (void)fclose(file);
    assert_non_null(strstr(text, "api_key = sk-berth-typed\n"));
    assert_null(strstr(out.data, "typed"));
}

static void
a_login_that_is_refused_stores_nothing(void **state)
{
    char path[128];
    struct stat info;

    START(JSON_ANSWER("401 Unauthorized",
                      "{\"error\":{\"message\":\"no such key\",\"code\":"
                      "\"invalid_api_key\"}}"));
    put_input("sk-berth-wrong\n");
    assert_int_equal(RUN_BARE(cli_login), 1);
    (void)snprintf(path, sizeof(path), "%s/.config/berth/config", home);
    assert_int_equal(stat(path, &info), -1);
}

static void
without_a_coordinator_it_exits_2(void **state)
{
    START(JSON_ANSWER("200 OK", "{}"));
    (void)unsetenv("BERTH_URL");
    assert_int_equal(RUN_BARE(cli_nodes), 2);
    assert_non_null(strstr(complaint.data, "berth login"));
}

#define CASE(name_) cmocka_unit_test_setup_teardown(name_, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(json_is_the_api_s_own),
        CASE(a_balance_is_a_table),
        CASE(earnings_end_with_their_sum),
        CASE(no_pods_is_said_in_one_sentence),
        CASE(a_submitter_sees_counts_of_nodes),
        CASE(books_that_balance_exit_0),
        CASE(books_that_do_not_balance_exit_1),
        CASE(violations_outweigh_a_claim_of_balance),
        CASE(an_error_is_one_line_with_its_code),
        CASE(wrong_usage_exits_2_and_asks_nothing),
        CASE(a_grant_is_in_microcredits_with_a_key),
        CASE(a_token_is_alone_on_standard_output),
        CASE(a_key_for_a_named_account_is_made_by_number),
        CASE(a_node_is_found_by_name_and_by_the_end_of_its_id),
        CASE(an_end_that_two_ids_share_names_none),
        CASE(a_model_is_removed_by_an_id_with_slashes),
        CASE(a_model_is_added_without_its_weights),
        CASE(a_folder_without_a_model_is_not_sent),
        CASE(models_say_which_of_them_are_served),
        CASE(a_chat_is_written_as_it_comes),
        CASE(an_error_inside_the_stream_exits_1),
        CASE(a_stream_without_its_end_exits_1),
        CASE(a_conversation_is_kept),
        CASE(calls_are_lines_of_their_own),
        CASE(without_stream_the_answer_comes_whole),
        CASE(ctrl_c_closes_the_connection_and_exits_130),
        CASE(a_job_is_followed_through_a_lost_connection),
        CASE(a_job_that_failed_fails_the_command),
        CASE(a_cancelled_job_fails_the_command),
        CASE(a_detached_job_prints_its_id_only),
        CASE(a_job_shows_its_life_and_the_price_with_its_working),
        CASE(a_job_of_which_less_is_known_shows_less),
        CASE(a_login_stores_what_worked_for_this_user_only),
        CASE(a_login_that_is_refused_stores_nothing),
        CASE(without_a_coordinator_it_exits_2),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
