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

/* What ends an attempt, up to the argument that is the code. */
static const char *const calls[] = {
    "job_lose(core, job,",
    "jobs_lose_all(core, node,",
    "job_attempt_close(job,",
    "fail_jobs_of(engines, engine,",
    "end_job(engines, job,",
    "engines_end_jobs(agent->engines, agent->epoch,",
    "engines_refuse(engines, run->job, run->attempt,",
    "engines_refuse(engines, input->job, input->attempt,",
    "engines_refuse(agent->engines, run->job, run->attempt,",
    "core_cancel(links->core, job,",
    "send_fail(serve, id, attempt,",
    "send_fail(serve, job->id, job->attempt,",
    "send_fail(serve, job, (uint32_t)attempt,",
};

static int
check_call(const char *path, const char *source, const char *call)
{
    int count = 0;

    for (const char *at = strstr(source, call); at != NULL;
         at = strstr(at, call)) {
        char code[32];
        size_t size;

        at += strlen(call);
        at += strspn(at, " \n");
        if (*at != '"')
            continue; /* handed on */
        size = strcspn(++at, "\"");
        assert_true(size < sizeof(code));
        memcpy(code, at, size);
        code[size] = '\0';
        if (end_reason_text(code) == NULL)
            fail_msg("%s: %s has no words", path, code);
        count++;
    }
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
        for (size_t i = 0; i < COUNT_OF(calls); i++)
            count += check_call(path, source.data, calls[i]);
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
