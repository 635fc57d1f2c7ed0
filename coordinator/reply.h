/* reply.h - from a filled reply to bytes: headers, error objects.
 *
 * The headers every answer carries are added here and nowhere else. */
#ifndef BERTH_COORDINATOR_REPLY_H
#define BERTH_COORDINATOR_REPLY_H

#include <stdbool.h>

#include "common/error.h"
#include "common/json.h"
#include "coordinator/http.h"

struct MHD_Connection;

/* The object {"message","type","param","code"} alone.  The detail of our own
 * faults stays in the log. */
void reply_error_put(struct json_out *out, const struct error *err);

/* Hand request->reply to the connection; its body and stream are taken.  @last:
 * the connection closes after it.  False: the connection must be dropped. */
bool reply_queue(struct request *request, struct MHD_Connection *connection,
                 bool last);

#endif
