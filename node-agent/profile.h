/* profile.h - recorded outputs of a Mac's tools, parsed.
 *
 * Each command is answered from the one file whose name starts with the
 * command's; this form reads `sp_hardware` (system_profiler -json
 * SPHardwareDataType) and `sysctl`.  What is missing or damaged is absent, with
 * the reason noted.  Serial numbers and hardware ids are never kept. */
#ifndef BERTH_NODE_AGENT_PROFILE_H
#define BERTH_NODE_AGENT_PROFILE_H

#include <stddef.h>

#include "common/attrs.h"
#include "common/error.h"
#include "node-agent/probe.h"

/* Fill chip, model identifier, memory, cores and wired limit. */
void profile_read(const char *folder, struct probe *probe);

/* The parsers; pure. */
MUST_CHECK enum status profile_hardware_parse(const char *text, size_t size,
                                              struct probe *probe,
                                              struct error *err);
MUST_CHECK enum status profile_sysctl_parse(const char *text, size_t size,
                                            struct probe *probe,
                                            struct error *err);

#endif
