/* common_buf_test.c - growable bytes and whole files. */
#include "common/buf.h"

#include <sys/stat.h>
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

static void
appending_keeps_bytes_and_a_nul(void **state)
{
    struct buf buf;

    (void)state;
    buf_init(&buf, 1000);
    assert_string_equal(buf.data, "");
    buf_append_text(&buf, "ab");
    buf_append_char(&buf, 'c');
    buf_printf(&buf, "-%d-", 42);
    buf_append_hex(&buf, "\x00\xff\x1a", 3);
    assert_string_equal(buf.data, "abc-42-00ff1a");
    assert_int_equal(buf.size, 13);
    buf_drop_front(&buf, 3);
    buf_truncate(&buf, 4);
    assert_string_equal(buf.data, "-42-");
    buf_drop_front(&buf, 99);
    assert_string_equal(buf.data, "");
    buf_clear(&buf);
}

static void
the_maximum_is_exact_and_overflow_sticks(void **state)
{
    struct error err;
    struct buf buf;

    (void)state;
    buf_init(&buf, 200);
    for (int i = 0; i < 20; i++)
        buf_append_text(&buf, "0123456789");
    assert_int_equal(buf.size, 200);
    assert_int_equal(buf_status(&buf, &err), STATUS_OK);
    buf_append_char(&buf, 'x');
    assert_int_equal(buf.size, 200);
    assert_int_equal(buf_status(&buf, &err), STATUS_TOO_LARGE);
    assert_string_equal(err.text, "over the limit of 200 bytes");
    buf_truncate(&buf, 0);
    buf_append_char(&buf, 'x');
    assert_int_equal(buf.size, 0);
    buf_reset(&buf);
    buf_append_char(&buf, 'x');
    assert_string_equal(buf.data, "x");
    buf_clear(&buf);
}

static void
a_piece_that_does_not_fit_is_dropped_whole(void **state)
{
    struct buf buf;

    (void)state;
    buf_init(&buf, 4);
    buf_append_text(&buf, "abc");
    buf_printf(&buf, "%s", "de");
    assert_string_equal(buf.data, "abc");
    assert_true(buf.overflowed);
    buf_reset(&buf);
    buf_append_hex(&buf, "\1\2\3", 3);
    assert_int_equal(buf.size, 0);
    buf_clear(&buf);
}

static void
taking_empties_the_buffer(void **state)
{
    struct buf buf;
    size_t size;
    char *text;

    (void)state;
    buf_init(&buf, 10);
    text = buf_take(&buf, &size);
    assert_string_equal(text, "");
    free(text);
    buf_append_text(&buf, "abc");
    text = buf_take(&buf, &size);
    assert_int_equal(size, 3);
    assert_string_equal(text, "abc");
    assert_int_equal(buf.size, 0);
    assert_string_equal(buf.data, "");
    free(text);
}

static void
files_come_back_as_written(void **state)
{
    char folder[] = "/tmp/berth-buf-XXXXXX";
    char path[256], deep[128], bytes[100000];
    struct error err;
    struct stat info;
    struct buf buf;

    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(deep, sizeof(deep), "%s/a/b/c", folder);
    assert_int_equal(folder_make(deep, 0700, &err), STATUS_OK);
    assert_int_equal(folder_make(deep, 0700, &err), STATUS_OK);
    (void)snprintf(path, sizeof(path), "%s/file", deep);
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i * 7);
    assert_int_equal(file_write_whole(path, "old", 3, 0644, &err), STATUS_OK);
    assert_int_equal(file_write_whole(path, bytes, sizeof(bytes), 0600, &err),
                     STATUS_OK);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    buf_init(&buf, sizeof(bytes));
    assert_int_equal(buf_read_file(&buf, path, &err), STATUS_OK);
    assert_int_equal(buf.size, sizeof(bytes));
    assert_memory_equal(buf.data, bytes, sizeof(bytes));
    buf_clear(&buf);

    buf_init(&buf, sizeof(bytes) - 1);
    assert_int_equal(buf_read_file(&buf, path, &err), STATUS_TOO_LARGE);
    buf_clear(&buf);
    assert_int_equal(buf_read_file(&buf, "/nonexistent", &err),
                     STATUS_NOT_FOUND);
    assert_string_equal(
        err.text, "/nonexistent: cannot open: No such file or directory: is "
                  "the path right?");
    assert_int_equal(buf_read_file(&buf, folder, &err), STATUS_INTERNAL);
    assert_int_equal(folder_make(path, 0700, &err), STATUS_INTERNAL);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(deep), 0); /* no temporary file is left */
    (void)snprintf(path, sizeof(path), "%s/a/b", folder);
    assert_int_equal(rmdir(path), 0);
    (void)snprintf(path, sizeof(path), "%s/a", folder);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appending_keeps_bytes_and_a_nul),
        cmocka_unit_test(the_maximum_is_exact_and_overflow_sticks),
        cmocka_unit_test(a_piece_that_does_not_fit_is_dropped_whole),
        cmocka_unit_test(taking_empties_the_buffer),
        cmocka_unit_test(files_come_back_as_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
