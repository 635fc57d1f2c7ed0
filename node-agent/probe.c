/* probe.c - facts from the system, conclusions from the facts. */
#include "node-agent/probe.h"

#include <stdio.h>
#include <string.h>

#include "common/field.h"
#include "common/json.h"
#include "common/log.h"
#include "node-agent/bandwidth.h"
#include "node-agent/chips.h"
#include "node-agent/host.h"
#include "node-agent/profile.h"

#include "common/banned.h"

enum { CACHE_MAX_BYTES = 4096 };

/* The measurement holds for one machine only: a home may have moved. */
struct measured {
    char chip[WIRE_NAME_BYTES];
    uint64_t cores;
    uint64_t memory_bytes;
    double bandwidth_gb_s;
};

static const struct field measured_fields[] = {
    FIELD(struct measured, chip, FIELD_TEXT, .required = true),
    FIELD(struct measured, cores, FIELD_U64, .required = true),
    FIELD(struct measured, memory_bytes, FIELD_U64, .required = true),
    FIELD(struct measured, bandwidth_gb_s, FIELD_DOUBLE, .required = true,
          .fmin = 0.0, .fmax = 100000.0),
};

void
probe_note(struct probe *probe, const char *field, const char *reason)
{
    struct probe_unknown *unknown = &probe->unknown[probe->unknown_count];

    for (size_t i = 0; i < probe->unknown_count; i++)
        if (strcmp(probe->unknown[i].field, field) == 0)
            return;
    if (probe->unknown_count == COUNT_OF(probe->unknown))
        return;
    snprintf(unknown->field, sizeof(unknown->field), "%s", field);
    snprintf(unknown->reason, sizeof(unknown->reason), "%s", reason);
    probe->unknown_count++;
}

/* --- bandwidth --- */

static bool
recall_bandwidth(const struct home *home, struct wire_facts *facts)
{
    struct measured measured = {0};
    struct buf text;
    bool is_ours = false;

    if (home_read(home, "probe", &text, NULL) == STATUS_OK &&
        field_decode_text(text.data, text.size, measured_fields,
                          COUNT_OF(measured_fields), &measured,
                          sizeof(measured), NULL) == STATUS_OK)
        is_ours = strcmp(measured.chip, facts->chip) == 0 &&
                  measured.cores == facts->cores &&
                  measured.memory_bytes == facts->memory_bytes &&
                  measured.bandwidth_gb_s > 0;
    buf_clear(&text);
    if (is_ours)
        facts->bandwidth_gb_s = measured.bandwidth_gb_s;
    return is_ours;
}

static void
keep_bandwidth(const struct home *home, const struct wire_facts *facts)
{
    struct measured measured = {.cores = facts->cores,
                                .memory_bytes = facts->memory_bytes,
                                .bandwidth_gb_s = facts->bandwidth_gb_s};
    struct error err = {0};
    struct json_out out;
    struct buf text;

    snprintf(measured.chip, sizeof(measured.chip), "%s", facts->chip);
    buf_init(&text, CACHE_MAX_BYTES);
    json_out_init(&out, &text);
    json_open_object(&out);
    field_encode(&out, measured_fields, COUNT_OF(measured_fields), &measured);
    json_close_object(&out);
    if (home_has(home, ".") &&
        home_write(home, "probe", text.data, text.size, &err) != STATUS_OK)
        log_warn("probe.keep", "reason=%s", LOG_QUOTED(err.text));
    buf_clear(&text);
}

static void
find_bandwidth(const struct home *home, struct probe *probe)
{
    struct wire_facts *facts = &probe->facts;
    struct error err = {0};

    if (home != NULL && recall_bandwidth(home, facts)) {
        facts->has_bandwidth_gb_s = true;
    } else if (bandwidth_measure(facts->cores, facts->memory_bytes,
                                 &facts->bandwidth_gb_s, &err) == STATUS_OK) {
        facts->has_bandwidth_gb_s = true;
        if (home != NULL)
            keep_bandwidth(home, facts);
    } else {
        probe_note(probe, "bandwidth_gb_s", err.text);
    }
    facts->bandwidth_measured = facts->has_bandwidth_gb_s;
}

/* --- conclusions --- */

