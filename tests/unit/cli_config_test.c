/* cli_config_test.c - the stored configuration, the environment over it, and
 * which addresses are taken. */
#include "cli/config.h"

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

#include "cli/url.h"

#include "common/banned.h"

static char folder[64];
static char path[128];

static int
set_up(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/berth-cli-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    (void)snprintf(path, sizeof(path), "%s/deep/er/config", folder);
    (void)unsetenv("BERTH_URL");
    (void)unsetenv("BERTH_API_KEY");
    (void)unsetenv("BERTH_CA_FILE");
    return 0;
}

static int
tear_down(void **state)
{
    char name[128];

    (void)state;
    (void)unlink(path);
    (void)snprintf(name, sizeof(name), "%s/deep/er", folder);
    (void)rmdir(name);
    (void)snprintf(name, sizeof(name), "%s/deep", folder);
    (void)rmdir(name);
    return rmdir(folder);
}

static const struct cli_config stored = {
    .url = "https://a.example:8443",
    .ca_file = "/some where/ca.pem",
    .api_key = "sk-berth-00ff",
};

static void
what_was_written_is_read_back(void **state)
{
    struct cli_config config;
    struct stat info;

    (void)state;
    assert_int_equal(cli_config_write(path, &stored, NULL), STATUS_OK);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    assert_int_equal(cli_config_read(path, &config, NULL), STATUS_OK);
    assert_string_equal(config.url, stored.url);
    assert_string_equal(config.ca_file, stored.ca_file);
    assert_string_equal(config.api_key, stored.api_key);
    assert_false(config.is_plain);
}

static void
the_environment_wins(void **state)
{
    struct cli_config config;

    (void)state;
    assert_int_equal(cli_config_write(path, &stored, NULL), STATUS_OK);
    (void)setenv("BERTH_URL", "http://127.0.0.1:9/", 1);
    (void)setenv("BERTH_API_KEY", "other", 1);
    assert_int_equal(cli_config_read(path, &config, NULL), STATUS_OK);
    assert_string_equal(config.url, "http://127.0.0.1:9");
    assert_string_equal(config.api_key, "other");
    assert_string_equal(config.ca_file, stored.ca_file);
    assert_true(config.is_plain);
}

static void
a_file_that_others_can_read_is_refused(void **state)
{
    struct cli_config config;
    struct error err;

    (void)state;
    assert_int_equal(cli_config_write(path, &stored, NULL), STATUS_OK);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(cli_config_read(path, &config, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "chmod 600"));
}

static void
without_address_or_key_it_says_what_to_do(void **state)
{
    struct cli_config config;
    struct error err;

    (void)state;
    assert_int_equal(cli_config_read(path, &config, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "berth login"));
    assert_non_null(strstr(err.text, "BERTH_URL"));
    (void)setenv("BERTH_URL", "https://a.example", 1);
    assert_int_equal(cli_config_read(path, &config, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "BERTH_API_KEY"));
}

static void
a_key_with_a_line_end_never_becomes_a_header(void **state)
{
    struct cli_config config;

    (void)state;
    (void)setenv("BERTH_URL", "https://a.example", 1);
    (void)setenv("BERTH_API_KEY", "abc\r\nX-Evil: 1", 1);
    assert_int_equal(cli_config_read(path, &config, NULL), STATUS_INVALID);
}

static void
check_url(const char *text, enum status expected, const char *url)
{
    char out[CLI_URL_BYTES] = "";
    bool is_plain;

    assert_int_equal(cli_url_check(text, out, sizeof(out), &is_plain, NULL),
                     expected);
    assert_string_equal(out, url);
}

static void
plain_http_is_for_loopback_only(void **state)
{
    (void)state;
    check_url("http://127.0.0.1:8080", STATUS_OK, "http://127.0.0.1:8080");
    check_url("http://localhost:8080//", STATUS_OK, "http://localhost:8080");
    check_url("http://[::1]:80", STATUS_OK, "http://[::1]:80");
    check_url("http://127.0.0.1.example.org", STATUS_INVALID, "");
    check_url("http://localhost@example.org", STATUS_INVALID, "");
    check_url("http://192.168.1.2", STATUS_INVALID, "");
    check_url("https://192.168.1.2/", STATUS_OK, "https://192.168.1.2");
    check_url("ftp://127.0.0.1", STATUS_INVALID, "");
    check_url("coordinator", STATUS_INVALID, "");
    check_url("https://u:p@example.org", STATUS_INVALID, "");
    check_url("https://example.org/?a=b", STATUS_INVALID, "");
    check_url("", STATUS_INVALID, "");
    check_url("///", STATUS_INVALID, "");
}

static void
ids_cannot_leave_their_place_in_a_path(void **state)
{
    struct buf out;

    (void)state;
    buf_init(&out, 256);
    cli_url_escape(&out, "org/a b?c#d%\xc3\xa9", true);
    assert_string_equal(out.data, "org/a%20b%3Fc%23d%25%C3%A9");
    buf_reset(&out);
    buf_append_text(&out, "/x");
    cli_url_query(&out, "a", NULL);
    cli_url_query(&out, "b", "1&2");
    cli_url_query(&out, "c", "d/e");
    assert_string_equal(out.data, "/x?b=1%262&c=d%2Fe");
    buf_clear(&out);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_written_is_read_back, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_environment_wins, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_file_that_others_can_read_is_refused,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            without_address_or_key_it_says_what_to_do, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_key_with_a_line_end_never_becomes_a_header, set_up, tear_down),
        cmocka_unit_test(plain_http_is_for_loopback_only),
        cmocka_unit_test(ids_cannot_leave_their_place_in_a_path),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
