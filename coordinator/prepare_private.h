/* prepare_private.h - what the files of prepare share. */
#ifndef BERTH_COORDINATOR_PREPARE_PRIVATE_H
#define BERTH_COORDINATOR_PREPARE_PRIVATE_H

#include "coordinator/prepare.h"

/* STATUS_INVALID, naming the field. */
enum status prepare_refuse(struct error *err, const char *param,
                           const char *format, ...) PRINTF_LIKE(3, 4);

/* prepare_fields.c: fields that no engine honours yet and that would change
 * the answer. */
MUST_CHECK enum status prepare_unsupported(const struct json *body, bool chat,
                                           struct error *err);
/* temperature, top_p, top_k, seed, stop into @job. */
MUST_CHECK enum status prepare_sampling(const struct json *body,
                                        struct job *job, struct error *err);
/* max_tokens or max_completion_tokens; 0 when neither is given. */
MUST_CHECK enum status prepare_max_tokens(const struct json *body,
                                          uint64_t *max_tokens,
                                          struct error *err);
/* stream and stream_options. */
MUST_CHECK enum status prepare_stream(const struct json *body,
                                      struct prepared *prepared,
                                      struct error *err);

/* What a request says of tools. */
struct tool_choice {
    const struct json *tools; /* for the template; NULL: none is offered */
    bool forced;              /* a tool is called whatever the model thinks */
    const char *name;         /* which; NULL: any */
};
/* prepare_tools.c: tools, tool_choice, parallel_tool_calls, the first two into
 * job->rules, too. */
MUST_CHECK enum status prepare_tools(const struct json *body, struct job *job,
                                     struct tool_choice *choice,
                                     struct error *err);
/* The begin of the call that is forced: appended to the prompt, and known to
 * job->rules. */
void prepare_tools_begin(const struct json *messages,
                         const struct tool_choice *choice, struct job *job,
                         struct buf *prompt);
/* prepare_messages.c: the list of messages as the model's template wants it. */
MUST_CHECK enum status prepare_messages_write(const struct json *messages,
                                              const struct model *model,
                                              struct json_out *out,
                                              struct error *err);
/* prepare_prompt.c: job->prompt from messages or prompt, for job->model. */
MUST_CHECK enum status prepare_messages(const struct json *body,
                                        struct job *job, struct error *err);
MUST_CHECK enum status prepare_text(const struct json *body, struct job *job,
                                    struct error *err);

#endif
