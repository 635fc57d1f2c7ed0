/* agent.c - the parts of the agent put together on one loop. */
#include "node-agent/agent.h"

#include <assert.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "common/fault.h"
#include "common/log.h"
#include "common/mem.h"
#include "node-agent/agent_states.h"
#include "node-agent/announce.h"
#include "node-agent/control.h"
#include "node-agent/engines.h"
#include "node-agent/host.h"
#include "node-agent/link.h"
#include "node-agent/models.h"
#include "node-agent/renewal.h"
#include "node-agent/runtime.h"
#include "node-agent/status.h"

#include "common/banned.h"

enum {
    RENEWAL_CHECK_S = 3600,
    STOP_POLL_MS = 10,
    STOP_MOST_MS = 4000, /* engines get ENGINE_END_MAX_MS of it */
    COORDINATOR_BYTES = HOME_HOST_BYTES + 16,
};

struct agent {
    struct agent_setup setup;
    struct probe probe;
    struct runtime runtime;
    enum agent_state state;
    bool is_paused;          /* by the owner; also a file, to outlive us */
    bool is_drained;         /* by the owner */
    bool coordinator_drains; /* until told otherwise or the next welcome */
    uint64_t epoch;          /* highest seen */
    char node[UUID_TEXT_BYTES];
    char name[WIRE_NAME_BYTES];
    char coordinator[COORDINATOR_BYTES];
    char log_folder[HOME_FILE_BYTES];
    struct link *link;
    struct models *models;
    struct known_models known;
    struct engines *engines;
    struct control *control;
    struct renewal renewal;
    struct event *renew_timer;
    struct event *children; /* SIGCHLD */
    struct event *stop_timer;
    unsigned stop_polls;
    bool is_stopping;
    bool was_refused;
};

/* --- what the coordinator is told --- */

static struct announce_view
view_of(const struct agent *agent)
{
    return (struct announce_view){.state = agent_state_name(agent->state),
                                  .node = agent->node,
                                  .epoch = agent->epoch,
                                  .slots = agent->setup.config->slots,
                                  .is_paused = agent->is_paused,
                                  .is_drained = agent->is_drained,
                                  .coordinator_drains =
                                      agent->coordinator_drains,
                                  .probe = &agent->probe,
                                  .models = agent->models,
                                  .engines = agent->engines};
}

static void
fill_hello(void *arg, struct wire_hello *hello)
{
    struct announce_view view = view_of(arg);

    announce_hello_fill(&view, hello);
}

static void
fill_beat(void *arg, struct wire_beat *beat)
{
    const struct agent *agent = arg;

    beat->has_free_bytes = true;
    beat->free_bytes = engines_room(agent->engines);
}

static void
announce_state(struct agent *agent)
{
    struct wire_state *state = mem_alloc(sizeof(*state));
    struct announce_view view = view_of(agent);

    announce_state_fill(&view, state);
    link_send(agent->link, WIRE_STATE, state);
    free(state);
}

static void
announce_models(void *arg)
{
    struct agent *agent = arg;
    struct wire_models *models = mem_alloc(sizeof(*models));
    struct announce_view view = view_of(agent);

    models->model_count = announce_models_fill(&view, models->models);
    link_send(agent->link, WIRE_MODELS, models);
    free(models);
}

static void
on_models_change(void *arg)
{
    struct agent *agent = arg;

    engines_expect(agent->engines, models_latest(agent->models)->model_count);
    announce_models(arg);
    announce_state(arg); /* the reason for having none may have come or gone */
}

/* --- states --- */

static void
step(struct agent *agent, enum agent_event event)
{
    const struct agent_transition *found =
        agent_transition_find(agent->state, event);

    if (found == NULL)
        return;
    log_info("agent.state", "from=%s to=%s", agent_state_name(agent->state),
             agent_state_name(found->to));
    agent->state = found->to;
    switch (found->action) {
    case AGENT_GIVE_BACK:
        engines_end_jobs(agent->engines, "owner_returned",
                         "the owner wants the machine");
        engines_stop(agent->engines, true);
        break;
    case AGENT_ANNOUNCE:
    case AGENT_ACTION_COUNT:
        break;
    }
    announce_state(agent);
}

static void
on_jobs(void *arg)
{
    struct agent *agent = arg;

    step(agent, engines_job_count(agent->engines) > 0 ? AGENT_JOB_BEGUN
                                                      : AGENT_JOBS_ENDED);
}

static void
keep_pause(struct agent *agent)
{
    struct error err = {0};

    if (!agent->is_paused)
        home_remove(agent->setup.home, "paused");
    else if (home_write(agent->setup.home, "paused", "", 0, &err) != STATUS_OK)
        log_warn("agent.pause", "reason=%s", LOG_QUOTED(err.text));
}