static void
consult_chip_table(struct probe *probe)
{
    struct wire_facts *facts = &probe->facts;
    struct chip_facts chip = {0};

    if (facts->chip[0] == '\0') {
        probe_note(probe, "bandwidth_gb_s", "the chip is not known");
        probe_note(probe, "gpu_cores", "the chip is not known");
        return;
    }
    if (!chip_find(facts->chip,
                   facts->has_memory_bytes ? facts->memory_bytes : 0, &chip)) {
        probe_note(probe, "bandwidth_gb_s", "the chip is not in the table");
        probe_note(probe, "gpu_cores", "the chip is not in the table");
        return;
    }
    if (chip.has_bandwidth_gb_s) {
        facts->has_bandwidth_gb_s = true;
        facts->bandwidth_gb_s = (double)chip.bandwidth_gb_s;
    } else {
        probe_note(probe, "bandwidth_gb_s",
                   "this chip comes with several; the memory size does not "
                   "tell which");
    }
    facts->has_gpu_cores = chip.has_gpu_cores;
    facts->gpu_cores = chip.gpu_cores;
    if (!chip.has_gpu_cores)
        probe_note(probe, "gpu_cores",
                   "this chip comes with several counts of GPU cores");
}

static void
find_working_set(struct probe *probe)
{
    const struct wire_facts *facts = &probe->facts;

    if (probe->has_wired_limit_mb && probe->wired_limit_mb > 0) {
        probe->working_set_bytes = probe->wired_limit_mb * MIB;
        snprintf(probe->working_set_source, sizeof(probe->working_set_source),
                 "sysctl");
    } else if (facts->has_memory_bytes) {
        probe->working_set_bytes = chip_working_set_bytes(facts->memory_bytes);
        snprintf(probe->working_set_source, sizeof(probe->working_set_source),
                 "table");
    }
    /* No setting makes more memory than there is. */
    if (facts->has_memory_bytes &&
        probe->working_set_bytes > facts->memory_bytes)
        probe->working_set_bytes = facts->memory_bytes;
}

static void
set_limit(struct wire_facts *facts, uint64_t bytes, const char *source)
{
    facts->has_limit_bytes = true;
    facts->limit_bytes = bytes;
    snprintf(facts->limit_source, sizeof(facts->limit_source), "%s", source);
}

/* Working set, limit and chip table, from what was read. */
static void
conclude(struct probe *probe, uint64_t memory_cap)
{
    struct wire_facts *facts = &probe->facts;

    if (strcmp(facts->os, "macos") == 0) {
        consult_chip_table(probe);
        find_working_set(probe);
        if (probe->working_set_source[0] != '\0')
            set_limit(facts, probe->working_set_bytes,
                      probe->working_set_source);
    } else if (facts->has_memory_bytes) {
        set_limit(facts, facts->memory_bytes / 4 * 3, "memory");
    }
    /* A cap tells what the owner lends even where memory is unknown. */
    if (memory_cap > 0 &&
        (!facts->has_limit_bytes || memory_cap < facts->limit_bytes))
        set_limit(facts, memory_cap, "config");
}

static void
take_host(const struct host_facts *host, struct probe *probe)
{
    struct wire_facts *facts = &probe->facts;

    snprintf(facts->os, sizeof(facts->os), "%s", host->os);
    snprintf(facts->chip, sizeof(facts->chip), "%s", host->chip);
    facts->has_model_identifier = host->model_identifier[0] != '\0';
    snprintf(facts->model_identifier, sizeof(facts->model_identifier), "%.31s",
             host->model_identifier);
    facts->has_macos_version = host->macos_version[0] != '\0';
    snprintf(facts->macos_version, sizeof(facts->macos_version), "%.31s",
             host->macos_version);
    facts->has_macos_build = host->macos_build[0] != '\0';
    snprintf(facts->macos_build, sizeof(facts->macos_build), "%.31s",
             host->macos_build);
    facts->has_memory_bytes = host->has_memory_bytes;
    facts->memory_bytes = host->memory_bytes;
    facts->has_cores = host->has_cores;
    facts->cores = host->cores;
    probe->has_wired_limit_mb = host->has_wired_limit_mb;
    probe->wired_limit_mb = host->wired_limit_mb;
}

/* The two readings are not of one moment. */
static uint64_t
percent_of(uint64_t part, uint64_t whole)
{
    if (part >= whole)
        return 100;
    return (uint64_t)((double)part / (double)whole * 100);
}

void
probe_host(const struct home *home, uint64_t memory_cap, struct probe *probe)
{
    struct host_facts host;
    uint64_t free_bytes;

    *probe = (struct probe){0};
    host_read(&host);
    take_host(&host, probe);
    if (probe->facts.chip[0] == '\0')
        probe_note(probe, "chip", "the system does not name it");
    if (!probe->facts.has_memory_bytes)
        probe_note(probe, "memory_bytes", "the system does not tell");
    else if (host_free_bytes(&free_bytes)) {
        probe->has_free_percent = true;
        probe->free_percent = percent_of(free_bytes, probe->facts.memory_bytes);
    }
    conclude(probe, memory_cap);
    if (!probe->facts.has_bandwidth_gb_s)
        find_bandwidth(home, probe);
}

