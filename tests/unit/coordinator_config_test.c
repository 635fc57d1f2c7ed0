/* coordinator_config_test.c - what a file may set, with and without --dev. */
#include "coordinator/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/banned.h"

static void
file_make(char path[64], const char *text)
{
    int fd;

    (void)snprintf(path, 64, "/tmp/berth-config-XXXXXX");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void
under_dev_a_file_sets_numbers(void **state)
{
    struct config config;
    char path[64];

    (void)state;
    file_make(path, "beat_s = 2\nstall_s = 3\nadrift_s = 0\npoison_s = 4\n"
                    "http_timeout_s = 5\nhttps_port = 0\n");
    assert_int_equal(config_read_dev(path, &config, NULL), STATUS_OK);
    assert_int_equal(config.beat_s, 2);
    assert_int_equal(config.stall_s, 3);
    assert_int_equal(config.adrift_s, 0);
    assert_int_equal(config.poison_s, 4);
    assert_int_equal(config.http_timeout_s, 5);
    assert_int_equal(config.https_port, 0);
    unlink(path);
}

static void
under_dev_a_file_sets_nothing_that_dev_provides(void **state)
{
    static const char *const lines[] = {
        "database = dbname=postgres\n", "ca_key = /tmp/ca.key\n",
        "https_address = 127.0.0.1\n", "content_keys = /tmp\n",
        "link_address = 10.0.0.1\n",
    };
    struct config config;
    struct error err = {0};
    char path[64];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        file_make(path, lines[i]);
        assert_int_equal(config_read_dev(path, &config, &err), STATUS_INVALID);
        unlink(path);
        assert_int_equal(strncmp(err.text, path, strlen(path)), 0);
    }
}

static void
what_is_missing_stays_at_its_default(void **state)
{
    struct config config;
    char path[64];

    (void)state;
    file_make(path, "# nothing\n");
    assert_int_equal(config_read_dev(path, &config, NULL), STATUS_OK);
    assert_int_equal(config.beat_s, 10);
    assert_int_equal(config.stall_s, 60);
    assert_int_equal(config.adrift_s, 10);
    assert_int_equal(config.poison_s, 30);
    unlink(path);
    assert_int_equal(config_read_dev(path, &config, NULL), STATUS_INVALID);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(under_dev_a_file_sets_numbers),
        cmocka_unit_test(under_dev_a_file_sets_nothing_that_dev_provides),
        cmocka_unit_test(what_is_missing_stays_at_its_default),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
