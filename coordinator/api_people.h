/* api_people.h - who asks, and of whom they speak: for the handlers. */
#ifndef BERTH_COORDINATOR_API_PEOPLE_H
#define BERTH_COORDINATOR_API_PEOPLE_H

#include <stdbool.h>

#include "common/json.h"
#include "coordinator/http.h"

bool is_operator(const struct request *request);
/* An account named by number or by name, for @field of a body: a number, a
 * text, or absent (the caller's own).  STATUS_DENIED when somebody else than an
 * operator names another. */
MUST_CHECK enum status account_named(const struct request *request,
                                     const struct json *value,
                                     const char *field,
                                     struct account_view *account,
                                     struct error *err);

#endif
