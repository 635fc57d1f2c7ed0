/* jobs.c - a short list of attempts and the frames that wait with them. */
#include "node-agent/jobs.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#include "common/banned.h"

void
jobs_init(struct jobs *jobs)
{
    *jobs = (struct jobs){0};
}

void
jobs_clear(struct jobs *jobs)
{
    while (jobs->first != NULL)
        jobs_remove(jobs, jobs->first);
}

struct job *
jobs_find(const struct jobs *jobs, const char *id, uint32_t attempt)
{
    struct job *job = jobs->first;

    while (job != NULL && (strcmp(job->id, id) != 0 ||
                           (attempt != 0 && job->attempt != attempt)))
        job = job->next;
    return job;
}

enum status
jobs_add(struct jobs *jobs, const char *id, uint32_t attempt,
         struct job **added, struct error *err)
{
    struct job *job;

    if (jobs->count >= JOBS_MAX)
        return error_set(err, STATUS_NO_CAPACITY,
                         "this node has its most of %d jobs", JOBS_MAX);
    job = mem_alloc(sizeof(*job));
    snprintf(job->id, sizeof(job->id), "%s", id);
    job->attempt = attempt;
    buf_init(&job->frames, JOB_INPUT_MAX_BYTES);
    job->next = jobs->first;
    jobs->first = job;
    jobs->count++;
    *added = job;
    return STATUS_OK;
}

void
jobs_remove(struct jobs *jobs, struct job *job)
{
    struct job **at = &jobs->first;

    while (*at != NULL && *at != job)
        at = &(*at)->next;
    assert(*at == job);
    *at = job->next;
    jobs->count--;
    buf_clear(&job->frames);
    ids_clear(&job->ids);
    free(job);
}

enum status
jobs_keep(struct jobs *jobs, struct job *job, const void *frame, size_t size,
          struct error *err)
{
    size_t kept = size;

    for (const struct job *other = jobs->first; other != NULL;
         other = other->next)
        kept += other->frames.size;
    if (kept > JOBS_INPUT_MAX_BYTES)
        return error_set(err, STATUS_TOO_LARGE,
                         "input waiting for engines passes %d bytes",
                         JOBS_INPUT_MAX_BYTES);
    buf_append(&job->frames, frame, size);
    return buf_status(&job->frames, err);
}

enum status
jobs_add_ids(struct jobs *jobs, struct job *job, const uint32_t *ids,
             size_t count, struct error *err)
{
    size_t kept = count;

    for (const struct job *other = jobs->first; other != NULL;
         other = other->next)
        kept += other->ids.count;
    if (count > IDS_MAX - job->ids.count)
        return error_set(err, STATUS_TOO_LARGE, "an answer passes %d ids",
                         IDS_MAX);
    if (kept > JOBS_IDS_MAX_BYTES / sizeof(ids[0]))
        return error_set(err, STATUS_TOO_LARGE,
                         "answers on this node pass %d bytes",
                         JOBS_IDS_MAX_BYTES);
    ids_append(&job->ids, ids, count);
    return STATUS_OK;
}

size_t
jobs_count_of(const struct jobs *jobs, const struct engine *engine)
{
    size_t count = 0;

    for (const struct job *job = jobs->first; job != NULL; job = job->next)
        if (job->engine != NULL && (engine == NULL || job->engine == engine))
            count++;
    return count;
}
