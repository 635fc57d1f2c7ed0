/* common_conf_test.c - configuration files. */
#include "common/conf.h"

#include <unistd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/banned.h"

struct settings {
    char name[16];
    uint64_t wait_ms;
    uint64_t memory;
    bool on;
    char peer[3][24];
    size_t peer_count;
};

static const struct conf_key keys[] = {
    CONF_KEY(struct settings, name, CONF_TEXT, .min = 1, .fallback = "mini"),
    CONF_KEY(struct settings, wait_ms, CONF_U64, .min = 1, .max = 1000,
             .fallback = "250", .unit = "ms"),
    CONF_KEY(struct settings, memory, CONF_BYTES, .max = 1000000000000,
             .fallback = "1GiB"),
    CONF_KEY(struct settings, on, CONF_BOOL, .fallback = "yes"),
    CONF_KEY_LIST(struct settings, peer, peer_count, .fallback = "a:1"),
};

/* Read @text as a file named c in a folder of its own. */
static enum status
read_text(const char *text, size_t size, struct settings *settings,
          struct error *err)
{
    char folder[] = "/tmp/berth-conf-XXXXXX";
    char home[512];
    enum status status;

    assert_non_null(getcwd(home, sizeof(home)));
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(file_write_whole("c", text, size, 0600, err), STATUS_OK);
    status = conf_read("c", keys, COUNT_OF(keys), settings, err);
    assert_int_equal(unlink("c"), 0);
    assert_int_equal(chdir(home), 0);
    assert_int_equal(rmdir(folder), 0);
    return status;
}

static void
an_empty_file_leaves_the_defaults(void **state)
{
    struct settings settings = {.peer_count = 9};
    struct error err;

    (void)state;
    assert_int_equal(read_text("", 0, &settings, &err), STATUS_OK);
    assert_string_equal(settings.name, "mini");
    assert_int_equal(settings.wait_ms, 250);
    assert_int_equal(settings.memory, 1073741824);
    assert_true(settings.on);
    assert_int_equal(settings.peer_count, 1);
    assert_string_equal(settings.peer[0], "a:1");
}

static void
values_replace_defaults(void **state)
{
    static const char text[] = "# a comment\n"
                               "; another\n"
                               "\n"
                               "name = studio two\n"
                               "  wait_ms=7  \r\n"
                               "memory = 96GB\n"
                               "on = no\n"
                               "peer = b:2\n"
                               "\tpeer = c:3";
    struct settings settings = {0};
    struct error err = {.text = ""};

    (void)state;
    assert_int_equal(read_text(text, strlen(text), &settings, &err), STATUS_OK);
    assert_string_equal(settings.name, "studio two");
    assert_int_equal(settings.wait_ms, 7);
    assert_int_equal(settings.memory, 96000000000);
    assert_false(settings.on);
    assert_int_equal(settings.peer_count, 2);
    assert_string_equal(settings.peer[0], "b:2");
    assert_string_equal(settings.peer[1], "c:3");
}

static void
a_bad_line_is_named_with_what_is_allowed(void **state)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"\nwait_ms = 0\n", "c:2: wait_ms must be a whole number from 1 to "
                            "1000 ms, is \"0\""},
        {"wait_ms = 2s\n", "c:1: wait_ms must be a whole number from 1 to "
                           "1000 ms, is \"2s\""},
        {"memory = 2TB", "c:1: memory must be a size from 0 to 1000000000000 "
                         "bytes (as 4096, 512MiB, 96GB), is \"2TB\""},
        {"on = true\n", "c:1: on must be yes or no, is \"true\""},
        {"name =\n", "c:1: name must have 1 to 15 bytes, has 0"},
        {"name = 0123456789abcdef\n",
         "c:1: name must have 1 to 15 bytes, has 16"},
        {"on = yes\nnmae = x\n", "c:2: unknown key \"nmae\": take it out"},
        {"on = yes\n\non = no\n", "c:3: on is given twice"},
        {"peer=1\npeer=2\npeer=3\npeer=4\n",
         "c:4: peer may be given at most 3 times"},
        {"[part]\non = yes\n", "c:1: sections are not used here"},
        {"on = yes\nnonsense\n", "c:2: must be \"key = value\" or a comment"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct settings settings = {0};
        struct error err;

        assert_int_equal(
            read_text(cases[i].text, strlen(cases[i].text), &settings, &err),
            STATUS_INVALID);
        assert_string_equal(err.text, cases[i].error);
    }
}

/* A path below a deep folder is longer than any fixed line. */
static void
a_long_line_is_read_whole(void **state)
{
    static char text[70 * 1000] = "on = no\n#";
    struct settings settings = {0};
    struct error err;
    size_t size = strlen(text);

    (void)state;
    memset(text + size, 'x', 60 * 1000);
    size += 60 * 1000;
    memcpy(text + size, "\nname =", 7);
    memset(text + size + 7, ' ', 300);
    size += 307;
    memcpy(text + size, "mini\nname = y", 13);
    assert_int_equal(read_text(text, size + 5, &settings, &err), STATUS_OK);
    assert_string_equal(settings.name, "mini");
    assert_false(settings.on);
    assert_int_equal(read_text(text, size + 13, &settings, &err),
                     STATUS_INVALID);
    assert_string_equal(err.text, "c:4: name is given twice");
}

static void
signs_of_comments_within_a_value_belong_to_it(void **state)
{
    static const char text[] = "name = a ;b #c = d \n"
                               "peer = [::1]:2\n";
    struct settings settings = {0};
    struct error err;

    (void)state;
    assert_int_equal(read_text(text, strlen(text), &settings, &err), STATUS_OK);
    assert_string_equal(settings.name, "a ;b #c = d");
    assert_string_equal(settings.peer[0], "[::1]:2");
}

static void
a_nul_is_refused(void **state)
{
    struct settings settings = {0};
    struct error err;

    (void)state;
    assert_int_equal(read_text("on = y\0es", 9, &settings, &err),
                     STATUS_INVALID);
    assert_string_equal(err.text, "c:1: line contains a NUL");
}

static void
a_missing_file_is_not_found(void **state)
{
    struct settings settings = {0};
    struct error err;

    (void)state;
    assert_int_equal(
        conf_read("/nonexistent/c", keys, COUNT_OF(keys), &settings, &err),
        STATUS_NOT_FOUND);
}

static void
what_is_printed_reads_back_equal(void **state)
{
    struct settings settings = {.name = "x",
                                .wait_ms = 9,
                                .memory = 5000,
                                .peer = {"p:1", "q:2"},
                                .peer_count = 2};
    struct settings again = {0};
    struct error err;
    struct buf out;

    (void)state;
    buf_init(&out, 1000);
    conf_print(keys, COUNT_OF(keys), &settings, &out);
    assert_string_equal(out.data, "name = x\nwait_ms = 9\nmemory = 5000\n"
                                  "on = no\npeer = p:1\npeer = q:2\n");
    assert_int_equal(read_text(out.data, out.size, &again, &err), STATUS_OK);
    assert_memory_equal(&again, &settings, sizeof(again));
    buf_clear(&out);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_file_leaves_the_defaults),
        cmocka_unit_test(values_replace_defaults),
        cmocka_unit_test(a_bad_line_is_named_with_what_is_allowed),
        cmocka_unit_test(a_long_line_is_read_whole),
        cmocka_unit_test(signs_of_comments_within_a_value_belong_to_it),
        cmocka_unit_test(a_nul_is_refused),
        cmocka_unit_test(a_missing_file_is_not_found),
        cmocka_unit_test(what_is_printed_reads_back_equal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
