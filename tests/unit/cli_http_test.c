/* cli_http_test.c - the client against a scripted server on loopback. */
#include "cli/http.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/cli_loopback.h"

#include "common/banned.h"

static struct loopback server;
static struct cli_http *http;

static void
start(const char *const *script, size_t count)
{
    struct cli_config config = {.api_key = "sk-berth-1", .is_plain = true};

    loopback_listen(&server);
    (void)snprintf(config.url, sizeof(config.url), "http://127.0.0.1:%u",
                   (unsigned)server.port);
    loopback_run(&server, script, count);
    assert_int_equal(cli_http_new(&config, &http, NULL), STATUS_OK);
}

static void
stop(size_t expected_requests)
{
    cli_http_free(http);
    loopback_stop(&server);
    assert_int_equal(server.request_count, expected_requests);
    loopback_clear(&server);
}

static void
check_call(const struct cli_request *request, enum status expected,
           const char *text, struct error *err)
{
    struct buf answer;

    buf_init(&answer, 65536);
    assert_int_equal(cli_http_call(http, request, &answer, err), expected);
    if (text != NULL)
        assert_string_equal(answer.data, text);
    buf_clear(&answer);
}

static const struct cli_request get = {.method = "GET", .path = "/x?a=b"};
static const struct cli_request post = {
    .method = "POST", .path = "/y", .body = "{\"a\":1}", .body_size = 7};

static void
a_request_carries_key_body_and_headers(void **state)
{
    static const char *const script[] = {JSON_ANSWER("201 Created", "{}")};
    struct cli_request request = post;
    const char *seen;

    (void)state;
    request.idempotency_key = "once";
    start(script, 1);
    check_call(&request, STATUS_OK, "{}", NULL);
    seen = server.requests[0].data;
    assert_non_null(strstr(seen, "POST /y HTTP/1.1\r\n"));
    assert_non_null(strstr(seen, "\r\nAuthorization: Bearer sk-berth-1\r\n"));
    assert_non_null(strstr(seen, "\r\nContent-Type: application/json\r\n"));
    assert_non_null(strstr(seen, "\r\nIdempotency-Key: once\r\n"));
    assert_non_null(strstr(seen, "\r\n\r\n{\"a\":1}"));
    stop(1);
}

static void
a_refusal_becomes_its_status_message_and_code(void **state)
{
    static const char *const script[] = {JSON_ANSWER(
        "402 Payment Required",
        "{\"error\":{\"message\":\"no credit\",\"type\":\"billing\","
        "\"param\":null,\"code\":\"insufficient_credit\"}}")};
    struct error err;

    (void)state;
    start(script, 1);
    check_call(&get, STATUS_NO_FUNDS, NULL, &err);
    assert_string_equal(err.text, "no credit");
    assert_string_equal(err.code, "insufficient_credit");
    stop(1);
}

static void
a_get_is_sent_twice_at_most(void **state)
{
    static const char *const script[] = {NO_ANSWER, NO_ANSWER,
                                         JSON_ANSWER("200 OK", "{}")};

    (void)state;
    start(script, COUNT_OF(script));
    check_call(&get, STATUS_RETRY, NULL, NULL);
    stop(2);
}

static void
a_get_that_worked_the_second_time_worked(void **state)
{
    static const char *const script[] = {
        JSON_ANSWER("503 Service Unavailable", "{\"error\":\"half\"}"),
        JSON_ANSWER("200 OK", "{\"b\":2}")};

    (void)state;
    start(script, COUNT_OF(script));
    check_call(&get, STATUS_OK, "{\"b\":2}", NULL);
    stop(2);
}

static void
a_post_without_idempotency_key_is_sent_once(void **state)
{
    static const char *const script[] = {NO_ANSWER,
                                         JSON_ANSWER("200 OK", "{}")};

    (void)state;
    start(script, COUNT_OF(script));
    check_call(&post, STATUS_RETRY, NULL, NULL);
    stop(1);
}

static void
a_post_with_idempotency_key_is_sent_again(void **state)
{
    static const char *const script[] = {NO_ANSWER,
                                         JSON_ANSWER("200 OK", "{}")};
    struct cli_request request = post;

    (void)state;
    request.idempotency_key = "once";
    start(script, COUNT_OF(script));
    check_call(&request, STATUS_OK, "{}", NULL);
    assert_non_null(
        strstr(server.requests[1].data, "\r\nIdempotency-Key: once\r\n"));
    stop(2);
}

/* Sent without its key the request might be done twice. */
static void
a_key_that_fits_no_header_is_refused_before_sending(void **state)
{
    static const char *const script[] = {JSON_ANSWER("200 OK", "{}")};
    struct cli_request request = post;
    char key[2000];

    (void)state;
    memset(key, 'k', sizeof(key));
    key[sizeof(key) - 1] = '\0';
    request.idempotency_key = key;
    start(script, 1);
    check_call(&request, STATUS_INVALID, NULL, NULL);
    check_call(&post, STATUS_OK, "{}", NULL);
    stop(1);
}

