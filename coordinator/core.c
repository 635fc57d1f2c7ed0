/* core.c - the core thread: commands in, rounds, timers, views out. */
#include "coordinator/core.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "coordinator/content.h"
#include "coordinator/core_private.h"
#include "coordinator/http.h"
#include "coordinator/links.h"
#include "coordinator/store_jobs.h"

#include "common/banned.h"

enum {
    FLEET_PUBLISH_MS = 20, /* at most one view of the fleet in so long */
    IDLE_WAIT_MS = 1000,
    NUDGE_S = 15,
    STALE_S = 5, /* a view whose last_seen alone is old may be so old */
    SWEEP_S = 600,
};

enum status
core_new(struct app *app, struct core **out, struct error *err)
{
    struct core *core;
    int wake[2];

    if (pipe(wake) != 0)
        return error_set(err, STATUS_RETRY,
                         "no descriptor is left to start with: raise the "
                         "limit (ulimit -n)");
    core = mem_alloc(sizeof(*core));
    memcpy(core->wake, wake, sizeof(core->wake));
    core->app = app;
    pthread_mutex_init(&core->lock, NULL);
    for (size_t i = 0; i < COUNT_OF(core->wake); i++) {
        (void)fcntl(core->wake[i], F_SETFL, O_NONBLOCK);
        (void)fcntl(core->wake[i], F_SETFD, FD_CLOEXEC);
    }
    pthread_mutex_init(&core->records_lock, NULL);
    inventory_init(&core->inventory, app->snapshots);
    *out = core;
    return STATUS_OK;
}

struct inventory *
core_inventory(struct core *core)
{
    return &core->inventory;
}

void
core_want_round(struct core *core)
{
    core->want_round = true;
}

/* A full pipe wakes it just as well. */
static void
loop_wake(struct core *core)
{
    while (write(core->wake[1], "", 1) < 0 && errno == EINTR)
        continue;
}

void
core_post(struct core *core, void (*fn)(struct core *core, void *arg),
          void *arg)
{
    struct command *command = mem_alloc(sizeof(*command));

    command->run = fn;
    command->arg = arg;
    pthread_mutex_lock(&core->lock);
    if (core->last == NULL) {
        core->first = command;
        loop_wake(core);
    } else {
        core->last->next = command;
    }
    core->last = command;
    pthread_mutex_unlock(&core->lock);
}

/* --- the loop --- */

/* Waits until there is a command, @limit has passed on the monotonic clock
 * (which a condition variable cannot use on every system), or the end is asked.
 */
static struct command *
commands_take(struct core *core, struct span limit, bool *quit)
{
    struct pollfd woken = {.fd = core->wake[0], .events = POLLIN};
    struct command *list;
    char drained[64];

    (void)poll(&woken, 1, (int)span_as_ms(span_add(limit, span_ms(1))));
    while (read(core->wake[0], drained, sizeof(drained)) > 0)
        continue;
    pthread_mutex_lock(&core->lock);
    list = core->first;
    core->first = core->last = NULL;
    *quit = core->quit && list == NULL;
    pthread_mutex_unlock(&core->lock);
    return list;
}

static void
on_swept(void *arg, enum status status, struct db_rows *const *rows,
         size_t count, const struct error *err)
{
    (void)arg;
    (void)rows;
    (void)count;
    if (status != STATUS_OK)
        log_warn("content.sweep_failed", "status=%s detail=\"%s\"",
                 status_name(status), err->text);
}

/* Requests and results whose retention is over, and their day keys. */
static void
content_sweep(struct core *core, struct span now)
{
    char day[16];
    struct write *write;

    if (core->swept.ns != 0 &&
        span_sub(now, core->swept).ns < span_s(SWEEP_S).ns)
        return;
    core->swept = now;
    if (core->app->content == NULL)
        return;
    content_oldest_day(core->app->content, clock_wall(), day);
    write = write_new(on_swept, NULL);
    store_content_forget(write, day);
    writer_submit(core->app->writer, write);
    content_destroy_before(core->app->content, day);
}

static void
nudge(struct core *core, struct span now)
{
    if (core->http == NULL ||
        span_sub(now, core->nudged).ns < span_s(NUDGE_S).ns)
        return;
    core->nudged = now;
    http_nudge(core->http);
}

static struct span
turn_end(struct core *core)
{
    struct span now = clock_monotonic();
    struct span wait;

    if (core->want_round) {
        core->want_round = false;
        jobs_round(core);
    }
    wait = jobs_timers(core, now);
    records_sweep(core, now);
    content_sweep(core, now);
    nudge(core, now);
    if (core->inventory.fleet_stale &&
        span_sub(now, core->fleet_published).ns > span_s(STALE_S).ns)
        core->inventory.fleet_dirty = true;
    if (core->inventory.fleet_dirty) {
        struct span age = span_sub(now, core->fleet_published);
        struct span left = span_sub(span_ms(FLEET_PUBLISH_MS), age);

        if (left.ns > 0 && left.ns < wait.ns)
            wait = left;
        if (left.ns <= 0) {
            inventory_publish(&core->inventory);
            core->fleet_published = now;
        }
    }
    if (core->want_round)
        wait = (struct span){0};
    return wait.ns < span_ms(IDLE_WAIT_MS).ns ? wait : span_ms(IDLE_WAIT_MS);
}

