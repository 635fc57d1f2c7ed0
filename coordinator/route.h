/* route.h - which handler answers a method and a path.
 *
 * One table, closed by default: a route without scopes is an open one, and
 * there are few.  Pure, safe from any thread. */
#ifndef BERTH_COORDINATOR_ROUTE_H
#define BERTH_COORDINATOR_ROUTE_H

#include <stddef.h>
#include <stdint.h>

#include "coordinator/http.h"

enum { ROUTE_ALLOW_BYTES = 40 };

struct route {
    const char *method;
    /* Literal but for one "{id}", which stands for one segment, or a last
     * "{id...}", which may hold slashes. */
    const char *path;
    uint32_t scopes; /* a key needs one of them; 0: no key is asked for */
    size_t body_max; /* bytes; 0: the configured body_max_bytes */
    http_handler *handler;
};

extern const struct route routes[];
extern const size_t route_count;

enum route_result { ROUTE_FOUND, ROUTE_NO_PATH, ROUTE_NO_METHOD };

/* @path is decoded already (route_unescape).  HEAD is answered by the route of
 * GET.  ROUTE_FOUND: @route, and what {id} matched in @param ("" without one).
 * ROUTE_NO_METHOD: the path's methods in @allow, as the header has them. */
enum route_result route_find(const char *method, const char *path,
                             const struct route **route,
                             char param[static REQUEST_PARAM_BYTES],
                             char allow[static ROUTE_ALLOW_BYTES]);

/* Decode %XX in place; what is no two hex digits, and %00, stays as it is.
 * Returns the new size. */
size_t route_unescape(char *text);

#endif
