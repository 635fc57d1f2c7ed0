/* dev_darwin.c - macOS has no parent-death signal: a server left by a killed
 * coordinator runs on and is stopped by the next one of the same folder. */
#include "coordinator/dev_process.h"

#include "common/banned.h"

void
dev_die_with_parent(int signal)
{
    (void)signal;
}
