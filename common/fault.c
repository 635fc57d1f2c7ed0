/* fault.c - counting passages of fault points. */
#include "common/fault.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/units.h"

#include "common/banned.h"

#ifdef BERTH_FAULTS
static _Atomic uint64_t passages;

/* The environment is read at each passage: tests change it as they go. */
bool
fault_point(const char *name)
{
    const char *number = getenv("FAULT");
    const char *only = getenv("FAULT_NAME");
    uint64_t wanted;

    if (number == NULL || (only != NULL && strcmp(only, name) != 0) ||
        parse_u64(number, strlen(number), UINT64_MAX, &wanted) != STATUS_OK)
        return false;
    return atomic_fetch_add(&passages, 1) + 1 == wanted;
}
#endif
