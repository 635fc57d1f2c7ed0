/* names.h - names that people give: of accounts, keys and nodes. */
#ifndef BERTH_COORDINATOR_NAMES_H
#define BERTH_COORDINATOR_NAMES_H

#include "common/attrs.h"
#include "common/error.h"

/* Not blank, and without control characters, which a terminal would obey. */
MUST_CHECK enum status name_check(const char *name, struct error *err);

#endif
