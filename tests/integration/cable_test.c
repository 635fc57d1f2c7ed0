/* cable_test.c - the cable between two hosts does what it is told.
 *
 * Times are checked from below only: a slow machine may add to them.  Where
 * the kernel gives no namespaces or TAP devices every test is skipped. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/units.h"
#include "tests/harness/netns.h"
#include "common/banned.h"

enum { LEFT, RIGHT, PORT = 7000, PATIENCE_MS = 20000, LINE_BYTES = 128 };

static const char *const addresses[] = {"10.77.0.1", "10.77.0.2"};

static char program[1024]; /* the cable */
static pid_t host[2];
static pid_t cable;
static FILE *commands;
static FILE *answers;
static int udp[2];
static char why_skipped[ERROR_TEXT_BYTES];

/* --- the cable's commands -------------------------------------------------
 */

static void
read_answer(char *line)
{
    assert_non_null(fgets(line, LINE_BYTES, answers));
}

static void
tell(const char *command)
{
    char line[LINE_BYTES];

    assert_true(fprintf(commands, "%s\n", command) > 0);
    assert_int_equal(fflush(commands), 0);
    read_answer(line);
    assert_string_equal(line, "ok\n");
}

/* Frames of @side that the cable has dropped so far. */
static unsigned long
dropped(int side)
{
    char line[LINE_BYTES];
    unsigned long counts[4];

    assert_true(fprintf(commands, "stats\n") > 0);
    assert_int_equal(fflush(commands), 0);
    read_answer(line);
    assert_int_equal(sscanf(line, "ok left %lu %lu right %lu %lu", &counts[0],
                            &counts[1], &counts[2], &counts[3]),
                     4);
    return counts[side == LEFT ? 1 : 3];
}

/* --- datagrams --------------------------------------------------------------
 */

static struct sockaddr_in
address_of(int side)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(PORT)};

    assert_int_equal(inet_pton(AF_INET, addresses[side], &address.sin_addr), 1);
    return address;
}

static void
send_from(int side, const void *bytes, size_t size)
{
    struct sockaddr_in to = address_of(1 - side);

    assert_int_equal(
        sendto(udp[side], bytes, size, 0, (struct sockaddr *)&to, sizeof(to)),
        size);
}

static bool
is_readable(int fd, int ms)
{
    struct pollfd watched = {.fd = fd, .events = POLLIN};

    return poll(&watched, 1, ms) == 1;
}

static void
receive_at(int side, char wanted)
{
    char bytes[2048];

    assert_true(is_readable(udp[side], PATIENCE_MS));
    assert_true(recv(udp[side], bytes, sizeof(bytes), 0) > 0);
    assert_int_equal(bytes[0], wanted);
}

/* Send and wait until the cable says that it dropped one more frame: that one
 * can never arrive. */
static void
send_into_nothing(int side)
{
    unsigned long before = dropped(side);
    struct span deadline = span_add(clock_monotonic(), span_ms(PATIENCE_MS));

    send_from(side, "x", 1);
    while (dropped(side) == before)
        assert_true(clock_monotonic().ns < deadline.ns);
    assert_false(is_readable(udp[1 - side], 0));
}

/* Both ends know each other's hardware address afterwards. */
static void
greet(void)
{
    send_from(LEFT, "g", 1);
    receive_at(RIGHT, 'g');
    send_from(RIGHT, "h", 1);
    receive_at(LEFT, 'h');
}

/* --- set up and tear down ---------------------------------------------------
 */

static void
cable_start(void)
{
    char left[24];
    char right[24];
    int down[2];
    int up[2];

    (void)snprintf(left, sizeof(left), "%ld", (long)host[LEFT]);
    (void)snprintf(right, sizeof(right), "%ld", (long)host[RIGHT]);
    assert_int_equal(pipe(down), 0);
    assert_int_equal(pipe(up), 0);
    cable = fork();
    if (cable == 0) {
        if (dup2(down[0], 0) < 0 || dup2(up[1], 1) < 0)
            _exit(1);
        (void)close(down[0]);
        (void)close(down[1]);
        (void)close(up[0]);
        (void)close(up[1]);
        execl(program, "cable", "--left", left, "--right", right, (char *)NULL);
        _exit(127);
    }
    (void)close(down[0]);
    (void)close(up[1]);
    commands = fdopen(down[1], "w");
    answers = fdopen(up[0], "r");
}

