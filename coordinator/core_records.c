/* core_records.c - records of outliving jobs, kept a while for readers that
 * come back. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/mem.h"
#include "coordinator/core_private.h"

#include "common/banned.h"

enum {
    KEPT_RECORDS_MAX = 1000,
    KEPT_RECORD_S = 3600,
    /* What is dropped is rebuilt from the stored ids when it is asked for. */
    KEPT_BYTES_MAX = 64 * 1024 * 1024,
};

void
records_add(struct core *core, const char *job, struct record *record)
{
    struct kept_record *kept = mem_alloc(sizeof(*kept));

    memcpy(kept->job, job, strlen(job) + 1);
    kept->record = record_keep(record);
    pthread_mutex_lock(&core->records_lock);
    idmap_put(&core->records, job, kept);
    pthread_mutex_unlock(&core->records_lock);
}

static void
kept_drop_first(struct core *core)
{
    struct kept_record *kept = core->kept_first;

    core->kept_first = kept->next;
    if (core->kept_first == NULL)
        core->kept_last = NULL;
    core->kept_count--;
    core->kept_bytes -= kept->bytes;
    (void)idmap_remove(&core->records, kept->job);
    record_drop(kept->record);
    free(kept);
}

/* The oldest give way. */
static void
kept_trim(struct core *core)
{
    while (core->kept_count > KEPT_RECORDS_MAX ||
           core->kept_bytes > KEPT_BYTES_MAX)
        kept_drop_first(core);
}

void
records_end(struct core *core, const char *job)
{
    struct kept_record *kept;

    pthread_mutex_lock(&core->records_lock);
    kept = idmap_get(&core->records, job);
    if (kept != NULL && !kept->ended) {
        kept->ended = true;
        kept->bytes = record_bytes(kept->record);
        core->kept_bytes += kept->bytes;
        kept->until = span_add(clock_monotonic(), span_s(KEPT_RECORD_S));
        if (core->kept_last == NULL)
            core->kept_first = kept;
        else
            core->kept_last->next = kept;
        core->kept_last = kept;
        core->kept_count++;
        kept_trim(core);
    }
    pthread_mutex_unlock(&core->records_lock);
}

void
records_forget(struct core *core, const char *job)
{
    struct kept_record *kept;

    pthread_mutex_lock(&core->records_lock);
    kept = idmap_remove(&core->records, job);
    pthread_mutex_unlock(&core->records_lock);
    if (kept == NULL)
        return;
    assert(!kept->ended);
    record_drop(kept->record);
    free(kept);
}

struct record *
core_record(struct core *core, const char *job)
{
    struct kept_record *kept;
    struct record *record = NULL;

    pthread_mutex_lock(&core->records_lock);
    kept = idmap_get(&core->records, job);
    if (kept != NULL)
        record = record_keep(kept->record);
    pthread_mutex_unlock(&core->records_lock);
    return record;
}

void
records_sweep(struct core *core, struct span now)
{
    pthread_mutex_lock(&core->records_lock);
    while (core->kept_first != NULL && core->kept_first->until.ns <= now.ns)
        kept_drop_first(core);
    pthread_mutex_unlock(&core->records_lock);
}
