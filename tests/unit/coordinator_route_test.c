/* coordinator_route_test.c - which path leads where, and what is open. */
#include "coordinator/route.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "coordinator/api.h"

#include "common/banned.h"

static char param[REQUEST_PARAM_BYTES];
static char allow[ROUTE_ALLOW_BYTES];

static const struct route *
found(const char *method, const char *path)
{
    const struct route *route = NULL;

    return route_find(method, path, &route, param, allow) == ROUTE_FOUND ? route
                                                                         : NULL;
}

static enum route_result
result(const char *method, const char *path)
{
    const struct route *route;

    return route_find(method, path, &route, param, allow);
}

static void
only_four_routes_take_no_key(void **state)
{
    static const char *const open[] = {"/healthz", "/readyz", "/ca.pem",
                                       "/api/v1/join"};
    size_t count = 0;

    (void)state;
    for (size_t i = 0; i < route_count; i++)
        count += routes[i].scopes == 0 ? 1 : 0;
    assert_int_equal(count, COUNT_OF(open));
    for (size_t i = 0; i < COUNT_OF(open); i++)
        assert_int_equal(found(i == 3 ? "POST" : "GET", open[i])->scopes, 0);
}

static void
a_model_id_may_hold_slashes(void **state)
{
    (void)state;
    assert_ptr_equal(found("GET", "/v1/models/org/name:4bit")->handler,
                     api_model_get);
    assert_string_equal(param, "org/name:4bit");
    assert_ptr_equal(found("GET", "/v1/models")->handler, api_models_list);
    assert_string_equal(param, "");
}

static void
a_job_id_may_not(void **state)
{
    (void)state;
    assert_ptr_equal(found("GET", "/api/v1/jobs/abc")->handler, api_job_get);
    assert_string_equal(param, "abc");
    assert_ptr_equal(found("GET", "/api/v1/jobs/abc/events")->handler,
                     api_job_events);
    assert_string_equal(param, "abc");
    assert_int_equal(result("GET", "/api/v1/jobs/a/b"), ROUTE_NO_PATH);
}

static void
a_slash_at_the_end_is_another_path(void **state)
{
    (void)state;
    assert_int_equal(result("GET", "/v1/models/"), ROUTE_NO_PATH);
    assert_int_equal(result("GET", "/healthz/"), ROUTE_NO_PATH);
    assert_int_equal(result("GET", "/api/v1/jobs//events"), ROUTE_NO_PATH);
    assert_int_equal(result("GET", ""), ROUTE_NO_PATH);
    assert_int_equal(result("GET", "/"), ROUTE_NO_PATH);
}

static void
another_method_is_told_which_there_are(void **state)
{
    (void)state;
    assert_int_equal(result("OPTIONS", "/api/v1/jobs/x"), ROUTE_NO_METHOD);
    assert_string_equal(allow, "GET, HEAD, DELETE");
    assert_int_equal(result("GET", "/v1/chat/completions"), ROUTE_NO_METHOD);
    assert_string_equal(allow, "POST");
}

static void
head_is_answered_by_get(void **state)
{
    (void)state;
    assert_ptr_equal(found("HEAD", "/healthz")->handler, api_healthz);
    assert_int_equal(result("HEAD", "/v1/completions"), ROUTE_NO_METHOD);
}

static void
too_long_an_id_finds_nothing(void **state)
{
    char path[REQUEST_PARAM_BYTES + 32] = "/v1/models/";
    size_t at = strlen(path);

    (void)state;
    memset(path + at, 'x', REQUEST_PARAM_BYTES);
    assert_int_equal(result("GET", path), ROUTE_NO_PATH);
}

static void
every_row_is_found_by_its_own_path(void **state)
{
    (void)state;
    for (size_t i = 0; i < route_count; i++)
        assert_ptr_equal(found(routes[i].method, routes[i].path), &routes[i]);
}

/* RFC 3986 2.1: two hex digits of either case; all else stays. */
static void
escapes_are_decoded_once(void **state)
{
    static const char *const cases[][2] = {
        {"a%2Fb", "a/b"}, {"%41%7a", "Az"},       {"%252F", "%2F"},
        {"%", "%"},       {"%4", "%4"},           {"%zz%20", "%zz "},
        {"%00x", "%00x"}, {"%c3%A4", "\xc3\xa4"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[16];

        memcpy(text, cases[i][0], strlen(cases[i][0]) + 1);
        assert_int_equal(route_unescape(text), strlen(cases[i][1]));
        assert_string_equal(text, cases[i][1]);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_four_routes_take_no_key),
        cmocka_unit_test(a_model_id_may_hold_slashes),
        cmocka_unit_test(a_job_id_may_not),
        cmocka_unit_test(a_slash_at_the_end_is_another_path),
        cmocka_unit_test(another_method_is_told_which_there_are),
        cmocka_unit_test(head_is_answered_by_get),
        cmocka_unit_test(too_long_an_id_finds_nothing),
        cmocka_unit_test(every_row_is_found_by_its_own_path),
        cmocka_unit_test(escapes_are_decoded_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
