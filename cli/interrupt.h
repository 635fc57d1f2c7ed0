/* interrupt.h - Ctrl-C as a question the loops ask, so that a request is
 * closed and the process still exits 130. */
#ifndef BERTH_CLI_INTERRUPT_H
#define BERTH_CLI_INTERRUPT_H

#include <stdbool.h>
#include <stdint.h>

enum { EXIT_INTERRUPTED = 130 }; /* 128 + SIGINT, as shells report it */

/* From now on SIGINT only sets the flag, once; a second one ends the process
 * at once. */
void cli_interrupt_watch(void);
bool cli_interrupted(void);
/* Wait @ms milliseconds; ends early when interrupted. */
void cli_pause(int64_t ms);

#endif
