/* job_frames.c - what starts an attempt on a node: input, then run. */
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "coordinator/core_private.h"

#include "common/banned.h"

static void
frame_add(struct buf *frames, enum wire_type type, const void *body)
{
    struct error err = {0};

    /* Our own message within its limits: it cannot fail. */
    if (wire_encode(type, body, frames, &err) != STATUS_OK)
        log_error("wire.encode", "type=%s detail=\"%s\"", wire_type_name(type),
                  err.text);
}

static void
inputs_add(struct buf *frames, const struct job *job, uint32_t attempt,
           uint64_t epoch, bool done, const uint32_t *ids, size_t count)
{
    struct wire_job_input *input = mem_alloc(sizeof(*input));

    memcpy(input->job, job->id, sizeof(input->job));
    input->attempt = attempt;
    input->epoch = epoch;
    input->done = done;
    for (size_t at = 0; at < count; at += input->id_count) {
        input->id_count =
            count - at < WIRE_IDS_MAX ? count - at : (size_t)WIRE_IDS_MAX;
        memcpy(input->ids, ids + at, input->id_count * sizeof(*ids));
        frame_add(frames, WIRE_JOB_INPUT, input);
    }
    free(input);
}

static void
run_add(struct buf *frames, const struct job *job, uint32_t attempt,
        uint64_t epoch, uint64_t done_count)
{
    struct wire_job_run *run = mem_alloc(sizeof(*run));

    memcpy(run->job, job->id, sizeof(run->job));
    run->attempt = attempt;
    run->epoch = epoch;
    memcpy(run->model, job->model->entry.id, sizeof(run->model));
    memcpy(run->digest, job->model->entry.digest, sizeof(run->digest));
    run->prompt_count = job->prompt_count;
    run->done_count = done_count;
    run->max_tokens = job->rules.max_tokens;
    run->kv_tokens = job->prompt_count + job->rules.max_tokens;
    run->sampling = job->sampling;
    run->stop_count = job->rules.stop_count;
    memcpy(run->stop, job->rules.stop, sizeof(run->stop));
    frame_add(frames, WIRE_JOB_RUN, run);
    free(run);
}

void
job_frames(const struct job *job, uint32_t attempt, uint64_t epoch,
           struct buf *frames)
{
    size_t done_count;
    uint32_t *done = record_ids(job->record, &done_count);

    inputs_add(frames, job, attempt, epoch, false, job->prompt,
               job->prompt_count);
    inputs_add(frames, job, attempt, epoch, true, done, done_count);
    run_add(frames, job, attempt, epoch, done_count);
    free(done);
}