static void
a_redirect_is_not_followed(void **state)
{
    static const char *const script[] = {
        "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\n"
        "Content-Length: 0\r\n\r\n"};

    (void)state;
    start(script, 1);
    check_call(&get, STATUS_INVALID, NULL, NULL);
    stop(1);
}

static void
an_answer_over_the_maximum_is_refused(void **state)
{
    static const char *const script[] = {
        JSON_ANSWER("200 OK", "{\"text\":\"0123456789\"}")};
    struct buf answer;

    (void)state;
    start(script, 1);
    buf_init(&answer, 8);
    assert_int_equal(cli_http_call(http, &get, &answer, NULL),
                     STATUS_TOO_LARGE);
    buf_clear(&answer);
    stop(1);
}

static bool
take_all(void *arg, const char *bytes, size_t size)
{
    buf_append(arg, bytes, size);
    return true;
}

static bool
take_first(void *arg, const char *bytes, size_t size)
{
    (void)take_all(arg, bytes, size);
    return false;
}

static void
a_stream_may_be_ended_by_its_reader(void **state)
{
    static const char *const script[] = {STREAM_ANSWER("data: 1\n\n")};
    struct buf seen;

    (void)state;
    start(script, 1);
    buf_init(&seen, 4096);
    assert_int_equal(cli_http_stream(http, &get, take_first, &seen, NULL),
                     STATUS_OK);
    assert_string_equal(seen.data, "data: 1\n\n");
    assert_non_null(
        strstr(server.requests[0].data, "\r\nAccept: text/event-stream\r\n"));
    buf_clear(&seen);
    stop(1);
}

static void
a_refused_stream_gives_nothing_to_its_reader(void **state)
{
    static const char *const script[] = {JSON_ANSWER(
        "404 Not Found", "{\"error\":{\"message\":\"none\",\"code\":\"x\"}}")};
    struct error err;
    struct buf seen;

    (void)state;
    start(script, 1);
    buf_init(&seen, 4096);
    assert_int_equal(cli_http_stream(http, &get, take_all, &seen, &err),
                     STATUS_NOT_FOUND);
    assert_int_equal(seen.size, 0);
    assert_string_equal(err.text, "none");
    buf_clear(&seen);
    stop(1);
}

static void
a_stream_cut_short_is_a_failure(void **state)
{
    static const char *const script[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ndata: 1\n\n"};
    struct buf seen;

    (void)state;
    start(script, 1);
    buf_init(&seen, 4096);
    assert_int_equal(cli_http_stream(http, &get, take_all, &seen, NULL),
                     STATUS_RETRY);
    assert_string_equal(seen.data, "data: 1\n\n");
    buf_clear(&seen);
    stop(1);
}

static void
every_http_number_has_a_status(void **state)
{
    static const struct {
        long number;
        enum status status;
    } rows[] = {
        {400, STATUS_INVALID},     {401, STATUS_UNKNOWN_CALLER},
        {402, STATUS_NO_FUNDS},    {403, STATUS_DENIED},
        {404, STATUS_NOT_FOUND},   {409, STATUS_CONFLICT},
        {413, STATUS_TOO_LARGE},   {418, STATUS_INVALID},
        {429, STATUS_NO_CAPACITY}, {500, STATUS_INTERNAL},
        {502, STATUS_RETRY},       {503, STATUS_RETRY},
        {504, STATUS_RETRY},       {599, STATUS_INTERNAL},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct error err;

        assert_int_equal(cli_http_refusal(rows[i].number, "<html>", 6, &err),
                         rows[i].status);
        assert_non_null(strstr(err.text, "HTTP"));
    }
}

static void
a_ca_file_that_is_not_there_is_named(void **state)
{
    struct cli_config config = {.url = "https://localhost:1",
                                .ca_file = "/no/such/ca.pem"};
    struct error err;

    (void)state;
    assert_int_equal(cli_http_new(&config, &http, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "/no/such/ca.pem"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_carries_key_body_and_headers),
        cmocka_unit_test(a_refusal_becomes_its_status_message_and_code),
        cmocka_unit_test(a_get_is_sent_twice_at_most),
        cmocka_unit_test(a_get_that_worked_the_second_time_worked),
        cmocka_unit_test(a_post_without_idempotency_key_is_sent_once),
        cmocka_unit_test(a_post_with_idempotency_key_is_sent_again),
        cmocka_unit_test(a_key_that_fits_no_header_is_refused_before_sending),
        cmocka_unit_test(a_redirect_is_not_followed),
        cmocka_unit_test(an_answer_over_the_maximum_is_refused),
        cmocka_unit_test(a_stream_may_be_ended_by_its_reader),
        cmocka_unit_test(a_refused_stream_gives_nothing_to_its_reader),
        cmocka_unit_test(a_stream_cut_short_is_a_failure),
        cmocka_unit_test(every_http_number_has_a_status),
        cmocka_unit_test(a_ca_file_that_is_not_there_is_named),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
