/* coordinator_auth_test.c - who gets in, and what the others are told. */
#include "coordinator/auth.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/banned.h"

/* `printf sk-berth-test | sha256sum` */
static const uint8_t digest[SHA256_BYTES] = {
    0xc1, 0xac, 0x4b, 0x50, 0x2b, 0x5b, 0x8a, 0x0d, 0xe6, 0xa3, 0x33,
    0x07, 0x0d, 0x47, 0x6b, 0x85, 0xaf, 0xd1, 0x23, 0x62, 0x48, 0xa7,
    0x4c, 0x36, 0x37, 0xa9, 0xdc, 0xe7, 0x79, 0x71, 0xd6, 0x53,
};
static const struct instant now = {.us = 1000000};
static struct key_view stored;
static struct identity_view view;
static struct key_view seen;
static struct error err;

static int
fresh(void **state)
{
    (void)state;
    stored = (struct key_view){
        .id = "01a22e9d-2f55-7fc1-8f7c-2e683d6fe126",
        .account = 7,
        .prefix = "sk-berth-test",
        .name = "laptop",
        .scopes = SCOPE_SUBMITTER,
    };
    memcpy(stored.digest, digest, sizeof(digest));
    view = (struct identity_view){.keys = &stored, .key_count = 1};
    memset(&seen, 0, sizeof(seen));
    memset(&err, 0, sizeof(err));
    return 0;
}

static enum status
check(const char *header, uint32_t scopes)
{
    return auth_check(&view, header, scopes, now, &seen, &err);
}

static void
a_known_key_with_the_scope_gets_in(void **state)
{
    (void)state;
    assert_int_equal(check("Bearer sk-berth-test", SCOPE_SUBMITTER), STATUS_OK);
    assert_int_equal(seen.account, 7);
    /* RFC 9110 11.1: the scheme's case does not matter. */
    assert_int_equal(check("bearer sk-berth-test", SCOPE_SUBMITTER), STATUS_OK);
}

static void
anything_else_is_an_unknown_caller(void **state)
{
    static const char *const headers[] = {
        NULL,     "",         "sk-berth-test",        "Basic sk-berth-test",
        "Bearer", "Bearer  ", "Bearer sk-berth-tesT", "Bearer sk-berth-test ",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(headers); i++) {
        assert_int_equal(check(headers[i], SCOPE_SUBMITTER),
                         STATUS_UNKNOWN_CALLER);
        assert_string_equal(err.code, "invalid_api_key");
        assert_non_null(strstr(err.text, "Authorization: Bearer"));
        assert_int_equal(seen.account, 0);
    }
}

static void
a_revoked_key_is_refused(void **state)
{
    (void)state;
    stored.revoked = true;
    assert_int_equal(check("Bearer sk-berth-test", SCOPE_SUBMITTER),
                     STATUS_UNKNOWN_CALLER);
    assert_non_null(strstr(err.text, "revoked"));
}

static void
a_key_ends_at_its_expiry(void **state)
{
    (void)state;
    stored.expiring = true;
    stored.expires.us = now.us + 1;
    assert_int_equal(check("Bearer sk-berth-test", SCOPE_SUBMITTER), STATUS_OK);
    stored.expires = now;
    assert_int_equal(check("Bearer sk-berth-test", SCOPE_SUBMITTER),
                     STATUS_UNKNOWN_CALLER);
    assert_non_null(strstr(err.text, "1970-01-01T00:00:01"));
}

static void
a_missing_scope_is_named(void **state)
{
    (void)state;
    assert_int_equal(
        check("Bearer sk-berth-test", SCOPE_OWNER | SCOPE_OPERATOR),
        STATUS_DENIED);
    assert_non_null(strstr(err.text, "owner or operator"));
    assert_string_equal(err.code, "scope_missing");
    assert_int_equal(seen.account, 0);
}

static void
the_key_itself_is_in_no_error(void **state)
{
    (void)state;
    assert_int_equal(check("Bearer sk-berth-secret", SCOPE_SUBMITTER),
                     STATUS_UNKNOWN_CALLER);
    assert_null(strstr(err.text, "secret"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_known_key_with_the_scope_gets_in, fresh),
        cmocka_unit_test_setup(anything_else_is_an_unknown_caller, fresh),
        cmocka_unit_test_setup(a_revoked_key_is_refused, fresh),
        cmocka_unit_test_setup(a_key_ends_at_its_expiry, fresh),
        cmocka_unit_test_setup(a_missing_scope_is_named, fresh),
        cmocka_unit_test_setup(the_key_itself_is_in_no_error, fresh),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