static void
cable_stop(void)
{
    int ended = 1;

    (void)fclose(commands);
    (void)fclose(answers);
    while (waitpid(cable, &ended, 0) < 0 && errno == EINTR)
        continue;
    cable = 0;
    assert_int_equal(ended, 0);
}

static int
set_up(void **state)
{
    char line[LINE_BYTES] = "";

    (void)state;
    if (why_skipped[0] != '\0')
        return 0;
    for (int side = LEFT; side <= RIGHT; side++)
        assert_int_equal(netns_new(&host[side], NULL), STATUS_OK);
    cable_start();
    read_answer(line);
    assert_string_equal(line, "ready\n");
    for (int side = LEFT; side <= RIGHT; side++) {
        struct sockaddr_in at = address_of(side);

        assert_int_equal(
            netns_socket(host[side], AF_INET, SOCK_DGRAM, &udp[side], NULL),
            STATUS_OK);
        assert_int_equal(bind(udp[side], (struct sockaddr *)&at, sizeof(at)),
                         0);
    }
    greet();
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    if (why_skipped[0] != '\0')
        return 0;
    for (int side = LEFT; side <= RIGHT; side++)
        (void)close(udp[side]);
    if (cable > 0)
        cable_stop();
    for (int side = LEFT; side <= RIGHT; side++)
        netns_end(host[side]);
    return 0;
}

static void
skip_without_hosts(void)
{
    if (why_skipped[0] != '\0')
        skip();
}

/* --- claims -----------------------------------------------------------------
 */

static void
an_echo_takes_at_least_the_delay_both_ways(void **state)
{
    struct span start;

    (void)state;
    skip_without_hosts();
    tell("delay 20000");
    start = clock_monotonic();
    send_from(LEFT, "a", 1);
    receive_at(RIGHT, 'a');
    send_from(RIGHT, "b", 1);
    receive_at(LEFT, 'b');
    assert_true(clock_monotonic().ns - start.ns >= 40 * 1000000);
}

static void
a_rate_bounds_what_passes_in_a_time(void **state)
{
    enum { DATAGRAMS = 10, BYTES = 1000 };
    char bytes[BYTES] = "r";
    struct span start;

    (void)state;
    skip_without_hosts();
    tell("rate 1000000");
    start = clock_monotonic();
    for (int i = 0; i < DATAGRAMS; i++)
        send_from(LEFT, bytes, sizeof(bytes));
    for (int i = 0; i < DATAGRAMS; i++)
        receive_at(RIGHT, 'r');
    /* 10 x 1000 bytes at 1 Mbit/s are 80 ms without any header. */
    assert_true(clock_monotonic().ns - start.ns >= 80 * 1000000);
}

static void
a_one_way_cut_stops_that_side_only(void **state)
{
    (void)state;
    skip_without_hosts();
    tell("cut left");
    send_into_nothing(LEFT);
    send_from(RIGHT, "c", 1);
    receive_at(LEFT, 'c');
    tell("cut none");
    send_from(LEFT, "d", 1);
    receive_at(RIGHT, 'd');
}

static void
a_cut_of_both_sides_stops_both(void **state)
{
    (void)state;
    skip_without_hosts();
    tell("cut both");
    send_into_nothing(LEFT);
    send_into_nothing(RIGHT);
    tell("cut none");
    greet();
}

static void
full_loss_loses_everything_and_none_nothing(void **state)
{
    (void)state;
    skip_without_hosts();
    tell("loss 1000");
    for (int i = 0; i < 20; i++)
        send_into_nothing(i % 2);
    tell("loss 0");
    greet();
}

static void
wait_carrier(int side, bool wanted)
{
    struct span deadline = span_add(clock_monotonic(), span_ms(PATIENCE_MS));

    while (netns_has_carrier(host[side], "cable0") != wanted)
        assert_true(clock_monotonic().ns < deadline.ns);
}