/* Ask the flags where to go: a pause goes before a drain. */
static void
follow_wishes(struct agent *agent)
{
    bool is_busy = engines_job_count(agent->engines) > 0;
    bool drains = agent->is_drained || agent->coordinator_drains;

    if (agent->is_paused) {
        step(agent, AGENT_PAUSE);
        return;
    }
    if (agent->state == AGENT_PAUSED || !drains)
        step(agent, is_busy ? AGENT_RESUME_BUSY : AGENT_RESUME);
    if (drains)
        step(agent, AGENT_DRAIN);
}

/* --- messages from the coordinator --- */

/* Remember a higher epoch before anything is done in its name. */
static bool
is_current(struct agent *agent, uint64_t epoch)
{
    if (epoch < agent->epoch)
        return false;
    if (epoch > agent->epoch) {
        agent->epoch = epoch;
        home_epoch_set(agent->setup.home, epoch);
    }
    return true;
}

static void
send_renewal(struct agent *agent)
{
    struct wire_renew *renew = mem_alloc(sizeof(*renew));

    if (link_state(agent->link) == LINK_UP &&
        renewal_is_due(&agent->renewal, renew))
        link_send(agent->link, WIRE_RENEW, renew);
    free(renew);
}

static void
on_renew_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    send_renewal(arg);
}

static void
on_welcome(void *arg, const struct wire_welcome *welcome)
{
    struct agent *agent = arg;
    struct error err = {0};

    if (!is_current(agent, welcome->epoch)) {
        link_close(agent->link, "the coordinator's epoch is over; a newer "
                                "one reigns");
        return;
    }
    if (strcmp(agent->name, welcome->name) != 0) {
        snprintf(agent->name, sizeof(agent->name), "%s", welcome->name);
        if (home_write(agent->setup.home, "name", agent->name,
                       strlen(agent->name), &err) != STATUS_OK)
            log_warn("agent.name", "reason=%s", LOG_QUOTED(err.text));
    }
    engines_report(agent->engines); /* before anything about jobs */
    /* A drain that still holds is told again after every welcome. */
    agent->coordinator_drains = false;
    follow_wishes(agent);
    on_models_change(agent); /* both may have changed since the hello */
    send_renewal(agent);
}

/* Why no job is taken now; NULL when one is. */
static const char *
refusal(const struct agent *agent)
{
    if (agent->is_stopping)
        return "agent_stopped";
    switch (agent->state) {
    case AGENT_PAUSED:
        return "paused";
    case AGENT_DRAINING:
        return "draining";
    case AGENT_LENDING:
    case AGENT_BUSY:
    case AGENT_STATE_COUNT:
        break;
    }
    return NULL;
}

/* The answer to a job.run that came before: all that the attempt has made. */
static void
ask_again(struct agent *agent, const struct wire_job_run *run)
{
    struct wire_job_resume resume = {
        .attempt = run->attempt, .epoch = run->epoch, .from = run->done_count};

    memcpy(resume.job, run->job, sizeof(resume.job));
    engines_resume(agent->engines, &resume);
}

static void
take_run(struct agent *agent, const struct wire_job_run *run,
         const uint8_t *frame, size_t size)
{
    const char *code = refusal(agent);
    char text[WIRE_TEXT_BYTES];

    if (!is_current(agent, run->epoch)) {
        snprintf(text, sizeof(text),
                 "epoch %" PRIu64 " is over; %" PRIu64 " was seen", run->epoch,
                 agent->epoch);
        engines_refuse(agent->engines, run->job, run->attempt, "stale_epoch",
                       text);
    } else if (engines_knows(agent->engines, run->job, run->attempt)) {
        ask_again(agent, run); /* the same attempt twice runs once */
    } else if (code != NULL) {
        engines_refuse(agent->engines, run->job, run->attempt, code,
                       "this node takes no jobs now");
    } else {
        FAULT_STEP("agent.run");
        log_info("job.run", "job=%s attempt=%" PRIu32 " model=%s", run->job,
                 run->attempt, run->model);
        engines_run(agent->engines, run,
                    models_find(agent->models, run->digest), frame, size);
    }
}

static void
take_drain(struct agent *agent, const struct wire_drain *drain)
{
    if (!is_current(agent, drain->epoch))
        return;
    agent->coordinator_drains = drain->on;
    follow_wishes(agent);
}

