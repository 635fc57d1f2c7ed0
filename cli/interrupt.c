/* interrupt.c - SIGINT as a flag. */
#include "cli/interrupt.h"

#include <assert.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>

#include "common/banned.h"

static volatile sig_atomic_t is_interrupted;

static void
on_interrupt(int number)
{
    (void)number;
    is_interrupted = 1;
}

void
cli_interrupt_watch(void)
{
    /* No SA_RESTART: a read of the terminal must end too. */
    struct sigaction action = {.sa_handler = on_interrupt,
                               .sa_flags = (int)SA_RESETHAND};
    int result;

    (void)sigemptyset(&action.sa_mask);
    result = sigaction(SIGINT, &action, NULL);
    assert(result == 0);
    (void)result;
}

bool
cli_interrupted(void)
{
    return is_interrupted != 0;
}

void
cli_pause(int64_t ms)
{
    struct timespec left = {.tv_sec = (time_t)(ms / 1000),
                            .tv_nsec = (long)(ms % 1000) * 1000000};

    if (!cli_interrupted())
        (void)nanosleep(&left, NULL);
}
