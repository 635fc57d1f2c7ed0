/* coordinator_end_reason_test.c - words for the ends of attempts. */
#include "coordinator/end_reason.h"

#include <setjmp.h>
#include <stdarg.h>
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/attrs.h"

#include "common/banned.h"

static void
a_code_has_words_and_an_unknown_one_has_none(void **state)
{
    (void)state;
    assert_string_equal(end_reason_text("node_lost"),
                        "its node stopped answering");
    assert_string_equal(end_reason_text("owner_returned"),
                        "the owner wanted the machine back");
    assert_null(end_reason_text("node_los"));
    assert_null(end_reason_text(""));
}

static void
the_page_of_the_api_shows_this_very_table(void **state)
{
    static const char begin[] = "<!-- end reasons -->\n";
    static const char end[] = "<!-- end of end reasons -->";
    struct buf page, table;
    const char *from, *to;

    (void)state;
    buf_init(&page, 1024 * 1024);
    buf_init(&table, 64 * 1024);
    assert_int_equal(buf_read_file(&page, "docs/api.md", NULL), STATUS_OK);
    from = strstr(page.data, begin);
    assert_non_null(from);
    from += strlen(begin);
    to = strstr(from, end);
    assert_non_null(to);
    end_reasons_print(&table);
    assert_int_equal(to - from, table.size);
    assert_memory_equal(from, table.data, table.size);
    buf_clear(&page);
    buf_clear(&table);
}

/* Functions that end attempts with a code. */
static const char *const enders[] = {
    "job_lose(",     "jobs_lose_all(",     "job_attempt_close(",
    "core_cancel(",  "engines_refuse(",    "engines_end_jobs(",
    "fail_jobs_of(", "engines_break_off(", "engines_end(",
    "send_fail(",
};

/* Words in quotes are codes, texts have blanks. */
static int
check_call(const char *path, const char *call)
{
    const char *end = call + strcspn(call, ";{");
    int count = 0;

    for (const char *at = call; (at = strchr(at, '"')) != NULL && at < end;
         at++) {
        size_t size = strcspn(++at, "\"");
        char code[64] = "";

        if (size > 0 && size < sizeof(code) &&
            strspn(at, "abcdefghijklmnopqrstuvwxyz_") == size) {
            memcpy(code, at, size);
            if (end_reason_text(code) == NULL)
                fail_msg("%s: %s has no words", path, code);
            count++;
        }
        at += size;
    }
    return count;
}

static int
check_calls(const char *path, const char *source, const char *ender)
{
    int count = 0;

    for (const char *at = strstr(source, ender); at != NULL;
         at = strstr(at + 1, ender))
        count += check_call(path, at);
    return count;
}

static int
check_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    struct buf source;
    int count = 0;

    assert_non_null(dir);
    buf_init(&source, 1024 * 1024);
    while ((entry = readdir(dir)) != NULL) {
        size_t size = strlen(entry->d_name);
        char path[512];

        if (size < 2 || strcmp(entry->d_name + size - 2, ".c") != 0)
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        buf_reset(&source);
        assert_int_equal(buf_read_file(&source, path, NULL), STATUS_OK);
        for (size_t i = 0; i < COUNT_OF(enders); i++)
            count += check_calls(path, source.data, enders[i]);
    }
    closedir(dir);
    buf_clear(&source);
    return count;
}

static void
every_code_that_ends_an_attempt_has_words(void **state)
{
    (void)state;
    assert_true(check_folder("coordinator") >= 5);
    assert_true(check_folder("node-agent") >= 8);
    assert_true(check_folder("inference") >= 4);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_code_has_words_and_an_unknown_one_has_none),
        cmocka_unit_test(the_page_of_the_api_shows_this_very_table),
        cmocka_unit_test(every_code_that_ends_an_attempt_has_words),
    };

    return cmocka_run_group_tests_name("coordinator_end_reason", tests, NULL,
                                       NULL);
}
