/* dev_linux.c - a server that ends with a coordinator that was killed. */
#include "coordinator/dev_process.h"

#include <sys/prctl.h>

#include "common/banned.h"

void
dev_die_with_parent(int signal)
{
    (void)prctl(PR_SET_PDEATHSIG, signal);
}
