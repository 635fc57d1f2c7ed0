/* status.c - the agent's state as text and as JSON. */
#include "node-agent/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/units.h"

#include "common/banned.h"

/* --- JSON --- */

static void
put_or_null(struct json_out *out, const char *name, const char *text)
{
    json_member_text(out, name, text[0] == '\0' ? NULL : text);
}

static void
put_link(struct json_out *out, const struct status_view *view)
{
    bool is_up = link_state(view->link) == LINK_UP;
    char since[32];

    json_key(out, "link");
    json_open_object(out);
    json_member_text(out, "coordinator", view->coordinator);
    json_member_text(out, "state", link_state_name(link_state(view->link)));
    json_member_text(
        out, "connected_since",
        is_up ? instant_text(link_since(view->link), since, sizeof(since))
              : NULL);
    put_or_null(out, "last_error", link_reason(view->link));
    json_member_i64(out, "next_try_ms", link_next_ms(view->link));
    json_member_u64(out, "unknown_frames", link_unknown_count(view->link));
    json_close_object(out);
}

static void
put_model(struct json_out *out, const struct model_found *model,
          const struct known_models *known, const struct engine *engine)
{
    json_open_object(out);
    json_member_text(out, "catalogue_id",
                     known_models_id(known, model->digest));
    json_member_text(out, "path", model->path);
    json_member_text(out, "digest", model->digest);
    json_member_u64(out, "weight_bytes", model->weight_bytes);
    json_member_bool(out, "loaded",
                     engine != NULL && engine->state == ENGINE_READY);
    json_member_text(out, "engine",
                     engine == NULL ? "off" : engine_state_name(engine->state));
    json_member_u64(
        out, "kv_bytes",
        engine != NULL && engine_holds_memory(engine) ? engine->kv_bytes : 0);
    json_member_u64(out, "restarts",
                    engine == NULL || engine->starts == 0 ? 0
                                                          : engine->starts - 1);
    put_or_null(out, "last_failure", engine == NULL ? "" : engine->reason);
    json_close_object(out);
}

static void
put_models(struct json_out *out, const struct status_view *view)
{
    const struct models_scan *scan = models_latest(view->models);

    json_key(out, "models");
    json_open_list(out);
    for (size_t i = 0; i < scan->model_count; i++)
        put_model(out, &scan->models[i], view->known,
                  engines_of(view->engines, scan->models[i].digest));
    json_close_list(out);
    json_key(out, "refused_models");
    json_open_list(out);
    for (size_t i = 0; i < scan->trouble_count; i++) {
        json_open_object(out);
        json_member_text(out, "path", scan->troubles[i].path);
        json_member_text(out, "reason", scan->troubles[i].reason);
        json_close_object(out);
    }
    json_close_list(out);
}

static void
put_jobs(struct json_out *out, const struct jobs *jobs)
{
    json_key(out, "jobs");
    json_open_list(out);
    for (const struct job *job = jobs->first; job != NULL; job = job->next) {
        if (job->engine == NULL)
            continue;
        json_open_object(out);
        json_member_text(out, "id", job->id);
        json_member_u64(out, "attempt", job->attempt);
        json_member_text(out, "model", job->model);
        json_member_bool(out, "started", job->sent);
        json_member_u64(out, "ids", job->ids.count - job->done);
        json_close_object(out);
    }
    json_close_list(out);
}

static void
put_reasons(struct json_out *out, const struct wire_state *announced)
{
    json_key(out, "reasons");
    json_open_list(out);
    for (size_t i = 0; i < announced->reason_count; i++) {
        json_open_object(out);
        json_member_text(out, "code", announced->reasons[i].code);
        json_member_text(out, "text", announced->reasons[i].text);
        json_member_text(out, "step", announced->reasons[i].step);
        json_close_object(out);
    }
    json_close_list(out);
}

void
status_write_json(const struct status_view *view, struct buf *text)
{
    struct json_out out;

    json_out_init(&out, text);
    json_open_object(&out);
    json_member_text(&out, "state", view->state);
    json_member_text(&out, "id", view->node);
    put_or_null(&out, "name", view->name);
    json_member_bool(&out, "simulated", view->simulated);
    put_link(&out, view);
    json_member_u64(&out, "free_bytes", engines_room(view->engines));
    put_models(&out, view);
    put_jobs(&out, engines_jobs(view->engines));
    put_reasons(&out, view->announced);
    json_close_object(&out);
    buf_append_char(text, '\n');
}

/* --- text --- */

static void
write_link(const struct status_view *view, struct buf *out)
{
    char since[32];

    buf_printf(out, "link         %s %s", view->coordinator,
               link_state_name(link_state(view->link)));
    if (link_state(view->link) == LINK_UP)
        buf_printf(out, " since %s",
                   instant_text(link_since(view->link), since, sizeof(since)));
    buf_append_char(out, '\n');
    if (link_reason(view->link)[0] != '\0')
        buf_printf(out, "last error   %s\n", link_reason(view->link));
    if (link_state(view->link) == LINK_RESTING)
        buf_printf(out, "next try     in %" PRId64 " ms\n",
                   link_next_ms(view->link));
}

static void
write_models(const struct status_view *view, struct buf *out)
{
    const struct models_scan *scan = models_latest(view->models);
    char size[32];

    for (size_t i = 0; i < scan->model_count; i++) {
        const struct engine *engine =
            engines_of(view->engines, scan->models[i].digest);

        const char *id = known_models_id(view->known, scan->models[i].digest);

        if (id == NULL)
            id = view->known->told ? "not in the catalogue: not lent" : "?";
        buf_printf(out, "model        %s  %s  %s  engine %s, %u restarts\n", id,
                   scan->models[i].path,
                   bytes_text(scan->models[i].weight_bytes, size, sizeof(size)),
                   engine == NULL ? "off" : engine_state_name(engine->state),
                   engine == NULL || engine->starts == 0 ? 0
                                                         : engine->starts - 1);
        if (engine != NULL && engine->reason[0] != '\0')
            buf_printf(out, "  last failure: %s\n", engine->reason);
    }
    for (size_t i = 0; i < scan->trouble_count; i++)
        buf_printf(out, "refused      %s\n  %s\n", scan->troubles[i].path,
                   scan->troubles[i].reason);
}

void
status_write_text(const struct status_view *view, struct buf *out)
{
    const struct jobs *jobs = engines_jobs(view->engines);

    buf_printf(out, "state        %s%s\nnode         %s %s\n", view->state,
               view->simulated ? " (simulated)" : "", view->node, view->name);
    write_link(view, out);
    write_models(view, out);
    for (const struct job *job = jobs->first; job != NULL; job = job->next)
        if (job->engine != NULL)
            buf_printf(
                out,
                "job          %s attempt %" PRIu32 "  %s  %" PRIu64 " ids\n",
                job->id, job->attempt, job->model, job->ids.count - job->done);
    for (size_t i = 0; i < view->announced->reason_count; i++)
        buf_printf(out, "reason       %s; %s\n",
                   view->announced->reasons[i].text,
                   view->announced->reasons[i].step);
}
