/* view_json.c - absent knowledge is null, never a guess. */
#include "coordinator/view_json.h"

#include <string.h>

#include "common/clock.h"
#include "common/field.h"

#include "common/banned.h"

void
json_member_instant(struct json_out *out, const char *name, bool known,
                    struct instant at)
{
    char text[32];

    json_member_text(out, name,
                     known ? instant_text(at, text, sizeof(text)) : NULL);
}

static void
member_text_if(struct json_out *out, const char *name, bool known,
               const char *text)
{
    json_member_text(out, name, known && text[0] != '\0' ? text : NULL);
}

static void
member_u64_if(struct json_out *out, const char *name, bool known,
              uint64_t value)
{
    if (known)
        json_member_u64(out, name, value);
    else
        json_member_null(out, name);
}

static void
node_facts(struct json_out *out, const struct node_view *node)
{
    const struct wire_facts *facts = &node->facts;

    member_text_if(out, "chip", node->known, facts->chip);
    member_text_if(out, "model_identifier", facts->has_model_identifier,
                   facts->model_identifier);
    member_text_if(out, "os", node->known, facts->os);
    member_text_if(out, "macos_version", facts->has_macos_version,
                   facts->macos_version);
    member_text_if(out, "macos_build", facts->has_macos_build,
                   facts->macos_build);
    member_u64_if(out, "cores", facts->has_cores, facts->cores);
    member_u64_if(out, "gpu_cores", facts->has_gpu_cores, facts->gpu_cores);
    member_u64_if(out, "memory_bytes", facts->has_memory_bytes,
                  facts->memory_bytes);
    member_u64_if(out, "limit_bytes", facts->has_limit_bytes,
                  facts->limit_bytes);
    member_text_if(out, "limit_source", facts->has_limit_bytes,
                   facts->limit_source);
    if (facts->has_bandwidth_gb_s)
        json_member_double(out, "bandwidth_gb_s", facts->bandwidth_gb_s);
    else
        json_member_null(out, "bandwidth_gb_s");
    member_text_if(out, "bandwidth_source", facts->has_bandwidth_gb_s,
                   facts->bandwidth_measured ? "measured" : "table");
}

static void
node_models(struct json_out *out, const struct node_view *node)
{
    json_key(out, "models");
    json_open_list(out);
    for (size_t i = 0; i < node->model_count; i++)
        json_put_text(out, node->models[i]);
    json_close_list(out);
    json_key(out, "residencies");
    json_open_list(out);
    for (size_t i = 0; i < node->residency_count; i++) {
        json_open_object(out);
        json_member_text(out, "model", node->residencies[i].model);
        json_member_u64(out, "kv_bytes", node->residencies[i].kv_bytes);
        json_close_object(out);
    }
    json_close_list(out);
}

static void
reason(struct json_out *out, const char *code, const char *text,
       const char *step)
{
    json_open_object(out);
    json_member_text(out, "code", code);
    json_member_text(out, "text", text);
    json_member_text(out, "step", step);
    json_close_object(out);
}

static void
node_reasons(struct json_out *out, const struct node_view *node)
{
    json_key(out, "reasons");
    json_open_list(out);
    if (!node->online)
        reason(out, "offline", "its agent is not connected",
               "start it on that machine: berth-node run");
    if (node->online && node->model_count == 0)
        reason(out, "no_model", "none of its model folders is in the catalogue",
               "put a catalogue model into a folder its configuration names, "
               "or add one with: berth models add DIR");
    for (size_t i = 0; i < node->reason_count; i++)
        reason(out, node->reasons[i].code, node->reasons[i].text,
               node->reasons[i].step);
    json_close_list(out);
}

void
json_node(struct json_out *out, const struct node_view *node)
{
    json_open_object(out);
    json_member_text(out, "id", node->id);
    json_member_text(out, "name", node->name);
    json_member_i64(out, "owner", node->owner);
    json_member_text(out, "owner_name", node->owner_name);
    json_member_text(out, "state", node->state);
    json_member_bool(out, "simulated", node->simulated);
    json_member_bool(out, "verified", false);
    node_facts(out, node);
    json_member_u64(out, "in_use_bytes", node->in_use_bytes);
    json_member_null(out, "seat");
    member_text_if(out, "agent", node->known, node->agent);
    member_text_if(out, "backend", node->known, node->backend);
    json_member_u64(out, "slots", node->slots);
    json_member_u64(out, "jobs", node->jobs);
    json_key(out, "pools");
    json_open_list(out);
    for (size_t i = 0; i < node->pool_count; i++)
        json_put_text(out, node->pools[i]);
    json_close_list(out);
    node_models(out, node);
    json_member_instant(out, "last_seen", node->seen, node->last_seen);
    json_member_instant(out, "joined", true, node->joined);
    node_reasons(out, node);
    json_close_object(out);
}

void
json_account(struct json_out *out, const struct account_view *account)
{
    json_member_i64(out, "id", account->id);
    json_member_text(out, "name", account->name);
    json_member_instant(out, "created", true, account->created);
}

void
json_key_members(struct json_out *out, const struct key_view *key)
{
    static const struct {
        uint32_t bit;
        const char *name;
    } scopes[] = {
        {SCOPE_SUBMITTER, "submitter"},
        {SCOPE_OWNER, "owner"},
        {SCOPE_OPERATOR, "operator"},
    };

    json_member_text(out, "id", key->id);
    json_member_i64(out, "account", key->account);
    json_member_text(out, "name", key->name);
    json_member_text(out, "prefix", key->prefix);
    json_key(out, "scopes");
    json_open_list(out);
    for (size_t i = 0; i < COUNT_OF(scopes); i++)
        if ((key->scopes & scopes[i].bit) != 0)
            json_put_text(out, scopes[i].name);
    json_close_list(out);
    json_member_instant(out, "created", true, key->created);
    json_member_instant(out, "expires", key->expiring, key->expires);
    json_member_instant(out, "revoked", key->revoked, key->revoked_at);
}

void
json_catalogue_entry(struct json_out *out, const struct model *model,
                     size_t nodes)
{
    json_open_object(out);
    field_encode(out, catalogue_fields, catalogue_field_count, &model->entry);
    json_member_instant(out, "created", true, model->created);
    json_member_u64(out, "nodes", nodes);
    json_member_bool(out, "chat", model->template != NULL);
    json_close_object(out);
}

void
json_list_open(struct json_out *out)
{
    json_open_object(out);
    json_member_text(out, "object", "list");
    json_key(out, "data");
    json_open_list(out);
}

void
json_list_close(struct json_out *out, const char *next)
{
    json_close_list(out);
    json_member_text(out, "next", next);
    json_close_object(out);
}
