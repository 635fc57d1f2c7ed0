/* common_mem_test.c - allocation. */
#include "common/mem.h"

#include <signal.h>
#include <sys/wait.h>
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
memory_is_zeroed_and_never_null(void **state)
{
    unsigned char *bytes = mem_array(100, 3);
    void *none = mem_alloc(0);

    (void)state;
    for (int i = 0; i < 300; i++)
        assert_int_equal(bytes[i], 0);
    assert_non_null(none);
    free(bytes);
    free(none);
}

static void
copies_are_equal_and_terminated(void **state)
{
    char *text = mem_text_sized("hello", 4);
    char *copy = mem_copy("abc", 4);
    char *grown = mem_grow(mem_text("xy"), 10, 1);

    (void)state;
    assert_string_equal(text, "hell");
    assert_string_equal(copy, "abc");
    assert_string_equal(grown, "xy");
    free(text);
    free(copy);
    free(grown);
}

static void
an_overflowing_product_aborts(void **state)
{
    pid_t child = fork();
    int how;

    (void)state;
    if (child == 0) {
        close(STDERR_FILENO); /* the message is expected */
        (void)signal(SIGABRT, SIG_DFL);
        free(mem_array(SIZE_MAX / 2, 3));
        _exit(0);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed_and_never_null),
        cmocka_unit_test(copies_are_equal_and_terminated),
        cmocka_unit_test(an_overflowing_product_aborts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
