/* job.c - making and freeing jobs, and the names of their states. */
#include "coordinator/job.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/mem.h"

#include "common/banned.h"

enum { REQUEST_MAX_BYTES = 16 * 1024 * 1024 };

struct job *
job_new(void)
{
    struct job *job = mem_alloc(sizeof(*job));

    job->created = clock_wall();
    uuid_make(job->created, job->id);
    buf_init(&job->request, REQUEST_MAX_BYTES);
    return job;
}

void
job_free(struct job *job)
{
    if (job == NULL)
        return;
    model_drop(job->model);
    record_drop(job->record);
    free(job->prompt);
    free(job->tools);
    free(job->prefix);
    buf_clear(&job->request);
    free(job);
}

uint64_t
job_drawn_seed(const char *id)
{
    uint8_t digest[SHA256_BYTES];
    uint64_t seed = 0;

    cert_sha256(id, strlen(id), digest);
    for (size_t i = 0; i < sizeof(seed); i++)
        seed = seed << 8 | digest[i];
    return seed >> 1;
}

const char *
job_state_name(enum job_state state)
{
    static const char *const names[JOB_STATE_COUNT] = {
        [JOB_ADMITTING] = "admitting", [JOB_QUEUED] = "queued",
        [JOB_ADRIFT] = "adrift",       [JOB_STARTING] = "starting",
        [JOB_RUNNING] = "running",     [JOB_ENDING] = "ending",
        [JOB_ENDED] = "ended",
    };

    return names[state];
}

const char *
job_event_name(enum job_event event)
{
    static const char *const names[JOB_EVENT_COUNT] = {
        [JOB_HELD] = "held",           [JOB_REFUSED] = "refused",
        [JOB_PLACED] = "placed",       [JOB_COMMITTED] = "committed",
        [JOB_UNWRITTEN] = "unwritten", [JOB_FULL] = "full",
        [JOB_LOST] = "lost",           [JOB_CANCEL] = "cancel",
        [JOB_EXPIRED] = "expired",     [JOB_GIVEN_UP] = "given up",
        [JOB_WRITTEN] = "written",     [JOB_CLAIMED] = "claimed",
        [JOB_POISONED] = "poisoned",
    };

    return names[event];
}
