/* node_agent_process_test.c - children end with whom they serve. */
#include "node-agent/process.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/banned.h"

/* Open the pipe that the test reads, say that we live, and work for ever. */
static void
work(void *arg, int write_fd)
{
    int fd = open(arg, O_WRONLY);

    (void)write_fd;
    if (fd < 0 || write(fd, "x", 1) != 1)
        _exit(9);
    for (;;)
        pause();
}

static void
a_helper_ends_when_the_one_it_helps_is_killed(void **state)
{
    char folder[] = "/tmp/berth-process-XXXXXX";
    char path[64];
    char byte = 0;
    pid_t helped;
    int fd;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    helped = fork();
    assert_true(helped >= 0);
    if (helped == 0) {
        pid_t pid;
        int read_fd;

        if (process_help(work, path, &pid, &read_fd, NULL) != STATUS_OK)
            _exit(9);
        for (;;)
            pause();
    }
    fd = open(path, O_RDONLY);
    assert_int_equal(read(fd, &byte, 1), 1);
    assert_int_equal(byte, 'x');
    assert_int_equal(kill(helped, SIGKILL), 0);
    assert_int_equal(waitpid(helped, NULL, 0), helped);
    assert_int_equal(read(fd, &byte, 1), 0); /* its last writer has ended */
    close(fd);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_helper_ends_when_the_one_it_helps_is_killed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