static void *
core_loop(void *arg)
{
    struct core *core = arg;
    struct span wait = {0};
    bool quit = false;

    while (!quit) {
        struct command *list = commands_take(core, wait, &quit);

        while (list != NULL) {
            struct command *next = list->next;

            list->run(core, list->arg);
            free(list);
            list = next;
        }
        wait = turn_end(core);
    }
    return NULL;
}

enum status
core_start(struct core *core, struct error *err)
{
    inventory_publish(&core->inventory);
    if (pthread_create(&core->thread, NULL, core_loop, core) != 0)
        return error_set(err, STATUS_RETRY,
                         "no thread can be started: raise the limit (ulimit "
                         "-u)");
    core->started = true;
    return STATUS_OK;
}

/* --- commands of other threads --- */

static void
run_serve(struct core *core, void *arg)
{
    core->http = arg;
}

void
core_serve(struct core *core, struct http *http)
{
    core_post(core, run_serve, http);
}

static void
run_submit(struct core *core, void *arg)
{
    job_submit(core, arg);
}

void
core_submit(struct core *core, struct job *job)
{
    /* At once: a reader that comes back after a restart may ask before the core
     * has had its first turn. */
    if (job->outlives)
        records_add(core, job->id, job->record);
    core_post(core, run_submit, job);
}

struct watched_command {
    struct job *job;
    int fd;
};

static void
run_submit_watched(struct core *core, void *arg)
{
    struct watched_command *watched = arg;
    struct job *job = watched->job;
    struct record_end end = {.failed = true};

    if (links_watch(core->app->links, watched->fd, job->id, &end.error) ==
        STATUS_OK) {
        job_submit(core, job);
    } else {
        record_finish(job->record, &end);
        job_free(job);
    }
    free(watched);
}

void
core_submit_watched(struct core *core, struct job *job, int fd)
{
    struct watched_command *watched = mem_alloc(sizeof(*watched));

    watched->job = job;
    watched->fd = fd;
    core_post(core, run_submit_watched, watched);
}

struct cancel_command {
    char job[UUID_TEXT_BYTES];
    char reason[JOB_REASON_BYTES];
    void (*done)(void *arg, enum status status);
    void *arg;
};

static void
run_cancel(struct core *core, void *arg)
{
    struct cancel_command *cancel = arg;
    struct job *job = idmap_get(&core->jobs, cancel->job);
    bool live = job != NULL && !job->cancelled && job->state != JOB_ENDING &&
                job->state != JOB_ENDED;

    if (live && cancel->done != NULL) {
        job->on_ended = cancel->done;
        job->ended_arg = cancel->arg;
    } else if (cancel->done != NULL) {
        cancel->done(cancel->arg, STATUS_CONFLICT);
    }
    if (live)
        (void)job_cancel(core, job, cancel->reason);
    free(cancel);
}

void
core_cancel_answer(struct core *core, const char *job, const char *reason,
                   void (*done)(void *arg, enum status status), void *arg)
{
    struct cancel_command *cancel = mem_alloc(sizeof(*cancel));

    assert(strlen(job) < sizeof(cancel->job));
    assert(strlen(reason) < sizeof(cancel->reason));
    memcpy(cancel->job, job, strlen(job) + 1);
    memcpy(cancel->reason, reason, strlen(reason) + 1);
    cancel->done = done;
    cancel->arg = arg;
    core_post(core, run_cancel, cancel);
}

void
core_cancel(struct core *core, const char *job, const char *reason)
{
    core_cancel_answer(core, job, reason, NULL, NULL);
}

struct link_command {
    uint64_t link;
    char node[UUID_TEXT_BYTES];
    char reason[128];
    struct wire_message *message;
};

/* How much of a message's union its type uses. */
static size_t
message_size(enum wire_type type)
{
    static const size_t sizes[WIRE_TYPE_COUNT] = {
        [WIRE_HELLO] = sizeof(struct wire_hello),
        [WIRE_BEAT] = sizeof(struct wire_beat),
        [WIRE_STATE] = sizeof(struct wire_state),
        [WIRE_MODELS] = sizeof(struct wire_models),
        [WIRE_RENEW] = sizeof(struct wire_renew),
        [WIRE_JOB_HELD] = sizeof(struct wire_job_held),
        [WIRE_JOB_STARTED] = sizeof(struct wire_job_started),
        [WIRE_JOB_DONE] = sizeof(struct wire_job_done),
        [WIRE_JOB_FAIL] = sizeof(struct wire_job_fail),
    };

    return offsetof(struct wire_message, hello) + sizes[type];
}

static void
run_message(struct core *core, void *arg)
{
    struct link_command *command = arg;

    node_message(core, command->link, command->node, command->message);
    free(command->message);
    free(command);
}

void
core_link_message(struct core *core, uint64_t link, const char *node,
                  const struct wire_message *message)
{
    struct link_command *command = mem_alloc(sizeof(*command));
    size_t size = message_size(message->type);

    command->link = link;
    memcpy(command->node, node, strlen(node) + 1);
    /* A beat need not take the room of the largest message. */
    command->message = mem_copy(message, size);
    core_post(core, run_message, command);
}

