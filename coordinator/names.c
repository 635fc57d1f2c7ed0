/* names.c - what a name may be. */
#include "coordinator/names.h"

#include <stdbool.h>
#include <string.h>

#include "common/banned.h"

/* C0, DEL, and C1 in UTF-8. */
static bool
has_controls(const char *name)
{
    for (const unsigned char *at = (const unsigned char *)name; *at != '\0';
         at++)
        if (*at < 0x20 || *at == 0x7f ||
            (at[0] == 0xc2 && at[1] >= 0x80 && at[1] <= 0x9f))
            return true;
    return false;
}

enum status
name_check(const char *name, struct error *err)
{
    if (name[strspn(name, " ")] == '\0')
        return error_set(err, STATUS_INVALID, "/name: it is blank");
    if (has_controls(name))
        return error_set(err, STATUS_INVALID,
                         "/name: it has control characters");
    return STATUS_OK;
}
