/* end_reason.c - the one table of codes and words. */
#include "coordinator/end_reason.h"

#include <stddef.h>
#include <string.h>

#include "common/mem.h"

#include "common/banned.h"

static const struct {
    const char *code;
    const char *text;
} reasons[] = {
    {"done", "the answer was complete"},
    {"ended_early", "its engine ended before the answer was complete"},
    {"failed", "it failed; the job's error says how"},

    {"owner_returned", "the owner wanted the machine back"},
    {"paused", "its node had been paused by the owner"},
    {"draining", "its node was taking no more jobs"},
    {"agent_stopped", "its node's agent was stopped"},
    {"node_removed", "its node was removed from the network"},

    {"node_lost", "its node stopped answering"},
    {"link_lost", "its node had no coordinator for too long"},
    {"engine_lost", "its engine crashed or was killed"},
    {"stalled", "nothing came from it for too long"},
    {"busy", "its node held as many jobs as it may"},
    {"no_capacity", "its engine held as many jobs as it may"},
    {"no_memory", "its node had too little memory left"},
    {"model_missing", "the model was no longer on its node"},
    {"too_large", "it was larger than its node takes"},
    {"bad_request", "its engine could not read the job"},
    {"bad_output", "its node sent ids that do not continue the answer"},
    {"not_finite", "its engine computed something that is no number"},

    {"cancelled", "it was cancelled"},
    {"asked", "the submitter cancelled the job"},
    {"client_gone", "the client closed its connection"},

    {"shutdown", "the coordinator was being stopped"},
    {"coordinator_lost", "the coordinator was restarted, and nothing was left"},
    {"network_fault", "the coordinator was restarted and gave the job up"},
    {"stale_epoch", "its node already followed another coordinator"},
    {"stale_attempt", "a later attempt had taken its place"},
    {"unknown_attempt", "its node did not hold it any more"},
    {"unwritten", "it could not be written down, so it was never sent"},
    {"internal", "its end could not be written down"},
};

const char *
end_reason_text(const char *code)
{
    for (size_t i = 0; i < COUNT_OF(reasons); i++)
        if (strcmp(reasons[i].code, code) == 0)
            return reasons[i].text;
    return NULL;
}

void
end_reasons_print(struct buf *out)
{
    buf_append_text(out, "| `end_reason` | `end_text` |\n|---|---|\n");
    for (size_t i = 0; i < COUNT_OF(reasons); i++)
        buf_printf(out, "| `%s` | %s |\n", reasons[i].code, reasons[i].text);
}