void
probe_profile(const char *folder, uint64_t memory_cap, struct probe *probe)
{
    *probe = (struct probe){.simulated = true};
    profile_read(folder, probe);
    conclude(probe, memory_cap);
}

/* --- output --- */

static void
put_text(struct json_out *out, const char *name, bool has, const char *text)
{
    json_member_text(out, name, has ? text : NULL);
}

static void
put_u64(struct json_out *out, const char *name, bool has, uint64_t value)
{
    if (has)
        json_member_u64(out, name, value);
    else
        json_member_null(out, name);
}

static void
put_double(struct json_out *out, const char *name, bool has, double value)
{
    if (has)
        json_member_double(out, name, value);
    else
        json_member_null(out, name);
}

static void
put_macos(struct json_out *out, const struct wire_facts *facts)
{
    json_key(out, "macos");
    if (!facts->has_macos_version && !facts->has_macos_build) {
        json_put_null(out);
        return;
    }
    json_open_object(out);
    put_text(out, "version", facts->has_macos_version, facts->macos_version);
    put_text(out, "build", facts->has_macos_build, facts->macos_build);
    json_close_object(out);
}

static void
put_facts(struct json_out *out, const struct probe *probe)
{
    const struct wire_facts *facts = &probe->facts;
    bool has_set = probe->working_set_source[0] != '\0';

    json_member_text(out, "os", facts->os);
    put_text(out, "chip", facts->chip[0] != '\0', facts->chip);
    put_text(out, "model_identifier", facts->has_model_identifier,
             facts->model_identifier);
    put_u64(out, "cores", facts->has_cores, facts->cores);
    put_u64(out, "gpu_cores", facts->has_gpu_cores, facts->gpu_cores);
    put_u64(out, "memory_bytes", facts->has_memory_bytes, facts->memory_bytes);
    put_double(out, "bandwidth_gb_s", facts->has_bandwidth_gb_s,
               facts->bandwidth_gb_s);
    json_member_bool(out, "bandwidth_measured", facts->bandwidth_measured);
    put_u64(out, "working_set_limit_bytes", has_set, probe->working_set_bytes);
    put_text(out, "working_set_source", has_set, probe->working_set_source);
    put_u64(out, "limit_bytes", facts->has_limit_bytes, facts->limit_bytes);
    put_text(out, "limit_source", facts->has_limit_bytes, facts->limit_source);
    put_macos(out, facts);
}

/* What this form of the probe does not read. */
static const char *const unread[] = {"thunderbolt", "rdma",   "bridge", "power",
                                     "thermal",     "idle_s", "locked"};

static void
put_reason(struct json_out *out, const char *field, const char *reason)
{
    json_open_object(out);
    json_member_text(out, "field", field);
    json_member_text(out, "reason", reason);
    json_close_object(out);
}

static void
put_reasons(struct json_out *out, const struct probe *probe)
{
    const struct wire_facts *facts = &probe->facts;
    bool is_mac = strcmp(facts->os, "macos") == 0;
    const char *not_mac = "this machine is not a Mac";

    json_key(out, "unknown");
    json_open_list(out);
    for (size_t i = 0; i < probe->unknown_count; i++)
        put_reason(out, probe->unknown[i].field, probe->unknown[i].reason);
    if (!is_mac) {
        put_reason(out, "model_identifier", not_mac);
        put_reason(out, "gpu_cores", not_mac);
        put_reason(out, "working_set_limit_bytes", not_mac);
    }
    if (!facts->has_macos_version)
        put_reason(out, "macos",
                   is_mac ? "sw_vers is not read by this form of the probe"
                          : not_mac);
    for (size_t i = 0; i < COUNT_OF(unread); i++)
        put_reason(out, unread[i], "not read by this form of the probe");
    if (!probe->has_free_percent)
        put_reason(out, "memory_free_percent",
                   "not read by this form of the probe");
    json_close_list(out);
}

void
probe_write(const struct probe *probe, struct buf *text)
{
    struct json_out out;

    json_out_init(&out, text);
    json_open_object(&out);
    json_member_bool(&out, "simulated", probe->simulated);
    put_facts(&out, probe);
    for (size_t i = 0; i < COUNT_OF(unread); i++)
        json_member_null(&out, unread[i]);
    put_u64(&out, "memory_free_percent", probe->has_free_percent,
            probe->free_percent);
    put_reasons(&out, probe);
    json_close_object(&out);
    buf_append_char(text, '\n');
}

void
probe_complain(const struct probe *probe)
{
    for (size_t i = 0; i < probe->unknown_count; i++)
        log_warn("probe.unknown", "field=%s reason=%s", probe->unknown[i].field,
                 LOG_QUOTED(probe->unknown[i].reason));
}