static void
a_half_open_cable_is_unplugged_at_one_end_only(void **state)
{
    (void)state;
    skip_without_hosts();
    tell("half-open left");
    wait_carrier(LEFT, false);
    assert_true(netns_has_carrier(host[RIGHT], "cable0"));
    send_into_nothing(RIGHT);
    tell("half-open none");
    wait_carrier(LEFT, true);
    greet();
}

static void
a_tcp_stream_survives_a_cut_that_is_mended(void **state)
{
    struct sockaddr_in at = address_of(RIGHT);
    unsigned long before;
    int listener;
    int near;
    int far;
    char byte = 0;

    (void)state;
    skip_without_hosts();
    assert_int_equal(
        netns_socket(host[RIGHT], AF_INET, SOCK_STREAM, &listener, NULL),
        STATUS_OK);
    assert_int_equal(
        netns_socket(host[LEFT], AF_INET, SOCK_STREAM, &near, NULL), STATUS_OK);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(connect(near, (struct sockaddr *)&at, sizeof(at)), 0);
    far = accept(listener, NULL, NULL);
    assert_true(far >= 0);

    before = dropped(LEFT);
    tell("cut both");
    assert_int_equal(send(near, "t", 1, 0), 1);
    while (dropped(LEFT) == before)
        continue;
    tell("cut none");
    assert_true(is_readable(far, PATIENCE_MS));
    assert_int_equal(recv(far, &byte, 1, 0), 1);
    assert_int_equal(byte, 't');
    (void)close(near);
    (void)close(far);
    (void)close(listener);
}

static void
an_unknown_command_is_an_error(void **state)
{
    char line[LINE_BYTES];

    (void)state;
    skip_without_hosts();
    assert_true(fprintf(commands, "loss 1001\nfray left\ndelay -1\n") > 0);
    assert_int_equal(fflush(commands), 0);
    for (int i = 0; i < 3; i++) {
        read_answer(line);
        assert_string_equal(line, "error\n");
    }
}

static void
no_device_is_left_when_the_cable_ends(void **state)
{
    (void)state;
    skip_without_hosts();
    assert_true(netns_has_device(host[LEFT], "cable0"));
    cable_stop();
    assert_false(netns_has_device(host[LEFT], "cable0"));
    assert_false(netns_has_device(host[RIGHT], "cable0"));
}

/* What stands in the way of hosts and cables here, "" when nothing. */
static void
find_obstacle(void)
{
    struct error err = {0};
    pid_t probe;
    int fd;

    if (netns_prepare(&err) == STATUS_OK &&
        netns_new(&probe, &err) == STATUS_OK) {
        if (netns_tap(probe, "cable0", addresses[LEFT], &fd, &err) == STATUS_OK)
            (void)close(fd);
        netns_end(probe);
    }
    if (err.status == STATUS_OK)
        return;
    (void)snprintf(why_skipped, sizeof(why_skipped), "%s", err.text);
    (void)fprintf(stderr, "cable tests are skipped: %s\n", why_skipped);
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CLAIM(an_echo_takes_at_least_the_delay_both_ways),
        CLAIM(a_rate_bounds_what_passes_in_a_time),
        CLAIM(a_one_way_cut_stops_that_side_only),
        CLAIM(a_cut_of_both_sides_stops_both),
        CLAIM(full_loss_loses_everything_and_none_nothing),
        CLAIM(a_half_open_cable_is_unplugged_at_one_end_only),
        CLAIM(a_tcp_stream_survives_a_cut_that_is_mended),
        CLAIM(an_unknown_command_is_an_error),
        CLAIM(no_device_is_left_when_the_cable_ends),
    };
    const char *slash = strrchr(argv[0], '/');

    (void)argc;
    (void)signal(SIGPIPE, SIG_IGN);
    /* build/MODE/tests/integration/cable_test: the cable lies beside. */
    (void)snprintf(program, sizeof(program), "%.*s/../harness/cable",
                   slash == NULL ? 1 : (int)(slash - argv[0]),
                   slash == NULL ? "." : argv[0]);
    find_obstacle();
    return cmocka_run_group_tests_name("cable", tests, NULL, NULL);
}