static void
on_frame(void *arg, const struct wire_message *message, const uint8_t *frame,
         size_t size)
{
    struct agent *agent = arg;

    switch (message->type) {
    case WIRE_JOB_INPUT:
        if (is_current(agent, message->job_input.epoch))
            engines_input(agent->engines, &message->job_input, frame, size);
        break;
    case WIRE_JOB_RUN:
        take_run(agent, &message->job_run, frame, size);
        break;
    case WIRE_JOB_CANCEL:
        if (is_current(agent, message->job_cancel.epoch))
            engines_cancel(agent->engines, &message->job_cancel);
        break;
    case WIRE_DRAIN:
        take_drain(agent, &message->drain);
        break;
    case WIRE_RENEWED:
        renewal_take(&agent->renewal, &message->renewed);
        break;
    case WIRE_CATALOGUE:
        /* For the owner to see; all good folders are announced anyway. */
        known_models_take(&agent->known, &message->catalogue);
        break;
    case WIRE_JOB_ACK:
        engines_ack(agent->engines, &message->job_ack);
        break;
    case WIRE_JOB_RESUME:
        if (is_current(agent, message->job_resume.epoch))
            engines_resume(agent->engines, &message->job_resume);
        break;
    case WIRE_HELLO:
    case WIRE_JOB_HELD:
    case WIRE_BEAT:
    case WIRE_STATE:
    case WIRE_MODELS:
    case WIRE_RENEW:
    case WIRE_WELCOME:
    case WIRE_REFUSE:
    case WIRE_JOB_STARTED:
    case WIRE_JOB_TOKENS:
    case WIRE_JOB_DONE:
    case WIRE_JOB_FAIL:
    case WIRE_ENGINE_READY:
    case WIRE_ENGINE_BROKEN:
    case WIRE_ENGINE_BEAT:
    case WIRE_TYPE_COUNT:
        link_close(agent->link, "the coordinator sent an agent's message");
        break;
    }
}

static void
on_down(void *arg)
{
    struct agent *agent = arg;

    engines_unbind(agent->engines);
}

static void
on_refused(void *arg, const struct wire_refuse *refuse)
{
    struct agent *agent = arg;
    struct error err = {0};

    engines_unbind(agent->engines); /* nothing goes up any more */
    fprintf(stderr, "berth-node: the coordinator refuses this node: %s\n",
            refuse->text);
    if (strcmp(refuse->code, "revoked") == 0) {
        engines_forget(agent->engines);
        if (home_write(agent->setup.home, "removed", refuse->text,
                       strlen(refuse->text), &err) != STATUS_OK)
            log_warn("agent.removed", "reason=%s", LOG_QUOTED(err.text));
    }
    agent->was_refused = true;
    agent_stop(agent);
}

static void
on_engines_frame(void *arg, const void *frame, size_t size)
{
    struct agent *agent = arg;

    link_send_frames(agent->link, frame, size);
}

/* --- the owner's commands --- */

static void
write_status(const struct agent *agent, bool as_json, struct buf *answer)
{
    struct wire_state *state = mem_alloc(sizeof(*state));
    const struct announce_view announced = view_of(agent);
    const struct status_view view = {.state = agent_state_name(agent->state),
                                     .node = agent->node,
                                     .name = agent->name,
                                     .coordinator = agent->coordinator,
                                     .simulated = agent->probe.simulated,
                                     .link = agent->link,
                                     .known = &agent->known,
                                     .models = agent->models,
                                     .engines = agent->engines,
                                     .announced = state};

    announce_state_fill(&announced, state);
    if (as_json)
        status_write_json(&view, answer);
    else
        status_write_text(&view, answer);
    free(state);
}

static bool
on_command(void *arg, const char *command, bool as_json, struct buf *answer)
{
    struct agent *agent = arg;

    if (strcmp(command, "pause") == 0)
        agent->is_paused = true;
    else if (strcmp(command, "drain") == 0)
        agent->is_drained = true;
    else if (strcmp(command, "resume") == 0)
        agent->is_paused = agent->is_drained = false;
    else if (strcmp(command, "status") != 0)
        return false;
    if (strcmp(command, "status") != 0) {
        keep_pause(agent);
        follow_wishes(agent);
        announce_state(agent); /* the reasons may differ, the state not */
    }
    write_status(agent, as_json, answer);
    return true;
}

/* --- life --- */

static void
on_child(evutil_socket_t number, short what, void *arg)
{
    struct agent *agent = arg;

    (void)number;
    (void)what;
    models_reap(agent->models);
    engines_reap(agent->engines);
}

static void
on_stop_timer(evutil_socket_t fd, short what, void *arg)
{
    struct agent *agent = arg;
    bool is_over = ++agent->stop_polls > STOP_MOST_MS / STOP_POLL_MS;

    (void)fd;
    (void)what;
    if (is_over ||
        (!engines_are_running(agent->engines) &&
         engines_are_safe(agent->engines) && link_pending(agent->link) == 0))
        event_base_loopexit(agent->setup.base, NULL);
}