static void
run_link_down(struct core *core, void *arg)
{
    struct link_command *command = arg;

    node_link_down(core, command->link, command->node, command->reason);
    free(command);
}

void
core_link_down(struct core *core, uint64_t link, const char *node,
               const char *reason)
{
    struct link_command *command = mem_alloc(sizeof(*command));

    command->link = link;
    memcpy(command->node, node, strlen(node) + 1);
    snprintf(command->reason, sizeof(command->reason), "%s", reason);
    core_post(core, run_link_down, command);
}

struct output_command {
    char job[UUID_TEXT_BYTES];
    uint32_t attempt;
    bool full;
};

static void
run_output(struct core *core, void *arg)
{
    struct output_command *output = arg;
    struct job *job = idmap_get(&core->jobs, output->job);

    if (job != NULL && job->attempt_count > 0 &&
        job->attempts[job->attempt_count - 1].number == output->attempt &&
        job->state == JOB_RUNNING) {
        if (output->full)
            job_step(core, job, JOB_FULL);
        else
            job_lose(core, job, "bad_output");
    }
    free(output);
}

static void
output_post(struct core *core, const char *job, uint32_t attempt, bool full)
{
    struct output_command *output = mem_alloc(sizeof(*output));

    memcpy(output->job, job, strlen(job) + 1);
    output->attempt = attempt;
    output->full = full;
    core_post(core, run_output, output);
}

void
core_output_full(struct core *core, const char *job, uint32_t attempt)
{
    output_post(core, job, attempt, true);
}

void
core_output_broken(struct core *core, const char *job, uint32_t attempt)
{
    output_post(core, job, attempt, false);
}

/* --- the end --- */

/* Jobs that die with this process are cancelled; the others keep their rows
 * and are taken up by the next reign. */
static void
run_stop(struct core *core, void *arg)
{
    struct job *job;
    size_t at = 0, count = 0;
    struct job **live = mem_array(core->jobs.count + 1, sizeof(struct job *));

    (void)arg;
    core->stopping = true;
    while ((job = idmap_next(&core->jobs, &at)) != NULL)
        if (!job->outlives)
            live[count++] = job;
    for (size_t i = 0; i < count; i++)
        (void)job_cancel(core, live[i], "shutdown");
    free(live);
}

struct count_command {
    pthread_mutex_t lock;
    pthread_cond_t done;
    size_t count;
    bool answered;
};

static void
run_count(struct core *core, void *arg)
{
    struct count_command *count = arg;
    struct job *job;
    size_t at = 0, left = 0;

    while ((job = idmap_next(&core->jobs, &at)) != NULL)
        if (!job->outlives && job->state != JOB_ENDED)
            left++;
    pthread_mutex_lock(&count->lock);
    count->count = left;
    count->answered = true;
    pthread_cond_signal(&count->done);
    pthread_mutex_unlock(&count->lock);
}

static size_t
live_count(struct core *core)
{
    struct count_command count = {.count = 0};

    pthread_mutex_init(&count.lock, NULL);
    pthread_cond_init(&count.done, NULL);
    core_post(core, run_count, &count);
    pthread_mutex_lock(&count.lock);
    while (!count.answered)
        pthread_cond_wait(&count.done, &count.lock);
    pthread_mutex_unlock(&count.lock);
    pthread_mutex_destroy(&count.lock);
    pthread_cond_destroy(&count.done);
    return count.count;
}

void
core_stop(struct core *core, int limit_ms)
{
    struct span until = span_add(clock_monotonic(), span_ms(limit_ms));

    if (!core->started)
        return;
    core_post(core, run_stop, NULL);
    while (live_count(core) > 0 && clock_monotonic().ns < until.ns) {
        struct timespec pause = {.tv_nsec = 5000000};

        nanosleep(&pause, NULL);
    }
    pthread_mutex_lock(&core->lock);
    core->quit = true;
    loop_wake(core);
    pthread_mutex_unlock(&core->lock);
    pthread_join(core->thread, NULL);
    core->started = false;
}

void
core_free(struct core *core)
{
    struct job *job;
    struct kept_record *kept;
    size_t at = 0;

    if (core == NULL)
        return;
    /* What came after the last turn: ends of writes, flat heap blocks. */
    while (core->first != NULL) {
        struct command *command = core->first;

        core->first = command->next;
        free(command->arg);
        free(command);
    }
    while ((job = idmap_next(&core->jobs, &at)) != NULL)
        job_free(job);
    idmap_clear(&core->jobs);
    at = 0;
    while ((kept = idmap_next(&core->records, &at)) != NULL) {
        record_drop(kept->record);
        free(kept);
    }
    idmap_clear(&core->records);
    inventory_clear(&core->inventory);
    pthread_mutex_destroy(&core->lock);
    for (size_t i = 0; i < COUNT_OF(core->wake); i++)
        close(core->wake[i]);
    pthread_mutex_destroy(&core->records_lock);
    free(core);
}
