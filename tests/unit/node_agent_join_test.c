/* node_agent_join_test.c - which homes may join, and in which state. */
#include "node-agent/join.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/cert.h"
#include "common/clock.h"
#include "common/log.h"

#include "common/banned.h"

#define NODE "01939a3c-7e40-7abc-8def-0123456789ab"

enum { DAYS = 90, DAY_S = 86400 };

struct place {
    char folder[64];
    struct home home;
};

static int
set_up(void **state)
{
    struct place *place = calloc(1, sizeof(*place));

    log_set_level(LOG_ERROR);
    snprintf(place->folder, sizeof(place->folder), "/tmp/berth-join-XXXXXX");
    assert_non_null(mkdtemp(place->folder));
    *state = place;
    return 0;
}

static int
tear_down(void **state)
{
    struct place *place = *state;
    char command[128];

    snprintf(command, sizeof(command), "rm -rf %s", place->folder);
    assert_int_equal(system(command), 0);
    free(place);
    return 0;
}

static void
write_identity(const struct home *home)
{
    struct identity identity = {.node = NODE, .host = "127.0.0.1", .port = 1};
    struct buf ca_key, request;

    buf_init(&identity.ca, CERT_PEM_MAX_BYTES);
    buf_init(&identity.cert, CERT_PEM_MAX_BYTES);
    buf_init(&identity.key, CERT_PEM_MAX_BYTES);
    buf_init(&ca_key, CERT_PEM_MAX_BYTES);
    buf_init(&request, CERT_PEM_MAX_BYTES);
    assert_int_equal(cert_ca_make("test", &identity.ca, &ca_key, NULL),
                     STATUS_OK);
    assert_int_equal(cert_request_make(&request, &identity.key, NULL),
                     STATUS_OK);
    assert_int_equal(cert_node_sign(identity.ca.data, ca_key.data, request.data,
                                    NODE, DAYS, &identity.cert, NULL),
                     STATUS_OK);
    assert_int_equal(identity_write(home, &identity, NULL), STATUS_OK);
    identity_clear(&identity);
    buf_clear(&ca_key);
    buf_clear(&request);
}

/* Joining with a token that is none: it is looked at where the home may join.
 */
static enum status
try_to_join(const struct home *home)
{
    const struct join_request request = {.url = "https://127.0.0.1:1",
                                         .token = "no token"};
    char node[UUID_TEXT_BYTES];
    char name[64];
    struct error err;

    return join_network(home, &request, name, sizeof(name), node, &err);
}

static void
a_node_whose_certificate_ran_out_may_join_again(void **state)
{
    struct place *place = *state;

    assert_int_equal(home_open(place->folder, true, &place->home, NULL),
                     STATUS_OK);
    assert_int_equal(try_to_join(&place->home), STATUS_INVALID);
    write_identity(&place->home);
    assert_int_equal(try_to_join(&place->home), STATUS_CONFLICT);
    clock_shift_wall(span_s((int64_t)(DAYS + 1) * DAY_S));
    assert_int_equal(try_to_join(&place->home), STATUS_INVALID);
    clock_shift_wall(span_s(-(int64_t)(DAYS + 1) * DAY_S));
    assert_int_equal(try_to_join(&place->home), STATUS_CONFLICT);
}

static void
a_home_that_others_may_write_in_is_refused_and_left_alone(void **state)
{
    struct place *place = *state;
    struct error err;
    struct stat info;

    assert_int_equal(chmod(place->folder, 01777), 0);
    assert_int_equal(home_open(place->folder, true, &place->home, &err),
                     STATUS_INVALID);
    assert_non_null(strstr(err.text, "others may write"));
    assert_int_equal(stat(place->folder, &info), 0);
    assert_int_equal(info.st_mode & 07777, 01777);
    assert_int_equal(chmod(place->folder, 0755), 0);
    assert_int_equal(home_open(place->folder, true, &place->home, &err),
                     STATUS_OK);
    assert_int_equal(stat(place->folder, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0755);
}

static void
a_missing_home_is_made_only_when_asked_for(void **state)
{
    struct place *place = *state;
    char path[128];
    struct stat info;

    snprintf(path, sizeof(path), "%s/home", place->folder);
    assert_int_equal(home_open(path, false, &place->home, NULL), STATUS_OK);
    assert_int_equal(access(path, F_OK), -1);
    assert_false(home_has(&place->home, "node.id"));
    assert_int_equal(home_open(path, true, &place->home, NULL), STATUS_OK);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0700);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_node_whose_certificate_ran_out_may_join_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_home_that_others_may_write_in_is_refused_and_left_alone, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(
            a_missing_home_is_made_only_when_asked_for, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
