/* renewal.h - a new certificate before the old one ends.
 *
 * At two thirds of its life a new key is made and a signing request goes over
 * the link; the answer and the key replace the old pair on disk, for the next
 * connection.  Belongs to the loop's thread. */
#ifndef BERTH_NODE_AGENT_RENEWAL_H
#define BERTH_NODE_AGENT_RENEWAL_H

#include "common/buf.h"
#include "common/wire.h"
#include "node-agent/home.h"

struct renewal {
    const struct home *home; /* kept */
    struct buf key;          /* of the request under way; empty: none */
};

void renewal_init(struct renewal *renewal, const struct home *home);
void renewal_clear(struct renewal *renewal);
/* Is it time?  Then @renew is the message to send. */
MUST_CHECK bool renewal_is_due(struct renewal *renewal,
                               struct wire_renew *renew);
/* The coordinator's answer. */
void renewal_take(struct renewal *renewal, const struct wire_renewed *renewed);

#endif
