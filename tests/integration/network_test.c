/* network_test.c - the harness's network answers, survives the kill of a part,
 * and its books balance. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <string.h>

#include "common/buf.h"
#include "tests/harness/network.h"

#include "common/banned.h"

enum { ANSWER_MAX_BYTES = 65536 };

static struct network network;

static int
network_up(void **state)
{
    static const char *const models[] = {"tests/models/tiny-chat", NULL};
    struct network_options options = {.agents = 2, .models = models};
    struct error err = {0};

    (void)state;
    if (network_start(&network, &options, &err) == STATUS_OK)
        return 0;
    print_error("%s\n", err.text);
    return -1;
}

static int
network_down(void **state)
{
    (void)state;
    network_stop(&network, false);
    return 0;
}

/* The question and its answer stand in tests/models/questions.tsv. */
static void
asks_rightly(void)
{
    static const char *const argv[] = {
        "chat",   "--model", "tiny-chat",
        "--temp", "0",       "What is the sum of 18 and 26?",
        NULL};
    struct error err = {0};
    struct buf out;

    buf_init(&out, ANSWER_MAX_BYTES);
    if (network_berth(&network, argv, &out, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    assert_non_null(strstr(out.data, "18 plus 26 is 44."));
    buf_clear(&out);
}

static void
books_balance(void)
{
    static const char *const argv[] = {"ledger", "check", NULL};
    struct error err = {0};
    struct buf out;

    buf_init(&out, ANSWER_MAX_BYTES);
    if (network_berth(&network, argv, &out, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    assert_non_null(strstr(out.data, "books balance: yes"));
    buf_clear(&out);
}

static void
a_question_is_answered_and_the_books_balance(void **state)
{
    (void)state;
    asks_rightly();
    books_balance();
}

static void
one_agent_is_enough_when_the_other_is_killed(void **state)
{
    (void)state;
    network_agent_end(&network, 0, SIGKILL);
    asks_rightly();
    books_balance();
}

static void
a_killed_coordinator_comes_back_with_its_books(void **state)
{
    struct error err = {0};

    (void)state;
    network_coordinator_end(&network, SIGKILL);
    if (network_coordinator_start(&network, &err) != STATUS_OK ||
        network_wait_ready(&network, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    asks_rightly();
    books_balance();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_question_is_answered_and_the_books_balance),
        cmocka_unit_test(one_agent_is_enough_when_the_other_is_killed),
        cmocka_unit_test(a_killed_coordinator_comes_back_with_its_books),
    };

    return cmocka_run_group_tests(tests, network_up, network_down);
}
