/* coordinator_content_test.c - sealed content and its day keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "coordinator/content.h"

#include "common/banned.h"

static const char job[] = "01990000-0000-7000-8000-000000000001";

static int
folder_new(void **state)
{
    static char folder[] = "/tmp/berth-content-XXXXXX";

    if (mkdtemp(folder) == NULL)
        return -1;
    *state = folder;
    return 0;
}

static int
folder_remove(void **state)
{
    char path[100];

    snprintf(path, sizeof(path), "%s/2026-11-29.key", (char *)*state);
    (void)unlink(path);
    snprintf(path, sizeof(path), "%s/2026-11-30.key", (char *)*state);
    (void)unlink(path);
    return rmdir(*state);
}

static void
what_was_sealed_comes_back_for_its_job_alone(void **state)
{
    struct content *content = NULL;
    struct buf sealed, plain;

    buf_init(&sealed, 1000);
    buf_init(&plain, 1000);
    assert_int_equal(content_open(*state, 86400, &content, NULL), STATUS_OK);
    assert_int_equal(
        content_seal(content, "2026-11-30", job, "secret", 6, &sealed, NULL),
        STATUS_OK);
    for (size_t i = 0; i + 6 <= sealed.size; i++)
        assert_memory_not_equal(sealed.data + i, "secret", 6);
    assert_int_equal(content_unseal(content, "2026-11-30", job, sealed.data,
                                    sealed.size, &plain, NULL),
                     STATUS_OK);
    assert_string_equal(plain.data, "secret");
    assert_int_not_equal(content_unseal(content, "2026-11-30",
                                        "01990000-0000-7000-8000-000000000002",
                                        sealed.data, sealed.size, &plain, NULL),
                         STATUS_OK);
    buf_clear(&sealed);
    buf_clear(&plain);
    content_close(content);
}

static void
a_key_once_read_needs_no_descriptor(void **state)
{
    struct content *content = NULL;
    struct rlimit limit, none;
    struct buf sealed;
    struct error err = {0};

    buf_init(&sealed, 4096);
    assert_int_equal(content_open(*state, 86400, &content, NULL), STATUS_OK);
    assert_int_equal(
        content_seal(content, "2026-11-30", job, "one", 3, &sealed, &err),
        STATUS_OK);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    buf_reset(&sealed);
    assert_int_equal(
        content_seal(content, "2026-11-30", job, "two", 3, &sealed, &err),
        STATUS_OK);
    /* A day whose key is still to be made is refused for now, not for good. */
    assert_int_equal(
        content_seal(content, "2026-11-29", job, "two", 3, &sealed, &err),
        STATUS_RETRY);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    buf_clear(&sealed);
    content_close(content);
}

static void
a_destroyed_key_takes_its_day_with_it(void **state)
{
    struct content *content = NULL;
    struct buf old, today, plain;

    buf_init(&old, 1000);
    buf_init(&today, 1000);
    buf_init(&plain, 1000);
    assert_int_equal(content_open(*state, 86400, &content, NULL), STATUS_OK);
    assert_int_equal(
        content_seal(content, "2026-11-29", job, "a", 1, &old, NULL),
        STATUS_OK);
    assert_int_equal(
        content_seal(content, "2026-11-30", job, "b", 1, &today, NULL),
        STATUS_OK);
    content_destroy_before(content, "2026-11-30");
    assert_int_equal(content_unseal(content, "2026-11-29", job, old.data,
                                    old.size, &plain, NULL),
                     STATUS_NOT_FOUND);
    assert_int_equal(content_unseal(content, "2026-11-30", job, today.data,
                                    today.size, &plain, NULL),
                     STATUS_OK);
    buf_clear(&old);
    buf_clear(&today);
    buf_clear(&plain);
    content_close(content);
}

static void
keys_are_readable_by_their_owner_alone(void **state)
{
    struct content *content = NULL;
    struct buf sealed;
    struct stat info;
    char path[100];

    buf_init(&sealed, 1000);
    assert_int_equal(content_open(*state, 86400, &content, NULL), STATUS_OK);
    assert_int_equal(
        content_seal(content, "2026-11-30", job, "a", 1, &sealed, NULL),
        STATUS_OK);
    snprintf(path, sizeof(path), "%s/2026-11-30.key", (char *)*state);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(info.st_size, 32);
    buf_clear(&sealed);
    content_close(content);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_sealed_comes_back_for_its_job_alone),
        cmocka_unit_test(a_key_once_read_needs_no_descriptor),
        cmocka_unit_test(a_destroyed_key_takes_its_day_with_it),
        cmocka_unit_test(keys_are_readable_by_their_owner_alone),
    };

    return cmocka_run_group_tests(tests, folder_new, folder_remove);
}