/* Who we are, and what was remembered. */
static enum status
read_home(struct agent *agent, struct error *err)
{
    const struct home *home = agent->setup.home;
    const char *address = agent->setup.config->link;
    struct identity identity;
    struct buf name;
    enum status status = identity_read(home, &identity, err);

    if (status != STATUS_OK)
        return status;
    memcpy(agent->node, identity.node, sizeof(agent->node));
    if (address[0] != '\0')
        status = home_link_parse(address, identity.host, &identity.port, err);
    snprintf(agent->coordinator, sizeof(agent->coordinator), "%s:%u",
             identity.host, (unsigned)identity.port);
    identity_clear(&identity);
    if (home_read(home, "name", &name, NULL) == STATUS_OK)
        snprintf(agent->name, sizeof(agent->name), "%.127s", name.data);
    buf_clear(&name);
    agent->epoch = home_epoch(home);
    agent->is_paused = home_has(home, "paused");
    agent->state = agent->is_paused ? AGENT_PAUSED : AGENT_LENDING;
    if (status == STATUS_OK)
        status =
            folder_make(home_file(home, "log", agent->log_folder), 0700, err);
    return status;
}

static void
make_parts(struct agent *agent)
{
    const struct agent_setup *setup = &agent->setup;
    const struct wire_facts *facts = &agent->probe.facts;
    char journal[HOME_FILE_BYTES];
    const struct link_hooks link_hooks = {.fill_hello = fill_hello,
                                          .fill_beat = fill_beat,
                                          .on_welcome = on_welcome,
                                          .on_frame = on_frame,
                                          .on_down = on_down,
                                          .on_refused = on_refused,
                                          .arg = agent};
    const struct engines_setup engines_setup = {
        .base = setup->base,
        .program = setup->engine,
        .socket_folder = agent->runtime.path,
        .log_folder = agent->log_folder,
        .journal = home_file(setup->home, "journal", journal),
        .threads = setup->config->threads,
        .slots = setup->config->slots,
        .silence_s = setup->config->engine_silence_s,
        .limit_bytes = facts->has_limit_bytes ? facts->limit_bytes : 0,
        .hooks = {.on_frame = on_engines_frame,
                  .on_jobs = on_jobs,
                  .on_loaded = announce_models,
                  .free_bytes = host_free_bytes,
                  .arg = agent}};

    agent->models = models_new(setup->base, setup->config, setup->home,
                               on_models_change, agent);
    agent->engines = engines_new(&engines_setup);
    agent->link = link_new(setup->base, setup->home, setup->config->link,
                           setup->config->reconnect_max_s, &link_hooks);
    agent->children = evsignal_new(setup->base, SIGCHLD, on_child, agent);
    agent->stop_timer =
        event_new(setup->base, -1, EV_PERSIST, on_stop_timer, agent);
    agent->renew_timer =
        event_new(setup->base, -1, EV_PERSIST, on_renew_timer, agent);
    renewal_init(&agent->renewal, setup->home);
}

enum status
agent_new(const struct agent_setup *setup, struct agent **made,
          struct error *err)
{
    struct agent *agent = mem_alloc(sizeof(*agent));
    enum status status;

    agent->setup = *setup;
    agent->probe = *setup->probe;
    status = read_home(agent, err);
    if (status == STATUS_OK)
        status = runtime_open(setup->home, &agent->runtime, err);
    if (status != STATUS_OK) {
        free(agent);
        return status;
    }
    make_parts(agent);
    status = control_open(setup->base, &agent->runtime, on_command, agent,
                          &agent->control, err);
    if (status != STATUS_OK)
        agent_free(agent);
    else
        *made = agent;
    return status;
}

void
agent_free(struct agent *agent)
{
    if (agent == NULL)
        return;
    control_close(agent->control);
    known_models_clear(&agent->known);
    engines_free(agent->engines); /* what is not acknowledged is written */
    link_free(agent->link);
    models_free(agent->models);
    event_free(agent->children);
    event_free(agent->stop_timer);
    event_free(agent->renew_timer);
    renewal_clear(&agent->renewal);
    runtime_close(agent->setup.home, &agent->runtime);
    free(agent);
}

void
agent_start(struct agent *agent)
{
    const struct timeval check = {.tv_sec = RENEWAL_CHECK_S};

    event_add(agent->children, NULL);
    event_add(agent->renew_timer, &check);
    models_start(agent->models);
    link_start(agent->link);
}

void
agent_stop(struct agent *agent)
{
    const struct timeval poll = {.tv_usec = STOP_POLL_MS * 1000};

    if (agent->is_stopping) {
        event_base_loopexit(agent->setup.base, NULL);
        return;
    }
    agent->is_stopping = true;
    engines_end_jobs(agent->engines, "agent_stopped",
                     "the agent is being stopped");
    engines_stop(agent->engines, false);
    event_add(agent->stop_timer, &poll);
}

bool
agent_was_refused(const struct agent *agent)
{
    return agent->was_refused;
}
