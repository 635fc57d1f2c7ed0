/* control.h - the owner's commands to the running agent, over a unix socket
 * that only the owner can open.
 *
 * One line asks ("status json"), the answer is text or JSON up to the end of
 * the connection.  The server belongs to the loop's thread; control_ask blocks
 * and belongs to the command line. */
#ifndef BERTH_NODE_AGENT_CONTROL_H
#define BERTH_NODE_AGENT_CONTROL_H

#include <stdbool.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "common/error.h"
#include "node-agent/runtime.h"

enum {
    CONTROL_LINE_BYTES = 64,
    CONTROL_ANSWER_MAX_BYTES = 1024 * 1024,
};

struct event_base;
struct control;

/* Carry out @command ("status", "pause", ...) and write the answer. False for a
 * command that is not known. */
typedef bool control_command(void *arg, const char *command, bool as_json,
                             struct buf *answer);

MUST_CHECK enum status control_open(struct event_base *base,
                                    const struct runtime *runtime,
                                    control_command *on_command, void *arg,
                                    struct control **control,
                                    struct error *err);
void control_close(struct control *control);

/* Ask the agent that runs with @home. STATUS_NOT_FOUND when none does. */
MUST_CHECK enum status control_ask(const struct home *home, const char *command,
                                   bool as_json, struct buf *answer,
                                   struct error *err);

#endif
